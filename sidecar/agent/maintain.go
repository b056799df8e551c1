package agent

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/loop"
	"github.com/hence-dev/hence/sidecar/view"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// maintain joins the log, joins again when a lease has ended, renews the lease, and does what has to be done now and
// then, until ctx ends, or the log is another one: nothing that this process knows is true of that. It calls live
// after each join.
func (s *Agent) maintain(ctx context.Context, live func()) error {
	beat, stop := s.clock.Ticker(s.limits.WatermarkEvery)
	defer stop()
	pause := view.PauseLeast
	retryJoin := time.NewTimer(0)
	defer retryJoin.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.soon:
		case <-retryJoin.C:
		case now := <-beat:
			s.loop.Run(func() { s.beat(ctx, now) })
		}
		var err error
		var wanted bool
		var again time.Duration
		s.loop.Run(func() {
			if wanted = s.wantsJoin(); !wanted {
				s.settle.Start()
				return
			}
			err = s.join(ctx)
			again = s.joinIn()
		})
		if !wanted {
			continue
		}
		if errors.Is(err, streams.ErrOtherLog) {
			return err
		} else if err != nil {
			if ctx.Err() == nil && s.view.Ready() == nil {
				s.log.Warn("joining the log failed: tried again", "cause", err)
			}
			retryJoin.Reset(max(pause, again)) // a beat or a request in between does not join, either
			pause = min(2*pause, view.PauseMost)
			continue
		}
		pause = view.PauseLeast
		live()
	}
}

func (s *Agent) wantsJoin() bool {
	return !s.live && !s.superseded && !s.clock.Now().Before(s.joinAfter)
}

// joinIn is how long a refused join is left alone.
func (s *Agent) joinIn() time.Duration {
	return s.joinAfter.Sub(s.clock.Now())
}

// beat is what happens about once a second.
func (s *Agent) beat(ctx context.Context, now time.Time) {
	s.expire(now)
	s.settle.Start()
	s.settle.Beat(now)
	s.learnFormat(now)
	s.mark()
	if in := s.due(now); in != nil {
		s.promise(ctx, in, now)
	}
}

// mark lets the journal forget what is published.
func (s *Agent) mark() {
	if err := s.delivery.Mark(); err != nil {
		s.log.Error("the journal takes no records", "cause", err)
	}
}

// formatEvery is how often the processors are asked which format of events they read: others may take their place.
const formatEvery = time.Minute

// learnFormat lets events share records once all processors of the workspace read such. No request waits for the
// answer: until it is there each event has a record to itself, which every release reads.
func (s *Agent) learnFormat(now time.Time) {
	if !s.live || now.Before(s.formatAfter) {
		return
	}
	s.formatAfter = now.Add(formatEvery)
	s.loop.Go(func(ctx context.Context) {
		format, err := loop.Do(s.loop, func() (uint32, error) { return s.events.KnownEvents(ctx, s.workspace) })
		if err == nil { // else the loop has stopped
			s.delivery.Together(format >= topology.EventsBatched)
		}
	})
}

// due is the watermark to send now: whenever it has moved, and often enough to renew the lease when it has not. Of an
// agent with nothing open or to settle it moves with each decision of the others: it is sent when it has moved by so
// much that the log remembers less for it. Many agents that watch would else write more than those that work.
func (s *Agent) due(now time.Time) *sequencer.Intent {
	if !s.live {
		return nil
	}
	at, least := s.view.At(), sequencer.Seq(1)
	mark := s.oldest(at)
	if mark == at && s.settle.Idle() { // who settles calls sinks, and needs what is left of its lease
		least = sequencer.Seq(s.limits.WatermarkSeqs)
	}
	if mark < s.watermark+least && now.Sub(s.marked) < s.renewIn() {
		return nil
	}
	return s.renewal()
}

// renewLeast is how long a renewal may take, and how soon no other follows.
const renewLeast = 3 * time.Second

// renewIn is how often the lease is renewed when nothing moves.
func (s *Agent) renewIn() time.Duration {
	return cmp.Or(s.limits.RenewEvery, renewUnder(s.view.Settings()))
}

// renewUnder is three times in what a lease surely lasts: a workspace of many idle agents takes longer leases so that
// they write less. Of the shortest, of which nothing is sure, it is a third; where the rules are not known, the least.
func renewUnder(now view.Settings) time.Duration {
	if !now.Known {
		return renewLeast
	}
	whole := time.Duration(now.Rules.LeaseTicks) * view.TickLength
	return max(min(renewLeast, whole/3), sureOf(now.Rules)/3)
}

// renewal is a watermark of now.
func (s *Agent) renewal() *sequencer.Intent {
	mark := s.oldest(s.view.At())
	return &sequencer.Intent{Kind: sequencer.IntentWatermark, Agent: s.agent, Incarnation: s.incarnation,
		Watermark: &sequencer.Watermark{Seq: max(mark, s.watermark)}}
}

// promise sends a watermark; the lease counts from before that, whenever the log takes it.
func (s *Agent) promise(ctx context.Context, in *sequencer.Intent, now time.Time) {
	sent := s.clock.Steady()
	try, cancel := s.clock.Within(ctx, min(s.renewIn(), renewLeast))
	defer cancel()
	offset, err := s.append(try, in)
	if err != nil {
		s.metrics.AppendErrors.Inc()
		s.log.Warn("the lease could not be renewed", "cause", err)
		return
	}
	s.lease.renew(offset, sent, s.sure())
	if s.incarnation == in.Incarnation {
		s.watermark, s.marked = max(s.watermark, in.Watermark.Seq), now
	}
}

// expire ends transactions that the agent has left lying and that no decision shows: the log counts a deadline only
// once it knows of them.
func (s *Agent) expire(now time.Time) {
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
		s.abortInLog(t, passed, "")
	}
}

func (t *tx) deadline(r sequencer.Rules) time.Duration {
	ticks := t.begin.DeadlineTicks
	if ticks == 0 {
		ticks = r.DeadlineTicks
	}
	return time.Duration(ticks) * view.TickLength
}
