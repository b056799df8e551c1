package view

import (
	"sync"

	"github.com/hence-dev/hence/sequencer"
)

// line is where the seals of this process stand that are on their way: sent, or about to be, and not judged in the
// view. One that reads what such a seal writes would come behind it in the log and be refused there; it waits here,
// and is refused from the view, or sent, once the one before it is judged. It only says who goes first: a seal that
// passes by is as right as one that waits. The zero value is ready.
type line struct {
	mu      sync.Mutex
	places  map[sequencer.TxID][]sequencer.Scope // what each writes
	writers map[sequencer.Scope]sequencer.TxID   // the last seal that writes a shard
}

// before is a seal that writes one of the scopes; empty: none does. l.mu is locked.
func (l *line) before(scopes []sequencer.Scope) sequencer.TxID {
	for _, scope := range scopes {
		if by := l.writers[scope]; by != "" { // a pattern finds nothing: to compare it with all would cost each seal
			return by
		}
	}
	return ""
}

// Ahead is a seal of this process on its way that writes one of the scopes; empty: there is none. The watchers are not
// told yet of a decision that names its transaction.
func (v *View) Ahead(reads []sequencer.Scope) sequencer.TxID {
	v.line.mu.Lock()
	defer v.line.mu.Unlock()
	return v.line.before(reads)
}

// Enter gives a seal that writes some shards its place in the line, unless another one is on its way that writes one
// of its reads: that is returned, as of Ahead. A decision about the transaction, or Leave, ends the place.
func (v *View) Enter(id sequencer.TxID, reads, writes []sequencer.Scope) (ahead sequencer.TxID) {
	l := &v.line
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, stands := l.places[id]; stands {
		return ""
	}
	if ahead = l.before(reads); ahead != "" {
		return ahead
	}
	if l.places == nil {
		l.places, l.writers = map[sequencer.TxID][]sequencer.Scope{}, map[sequencer.Scope]sequencer.TxID{}
	}
	l.places[id] = writes
	for _, scope := range writes {
		l.writers[scope] = id
	}
	return ""
}

// InLine reports whether a seal has a place.
func (v *View) InLine(id sequencer.TxID) bool {
	v.line.mu.Lock()
	defer v.line.mu.Unlock()
	_, stands := v.line.places[id]
	return stands
}

// Leave ends the place of a seal, if it has one: a decision names its transaction, or no more will be heard of it.
func (v *View) Leave(id sequencer.TxID) {
	l := &v.line
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, scope := range l.places[id] {
		if l.writers[scope] == id {
			delete(l.writers, scope)
		}
	}
	delete(l.places, id)
}
