package sequencer_test

import (
	"cmp"
	"slices"
	"strings"

	"github.com/hence-dev/hence/sequencer"
)

// twinMet is what a wanted scope, or many, come to.
type twinMet struct {
	refused  *twinFinding
	by       sequencer.Epoch
	wounds   map[*twinTx]sequencer.Scope
	blocked  bool
	blockers []sequencer.Blocker
}

// others calls fn for each hold of another transaction that overlaps a scope.
func (w *twin) others(t *twinTx, scope sequencer.Scope, fn func(u *twinTx, h sequencer.Hold)) {
	for _, u := range w.txs {
		if u == t {
			continue
		}
		for _, h := range u.holds() {
			if h.Scope.Overlaps(scope) {
				fn(u, h)
			}
		}
	}
}

func blocker(u *twinTx, h sequencer.Hold) sequencer.Blocker {
	why := h.Kind.String()
	if !u.undecided() && u.owner == 0 {
		why = "orphan"
	}
	return sequencer.Blocker{Tx: u.id, Scope: h.Scope, Why: why}
}

func (m *twinMet) block(b sequencer.Blocker) {
	m.blocked = true
	m.blockers = append(m.blockers, b)
}

// refuse keeps the finding about the oldest transaction, of one that at the smallest scope.
func (m *twinMet) refuse(by sequencer.Epoch, f *twinFinding) {
	if m.refused == nil || by < m.by || by == m.by && f.scope < m.refused.scope {
		m.refused, m.by = f, by
	}
}

// named are the blockers as an answer shows them.
func (m *twinMet) named() []sequencer.Blocker {
	all := m.sorted()
	return all[:min(16, len(all))]
}

func (m *twinMet) sorted() []sequencer.Blocker {
	slices.SortFunc(m.blockers, func(a, b sequencer.Blocker) int {
		return cmp.Or(cmp.Compare(a.Tx, b.Tx), cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Why, b.Why))
	})
	m.blockers = slices.Compact(m.blockers)
	return m.blockers
}

func (w *twin) conflict(u *twinTx, h sequencer.Hold, level sequencer.Levels) *twinFinding {
	return &twinFinding{code: sequencer.CodeConflict, level: level, scope: h.Scope, moved: w.holder(u, h.Scope, h.Kind),
		blockers: []sequencer.Blocker{blocker(u, h)}}
}

// meet is the table of order modes for one wanted scope.
func (w *twin) meet(t *twinTx, want sequencer.Want, m *twinMet) {
	w.others(t, want.Scope, func(u *twinTx, h sequencer.Hold) {
		youngerOne := u.undecided() && t.older(u)
		switch {
		case want.Access == sequencer.ReadAccess && h.Access == sequencer.ReadAccess:
		case !youngerOne:
			m.block(blocker(u, h))
		case h.Kind != sequencer.Granted: // claims do not bind the older
		case t.begin.Mode == sequencer.Optimistic:
			m.refuse(u.epoch, w.conflict(u, h, 0))
		default:
			if at, met := m.wounds[u]; !met || h.Scope < at {
				m.wounds[u] = h.Scope
			}
		}
	})
}

func (w *twin) meetAll(t *twinTx, wants []sequencer.Want) *twinMet {
	m := &twinMet{wounds: map[*twinTx]sequencer.Scope{}}
	for _, want := range wants {
		w.meet(t, want, m)
	}
	return m
}

func (w *twin) wound(by *twinTx, m *twinMet) {
	var list []*twinTx
	for u := range m.wounds {
		list = append(list, u)
	}
	slices.SortFunc(list, func(a, b *twinTx) int { return cmp.Compare(a.epoch, b.epoch) })
	for _, u := range list {
		moved := w.holder(u, m.wounds[u], sequencer.Granted)
		moved.Tx = by.id
		w.abort(u, twinFinding{code: sequencer.CodeWounded, scope: m.wounds[u], moved: moved})
	}
}

func (m *twinMet) would() sequencer.Code {
	switch {
	case m.refused != nil:
		return m.refused.code
	case m.blocked || len(m.wounds) > 0:
		return sequencer.CodeWaiting
	}
	return ""
}

