package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/topology/pause"
)

const statusWait = 2 * time.Second

// refused goes on after the sidecar said no to a call of this attempt: either the transaction has ended, or only
// the call was refused and the attempt is given up.
func (a *agent) refused(ctx context.Context, tx *client.Tx, at *Attempt, why *client.Problem) (further, error) {
	if why.Status < 409 && !why.Retryable {
		return further{}, fmt.Errorf("transaction %s: %w", at.Tx, why) // a mistake of ours, not a refusal
	}
	if d := why.Decision; d != nil && decided(*d) {
		return a.told(at, *d), nil
	}
	var d client.Decision
	err := insist(ctx, func() (err error) {
		d, err = tx.Status(ctx, 0)
		return err
	})
	switch {
	case err == nil && decided(d):
		return a.told(at, d), nil
	case sessionLost(err):
		return a.askLog(ctx, at)
	case err != nil:
		return further{}, fmt.Errorf("ask for the state of %s: %w", at.Tx, err)
	}
	return a.resolve(ctx, tx, at)
}

// resolve finds out what became of an attempt whose last answer did not come: it asks the sidecar until that knows.
// What is still open then is aborted: its seal never arrived.
func (a *agent) resolve(ctx context.Context, tx *client.Tx, at *Attempt) (further, error) {
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		d, err := tx.Status(ctx, statusWait)
		if err == nil && d.State == "open" {
			err = tx.Abort(ctx, "its seal was not answered")
		}
		switch {
		case err == nil && decided(d):
			return a.told(at, d), nil
		case sessionLost(err):
			return a.askLog(ctx, at)
		case err != nil && !transient(err):
			return further{}, fmt.Errorf("get the outcome of %s: %w", at.Tx, err)
		}
		if err := pause.Sleep(ctx, minBackoff); err != nil {
			return further{}, err
		}
	}
	at.End = EndUnknown
	return further{}, fmt.Errorf("no answer within %s on the outcome of %s", patience, at.Tx)
}

// askLog looks an attempt up in the decision log, after its sidecar has forgotten it. That sidecar has joined again
// since, so what the log has not decided up to the sidecar's view is refused for ever.
func (a *agent) askLog(ctx context.Context, at *Attempt) (further, error) {
	var view uint64
	err := insist(ctx, func() error {
		shard, err := a.store.Get(ctx, nothing)
		view = shard.View
		return err
	})
	if err == nil {
		bounded, cancel := context.WithTimeoutCause(ctx, patience, errNoEnd)
		defer cancel()
		err = a.run.log.upTo(bounded, view)
	}
	if err != nil {
		return further{}, fmt.Errorf("look %s up in the log: %w", at.Tx, err)
	}
	d, ok := a.run.log.of(at.Tx)
	at.FromLog, at.Seq, at.Code = ok, d.seq, d.code
	switch {
	case !ok:
		at.End = EndInterrupted
	case d.committed:
		at.End = EndCommitted
	default:
		at.End = EndAborted
	}
	return further{backoff: minBackoff}, nil
}
