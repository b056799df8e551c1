package sequencer

import (
	"cmp"
	"slices"
)

// sidecars are the live ones, by incarnation.
type sidecars struct {
	list []*SidecarState // by Incarnation. Invariant: at most one of an agent: its join ends the former one's lease
	low  Seq             // Invariant: the smallest watermark, or zero: to be found again
}

func newSidecars() sidecars { return sidecars{} }

func (s *sidecars) find(incarnation Seq) (int, bool) {
	return slices.BinarySearchFunc(s.list, incarnation, func(sc *SidecarState, i Seq) int {
		return cmp.Compare(sc.Incarnation, i)
	})
}

// live returns the sidecar of a live incarnation, or nil.
func (s *sidecars) live(incarnation Seq) *SidecarState {
	if at, found := s.find(incarnation); found {
		return s.list[at]
	}
	return nil
}

func (s *sidecars) ofAgent(agent string) *SidecarState {
	for _, sc := range s.list {
		if sc.Agent == agent {
			return sc
		}
	}
	return nil
}

func (s *sidecars) add(sc *SidecarState) { s.list, s.low = append(s.list, sc), 0 }

func (s *sidecars) drop(incarnation Seq) {
	if at, found := s.find(incarnation); found {
		s.list, s.low = slices.Delete(s.list, at, at+1), 0
	}
}

// lowest returns the smallest watermark; ok is false when no sidecar is live.
func (s *sidecars) lowest() (seq Seq, ok bool) {
	if len(s.list) == 0 {
		return 0, false
	}
	if s.low == 0 {
		s.low = s.list[0].Watermark
		for _, sc := range s.list {
			s.low = min(s.low, sc.Watermark)
		}
	}
	return s.low, true
}

// joins remembers answered joins: a late copy of one would end the lease that it began.
type joins struct {
	list  []JoinState // by Seq
	bytes int         // Invariant: the sum over list
}

func (j *joins) add(x JoinState) {
	j.list = append(j.list, x)
	j.bytes += x.bytes()
}

func newJoins() joins { return joins{} }

func (j *joins) find(id string) Seq {
	for _, x := range j.list {
		if x.ID == id {
			return x.Seq
		}
	}
	return 0
}

func (j *joins) forget(horizon Seq) {
	n := 0
	for n < len(j.list) && j.list[n].Seq <= horizon {
		j.bytes -= j.list[n].bytes()
		n++
	}
	j.list = slices.Delete(j.list, 0, n)
}

// applyJoin starts an incarnation. The lease of the agent's former one ends in this step, and what that one left
// unsettled, or an earlier one of the agent, is now the new one's.
func (f *Fold) applyJoin(in *Intent) {
	if seq := f.joins.find(in.Join.ID); seq != 0 {
		// A late copy would end the lease of the sidecar that it began.
		f.repeat(seq)
		return
	}
	former := f.sidecars.ofAgent(in.Agent)
	if why := f.joinRefused(in, former != nil); why.found() {
		// See joinRefused.
		f.refuse(in, nil, why)
		return
	}
	if former != nil {
		// One incarnation of an agent at a time: the former one's calls are this one's to settle, and its own must not go
		// on.
		f.endLease(former)
	}
	o := Outcome{Kind: OutcomeJoined, Agent: in.Agent, Incarnation: f.seq + 1}
	if f.seq == 0 && in.Join.Logic > f.rules.Logic {
		// Only the log's first record may: a later change of the logic is a rules record, at a place that all readers see.
		f.rules.Logic = in.Join.Logic
		f.rules.fill()
		rules := f.rules
		o.Rules = &rules
	}
	incarnation := f.emit(o)
	f.joins.add(JoinState{ID: in.Join.ID, Seq: incarnation})
	f.sidecars.add(&SidecarState{Incarnation: incarnation, Agent: in.Agent, Watermark: incarnation,
		Due: f.time + f.rules.LeaseTicks})
	for _, t := range f.txs {
		if t.Agent == in.Agent && !t.undecided() && !t.final() && t.Owner == 0 {
			// Its journal lies with the agent, so it can tell what ran; another agent's would have to wait.
			t.Owner = incarnation
		}
	}
}

// endLease ends an incarnation: its undecided transactions abort, its settlements are orphans, its tools are gone.
func (f *Fold) endLease(sc *SidecarState) {
	f.sidecars.drop(sc.Incarnation)
	for _, s := range sc.Servers {
		f.catalogues.release(s.Catalogue)
		f.listed -= s.bytes()
	}
	f.emit(Outcome{Kind: OutcomeLeaseEnded, Agent: sc.Agent, Incarnation: sc.Incarnation})
	for _, t := range f.inOrder(func(t *tx) bool { return t.undecided() && t.Incarnation == sc.Incarnation }) {
		// Its reads and calls have lost the process that knew of them: none of it may commit.
		f.abort(t, finding{code: CodeLeaseExpired, detail: "the lease of its sidecar has ended"})
	}
	for _, t := range f.txs {
		if t.Owner == sc.Incarnation {
			// An orphan, open to adoption. Kept as owner, the dead one would hold the scopes for ever (holes 8).
			t.Owner = 0
		}
	}
}

// inOrder lists transactions in the order in which they appeared.
func (f *Fold) inOrder(keep func(*tx) bool) []*tx {
	var out []*tx
	f.look(len(f.txs))
	for _, t := range f.txs {
		if keep(t) {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b *tx) int { return cmp.Compare(a.Order, b.Order) })
	return out
}

