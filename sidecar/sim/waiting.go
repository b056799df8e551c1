package sim

import (
	"slices"

	"github.com/hence-dev/hence/sequencer"
)

// checkWaiting: after each record, no transaction waits without a cause.
func (t *truth) checkWaiting() {
	for _, info := range t.list[t.rested:] {
		switch {
		case info.decision != 0:
		case t.fold.Time() >= info.due:
			t.r.fail("%s is not decided at tick %d; its deadline was tick %d", info.id, t.fold.Time(), info.due)
		case info.free:
		case info.sealed:
			if !t.sealBlocked(info) {
				t.r.fail("%s is sealed and waits for nothing", info.id)
			}
		case info.wants != nil:
			if t.fold.Time() >= info.waitDue {
				t.r.fail("%s waits at tick %d; its bound was tick %d", info.id, t.fold.Time(), info.waitDue)
			}
			if !t.touchBlocked(info) {
				t.r.fail("%s waits to be granted %v for nothing", info.id, info.wants)
			}
		}
	}
	for t.rested < len(t.list) && t.list[t.rested].over() {
		t.rested++
	}
}

// touchBlocked: another one has, or an older one claims, what a waiting touch still asks for.
func (t *truth) touchBlocked(info *txInfo) bool {
	for _, w := range info.wants {
		if t.ledger.covers(info, w) {
			continue
		}
		for _, h := range t.ledger.held {
			shared := w.Access == sequencer.ReadAccess && h.Access == sequencer.ReadAccess
			binds := h.Kind != sequencer.Claimed || h.tx.olderThan(info)
			if h.tx != info && !shared && binds && h.Scope.Overlaps(w.Scope) {
				return true
			}
		}
	}
	return false
}

// sealBlocked: something of check 4 to 7 is left.
func (t *truth) sealBlocked(info *txInfo) bool {
	a := t.r.attempts[info.id]
	if info.seal.Hook && !info.answered || info.unapproved() || a == nil {
		return true
	}
	if w := t.winners[a.begin.Group]; a.begin.Group != "" && (w == nil || w.Winner != info.id) {
		return true
	}
	for _, id := range info.seal.ReadFrom {
		if d := t.txs[id]; d != nil && d != info && d.decision == 0 {
			return true
		}
	}
	writes := slices.Clone(info.grants)
	for _, e := range info.seal.Effects {
		writes = append(writes, e.Scopes...)
	}
	for _, w := range info.seal.Shards {
		writes = append(writes, w.Scope)
	}
	for _, h := range t.ledger.held {
		if h.tx == info || h.tx.decision == 0 && !h.tx.olderThan(info) {
			continue
		}
		if covers(writes, h.Scope) {
			return true
		}
		if h.Access == sequencer.ReadAccess || h.Kind == sequencer.Claimed {
			continue
		}
		for _, r := range info.seal.Reads {
			if r.Scope.Overlaps(h.Scope) {
				return true
			}
		}
	}
	return t.sealedRead(info, writes)
}

// sealedRead: an older one in ordered has read, and sealed, what is to be written.
func (t *truth) sealedRead(info *txInfo, writes []sequencer.Scope) bool {
	for _, o := range t.list[t.rested:] {
		a := t.r.attempts[o.id]
		if o == info || o.decision != 0 || !o.sealed || !o.olderThan(info) || a == nil || a.begin.Mode != sequencer.Ordered {
			continue
		}
		for _, r := range o.seal.Reads {
			if covers(writes, r.Scope) {
				return true
			}
		}
	}
	return false
}

func (i *txInfo) olderThan(o *txInfo) bool {
	return i.epoch != 0 && (o.epoch == 0 || i.epoch < o.epoch)
}

// covers reports whether the transaction was granted what it wants already.
func (l *ledger) covers(info *txInfo, w sequencer.Want) bool {
	return slices.ContainsFunc(l.held, func(h holding) bool {
		return h.tx == info && h.Kind == sequencer.Granted && h.Access >= w.Access && h.Scope.Covers(w.Scope)
	})
}
