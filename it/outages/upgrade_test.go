package outages

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/hence-dev/hence/it/check"
	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/it/recorded"
	"github.com/hence-dev/hence/it/tables"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// previousBuild reads what a former build left and what it said of that.
func previousBuild(t *testing.T) ([]dumped, previous) {
	t.Helper()
	left, err := readDump(filepath.Join(previousFolder, "left.gz"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(previousFolder, "left.json"))
	if err != nil {
		t.Fatal(err)
	}
	var said previous
	if err := json.Unmarshal(text, &said); err != nil {
		t.Fatal(err)
	}
	return left, said
}

// TestPreviousRows reads the rows of a former build's tables and the log under them: this build makes the same hashes
// of both.
func TestPreviousRows(t *testing.T) {
	left, want := previousBuild(t)
	got, err := describe(left, want.Log.Workspace)
	if err == nil {
		err = got.Log.Same(want.Log)
	}
	if err != nil {
		t.Fatalf("what build %s left: %v", want.Build, err)
	}
	if got.RowOffset != want.RowOffset || got.RowHash != want.RowHash {
		t.Errorf("the state at offset %d has hash %s, build %s said offset %d and %s", got.RowOffset, got.RowHash,
			want.Build, want.RowOffset, want.RowHash)
	}
	frames := framesIn(left, want.Log.Workspace)
	under := 0
	for under < len(frames) && frames[under].Offset <= want.RowOffset {
		under++
	}
	then, err := recorded.Replay(want.Log.Workspace, frames[:under], 0)
	if err != nil || then.StateHash != want.RowHash {
		t.Errorf("the log up to offset %d leads to a state with hash %s, the row has %s: %v", want.RowOffset, then.StateHash,
			want.RowHash, err)
	}
	closures, frontiers := 0, 0
	for _, d := range left {
		switch {
		case d.Group != "" || d.Key == "":
			continue
		case d.Topic == topology.TableOf(topology.GroupClosure):
			_, err = topology.DecodeClosureRow(d.Value)
			closures++
		case d.Topic == topology.TableOf(topology.GroupFrontier):
			_, err = topology.DecodeFrontierRow(d.Value)
			frontiers++
		}
		if err != nil {
			t.Fatalf("the row %s of %s: %v", d.Key, d.Topic, err)
		}
	}
	t.Logf("build %s left %d intents, seq %d, a state at offset %d, %d closure rows, %d frontier rows: hashes equal",
		want.Build, want.Log.Records, want.Log.Seq, want.RowOffset, closures, frontiers)
	if closures == 0 || frontiers == 0 {
		t.Error("a table is empty")
	}
}

// TestPreviousRowsCanFail changes what a former build left and holds that this is noticed.
func TestPreviousRowsCanFail(t *testing.T) {
	left, want := previousBuild(t)
	var fewer []dumped
	for i, d := range left {
		if d.Group == "" && d.Topic == topology.TopicIntents && i%7 == 0 {
			continue
		}
		fewer = append(fewer, d)
	}
	if got, err := describe(fewer, want.Log.Workspace); err == nil && got.Log.Same(want.Log) == nil {
		t.Error("a log without some of its records leads to the same hashes")
	}
}

// TestUpgrade starts this build's processors over all that a former build left when it was killed: half of its log was
// folded and not all that was folded was published. They go on where it was, agents work, and everything holds.
func TestUpgrade(t *testing.T) {
	left, want := previousBuild(t)
	d := harness.Over(t, harness.StartOwn(t))
	d.Workspace = want.Log.Workspace
	restore(t, d.Brokers, left)
	before, _ := harness.Recorded(t, d.Servers, d.Workspace)
	m := d.StartMember(t, harness.Binary(t), "a", "upgraded")
	var outcomes []*sequencer.Outcome
	harness.Eventually(t, harness.RecordedIn, func() error {
		outcomes, _ = harness.Recorded(t, d.Servers, d.Workspace)
		if n := uint64(len(outcomes)); n < want.Log.Seq {
			return fmt.Errorf("%d of %d decisions are there\n%s", n, want.Log.Seq, m.Words())
		}
		return nil
	})
	if chain := fmt.Sprintf("%x", outcomes[want.Log.Seq-1].Chain); chain != want.Log.Chain {
		t.Fatalf("at seq %d the chain is %s, build %s had %s", want.Log.Seq, chain, want.Build, want.Log.Chain)
	}
	load := newBoxLoad()
	agents := agentsOf(t, d, harness.OpenShop(t).SidecarsApart(t, d, 4)) // with the names of the former build's
	end := load.run(t.Context(), agents)
	err := load.reach(40, boxAgain)
	end()
	if err != nil {
		t.Fatal(err)
	}
	load.lastOnes(t, agents)
	outcomes = harness.DecisionsOf(t, d.Servers, d.Workspace, load.attempts)
	harness.Holds(t, append(committedBy(outcomes[:want.Log.Seq]), load.attempts...), outcomes)
	recorded.Agrees(t, d.Brokers, d.Workspace, outcomes, 97)
	closures, frontiers := tables.Equal(t, d)
	figures, _ := load.figures()
	t.Logf("%s: build %s left %d decisions of %d; this one made the others, the chain is the same; %s; the log has %d "+
		"decisions; tables equal by force: %d transactions, %d scopes", d.Kind, want.Build,
		len(before), want.Log.Seq, figures, len(outcomes), closures, frontiers)
	if len(before) >= int(want.Log.Seq) {
		t.Error("the former build had published everything: nothing was put to the test")
	}
}

// committedBy are the commits of a log as attempts of agents that are not there to be asked.
func committedBy(outcomes []*sequencer.Outcome) (all []check.Attempt) {
	for _, o := range outcomes {
		if o.Kind != sequencer.OutcomeCommitted {
			continue
		}
		a := check.Attempt{Agent: o.Agent, Tx: string(o.Tx), State: check.Committed, Seq: uint64(o.Seq)}
		for _, w := range o.Writes {
			a.Writes = append(a.Writes, check.Write{Scope: string(w.Scope)})
		}
		all = append(all, a)
	}
	return all
}
