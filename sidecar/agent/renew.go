package agent

import (
	"cmp"
	"context"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/view"
)

// under is a context in which calls start under the lease of an incarnation only.
func (s *Agent) under(ctx context.Context, inc sequencer.Seq) context.Context {
	now := term{&s.lease, 0} // never alive: the first one is 1
	if s.incarnation == inc {
		s.lease.mu.Lock()
		now.n = s.lease.term
		s.lease.mu.Unlock()
	}
	return gate.UnderLease(ctx, now)
}

// sure is how long a fresh lease lasts; nothing is sure under rules that the view does not know.
func (s *Agent) sure() time.Duration {
	if now := s.view.Settings(); now.Known {
		return sureOf(now.Rules)
	}
	return 0
}

// learnRules asks for the rules when the view began after their last change.
func (s *Agent) learnRules(ctx context.Context) {
	if s.view.Settings().Exact {
		return
	}
	ctx, cancel := s.clock.Within(ctx, s.limits.SessionWait)
	defer cancel()
	var rules sequencer.Rules
	var through sequencer.Seq
	var err error
	s.loop.Do(func() { rules, through, err = s.events.Rules(ctx, s.workspace) }) // the fold answers
	if err == nil {
		err = s.reach(ctx, through) // a later change is in the view by then
	}
	if err != nil {
		s.log.Warn("the workspace's rules are not known: until they are, no tool is called after a change of them, and "+
			"writes are not prepared for a retraction", "cause", err)
		return
	}
	s.view.SetRules(rules)
}

// longestCall is what a call may take at most, so that a fresh lease lasts longer.
func (s *Agent) longestCall() time.Duration {
	return max(0, s.sure()-leaseSpare)
}

// probe is a question whose decision comes after all that was in the log before it: a renewal that asks for one, which
// is confirmed. A log before logic 3 has no such answer: there it is an adoption that is refused, since nothing has
// that number.
func (s *Agent) probe() *sequencer.Intent {
	s.pings++
	if now := s.view.Settings(); now.Known && now.Rules.Logic >= 3 {
		in := s.renewal()
		in.Watermark.Confirm = s.pings
		return in
	}
	return &sequencer.Intent{Kind: sequencer.IntentAdopt, Tx: api.TxName(s.agent, s.incarnation, 0), N: s.pings,
		Agent: s.agent, Incarnation: s.incarnation}
}

// stretchLease renews the lease unless it lasts longer than a call may take. A question behind the renewal confirms
// it: an answer to a sidecar whose lease is over would say so.
func (s *Agent) stretchLease(ctx context.Context, takes time.Duration) error {
	if s.lease.Left() > takes {
		return nil
	}
	if !s.view.Settings().Known {
		s.learnRules(ctx)
	}
	live := s.live
	in := s.renewal()
	ask := s.probe()
	ctx, cancel := s.clock.Within(ctx, s.limits.SessionWait)
	defer cancel()
	if live {
		s.promise(ctx, in, s.clock.Now())
		if _, err := s.append(ctx, ask); err == nil {
			_ = s.loop.Until(ctx, func() bool {
				return s.lease.Left() > takes ||
					s.liveIncarnation() == 0
			})
		}
	}
	if s.lease.Left() > takes {
		return nil
	}
	return api.Problemf(api.CodeNotReady, "the lease is too short for a call that may take %v: the log did not renew it",
		takes)
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

// renewal is a watermark of now.
func (s *Agent) renewal() *sequencer.Intent {
	mark := s.oldest(s.view.At())
	return &sequencer.Intent{Kind: sequencer.IntentWatermark, Agent: s.agent, Incarnation: s.incarnation,
		Watermark: &sequencer.Watermark{Seq: max(mark, s.watermark)}}
}

// renewIn is how often the lease is renewed when nothing moves.
func (s *Agent) renewIn() time.Duration {
	return cmp.Or(s.limits.RenewEvery, renewUnder(s.view.Settings()))
}

// renewLeast is how long a renewal may take, and how soon no other follows.
const renewLeast = 3 * time.Second

// renewUnder is three times in what a lease surely lasts: a workspace of many idle agents takes longer leases so that
// they write less. Of the shortest, of which nothing is sure, it is a third; where the rules are not known, the least.
func renewUnder(now view.Settings) time.Duration {
	if !now.Known {
		return renewLeast
	}
	whole := time.Duration(now.Rules.LeaseTicks) * view.TickLength
	return max(min(renewLeast, whole/3), sureOf(now.Rules)/3)
}
