package recorded

import (
	"fmt"
	"testing"

	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// Agrees folds the log of a workspace once more: it leads to the decisions that were published, and to the state that
// the processors wrote. Every stride records the replica is written down and read back.
func Agrees(t testing.TB, brokers []string, workspace string, outcomes []*sequencer.Outcome, stride int) {
	t.Helper()
	row := harness.ReadTable(t, brokers, topology.TableOf(topology.GroupSequencer), workspace)[workspace]
	state, err := topology.DecodeReplica(row)
	if err != nil {
		t.Fatalf("the row of %s in the sequencer's table: %v", workspace, err)
	}
	written, err := sequencer.RestoreReplica(*state)
	if err != nil {
		t.Fatal(err)
	}
	var frames []Frame // read after the row: a state is never ahead of the log
	under := 0
	for _, r := range harness.ReadTopic(t, brokers, topology.TopicIntents, workspace) {
		if frames = append(frames, Frame{Offset: r.Offset, Value: r.Value}); r.Offset <= state.Offset {
			under++
		}
	}
	got, err := Replay(workspace, frames, stride)
	if err == nil {
		err = got.Known()
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range outcomes {
		if chain := got.Chains[uint64(o.Seq)]; chain != "" && chain != fmt.Sprintf("%x", o.Chain) {
			t.Fatalf("at seq %d the processors had chain %x, the replay has %s", o.Seq, o.Chain, chain)
		}
	}
	then, err := Replay(workspace, frames[:under], 0)
	if err != nil {
		t.Fatal(err)
	}
	if hash := fmt.Sprintf("%x", written.Fold().StateHash()); hash != then.StateHash {
		t.Errorf("the processors wrote a state with hash %s after offset %d, the replay has %s", hash, state.Offset,
			then.StateHash)
	}
	t.Logf("replay: %d records, seq %d, chain %.16s; the state that was written after %d records has the hash %.16s",
		len(frames), got.Seq, got.Chain, under, then.StateHash)
}
