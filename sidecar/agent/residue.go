package agent

import (
	"context"
	"fmt"
	"slices"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/failpoint"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/sidecar/view"
	"github.com/hence-dev/hence/topology"
)

// publishResidue puts what could not be made clean on the list before the log hears of the settlement: a crash in
// between writes it again under the same key.
func (s *Agent) publishResidue(ctx context.Context, d *debt, made gate.Settlement, inc sequencer.Seq) error {
	if err := s.publishRetracted(ctx, d); err != nil {
		return err
	}
	for _, r := range made.Residue {
		agent, _, _, ok := api.OwnerOf(d.tx)
		if !ok {
			agent = s.agent
		}
		record := &topology.Residue{
			Workspace: s.workspace, Tx: d.tx, Index: r.Effect.Index, Agent: agent, Tool: r.Effect.Tool.Name,
			Class: r.Effect.Tool.Class, Key: r.Effect.Key, Scopes: r.Effect.Tool.Scopes, Result: r.Result, Detail: r.Detail,
			Tries: r.Tries, State: topology.ResidueOpen, Incarnation: inc, AtMs: s.clock.Now().UnixMilli(), Code: r.Code,
			Call: s.callStands(d, r.Effect.Index),
		}
		if r.Code != "" && len(r.Effect.Args) <= maxResidueArgs {
			record.Args = r.Effect.Args
		}
		if err := shorten(record); err != nil { // nor would a later try take it, and a settlement always ends
			s.log.Error("a residue is on no list", "tx", string(d.tx), "result", r.Result.String(), "cause", err)
			continue
		}
		err := view.Retry(ctx, func() error {
			try, cancel := context.WithTimeout(ctx, appendTry)
			defer cancel()
			failpoint.Hit(failpoint.ResidueBefore)
			defer failpoint.Hit(failpoint.ResidueAfter)
			return s.events.PublishResidue(try, record)
		}, func(err error) {
			s.log.Warn("a residue is not on the list yet: written again", "tx", string(d.tx), "cause", err)
		})
		if err != nil {
			return err
		}
		s.metrics.Residue(r.Effect.Tool.Class, r.Result)
	}
	return nil
}

// callStands is how a call stands once its transaction is settled; empty: of something that is no call.
func (s *Agent) callStands(d *debt, index uint32) string {
	p, known := s.progress(d.tx, index)
	if !known {
		return ""
	}
	s.mu.Lock()
	st := standing{state: api.StateAborted, over: true}
	if d.committed {
		st.state = api.StateCommitted
	}
	s.mu.Unlock()
	return receipt(p, st).State
}

// shorten brings a residue within what the list takes: of scopes that are too many, or too long, it names the first.
// An error says that it is out of bounds without any.
func shorten(r *topology.Residue) error {
	all, detail := r.Scopes, r.Detail
	n := min(len(all), topology.MaxEffectScopes)
	for {
		if r.Scopes = all[:n]; n < len(all) {
			r.Detail = fmt.Sprintf("%d scopes, %d of them are named here, hence tail --tx %s names all: %s", len(all), n, r.Tx,
				detail)
		}
		_, err := topology.EncodeResidue(r)
		if err == nil || n == 0 {
			return err
		}
		n /= 2
	}
}

// maxResidueArgs bounds the arguments that a residue repeats, in bytes: a record has room for much besides.
const maxResidueArgs = 16 << 10

// observedTool is the tool of a residue that the log found by itself.
const observedTool = "observed"

// publishDoubts lists the scopes where the log did not believe a settlement that said clean: another transaction
// changed them too, while the workspace observed and let both.
func (s *Agent) publishDoubts(ctx context.Context, d *debt, made gate.Settlement, inc sequencer.Seq) error {
	s.mu.Lock()
	doubtful := d.doubtful
	s.mu.Unlock()
	next := uint32(0)
	var said []sequencer.Scope
	for _, e := range made.Effects {
		next = max(next, e.Index+1)
		if e.Result != sequencer.ResultClean {
			said = append(said, e.Scopes...)
		}
	}
	doubtful = slices.DeleteFunc(slices.Clone(doubtful), func(scope sequencer.Scope) bool {
		return slices.ContainsFunc(said, scope.Overlaps) // these are on the list
	})
	if len(doubtful) == 0 {
		return nil
	}
	tool := gate.Tool{Name: observedTool, Class: sequencer.ClassReversible, Scopes: doubtful}
	return s.publishResidue(ctx, d, gate.Settlement{Residue: []gate.Residue{{
		Effect: gate.Effect{Tx: d.tx, Index: next, Tool: tool}, Result: sequencer.ResultUnresolved,
		Detail: "another transaction changed it too while the workspace observed, in an order that nobody knows: look there",
	}}}, inc)
}

