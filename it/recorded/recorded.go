// Package recorded reads, writes and replays recorded logs, which must lead to the same bytes for ever.
package recorded

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sequencer/replay"
	"github.com/hence-dev/hence/topology"
)

// A recorded log is a gzip of frames, one for each record of hence.intents of one workspace, in the order of the log:
// the offset as uvarint, the length of the value as uvarint, the value. Beside it, in JSON, lie its hashes.
const (
	logsFolder    = "testdata/spine"
	maxFrameBytes = 1 << 20
	chainEvery    = 50 // seqs between two chain hashes that are kept
	stateEvery    = 25 // records between two state hashes that are kept
)

// Hashes are what a recorded log must lead to, with every later version.
type Hashes struct {
	Command   string            `json:"command"` // that made it
	Workspace string            `json:"workspace"`
	Records   int               `json:"records"`
	Seq       uint64            `json:"seq"`        // of the last decision
	Chain     string            `json:"chain"`      // of that
	StateHash string            `json:"state_hash"` // of the state after the last record
	Chains    map[uint64]string `json:"chains"`     // at some seqs before

	// What the bytes are, too; absent from logs that were recorded without.
	Ignored  int            `json:"ignored,omitempty"`  // records that the fold could not read as intents
	States   map[int]string `json:"states,omitempty"`   // state hashes after some records
	Rows     string         `json:"rows,omitempty"`     // hash of all rows that are written after these
	Outcomes string         `json:"outcomes,omitempty"` // hash of all outcomes as the decisions topic has them
	Data     string         `json:"data,omitempty"`     // hash of all outcomes as JSON

	row []byte // the last one
}

// Frame is one recorded record.
type Frame struct {
	Offset int64
	Value  []byte
}

func writeFrames(path string, frames []Frame) error {
	var raw bytes.Buffer
	packed, err := gzip.NewWriterLevel(&raw, gzip.BestCompression)
	if err != nil {
		return err
	}
	for _, f := range frames {
		head := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(f.Offset)), uint64(len(f.Value)))
		if _, err := packed.Write(append(head, f.Value...)); err != nil {
			return err
		}
	}
	if err := packed.Close(); err != nil {
		return err
	}
	return os.WriteFile(path, raw.Bytes(), 0o644)
}

func readFrames(path string) ([]Frame, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	packed, err := gzip.NewReader(file)
	if err != nil {
		return nil, err
	}
	in := bufio.NewReader(packed)
	var frames []Frame
	for {
		offset, err := binary.ReadUvarint(in)
		if errors.Is(err, io.EOF) {
			return frames, nil
		}
		if err != nil {
			return nil, err
		}
		size, err := binary.ReadUvarint(in)
		if err == nil && size > maxFrameBytes {
			err = fmt.Errorf("frame %d has %d bytes", len(frames), size)
		}
		if err != nil {
			return nil, err
		}
		f := Frame{int64(offset), make([]byte, size)}
		if _, err := io.ReadFull(in, f.Value); err != nil {
			return nil, err
		}
		frames = append(frames, f)
	}
}

// folding is a log on its way through a replica, with the hashes of all that is written on that way.
type folding struct {
	replica              *sequencer.Replica
	out                  Hashes
	outcomes, data, rows hash.Hash
}

// Replay folds frames and returns what they lead to. Every stride records the replica is written down and read back,
// so that a state in the middle of the log is as good as the log before it; zero: never.
func Replay(workspace string, frames []Frame, stride int) (Hashes, error) {
	r := folding{replica: sequencer.NewReplica(workspace), outcomes: sha256.New(), data: sha256.New(), rows: sha256.New()}
	r.out = Hashes{Workspace: workspace, Records: len(frames), Chains: map[uint64]string{}, States: map[int]string{}}
	for i, f := range frames {
		if err := r.record(i, f, i == len(frames)-1); err != nil {
			return r.out, fmt.Errorf("record %d: %w", i, err)
		}
		if stride > 0 && i%stride == stride-1 {
			var err error
			if r.replica, err = rewritten(r.replica); err != nil {
				return r.out, fmt.Errorf("after record %d: %w", i, err)
			}
		}
	}
	r.out.StateHash = fmt.Sprintf("%x", r.replica.Fold().StateHash())
	r.out.Outcomes, r.out.Data, r.out.Rows = fmt.Sprintf("%x", r.outcomes.Sum(nil)), fmt.Sprintf("%x", r.data.Sum(nil)),
		fmt.Sprintf("%x", r.rows.Sum(nil))
	return r.out, nil
}

