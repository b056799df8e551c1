package sequencer

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// ErrNotCommitted is returned by Fold.Cone when the transaction is undecided or was aborted: there is nothing to undo.
var ErrNotCommitted = errors.New("sequencer: the transaction is not committed")

// ErrTooOld is returned by Fold.Cone when the transaction has no record, or was decided before the undo horizon.
var ErrTooOld = errors.New("sequencer: the transaction is older than the undo horizon")

// ErrRetracted is returned by Fold.Cone when the transaction is in a retraction's cone already, or was.
var ErrRetracted = errors.New("sequencer: the transaction is retracted")

// ConeMember is one transaction that a retraction would undo.
type ConeMember struct {
	Tx       TxID
	Agent    string
	Decision Seq
	Why      string // read_from or overwrote; empty: it is the retracted one
	Of       TxID   // the member that it read from or overwrote; of several the one decided first
	At       Scope  // where; empty where the sidecar's list says so
	Settled  bool   // it is final: its turn need not wait for its own settlement
	Effects  bool   // a sidecar has to compensate something
	Writes   []Scope
	Restored []ShardVersion // its shards, as they would be restored
}

// Cone returns what a retraction of a transaction would undo now, the most recent first. It changes nothing. Each
// member but the retracted one names another that it follows from, so the list is a tree.
func (f *Fold) Cone(id TxID) ([]ConeMember, error) {
	t := f.txs[id]
	switch {
	case t == nil:
		// Without its past there is no telling what follows from it.
		return nil, fmt.Errorf("%w: %s is not remembered", ErrTooOld, id)
	case t.undecided() || t.aborted():
		// There is nothing that a retraction would take back.
		return nil, fmt.Errorf("%w: %s", ErrNotCommitted, id)
	case t.Retraction != "":
		// It is undone with that one.
		return nil, fmt.Errorf("%w: %s, with %s", ErrRetracted, id, t.Retraction)
	case t.Past == nil || t.Decision <= f.horizon && f.queuedRetraction(id) == nil:
		return nil, fmt.Errorf("%w: %s was decided at %d", ErrTooOld, id, t.Decision)
	}
	c := f.coneOf(t)
	var out []ConeMember
	for _, m := range c.members {
		why := c.why[m]
		x := ConeMember{Tx: m.ID, Agent: m.Agent, Decision: m.Decision, Why: why.kind, At: why.at,
			Settled: m.settledOnce(), Effects: m.Past.Effects}
		if why.of != nil {
			x.Of = why.of.ID
		}
		for _, w := range m.Past.Writes {
			x.Writes = append(x.Writes, w.Scope)
			if w.Shard && w.Op == OpSet {
				v := f.contentUnder(w.Scope, c.undoes(f))
				if !f.merging() || v.Seq <= m.Decision { // else a tombstone has taken it away since
					x.Restored = append(x.Restored, v)
				}
			}
		}
		out = append(out, x)
	}
	return out, nil
}

// cone is the transactions that follow from one, itself included, the most recent first.
// Invariant: closed: who read from a member or overwrote it is a member. A cone of readers alone would put an old
// value over what an unread overwriter left (holes 7a).
type cone struct {
	members []*tx
	why     map[*tx]coneWhy
	byID    map[TxID]*tx
	written index[uint64, *tx]                // what the members wrote
	formers map[*tx]*index[int, placedWriter] // whose writes a member covered, by scope and place; as asked for
}

// coneWhy is how a member follows from another one.
type coneWhy struct {
	kind string
	of   *tx
	at   Scope
}

// coneOf takes the cone: every committed transaction that read from one in it, or overwrote a scope of one in it.
func (f *Fold) coneOf(root *tx) *cone {
	c := &cone{why: map[*tx]coneWhy{}, byID: map[TxID]*tx{}, formers: map[*tx]*index[int, placedWriter]{}}
	c.add(root, coneWhy{})
	candidates := f.inOrder(func(t *tx) bool {
		return t.Past != nil && t.Retraction == "" && t != root
	})
	sortByDecision(candidates)
	for found := true; found; { // once more for those that a sidecar lists as read from, though they were decided later
		found = false
		for _, t := range candidates {
			if _, in := c.why[t]; in {
				continue
			}
			// Whatever read from it or overwrote it: with readers alone the compensation would destroy an unread overwriter's
			// value (holes 7a).
			if why, follows := c.follows(f, t); follows {
				c.add(t, why)
				found = true
			}
		}
	}
	slices.SortFunc(c.members, func(a, b *tx) int { return cmp.Compare(b.Decision, a.Decision) })
	return c
}

func (c *cone) add(t *tx, why coneWhy) {
	c.members = append(c.members, t)
	c.why[t] = why
	c.byID[t.ID] = t
	for _, w := range t.Past.Writes {
		c.written.add(w.Scope, t.Order, t)
	}
}

