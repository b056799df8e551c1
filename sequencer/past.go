package sequencer

import (
	"cmp"
	"slices"
)

// keepPast notes of a committed transaction what a later retraction asks of it.
func (f *Fold) keepPast(t *tx, writes []Write) {
	if !f.retracts() || t.Seal.tombstone() != nil {
		return
	}
	s := t.Seal
	p := newPast(len(s.Reads), len(writes))
	p.From = s.ReadFrom
	for _, r := range s.Reads {
		p.Reads = append(p.Reads, PastRead{r.Scope, r.View})
	}
	for _, e := range s.Effects {
		p.Effects = p.Effects || e.Class != ClassRead
	}
	f.addWrites(p, writes)
	f.look(len(p.Writes) + len(s.Shards))
	for i := range s.Shards { // writes are sorted, and each shard is one of them
		if at, found := slices.BinarySearchFunc(p.Writes, s.Shards[i].Scope, func(w PastWrite, s Scope) int {
			return cmp.Compare(w.Scope, s)
		}); found {
			p.Writes[at].Shard, p.Writes[at].Op = true, s.Shards[i].Op
		}
	}
	t.Past = p
	if f.bounded() {
		t.Commit = f.time
	}
}

// newPast makes room for a past. That of a small footprint, as most have, is in one piece.
func newPast(reads, writes int) *Past {
	piece := &struct {
		Past
		reads  [2]PastRead
		writes [2]PastWrite
	}{}
	piece.Reads, piece.Writes = room(piece.reads[:0], reads), room(piece.writes[:0], writes)
	return &piece.Past
}

// room is an empty slice that n fit into: the one at hand, or else a new one.
func room[T any](have []T, n int) []T {
	switch {
	case n == 0:
		return nil
	case n > cap(have):
		return make([]T, 0, n)
	}
	return have
}

// addWrites notes writes at scopes that were not written before.
func (f *Fold) addWrites(p *Past, writes []Write) {
	if p == nil {
		return
	}
	scopes := make([]Scope, len(p.Writes)) // of a commit there are none yet
	for i := range p.Writes {
		scopes[i] = p.Writes[i].Scope
	}
	had := among(f, scopes, len(writes))
	for _, w := range writes {
		if !had(w.Scope) {
			p.Writes = append(p.Writes, PastWrite{Scope: w.Scope, Former: w.Former})
		}
	}
}

func (p *Past) bytes() int {
	if p == nil {
		return 0
	}
	n := 16
	for _, r := range p.Reads {
		n += 12 + len(r.Scope)
	}
	for _, id := range p.From {
		n += 4 + len(id)
	}
	for _, w := range p.Writes {
		n += 16 + len(w.Scope) + len(w.Former.Tx)
	}
	return n
}

// undone is the seq of the compensation; zero: none.
func (p *Past) undone() Seq {
	if p == nil {
		return 0
	}
	return p.Undone
}

// shownAt reports whether a view shows what the transaction wrote, and not yet that it was undone.
func (t *tx) shownAt(view Seq) bool {
	return view >= t.Decision && (t.Past.Undone == 0 || view < t.Past.Undone)
}

// undoneUnder finds a member of a cone that a footprint's reads rest on; of several that with the smallest name, for
// one is enough to refuse the seal. The window does not show those whose compensation is newer than the read.
func (f *Fold) undoneUnder(s *Seal) *tx {
	var found *tx
	for _, r := range s.Reads {
		f.undoneAt.visit(r.Scope, func(at Scope, u *tx) bool {
			if u.shownAt(r.View) && !f.buried(u, at, r.View) && (found == nil || u.ID < found.ID) {
				found = u
			}
			return true
		})
	}
	return found
}

// enterUndone files a member of a cone under what it wrote.
func (f *Fold) enterUndone(t *tx) {
	f.undoneNames += len(t.Retraction)
	f.undoneWrites(t)
}

// undoneWrites files what a member of a cone wrote; its own settlement, when it comes later, may add to it.
func (f *Fold) undoneWrites(t *tx) {
	for _, w := range t.Past.Writes {
		f.undoneAt.add(w.Scope, t.Order, t)
	}
}

func (f *Fold) forgetUndone(t *tx) {
	if t.Retraction == "" {
		return
	}
	f.undoneNames -= len(t.Retraction)
	for _, w := range t.Past.Writes {
		f.undoneAt.remove(w.Scope, t.Order)
	}
}

// trimPasts drops the pasts of transactions that no cone can reach any more.
func (f *Fold) trimPasts(keep Seq) {
	r := &f.settled
	for len(r.full) > 0 && r.full[0].Decision <= keep {
		t := r.full[0]
		r.full = r.full[1:]
		if t.Retraction != "" {
			// In a cone, or was: its past is asked for until it is forgotten itself.
			r.passAgain(t)
			continue
		}
		if t.settledOnce() {
			r.bytes -= t.Past.bytes()
		}
		t.Past, t.opsKnown = nil, false
		f.account(t)
		r.passAgain(t)
	}
}
