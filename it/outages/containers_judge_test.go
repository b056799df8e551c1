package outages

import (
	"fmt"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/check"
	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/it/recorded"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// boxRest is how long it may take after the last fault until nothing is left open and every effect has arrived.
const boxRest = 90 * time.Second

// judge waits until everything has come to rest and runs every check.
func (l *boxLab) judge(t *testing.T) {
	t.Helper()
	var found *check.Effects
	var outcomes []*sequencer.Outcome
	harness.Eventually(t, boxRest, func() error {
		outcomes = harness.DecisionsOf(t, l.Servers, l.Workspace, l.load.attempts)
		found = l.effects(t, outcomes)
		if open := append(found.Unresolved(), found.Lost()...); len(open) > 0 {
			return fmt.Errorf("%d things are left, among them: %s", len(open), open[0])
		}
		return nil
	})
	harness.Holds(t, l.load.attempts, outcomes)
	for _, violations := range [][]check.Violation{found.Leaks(), found.Duplicates(), found.Lost(), found.Orders()} {
		harness.NoViolations(t, violations)
	}
	replays(t, l.Deployment, outcomes)
	commits := 0
	for _, o := range outcomes {
		if o.Kind == sequencer.OutcomeCommitted {
			commits++
		}
	}
	t.Logf("%d decisions, %d commits; %d effects issued, %d at their sinks, %d residues", len(outcomes), commits,
		len(found.Issued), len(found.Sent), len(found.Residue))
	if len(found.Sent) == 0 {
		t.Error("no effect arrived: nothing was put to the test")
	}
}

// effects is what agents issued beside what the log, the sinks and the residue have.
func (l *boxLab) effects(t *testing.T, outcomes []*sequencer.Outcome) *check.Effects {
	t.Helper()
	mails, _ := l.shop.Mails(t)
	all := &check.Effects{Issued: l.load.Issued, Sent: append(mails, l.shop.Charges(t)...)}
	all.Attempts, all.Decisions = l.load.attempts, harness.Checked(outcomes)
	all.Residue = harness.Residue(t, l.residents[0])
	return all
}

// replays folds the log once more: it leads to the decisions that were published, and to the state that the
// processors wrote.
func replays(t *testing.T, d *harness.Deployment, outcomes []*sequencer.Outcome) {
	t.Helper()
	row := harness.ReadTable(t, d.Brokers, topology.TableOf(topology.GroupSequencer), d.Workspace)[d.Workspace]
	state, err := topology.DecodeReplica(row)
	if err != nil {
		t.Fatalf("the row of %s in the sequencer's table: %v", d.Workspace, err)
	}
	written, err := sequencer.RestoreReplica(*state)
	if err != nil {
		t.Fatal(err)
	}
	var frames []recorded.Frame // read after the row: a state is never ahead of the log
	under := 0
	for _, r := range harness.ReadTopic(t, d.Brokers, topology.TopicIntents, d.Workspace) {
		if frames = append(frames, recorded.Frame{Offset: r.Offset, Value: r.Value}); r.Offset <= state.Offset {
			under++
		}
	}
	got, err := recorded.Replay(d.Workspace, frames, 97)
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
	then, err := recorded.Replay(d.Workspace, frames[:under], 0)
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
