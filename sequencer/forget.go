package sequencer

import (
	"cmp"
	"slices"
)

// retention holds the decided transactions in the order of their decisions, until they may be forgotten.
type retention struct {
	// by Decision. Invariant: every decided transaction is in queue or late, or is in full and at has passed it
	queue []*tx
	late  []*tx // passed the queue before they were final. Invariant: exactly those with late set
	full  []*tx // by Decision: those with a past
	count int   // the settled ones among them
	bytes int   // an estimate of what these keep. Invariant: the sum of pastBytes of the settled ones
	at    Seq   // the queue has passed those decided up to here. Invariant: it never goes back
}

func (r *retention) push(t *tx) {
	r.queue = append(r.queue, t)
	if t.Past != nil {
		r.full = append(r.full, t)
	}
	if t.settledOnce() {
		r.retire(t)
	}
}

// retire notes that a decided transaction was settled.
func (r *retention) retire(t *tx) {
	r.count++
	r.bytes += t.pastBytes()
}

// pastBytes estimates what a final transaction's record keeps.
func (t *tx) pastBytes() int {
	return 200 + len(t.ID) + len(t.Agent) + len(t.Group) + t.Past.bytes() + scopeBytes(t.Shared)
}

func scopeBytes(scopes []Scope) int {
	n := 0
	for _, s := range scopes {
		n += 4 + len(s)
	}
	return n
}

// take removes the final transactions whose decision is at or below seq and hands them to gone; stays keeps one of
// them longer. Those with a past above keep stay out of it: they come again when that is dropped.
func (r *retention) take(seq, keep Seq, stays func(*tx) bool, gone func(*tx)) {
	pass := func(t *tx) {
		t.late = !t.final() || t.Decision > seq || stays(t) // seq goes back where the rules remember more
		switch {
		case t.final() && t.Past != nil && t.Decision > keep:
			// trimPasts brings it again; counted as late it would be looked at in every step until then.
			t.late = false
		case t.late:
			r.late = append(r.late, t)
		default:
			r.count--
			r.bytes -= t.pastBytes()
			gone(t)
		}
	}
	if len(r.late) > 0 {
		late := r.late
		r.late = r.late[:0] // what stays is written over what was looked at
		for _, t := range late {
			pass(t)
		}
		clear(late[len(r.late):])
	}
	n := 0
	for n < len(r.queue) && r.queue[n].Decision <= seq {
		pass(r.queue[n])
		n++
	}
	r.queue, r.at = r.queue[n:], max(r.at, seq)
}

// passAgain looks once more at one that has passed the queue with a past.
func (r *retention) passAgain(t *tx) {
	if t.Decision <= r.at && !t.late {
		t.late = true
		r.late = append(r.late, t)
	}
}

// bytes estimates what a remembered join keeps.
func (j JoinState) bytes() int { return 48 + len(j.ID) }

// bytes estimates what the choice of a branch group keeps.
func (g *GroupState) bytes() int { return 64 + len(g.ID) + len(g.Winner) }

// openBudget and pastBudget share what the workspace may keep, in bytes, between transactions that are not final and
// what is remembered of the past.
func (f *Fold) openBudget() int { return int(f.rules.MaxKept) / 2 }

// pastBudget since logic 3 is also what open transactions leave of theirs: a quiet workspace remembers more.
func (f *Fold) pastBudget() int {
	if f.bounded() {
		return max(int(f.rules.MaxKept)/2, int(f.rules.MaxKept)-f.open)
	}
	return int(f.rules.MaxKept) / 2
}

func (f *Fold) pastKept() int {
	n := f.settled.bytes + f.window.bytes + f.joins.bytes + f.chosen + f.shards.bytes + f.undoing + f.tombBytes
	if f.bounded() { // the older logics' estimate takes a record with all its answers for smaller than it is
		n += recordBytes*f.settled.count + f.undoneNames
	}
	return n
}

// recordBytes is what a settled record takes beyond what the older logics estimate.
const recordBytes = 40

// forget moves the floor and the horizon, and drops what lies below both.
func (f *Fold) forget() {
	// Never back: what lies below it is gone, and a base below it was refused for that.
	f.floor = max(f.floor, f.floorTarget())
	f.moveHorizon()
	f.drop()
	// What is kept must stay below what a record of the broker takes, or the workspace stops: then less is remembered.
	for f.pastKept() > f.pastBudget() && (f.giveUpRetraction() || f.advanceEarly()) {
		f.drop()
	}
	for f.bounded() && f.open > f.openBudget() && f.unsettledPasts() && (f.giveUpRetraction() || f.advanceHorizon()) {
		f.drop()
	}
}

