package sidecar

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// publishMade returns once the events topic has that a try begins, or what came of it. A retraction has to know that a
// held call may have left, and whoever tries again that there is nothing left to call. The try names the transaction
// under which it is made: the order of events says nothing among several sidecars.
func (s *session) publishMade(ctx context.Context, r *topology.Residue, in sequencer.TxID, left leftover,
	step gate.Step, answer *gate.Answer) error {
	by := topology.ByHand{In: in, Undo: left.undo}
	text := &topology.EffectText{Index: r.Index, Step: uint8(step), Detail: by.Text(), ByHand: &by}
	if answer != nil {
		body, err := json.Marshal(within(answer, maxSpread))
		if err != nil {
			return fmt.Errorf("write down the answer of %s, call %d: %w", r.Tx, r.Index, err)
		}
		text.Answer = body
	}
	return s.delivery.publishAll(ctx, []*topology.Event{{
		Kind: topology.EventAnswer, Workspace: s.workspace, Tx: r.Tx, Agent: s.agent, AtMs: s.clock.Now().UnixMilli(),
		Effect: text,
	}})
}

// endMade says what came of it. That is in the journal at once, and the topic mostly has it before anybody asks.
func (s *session) endMade(ctx context.Context, r *topology.Residue, in sequencer.TxID, left leftover, step gate.Step,
	answer *gate.Answer) {
	ctx, cancel := context.WithTimeout(ctx, pauseMost)
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
// of which nobody knows.
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
func (s *session) madeSince(ctx context.Context, d *debt, effects []gate.Progress) (late map[uint32]string,
	err error) {
	s.mu.Lock()
	turn := d.turn
	s.mu.Unlock()
	if !turn || !slices.ContainsFunc(effects, func(p gate.Progress) bool { return p.Tool.Class.Gated() }) {
		return nil, nil
	}
	events, err := s.events.Effects(ctx, s.workspace, d.tx)
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
		if err := s.delivery.issue(p); err != nil {
			return nil, err
		}
	}
	return late, nil
}

// madeBefore finds what wrote the same as a call before that was made by hand, and is undone before it: a later call
// of the transaction, or another member of the cone.
func (s *session) madeBefore(ctx context.Context, effects []gate.Progress, made []byHand, at int) (string, error) {
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
		if !ran || !meet(p.Tool.Scopes, q.Tool.Scopes) {
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
func (s *session) decidedAt(id sequencer.TxID) (sequencer.Seq, bool) {
	seen, _ := s.view.transaction(id)
	if seen.decision == nil {
		return 0, false
	}
	return seen.decision.Seq, true
}

// crossed finds another member of the cone that wrote what a call moves before that was made by hand. It has had its
// turn, and the compensation would put back what it had written.
func (s *session) crossed(ctx context.Context, p *gate.Progress,
	after func(sequencer.TxID) bool) (sequencer.TxID, error) {
	own, _ := s.view.transaction(p.Tx)
	first, _ := s.decidedAt(p.Tx)
	for _, id := range s.view.members(own.retraction.of) {
		if seq, ok := s.decidedAt(id); id == p.Tx || ok && seq < first || after(id) {
			continue
		}
		events, err := s.events.Effects(ctx, s.workspace, id)
		if err != nil {
			return "", fmt.Errorf("read what %s did from the log: %w", id, err)
		}
		for _, ev := range events {
			scopes := []sequencer.Scope{ev.Scope}
			if ev.Effect != nil {
				scopes = ev.Effect.Scopes
			}
			if meet(scopes, p.Tool.Scopes) {
				return id, nil
			}
		}
	}
	return "", nil
}

// meet reports whether two calls move something in common.
func meet(a, b []sequencer.Scope) bool {
	return slices.ContainsFunc(a, func(s sequencer.Scope) bool { return slices.ContainsFunc(b, s.Overlaps) })
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
