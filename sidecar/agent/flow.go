package agent

import (
	"context"

	"github.com/hence-dev/hence/gate/failpoint"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/loop"
)

// flow runs a request as a flow of the agent's loop. Unexported methods of the agent are called inside of flows; what
// is called outside says so.
func flow[T any](s *Agent, request func() (T, error)) (out T, err error) {
	s.loop.Run(func() { out, err = request() })
	return out, err
}

// untilTx gives way until cond holds, which only a change of a transaction can turn true, ctx ends or the agent stops.
func (s *Agent) untilTx(ctx context.Context, t *tx, cond func() bool) error {
	return s.loop.UntilOn(ctx, &t.changed, cond)
}

// through is untilTx that goes on while the agent stops: what cond says comes by itself, or as another request ends.
func (s *Agent) through(ctx context.Context, t *tx, cond func() bool) error {
	return s.loop.AwaitThrough(ctx, &t.changed, cond)
}

// reach gives way until the view has applied a seq, and this agent has been told of it.
func (s *Agent) reach(ctx context.Context, seq sequencer.Seq) error {
	if s.view.At() >= seq {
		return nil
	}
	return s.loop.UntilOn(ctx, &s.seen, func() bool { return s.told >= seq })
}

// send appends an intent, again and again until it is acknowledged or the view shows that it arrived. An append that
// timed out is unknown: the same intent with the same number is repeated, and the log drops a second copy.
func (s *Agent) send(ctx context.Context, t *tx, in *sequencer.Intent) error {
	s.traces(ctx, t)
	var sent error
	over := false
	ok := s.loop.Go(func(ctx context.Context) { // it goes on when the request does not wait any more
		sent, over = s.repeat(ctx, t, in), true
		s.loop.Moved(&t.changed)
	})
	if !ok {
		return api.Problemf(api.CodeBusy, "the sidecar is stopping, or has too many appends under way")
	}
	if err := s.through(ctx, t, func() bool { return over }); err != nil {
		return err
	}
	return sent
}

// append adds an intent to the log once.
func (s *Agent) append(ctx context.Context, in *sequencer.Intent) (int64, error) {
	if in.Kind == sequencer.IntentSeal { // its footprint's text is published also after a crash
		if err := s.delivery.Flush(); err != nil {
			s.log.Warn("a seal is sent whose footprint's text may not be published", "tx", string(in.Tx), "cause", err)
		}
	}
	ctx, end := s.tracing.append(ctx, in)
	at, err := loop.Do(s.loop, func() (int64, error) { // the log may be away for long
		failpoint.Hit(failpoint.AppendBefore)
		defer failpoint.Hit(failpoint.AppendAfter)
		return s.events.Append(ctx, s.workspace, in)
	})
	end(at, err)
	return at, err
}

func (s *Agent) repeat(ctx context.Context, t *tx, in *sequencer.Intent) error {
	ctx = under(ctx, s.traceOf(t.id))
	return s.loop.Retry(ctx, func() error {
		if s.needless(t, in) {
			return nil
		}
		try, cancel := s.clock.Within(ctx, appendTry)
		defer cancel()
		_, err := s.append(try, in)
		return err
	}, func(err error) {
		s.metrics.AppendErrors.Inc()
		s.log.Warn("an append failed: it is unknown, and repeated", "intent", in.ID(), "cause", err)
	})
}

// needless: the log will not, or need not, take the intent any more.
func (s *Agent) needless(t *tx, in *sequencer.Intent) bool {
	switch in.Kind {
	case sequencer.IntentTouch:
		return t.phase != phaseOpen
	}
	return t.outcome != nil || t.phase == phaseLost
}

// ask appends an intent, again and again until the view shows its decision, or that done holds: then there may be
// none.
func (s *Agent) ask(ctx context.Context, in *sequencer.Intent, done func() bool) (*sequencer.Outcome, error) {
	id := in.ID()
	in.Signer = api.SignerOf(ctx)
	s.questions.expect(id)
	defer s.questions.drop(id)
	over := func() bool { return s.questions.answer(id) != nil || done() }
	err := s.loop.Retry(ctx, func() error {
		if over() {
			return nil
		}
		try, cancel := s.clock.Within(ctx, appendTry)
		defer cancel()
		if _, err := s.append(try, in); err != nil {
			return err
		}
		return s.loop.Until(try, over)
	}, func(err error) {
		s.log.Warn("an intent has no decision yet: it is repeated", "intent", id, "cause", err)
	})
	if err != nil {
		return nil, err
	}
	return s.questions.answer(id), nil
}

// mark lets the journal forget what is published.
func (s *Agent) mark() {
	if err := s.delivery.Mark(); err != nil {
		s.log.Error("the journal takes no records", "cause", err)
	}
}
