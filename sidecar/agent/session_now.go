package agent

import (
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
)

// now is the incarnation of the live session; zero: there is none.
func (s *Agent) now() sequencer.Seq {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.live {
		return 0
	}
	return s.incarnation
}

// health says why there is no session.
func (s *Agent) health() error {
	s.mu.Lock()
	defer s.mu.Unlock()
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

// Ready says per part of the agent what keeps it from being served, and which session is live; zero: none.
func (s *Agent) Ready() (parts map[string]error, incarnation sequencer.Seq) {
	return map[string]error{"session": s.health(), "journal": s.delivery.Health()}, s.now()
}
