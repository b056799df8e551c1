package agent

import (
	"context"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
)

// flush returns once every call of a transaction is in the events topic and no eager one is unknown. A transaction
// whose call was given up is aborted instead.
func (s *Agent) flush(ctx context.Context, t *tx) error {
	s.mu.Lock()
	list := append([]*issued(nil), t.effects...)
	s.mu.Unlock()
	for _, i := range list {
		if err := s.awaitAck(ctx, i); err != nil {
			return err
		}
		if !i.effect.Tool.Class.Eager() {
			continue
		}
		if err := s.finish(ctx, t, i); err != nil {
			return err
		}
	}
	return nil
}

// finish finds out what became of an eager call.
func (s *Agent) finish(ctx context.Context, t *tx, i *issued) error {
	p, known := s.progress(t.id, i.effect.Index)
	if known && p.Started && p.Answer == nil && !p.GivenUp {
		if err := s.stretchLease(ctx, i.effect.Tool.MaxTime); err != nil {
			return err
		}
		s.mu.Lock()
		under := s.under(ctx, t.incarnation)
		s.mu.Unlock()
		done, err := s.engine.Finish(under, p, gate.ClaimOwn)
		if p, _ = s.progress(t.id, i.effect.Index); err != nil && !p.GivenUp {
			return api.Problemf(api.CodeUndecided, "the outcome of %s, call %d, is not known yet: seal again (%v)",
				i.effect.Tool.Name, i.effect.Index, err)
		}
		p.GivenUp = p.GivenUp || done.GivenUp
	}
	if p.GivenUp {
		s.toolFailed(t, i.effect)
	}
	return nil
}

// sealed are the calls as the footprint names them.
func (t *tx) sealed() []sequencer.Effect {
	out := make([]sequencer.Effect, 0, len(t.effects))
	for _, i := range t.effects {
		e := i.effect
		out = append(out, sequencer.Effect{Index: e.Index, Scopes: e.Tool.Scopes, Class: e.Tool.Class, Tool: e.Tool.Name,
			Key: e.Key, Known: e.Tool.Class.Eager()})
	}
	return out
}
