package outages

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/it/recorded"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
	"github.com/hence-dev/hence/topology/pause"
)

// record is set by -record, which writes recorded logs again.
var record = flag.Bool("record", false, "TestRecordPrevious: record again what a build leaves behind")

// previousFolder holds what a build left when its processors were killed under load: every record and offset.
const previousFolder = "testdata/previous/gate"

// TestRecordPrevious kills the processors under load and records what they left; it does nothing without -record.
func TestRecordPrevious(t *testing.T) {
	if !*record {
		t.Skip("nothing to do: the flag -record writes again what a build leaves behind; the build is named by BUILD")
	}
	const agents = 4
	d, load := harness.Over(t, harness.StartOwn(t)), newBoxLoad()
	d.Workspace = "w-" + d.Workspace
	if err := streams.EnsureTopics(t.Context(), d.Config); err != nil {
		t.Fatal(err)
	}
	m := d.StartMember(t, harness.Binary(t), "a", "previous")
	end := load.run(t.Context(), agentsOf(t, d, harness.OpenShop(t).SidecarsApart(t, d, agents)))
	err := load.reach(150, boxAgain)
	if err == nil {
		err = m.Kill()
	}
	if err == nil {
		err = pause.Sleep(t.Context(), time.Second) // sidecars go on appending
	}
	if err != nil {
		t.Fatal(err)
	}
	left := compacted(dump(t, d.Brokers))
	go m.Restart(t) // so that the agents come to their end
	end()
	said, err := describe(left, d.Workspace)
	if err != nil {
		t.Fatal(err)
	}
	said.Build = os.Getenv("BUILD")
	text, err := json.MarshalIndent(said, "", " ")
	if err == nil {
		err = os.MkdirAll(previousFolder, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(previousFolder, "left.json"), append(text, '\n'), 0o644)
	}
	if err == nil {
		err = writeDump(filepath.Join(previousFolder, "left.gz"), left)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// describe is what this build makes of what was left.
func describe(left []dumped, workspace string) (previous, error) {
	var p previous
	var err error
	frames := framesIn(left, workspace)
	if p.Log, err = recorded.Replay(workspace, frames, 0); err != nil {
		return p, err
	}
	for _, d := range left {
		if d.Group != "" || d.Topic != topology.TableOf(topology.GroupSequencer) || d.Key != workspace {
			continue
		}
		state, err := topology.DecodeReplica(d.Value)
		if err != nil {
			return p, fmt.Errorf("the row of %s: %w", workspace, err)
		}
		replica, err := sequencer.RestoreReplica(*state)
		if err != nil {
			return p, fmt.Errorf("the row of %s: %w", workspace, err)
		}
		p.RowOffset, p.RowHash = state.Offset, fmt.Sprintf("%x", replica.Fold().StateHash())
	}
	if p.RowHash == "" {
		return p, fmt.Errorf("the sequencer's table has no row of %s", workspace)
	}
	if end := frames[len(frames)-1].Offset; p.RowOffset >= end {
		return p, fmt.Errorf("the row is at offset %d, the log ends at %d: nothing was left to fold", p.RowOffset, end)
	}
	return p, nil
}