// heldRetracted is what the events topic says of a held call whose transaction was retracted. It counts wherever it
// stands: the order of events says nothing among several sidecars.
const heldRetracted = "its transaction is retracted"

// publishRetracted returns once the events topic says of a retracted transaction's held calls that none is to be made
// any more. Residues of them may stay open, and who tries one again may have a view that never saw the retraction; but
// not before the turn is settled, because until then the transaction holds what its calls move.
func (s *Agent) publishRetracted(ctx context.Context, d *debt) error {
	s.mu.Lock()
	turn := d.turn
	s.mu.Unlock()
	if !turn {
		return nil
	}
	effects, _ := s.delivery.Effects(d.tx)
	var events []*topology.Event
	for i := range effects {
		p := &effects[i]
		if !p.Tool.Class.Gated() {
			continue
		}
		step := gate.StepDropped
		switch { // nothing that the log does not say of it already
		case p.Ran():
			step = gate.StepStarted
		case p.GivenUp:
			step = gate.StepGivenUp
		}
		events = append(events, &topology.Event{
			Kind: topology.EventAnswer, Workspace: s.workspace, Tx: d.tx, Agent: s.agent, AtMs: s.clock.Now().UnixMilli(),
			Effect: &topology.EffectText{Index: p.Index, Step: uint8(step), Detail: heldRetracted},
		})
	}
	return s.delivery.PublishAll(ctx, events)
}

// tryUnderTouch makes a call while the transaction holds what it moves, if it is still to be made then. The log and
// the journal say so before: whoever finds the transaction after a crash does not know what it did.
func (s *Agent) tryUnderTouch(ctx context.Context, t *tx, tool gate.Tool,
	open, call func(context.Context) error) error {
	if err := t.enter(ctx); err != nil {
		return err
	}
	defer t.leave()
	if err := s.touchAll(ctx, t, tool.Scopes, sequencer.WriteAccess); err != nil {
		return err
	}
	if err := open(ctx); err != nil {
		return err
	}
	var wants []sequencer.Want
	for _, scope := range tool.Scopes {
		wants = append(wants, sequencer.Want{Scope: scope, Access: sequencer.WriteAccess})
	}
	if err := s.stretchLease(ctx, tool.MaxTime); err != nil {
		return err
	}
	if _, err := s.handOver(ctx, t, wants); err != nil {
		return err
	}
	err := call(ctx)
	// What came of it belongs to the residue. Of this transaction there is only to say that it counts as a write.
	told := &sequencer.Settle{NoneElse: true,
		Effects: []sequencer.Settled{{Scopes: tool.Scopes, Result: sequencer.ResultClean}}}
	if err := s.delivery.Record(journal.RecordOwn, &journal.OwnRecord{Tx: t.id, Told: told}); err != nil {
		s.log.Warn("a further try is not in the journal as ended", "tx", string(t.id), "cause", err)
	}
	return err
}

// callOfResidue is the call of a residue, as the log has it, and what came of it by hand.
func (s *Agent) callOfResidue(ctx context.Context, r *topology.Residue) (p gate.Progress, by byHand, err error) {
	events, err := s.events.Effects(ctx, s.workspace, r.Tx)
	if err != nil {
		return p, by, api.Problemf(api.CodeLog, "what %s did cannot be read from the log: %v", r.Tx, err)
	}
	effects, err := s.fromLog(r.Tx, events)
	if err != nil {
		return p, by, api.Problemf(api.CodeLog, "%v", err)
	}
	at := slices.IndexFunc(effects, func(p gate.Progress) bool { return p.Index == r.Index })
	if at < 0 {
		return p, by, api.Problemf(api.CodeForgotten, "the log has no call %d of %s any more", r.Index, r.Tx)
	}
	p = effects[at]
	if by, err = madeByHand(&p, events); err != nil {
		return p, by, api.Problemf(api.CodeLog, "%v", err)
	}
	p.Dropped = p.Dropped || slices.ContainsFunc(events, func(ev *topology.Event) bool {
		return ev.Kind == topology.EventAnswer && ev.Effect != nil && ev.Effect.Index == r.Index &&
			ev.Effect.Detail == heldRetracted
	})
	return p, by, nil
}
