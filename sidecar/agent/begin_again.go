package agent

import (
	"slices"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sidecar/once"
)

// beginsAnew says whether a request may make another transaction in place of its former one: that was certainly never
// sealed, no call of it began, and the request was never answered.
func (s *Agent) beginsAnew(t *tx, slot *once.Slot) bool {
	s.mu.Lock()
	gone, shown := t.gone(), t.outcome != nil
	s.mu.Unlock()
	if !gone || !slot.MayBeginAnew() {
		return false
	}
	effects, kept := s.delivery.Owed(t.id)
	if (!kept.Known || kept.Short) && !shown { // a journal that lacks its newest records may lack the seal
		return false
	}
	return !slices.ContainsFunc(effects, func(p gate.Progress) bool {
		return p.Started || kept.Short && p.Tool.Class.Eager()
	})
}
