package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
)

// keptJoining is how many of its own joins a ledger remembers: those since the last session that surely followed the
// one before it. One that is forgotten is taken for another process.
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
	case RecordNotice:
		var r NoticeRecord
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
	for _, id := range j.Nowhere {
		if t := l.Txs[id]; t != nil {
			t.Nowhere = true
		}
	}
	j.Nowhere = nil // its transactions have it
	if l.Joined = j; j.Since == 0 {
		l.Joining = nil // else who looks for others tells them from its own by these
	}
	l.dropVain(was.Incarnation)
}

// dropVain drops what neither this session nor a later start needs. Those of the former session stay until the next
// one: the agent still answers for them. Those of a request under a key stay until that is answered: it may begin anew
// where they left nothing. A request that was answered is given its answer, or is lost, without them.
func (l *Ledger) dropVain(former sequencer.Seq) {
	unanswered := l.keys.unanswered()
	for id, t := range l.Txs {
		agent, _, _, _ := api.OwnerOf(id)
		gone := t.Incarnation < former && t.Vain(former) && !unanswered[id]
		if t.Foreign { // what its agent has adopted is not the next session's
			gone = agent != l.Joined.Agent && !slices.ContainsFunc(t.effects, t.untold)
		}
		if gone {
			delete(l.Txs, id)
		}
	}
	l.Decided = slices.DeleteFunc(l.Decided, func(id sequencer.TxID) bool { return l.Txs[id] == nil })
}

// begin takes a transaction. Its name is used once in one log.
func (l *Ledger) begin(t *TxRecord) {
	if l.Txs[t.Tx] != nil {
		l.Mixed = fmt.Errorf("%s begins twice", t.Tx)
		l.Decided = slices.DeleteFunc(l.Decided, func(id sequencer.TxID) bool { return id == t.Tx })
	}
	l.Txs[t.Tx] = t
	if d := t.Decided; d != nil {
		t.Decided = nil
		l.decide(t, d)
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
		err = errors.Join(err, add(RecordNotice, l.Notice.Record()))
	}
	return err
}

// Notice is the 410 that every conversation of an agent is owed once its reads are lost: which ones there were is lost
// with them, so one that began later is told as well. The zero value owes nothing.
type Notice struct {
	Owed  bool
	Told  map[string]bool // by conversation; false: it may not have the answer, and the journal does not have it
	Order []string        // of told, oldest first
}

// keptTold is how many conversations are known to have been told. The oldest beyond is told again, which costs it a
// further read; silence could cost it a commit on what it does not know to be lost.
const keptTold = 4096

// Owe starts over: more is lost, also to those that were told.
func (n *Notice) Owe() { *n = Notice{Owed: true} }

// Tell notes that a conversation is told, and whether it is known to have heard it.
func (n *Notice) Tell(talk string, heard bool) {
	if n.Told == nil {
		n.Told = map[string]bool{}
	}
	if _, known := n.Told[talk]; !known {
		n.Order = append(n.Order, talk)
	}
	n.Told[talk] = heard
	if len(n.Order) > keptTold {
		delete(n.Told, n.Order[0])
		n.Order = n.Order[1:]
	}
}

// NoticeRecord says that every conversation is owed a 410; with names, that these have had it, and others are owed it
// as before. An older release says so with Owed false, of the only conversation that it had.
type NoticeRecord struct {
	Owed bool
	Told []string `json:",omitempty"`
}

// apply takes a record of the journal. One without names is of a further loss.
func (n *Notice) Apply(r NoticeRecord) {
	if len(r.Told) == 0 {
		*n = Notice{}
	}
	n.Owed = r.Owed
	for _, talk := range r.Told {
		n.Tell(talk, true)
	}
}

// Record is what the journal has to say of it.
func (n *Notice) Record() NoticeRecord { return NoticeRecord{Owed: n.Owed, Told: n.Order} }
