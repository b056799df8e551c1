package sidecar

import (
	"context"
	"errors"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology/pause"
)

// maintain joins the log, joins again when a lease has ended, renews the lease, and does what has to be done now and
// then, until ctx ends, or the log is another one: nothing that this process knows is true of that. It calls live
// after each join.
func (s *session) maintain(ctx context.Context, live func()) error {
	beat, stop := s.clock.Ticker(s.limits.WatermarkEvery)
	defer stop()
	pauses := pause.Doubling{Least: pauseLeast, Most: pauseMost}
	retryJoin := time.NewTimer(0)
	defer retryJoin.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.soon:
		case <-retryJoin.C:
		case now := <-beat:
			s.beat(ctx, now)
		}
		if !s.wantsJoin() {
			s.settleAll(ctx)
			continue
		}
		if err := s.join(ctx); errors.Is(err, streams.ErrOtherLog) {
			return err
		} else if err != nil {
			if ctx.Err() == nil && s.view.ready() == nil {
				s.log.Warn("joining the log failed: tried again", "cause", err)
			}
			retryJoin.Reset(max(pauses.Next(), s.joinIn())) // a beat or a request in between does not join, either
			continue
		}
		pauses.Reset()
		live()
	}
}

func (s *session) wantsJoin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.live && !s.superseded && !s.clock.Now().Before(s.joinAfter)
}

// joinIn is how long a refused join is left alone.
func (s *session) joinIn() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.joinAfter.Sub(s.clock.Now())
}

// beat is what happens about once a second.
func (s *session) beat(ctx context.Context, now time.Time) {
	s.expire(now)
	s.settleAll(ctx)
	s.adoptOrphans(now)
	s.adoptLeft(now)
	if err := s.delivery.mark(); err != nil {
		s.log.Error("the journal takes no records", "cause", err)
	}
	if in := s.due(now); in != nil {
		s.promise(ctx, in, now)
	}
}

// due is the watermark to send now: whenever it has moved, and often enough to renew the lease when it has not.
func (s *session) due(now time.Time) *sequencer.Intent {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.live {
		return nil
	}
	mark := s.oldest(s.view.at())
	if mark <= s.watermark && now.Sub(s.marked) < s.limits.RenewEvery {
		return nil
	}
	return s.renewal()
}

// renewal is a watermark of now; s.mu is held.
func (s *session) renewal() *sequencer.Intent {
	mark := s.oldest(s.view.at())
	return &sequencer.Intent{Kind: sequencer.IntentWatermark, Agent: s.agent, Incarnation: s.incarnation,
		Watermark: &sequencer.Watermark{Seq: max(mark, s.watermark)}}
}

// promise sends a watermark; the lease counts from before that, whenever the log takes it.
func (s *session) promise(ctx context.Context, in *sequencer.Intent, now time.Time) {
	sent := s.clock.Steady()
	try, cancel := context.WithTimeout(ctx, s.limits.RenewEvery)
	defer cancel()
	offset, err := s.append(try, in)
	if err != nil {
		s.metrics.appendErrors.Inc()
		s.log.Warn("the lease could not be renewed", "cause", err)
		return
	}
	s.lease.renew(offset, sent, s.sure())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.incarnation == in.Incarnation {
		s.watermark, s.marked = max(s.watermark, in.Watermark.Seq), now
	}
}