// follows finds how a transaction follows from a member; of several that decided first, reading before overwriting.
func (c *cone) follows(f *Fold, t *tx) (why coneWhy, follows bool) {
	first := func(kind string, of *tx, at Scope) {
		if why.of == nil || of.Decision < why.of.Decision {
			why = coneWhy{kind, of, at}
		}
	}
	for _, r := range t.Past.Reads {
		c.written.visit(r.Scope, func(at Scope, m *tx) bool {
			if m.Decision <= r.View && !f.buried(m, at, r.View) {
				first("read_from", m, at)
			}
			return true
		})
	}
	for _, id := range t.Past.From {
		if m := c.byID[id]; m != nil {
			first("read_from", m, "")
		}
	}
	for _, w := range t.Past.Writes {
		c.written.visit(w.Scope, func(at Scope, m *tx) bool {
			if m.Decision < t.Decision && !bothDeltas(t, w.Scope, m, at) && !f.buried(m, at, t.Decision) {
				first("overwrote", m, at)
			}
			return true
		})
	}
	return why, why.of != nil
}

// undoes reports whether the write of a transaction does not stand: it is in the cone, or was retracted before.
func (c *cone) undoes(f *Fold) func(TxID) bool {
	return func(id TxID) bool {
		t := f.txs[id]
		if t == nil {
			// It is forgotten, so it was decided below what any cone can reach: its write stands.
			return false
		}
		_, in := c.why[t]
		return in || t.Phase == PhaseRetracted
	}
}

// ground is what stands under the cone, by scope: the writer that its oldest member covered there, and for a shard the
// content whose writer stands.
func (c *cone) ground(f *Fold) []ConeScope {
	var out []ConeScope
	for _, m := range c.members {
		for _, w := range m.Past.Writes {
			i, found := slices.BinarySearchFunc(out, w.Scope, func(g ConeScope, s Scope) int { return cmp.Compare(g.Scope, s) })
			if !found {
				out = slices.Insert(out, i, ConeScope{Scope: w.Scope, Writer: c.covered(w.Scope)})
			}
			switch {
			case w.Op != OpSet:
				out[i].Kept = true // a turn takes it out and puts nothing back
			case w.Shard && out[i].Shard == nil && !out[i].Unknown:
				v := c.under(f, m, &w)
				switch {
				case f.merging() && v.Seq > m.Decision:
					out[i].Kept = true // a tombstone has taken it away since
				case v.Unknown:
					out[i].Unknown = true
				default:
					out[i].Shard = &v
				}
			}
		}
	}
	for i := range out {
		if g := &out[i]; g.Kept {
			c.keepWriter(f, g)
		}
	}
	return out
}

// under is the content that stands under the cone at a shard.
func (c *cone) under(f *Fold, m *tx, w *PastWrite) ShardVersion {
	undone := c.undoes(f)
	if w.Op == OpSet {
		return f.contentUnder(w.Scope, undone)
	}
	// The rule is off: holes 24. What came upon the delta goes with it.
	p := f.shards.of[w.Scope]
	for i := len(p.list) - 1; i >= 0; i-- {
		if v := p.list[i]; v.Seq < m.Decision && !undone(v.Tx) {
			return v
		}
	}
	return ShardVersion{Scope: w.Scope, Unknown: true}
}

// keepWriter names who stands at a shard that the cone wrote deltas of. The one whom its oldest member came upon need
// not be the last one, and may have been taken back itself: who reads the shard then would rest on it, and be refused
// for ever (holes 24b).
func (c *cone) keepWriter(f *Fold, g *ConeScope) {
	undone := c.undoes(f)
	if v := f.contentUnder(g.Scope, undone); v.Tx != "" {
		g.Writer = Writer{Seq: v.Seq, Tx: v.Tx}
	} else if undone(g.Writer.Tx) {
		g.Writer = Writer{}
	}
}

// covered is the writer that stood at a scope before the cone's oldest member wrote there.
func (c *cone) covered(s Scope) Writer {
	var oldest *tx
	c.written.visit(s, func(_ Scope, m *tx) bool {
		if oldest == nil || m.Decision < oldest.Decision {
			oldest = m
		}
		return true
	})
	var out Writer
	at := 0
	c.formersOf(oldest).visit(s, func(_ Scope, f placedWriter) bool {
		if f.Seq > out.Seq || f.Seq == out.Seq && f.Seq > 0 && f.place < at {
			out, at = f.Writer, f.place
		}
		return true
	})
	return out
}

// placedWriter is whose write a member covered, and where in the list of its writes that stands.
type placedWriter struct {
	Writer
	place int
}

func (c *cone) formersOf(m *tx) *index[int, placedWriter] {
	x := c.formers[m]
	if x == nil {
		x = &index[int, placedWriter]{}
		for i, w := range m.Past.Writes {
			x.add(w.Scope, i, placedWriter{w.Former, i})
		}
		c.formers[m] = x
	}
	return x
}
