package sidecar

import (
	"slices"

	"github.com/hence-dev/hence/gate"
)

// beginsAnew says whether a request may make another transaction in place of its former one: that was certainly never
// sealed, no call of it began, and the request was never answered.
func (s *session) beginsAnew(t *tx, slot *txSlot) bool {
	s.mu.Lock()
	gone, shown := t.gone(), t.outcome != nil
	s.mu.Unlock()
	if !gone || !slot.mayBeginAnew() {
		return false
	}
	effects, kept := s.delivery.owed(t.id)
	if (!kept.known || kept.short) && !shown { // a journal that lacks its newest records may lack the seal
		return false
	}
	return !slices.ContainsFunc(effects, func(p gate.Progress) bool {
		return p.Started || kept.short && p.Tool.Class.Eager()
	})
}
