package sidecar

import (
	"encoding/json"
	"fmt"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// marks is the journal as the gate uses it: a mark is there before what it announces begins.
type marks struct{ session *session }

// Mark journals a mark and publishes what has become of a call.
func (k marks) Mark(m gate.Mark) error {
	if err := k.session.delivery.stamp(m); err != nil {
		return fmt.Errorf("journal what became of call %d of %s: %w", m.Index, m.Tx, err)
	}
	switch m.Step {
	case gate.StepStarted, gate.StepUndoing, gate.StepIssued:
		return nil
	}
	k.session.publishMark(m)
	return nil
}

// publishMark lets the events topic know, without waiting: for whoever settles without this journal.
func (s *session) publishMark(m gate.Mark) {
	text := &topology.EffectText{Index: m.Index, Step: uint8(m.Step), Detail: m.Detail}
	if m.Answer != nil {
		body, err := json.Marshal(m.Answer)
		if err != nil {
			s.log.Error("an answer cannot be written", "tx", string(m.Tx), "index", m.Index, "cause", err)
			return
		}
		text.Answer = body
	}
	ev := func(e *topology.Event, done func(sequencer.Place)) {
		e.Workspace, e.Tx, e.Agent, e.AtMs = s.workspace, m.Tx, s.agent, s.clock.Now().UnixMilli()
		if err := s.delivery.event(e, done); err != nil {
			s.log.Warn("what became of a call is not published; the journal has it", "tx", string(m.Tx),
				"index", m.Index, "cause", err)
		}
	}
	if len(text.Answer) <= inlineArgs {
		ev(&topology.Event{Kind: topology.EventAnswer, Effect: text}, nil)
		return
	}
	content, ref := contentEvent(text.Answer)
	content.MediaType = "application/json"
	ev(content, func(at sequencer.Place) {
		ref.Partition, ref.Offset = at.Partition, at.Offset
		text.Answer, text.AnswerRef = nil, ref
		ev(&topology.Event{Kind: topology.EventAnswer, Effect: text}, nil)
	})
}
