package sim

import (
	"slices"

	"github.com/hence-dev/hence/sequencer"
)

// ledger is who holds what, as the outcomes tell it.
type ledger struct {
	held  []holding
	fresh []holding // added by the current record
}

type holding struct {
	tx *txInfo
	sequencer.Hold
}

// move enters an outcome's hold changes. Each hold is added once before it is ended, and the other way round.
func (l *ledger) move(r *run, info *txInfo, o *sequencer.Outcome) {
	for _, h := range o.Ended {
		at := slices.Index(l.held, holding{info, h})
		if at < 0 {
			r.fail("seq %d ends a %s of %s on %s that %s does not have", o.Seq, h.Kind, h.Access, h.Scope, o.Tx)
			return
		}
		l.held = slices.Delete(l.held, at, at+1)
	}
	for _, h := range o.Added {
		if slices.Contains(l.held, holding{info, h}) {
			r.fail("seq %d gives %s a hold on %s that it has: %s, %s", o.Seq, o.Tx, h.Scope, h.Kind, h.Access)
			return
		}
		l.held = append(l.held, holding{info, h})
		l.fresh = append(l.fresh, holding{info, h})
	}
}

func (l *ledger) has(h holding) bool { return slices.Contains(l.held, h) }

// owns reports whether the transaction was granted the scope for writing, or holds it after its commit.
func (l *ledger) owns(info *txInfo, s sequencer.Scope) bool {
	return slices.ContainsFunc(l.held, func(h holding) bool {
		return h.tx == info && h.Access == sequencer.WriteAccess && h.Kind != sequencer.Claimed && h.Scope.Covers(s)
	})
}

// meet reports whether two holds of different transactions are on one resource and not both for reading.
func (t *truth) meet(h, o holding) bool {
	return h.tx != o.tx && !t.lax(h.tx) && !t.lax(o.tx) && h.Scope.Overlaps(o.Scope) &&
		(h.Access == sequencer.WriteAccess || o.Access == sequencer.WriteAccess)
}

// checkFresh looks at what the record gave away: nothing that another one was granted or holds, nor what an older one
// claims.
func (t *truth) checkFresh() {
	for _, a := range t.ledger.fresh {
		if a.Kind == sequencer.Claimed || !t.ledger.has(a) {
			continue
		}
		if a.tx.cone != 0 {
			continue // it holds what it wrote beside others of the cone, and those who are aborted for it
		}
		for _, b := range t.ledger.held {
			if !t.meet(a, b) || b.Kind == sequencer.Claimed && (b.tx.epoch == 0 || b.tx.epoch >= a.tx.epoch) {
				continue
			}
			t.r.fail("%s is %s %s (%s), which %s has too: %s %s (%s)", a.tx.id, a.Kind, a.Scope, a.Access,
				b.tx.id, b.Kind, b.Scope, b.Access)
			return
		}
	}
	for _, h := range t.ledger.held {
		if h.tx.over() {
			t.r.fail("%s is final at %d and still holds %s (%s)", h.tx.id, h.tx.final, h.Scope, h.Kind)
			return
		}
	}
}

// merge reports whether two transactions have sealed deltas of one kind at a shard, which go in any order.
func merge(a, b *txInfo, shard sequencer.Scope) bool {
	op := opAt(a.seal, shard)
	return op != sequencer.OpSet && op == opAt(b.seal, shard)
}

func opAt(seal *sequencer.Seal, shard sequencer.Scope) sequencer.Op {
	if seal != nil {
		for i := range seal.Shards {
			if seal.Shards[i].Scope == shard {
				return seal.Shards[i].Op
			}
		}
	}
	return sequencer.OpSet
}

// checkStanding: at a commit no other transaction may have what the commit reads or writes.
func (t *truth) checkStanding(info *txInfo, o *sequencer.Outcome) {
	if t.lax(info) {
		return
	}
	var writes []sequencer.Scope
	for _, w := range o.Writes {
		writes = append(writes, w.Scope)
	}
	if t.sealedRead(info, writes) {
		t.r.fail("%s commits a write of what an older one in ordered has read and sealed", info.id)
		return
	}
	for _, h := range t.ledger.held {
		if h.tx == info || t.lax(h.tx) || h.Kind == sequencer.Claimed {
			continue
		}
		for _, w := range writes {
			if w.Overlaps(h.Scope) && !merge(info, h.tx, w) {
				t.r.fail("%s commits a write of %s, which %s was %s (%s)", info.id, w, h.tx.id, h.Kind, h.Access)
				return
			}
		}
		older := h.tx.epoch != 0 && h.tx.epoch < info.epoch
		if h.Access == sequencer.ReadAccess || h.tx.decision == 0 && !older {
			continue
		}
		for _, x := range info.seal.Reads {
			if x.Scope.Overlaps(h.Scope) {
				t.r.fail("%s commits a read of %s, which %s may still change: %s", info.id, x.Scope, h.tx.id, h.Kind)
				return
			}
		}
	}
}
