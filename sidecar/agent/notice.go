package agent

import (
	"github.com/hence-dev/hence/sidecar/journal"
)

// tellForgotten is the 410 that a conversation is owed, once; s.mu is held. The journal has that it was told when it
// comes again: until then a later start tells it again, since the answer may not have reached it.
func (s *Agent) tellForgotten(talk string) error {
	heard, told := s.notice.Told[talk]
	switch {
	case !s.notice.Owed || heard:
		return nil
	case told:
		return s.toldForgotten(talk)
	}
	s.notice.Tell(talk, false)
	return s.forgotten()
}

// toldForgotten notes that a conversation needs no 410 any more; s.mu is held.
func (s *Agent) toldForgotten(talk string) error {
	if !s.notice.Owed || s.notice.Told[talk] {
		return nil
	}
	if err := s.delivery.Record(journal.RecordUntold, journal.UntoldRecord{Owed: true, Told: []string{talk}}); err != nil {
		return err
	}
	s.notice.Tell(talk, true)
	return nil
}

// oweAll: what the agent read last may be lost, in whichever conversation; s.mu is held. The journal has it before the
// session that rests on it.
func (s *Agent) oweAll() {
	s.notice.Owe()
	s.unnoted = true
}
