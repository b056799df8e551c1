package settle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/failpoint"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// publishResidue puts what could not be made clean on the list before the log hears of the settlement: a crash in
// between writes it again under the same key.
func (s *Settler) publishResidue(ctx context.Context, d *unsettled, made gate.Settlement, inc sequencer.Seq) error {
	if err := s.publishRetracted(ctx, d); err != nil {
		return err
	}
	for _, r := range made.Residue {
		agent, _, _, ok := api.OwnerOf(d.tx)
		if !ok {
			agent = s.agent
		}
		record := &topology.Residue{
			Workspace: s.Workspace, Tx: d.tx, Index: r.Effect.Index, Agent: agent, Tool: r.Effect.Tool.Name,
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
		err := s.Loop.Retry(ctx, func() error {
			try, cancel := s.clock.Within(ctx, logTry)
			defer cancel()
			var err error
			s.Loop.Do(func() { // the log may be away for long
				failpoint.Hit(failpoint.ResidueBefore)
				defer failpoint.Hit(failpoint.ResidueAfter)
				err = s.Events.PublishResidue(try, record)
			})
			return err
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

// closeResidue takes off the list what an earlier try of a settlement has put there and this one has made clean: who
// reads the list would make the call by hand.
func (s *Settler) closeResidue(ctx context.Context, d *unsettled, made gate.Settlement, claim gate.Claim) error {
	if claim == gate.ClaimOwn || d.turn { // nobody else has settled it; and what a turn leaves of its release is told
		return nil
	}
	list, _, err := s.residue(ctx)
	if err != nil {
		return err
	}
	for i := range list {
		r := &list[i]
		open := func(still gate.Residue) bool { return still.Effect.Index == r.Index }
		if r.Tx != d.tx || r.State != topology.ResidueOpen || slices.ContainsFunc(made.Residue, open) {
			continue
		}
		r.State, r.Result, r.Detail = topology.ResidueResolved, sequencer.ResultClean, "a later try has settled it clean"
		r.Call = s.callStands(d, r.Index)
		try, cancel := s.clock.Within(ctx, logTry)
		err := s.listResidue(try, r)
		if cancel(); err != nil {
			return err
		}
	}
	return nil
}

// callStands is how a call stands once its transaction is settled; empty: of something that is no call.
func (s *Settler) callStands(d *unsettled, index uint32) string {
	p, known := s.delivery.Call(d.tx, index)
	if !known {
		return ""
	}
	st := Standing{State: api.StateAborted, Over: true}
	if d.committed {
		st.State = api.StateCommitted
	}
	return Receipt(p, st).State
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
func (s *Settler) publishDoubts(ctx context.Context, d *unsettled, made gate.Settlement, inc sequencer.Seq) error {
	doubtful := d.doubtful
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
		Detail: "another transaction changed it too while the workspace observed, in an unknown order: look there",
	}}}, inc)
}

// heldRetracted is what the events topic says of a held call whose transaction was retracted. It counts wherever it
// stands: the order of events says nothing among several sidecars.
const heldRetracted = "its transaction is retracted"

// publishRetracted returns once the events topic says of a retracted transaction's held calls that none is to be made
// any more. Residues of them may stay open, and who tries one again may have a view that never saw the retraction; but
// not before the turn is settled, because until then the transaction holds what its calls move.
func (s *Settler) publishRetracted(ctx context.Context, d *unsettled) error {
	turn := d.turn
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
			Kind: topology.EventAnswer, Workspace: s.Workspace, Tx: d.tx, Agent: s.agent, AtMs: s.clock.Now().UnixMilli(),
			Effect: &topology.EffectText{Index: p.Index, Step: uint8(step), Detail: heldRetracted},
		})
	}
	var err error
	s.Loop.Do(func() { err = s.delivery.PublishAll(ctx, events) }) // the topic has them before the settlement
	return err
}

// tryUnderTouch makes a call while the transaction holds what it moves, if it is still to be made then. The log and
// the journal say so before: a sidecar that finds the transaction after a crash does not know what it did.
func (s *Settler) tryUnderTouch(ctx context.Context, t Held, left leftover,
	open, call func(context.Context) error) error {
	scopes := left.tool.Scopes
	return t.Within(ctx, ctx, scopes, func() error {
		if err := open(ctx); err != nil {
			return err
		}
		if err := s.lease.Stretch(ctx, left.takes); err != nil {
			return err
		}
		if err := t.HandOver(ctx, scopes); err != nil {
			return err
		}
		err := call(ctx)
		// What came of it belongs to the residue. Of this transaction there is only to say that it counts as a write.
		told := &sequencer.Settle{NoneElse: true,
			Effects: []sequencer.Settled{{Scopes: scopes, Result: sequencer.ResultClean}}}
		if err := s.delivery.Record(journal.RecordOwn, &journal.OwnRecord{Tx: t.ID(), Told: told}); err != nil {
			s.log.Warn("a further try is not in the journal as ended", "tx", string(t.ID()), "cause", err)
		}
		return err
	})
}

