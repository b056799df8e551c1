package replay

import (
	"cmp"
	"slices"

	"github.com/hence-dev/hence/sequencer"
)

// compare says what differs between the runs, transaction by transaction, and why.
func (r *run) compare() {
	res := r.result
	res.Then, res.Now = newTotals(), newTotals()
	for _, s := range r.order {
		res.Then.count(&s.then)
		res.Now.count(&s.now)
		r.differs(s)
	}
	r.moved()
	slices.SortStableFunc(res.Differences, r.byPlace)
	r.causes()
	r.unknown()
	r.points()
}

func newTotals() Totals {
	return Totals{Codes: map[sequencer.Code]int{}, Would: map[sequencer.Code]int{}}
}

func (t *Totals) count(s *side) {
	switch d := s.decision; {
	case len(s.events) == 0:
		return
	case d == nil:
		t.Undecided++
	case d.kind == sequencer.OutcomeCommitted:
		t.Committed++
	default:
		t.Aborted++
		t.Codes[d.code]++
	}
	refused := false
	would := sequencer.Code("") // the first counts: what comes later follows from its being let pass
	for i := range s.events {
		e := &s.events[i]
		refused = refused || e.kind == sequencer.OutcomeRefused
		would = cmp.Or(would, e.would)
	}
	if would != "" {
		t.Would[would]++
	}
	if s.waited() {
		t.Waited++
	}
	if refused {
		t.Refused++
	}
}

// waited: a touch or a seal of it did.
func (s *side) waited() bool {
	return slices.ContainsFunc(s.events, func(e event) bool { return e.kind == sequencer.OutcomeWaiting })
}

// differs finds the differences of one transaction, but for its place in the order.
func (r *run) differs(s *story) {
	r.differsIn(s, DiffersWait, sequencer.OutcomeWaiting)
	r.differsIn(s, DiffersRefused, sequencer.OutcomeRefused)
	r.differsIn(s, DiffersRetraction, sequencer.OutcomeRetracting)
	t, n := s.then.decision, s.now.decision
	switch {
	case !s.decidedOtherwise():
	case t == nil || n == nil || t.kind != n.kind:
		r.add(s, DiffersDecision, t, n)
	default:
		r.add(s, DiffersReason, t, n)
	}
}

// decidedOtherwise: verdict or reason differ.
func (s *story) decidedOtherwise() bool {
	t, n := s.then.decision, s.now.decision
	if t == nil || n == nil {
		return t != n
	}
	return t.kind != n.kind || t.code != n.code
}

// differsIn adds the first outcome of a kind that one run has for an intent and the other has not.
func (r *run) differsIn(s *story, what string, kind sequencer.OutcomeKind) {
	t, n := s.then.lacking(&s.now, kind), s.now.lacking(&s.then, kind)
	switch {
	case n != nil && (t == nil || n.offset <= t.offset):
		r.add(s, what, s.then.answer(n), n)
	case t != nil:
		now := s.now.answer(t)
		if now != nil && now == s.now.decision && s.decidedOtherwise() {
			return // it is decided where it waited: that is the difference
		}
		if what == DiffersRetraction && now != nil {
			return // it is refused, which is a difference already
		}
		r.add(s, what, t, now)
	}
}

// lacking is the first event of a kind whose like the other side does not have.
func (s *side) lacking(other *side, kind sequencer.OutcomeKind) *event {
	for i := range s.events {
		e := &s.events[i]
		if e.kind == kind && !slices.ContainsFunc(other.events, e.like) {
			return e
		}
	}
	return nil
}

// like: the same kind of answer to the same intent. A turn that waits says so again and again.
func (e *event) like(u event) bool {
	if e.kind != u.kind || e.code != u.code {
		return false
	}
	return e.kind == sequencer.OutcomeRetracting || e.intent == u.intent && e.n == u.n
}

// answer is what the other run answered to the same intent, at first; nil: nothing.
func (s *side) answer(to *event) *event {
	for i := range s.events {
		e := &s.events[i]
		if d := s.decision; e.intent == to.intent && e.n == to.n && d != nil && d.seq == e.seq {
			return d
		}
		if e.intent == to.intent && e.n == to.n {
			return e
		}
	}
	if to.intent == sequencer.IntentSeal || to.intent == sequencer.IntentTouch {
		return s.decision
	}
	return nil
}

func (r *run) add(s *story, what string, t, n *event) {
	d := Difference{Tx: s.id, Agent: s.agent, What: what, Then: fate(t), Now: fate(n), s: s, then: t, now: n}
	switch {
	case n != nil:
		d.Offset = n.offset
	default:
		d.Offset = t.offset
	}
	if t != nil && n != nil && what != DiffersDecision {
		d.Offset = min(t.offset, n.offset)
	}
	r.result.Differences = append(r.result.Differences, d)
}

