package sidecar

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// What the events topic says of a residue that is tried again begins with one of these, for the call and for its
// compensation. The transaction under which it is tried comes after it: the order of events says nothing among several
// sidecars.
const (
	madeIn   = "made by hand in "
	undoneIn = "undone by hand in "
)

// publishMade returns once the events topic has that a try begins, or what came of it. A retraction has to know that a
// held call may have left, and whoever tries again that there is nothing left to call.
func (s *session) publishMade(ctx context.Context, r *topology.Residue, in sequencer.TxID, left leftover,
	step gate.Step, answer *gate.Answer) error {
	text := &topology.EffectText{Index: r.Index, Step: uint8(step), Detail: madeIn + string(in)}
	if left.undo {
		text.Detail = undoneIn + string(in)
	}
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
	return ev.Kind == topology.EventAnswer && ev.Effect != nil &&
		(strings.HasPrefix(ev.Effect.Detail, madeIn) || strings.HasPrefix(ev.Effect.Detail, undoneIn))
}

// byHand is what came of a residue by hand.
type byHand struct {
	tried  bool           // the call was
	in     sequencer.TxID // it was answered in this one; empty: it was not
	undone *gate.Answer   // of the compensation
}

// madeByHand adds to what is known of a held call what came of it by hand: one try that was answered counts, else one
// of which nobody knows.
func madeByHand(p *gate.Progress, events []*topology.Event) (by byHand, err error) {
	ended := map[string]bool{} // by try
	var ran *gate.Answer
	for _, ev := range events {
		if !isMade(ev) || ev.Effect.Index != p.Index {
			continue
		}
		x, undo := ev.Effect, strings.HasPrefix(ev.Effect.Detail, undoneIn)
		if by.tried = by.tried || !undo; !undo {
			ended[x.Detail] = ended[x.Detail] || gate.Step(x.Step) != gate.StepStarted
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
		case undo:
			by.undone = &a
		case !a.Absent:
			ran, by.in = &a, sequencer.TxID(strings.TrimPrefix(x.Detail, madeIn))
		}
	}
	unknown := false
	for _, over := range ended {
		unknown = unknown || !over
	}
	switch {
	case p.Ran():
	case ran != nil:
		p.Started, p.Answer, p.GivenUp = true, ran, false
	case unknown && !p.GivenUp:
		p.Started, p.Answer, p.Tries = true, nil, max(p.Tries, len(ended))
	}
	return by, nil
}

// madeSince finds out for a retraction's turn which held calls were made by hand after their settlement: they are no
// marks of their transaction's journal, and any sidecar may have made them. One that came too late to be undone in
// this turn is marked so, and named with what came before it.
func (s *session) madeSince(ctx context.Context, d *debt, effects []gate.Progress) (late map[uint32]sequencer.TxID,
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
	late = map[uint32]sequencer.TxID{}
	for i := range effects {
		p := &effects[i]
		if !p.Tool.Class.Gated() {
			continue
		}
		by, err := madeByHand(p, events)
		if err != nil {
			return nil, err
		}
		if !by.tried {
			continue
		}
		if by.in != "" && p.Tool.Undo && p.UndoDone == nil {
			other, err := s.crossed(ctx, p, by.in)
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

// crossed finds another member of the cone that wrote what a call moves before that was made by hand. It has had its
// turn, and the compensation would put back what it had written.
func (s *session) crossed(ctx context.Context, p *gate.Progress, in sequencer.TxID) (sequencer.TxID, error) {
	at := func(id sequencer.TxID) (sequencer.Seq, bool) {
		seen, _ := s.view.transaction(id)
		if seen.decision == nil {
			return 0, false // it was decided before the view began
		}
		return seen.decision.Seq, true
	}
	own, _ := s.view.transaction(p.Tx)
	first, _ := at(p.Tx)
	last, known := at(in)
	for _, id := range s.view.members(own.retraction.of) {
		if seq, ok := at(id); id == p.Tx || ok && (seq < first || known && seq > last) {
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
			if slices.ContainsFunc(scopes, func(s sequencer.Scope) bool {
				return slices.ContainsFunc(p.Tool.Scopes, s.Overlaps)
			}) {
				return id, nil
			}
		}
	}
	return "", nil
}

// sayLate says why calls that were made by hand too late are not undone.
func sayLate(list []gate.Residue, late map[uint32]sequencer.TxID) {
	for i := range list {
		if other, ok := late[list[i].Effect.Index]; ok {
			list[i].Detail = fmt.Sprintf("it was made by hand, perhaps after %s, which is retracted with it, had written the "+
				"same: to undo it may put that back; look at the sink, then undo it by hand, retry or accept", other)
		}
	}
}
