package settle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/sidecar/view"
	"github.com/hence-dev/hence/topology"
)

// publishMade returns once the events topic has that a try begins, or what came of it. A retraction has to know that a
// held call may have left, and a later try that there is nothing left to call. The try names the transaction
// under which it is made: the order of events says nothing among several sidecars.
func (s *Settler) publishMade(ctx context.Context, r *topology.Residue, in sequencer.TxID, left leftover,
	step gate.Step, answer *gate.Answer) error {
	by := topology.ByHand{In: in, Undo: left.undo}
	text := &topology.EffectText{Index: r.Index, Step: uint8(step), Detail: by.Text(), ByHand: &by}
	if answer != nil {
		body, err := json.Marshal(within(answer, journal.MaxSpread))
		if err != nil {
			return fmt.Errorf("write down the answer of %s, call %d: %w", r.Tx, r.Index, err)
		}
		text.Answer = body
	}
	events := []*topology.Event{{
		Kind: topology.EventAnswer, Workspace: s.Workspace, Tx: r.Tx, Agent: s.agent, AtMs: s.clock.Now().UnixMilli(),
		Effect: text,
	}}
	var err error
	s.Loop.Do(func() { err = s.delivery.PublishAll(ctx, events) }) // the topic has it before the call leaves
	return err
}

// endMade says what came of it. That is in the journal at once, and the topic mostly has it before anybody asks.
func (s *Settler) endMade(ctx context.Context, r *topology.Residue, in sequencer.TxID, left leftover, step gate.Step,
	answer *gate.Answer) {
	ctx, cancel := s.clock.Within(ctx, view.PauseMost)
	defer cancel()
	if err := s.publishMade(ctx, r, in, left, step, answer); err != nil {
		s.log.Warn("what came of a further try is not in the events topic yet", "tx", string(r.Tx), "cause", err)
	}
}

// isMade reports whether an event is about a residue that was tried again.
func isMade(ev *topology.Event) bool {
	if ev.Kind != topology.EventAnswer || ev.Effect == nil {
		return false
	}
	_, made := ev.Effect.Hand()
	return made
}

// byHand is what came of a residue by hand.
type byHand struct {
	tried  bool             // the call was
	in     []sequencer.TxID // the tries that may have made it
	undone *gate.Answer     // of the compensation
}

// madeByHand adds to what is known of a held call what came of it by hand: one try that was answered counts, else one
// with an unknown outcome.
func madeByHand(p *gate.Progress, events []*topology.Event) (by byHand, err error) {
	ended := map[sequencer.TxID]bool{} // by try
	var ran *gate.Answer
	for _, ev := range events {
		if !isMade(ev) || ev.Effect.Index != p.Index {
			continue
		}
		x := ev.Effect
		try, _ := x.Hand()
		if by.tried = by.tried || !try.Undo; !try.Undo {
			ended[try.In] = ended[try.In] || gate.Step(x.Step) != gate.StepStarted
		}
		if gate.Step(x.Step) != gate.StepAnswered {
			continue
		}
		var a gate.Answer
		if err := json.Unmarshal(x.Answer, &a); err != nil {
			return by, fmt.Errorf("read an answer of %s, call %d: %w", p.Tx, p.Index, err)
		}
		switch {
		case a.Refused:
		case try.Undo:
			by.undone = &a
		case !a.Absent:
			ran = &a
			by.in = append(by.in, try.In)
		}
	}
	unknown := false
	for try, over := range ended {
		if !over {
			unknown = true
			by.in = append(by.in, try)
		}
	}
	switch {
	case p.Ran():
	case ran != nil:
		p.Started, p.Answer, p.GivenUp, p.Unsent = true, ran, false, ""
	case unknown && !p.GivenUp:
		p.Started, p.Answer, p.Tries, p.Unsent = true, nil, max(p.Tries, len(ended)), ""
	}
	return by, nil
}

// madeSince finds out for a retraction's turn which held calls were made by hand after their settlement: they are no
// marks of their transaction's journal, and any sidecar may have made them. One that came too late to be undone in
// this turn is marked so, and named with what came before it.
func (s *Settler) madeSince(ctx context.Context, d *unsettled, effects []gate.Progress) (late map[uint32]string,
	err error) {
	turn := d.turn
	if !turn || !slices.ContainsFunc(effects, func(p gate.Progress) bool { return p.Tool.Class.Gated() }) {
		return nil, nil
	}
	events, err := s.Effects(ctx, d.tx)
	if err != nil {
		return nil, fmt.Errorf("read what was made by hand of %s from the log: %w", d.tx, err)
	}
	made := make([]byHand, len(effects))
	for i := range effects {
		if effects[i].Tool.Class.Gated() {
			if made[i], err = madeByHand(&effects[i], events); err != nil {
				return nil, err
			}
		}
	}
	late = map[uint32]string{}
	for i := range effects {
		p := &effects[i]
		if !made[i].tried {
			continue
		}
		if len(made[i].in) > 0 && p.Tool.Undo && p.UndoDone == nil {
			other, err := s.madeBefore(ctx, effects, made, i)
			if err != nil {
				return nil, err
			}
			if other != "" {
				p.UndoLost, late[p.Index] = true, other
			}
		}
		if err := s.delivery.Issue(p); err != nil {
			return nil, err
		}
	}
	return late, nil
}

