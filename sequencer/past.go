package sequencer

import "slices"

// keepPast notes of a committed transaction what a later retraction asks of it.
func (f *Fold) keepPast(t *tx, writes []Write) {
	if !f.retracts() {
		return
	}
	s := t.Seal
	p := &Past{From: s.ReadFrom}
	if len(s.Reads) > 0 {
		p.Reads = make([]PastRead, len(s.Reads))
		for i, r := range s.Reads {
			p.Reads[i] = PastRead{r.Scope, r.View}
		}
	}
	for _, e := range s.Effects {
		p.Effects = p.Effects || e.Class != ClassRead
	}
	p.add(writes)
	for i := range p.Writes {
		p.Writes[i].Shard = slices.ContainsFunc(s.Shards, func(w ShardWrite) bool { return w.Scope == p.Writes[i].Scope })
	}
	t.Past = p
}

// add notes writes at scopes that were not written before.
func (p *Past) add(writes []Write) {
	if p == nil {
		return
	}
	if p.Writes == nil && len(writes) > 0 {
		p.Writes = make([]PastWrite, 0, len(writes))
	}
	n := len(p.Writes)
	for _, w := range writes {
		if !slices.ContainsFunc(p.Writes[:n], func(x PastWrite) bool { return x.Scope == w.Scope }) {
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

// showed reports whether a read at a view saw what the transaction wrote, before that was undone.
func (t *tx) showed(scope Scope, view Seq) bool {
	p := t.Past
	if view < t.Decision || p.Undone != 0 && view >= p.Undone {
		return false
	}
	return slices.ContainsFunc(p.Writes, func(w PastWrite) bool { return w.Scope.Overlaps(scope) })
}

// undoneUnder finds a member of a cone that a footprint's reads rest on; of several that with the smallest name, for
// one is enough to refuse the seal. The window does not show those whose compensation is newer than the read.
func (f *Fold) undoneUnder(s *Seal) *tx {
	var found *tx
	for _, u := range f.undone {
		if (found == nil || u.ID < found.ID) && slices.ContainsFunc(s.Reads, func(r Read) bool {
			return u.showed(r.Scope, r.View)
		}) {
			found = u
		}
	}
	return found
}

func (f *Fold) forgetUndone(t *tx) {
	if t.Retraction != "" {
		f.undone = slices.DeleteFunc(f.undone, func(u *tx) bool { return u == t })
	}
}

// trimPasts drops the pasts of transactions that no cone can reach any more.
func (f *Fold) trimPasts(keep Seq) {
	r := &f.settled
	for len(r.full) > 0 && r.full[0].Decision <= keep {
		t := r.full[0]
		r.full = r.full[1:]
		if t.Retraction != "" {
			continue
		}
		if t.settledOnce() {
			r.bytes -= t.Past.bytes()
		}
		t.Past = nil
		f.account(t)
	}
}