// callOfResidue is the call of a residue, as the log has it, and what came of it by hand.
func (s *Settler) callOfResidue(ctx context.Context, r *topology.Residue) (p gate.Progress, by byHand, err error) {
	events, err := s.Effects(ctx, r.Tx)
	if err != nil {
		return p, by, api.Problemf(api.CodeLog, "what %s did cannot be read from the log: %v", r.Tx, err)
	}
	effects, err := s.FromLog(r.Tx, events)
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

// dealing holds which residues requests of this sidecar are accepting or trying again, by route: one at a time.
type dealing struct{ with map[string]bool }

// enter notes a request that deals with a residue, until it calls done.
func (d *dealing) enter(tx, index string) (done func(), err error) {
	name := tx + "/" + index
	if d.with[name] {
		return nil, api.Problemf(api.CodeResidueBusy, "effect %.20s of %.100s is being accepted or tried again: look "+
			"at the list once that is done", index, tx)
	}
	if d.with == nil {
		d.with = map[string]bool{}
	}
	d.with[name] = true
	return func() { delete(d.with, name) }, nil
}

// The bounds of an acceptance: for what the residue moves, and for reading and writing the list.
const (
	acceptWait  = 5 * time.Second
	acceptWrite = 3 * time.Second
)

// acceptResidue takes a residue as it is. A try of another sidecar holds what the residue moves from before it looks
// at the list until the list has what came of it. An acceptance holds the same while it looks and writes, so of the
// two one sees what the other has written, and neither record is lost.
func (s *Settler) acceptResidue(ctx context.Context, r *topology.Residue, note string) error {
	accept := func(ctx context.Context) error {
		if err := s.stillResidue(ctx, r); err != nil {
			return err
		}
		r.State, r.Note = topology.ResidueAccepted, note
		return s.listResidue(ctx, r)
	}
	if n := len(r.Scopes); n == 0 || n > s.view.FootprintLimit() {
		return accept(ctx) // it cannot be tried again either: no touch names this
	}
	t, err := s.own.Hold(ctx)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := s.clock.Within(context.WithoutCancel(ctx), logTry)
		defer cancel()
		if err := t.Abort(ctx, "it only held what a residue moves that is accepted"); err != nil {
			s.log.Warn("a residue was accepted, what it moves is still held", "tx", string(t.ID()), "cause", err)
		}
	}()
	if err := s.holdResidue(ctx, t, r); err != nil {
		return err
	}
	bound := acceptWrite
	if most := s.lease.Longest(); most > 0 {
		bound = min(bound, most)
	}
	if err := s.lease.Stretch(ctx, bound); err != nil { // with the lease ends what is held
		return err
	}
	ctx, cancel := s.clock.Within(ctx, bound)
	defer cancel()
	return accept(ctx)
}

// holdResidue returns once a transaction was granted what a residue moves.
func (s *Settler) holdResidue(ctx context.Context, t Held, r *topology.Residue) error {
	short, cancel := s.clock.Within(ctx, acceptWait)
	defer cancel()
	err := t.Within(ctx, short, r.Scopes, func() error { return nil })
	var p *api.Problem
	own := errors.As(err, &p) && p.Code == string(sequencer.CodeOwnTransaction)
	if own || errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return api.Problemf(api.CodeResidueBusy, "what effect %d of %s moves is held by another transaction, which "+
			"may be trying it again: ask again", r.Index, r.Tx)
	}
	return err
}

const (
	maxResidue   = 10_000 // of one look at the list
	maxNoteBytes = 512
)

// Residue lists effects that could not be made clean, of the whole workspace, newest first. The page's Pick has tool,
// result and state; it has no After.
func (s *Settler) Residue(ctx context.Context, page api.Page) (*api.ResidueList, error) {
	list, cut, err := s.residue(ctx)
	if err != nil {
		return nil, err
	}
	out := &api.ResidueList{Workspace: s.Workspace, Items: []api.Residue{}, Truncated: cut}
	for i := range list {
		one := residueOf(&list[i])
		if !page.Wants("tool", topology.NormalName(one.Tool)) || !page.Wants("result", one.Result) ||
			!page.Wants("state", one.State) {
			continue
		}
		if len(out.Items) == page.Limit {
			out.Truncated = true
			break
		}
		out.Items = append(out.Items, one)
	}
	return out, nil
}

