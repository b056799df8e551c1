package agent

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/topology"
)

// dealing holds which residues requests of this sidecar are accepting or trying again, by route: one at a time.
type dealing struct {
	mu   sync.Mutex
	with map[string]bool
}

// enter notes a request that deals with a residue, until it calls done.
func (d *dealing) enter(tx, index string) (done func(), err error) {
	name := tx + "/" + index
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.with[name] {
		return nil, api.Problemf(api.CodeResidueBusy, "effect %.20s of %.100s is being accepted or tried again: look at the list "+
			"once that is done", index, tx)
	}
	if d.with == nil {
		d.with = map[string]bool{}
	}
	d.with[name] = true
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.with, name)
	}, nil
}

// The bounds of an acceptance: for what the residue moves, and for reading and writing the list.
const (
	acceptWait  = 5 * time.Second
	acceptWrite = 3 * time.Second
)

// acceptResidue takes a residue as it is. A try of another sidecar holds what the residue moves from before it looks
// at the list until the list has what came of it. An acceptance holds the same while it looks and writes, so of the
// two one sees what the other has written, and neither record is lost.
func (s *Agent) acceptResidue(ctx context.Context, r *topology.Residue, note string) error {
	accept := func(ctx context.Context) error {
		if err := s.stillResidue(ctx, r); err != nil {
			return err
		}
		r.State, r.Note = topology.ResidueAccepted, note
		return s.listResidue(ctx, r)
	}
	if n := len(r.Scopes); n == 0 || n > s.footprintLimit() {
		return accept(ctx) // it cannot be tried again either: no touch names this
	}
	t, err := s.startOwn(ctx)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), appendTry)
		defer cancel()
		if _, err := s.abortTx(ctx, t, "it only held what a residue moves that is accepted"); err != nil {
			s.log.Warn("a residue was accepted, what it moves is still held", "tx", string(t.id), "cause", err)
		}
	}()
	if err := s.holdResidue(ctx, t, r); err != nil {
		return err
	}
	bound := acceptWrite
	if most := s.longestCall(); most > 0 {
		bound = min(bound, most)
	}
	if err := s.stretchLease(ctx, bound); err != nil { // with the lease ends what is held
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	return accept(ctx)
}

// holdResidue returns once a transaction was granted what a residue moves.
func (s *Agent) holdResidue(ctx context.Context, t *tx, r *topology.Residue) error {
	if err := t.enter(ctx); err != nil {
		return err
	}
	defer t.leave()
	short, cancel := context.WithTimeout(ctx, acceptWait)
	defer cancel()
	err := s.touchAll(short, t, r.Scopes, sequencer.WriteAccess)
	var p *api.Problem
	own := errors.As(err, &p) && p.Code == string(sequencer.CodeOwnTransaction)
	if own || errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return api.Problemf(api.CodeResidueBusy, "what effect %d of %s moves is held by another transaction, which may be trying it "+
			"again: ask again", r.Index, r.Tx)
	}
	return err
}
