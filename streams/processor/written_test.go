package processor

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// A decision that was written here is read once, and as its record reads; any other record is read as it is.
func TestWrittenDecisionsAreReadOnce(t *testing.T) {
	w := newWrittenDecisions()
	write := func(seq sequencer.Seq, trace string, content int) []byte {
		event, message, err := topology.EncodeDecision(&sequencer.Outcome{Workspace: "w", Seq: seq, Tx: "t",
			Kind: sequencer.OutcomeCommitted, Shards: []sequencer.ShardWrite{{Scope: "shard:/a",
				Content: make([]byte, content)}}}, time.Unix(1, 0), trace)
		if err != nil {
			t.Fatal(err)
		}
		w.add(event, message)
		return event
	}
	read := func(event []byte) *sequencer.Outcome {
		t.Helper()
		got, err := w.decode(event)
		want, wantErr := topology.DecodeCloudEvent(event)
		if fmt.Sprint(err) != fmt.Sprint(wantErr) || !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v, %v, want %+v, %v", got, err, want, wantErr)
		}
		return got
	}
	first := write(1, "", 10)
	if read(first) != read([]byte(string(first))) {
		t.Error("a decision that was written here is read twice")
	}
	other, _, err := topology.EncodeDecision(&sequencer.Outcome{Workspace: "w", Seq: 1, Tx: "u",
		Kind: sequencer.OutcomeAborted}, time.Unix(1, 0), "")
	if err != nil {
		t.Fatal(err)
	}
	if a, b := read(other), read(other); a.Tx != "u" || a == b {
		t.Error("a record that was not written here is taken for one that was")
	}
	read([]byte("?"))
	for seq := range sequencer.Seq(2 * writtenMost) {
		write(seq+2, "", 1)
	}
	if a, b := read(first), read(first); a == b || len(w.of) != writtenMost || len(w.order) != writtenMost {
		t.Errorf("%d decisions are kept", len(w.of))
	}
	for seq := range sequencer.Seq(30) {
		write(seq+5000, "", 200<<10)
	}
	if w.bytes > writtenBytes || len(w.of) == 0 || len(w.of) != len(w.order) {
		t.Errorf("%d bytes of %d decisions are kept", w.bytes, len(w.of))
	}
}
