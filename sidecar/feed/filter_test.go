package feed

import (
	"slices"
	"testing"

	"github.com/hence-dev/hence/sequencer"
)

// Each part of a filter picks what it names and nothing else.
func TestFilter(t *testing.T) {
	aborted := &sequencer.Outcome{Kind: sequencer.OutcomeAborted, Tx: "a.1.1", Agent: "a", Code: sequencer.CodeStaleRead,
		Scope: "shard:/orders/1"}
	observed := &sequencer.Outcome{Kind: sequencer.OutcomeCommitted, Tx: "b.1.1", Agent: "b",
		Would: sequencer.CodeStaleRead, Writes: []sequencer.Write{{Scope: "shard:/orders/2"}}}
	started := &sequencer.Outcome{Kind: sequencer.OutcomeRetracting, Tx: "c.1.1", Retraction: "c.1.1", Agent: "c",
		Cone: []sequencer.TxID{"b.1.1"}}
	selected := &sequencer.Outcome{Kind: sequencer.OutcomeSelected, Winner: "a.1.1"}
	granted := &sequencer.Outcome{Kind: sequencer.OutcomeGranted, Tx: "d.1.1", Agent: "d",
		Added: []sequencer.Hold{{Scope: "mail:/box"}}}
	all := []*sequencer.Outcome{aborted, observed, started, selected, granted}
	for _, c := range []struct {
		tx, agent, scope, reason, kind string
		want                           []*sequencer.Outcome
	}{
		{want: all},
		{tx: "a.1.1", want: []*sequencer.Outcome{aborted, selected}},
		{tx: "b.1.1", want: []*sequencer.Outcome{observed, started}},
		{tx: "c.1.1", want: []*sequencer.Outcome{started}},
		{agent: "b", want: []*sequencer.Outcome{observed}},
		{reason: "stale_read", want: []*sequencer.Outcome{aborted, observed}},
		{kind: "granted", want: []*sequencer.Outcome{granted}},
		{scope: "shard:/orders", want: []*sequencer.Outcome{aborted, observed}},
		{scope: "shard:/orders/2/lines", want: []*sequencer.Outcome{observed}},
		{scope: "mail:/*", want: []*sequencer.Outcome{granted}},
		{scope: "shard:/orders", kind: "aborted", want: []*sequencer.Outcome{aborted}},
		{agent: "a", kind: "committed"},
	} {
		f, err := NewFilter(c.tx, c.agent, c.scope, c.reason, c.kind)
		if err != nil {
			t.Fatal(err)
		}
		var got []*sequencer.Outcome
		for _, o := range all {
			if f.Match(o) {
				got = append(got, o)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v picks %d decisions, want %d", f, len(got), len(c.want))
		}
	}
	if kinds := Kinds(); len(kinds) < 16 || slices.Contains(kinds, "unknown") {
		t.Errorf("kinds: %v", kinds)
	}
}