// record applies one record. The row is taken before its outcomes are acknowledged, so that it has an outbox.
func (r *folding) record(i int, f Frame, last bool) error {
	in, err := topology.DecodeIntent(f.Value)
	if err != nil {
		return err
	}
	applied, err := r.replica.Apply(f.Offset, in)
	if err != nil {
		return err
	}
	if applied.Ignored {
		r.out.Ignored++
	}
	for _, o := range applied.Outcomes {
		if err := r.outcome(&o); err != nil {
			return err
		}
	}
	if i%stateEvery == stateEvery-1 || last {
		r.out.States[i] = fmt.Sprintf("%x", r.replica.Fold().StateHash())
		row, err := written(r.replica)
		if err != nil {
			return err
		}
		r.rows.Write(row)
		r.out.row = row
	}
	for _, o := range applied.Outcomes {
		r.replica.Acknowledged(o.Seq)
	}
	return nil
}

// outcome notes a decision; a copy of a former one counts for the bytes only.
func (r *folding) outcome(o *sequencer.Outcome) error {
	b, err := topology.EncodeOutcome(o)
	if err != nil {
		return err
	}
	r.outcomes.Write(b)
	if b, err = topology.EncodeCloudEvent(o, time.Unix(0, 0).UTC(), ""); err != nil {
		return err
	}
	r.data.Write(b)
	if uint64(o.Seq) > r.out.Seq {
		r.out.Seq, r.out.Chain = uint64(o.Seq), fmt.Sprintf("%x", o.Chain)
		if r.out.Seq%chainEvery == 0 {
			r.out.Chains[r.out.Seq] = r.out.Chain
		}
	}
	return nil
}

// written is the replica's row as the sequencer's table has it.
func written(r *sequencer.Replica) ([]byte, error) {
	st := r.State()
	return topology.EncodeReplica(&st)
}

// rewritten is the replica that comes back from its written state.
func rewritten(r *sequencer.Replica) (*sequencer.Replica, error) {
	b, err := written(r)
	if err != nil {
		return nil, err
	}
	back, err := topology.DecodeReplica(b)
	if err != nil {
		return nil, err
	}
	return sequencer.RestoreReplica(*back)
}

// Known is an error where the fold could not read some of the records.
func (h Hashes) Known() error {
	if h.Ignored > 0 {
		return fmt.Errorf("%d of %d records are not known to this version", h.Ignored, h.Records)
	}
	return nil
}

// Same says where two replays of one log part.
func (h Hashes) Same(want Hashes) error {
	for seq := uint64(chainEvery); seq <= want.Seq; seq += chainEvery {
		if h.Chains[seq] != want.Chains[seq] {
			return fmt.Errorf("the decisions differ at or up to %d before seq %d", chainEvery-1, seq)
		}
	}
	if h.Records != want.Records || h.Seq != want.Seq || h.Chain != want.Chain {
		return fmt.Errorf("%d records lead to seq %d with chain %s, want %d, %d and %s", h.Records, h.Seq, h.Chain,
			want.Records, want.Seq, want.Chain)
	}
	if h.Ignored != want.Ignored {
		return fmt.Errorf("%d records are not known to this version, want %d", h.Ignored, want.Ignored)
	}
	for i := stateEvery - 1; i < want.Records; i += stateEvery {
		if state, kept := want.States[i]; kept && h.States[i] != state {
			return fmt.Errorf("the state differs at or up to %d before record %d: its hash is %s, want %s", stateEvery-1, i,
				h.States[i], state)
		}
	}
	if h.StateHash != want.StateHash {
		return fmt.Errorf("the decisions are the same, the state after them is not: its hash is %s, want %s", h.StateHash,
			want.StateHash)
	}
	for what, pair := range map[string][2]string{"rows": {h.Rows, want.Rows}, "outcomes": {h.Outcomes, want.Outcomes},
		"JSON data": {h.Data, want.Data}} {
		if pair[1] != "" && pair[0] != pair[1] {
			return fmt.Errorf("decisions and states are the same, the bytes of the %s are not: %s, want %s", what, pair[0],
				pair[1])
		}
	}
	return nil
}

