package topology

import "strings"

// Stopped is a row of the sequencer's table beside a workspace's state: the workspace has stopped before a record that
// this group cannot take, and its offsets go on all the same. The next owner of the partition reads the workspace's
// records from From on once more, before any later one. The row is gone when a later state has them.
//
// It is a row of its own because the state beside it stays as it is, also one that this binary cannot read.
type Stopped struct {
	Workspace string
	From      int64  // offset of the workspace's first record that is not in the state beside it
	At        int64  // offset of the record that it cannot pass
	State     int64  // offset of the last record in the state beside it; -1: the workspace has no state yet
	Reason    string // for people; at most MaxReasonBytes are written
}

// MaxReasonBytes bounds what a row says of the reason.
const MaxReasonBytes = 1 << 10

// stoppedVersion is the format version of a Stopped row. It is no state's: a binary that takes every row of this table
// for a state, and would pass over the records that this one keeps, refuses it and stops the partition.
const stoppedVersion = 2

// stoppedRest is what follows the workspace in the key.
const stoppedRest = "stopped"

// StoppedKey is the key of a workspace's Stopped row.
func StoppedKey(workspace string) string { return workspace + keySeparator + stoppedRest }

// IsStoppedKey reports whether a key of the sequencer's table is that of a Stopped row.
func IsStoppedKey(key string) bool { return RestOfKey(key) == stoppedRest }

func walkStopped(w *walker, s *Stopped) {
	outer := w.open(5, 5)
	text(w, &s.Workspace)
	signed(w, &s.From)
	signed(w, &s.At)
	signed(w, &s.State)
	text(w, &s.Reason)
	w.close(outer)
}

func stoppedCodec() codec[Stopped] {
	c := recordCodec("stopped", 256, walkStopped)
	c.version = stoppedVersion
	return c
}

// EncodeStopped writes a Stopped row. What it says of the reason is cut to MaxReasonBytes and made UTF-8.
func EncodeStopped(v *Stopped) ([]byte, error) {
	cut := *v
	cut.Reason = strings.ToValidUTF8(cut.Reason[:min(len(cut.Reason), MaxReasonBytes)], "")
	return stoppedCodec().encode(&cut)
}

// DecodeStopped reads a Stopped row.
func DecodeStopped(b []byte) (*Stopped, error) { return stoppedCodec().decode(b) }