// moveHorizon takes what the rules say of seqs, or since logic 3 of commits and time. What else is numbered, such as
// grants and what is refused, uses up nothing of what can be undone.
func (f *Fold) moveHorizon() {
	if !f.bounded() {
		if f.seq > f.rules.HorizonSeqs {
			f.horizon = max(f.horizon, f.seq-f.rules.HorizonSeqs)
		}
		return
	}
	commits := f.settled.full
	n := max(0, len(commits)-int(f.rules.HorizonCommits))
	old, _ := slices.BinarySearchFunc(commits, f.time, func(t *tx, now Tick) int {
		return cmp.Compare(t.Commit+f.rules.HorizonTicks, now)
	})
	n = max(n, old)
	if n > 0 {
		f.horizon = max(f.horizon, commits[n-1].Decision)
	}
}

// unsettledPasts: committed transactions that are not settled keep what a retraction would need. It is counted among
// the open ones, and was not known when these were admitted.
func (f *Fold) unsettledPasts() bool {
	return slices.ContainsFunc(f.settled.full, func(t *tx) bool { return !t.settledOnce() && t.Past != nil })
}

// advanceHorizon gives up a part of what can be undone, and reports whether there was any.
func (f *Fold) advanceHorizon() bool {
	if f.horizon >= f.seq {
		return false
	}
	f.horizon += (f.seq - f.horizon + 15) / 16
	return true
}

// keepFrom is the horizon of what is remembered: that of the rules, but what a queued retraction needs stays.
func (f *Fold) keepFrom() Seq {
	keep := f.horizon
	for _, r := range f.retractions {
		if !r.running() {
			// It was accepted: its cone must still be found when it starts.
			keep = min(keep, f.txs[r.Tx].Decision-1)
		}
	}
	return keep
}

// floorTarget is the seq that every live sidecar has passed, or the cap behind the head.
func (f *Fold) floorTarget() Seq {
	low, live := f.sidecars.lowest()
	if !live {
		// No base and no read is in use.
		return f.seq
	}
	if f.seq > f.rules.CapSeqs {
		// One idle sidecar must not hold what all others have written in the state for ever.
		low = max(low, f.seq-f.rules.CapSeqs)
	}
	return min(low, f.seq)
}

// advanceEarly gives up a part of what is remembered when it keeps more bytes than the rules allow: first the horizon,
// then the floor. It reports whether there was anything to give up. Where the horizon is what can be undone, the part
// is small.
func (f *Fold) advanceEarly() bool {
	part := Seq(2)
	if f.retracts() {
		part = 16
	}
	switch {
	case f.horizon < f.floor:
		f.horizon += (f.floor - f.horizon + part - 1) / part
	case f.floor < f.seq:
		f.floor += (f.seq - f.floor + 1) / 2
	default:
		return false
	}
	return true
}

// oldest is up to where records go that no retraction asks for, and that would take the bytes of what one does.
func (f *Fold) oldest() Seq {
	below := f.below()
	if f.bounded() && f.seq > f.rules.HorizonSeqs {
		return max(below, min(f.floor, f.seq-f.rules.HorizonSeqs))
	}
	return below
}

// drop forgets what lies at or below the floor and, for records, the horizon too.
func (f *Fold) drop() {
	keep := f.keepFrom()
	below := min(f.floor, keep)
	old := f.oldest()
	if f.retracts() {
		f.window.prune(below) // whose value was read is asked up to the horizon
		f.trimPasts(keep)
		f.trimTombs(keep)
		f.shards.trim(keep)
	} else {
		f.window.prune(f.floor)
	}
	f.settled.take(old, keep, func(t *tx) bool {
		// A read between its decision and its compensation has seen what was taken back; the seal must still learn that.
		return f.bounded() && t.Past.undone() > below
	}, f.forgetTx)
	f.joins.forget(old)
	for id, g := range f.groups {
		if g.members == 0 && g.Seq <= old {
			if g.Winner != "" {
				f.chosen -= g.bytes()
			}
			delete(f.groups, id)
		}
	}
}