// madeBefore finds what wrote the same as a call before that was made by hand, and is undone before it: a later held
// call of the transaction, or another member of the cone.
func (s *Settler) madeBefore(ctx context.Context, effects []gate.Progress, made []byHand, at int) (string, error) {
	p, last, known := &effects[at], sequencer.Seq(0), true
	for _, id := range made[at].in {
		seq, ok := s.decidedAt(id)
		last, known = max(last, seq), known && ok
	}
	after := func(id sequencer.TxID) bool {
		seq, ok := s.decidedAt(id)
		return ok && known && seq > last
	}
	for i := at + 1; i < len(effects); i++ {
		q := &effects[i]
		ran := q.Ran() || q.GivenUp || q.Started && q.Answer == nil
		held := q.Tool.Class.Gated() // what ran at once is undone after what was held
		if !ran || !held || !api.Meet(p.Tool.Scopes, q.Tool.Scopes) {
			continue
		}
		in := made[i].in
		if len(in) == 0 || slices.ContainsFunc(in, func(id sequencer.TxID) bool { return !after(id) }) {
			return fmt.Sprintf("effect %d", q.Index), nil
		}
	}
	other, err := s.crossed(ctx, p, after)
	return string(other), err
}

// decidedAt is when a transaction was decided; not known: before the view began.
func (s *Settler) decidedAt(id sequencer.TxID) (sequencer.Seq, bool) {
	seen, _ := s.view.Transaction(id)
	if seen.Decision == nil {
		return 0, false
	}
	return seen.Decision.Seq, true
}

// crossed finds another member of the cone that wrote what a call moves before that was made by hand. It has had its
// turn, and the compensation would put back what it had written.
func (s *Settler) crossed(ctx context.Context, p *gate.Progress,
	after func(sequencer.TxID) bool) (sequencer.TxID, error) {
	own, _ := s.view.Transaction(p.Tx)
	first, _ := s.decidedAt(p.Tx)
	for _, id := range s.view.Members(own.Retraction.Of) {
		if seq, ok := s.decidedAt(id); id == p.Tx || ok && seq < first || after(id) {
			continue
		}
		events, err := s.Effects(ctx, id)
		if err != nil {
			return "", fmt.Errorf("read what %s did from the log: %w", id, err)
		}
		for _, ev := range events {
			scopes := []sequencer.Scope{ev.Scope}
			if ev.Effect != nil {
				scopes = ev.Effect.Scopes
			}
			if api.Meet(scopes, p.Tool.Scopes) {
				return id, nil
			}
		}
	}
	return "", nil
}

// sayLate says why calls that were made by hand too late are not undone.
func sayLate(list []gate.Residue, late map[uint32]string) {
	for i := range list {
		if other, ok := late[list[i].Effect.Index]; ok {
			list[i].Detail = fmt.Sprintf("it was made by hand, perhaps after %s, which is retracted with it, had written the "+
				"same: to undo it may put that back; look at the sink, then undo it by hand, retry or accept", other)
		}
	}
}

// unpublished keeps what came of further tries as long as the list of residues does not say it, by record key: the
// call was made, so a repeated request only writes the list.
type unpublished struct{ byKey map[string]unpublishedTry }

type unpublishedTry struct {
	topology.Residue
	undo bool // it was the compensation that was tried
}

func (u *unpublished) keep(r *topology.Residue, undo bool) {
	if u.byKey == nil {
		u.byKey = map[string]unpublishedTry{}
	}
	u.byKey[r.RecordKey()] = unpublishedTry{*r, undo}
}

func (u *unpublished) has(r *topology.Residue) bool {
	_, ok := u.byKey[r.RecordKey()]
	return ok
}

// forget drops what the list says by now; it reports whether there was anything.
func (u *unpublished) forget(r *topology.Residue) bool {
	_, ok := u.byKey[r.RecordKey()]
	delete(u.byKey, r.RecordKey())
	return ok
}

