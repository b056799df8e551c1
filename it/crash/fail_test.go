package crash

import (
	"strings"
	"testing"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/it/check"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// TestCrashJudge gives the judge of the crash windows one case of each thing that it must find, and some that are
// right.
func TestCrashJudge(t *testing.T) {
	started := gate.Progress{Started: true}
	for name, c := range map[string]struct {
		call    known
		end     string
		result  sequencer.Result
		unnamed bool // its settlement does not name it
		listed  bool
		journal *gate.Progress
		other   bool // settled without the journal
		want    string
	}{
		"a release": {call: known{tool: "charge", deed: deed{done: 1}}, end: "committed"},
		"twice":     {call: known{tool: "note", deed: deed{done: 2}}, end: "committed", want: "more than once"},
		"undone twice": {call: known{tool: "seat", deed: deed{done: 1, undone: 2}}, end: "aborted",
			want: "undone more than once"},
		"lost":        {call: known{tool: "charge"}, end: "committed", unnamed: true, want: "never arrived"},
		"leak":        {call: known{tool: "note", deed: deed{done: 1}}, end: "aborted", unnamed: true, want: "leak"},
		"compensated": {call: known{tool: "reserve", deed: deed{done: 1, undone: 1}}, end: "aborted"},
		"not compensated": {call: known{tool: "reserve", deed: deed{done: 1}}, end: "aborted",
			want: "called clean, and stands"},
		"forgotten": {call: known{tool: "seat", deed: deed{done: 1}}, end: "aborted", unnamed: true,
			want: "does not name it"},
		"committed, never done": {call: known{tool: "reserve"}, end: "committed", unnamed: true, want: "does not stand"},
		"clean, never done":     {call: known{tool: "charge"}, end: "committed", want: "did not happen"},
		"leaked": {call: known{tool: "reserve", deed: deed{done: 1}}, end: "aborted", listed: true,
			result: sequencer.ResultLeaked},
		"leaked, yet gone": {call: known{tool: "reserve", deed: deed{done: 1, undone: 1}}, end: "aborted", listed: true,
			result: sequencer.ResultLeaked, want: "called leaked"},
		"partial": {call: known{tool: "charge"}, end: "committed", listed: true, result: sequencer.ResultPartial},
		"partial, yet sent": {call: known{tool: "charge", deed: deed{done: 1}}, end: "committed", listed: true,
			result: sequencer.ResultPartial, want: "said not to have left"},
		"not on the list": {call: known{tool: "gone"}, end: "committed", result: sequencer.ResultPartial,
			want: "the list of residues differ"},
		"unresolved": {call: known{tool: "note"}, end: "committed", listed: true, journal: &started,
			result: sequencer.ResultUnresolved},
		"unresolved, never begun": {call: known{tool: "note"}, end: "committed", listed: true, journal: &gate.Progress{},
			result: sequencer.ResultUnresolved, want: "could be known"},
		"unresolved with a key": {call: known{tool: "charge"}, end: "committed", listed: true, journal: &started,
			result: sequencer.ResultUnresolved, want: "could be known"},
		"unresolved to a stranger": {call: known{tool: "note"}, end: "committed", listed: true, other: true,
			result: sequencer.ResultUnresolved},
		"answered, unresolved to a stranger": {call: known{tool: "note", answered: true}, end: "committed", listed: true,
			other: true, result: sequencer.ResultUnresolved, want: "could be known"},
	} {
		at := spot{"a1.2.1", 0}
		one := &crashCase{calls: map[spot]*known{at: &c.call}, residue: map[spot]topology.Residue{}, stranger: c.other,
			decisions: []check.Decision{{Seq: 1, Kind: c.end, Tx: at.tx}}, settled: map[string]*sequencer.Settle{}}
		if !c.unnamed {
			one.settled[at.tx] = &sequencer.Settle{Effects: []sequencer.Settled{{Result: c.result}}}
		}
		if c.listed {
			one.residue[at] = topology.Residue{Tx: sequencer.TxID(at.tx), Result: c.result}
		}
		if c.journal != nil {
			one.journals = []map[spot]*gate.Progress{{at: c.journal}}
		}
		one.join()
		got := strings.Join(one.violations(), "\n")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: found %q, want %q", name, got, c.want)
		}
	}
}
