package agent

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/topology"
)

// marks is the journal as the gate uses it: a mark is there before what it announces begins.
type marks struct{ session *Agent }

// Mark journals a mark and publishes what has become of a call. An answer that is too large loses its result, or what
// undoing it needs: a mark that is never kept would let the call be made for ever.
func (k marks) Mark(m gate.Mark) error {
	m.Answer = within(m.Answer, journal.MaxAnswer)
	if err := k.session.delivery.Stamp(m); err != nil {
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
func (s *Agent) publishMark(m gate.Mark) {
	text := &topology.EffectText{Index: m.Index, Step: uint8(m.Step), Detail: m.Detail}
	if m.Answer != nil {
		body, err := json.Marshal(within(m.Answer, journal.MaxSpread))
		if err != nil {
			s.log.Error("an answer cannot be written", "tx", string(m.Tx), "index", m.Index, "cause", err)
			return
		}
		text.Answer = body
	}
	ev := func(e *topology.Event, done func(sequencer.Place)) {
		e.Workspace, e.Tx, e.Agent, e.AtMs = s.workspace, m.Tx, s.agent, s.clock.Now().UnixMilli()
		if err := s.delivery.Event(e, done); err != nil {
			s.log.Warn("what became of a call is not published; the journal has it", "tx", string(m.Tx),
				"index", m.Index, "cause", err)
		}
	}
	if len(text.Answer) <= journal.InlineArgs {
		ev(&topology.Event{Kind: topology.EventAnswer, Effect: text}, nil)
		return
	}
	content, ref := journal.ContentEvent(text.Answer)
	content.MediaType = "application/json"
	ev(content, func(at sequencer.Place) {
		ref.Partition, ref.Offset = at.Partition, at.Offset
		text.Answer, text.AnswerRef = nil, ref
		ev(&topology.Event{Kind: topology.EventAnswer, Effect: text}, nil)
	})
}

// within is an answer without what would make it larger than a bound; its detail says what that is. A result is let
// go first: what is saved is only there for the compensation.
func within(a *gate.Answer, most int) *gate.Answer {
	if a == nil || fits(a, most) {
		return a
	}
	result := fmt.Sprintf("its result (%d bytes) is too large and not kept", len(a.Result))
	saved := fmt.Sprintf("what it saved (%d bytes) is too large and not kept: it may be impossible to undo it",
		len(a.Saved))
	out := gate.Answer{}
	for _, out = range []gate.Answer{
		{Detail: result, Saved: a.Saved},
		{Detail: saved, Result: a.Result},
		{Detail: result + "; " + saved},
	} {
		out.Refused, out.AboutKey, out.Absent = a.Refused, a.AboutKey, a.Absent
		if a.Detail != "" {
			out.Detail = a.Detail + "; " + out.Detail
		}
		if fits(&out, most) {
			break
		}
	}
	return &out
}

// fits reports whether an answer can be written within a bound.
func fits(a *gate.Answer, most int) bool {
	body, err := json.Marshal(a)
	return err == nil && len(body) <= most
}

// undoTakes is how long the compensation of a former owner's call may take: as long as any call may when the former
// declaration is not known here. It is zero where none is declared.
func (s *Agent) undoTakes(p *gate.Progress) time.Duration {
	switch {
	case s.tools == nil:
		return 0
	case gate.Unchanged(s.tools, &p.Effect) != nil:
		return s.longestCall()
	case !p.Tool.Undo:
		return 0
	}
	answer := gate.Answer{}
	if p.Answer != nil {
		answer = *p.Answer
	}
	c, err := s.tools.Undo(p.Effect, answer)
	if err != nil {
		return 0
	}
	undo, err := s.tools.Find(c.Tool, c.Args)
	if err != nil {
		return 0
	}
	return undo.MaxTime
}

// asSealed refuses a call whose tool is declared differently now. Where that is allowed, the call moves what today's
// declaration says, besides what it said then.
func (s *Agent) asSealed(p *gate.Progress, allowed bool) error {
	changed := gate.Unchanged(s.tools, &p.Effect)
	if changed == nil {
		return nil
	}
	if !allowed {
		return api.Problemf(api.CodeChangedTool, "%v: it was not called. Make the call by hand and accept the "+
			"residue, or send changed_tool to have it made as it is declared now", changed)
	}
	now, err := s.tools.Find(p.Tool.Name, p.Args)
	if err != nil {
		return api.Problemf(api.CodeTool, "%v", err)
	}
	for _, scope := range now.Scopes {
		p.Tool.Scopes = api.AddScope(p.Tool.Scopes, scope)
	}
	return nil
}
