package agent

import (
	"context"

	"github.com/hence-dev/hence/gate/failpoint"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/view"
)

// send appends an intent, again and again until it is acknowledged or the view shows that it arrived. An append that
// timed out is unknown: the same intent with the same number is repeated, and the log drops a second copy.
func (s *Agent) send(ctx context.Context, t *tx, in *sequencer.Intent) error {
	s.traces(ctx, t)
	result := make(chan error, 1)
	ok := s.tasks.start(func(ctx context.Context) { result <- s.repeat(ctx, t, in) })
	if !ok {
		return api.Problemf(api.CodeBusy, "the sidecar is stopping, or has too many appends under way")
	}
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// append adds an intent to the log once.
func (s *Agent) append(ctx context.Context, in *sequencer.Intent) (int64, error) {
	ctx, end := s.tracing.append(ctx, in)
	failpoint.Hit(failpoint.AppendBefore)
	at, err := s.events.Append(ctx, s.workspace, in)
	failpoint.Hit(failpoint.AppendAfter)
	end(at, err)
	return at, err
}

func (s *Agent) repeat(ctx context.Context, t *tx, in *sequencer.Intent) error {
	ctx = under(ctx, s.traceOf(t.id))
	return view.Retry(ctx, func() error {
		if s.needless(t, in) {
			return nil
		}
		try, cancel := context.WithTimeout(ctx, appendTry)
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
	s.mu.Lock()
	defer s.mu.Unlock()
	switch in.Kind {
	case sequencer.IntentTouch:
		return t.phase != phaseOpen
	}
	return t.outcome != nil || t.phase == phaseLost
}
