package sequencer_test

import (
	"cmp"
	"slices"

	"github.com/hence-dev/hence/sequencer"
)

// twinGiven is what one outcome granted.
type twinGiven struct {
	scope sequencer.Scope
	seq   sequencer.Seq
}

// hold names a transaction and since when it has a hold, where the rules say so.
func (w *twin) holder(u *twinTx, scope sequencer.Scope, kind sequencer.HoldKind) sequencer.Writer {
	out := sequencer.Writer{Tx: u.id}
	if w.bounded() {
		out.Seq = w.since(u, scope, kind)
	}
	return out
}

// since is the outcome of the newest hold of a kind at a scope.
func (w *twin) since(u *twinTx, scope sequencer.Scope, kind sequencer.HoldKind) (seq sequencer.Seq) {
	declared := slices.ContainsFunc(u.begin.May, func(x sequencer.Want) bool { return x.Scope == scope })
	switch {
	case kind == sequencer.Granted:
		for _, g := range u.given {
			if g.scope == scope {
				seq = max(seq, g.seq)
			}
		}
		return seq
	case u.waiting != nil && !declared:
		return u.waitsSince
	}
	return u.first
}

// met is the first read of a seal that saw something of another transaction, or names it.
func (w *twin) met(t, d *twinTx) sequencer.Scope {
	if !w.bounded() {
		return ""
	}
	var theirs []sequencer.Scope
	for _, g := range d.grants {
		if g.Access == sequencer.WriteAccess {
			theirs = append(theirs, g.Scope)
		}
	}
	if d.coneOf != "" {
		for _, x := range d.past.Writes {
			theirs = append(theirs, x.Scope)
		}
	}
	for _, r := range t.seal.Reads {
		theirs := slices.Clone(theirs)
		for _, e := range w.window {
			if e.Seq <= r.View && e.Writer.Tx == d.id {
				theirs = append(theirs, e.Scope)
			}
		}
		slices.Sort(theirs)
		if at := slices.IndexFunc(theirs, r.Scope.Overlaps); at >= 0 {
			return theirs[at]
		}
		if r.Writer == d.id {
			return r.Scope
		}
	}
	return ""
}

// readFrom names an undecided transaction that a seal rests on.
func (w *twin) readFrom(t, d *twinTx, f *twinFinding) *twinFinding {
	f.moved.Tx = d.id
	if w.bounded() {
		f.scope = w.met(t, d)
		f.moved.Seq = cmp.Or(w.since(d, f.scope, sequencer.Granted), d.first)
	}
	return f
}

// taken is what a sidecar's abort says of its cause, unless it is known to be wrong.
func (w *twin) taken(t *twinTx, a *sequencer.Abort) twinFinding {
	f := twinFinding{code: a.Code}
	if !w.bounded() || a.Scope == "" && a.Seq == 0 && a.Writer == "" || w.wrong(t, a) {
		return f
	}
	f.scope, f.moved, f.by = a.Scope, sequencer.Writer{Seq: a.Seq, Tx: a.Writer}, "sidecar"
	return f
}

func (w *twin) wrong(t *twinTx, a *sequencer.Abort) bool {
	forgotten := min(w.floor, w.keepFrom())
	d := w.tx(a.Writer)
	switch a.Code {
	case sequencer.CodeTooOld:
		return a.Seq > 0 || a.Writer != ""
	case sequencer.CodeLostBranch:
		g := w.groups[t.begin.Group]
		return g == nil || g.Winner == "" || g.Winner == t.id || a.Scope != "" ||
			*g != sequencer.GroupState{ID: g.ID, Winner: a.Writer, Seq: a.Seq}
	case sequencer.CodeCascade:
		if d == nil {
			return a.Seq > w.oldest()
		}
		return d.decision != a.Seq || !d.aborted() && d.coneOf == ""
	case sequencer.CodeStaleRead, sequencer.CodeVersionMismatch:
	default:
		return true
	}
	var last sequencer.WindowState
	for _, e := range w.window {
		if e.Scope == a.Scope {
			last = e
		}
	}
	switch {
	case a.Scope == "", a.Seq == 0:
		return true
	case last.Seq == a.Seq:
		return cmp.Or(last.By, last.Writer.Tx) != a.Writer
	case last.Seq < a.Seq:
		return a.Seq > forgotten
	case d == nil:
		return false
	case d.decision == 0, a.Seq < d.decision:
		return true
	case a.Seq > d.decision:
		settled := d.answers[sequencer.IntentSettle].Seq
		if d.past != nil {
			settled = max(settled, d.past.Undone)
		}
		return a.Seq > settled
	}
	return d.aborted() || d.past != nil && !slices.ContainsFunc(d.past.Writes, func(x sequencer.PastWrite) bool {
		return x.Scope == a.Scope
	})
}

// phantomOf says which tool is missing and what changed its server last.
func (w *twin) phantomOf(sc *twinSidecar, p sequencer.Pin) *twinFinding {
	f := &twinFinding{code: sequencer.CodePhantomTool, level: sequencer.A2}
	if w.bounded() && sc != nil {
		f.tool, f.agent, f.moved.Seq = p.Server+"/"+p.Name, sc.agent, sc.incarnation
		if at, known := sc.changed[p.Server]; known {
			f.moved.Seq = at
		}
	}
	return f
}

// claim is what a sidecar says of a refusal: mostly a write that was, with something of it wrong now and then.
func (h *history) claim(a *sequencer.Abort, id sequencer.TxID) {
	if h.rarely(4) {
		return
	}
	a.Scope, a.Seq, a.Writer = h.scope(), h.view(), h.id()
	if n := len(h.said); n > 0 && !h.rarely(5) {
		x := h.said[n-1-min(h.n(n), h.n(n))]
		a.Scope, a.Seq, a.Writer = x.Scope, x.Seq, x.Writer
	}
	t := h.twin.tx(id)
	if t != nil && t.begin.Group != "" && h.rarely(2) {
		g := h.twin.groups[t.begin.Group]
		*a = sequencer.Abort{Code: sequencer.CodeLostBranch, Seq: g.Seq, Writer: g.Winner}
	}
	if d := h.twin.tx(a.Writer); d != nil && a.Code == sequencer.CodeCascade && !h.rarely(4) {
		a.Seq = d.decision
	}
	if a.Code == sequencer.CodeTooOld && !h.rarely(3) {
		a.Seq, a.Writer = 0, ""
	}
	switch h.n(16) {
	case 0:
		a.Scope = h.scope()
	case 1:
		a.Seq++
	case 2:
		a.Writer = h.id()
	case 3:
		a.Scope = ""
	}
}
