package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hence-dev/hence/sequencer"
)

// keptJoining is how many joins a ledger remembers that came to no session of this journal.
const keptJoining = 64

// JoiningRecord is a join that this journal's sidecar has asked for.
type JoiningRecord struct{ ID string }

// WaitsRecord says that a former process that may be alive had a lease at a time of this machine's steady clock, and
// how long that lasts at most. The time means nothing under another boot.
type WaitsRecord struct {
	Boot  string        `json:",omitempty"`
	Since int64         `json:",omitempty"` // nanoseconds
	Lease time.Duration // zero: not known
}

// learned takes what a start has learned of the time before it.
func (l *Ledger) learned(kind byte, body []byte) error {
	switch kind {
	case RecordJoining:
		var r JoiningRecord
		if err := json.Unmarshal(body, &r); err != nil {
			return err
		}
		if l.Joining = append(l.Joining, r.ID); len(l.Joining) > keptJoining {
			l.Joining = l.Joining[1:]
		}
	case RecordWaits:
		var r WaitsRecord
		if err := json.Unmarshal(body, &r); err != nil {
			return err
		}
		l.Waits = &r
	case RecordUntold:
		var r UntoldRecord
		if err := json.Unmarshal(body, &r); err != nil {
			return err
		}
		l.Notice.Apply(r)
	}
	return nil
}

// join takes a session. In one log its incarnation is greater than those before it.
func (l *Ledger) join(j JoinedRecord) {
	was := l.Joined
	same := j.Agent == was.Agent && j.Workspace == was.Workspace
	if was.Incarnation != 0 && (j.Incarnation <= was.Incarnation || !same) {
		l.Mixed = fmt.Errorf("session %d of %s in %s follows session %d of %s in %s", j.Incarnation, j.Agent, j.Workspace,
			was.Incarnation, was.Agent, was.Workspace)
	}
	l.Joined, l.Joining = j, nil
}

// Begin takes a transaction. Its name is used once in one log.
func (l *Ledger) Begin(t *TxRecord) {
	if l.Txs[t.Tx] != nil {
		l.Mixed = fmt.Errorf("%s begins twice", t.Tx)
		l.Decided = slices.DeleteFunc(l.Decided, func(id sequencer.TxID) bool { return id == t.Tx })
	}
	l.Txs[t.Tx] = t
	if d := t.Decided; d != nil {
		t.Decided = nil
		l.Decide(t, d)
	}
}

// addLearned adds what starts have learned.
func (l *Ledger) addLearned(add func(kind byte, v any) error) (err error) {
	for _, id := range l.Joining {
		err = errors.Join(err, add(RecordJoining, JoiningRecord{id}))
	}
	if l.Waits != nil {
		err = errors.Join(err, add(RecordWaits, l.Waits))
	}
	if l.Notice.Owed {
		err = errors.Join(err, add(RecordUntold, l.Notice.Record()))
	}
	return err
}