// listUnpublished puts what came of a try on the list, and into r, if the list does not say it yet.
func (s *Settler) listUnpublished(ctx context.Context, u *unpublished, r *topology.Residue) (told bool, err error) {
	kept, ok := u.byKey[r.RecordKey()]
	if seen, _ := s.view.Transaction(r.Tx); ok && !kept.undo && seen.Retraction.Undone {
		delete(u.byKey, r.RecordKey()) // the turn knew what came of it, and what it left counts
		return false, nil
	}
	if !ok {
		return false, nil
	}
	ctx, cancel := s.clock.Within(ctx, logTry)
	defer cancel()
	if err := s.listResidue(ctx, &kept.Residue); err != nil {
		return false, err
	}
	delete(u.byKey, r.RecordKey())
	*r = kept.Residue
	return true, nil
}

// traceparent is the W3C traceparent of a context's span; empty: it has none.
func traceparent(ctx context.Context) string {
	header := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, header)
	return header["traceparent"]
}

// Slot is what a request with an Idempotency-Key keeps of itself; *once.Slot is one. A nil one keeps nothing.
type Slot interface {
	// Get is the transaction under which the request has begun; empty: none. Set names it, and Save journals it.
	Get() sequencer.TxID
	Set(tx sequencer.TxID)
	Save() error
}

// leftover is what is left to do of a residue.
type leftover struct {
	tool    gate.Tool     // of which the residue is, also where its compensation is what is called
	call    gate.Call     // the same, or its compensation
	takes   time.Duration // at most, by the declaration of what is called
	adapter gate.Adapter
	undo    bool         // call is the compensation
	doubt   bool         // a try that is not answered leaves nothing known, and what is left to do stays the same
	made    *gate.Answer // nothing but to list it: a former try was answered so
}

// done is the state of the call once what was left is done.
func (l *leftover) done() string {
	switch {
	case l.undo:
		return api.EffectUndone
	case l.tool.Class.Gated():
		return api.EffectReleased
	}
	return api.EffectDone
}

// tryResidue makes the call, or the compensation, that could not be made before. It holds what the call moves until it
// is answered, and its settlement counts as a write of it: no transaction commits on what was read before.
func (s *Settler) tryResidue(ctx context.Context, u *unpublished, r *topology.Residue, allowed *api.RetryResidue,
	slot Slot) error {
	if slot.Get() != "" { // a former process may have made the call, and its sink cannot tell
		return api.Problemf(api.CodeUnkeyed, "this request was begun before, and the process ended: the call may "+
			"have been made. Look at the sink, then ask under a new Idempotency-Key")
	}
	if s.engine == nil {
		return api.Problemf(api.CodeNoPolicy, "this sidecar was started without a policy file: it calls no tools")
	}
	left, err := s.leftOf(ctx, r, allowed)
	if err != nil {
		return err
	}
	t, err := s.own.Hold(ctx)
	if err != nil {
		return err
	}
	open := func(ctx context.Context) error {
		if u.has(r) {
			return api.Problemf(api.CodeLog, "it was tried again a moment ago, and the list does not say so yet: ask again")
		}
		if err := s.stillResidue(ctx, r); err != nil {
			return err
		}
		left, err = s.leftOf(ctx, r, allowed) // a retraction may have had its turn while the touch waited
		return err
	}
	err = s.tryUnderTouch(ctx, t, left, open, func(ctx context.Context) error {
		if left.call.Key == "" && left.made == nil {
			slot.Set(t.ID())
			if err := slot.Save(); err != nil {
				return err
			}
		}
		err := s.tryCall(ctx, u, r, t, left)
		slot.Set("") // it has its answer here, and the list says what came of it
		return err
	})
	// It is not the agent's, so it does not commit: no loose read of the agent goes with it, and no retraction takes it
	// back beside the residue's own transaction. Whatever came of the call, its settlement counts as a write.
	ctx, cancel := s.clock.Within(context.WithoutCancel(ctx), logTry)
	defer cancel()
	if err := t.Abort(ctx, "it only held what a residue moves that is tried again"); err != nil {
		s.log.Warn("a residue was tried again, what it moves is still held", "tx", string(t.ID()), "cause", err)
	}
	return err
}

