package recorded

import (
	"flag"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/hence-dev/hence/it/harness"
)

// TestRecordedLogs replays the logs that demo runs left when they were recorded. They must lead to the same decisions
// and the same state for ever: a change of the fold's rules is a new Logic, which takes effect by a record of the log.
func TestRecordedLogs(t *testing.T) {
	for _, order := range harness.Orders() {
		t.Run(order, func(t *testing.T) { Keeps(t, logsFolder, order) })
	}
}

// TestRecordedLogsCanFail changes one record of a log and holds that the replay notices.
func TestRecordedLogsCanFail(t *testing.T) {
	frames, err := readFrames(filepath.Join(logsFolder, harness.Orders()[0]+".gz"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := Replay("w", frames, 0)
	if err != nil {
		t.Fatal(err)
	}
	half := len(frames) / 2
	got, err := Replay("w", append(frames[:half:half], frames[half+1:]...), 0)
	if err == nil && got.Same(want) == nil {
		t.Error("a log without one of its records leads to the same hashes")
	}
}

// TestRecordLogs records the logs of demo runs; it does nothing without -record.
func TestRecordLogs(t *testing.T) {
	if !*record {
		t.Skip("nothing to do: the flag -record writes the recorded logs again, which changes what later versions must keep")
	}
	servers := harness.Start(t)
	for _, order := range harness.Orders() {
		args := []string{"--seed", "1", "--agents", "8", "--tasks", "20", "--order", order}
		report := harness.Audited(t, servers, args...)
		Record(t, servers, logsFolder, order, report.Workspace, fmt.Sprint("hence demo ", args))
	}
}

var record = flag.Bool("record", false, "TestRecordLogs: record the logs of demo runs again, with their hashes")
