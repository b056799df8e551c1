package replay

import (
	"cmp"
	"maps"
	"slices"

	"github.com/hence-dev/hence/sequencer"
)

// now is the second run.
type now struct {
	fold    *sequencer.Fold
	at      []sequencer.Seq                 // where each seq as recorded lies, by that seq
	joined  map[sequencer.Seq]sequencer.Seq // incarnations, by those as recorded
	live    map[string]sequencer.Seq        // incarnations, by agent
	open    map[*story]bool                 // not decided
	owing   map[*story]bool                 // decided, and not settled
	stirred map[*story]bool                 // whose next step may have become possible; see goOn
	early   []putIn                         // records to put in, by the seq as recorded after which they come
	reached sequencer.Seq                   // as recorded
	offset  int64
	err     error
}

// putIn is a record that other rules ask for and that the log does not have.
type putIn struct {
	after sequencer.Seq // as recorded
	s     *story
	in    *sequencer.Intent
}

// changed is the second run: each record as the other rules would have it.
func (r *run) changed() error {
	rules := r.change.rules(sequencer.DefaultRules())
	fold, err := sequencer.Restore(sequencer.State{Workspace: r.log.Workspace, Rules: rules})
	if err != nil {
		return err
	}
	r.now = now{fold: fold, at: make([]sequencer.Seq, 1, r.result.Seqs+1), joined: map[sequencer.Seq]sequencer.Seq{},
		live: map[string]sequencer.Seq{}, open: map[*story]bool{}, owing: map[*story]bool{},
		stirred: map[*story]bool{}}
	for _, s := range r.order {
		s.then.rewind()
		s.numbers = map[uint32]uint32{}
		r.putIns(s)
	}
	slices.SortStableFunc(r.now.early, func(a, b putIn) int { return cmp.Compare(a.after, b.after) })
	for i, rec := range r.log.Records {
		r.now.offset = rec.Offset
		before := fold.Seq()
		r.give(rec.Intent)
		r.goOn()
		r.pass(r.then.ends[i], before)
		r.putInUpTo(r.now.reached)
		if r.now.err != nil {
			return r.now.err
		}
	}
	r.result.NowChain = fold.State().Chain
	return nil
}

// pass notes where the seqs of a record lie: in the same step, the first at the first.
func (r *run) pass(end, before sequencer.Seq) {
	n := &r.now
	after := n.fold.Seq()
	for seq := n.reached + 1; seq <= end; seq++ {
		at := min(before+(seq-n.reached), after)
		if seq == end {
			at = after // a view of the whole step covers all that it does now
		}
		n.at = append(n.at, at)
	}
	n.reached = end
}

// view is where a seq as recorded lies. One that was not reached is not reached.
func (r *run) view(seq sequencer.Seq) sequencer.Seq {
	n := &r.now
	if int(seq) < len(n.at) {
		return n.at[seq]
	}
	return n.fold.Seq() + (seq - n.reached)
}

// viewOf is view for what a transaction saw: what followed a grant as recorded follows it now.
func (r *run) viewOf(s *story, seq sequencer.Seq) sequencer.Seq {
	at := r.view(seq)
	for _, m := range s.later {
		if m.then <= seq {
			at = max(at, m.now)
		}
	}
	return at
}

// incarnation is the one that the same join began. A number that no join began stays one.
func (r *run) incarnation(seq sequencer.Seq) sequencer.Seq {
	if at, found := r.now.joined[seq]; found || seq == 0 {
		return at
	}
	for slices.Contains(slices.Collect(maps.Values(r.now.live)), seq) {
		seq += 1 << 32
	}
	return seq
}

// give hands a record of the log to the second run: now, later, or not at all.
func (r *run) give(in *sequencer.Intent) {
	if in == nil || in.Tx == "" || r.stories[in.Tx] == nil {
		r.step(nil, r.translated(nil, in))
		return
	}
	s := r.stories[in.Tx]
	was := s.then.before(r.now.offset)
	if ask := r.asksFirst(s, in); ask != nil {
		s.held = append(s.held, record{ask, open})
	}
	r.enqueue(s, record{in, was})
}

