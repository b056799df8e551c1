package replay

import (
	"math"
	"slices"

	"github.com/hence-dev/hence/sequencer"
)

// causes traces each difference to the first that caused it.
func (r *run) causes() {
	list := r.result.Differences
	first := map[*story]int{} // the first difference of each transaction
	for i := range list {
		d := &list[i]
		d.Cause = r.cause(d, i, first)
		switch {
		case d.Cause.Of < 0:
			d.Cause.First = i
			r.result.Direct++
		default:
			d.Cause.First = list[d.Cause.Of].Cause.First
		}
		if _, found := first[d.s]; !found {
			first[d.s] = i
		}
	}
}

// cause finds what a difference follows from. The order is from what is certain to what is only named.
func (r *run) cause(d *Difference, i int, first map[*story]int) Cause {
	direct := Cause{Why: CauseRule, Of: -1}
	if foretold(d.then, d.now) || foretold(d.now, d.then) || r.notChecked(d) {
		return direct
	}
	// One of those that its outcomes name fared otherwise before: the first of them.
	best := Cause{Of: -1}
	for _, n := range r.named(d) {
		if at, differs := first[n.s]; differs && n.s != d.s && (best.Of < 0 || at < best.Of) {
			best = Cause{Why: n.why, Tx: n.s.id, Of: at}
		}
	}
	if best.Of >= 0 {
		return best
	}
	if at, differs := first[d.s]; differs {
		// It waited, or did not, or was refused before: what came then found another world.
		return Cause{Why: CauseItself, Tx: d.s.id, Of: at}
	}
	if i == 0 || explained(d.then) || explained(d.now) {
		return direct
	}
	return Cause{Why: CauseUnnamed, Tx: r.result.Differences[0].Tx, Of: 0}
}

// foretold: the run that only observed said itself that this is what would have been, of the very state that it had.
func foretold(observed, enforced *event) bool {
	switch {
	case observed == nil || enforced == nil || observed.would == "":
		return false
	case observed.would == sequencer.CodeWaiting:
		return enforced.kind == sequencer.OutcomeWaiting
	}
	return enforced.code == observed.would
}

// notChecked: the run that let it pass does not look for what the other one refused it for.
func (r *run) notChecked(d *Difference) bool {
	if r.change.Levels == nil || d.s.levels() != nil || d.then == nil || d.now == nil || d.now.code == d.then.code {
		return false
	}
	return d.then.kind == sequencer.OutcomeAborted && !checks(*r.change.Levels, d.then.code)
}

// levels are those that the transaction names; nil: the rules'.
func (s *story) levels() *sequencer.Levels {
	if s.first.Begin == nil {
		return nil
	}
	return s.first.Begin.Levels
}

// checks: a transaction of these levels can be refused with the code.
func checks(l sequencer.Levels, code sequencer.Code) bool {
	switch code {
	case sequencer.CodeStaleRead:
		return l&sequencer.A1 != 0
	case sequencer.CodeCascade:
		return l&sequencer.A3 != 0
	case sequencer.CodePhantomTool:
		return l&sequencer.A2 != 0
	}
	return true
}

// explained: the outcome names what it rests on, or what it rests on is not another transaction's.
func explained(e *event) bool {
	if e == nil {
		return false
	}
	switch e.code {
	case sequencer.CodePhantomTool, sequencer.CodeVetoed, sequencer.CodeDenied, sequencer.CodeRulesChanged,
		sequencer.CodeNotWhileObserving:
		return true
	}
	return e.moved.Tx != "" || len(e.blockers) > 0
}

// name is a transaction that an outcome names.
type name struct {
	s   *story
	why string
}

// named lists those that the outcomes of a difference name and that were not to it what they are now.
func (r *run) named(d *Difference) (out []name) {
	add := func(e *event) {
		if e == nil {
			return
		}
		if w := r.stories[e.moved.Tx]; w != nil && !sameTo(w, d, e) {
			out = append(out, name{w, CauseWriter})
		}
		for _, id := range e.blockers {
			if b := r.stories[id]; b != nil {
				out = append(out, name{b, CauseBlocker})
			}
		}
	}
	add(d.now)
	add(d.then)
	if d.What == DiffersOrder || d.What == DiffersDecision || d.What == DiffersReason {
		// Whom it waited for decides when it came.
		for _, s := range []*side{&d.s.now, &d.s.then} {
			for i := range s.events {
				if e := &s.events[i]; e.kind == sequencer.OutcomeWaiting {
					add(e)
				}
			}
		}
	}
	return out
}

// sameTo: who moved what the transaction read or wrote had done so before it in the other run too. So it is not
// because of that one that the two differ.
func sameTo(w *story, d *Difference, e *event) bool {
	switch e.code {
	case sequencer.CodeStaleRead, sequencer.CodeVersionMismatch:
	default:
		return false
	}
	if d.then == nil || d.now == nil {
		return false
	}
	t, n := w.then.decision, w.now.decision
	committed := t != nil && n != nil && t.kind == sequencer.OutcomeCommitted && n.kind == t.kind
	return committed && t.seq < d.then.seq && n.seq < d.now.seq
}