func (f *Fold) forgetTx(t *tx) {
	delete(f.txs, t.ID)
	f.forgetUndone(t)
	if t.Group == "" {
		return
	}
	if g := f.groups[t.Group]; g != nil {
		g.members--
	}
}

// applyRules changes the rules; only the next version counts.
func (f *Fold) applyRules(in *Intent) {
	switch v := in.Rules.Version; {
	case v <= f.rules.Version:
		// A copy of a change that is in force.
		return
	case v != f.rules.Version+1:
		// Two people who change them at once would each overwrite what the other has not seen.
		f.refuse(in, nil, finding{code: CodeUnknownIntent, detail: "rules are changed one version at a time"})
		return
	}
	next := *in.Rules
	next.fillFrom(&f.rules)
	if why := next.invalid(); why != "" {
		// Such rules could stop the workspace, or let nothing through any more.
		f.refuse(in, nil, finding{code: CodeUnknownIntent, detail: why})
		return
	}
	if next.Logic < f.rules.Logic {
		// The state has what the older logic does not know, and its hash would leave that out.
		f.refuse(in, nil, finding{code: CodeUnknownIntent, detail: "the logic of the rules never goes back"})
		return
	}
	if why := f.rulesRefused(&next); why.found() {
		// They are fine by themselves and not beside what there is now.
		f.refuse(in, nil, why)
		return
	}
	if !f.retracts() {
		f.shards.forgotten = f.seq // of what was written so far no content was kept
	}
	former := f.rules
	f.rules = next
	if former.Logic < 3 && f.bounded() {
		for _, t := range f.txs {
			f.account(t) // the bounds count more of each
			if t.Past != nil {
				t.Commit = f.time // when it was, is not known
			}
		}
	}
	f.emit(Outcome{Kind: OutcomeRules, Rules: &next})
	f.observed(former)
}

// State exports everything that the fold keeps. The caller must not change what it points at.
func (f *Fold) State() State { return f.export(TxState.clone) }

// export is State with a copy of each transaction that later steps change or not.
func (f *Fold) export(copied func(TxState) TxState) State {
	st := State{
		Workspace: f.workspace, Seq: f.seq, Floor: f.floor, Horizon: f.horizon, TickN: f.tickN, Time: f.time,
		LastEpoch: f.lastEpoch, LastOrder: f.lastOrder, Chain: f.chain, Rules: f.rules,
		Joins: slices.Clone(f.joins.list), Window: f.window.entries(),
	}
	for _, sc := range f.sidecars.list {
		c := *sc
		c.Servers = slices.Clone(sc.Servers)
		st.Sidecars = append(st.Sidecars, c)
	}
	st.Txs = slices.Grow(st.Txs, len(f.txs))
	for _, t := range f.inOrder(func(*tx) bool { return true }) {
		st.Txs = append(st.Txs, copied(t.TxState))
	}
	for _, c := range f.catalogues.byHash {
		st.Catalogues = append(st.Catalogues, c.Catalogue)
	}
	slices.SortStableFunc(st.Catalogues, func(a, b Catalogue) int { return slices.Compare(a.Hash[:], b.Hash[:]) })
	for _, g := range f.groups {
		st.Groups = append(st.Groups, g.GroupState)
	}
	slices.SortStableFunc(st.Groups, func(a, b GroupState) int { return cmp.Compare(a.ID, b.ID) })
	for _, r := range f.retractions {
		st.Retractions = append(st.Retractions, r.clone())
	}
	st.Versions, st.Unversioned = f.shards.entries(), f.shards.forgotten
	st.Tombs = slices.Clone(f.tombs)
	return st
}

// clone copies the slices that later steps change in place.
func (t TxState) clone() TxState {
	t.Answers = slices.Clone(t.Answers)
	t.Grants = slices.Clone(t.Grants)
	t.GrantedNs = slices.Clone(t.GrantedNs)
	t.Since = slices.Clone(t.Since)
	t.Approvals = slices.Clone(t.Approvals)
	if t.Waiting != nil {
		w := *t.Waiting
		t.Waiting = &w
	}
	if t.Past != nil {
		p := *t.Past
		p.Writes = slices.Clone(p.Writes)
		t.Past = &p
	}
	return t
}

func sortByDecision(txs []*tx) {
	slices.SortFunc(txs, func(a, b *tx) int { return cmp.Compare(a.Decision, b.Decision) })
}