// enqueue gives a record of a transaction, behind those that wait.
func (r *run) enqueue(s *story, rec record) {
	if len(s.held) > 0 || s.tooEarly(rec.in, rec.was) {
		s.held = append(s.held, rec)
		r.now.stirred[s] = true
		return
	}
	r.offer(s, rec.in, rec.was)
}

// putInUpTo gives the records that the change asks for, where the log has reached their place.
func (r *run) putInUpTo(reached sequencer.Seq) {
	n := &r.now
	for len(n.early) > 0 && n.early[0].after <= reached {
		p := n.early[0]
		n.early = n.early[1:]
		was := open
		if p.in.Kind == sequencer.IntentBegin {
			was = absent
		}
		r.result.suppose(supposedAsked)
		r.enqueue(p.s, record{p.in, was})
	}
	r.goOn()
}

// tooEarly: its sidecar would not have sent the record yet. A call waits for its grant, and what follows it too; what
// is settled, adopted, judged or taken back was decided, or sealed, before.
func (s *story) tooEarly(in *sequencer.Intent, was phase) bool {
	switch p := s.now.phase; in.Kind {
	case sequencer.IntentBegin, sequencer.IntentTouch, sequencer.IntentSeal, sequencer.IntentAbort:
		return p == waiting && was != waiting
	case sequencer.IntentVerdict:
		return p < sealed && was == sealed && !s.shut
	case sequencer.IntentSettle:
		return !was.undecided() && (p.undecided() && !s.shut || was == turn && p == retracting)
	case sequencer.IntentAdopt, sequencer.IntentRetract:
		return p.undecided() && !was.undecided() && !s.shut
	}
	return false
}

// needless: its sidecar would not have sent the record at all, for the transaction has ended, or never opened.
func (s *story) needless(in *sequencer.Intent, was phase) bool {
	p := s.now.phase
	if s.shut {
		return true
	}
	switch in.Kind {
	case sequencer.IntentSettle, sequencer.IntentAdopt:
		return p == final && was != final
	case sequencer.IntentRetract:
		return false
	}
	return !p.undecided() && was.undecided()
}

func (r *run) offer(s *story, in *sequencer.Intent, was phase) {
	if s.needless(in, was) {
		r.result.suppose(supposedUnsent)
		return
	}
	out := r.translated(s, in)
	if out == nil {
		return // what it asked for is not asked for now
	}
	r.step(s, out)
}

// step gives one record to the fold, and notes what it leads to.
func (r *run) step(s *story, in *sequencer.Intent) {
	n := &r.now
	step, err := n.fold.Step(n.offset, in)
	if err != nil && n.err == nil {
		n.err = err
	}
	for i := range step.Outcomes {
		o := &step.Outcomes[i]
		switch o.Kind {
		case sequencer.OutcomeJoined:
			n.live[o.Agent] = o.Seq
			if was := r.then.joins[o.Intent]; len(was) > 0 {
				n.joined[was[0]], r.then.joins[o.Intent] = o.Seq, was[1:]
			}
			for s := range n.owing {
				if s.agent == o.Agent {
					n.stirred[s] = true // it has an owner again
				}
			}
		case sequencer.OutcomeLeaseEnded:
			delete(n.live, o.Agent)
		}
		if s := r.stories[o.Tx]; s != nil {
			r.noted(s, o)
		}
	}
}

// noted takes an outcome of the second run in.
func (r *run) noted(s *story, o *sequencer.Outcome) {
	n := &r.now
	s.now.note(o)
	e := &s.now.events[len(s.now.events)-1]
	sent := e.n
	if as, changed := s.numbers[sent]; e.intent == sequencer.IntentTouch && changed {
		e.n = as
	}
	switch {
	case o.Kind == sequencer.OutcomeGranted:
		s.noteLater(e, sent)
	case o.Kind == sequencer.OutcomeRefused:
		s.shut = s.shut || s.now.phase == absent && len(s.then.events) > 0 && !s.then.refused(e)
	}
	n.stirred[s] = true
	if s.now.phase.undecided() {
		n.open[s] = true
	} else {
		delete(n.open, s)
	}
	if p := s.now.phase; p == decided || p == turn {
		n.owing[s] = true
	} else {
		delete(n.owing, s)
	}
}

