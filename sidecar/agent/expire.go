package agent

import (
	"time"

	"github.com/hence-dev/hence/sequencer"
)

// expire ends transactions that the agent has left lying and that no decision shows: the log counts a deadline only
// once it knows of them.
func (s *Agent) expire(now time.Time) {
	s.mu.Lock()
	var idle []*tx
	for _, t := range s.active {
		if t.phase == phaseOpen && !t.shown && now.Sub(t.created) > t.deadline(s.view.Settings().Rules) {
			idle = append(idle, t)
		}
	}
	passed := &sequencer.Outcome{Kind: sequencer.OutcomeAborted, Code: sequencer.CodeDeadline, Retryable: true,
		Detail: "the deadline passed before it was sealed"}
	for _, t := range idle {
		s.giveUp(t, passed)
	}
	for _, t := range idle {
		s.abortInLog(t, passed)
	}
	s.mu.Unlock()
}

// tickLength is about how long one tick of the log's time takes.
const tickLength = 250 * time.Millisecond

func (t *tx) deadline(r sequencer.Rules) time.Duration {
	ticks := t.begin.DeadlineTicks
	if ticks == 0 {
		ticks = r.DeadlineTicks
	}
	return time.Duration(ticks) * tickLength
}