func residueOf(r *topology.Residue) api.Residue {
	out := api.Residue{
		Tx: string(r.Tx), Index: r.Index, Agent: r.Agent, Tool: r.Tool, Class: r.Class.String(), Key: r.Key,
		Result: r.Result.String(), State: string(r.State), Detail: r.Detail, Note: r.Note, Tries: r.Tries, AtMs: r.AtMs,
		Code: r.Code, Args: r.Args, Call: r.Call,
	}
	for _, scope := range r.Scopes {
		out.Scopes = append(out.Scopes, string(scope))
	}
	return out
}

// residue is the workspace's list, newest first; cut: there are more.
func (s *Settler) residue(ctx context.Context) (list []topology.Residue, cut bool, err error) {
	s.Loop.Do(func() { list, err = s.Events.Residue(ctx, s.Workspace, maxResidue) }) // a table answers
	if errors.Is(err, streams.ErrTruncated) {
		return list, true, nil
	}
	if err != nil {
		return nil, false, api.Problemf(api.CodeLog, "the list of residues cannot be read: %v", err)
	}
	return list, false, nil
}

// oneResidue is the residue that a request names; it must be open. told: it was tried again before, and only now does
// the list say what came of it.
func (s *Settler) oneResidue(ctx context.Context, tx, index string) (r *topology.Residue, told bool, err error) {
	n, ok := api.Decimal(index)
	if !ok {
		return nil, false, api.Problemf(api.CodeBadRequest, "index %.20q is not a whole number", index)
	}
	list, _, err := s.residue(ctx)
	if err != nil {
		return nil, false, err
	}
	at := slices.IndexFunc(list, func(r topology.Residue) bool {
		return r.Tx == sequencer.TxID(tx) && uint64(r.Index) == n
	})
	if at < 0 {
		return nil, false, api.Problemf(api.CodeNotFound, "effect %d of %.100q is not on the list of residues", n, tx)
	}
	r = &list[at]
	if r.State == topology.ResidueOpen {
		told, err = s.listUnpublished(ctx, &s.unpublished, r)
		return r, told, err
	}
	if s.unpublished.forget(r) {
		return r, true, nil // the write that failed has come through
	}
	return nil, false, dealtWith(r)
}

func dealtWith(r *topology.Residue) error {
	return api.Problemf(api.CodeNotResidue, "effect %d of %s is %s: nothing is left to do", r.Index, r.Tx, r.State)
}

// Resolve deals with a residue: by making the call, or the compensation, that could not be made before, or, when in
// has a note, by taking it as it is.
func (s *Settler) Resolve(ctx context.Context, slot Slot, tx, index string, in *api.Resolve) (*api.Residue, error) {
	if in.Accept != nil {
		return s.accept(ctx, tx, index, in.Accept)
	}
	return s.tryAgain(ctx, slot, tx, index, in.Retry)
}

// accept takes a residue as it is: the operator has looked at the sink, and says so in the note.
func (s *Settler) accept(ctx context.Context, tx, index string, in *api.AcceptResidue) (*api.Residue, error) {
	if in.Note == "" || len(in.Note) > maxNoteBytes {
		return nil, api.Problemf(api.CodeBadRequest, "note is missing or has more than %d bytes: say who accepts it, and "+
			"why",
			maxNoteBytes)
	}
	done, err := s.dealing.enter(tx, index)
	if err != nil {
		return nil, err
	}
	defer done()
	r, _, err := s.oneResidue(ctx, tx, index)
	if err != nil {
		return nil, err
	}
	if r.State != topology.ResidueOpen {
		return nil, dealtWith(r)
	}
	if err := s.acceptResidue(ctx, r, in.Note); err != nil {
		return nil, err
	}
	out := residueOf(r)
	return &out, nil
}

// tryAgain makes the call, or the compensation, that could not be made before.
func (s *Settler) tryAgain(ctx context.Context, slot Slot, tx, index string,
	in *api.RetryResidue) (*api.Residue, error) {
	done, err := s.dealing.enter(tx, index)
	if err != nil {
		return nil, err
	}
	defer done()
	r, told, err := s.oneResidue(ctx, tx, index)
	if err != nil {
		return nil, err
	}
	if !told { // else the call was made: it is not made again only because the list could not be written
		if err := s.tryResidue(ctx, &s.unpublished, r, in, slot); err != nil {
			return nil, err
		}
	}
	out := residueOf(r)
	return &out, nil
}