// own finds the open transaction of the same session that would be waited for.
func (w *twin) own(t *twinTx, m *twinMet) *twinFinding {
	for _, b := range m.sorted() { // also those that an answer has no room for
		u := w.tx(b.Tx)
		if u != t && u.phase == sequencer.PhaseOpen && u.sameSession(t) {
			f := &twinFinding{code: sequencer.CodeOwnTransaction, scope: b.Scope, blockers: []sequencer.Blocker{b}}
			switch {
			case !w.bounded():
			case b.Why == "read_from":
				return w.readFrom(t, u, f)
			case b.Why == "granted":
				f.moved = w.holder(u, b.Scope, sequencer.Granted)
			default:
				f.moved = w.holder(u, b.Scope, sequencer.Claimed)
			}
			return f
		}
	}
	return nil
}

func (w *twin) touch(t *twinTx, in *sequencer.Intent) {
	asked := in.Touch.Wants
	switch {
	case t.phase != sequencer.PhaseOpen:
		w.refuse(t, twinFinding{code: sequencer.CodeLateEffect, moved: sequencer.Writer{Seq: t.decision, Tx: t.id}})
		return
	case t.waiting != nil:
		w.refuseCode(t, sequencer.CodeTouchWaiting)
		return
	case len(asked)+len(t.grants) > int(w.rules.MaxScopes), len(t.asked) >= int(w.rules.MaxScopes):
		w.refuseCode(t, sequencer.CodeLimit)
		return
	}
	wants := t.notCovered(asked)
	before, counter := t.epoch, w.epoch
	w.takeEpoch(t)
	m := w.meetAll(t, wants)
	why := w.own(t, m)
	if t.free {
		why = nil
	}
	if why == nil {
		why = w.sibling(t, wants)
	}
	if why != nil {
		t.epoch, w.epoch = before, counter
		w.refuse(t, *why)
		return
	}
	if m.refused != nil && !t.free {
		w.abort(t, *m.refused)
		w.answer(t, t.decision)
		return
	}
	bound := w.rules.BoundTicks
	if in.Touch.BoundTicks != 0 {
		bound = in.Touch.BoundTicks
	}
	t.waiting = &sequencer.WaitingState{N: in.N, Wants: wants, Due: w.time + bound}
	if slices.ContainsFunc(asked, func(x sequencer.Want) bool { return x.Access == sequencer.WriteAccess }) {
		t.asked = append(t.asked, in.N)
	}
	w.answer(t, 0)
	if t.free || !m.blocked && len(m.wounds) == 0 {
		w.grant(t, m.would())
		return
	}
	w.wound(t, m)
}

// notCovered is what a touch asks for beyond what its transaction holds.
func (t *twinTx) notCovered(asked []sequencer.Want) []sequencer.Want {
	var out []sequencer.Want
	for _, x := range asked {
		held := slices.ContainsFunc(t.grants, func(g sequencer.Hold) bool {
			return g.Scope.Covers(x.Scope) && g.Access >= x.Access
		})
		twice := slices.ContainsFunc(out, func(y sequencer.Want) bool { return y.Scope == x.Scope && y.Access >= x.Access })
		if !held && !twice {
			out = append(out, x)
		}
	}
	return out
}

func (w *twin) takeEpoch(t *twinTx) {
	if t.epoch == 0 {
		w.epoch++
		t.epoch = w.epoch
	}
}

// sibling finds the branch of the same group that was granted, or waits for, what an eager touch asks for.
func (w *twin) sibling(t *twinTx, wants []sequencer.Want) *twinFinding {
	eager := slices.ContainsFunc(wants, func(x sequencer.Want) bool { return x.Access == sequencer.WriteAccess })
	if t.begin.Group == "" || !eager {
		return nil
	}
	for _, x := range wants {
		type met struct {
			u *twinTx
			h sequencer.Hold
		}
		var list []met
		w.others(t, x.Scope, func(u *twinTx, h sequencer.Hold) {
			if u.begin.Group != t.begin.Group || !u.undecided() {
				return
			}
			waits := u.waiting != nil && slices.ContainsFunc(u.waiting.Wants, func(y sequencer.Want) bool {
				return y.Scope.Overlaps(x.Scope)
			})
			if h.Kind == sequencer.Granted || waits {
				list = append(list, met{u, h})
			}
		})
		if len(list) > 0 { // the one at the highest scope is named, of several the first to appear
			first := slices.MinFunc(list, func(a, b met) int { return bySegments(a.h.Scope, b.h.Scope) })
			return &twinFinding{code: sequencer.CodeSibling, scope: x.Scope,
				blockers: []sequencer.Blocker{{Tx: first.u.id, Scope: x.Scope, Why: "sibling"}}}
		}
	}
	return nil
}

