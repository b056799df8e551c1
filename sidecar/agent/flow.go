package agent

import (
	"context"
	"errors"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/loop"
	"github.com/hence-dev/hence/sidecar/view"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
	"github.com/hence-dev/hence/topology/pause"
)

// flow runs a request as a flow of the agent's loop. Unexported methods of the agent are called inside of flows; what
// is called outside says so.
func flow[T any](s *Agent, request func() (T, error)) (out T, err error) {
	s.loop.Run(func() { out, err = request() })
	return out, err
}

// do gives way to other flows while io waits for something outside of the agent.
func do[T any](s *Agent, io func() (T, error)) (out T, err error) {
	s.loop.Do(func() { out, err = io() })
	return out, err
}

// until gives way until cond holds, ctx ends or the agent stops. cond may also look at the view: each decision is
// followed by a flow.
func (s *Agent) until(ctx context.Context, cond func() bool) error {
	return stopped(s.loop.Await(ctx, cond))
}

// untilTx is until with a condition that only a change of a transaction can turn true.
func (s *Agent) untilTx(ctx context.Context, t *tx, cond func() bool) error {
	return stopped(s.loop.AwaitOn(ctx, &t.changed, cond))
}

// through is untilTx that goes on while the agent stops: what cond says comes by itself, or as another request ends.
func (s *Agent) through(ctx context.Context, t *tx, cond func() bool) error {
	return s.loop.AwaitThrough(ctx, &t.changed, cond)
}

func stopped(err error) error {
	if errors.Is(err, loop.ErrStopped) {
		return api.ErrStopped
	}
	return err
}

// reach gives way until the view has applied a seq, and this agent has been told of it.
func (s *Agent) reach(ctx context.Context, seq sequencer.Seq) error {
	if s.view.At() >= seq {
		return nil
	}
	return stopped(s.loop.AwaitOn(ctx, &s.seen, func() bool { return s.told >= seq }))
}

// retry calls f until it succeeds or ctx ends, with growing pauses in which others go on.
func (s *Agent) retry(ctx context.Context, f func() error, failed func(error)) error {
	pauses := pause.Doubling{Least: view.PauseLeast, Most: view.PauseMost}
	for {
		err := f()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil { // the failure is that of the context: nothing to complain of
			return context.Cause(ctx)
		}
		failed(err)
		if !s.sleep(ctx, pauses.Next()) {
			return context.Cause(ctx)
		}
	}
}

// sleep lets others go on for a while; it reports false when ctx ended first.
func (s *Agent) sleep(ctx context.Context, d time.Duration) bool {
	var err error
	s.loop.Do(func() { err = s.clock.Sleep(ctx, d) })
	return err == nil
}

// unsettled are the decided transactions of an agent, or of all, that are not settled, exactly as of through.
func (s *Agent) unsettled(ctx context.Context, agent string) (rows []topology.Unsettled, through sequencer.Seq,
	err error) {
	s.loop.Do(func() { // a table answers
		rows, through, err = s.events.Unsettled(ctx, s.workspace, agent, maxUnsettled)
	})
	return rows, through, err
}

// effectsInLog are the events of a transaction's calls.
func (s *Agent) effectsInLog(ctx context.Context, id sequencer.TxID) ([]*topology.Event, error) {
	return do(s, func() ([]*topology.Event, error) { return s.events.Effects(ctx, s.workspace, id) })
}

// follow gives the decisions after a seq to apply, each in the loop, until apply errs or ctx ends.
func (s *Agent) follow(ctx context.Context, after sequencer.Seq, apply func(*sequencer.Outcome) error) (err error) {
	s.loop.Do(func() { // the log delivers
		err = s.events.Follow(ctx, s.workspace, after, func(o *sequencer.Outcome, _ streams.Way) (err error) {
			s.loop.Run(func() { err = apply(o) })
			return err
		})
	})
	return err
}
