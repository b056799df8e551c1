package agent

import (
	"context"

	"github.com/hence-dev/hence/sequencer"
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
