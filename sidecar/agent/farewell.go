package agent

import (
	"context"
	"sync"

	"github.com/hence-dev/hence/sidecar/view"
)

// Farewell ends what the agent's process has left behind: it aborts each transaction that is still open, and waits
// until all that was decided is settled, or ctx ends. It returns how many transactions are undecided or unsettled
// then; the next start of this sidecar goes on with them. Call it while Run runs, when nothing asks for the
// agent any more.
func (s *Agent) Farewell(ctx context.Context) (left int) {
	var aborts sync.WaitGroup
	for _, t := range s.openInLog() {
		aborts.Go(func() {
			if _, err := s.abortTx(ctx, t, "the agent's process has ended"); err != nil {
				s.log.Warn("a transaction of an agent that has ended is not aborted yet", "tx", string(t.id), "cause", err)
			}
		})
	}
	aborts.Wait()
	for {
		if left = s.owing(); left == 0 || !view.Sleep(ctx, StopPoll) {
			return left
		}
	}
}

// openInLog are the open transactions of which the log knows; at most Limits.Open.
func (s *Agent) openInLog() (all []*tx) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.active {
		if t.begun && t.phase == phaseOpen {
			all = append(all, t)
		}
	}
	return all
}

// owing counts what this sidecar waits for or works on: decisions, and settlements that are its own.
func (s *Agent) owing() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.active {
		if t.begun && !t.decided() {
			n++
		}
	}
	for _, d := range s.debts {
		if !d.theirs && d.parked != s.incarnation {
			n++
		}
	}
	return n
}
