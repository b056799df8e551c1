package sequencer

import (
	"cmp"
	"slices"
)

// What a refusal says of its cause, since logic 3: docs/codes/README.md has a table of it. The older logics say less,
// and their hashes hold that.

// told takes over what a sidecar says of a refusal that it has answered from its view, marked as the sidecar's. What
// the fold can see to be wrong is dropped; the abort stands all the same, for an agent may end its transaction. What
// lies below the window is kept: nothing rests on it here, who has the log can check it, and it would be missing
// where the workspace forgets fast.
func (f *Fold) told(t *tx, why finding, a *Abort) finding {
	if !f.bounded() || a.Scope == "" && a.Seq == 0 && a.Writer == "" || f.refuted(t, a) {
		// The abort stands, without the blame.
		return why
	}
	why.scope, why.moved, why.by = a.Scope, Writer{Seq: a.Seq, Tx: a.Writer}, BySidecar
	return why
}

// refuted: what a sidecar says did not happen as it says.
func (f *Fold) refuted(t *tx, a *Abort) bool {
	if a.Scope != "" && !a.Scope.valid() || len(a.Writer) > maxNameBytes {
		return true // no decision with that could be written
	}
	switch a.Code {
	case CodeTooOld:
		return a.Seq != 0 || a.Writer != "" // nothing moved: it is the floor that passed
	case CodeLostBranch:
		g := f.groups[t.Group]
		return g == nil || g.Winner == "" || g.Winner == t.ID || a.Scope != "" || a.Seq != g.Seq || a.Writer != g.Winner
	case CodeCascade:
		if d := f.txs[a.Writer]; d != nil {
			return a.Seq != d.Decision || !d.aborted() && d.Retraction == ""
		}
		return a.Seq > f.oldest()
	case CodeStaleRead, CodeVersionMismatch:
		return a.Scope == "" || a.Seq == 0 || f.unwritten(a)
	}
	return true // the other codes have no evidence of a sidecar's
}

// unwritten: there was no write of exactly the scope at the seq by the writer.
func (f *Fold) unwritten(a *Abort) bool {
	seq, by := f.window.at(a.Scope)
	switch d := f.txs[a.Writer]; {
	case seq == a.Seq:
		// The window has this very write.
		return by != a.Writer
	case seq < a.Seq:
		return a.Seq > f.below() // else it is forgotten
	case d == nil: // written over since: only the writer's own record can tell
		return false
	case a.Seq > d.Decision: // a settlement's writes are not remembered one by one
		return d.Decision == 0 || a.Seq > max(d.answered(IntentSettle).Seq, d.Past.undone())
	default:
		return a.Seq < d.Decision || d.aborted() || d.Past != nil && !f.wrote(d.Past, a.Scope)
	}
}

func (f *Fold) wrote(p *Past, s Scope) bool {
	f.look(len(p.Writes))
	return slices.ContainsFunc(p.Writes, func(w PastWrite) bool { return w.Scope == s })
}

// below is up to where writes and transactions are forgotten.
func (f *Fold) below() Seq { return min(f.floor, f.keepFrom()) }

// complete looks up what a finding says of its cause, once it is told: since when the hold in the way is there,
// and where the reads met a writer that they rest on.
func (f *Fold) complete(t *tx, why finding) finding {
	if f.bounded() {
		if b := why.met; b != nil {
			// One is granted scopes again and again: without the seq the log does not say which grant it was (holes 21b).
			why.moved.Seq = f.heldSince(b.t, b.Scope, b.Kind)
		}
		if d := why.from; d != nil && t.Seal != nil {
			why.scope = f.metAt(t, d)
			if d.undecided() {
				why.moved.Seq = cmp.Or(f.heldSince(d, why.scope, Granted), d.First)
			}
		}
	}
	why.met, why.from = nil, nil
	return why
}

// heldSince is the seq of the outcome that gave a transaction its newest hold of a kind at a scope; zero: it has none,
// or an older logic gave it.
func (f *Fold) heldSince(t *tx, s Scope, kind HoldKind) (seq Seq) {
	f.look(len(t.Grants))
	switch {
	case kind == Granted:
		for i := range min(len(t.Grants), len(t.Since)) {
			if t.Grants[i].Scope == s {
				seq = max(seq, t.Since[i])
			}
		}
	case t.Waiting != nil && !slices.ContainsFunc(t.May, func(w Want) bool { return w.Scope == s }):
		seq = t.Waiting.Seq
	default:
		seq = t.First
	}
	return seq
}

// metAt finds where the reads of a sealed transaction met another one: at what that was granted for writing, counted
// as the writer of, or wrote and a retraction takes back; else where a read names it. The first such read counts, and
// of it the smallest scope; empty: the seal names the other one and no read does.
func (f *Fold) metAt(t, d *tx) (at Scope) {
	f.look(len(t.Seal.Reads))
	for _, r := range t.Seal.Reads {
		met := func(s Scope, u *tx) {
			if u == d && (at == "" || s < at) {
				at = s
			}
		}
		f.grants.visit(r.Scope, func(s Scope, b *bound) bool {
			if b.Access == WriteAccess {
				met(s, b.t)
			}
			return true
		})
		f.undoneAt.visit(r.Scope, func(s Scope, u *tx) bool {
			met(s, u)
			return true
		})
		f.window.visit(r.Scope, func(s Scope, seq Seq, w Writer) bool {
			if seq <= r.View && w.Tx == d.ID {
				met(s, d)
			}
			return true
		})
		switch {
		case at != "":
			return at
		case r.Writer == d.ID:
			return r.Scope
		}
	}
	return ""
}

// noteGrants notes which outcome gave a transaction its newest n grants.
func (f *Fold) noteGrants(t *tx, n int, seq Seq) {
	if !f.bounded() {
		return
	}
	for len(t.Since) < len(t.Grants) {
		if at := len(t.Since); at < len(t.Grants)-n {
			t.Since = append(t.Since, 0) // an older logic gave it
		} else {
			t.Since = append(t.Since, seq)
		}
	}
}