// leftOf finds out from the log what is left to do of a residue.
func (s *Settler) leftOf(ctx context.Context, r *topology.Residue, allowed *api.RetryResidue) (leftover, error) {
	p, by, err := s.callOfResidue(ctx, r)
	if err != nil {
		return leftover{}, err
	}
	call := gate.Call{Tool: p.Tool.Name, Tx: p.Tx, Index: p.Index, Origin: s.origin(), Key: p.Key, Args: p.Args,
		Traceparent: traceparent(ctx)}
	hand := s.handOf(r, by.undone)
	hand.Force = true // whether anything is left to do at all
	plan := gate.Next(&p, gate.ClaimStranger, gate.Facts{Phase: gate.PhaseResidue, Hand: hand})
	switch plan.Do {
	case gate.DoRefuse:
		return leftover{}, notByHand(plan.Why, p.Tool.Name)
	case gate.DoDone:
		return leftover{tool: p.Tool, undo: plan.Undo, made: &plan.Answer}, nil
	}
	if err := s.asSealed(&p, allowed.ChangedTool); err != nil {
		return leftover{}, err
	}
	called := p.Tool
	if plan.Undo {
		answer := gate.Answer{}
		if p.Answer != nil {
			answer = *p.Answer
		}
		if call, called, err = gate.Compensation(s.tools, s.origin(), &p, answer); err != nil {
			return leftover{}, api.Problemf(api.CodeTool, "%v", err)
		}
	}
	age := s.clock.Now().Sub(p.At)
	hand.Force, hand.Keyed, hand.Kept = allowed.Force, call.Key != "",
		gate.KeyLives(called.KeyLife, s.clock.Now().Add(called.MaxTime), p.At)
	plan = gate.Next(&p, gate.ClaimStranger, gate.Facts{Phase: gate.PhaseResidue, Hand: hand})
	switch {
	case plan.Why == gate.WhyUnkeyed:
		return leftover{}, unkeyed(call.Tool)
	case plan.Why == gate.WhyKeyForgotten:
		return leftover{}, api.Problemf(api.CodeUnkeyed, "the sink of %s surely knows a key for %s, and this call is "+
			"%s old: if it has happened, it happens a second time. Look there first, then send force", call.Tool,
			called.KeyLife, age.Round(time.Second))
	case plan.Do == gate.DoRefuse:
		return leftover{}, notByHand(plan.Why, p.Tool.Name)
	}
	if plan.Undo {
		call.ForbidOnly = plan.Only
	}
	adapter, err := s.capped.Adapter(call.Tool)
	if err != nil {
		return leftover{}, api.Problemf(api.CodeTool, "%v", err)
	}
	unsure := hand
	unsure.Result = sequencer.ResultUnresolved
	doubt := unsure.ToUndo(&p) == plan.Undo
	return leftover{tool: p.Tool, call: call, takes: min(called.MaxTime, s.lease.Longest()), adapter: adapter,
		undo: plan.Undo, doubt: doubt}, nil
}

// handOf is what the gate has to know of a residue that is to be tried again.
func (s *Settler) handOf(r *topology.Residue, undone *gate.Answer) gate.Hand {
	seen, _ := s.view.Transaction(r.Tx)
	return gate.Hand{Result: r.Result, Back: seen.Retraction.Of != "", Undone: undone}
}

// notByHand says why a residue cannot be tried again.
func notByHand(why gate.Why, tool string) error {
	switch why {
	case gate.WhyRetracted:
		return api.Problemf(api.CodeTool, "%s did not leave, and its transaction is retracted: it is not made any more, "+
			"accept it",
			tool)
	case gate.WhyUnknown:
		return api.Problemf(api.CodeTool, "%s may have happened, should not have, and no compensation of it is "+
			"declared: look at the sink, undo it by hand, then accept", tool)
	case gate.WhyNoUndo:
		return api.Problemf(api.CodeTool, "%s happened, and no compensation of it is declared: undo it by hand, then accept",
			tool)
	}
	return api.Problemf(api.CodeUnkeyed, "it is unknown whether %s happened, and its sink is not declared to forbid a "+
		"key: a compensation would undo what is perhaps not there. Look there first; if it is, send force", tool)
}

func unkeyed(tool string) error {
	return api.Problemf(api.CodeUnkeyed, "the sink of %s takes no key: if it has happened, it happens a second time. "+
		"Look there first, then send force", tool)
}

// stillResidue refuses to try a residue again that is no longer open, or that was tried since it was looked at.
func (s *Settler) stillResidue(ctx context.Context, r *topology.Residue) error {
	list, _, err := s.residue(ctx)
	if err != nil {
		return err
	}
	for _, now := range list {
		switch {
		case now.Tx != r.Tx || now.Index != r.Index:
		case now.State != topology.ResidueOpen:
			return api.Problemf(api.CodeNotResidue, "effect %d of %s is %s meanwhile: nothing is left to do", r.Index, r.Tx,
				now.State)
		case now.Tries != r.Tries || now.Result != r.Result:
			return api.Problemf(api.CodeNotResidue, "effect %d of %s was tried meanwhile: look at the list, then ask again",
				r.Index,
				r.Tx)
		}
	}
	return nil
}