// bySegments orders scopes of one type: what is above before what is below, siblings by name.
func bySegments(a, b sequencer.Scope) int {
	return slices.CompareFunc(a.Segments(), b.Segments(), strings.Compare)
}

func (w *twin) grant(t *twinTx, would sequencer.Code) {
	n := t.waiting.N
	for _, x := range t.waiting.Wants {
		if x.Access == sequencer.WriteAccess {
			w.share(t, []sequencer.Scope{x.Scope})
		}
	}
	for _, x := range t.waiting.Wants {
		t.grants = append(t.grants, sequencer.Hold{Scope: x.Scope, Kind: sequencer.Granted, Access: x.Access})
	}
	wants := t.waiting.Wants
	t.waiting = nil
	seq := w.emitTx(t, sequencer.Outcome{Kind: sequencer.OutcomeGranted, Intent: idOf(sequencer.IntentTouch, t.id, n),
		Would: would})
	for _, x := range wants {
		if w.bounded() {
			t.given = append(t.given, twinGiven{x.Scope, seq})
		}
	}
	t.remember(sequencer.Answer{Kind: sequencer.IntentTouch, Incarnation: t.incarnation, N: n, Seq: seq})
}

func idOf(kind sequencer.IntentKind, id sequencer.TxID, n uint32) string {
	in := sequencer.Intent{Kind: kind, Tx: id, N: n}
	return in.ID()
}

// advanceOne looks at all that wait, the oldest first, and moves the first that can be moved.
func (w *twin) advanceOne() bool {
	var list []*twinTx
	for _, t := range w.txs {
		if t.phase == sequencer.PhaseSealed || t.waiting != nil {
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(a, b *twinTx) int { return cmp.Compare(a.epoch, b.epoch) })
	return slices.ContainsFunc(list, w.advance)
}

func (w *twin) advance(t *twinTx) (moved bool) {
	if t.waiting != nil {
		m := w.meetAll(t, t.waiting.Wants)
		switch {
		case m.refused != nil:
			w.abort(t, *m.refused)
		case len(m.wounds) > 0:
			w.wound(t, m)
		case m.blocked:
			return false
		default:
			w.grant(t, "")
		}
		return true
	}
	if t.stale != nil {
		w.abort(t, *t.stale)
		return true
	}
	m := w.judge(t)
	switch {
	case m.refused != nil:
		w.abort(t, *m.refused)
	case m.blocked:
		return false
	default:
		w.commit(t)
	}
	return true
}

// tellWaiting answers the intent of a touch or seal that waits, once.
func (w *twin) tellWaiting(in *sequencer.Intent) {
	t := w.tx(in.Tx)
	if w.heard && t.phase == sequencer.PhaseSealed {
		w.emitTx(t, sequencer.Outcome{Kind: sequencer.OutcomeWaiting, BlockedBy: w.judge(t).named(), Would: t.would,
			At: t.seal.At, Approvals: t.needed()})
		return
	}
	if t == nil || in.Kind != sequencer.IntentTouch && in.Kind != sequencer.IntentSeal {
		return
	}
	if a := t.answers[in.Kind]; a.N != in.N || a.Incarnation != in.Incarnation || a.Seq != 0 {
		return
	}
	var m *twinMet
	switch {
	case t.waiting != nil:
		m = w.meetAll(t, t.waiting.Wants)
	case t.phase == sequencer.PhaseSealed:
		m = w.judge(t)
	default:
		return
	}
	o := sequencer.Outcome{Kind: sequencer.OutcomeWaiting, BlockedBy: m.named(), Would: t.would, Approvals: t.needed()}
	if len(o.Approvals) > 0 {
		o.At = t.seal.At
	}
	t.waitsSince = w.emitTx(t, o)
	w.answer(t, t.waitsSince)
	if !w.bounded() {
		t.waitsSince = 0
	}
}
