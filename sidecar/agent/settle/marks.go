package settle

import (
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/sidecar/loop"
	"github.com/hence-dev/hence/topology"
)

// Marks is the journal as the gate uses it: a mark is there before what it announces begins. It is used outside of the
// loop, too.
type Marks struct {
	Journal          *journal.Journal
	Workspace, Agent string
	Clock            loop.Clock
	Logger           *slog.Logger
}

// Mark journals a mark and publishes what has become of a call. An answer that is too large loses its result, or what
// undoing it needs: a mark that is never kept would let the call be made for ever.
func (k Marks) Mark(m gate.Mark) error {
	m.Answer = within(m.Answer, journal.MaxAnswer)
	if err := k.Journal.Stamp(m); err != nil {
		return fmt.Errorf("journal what became of call %d of %s: %w", m.Index, m.Tx, err)
	}
	switch m.Step {
	case gate.StepStarted, gate.StepUndoing, gate.StepIssued:
		return nil
	}
	k.publish(m)
	return nil
}

// publish puts a mark into the events topic, without waiting, for a sidecar that settles without this journal.
func (k Marks) publish(m gate.Mark) {
	text := &topology.EffectText{Index: m.Index, Step: uint8(m.Step), Detail: m.Detail}
	if m.Answer != nil {
		body, err := json.Marshal(within(m.Answer, journal.MaxSpread))
		if err != nil {
			k.Logger.Error("an answer cannot be written", "tx", string(m.Tx), "index", m.Index, "cause", err)
			return
		}
		text.Answer = body
	}
	ev := func(e *topology.Event, done func(sequencer.Place)) {
		e.Workspace, e.Tx, e.Agent, e.AtMs = k.Workspace, m.Tx, k.Agent, k.Clock.Now().UnixMilli()
		if err := k.Journal.Event(e, done); err != nil {
			k.Logger.Warn("what became of a call is not published: the journal has it, and the next start publishes an answer",
				"tx", string(m.Tx), "index", m.Index, "cause", err)
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

// again publishes the answers that a former process did not publish: it ended before that, or its journal took the
// mark and not the event.
func (k Marks) again() {
	for _, p := range k.Journal.Untold() {
		k.publish(gate.Mark{Tx: p.Tx, Index: p.Index, Step: gate.StepAnswered, Answer: p.Answer})
	}
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