// tryCall makes the call in a transaction. The list says before that it may have happened, should this process end.
func (s *Settler) tryCall(ctx context.Context, u *unpublished, r *topology.Residue, t Held, left leftover) error {
	if left.made != nil {
		return s.noteTry(ctx, u, r, left, *left.made)
	}
	var answer gate.Answer
	began := s.clock.Steady()
	err := s.announceTry(ctx, r, t, left)
	if err == nil {
		bound, cancel := s.clock.Within(s.work, left.takes)                     // a client that goes away breaks nothing off
		s.Loop.Do(func() { answer, err = left.adapter.Call(bound, left.call) }) // the sink answers
		cancel()
	} else {
		err = fmt.Errorf("%w: %w", gate.ErrNotSent, err)
	}
	ctx = context.WithoutCancel(ctx)
	if err == nil {
		s.endMade(ctx, r, t.ID(), left, gate.StepAnswered, &answer)
		return s.noteTry(ctx, u, r, left, answer)
	}
	if errors.Is(err, gate.ErrNotSent) {
		s.endMade(ctx, r, t.ID(), left, gate.StepNotSent, nil)
		ctx, cancel := s.clock.Within(ctx, logTry)
		defer cancel()
		if err := s.listResidue(ctx, r); err != nil {
			s.log.Warn("the list does not say that a further try did not leave", "tx", string(r.Tx), "cause", err)
		}
	} else { // it may still land: what it moves is held until it cannot
		s.Loop.Sleep(s.work, left.takes-s.clock.Steady().Sub(began))
	}
	var p *api.Problem
	if errors.As(err, &p) {
		return p
	}
	return api.Problemf(api.CodeToolUnreachable, "%s was tried again without an answer: %v", left.tool.Name, err)
}

// announceTry says in the events topic and on the list that a call may have happened. It is the last step before that
// leaves.
func (s *Settler) announceTry(ctx context.Context, r *topology.Residue, t Held, left leftover) error {
	if err := s.publishMade(ctx, r, t.ID(), left, gate.StepStarted, nil); err != nil {
		return api.Problemf(api.CodeLog, "that %s is tried again is not in the events topic: %v", left.tool.Name, err)
	}
	now := *r
	now.Tries++
	now.Detail = fmt.Sprintf("tried again (call %d), and no answer is known: it may have happened, look at the sink",
		now.Tries)
	if left.doubt {
		now.Result = sequencer.ResultUnresolved
	}
	if !left.undo {
		now.Call = api.EffectUnknown
	}
	if err := s.listResidue(ctx, &now); err != nil {
		return err
	}
	if err := s.lease.Stretch(ctx, left.takes); err != nil { // writing may have taken long
		return err
	}
	return t.Usable() // the lease may be the next session's: then what it moves may be another's, or a turn is over
}

// noteTry puts what came of another try on the list, before anybody else can make one.
func (s *Settler) noteTry(ctx context.Context, u *unpublished, r *topology.Residue, left leftover,
	answer gate.Answer) error {
	r.Tries++
	switch {
	case answer.Refused && r.Result == sequencer.ResultUnresolved && !answer.AboutKey:
		r.Detail = fmt.Sprintf("tried again and refused now (%s), but an earlier try was not answered: look at the sink",
			answer.Detail)
	case answer.Refused:
		r.Detail = "tried again and refused: " + answer.Detail
		r.Call = api.EffectFailed
		if left.undo {
			r.Call = api.EffectUndoLost
		}
	default:
		r.State, r.Result, r.Detail = topology.ResidueResolved, sequencer.ResultClean, "tried again, and answered"
		r.Code, r.Args, r.Call = "", nil, left.done()
	}
	ctx, cancel := s.clock.Within(context.WithoutCancel(ctx), logTry)
	defer cancel()
	err := s.listResidue(ctx, r)
	if err != nil {
		u.keep(r, left.undo)
	}
	return err
}

// listResidue puts a residue back on the list as it is now.
func (s *Settler) listResidue(ctx context.Context, r *topology.Residue) error {
	r.AtMs, r.Incarnation = s.clock.Now().UnixMilli(), s.now()
	var err error
	s.Loop.Do(func() { err = s.Events.PublishResidue(ctx, r) }) // the log may be away for long
	if err != nil {
		return api.Problemf(api.CodeLog, "the list of residues cannot be written: %v", err)
	}
	return nil
}
