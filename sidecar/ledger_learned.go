package sidecar

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

// joiningRecord is a join that this journal's sidecar has asked for.
type joiningRecord struct{ ID string }

// waitsRecord says that a former process that may be alive had a lease at a time of this machine's steady clock, and
// how long that lasts at most. The time means nothing under another boot.
type waitsRecord struct {
	Boot  string        `json:",omitempty"`
	Since int64         `json:",omitempty"` // nanoseconds
	Lease time.Duration // zero: not known
}

// learned takes what a start has learned of the time before it.
func (l *ledger) learned(kind byte, body []byte) error {
	switch kind {
	case recordJoining:
		var r joiningRecord
		if err := json.Unmarshal(body, &r); err != nil {
			return err
		}
		if l.joining = append(l.joining, r.ID); len(l.joining) > keptJoining {
			l.joining = l.joining[1:]
		}
	case recordWaits:
		var r waitsRecord
		if err := json.Unmarshal(body, &r); err != nil {
			return err
		}
		l.waits = &r
	case recordUntold:
		var r untoldRecord
		if err := json.Unmarshal(body, &r); err != nil {
			return err
		}
		l.notice.apply(r)
	}
	return nil
}

// join takes a session. In one log its incarnation is greater than those before it.
func (l *ledger) join(j joinedRecord) {
	was := l.joined
	same := j.Agent == was.Agent && j.Workspace == was.Workspace
	if was.Incarnation != 0 && (j.Incarnation <= was.Incarnation || !same) {
		l.mixed = fmt.Errorf("session %d of %s in %s follows session %d of %s in %s", j.Incarnation, j.Agent, j.Workspace,
			was.Incarnation, was.Agent, was.Workspace)
	}
	l.joined, l.joining = j, nil
}

// begin takes a transaction. Its name is used once in one log.
func (l *ledger) begin(t *txRecord) {
	if l.txs[t.Tx] != nil {
		l.mixed = fmt.Errorf("%s begins twice", t.Tx)
		l.decided = slices.DeleteFunc(l.decided, func(id sequencer.TxID) bool { return id == t.Tx })
	}
	l.txs[t.Tx] = t
	if d := t.Decided; d != nil {
		t.Decided = nil
		l.decide(t, d)
	}
}

// addLearned adds what starts have learned.
func (l *ledger) addLearned(add func(kind byte, v any) error) (err error) {
	for _, id := range l.joining {
		err = errors.Join(err, add(recordJoining, joiningRecord{id}))
	}
	if l.waits != nil {
		err = errors.Join(err, add(recordWaits, l.waits))
	}
	if l.notice.owed {
		err = errors.Join(err, add(recordUntold, l.notice.record()))
	}
	return err
}