// unknown gathers what the log does not say.
func (r *run) unknown() {
	res := r.result
	differs := map[*story]bool{}
	for i := range res.Differences {
		d := &res.Differences[i]
		differs[d.s] = differs[d.s] || d.What == DiffersDecision || d.What == DiffersReason || d.What == DiffersRefused
	}
	r.otherReads()
	r.retries(differs)
	r.unseen()
	agents := map[string]bool{}
	for _, s := range r.order {
		if len(s.unknown) > 0 {
			res.Unknown = append(res.Unknown, Unknown{Tx: s.id, What: s.unknown})
		}
		// What an agent began after it had the answer, it may not have begun.
		d := s.then.decision
		if !differs[s] || d == nil || agents[s.agent] {
			continue
		}
		if slices.ContainsFunc(r.byAgent(s.agent), func(u *story) bool { return u.base >= d.seq }) {
			agents[s.agent] = true
			res.Agents = append(res.Agents, s.agent)
		}
	}
	slices.Sort(res.Agents)
}

// byAgent lists the transactions of an agent.
func (r *run) byAgent(agent string) []*story {
	if r.agents == nil {
		r.agents = map[string][]*story{}
		for _, s := range r.order {
			r.agents[s.agent] = append(r.agents[s.agent], s)
		}
	}
	return r.agents[agent]
}

// retries marks those that repeat a transaction whose decision is another one: they name it, or repeat the key of a
// call of it.
func (r *run) retries(differs map[*story]bool) {
	keys := map[string]bool{} // agent and key, of calls of those that differ
	for _, s := range r.order {
		again := false
		if b := s.first.Begin; b != nil && b.Predecessor != "" {
			p := r.stories[b.Predecessor]
			again = p != nil && (differs[p] || slices.Contains(p.unknown, unknownRetry))
		}
		if s.seal == nil {
			if again {
				s.knowsNot(unknownRetry)
			}
			continue
		}
		for _, e := range s.seal.Effects {
			again = again || e.Key != "" && keys[s.agent+"\x00"+e.Key]
		}
		if again {
			s.knowsNot(unknownRetry)
		}
		if differs[s] || again {
			for _, e := range s.seal.Effects {
				if e.Key != "" {
					keys[s.agent+"\x00"+e.Key] = true
				}
			}
		}
	}
}

// unseen marks those whose sidecars refused them by themselves, under rules that would not have: the log does not have
// what they would have sealed.
func (r *run) unseen() {
	for _, s := range r.order {
		t := s.then.decision
		if t == nil || t.kind != sequencer.OutcomeAborted || s.seal != nil || s.then.abortedBy() == 0 {
			continue
		}
		off := r.change.Observe != nil && *r.change.Observe || r.change.Levels != nil && !checks(*r.change.Levels, t.code)
		if off && t.code != sequencer.CodeAbortedByAgent && t.code != sequencer.CodeToolFailed {
			s.knowsNot(unknownUnseen)
		}
	}
}

// abortedBy is the number of the abort that ended the transaction; zero: none did.
func (s *side) abortedBy() uint32 {
	if d := s.decision; d != nil && d.intent == sequencer.IntentAbort {
		return d.n
	}
	return 0
}

// otherReads marks those that read what a transaction wrote, or had not written, that committed in one run only.
func (r *run) otherReads() {
	var only []*story // committed in one run only, with what they wrote
	for _, s := range r.order {
		if s.seal != nil && (s.then.committed(math.MaxInt64) != s.now.committed(math.MaxInt64)) {
			only = append(only, s)
		}
	}
	if len(only) == 0 {
		return
	}
	byType := map[string][]written{}
	for _, w := range only {
		for _, at := range writtenBy(w.seal) {
			byType[at.Type()] = append(byType[at.Type()], written{w, at})
		}
	}
	for _, s := range r.order {
		if s.seal != nil && len(s.now.events) > 0 && r.readsOther(s, byType) {
			s.knowsNot(unknownRead)
		}
	}
}

type written struct {
	by *story
	at sequencer.Scope
}

// readsOther: one of its reads lies behind a write that the other run does not have.
func (r *run) readsOther(s *story, byType map[string][]written) bool {
	for _, rd := range s.seal.Reads {
		for _, w := range byType[rd.Scope.Type()] {
			if w.by == s || !w.at.Overlaps(rd.Scope) {
				continue
			}
			if t := w.by.then.decision; w.by.then.committed(math.MaxInt64) && t.seq <= rd.View {
				return true
			}
			if n := w.by.now.decision; w.by.now.committed(math.MaxInt64) && n.seq <= r.viewOf(s, rd.View) {
				return true
			}
		}
	}
	return false
}

// writtenBy are the scopes that a footprint changes.
func writtenBy(s *sequencer.Seal) (out []sequencer.Scope) {
	for _, e := range s.Effects {
		if e.Class != sequencer.ClassRead {
			out = append(out, e.Scopes...)
		}
	}
	for _, w := range s.Shards {
		out = append(out, w.Scope)
	}
	return out
}
