package agent

import (
	"context"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
)

// A reset takes all shards away in one decision, a tombstone: seqs and the chain go on, counts of writes begin again.
// What readers were given ends with it, here and at every other sidecar whose view shows it.

// Reset takes all shards away, and says how many one-segment ones there were. When it returns, this sidecar's view
// shows it.
func (s *Agent) Reset(ctx context.Context) (cleared int, err error) {
	s.loop.Run(func() { cleared, err = s.reset(ctx) })
	return cleared, err
}

// Resets counts the resets that this sidecar has seen since it started.
func (s *Agent) Resets() (n uint64) {
	s.loop.Run(func() { n = s.resets })
	return n
}

func (s *Agent) reset(ctx context.Context) (cleared int, err error) {
	w := writing{scope: api.EveryShard, absent: true}
	for try := 1; ; try++ {
		if err := s.await(ctx); err != nil {
			return 0, err
		}
		cleared, _, _ = s.Census()
		t, err := s.startBare(ctx)
		if err != nil {
			return 0, err
		}
		d, err := s.writeAlone(ctx, t, w)
		again := false
		switch {
		case err == nil && d.State == api.StateCommitted:
			return cleared, nil
		case err == nil && d.State != api.StateAborted:
			// It waits for calls or holds of others. Later it would take away what nobody expects to lose.
			return 0, api.Problemf(api.CodeNotReady, "the reset waits for transactions that hold shards, and is given up: "+
				"look at GET /shards, and ask again")
		case err == nil:
			again, err = keyedRefusal(d)
		}
		if !again || try == keyedTries || ctx.Err() != nil {
			return 0, err
		}
	}
}

// checkAbsent makes the write that takes shards away.
func (s *Agent) checkAbsent(w writing) (*sequencer.ShardWrite, error) {
	switch now := s.view.Settings(); {
	case !now.Exact:
		return nil, api.Problemf(api.CodeNotReady, "the rules of the workspace are not known here yet")
	case now.Rules.Logic < merges: // its processors would skip the record, and nobody would ever answer
		return nil, api.Problemf(api.CodeBadRequest, "the workspace follows logic %d, and a reset needs logic %d: hence "+
			"rules set --logic %d, once all processors and sidecars have this release", now.Rules.Logic, merges, merges)
	}
	return &sequencer.ShardWrite{Scope: w.scope, Absent: true}, nil
}

// observeReset ends what readers were given where a decision took all shards away.
func (s *Agent) observeReset(o *sequencer.Outcome) {
	if o.Kind != sequencer.OutcomeCommitted || len(o.Shards) != 1 || !o.Shards[0].Absent ||
		!o.Shards[0].Scope.Covers(api.EveryShard) {
		return
	}
	s.resets++
	if err := s.delivery.EmptyReaders(); err != nil {
		// Fails closed: what was read is then compared with what is there now.
		s.log.Warn("the logs of readers are kept over a reset: their next commits may be refused", "cause", err)
	}
}
