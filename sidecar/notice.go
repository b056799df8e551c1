package sidecar

// notice is the 410 that every conversation of an agent is owed once its reads are lost: which ones there were is lost
// with them, so one that began later is told as well. The zero value owes nothing.
type notice struct {
	owed  bool
	told  map[string]bool // by conversation; false: it may not have the answer, and the journal does not have it
	order []string        // of told, oldest first
}

// keptTold is how many conversations are known to have been told. The oldest beyond is told again, which costs it a
// further read; silence could cost it a commit on what it does not know to be lost.
const keptTold = 4096

// owe begins anew: more is lost, also to those that were told.
func (n *notice) owe() { *n = notice{owed: true} }

// tell notes that a conversation is told, and whether it is known to have heard it.
func (n *notice) tell(talk string, heard bool) {
	if n.told == nil {
		n.told = map[string]bool{}
	}
	if _, known := n.told[talk]; !known {
		n.order = append(n.order, talk)
	}
	n.told[talk] = heard
	if len(n.order) > keptTold {
		delete(n.told, n.order[0])
		n.order = n.order[1:]
	}
}

// untoldRecord says that every conversation is owed a 410; with names, that these have had it, and others are owed it
// as before. An older release says so with Owed false, of the only conversation that it had.
type untoldRecord struct {
	Owed bool
	Told []string `json:",omitempty"`
}

// apply takes a record of the journal. One without names is of a further loss.
func (n *notice) apply(r untoldRecord) {
	if len(r.Told) == 0 {
		*n = notice{}
	}
	n.owed = r.Owed
	for _, talk := range r.Told {
		n.tell(talk, true)
	}
}

// record is what the journal has to say of it.
func (n *notice) record() untoldRecord { return untoldRecord{Owed: n.owed, Told: n.order} }

// tellForgotten is the 410 that a conversation is owed, once; s.mu is held. The journal has that it was told when it
// comes again: until then a later start tells it again, since the answer may not have reached it.
func (s *session) tellForgotten(talk string) error {
	heard, told := s.notice.told[talk]
	switch {
	case !s.notice.owed || heard:
		return nil
	case told:
		return s.toldForgotten(talk)
	}
	s.notice.tell(talk, false)
	return s.forgotten()
}

// toldForgotten notes that a conversation needs no 410 any more; s.mu is held.
func (s *session) toldForgotten(talk string) error {
	if !s.notice.owed || s.notice.told[talk] {
		return nil
	}
	if err := s.delivery.record(recordUntold, untoldRecord{Owed: true, Told: []string{talk}}); err != nil {
		return err
	}
	s.notice.tell(talk, true)
	return nil
}

// oweAll: what the agent read last may be lost, in whichever conversation; s.mu is held. The journal has it before the
// session that rests on it.
func (s *session) oweAll() {
	s.notice.owe()
	s.unnoted = true
}
