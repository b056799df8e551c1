package agent

import (
	"context"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/sidecar/view"
)

// current is the live session's incarnation, or a problem that says why there is none; then one is asked for at once.
func (s *Agent) current() (sequencer.Seq, error) {
	inc, err := s.session()
	if err != nil {
		s.hurry()
	}
	return inc, err
}

// session is current, and changes nothing.
func (s *Agent) session() (sequencer.Seq, error) {
	if err := s.view.Ready(); err != nil {
		return 0, view.NotReady(err)
	}
	if !s.live {
		if err := s.notLetIn(); err != nil { // waiting a moment longer does not help
			return 0, err
		}
		return 0, api.Problemf(api.CodeNotReady, "the sidecar has no live session: it is joining the log")
	}
	return s.incarnation, nil
}

func (s *Agent) hurry() {
	select {
	case s.soon <- struct{}{}:
	default:
	}
}

// await waits until there is a live session. A request of the agent brings back one that another sidecar took over.
func (s *Agent) await(ctx context.Context) error {
	_, err := s.session()
	if err == nil {
		return nil
	}
	if !s.live {
		s.superseded = false
		s.hurry()
	}
	ctx, cancel := s.clock.Within(ctx, s.limits.SessionWait)
	defer cancel()
	wait := s.loop.Until(ctx, func() bool {
		_, err := s.session()
		return err == nil || s.joinRefused != nil || s.view.BrokenBy() != nil
	})
	if _, err := s.session(); err != nil {
		return err
	}
	return wait
}

// liveIncarnation is the one of the live session; zero: there is none.
func (s *Agent) liveIncarnation() sequencer.Seq {
	if !s.live {
		return 0
	}
	return s.incarnation
}

// notLetIn is why the log does not take this agent's join; nil: it has not refused it.
func (s *Agent) notLetIn() error {
	o := s.joinRefused
	if o == nil {
		return nil
	}
	code := string(o.Code)
	if code == "" {
		code = api.CodeNotReady
	}
	return api.Problemf(code, "the log does not let agent %s join: %s; it is asked again by itself", s.agent, o.Detail)
}

// health says why there is no session.
func (s *Agent) health() error {
	switch {
	case s.live:
		return nil
	case s.superseded:
		return api.Problemf(api.CodeNotReady, "another sidecar of this agent has joined")
	case s.joinRefused != nil:
		return s.notLetIn()
	}
	return api.Problemf(api.CodeNotReady, "the sidecar is joining the log")
}

// lose ends the session: every open transaction of it is lost.
func (s *Agent) lose(why string) {
	if s.live {
		s.log.Warn("the session is over", "incarnation", uint64(s.incarnation), "cause", why, "superseded", s.superseded)
	}
	s.live = false
	s.lease.end()
	s.settle.Lost()
	for _, t := range s.active {
		s.close(t, phaseLost)
	}
	s.hurry()
}

// oweNotices: what the agent read last may be lost, in whichever conversation. The journal has it before the
// session that rests on it.
func (s *Agent) oweNotices() {
	s.notice.Owe()
	s.unnoted = true
}

// tellReadsLost is the 410 that a conversation is owed, once. The journal has that it was told when it
// comes again: until then a later start tells it again, since the answer may not have reached it.
func (s *Agent) tellReadsLost(talk string) error {
	heard, told := s.notice.Told[talk]
	switch {
	case !s.notice.Owed || heard:
		return nil
	case told:
		return s.toldReadsLost(talk)
	}
	s.notice.Tell(talk, false)
	return s.readsLost()
}

// toldReadsLost notes that a conversation needs no 410 any more.
func (s *Agent) toldReadsLost(talk string) error {
	if !s.notice.Owed || s.notice.Told[talk] {
		return nil
	}
	if err := s.delivery.Record(journal.RecordNotice, journal.NoticeRecord{Owed: true,
		Told: []string{talk}}); err != nil {
		return err
	}
	s.notice.Tell(talk, true)
	return nil
}

// readsLost is the problem of an agent whose former reads cannot be shown any more.
func (s *Agent) readsLost() error {
	return api.Problemf(api.CodeSessionLost, "%v: what was read before is not known any more. "+
		"Read again what this request builds on, then send it again", journal.ErrSessionGone)
}
