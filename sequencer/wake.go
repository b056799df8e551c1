package sequencer

import (
	"container/heap"
	"slices"
)

// wakeQueue is a heap of the waiting transactions that a step has to look at again, the oldest first.
type wakeQueue []*tx

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (q wakeQueue) Len() int           { return len(q) }
func (q wakeQueue) Less(i, j int) bool { return q[i].olderThan(q[j]) }
func (q wakeQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }

// Push appends a transaction.
func (q *wakeQueue) Push(x any) { *q = append(*q, x.(*tx)) }

// Pop takes the last one.
func (q *wakeQueue) Pop() any {
	n := len(*q) - 1
	t := (*q)[n]
	(*q)[n] = nil
	*q = (*q)[:n]
	return t
}

// wakeTx queues one waiting transaction.
func (f *Fold) wakeTx(t *tx) {
	if t.wake || !t.waits() {
		// Queued already, or nothing of it can be decided by this step.
		return
	}
	t.wake = true
	heap.Push(&f.step.queue, t)
}

// wakeAt notes that the waiting transactions that look at a scope are to be queued. A step that ends many transactions
// releases a scope many times, and each time all who wait for it would be looked up.
func (f *Fold) wakeAt(s Scope) {
	st := &f.step
	if st.seen == nil && len(st.moved) > shortHolds {
		st.seen = make(map[Scope]bool, 2*len(st.moved))
		for _, m := range st.moved {
			st.seen[m] = true
		}
	}
	switch {
	case st.seen[s], st.seen == nil && slices.Contains(st.moved, s):
		return
	case st.seen != nil:
		st.seen[s] = true
	}
	st.moved = append(st.moved, s)
}

// woken queues those whom wakeAt noted, and reports how many wait to be looked at.
func (f *Fold) woken() int {
	for _, s := range f.step.moved {
		f.asks.visit(s, func(_ Scope, a *ask) bool {
			// More than the holds need are woken, never fewer: one that is not looked at again would wait for ever.
			f.wakeTx(a.t)
			return true
		})
	}
	f.step.moved, f.step.seen = f.step.moved[:0], nil
	return f.step.queue.Len()
}

// wakeDependents queues the sealed transactions that read from one that was opened or decided.
func (f *Fold) wakeDependents(t *tx) {
	for _, d := range f.deps[t.ID] {
		f.wakeTx(d)
	}
}

// settleDown runs the step's fixpoint: always the waiting transaction of the smallest epoch that can be decided,
// granted or refused, until there is none. Only transactions whose scopes, writers, branch, verdict or pins moved are
// looked at; for the others the answer is what it was.
func (f *Fold) settleDown() {
	for f.woken() > 0 {
		t := heap.Pop(&f.step.queue).(*tx)
		t.wake = false
		// A transaction before it in the queue may have decided it.
		if t.waits() {
			f.advance(t)
		}
	}
}

// advance grants, commits or aborts a waiting transaction if it can be.
func (f *Fold) advance(t *tx) {
	if t.Phase == PhaseOpen {
		f.advanceTouch(t)
		return
	}
	f.advanceSeal(t)
}

// answerWaiting tells the sender of a touch or seal that it waits, and for whom.
func (f *Fold) answerWaiting(in *Intent) {
	t := f.txs[in.Tx]
	if in.approves() {
		if f.step.heard && t.waits() {
			// Who approves next must see what was said, and who has waited, what is still missing.
			f.emitTx(t, Outcome{Kind: OutcomeWaiting, BlockedBy: f.judgeSeal(t, true).named(), Would: t.Would, At: t.Seal.At,
				Approvals: t.approvals()})
		}
		return
	}
	if in.Kind != IntentTouch && in.Kind != IntentSeal {
		// Only these can wait; any other intent has its answer.
		return
	}
	if t == nil || !t.waits() || in.Incarnation != t.Incarnation {
		return
	}
	// Each intent is told once: an answer per step would be a decision record for every wait.
	if a := t.answered(in.Kind); a.N != in.N || a.Seq != 0 {
		return
	}
	var blockers []Blocker
	if t.Phase == PhaseOpen {
		blockers = f.judgeTouch(t, t.Waiting.Wants, true).named()
	} else {
		blockers = f.judgeSeal(t, true).named()
	}
	o := Outcome{Kind: OutcomeWaiting, BlockedBy: blockers, Would: t.Would, Approvals: t.approvals()}
	if len(o.Approvals) > 0 {
		o.At = t.Seal.At // who is to approve reads there what of
	}
	seq := f.emitTx(t, o)
	if t.Waiting != nil && f.bounded() {
		t.Waiting.Seq = seq
	}
	t.answer(in, seq)
}
