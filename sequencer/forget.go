package sequencer

import (
	"cmp"
	"slices"
)

// retention holds the decided transactions in the order of their decisions, until they may be forgotten.
type retention struct {
	queue []*tx // by Decision
	late  []*tx // passed the queue before they were final
	bytes int   // an estimate of what the final ones among them keep
}

func (r *retention) push(t *tx) {
	r.queue = append(r.queue, t)
	if t.final() {
		r.bytes += t.pastBytes()
	}
}

// retire notes that a decided transaction became final.
func (r *retention) retire(t *tx) { r.bytes += t.pastBytes() }

// pastBytes estimates what a final transaction's record keeps.
func (t *tx) pastBytes() int { return 200 + len(t.ID) + len(t.Agent) + len(t.Group) }

// take removes and returns the final transactions whose decision is at or below seq.
func (r *retention) take(seq Seq) []*tx {
	n := 0
	for n < len(r.queue) && r.queue[n].Decision <= seq {
		n++
	}
	due := append(r.late, r.queue[:n]...)
	if len(due) == 0 {
		return nil
	}
	r.queue, r.late = r.queue[n:], nil
	var out []*tx
	for _, t := range due {
		if t.final() {
			out = append(out, t)
			r.bytes -= t.pastBytes()
		} else {
			r.late = append(r.late, t)
		}
	}
	return out
}

// bytes estimates what a remembered join keeps.
func (j JoinState) bytes() int { return 48 + len(j.ID) }

// bytes estimates what the choice of a branch group keeps.
func (g *GroupState) bytes() int { return 64 + len(g.ID) + len(g.Winner) }

// openBudget and pastBudget share what the workspace may keep, in bytes, between transactions that are not final and
// what is remembered of the past.
func (f *Fold) openBudget() int { return int(f.rules.MaxKept) / 2 }

func (f *Fold) pastBudget() int { return int(f.rules.MaxKept) / 2 }

func (f *Fold) pastKept() int { return f.settled.bytes + f.window.bytes + f.joins.bytes + f.chosen }

// forget moves the floor and the horizon, and drops what lies below both.
func (f *Fold) forget() {
	f.floor = max(f.floor, f.floorTarget())
	if f.seq > f.rules.HorizonSeqs {
		f.horizon = max(f.horizon, f.seq-f.rules.HorizonSeqs)
	}
	f.drop()
	for f.pastKept() > f.pastBudget() && f.advanceEarly() {
		f.drop()
	}
}

// floorTarget is the seq that every live sidecar has passed, or the cap behind the head.
func (f *Fold) floorTarget() Seq {
	low, live := f.sidecars.lowest()
	if !live {
		return f.seq
	}
	if f.seq > f.rules.CapSeqs {
		low = max(low, f.seq-f.rules.CapSeqs)
	}
	return min(low, f.seq)
}

// advanceEarly gives up the older half of what is remembered when it keeps more bytes than the rules allow: first the
// horizon, then the floor. It reports whether there was anything to give up.
func (f *Fold) advanceEarly() bool {
	switch {
	case f.horizon < f.floor:
		f.horizon += (f.floor - f.horizon + 1) / 2
	case f.floor < f.seq:
		f.floor += (f.seq - f.floor + 1) / 2
	default:
		return false
	}
	return true
}

// drop forgets what lies at or below the floor and, for records, the horizon too.
func (f *Fold) drop() {
	f.window.prune(f.floor)
	below := min(f.floor, f.horizon)
	for _, t := range f.settled.take(below) {
		delete(f.txs, t.ID)
		if g := f.groups[t.Group]; g != nil {
			g.members--
		}
	}
	f.joins.forget(below)
	for id, g := range f.groups {
		if g.members == 0 && g.Seq <= below {
			if g.Winner != "" {
				f.chosen -= g.bytes()
			}
			delete(f.groups, id)
		}
	}
}

// applyRules changes the rules; only the next version counts.
func (f *Fold) applyRules(in *Intent) {
	switch v := in.Rules.Version; {
	case v <= f.rules.Version:
		return
	case v != f.rules.Version+1:
		f.refuse(in, nil, finding{code: CodeUnknownIntent, detail: "rules are changed one version at a time"})
		return
	}
	if why := in.Rules.invalid(); why != "" {
		f.refuse(in, nil, finding{code: CodeUnknownIntent, detail: why})
		return
	}
	f.rules = *in.Rules
	changed := f.rules
	f.emit(Outcome{Kind: OutcomeRules, Rules: &changed})
}

// State exports everything that the fold keeps. The caller must not change what it points at.
func (f *Fold) State() State {
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
	for _, t := range f.inOrder(func(*tx) bool { return true }) {
		st.Txs = append(st.Txs, t.TxState.clone())
	}
	for _, c := range f.catalogues.byHash {
		st.Catalogues = append(st.Catalogues, c.Catalogue)
	}
	slices.SortFunc(st.Catalogues, func(a, b Catalogue) int { return slices.Compare(a.Hash[:], b.Hash[:]) })
	for _, g := range f.groups {
		st.Groups = append(st.Groups, g.GroupState)
	}
	slices.SortFunc(st.Groups, func(a, b GroupState) int { return cmp.Compare(a.ID, b.ID) })
	return st
}

// clone copies the slices that later steps change in place.
func (t TxState) clone() TxState {
	t.Answers = slices.Clone(t.Answers)
	t.Grants = slices.Clone(t.Grants)
	t.GrantedNs = slices.Clone(t.GrantedNs)
	if t.Waiting != nil {
		w := *t.Waiting
		t.Waiting = &w
	}
	return t
}

func sortByDecision(txs []*tx) {
	slices.SortFunc(txs, func(a, b *tx) int { return cmp.Compare(a.Decision, b.Decision) })
}