func fate(e *event) Fate {
	if e == nil {
		return Fate{Kind: "undecided"}
	}
	return Fate{Kind: e.kind.String(), Code: e.code, Would: e.would, Scope: e.scope, By: e.moved.Tx, Behind: e.blockers,
		Seq: e.seq}
}

// byPlace orders differences by the record at which they show; of one record that of its own transaction is first,
// because it made the others.
func (r *run) byPlace(a, b Difference) int {
	other := func(d Difference) int {
		if e := cmp.Or(d.now, d.then); e.intent != 0 {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(other(a), other(b)), cmp.Compare(a.seq(), b.seq()),
		cmp.Compare(a.s.order, b.s.order))
}

func (d *Difference) seq() sequencer.Seq {
	if d.now != nil {
		return d.now.seq
	}
	return d.then.seq
}

// moved finds the fewest transactions that have to be taken out of the commit order so that the rest has the same one
// in both runs: rather one that differs already, and rather one that waited than one that came as it came.
func (r *run) moved() {
	differs := map[*story]bool{}
	for i := range r.result.Differences {
		differs[r.result.Differences[i].s] = true
	}
	var both []*story
	for _, s := range r.order {
		t, n := s.then.decision, s.now.decision
		if t != nil && n != nil && t.kind == n.kind && t.kind == sequencer.OutcomeCommitted {
			both = append(both, s)
		}
	}
	slices.SortFunc(both, func(a, b *story) int { return cmp.Compare(a.then.decision.seq, b.then.decision.seq) })
	more := len(both) + 1 // than all that are lighter together
	kept := heaviest(both, func(s *story) (sequencer.Seq, int) {
		switch {
		case differs[s]:
			return s.now.decision.seq, 1
		case s.now.waited():
			return s.now.decision.seq, more
		}
		return s.now.decision.seq, more * more
	})
	for i, s := range both {
		if !kept[i] {
			r.add(s, DiffersOrder, s.then.decision, s.now.decision)
		}
	}
}

// heaviest marks the subsequence of rising seqs with the greatest sum of weights. No two seqs are equal.
func heaviest(list []*story, of func(*story) (sequencer.Seq, int)) (in []bool) {
	seqs := make([]sequencer.Seq, len(list))
	for i, s := range list {
		seqs[i], _ = of(s)
	}
	ranks := slices.Clone(seqs)
	slices.Sort(ranks)
	best := make([]int, len(list)+1) // of ranks, as a tree of prefixes: the place in list plus one; zero: none
	sum, former := make([]int, len(list)), make([]int, len(list))
	better := func(a, b int) int { // of two places, each plus one
		if a == 0 || b != 0 && sum[b-1] > sum[a-1] {
			return b
		}
		return a
	}
	top := 0
	for i, s := range list {
		_, weight := of(s)
		rank, _ := slices.BinarySearch(ranks, seqs[i])
		at := 0
		for k := rank; k > 0; k -= k & -k {
			at = better(at, best[k])
		}
		former[i] = at - 1
		sum[i] = weight
		if at > 0 {
			sum[i] += sum[at-1]
		}
		for k := rank + 1; k <= len(list); k += k & -k {
			best[k] = better(best[k], i+1)
		}
		top = better(top, i+1)
	}
	in = make([]bool, len(list))
	for i := top - 1; i >= 0; i = former[i] {
		in[i] = true
	}
	return in
}

// maxPoints is how many points a drawing has.
const maxPoints = 400

// points says how far both runs were, at some records.
func (r *run) points() {
	var committed, ended [2][]int64
	for _, s := range r.order {
		for i, d := range []*event{s.then.decision, s.now.decision} {
			switch {
			case d == nil:
			case d.kind == sequencer.OutcomeCommitted:
				committed[i] = append(committed[i], d.offset)
			default:
				ended[i] = append(ended[i], d.offset)
			}
		}
	}
	var at []int64
	for i := range r.result.Differences {
		at = append(at, r.result.Differences[i].Offset)
	}
	for i := range 2 {
		slices.Sort(committed[i])
		slices.Sort(ended[i])
	}
	upTo := func(offsets []int64, offset int64) int {
		n, _ := slices.BinarySearch(offsets, offset+1)
		return n
	}
	records := len(r.log.Records)
	stride := (records + maxPoints - 1) / maxPoints
	for i, rec := range r.log.Records {
		if i%stride == stride-1 || i == records-1 {
			r.result.Points = append(r.result.Points, Point{Record: i + 1,
				ThenCommitted: upTo(committed[0], rec.Offset), ThenEnded: upTo(ended[0], rec.Offset),
				NowCommitted: upTo(committed[1], rec.Offset), NowEnded: upTo(ended[1], rec.Offset),
				Differences: upTo(at, rec.Offset)})
		}
	}
}
