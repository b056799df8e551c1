package explore

import (
	"fmt"
	"strings"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sequencer/script"
)

// Trace is a way through a configuration, as lines of package script: intents, with what the fold answered and what
// happened in the world as comments.
type Trace struct {
	Lines   []string
	Intents []*sequencer.Intent // the records of the log alone
	Notes   []string            // what happened in the world after each of them
}

// String returns the lines.
func (t Trace) String() string { return strings.Join(t.Lines, "\n") }

// Script returns the trace as a script of the fold: the sentence that it shows, one block with the log, and the state
// hash. What the fold answers is filled in by running the scripts with -rewrite.
func (t Trace) Script(sentence string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", sentence)
	b.WriteString("run\n")
	for i, in := range t.Intents {
		b.WriteString(script.Format(in))
		if t.Notes[i] != "" {
			b.WriteString("  # " + t.Notes[i])
		}
		b.WriteByte('\n')
	}
	b.WriteString("----\n\nhash\n----\n")
	return b.String()
}

// trace walks a way again and writes it down.
func (m *model) trace(acts []action) Trace {
	var t Trace
	log := func(in *sequencer.Intent, outcomes []sequencer.Outcome) {
		t.Intents, t.Notes = append(t.Intents, in), append(t.Notes, "")
		t.Lines = append(t.Lines, script.Format(in))
		for i := range outcomes {
			t.Lines = append(t.Lines, "#   "+OutcomeLine(&outcomes[i]))
		}
	}
	f := sequencer.New(workspace)
	offset := int64(0)
	put := func(in *sequencer.Intent) {
		offset++
		if m.cfg.Behind {
			f = m.restore(f.State())
		}
		step, _ := Step(f, offset, in)
		log(in, step.Outcomes)
	}
	for _, in := range m.opening() {
		put(in)
	}
	s := m.root()
	for _, act := range acts {
		before := s.world
		s.intent, s.fault = nil, ""
		m.apply(s, act)
		if s.intent != nil {
			put(s.intent)
		} else {
			note := m.worldLine(&before, &s.world, act)
			t.Lines = append(t.Lines, "# "+note)
			if last := &t.Notes[len(t.Notes)-1]; *last == "" {
				*last = note
			} else {
				*last += "; " + note
			}
		}
	}
	return t
}

// OutcomeLine is an outcome as one line of a trace.
func OutcomeLine(o *sequencer.Outcome) string {
	line := fmt.Sprintf("%d %s %s", o.Seq, o.Kind, o.Tx)
	if o.Code != "" {
		line += " " + string(o.Code)
	}
	for _, b := range o.BlockedBy {
		line += fmt.Sprintf(" blocked by %s (%s %s)", b.Tx, b.Why, b.Scope)
	}
	if o.Moved.Tx != "" {
		line += " moved by " + string(o.Moved.Tx)
	}
	return line
}

// worldLine says what a step that reaches no log did.
func (m *model) worldLine(before, after *world, act action) string {
	t := &before.agents[act.who].txs[act.slot]
	id := m.txID(int(act.who), t)
	switch act.verb {
	case doRead:
		r := after.agents[act.who].txs[0]
		last := r.reads[r.nReads-1]
		return fmt.Sprintf("%s reads %s at view %d: %s", id, m.cfg.Scopes[last.scope], last.view, valueName(last.value))
	case doViewed:
		return fmt.Sprintf("%s takes the view of its last read: %d", id, act.arg)
	case doGiveUp:
		return fmt.Sprintf("%s gives up to undo its last effect", id)
	case doSee:
		return fmt.Sprintf("%s sees its abort while a call is in flight", id)
	case doDrop:
		return fmt.Sprintf("%s sees its abort before its calls leave", id)
	case doRetry:
		return fmt.Sprintf("%s has a successor", id)
	}
	word := map[verb]string{doLand: "takes effect on", doUndo: "is undone on", doRelease: "is released on"}[act.verb]
	for i, s := range m.cfg.Scopes {
		if before.value[i] != after.value[i] {
			return fmt.Sprintf("%s %s %s: %s", id, word, s, valueName(after.value[i]))
		}
	}
	return fmt.Sprintf("%s %s a scope that has the value already", id, word)
}