// applyWatermark renews a lease, and confirms that where it is asked to. One of an ended incarnation revives nothing.
func (f *Fold) applyWatermark(in *Intent) {
	asks := in.Watermark.Confirm != 0
	sc := f.sidecars.live(in.Incarnation)
	if sc != nil && sc.Agent == in.Agent {
		f.renew(sc, in.Watermark.Seq)
	} else if asks {
		// Confirmed, a dead incarnation would call on and adopt nothing, though others settle for it already (holes 8d).
		f.refuseDead(in)
		return
	}
	if asks { // without the question nothing is decided, and a renewal takes no seq
		f.emit(Outcome{Kind: OutcomeConfirmed, Agent: in.Agent, Incarnation: in.Incarnation})
	}
}

func (f *Fold) renew(sc *SidecarState, mark Seq) {
	// Never back, so that the floor stays where it is; never ahead, so that a wrong mark cannot forget what is in use.
	if seq := min(mark, f.seq); seq > sc.Watermark {
		if sc.Watermark == f.sidecars.low {
			f.sidecars.low = 0
		}
		sc.Watermark = seq
	}
	sc.Due = f.time + f.rules.LeaseTicks
}

// expiry is something that ends at a tick.
type expiry struct {
	due         Tick
	rank        int // lease, approval, deadline, verdict, touch bound
	incarnation Seq
	order       uint64
	end         func()
}

// applyTick moves the log's time. Only the next number counts, so two tickers make one tick and missed ones are not
// made up.
func (f *Fold) applyTick(tick *TickMark) {
	if tick.N != f.tickN+1 {
		// Two owners of a partition may both append it: it counts once, else leases would end twice as fast.
		return
	}
	f.tickN = tick.N
	weight := min(max(tick.Weight, 1), leaseWeight)
	if f.undecided > 0 {
		// Deadlines and bounds are told in single ticks; what is heavier would end them too early.
		weight = 1
	}
	f.time += weight
	for _, e := range f.expiries() {
		e.end()
	}
}

// leaseWeight is how many ticks pass at once while only leases are pending.
const leaseWeight = 8

// NextTick returns the tick to append next, with its weight; false when nothing is pending and time may stand still.
func (f *Fold) NextTick() (TickMark, bool) {
	switch {
	case f.undecided > 0:
		return TickMark{N: f.tickN + 1, Weight: 1}, true
	case len(f.sidecars.list) > 0:
		return TickMark{N: f.tickN + 1, Weight: leaseWeight}, true
	}
	return TickMark{}, false
}

// expiries lists what is due, in the order in which it ends.
func (f *Fold) expiries() []expiry {
	var out []expiry
	f.look(len(f.sidecars.list) + len(f.txs))
	for _, sc := range f.sidecars.list {
		if sc.Due <= f.time {
			out = append(out, expiry{sc.Due, 0, sc.Incarnation, 0, func() { f.endLease(sc) }})
		}
	}
	for _, t := range f.txs {
		if t.undecided() {
			out = f.expiriesOf(t, out)
		}
	}
	slices.SortStableFunc(out, func(a, b expiry) int {
		return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.rank, b.rank),
			cmp.Compare(a.incarnation, b.incarnation), cmp.Compare(a.order, b.order))
	})
	return out
}

func (f *Fold) expiriesOf(t *tx, out []expiry) []expiry {
	ends := func(code Code, detail string) func() {
		return func() {
			// An earlier one of this tick may have ended it.
			if t.undecided() {
				f.abort(t, finding{code: code, detail: detail})
			}
		}
	}
	if t.ApprovalDue <= f.time && t.unapproved() && !t.Free {
		// Before the deadline, which may be due at the same tick: silence is a no, and not to be tried again.
		silent := ends(CodeDenied, "nobody has approved its effects in the bound")
		out = append(out, expiry{t.ApprovalDue, 1, t.Incarnation, t.Order, silent})
	}
	if t.Due <= f.time {
		out = append(out, expiry{t.Due, 2, t.Incarnation, t.Order, ends(CodeDeadline, "the deadline has passed")})
	}
	if t.VerdictDue != 0 && t.Verdict == 0 && t.VerdictDue <= f.time && !t.Free {
		silent := ends(f.unheard(), "the hook gave no answer in its bound")
		out = append(out, expiry{t.VerdictDue, 3, t.Incarnation, t.Order, silent})
	}
	if t.Waiting != nil && t.Waiting.Due <= f.time {
		out = append(out, expiry{t.Waiting.Due, 4, t.Incarnation, t.Order, func() { f.endBound(t) }})
	}
	return out
}

// endBound refuses a touch that has waited long enough; the transaction stays open.
func (f *Fold) endBound(t *tx) {
	if t.Waiting == nil {
		// It was granted or refused by an earlier one of this tick.
		return
	}
	n := t.Waiting.N
	f.unqueueTouch(t)
	t.GrantedNs = slices.DeleteFunc(t.GrantedNs, func(granted uint32) bool { return granted == n })
	f.account(t)
	seq := f.emitTx(t, Outcome{Kind: OutcomeRefused, Code: CodeTouchBound, Intent: f.touchID(t, n),
		Detail: "the touch waited as long as it was allowed to"})
	t.remember(Answer{IntentTouch, t.Incarnation, n, seq})
}