// Keeps replays a recorded log, with the state written and read back now and then, and returns its records.
func Keeps(t *testing.T, folder, name string) []Frame {
	t.Helper()
	frames, err := readFrames(filepath.Join(folder, name+".gz"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(folder, name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var want Hashes
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	for _, stride := range []int{0, 1, 97, len(frames)/2 + 1} { // the last one: once, in the middle
		got, err := Replay(want.Workspace, frames, stride)
		if err == nil {
			err = got.Same(want)
		}
		if err != nil {
			t.Errorf("%v (the state written and read back every %d records): the fold no longer decides as it did; "+
				"a change of its rules needs a new Logic", err, stride)
		}
	}
	again(t, want, frames)
	t.Logf("%s: %d records, %d decisions, state hash %.16s", want.Command, want.Records, want.Seq, want.StateHash)
	return frames
}

// again decides a log as hence replay does: under its own rules nothing differs.
func again(t *testing.T, want Hashes, frames []Frame) {
	t.Helper()
	log := &replay.Log{Workspace: want.Workspace}
	for _, f := range frames {
		in, err := topology.DecodeIntent(f.Value)
		if err != nil {
			t.Fatal(err)
		}
		log.Records = append(log.Records, replay.Record{Offset: f.Offset, Intent: in})
	}
	switch res, err := replay.Run(log, replay.Change{}); {
	case err != nil:
		t.Errorf("decided again: %v", err)
	case len(res.Differences) > 0 || fmt.Sprintf("%x", res.NowChain) != want.Chain:
		t.Errorf("decided again under its own rules it differs: %+v, chain %x", res.Differences, res.NowChain)
	}
}

// Record writes what the log has of a workspace, and what it leads to, into a folder. The replay has to agree with
// what the processors decided.
func Record(t *testing.T, servers *harness.Servers, folder, name, workspace, command string) {
	t.Helper()
	var frames []Frame
	for _, r := range harness.ReadTopic(t, servers.Brokers, topology.TopicIntents, workspace) {
		frames = append(frames, Frame{r.Offset, r.Value})
	}
	got, err := Replay(workspace, frames, 0)
	if err == nil {
		err = got.Known()
	}
	if err != nil {
		t.Fatal(err)
	}
	outcomes, _ := harness.Recorded(t, servers, workspace)
	for _, o := range outcomes { // what the processors decided then
		if chain := got.Chains[uint64(o.Seq)]; chain != "" && chain != fmt.Sprintf("%x", o.Chain) {
			t.Fatalf("at seq %d the processors had chain %x, the replay has %s", o.Seq, o.Chain, chain)
		}
	}
	got.Command = command
	writeLog(t, folder, name, frames, got)
}

// writeLog writes a log and what it leads to.
func writeLog(t *testing.T, folder, name string, frames []Frame, leads Hashes) {
	t.Helper()
	text, err := json.MarshalIndent(leads, "", " ")
	if err == nil {
		err = os.MkdirAll(folder, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, name+".json"), append(text, '\n'), 0o644)
	}
	if err == nil {
		err = writeFrames(filepath.Join(folder, name+".gz"), frames)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// FormerLogic is the newest logic that the recorded logs of former logics know.
const FormerLogic = 2
