package demo

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/topology/pause"
)

// transient says whether the same call may succeed later: the sidecar could not be reached, was interrupted, or
// said that it is not ready or has too much to do.
func transient(err error) bool {
	p, ok := errors.AsType[*client.Problem](err)
	if !ok {
		return !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
	}
	switch p.Status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// sessionLost says whether the sidecar no longer knows the transaction: it was started again in between.
func sessionLost(err error) bool {
	p, ok := errors.AsType[*client.Problem](err)
	return ok && (p.Status == http.StatusGone || p.Status == http.StatusNotFound)
}

// insist repeats a call while it fails in passing, for at most patience.
func insist(ctx context.Context, call func() error) error { return repeat(ctx, call, transient) }

// insistProblem repeats a call while the sidecar itself says that it cannot yet; a broken connection is an error at
// once, because what was under way in a sidecar that went away is over.
func insistProblem(ctx context.Context, call func() error) error {
	return repeat(ctx, call, func(err error) bool {
		_, ok := errors.AsType[*client.Problem](err)
		return ok && transient(err)
	})
}

func repeat(ctx context.Context, call func() error, again func(error) bool) error {
	deadline := time.Now().Add(patience)
	for waits := (pause.Doubling{Least: minBackoff, Most: time.Second}); ; {
		err := call()
		if err == nil || !again(err) || time.Now().After(deadline) {
			return err
		}
		if pause.Sleep(ctx, waits.Next()) != nil {
			return err
		}
	}
}

// backoff is the pause that a refusal asks for, bounded.
func backoff(hintMs int) time.Duration {
	return min(max(time.Duration(hintMs)*time.Millisecond, 0), maxBackoff)
}