// noteLater: what was read under the grant, or after it, was read later than recorded.
func (s *story) noteLater(e *event, sent uint32) {
	if view, put := s.reads[sent]; put {
		s.later = append(s.later, moved{view, e.seq})
		return
	}
	for i := range s.then.events {
		if t := &s.then.events[i]; t.kind == sequencer.OutcomeGranted && t.n == e.n && t.offset < e.offset {
			s.later = append(s.later, moved{t.seq, e.seq})
		}
	}
}

// refused: the same intent was refused alike.
func (s *side) refused(e *event) bool {
	for i := range s.events {
		if t := &s.events[i]; t.kind == sequencer.OutcomeRefused && t.intent == e.intent && t.n == e.n {
			return true
		}
	}
	return false
}

// goOn gives what has waited and may come now, ends what cannot go on, and supposes what is not recorded. All of
// it follows from outcomes of the transaction, or of its agent's join, so only those that had one are looked at.
func (r *run) goOn() {
	n := &r.now
	for len(n.stirred) > 0 && n.err == nil {
		for _, s := range inOrder(n.stirred) {
			delete(n.stirred, s)
			if r.giveUp(s) || r.catchUp(s) || n.owing[s] && r.supposeSettled(s) {
				n.stirred[s] = true
			}
		}
	}
}

func inOrder(set map[*story]bool) []*story {
	if len(set) == 0 {
		return nil
	}
	return slices.SortedFunc(maps.Keys(set), func(a, b *story) int { return cmp.Compare(a.order, b.order) })
}

// catchUp gives the first record of a transaction that has waited.
func (r *run) catchUp(s *story) bool {
	if len(s.held) == 0 || s.tooEarly(s.held[0].in, s.held[0].was) {
		return false
	}
	h := s.held[0]
	s.held = s.held[1:]
	r.offer(s, h.in, h.was)
	return true
}

// giveUp supposes that a transaction ends whose touch or seal was refused and was not as recorded: its calls did not
// run, so the rest of its records is another one's.
func (r *run) giveUp(s *story) bool {
	if len(s.now.events) == 0 || !s.now.phase.undecided() {
		return false
	}
	e := &s.now.events[len(s.now.events)-1]
	asks := e.intent == sequencer.IntentTouch || e.intent == sequencer.IntentSeal
	if e.kind != sequencer.OutcomeRefused || !asks || e.code == sequencer.CodeTouchWaiting || s.then.refused(e) {
		return false
	}
	s.knowsNot(unknownRefused)
	if s.shut {
		return false // it never opened
	}
	in := &sequencer.Intent{Kind: sequencer.IntentAbort, Tx: s.id, N: 1, Agent: s.agent,
		Incarnation: r.incarnation(s.incarnation), Base: r.view(s.base)}
	before := r.now.fold.Seq()
	r.step(s, in)
	if r.now.fold.Seq() == before || s.now.phase.undecided() {
		return false
	}
	r.result.suppose(supposedEnd)
	return true
}

// supposeSettled settles a transaction whose decision is another one than the recorded settlement followed, or that
// needed none as recorded: clean, and at once, because no log has what its tools would have answered.
func (r *run) supposeSettled(s *story) bool {
	t, d := s.then.decision, s.now.decision
	same := t != nil && t.kind == d.kind
	switch {
	case s.now.phase == turn && s.then.turns > 0:
		return false // the recorded compensation comes, or has come and waits
	case s.now.phase == decided && same && (s.then.settled > 0 || !t.final):
		return false // as recorded, or not as recorded either
	}
	owner := r.now.live[s.agent]
	if owner == 0 {
		return false // its sidecar is gone: whether anybody would adopt it is not known
	}
	n := uint32(1)
	for i := range s.now.events {
		if e := &s.now.events[i]; e.intent == sequencer.IntentSettle {
			n = max(n, e.n+1)
		}
	}
	before := s.now.phase
	s.settles++
	r.step(s, &sequencer.Intent{Kind: sequencer.IntentSettle, Tx: s.id, N: n + s.settles, Agent: s.agent,
		Incarnation: owner, Base: r.view(s.base), Settle: &sequencer.Settle{}})
	if s.now.phase == before {
		delete(r.now.owing, s) // another one owns it
		return false
	}
	r.result.suppose(supposedSettled)
	return true
}
