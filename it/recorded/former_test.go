package recorded

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// Logs of workspaces under the logics before 3, as commit eb0f1a1 decided them: it knew no later one. TestRecordFormer
// made them there. Their records are of a kind that sidecars seldom send, because that is where logic 3 decides
// otherwise.
const (
	formerFolder = "testdata/former"
	formerBuild  = "eb0f1a1"
)

// formerLogs are the names of the recorded logs.
func formerLogs() []string { return []string{"switches", "random", "from-1"} }

// TestFormerLogs replays the logs of logic 1 and 2: outcomes, their JSON, the states and the rows on the way have the
// bytes that they had.
func TestFormerLogs(t *testing.T) {
	for _, name := range formerLogs() {
		t.Run(name, func(t *testing.T) { keepsRow(t, name, Keeps(t, formerFolder, name)) })
	}
}

// keepsRow holds that the last row is written as it was, and that the row which the former build wrote is read as the
// state after the last record.
func keepsRow(t *testing.T, name string, frames []Frame) {
	t.Helper()
	row, err := readRow(name)
	if err != nil {
		t.Fatal(err)
	}
	state, err := topology.DecodeReplica(row)
	if err != nil {
		t.Fatalf("the last row is not read any more: %v", err)
	}
	if state.State.Rules.Logic != FormerLogic {
		t.Errorf("the log ends under logic %d, want %d", state.State.Rules.Logic, FormerLogic)
	}
	replica, err := sequencer.RestoreReplica(*state)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Replay(state.State.Workspace, frames, 0)
	if err != nil {
		t.Fatal(err)
	}
	if hash := fmt.Sprintf("%x", replica.Fold().StateHash()); hash != got.StateHash {
		t.Errorf("the row that was written leads to a state with hash %s, the log to %s", hash, got.StateHash)
	}
	if !bytes.Equal(got.row, row) {
		t.Errorf("the last row has %d bytes that differ from the %d that were written", len(got.row), len(row))
	}
}

// TestFormerLogsCanFail drops one record after the other in turn and holds that the replay notices each, but for those
// that change nothing.
func TestFormerLogsCanFail(t *testing.T) {
	frames, err := readFrames(filepath.Join(formerFolder, formerLogs()[0]+".gz"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := Replay("w", frames, 0)
	if err != nil {
		t.Fatal(err)
	}
	missed, tried := 0, 0
	for at := 3; at < len(frames)-1; at += len(frames) / 23 {
		tried++
		got, err := Replay("w", append(frames[:at:at], frames[at+1:]...), 0)
		got.Records++ // so that only what was decided can tell
		if err == nil && got.Same(want) == nil {
			missed++
		}
	}
	t.Logf("%d logs without one of their records, %d of them lead to the same hashes", tried, missed)
	if missed > tried/4 {
		t.Error("too many records can be dropped without a trace")
	}
}

// TestFormerLogsCanFailInBytes changes each hash that is kept and holds that the comparison sees it.
func TestFormerLogsCanFailInBytes(t *testing.T) {
	frames, err := readFrames(filepath.Join(formerFolder, formerLogs()[0]+".gz"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := Replay("w", frames, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := want.Same(want); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(h *Hashes){
		"outcomes": func(h *Hashes) { h.Outcomes = "other" },
		"data":     func(h *Hashes) { h.Data = "other" },
		"rows":     func(h *Hashes) { h.Rows = "other" },
		"states":   func(h *Hashes) { h.States = map[int]string{stateEvery - 1: "other"} },
		"ignored":  func(h *Hashes) { h.Ignored++ },
	} {
		other := want
		if change(&other); want.Same(other) == nil {
			t.Errorf("%s: a difference is not seen", name)
		}
	}
}

func rowPath(name string) string { return filepath.Join(formerFolder, name+".row.gz") }

func readRow(name string) ([]byte, error) {
	file, err := os.Open(rowPath(name))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	packed, err := gzip.NewReader(file)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(packed, maxFrameBytes))
}

func writeRow(name string, row []byte) error {
	var raw bytes.Buffer
	packed := gzip.NewWriter(&raw)
	if _, err := packed.Write(row); err != nil {
		return err
	}
	if err := packed.Close(); err != nil {
		return err
	}
	return os.WriteFile(rowPath(name), raw.Bytes(), 0o644)
}
