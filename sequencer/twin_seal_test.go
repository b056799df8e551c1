package sequencer_test

import (
	"slices"

	"github.com/hence-dev/hence/sequencer"
)

func (w *twin) seal(t *twinTx, in *sequencer.Intent) {
	s := w.asRead(in.Seal)
	switch {
	case t.decision != 0:
		w.repeat(t, t.decision)
		return
	case t.phase == sequencer.PhaseSealed && s.Footprint() != t.footprint:
		w.refuseCode(t, sequencer.CodeLateEffect)
		return
	case t.phase == sequencer.PhaseSealed:
		w.repeat(t, t.answers[sequencer.IntentSeal].Seq)
		return
	case t.waiting != nil:
		w.refuseCode(t, sequencer.CodeTouchWaiting)
		return
	case sealScopes(s) > int(w.rules.MaxScopes):
		w.refuseCode(t, sequencer.CodeLimit)
		return
	}
	if why := w.incomplete(t, s); why != nil {
		w.abort(t, *why)
		w.answer(t, t.decision)
		return
	}
	before, counter := t.epoch, w.epoch
	w.takeEpoch(t)
	t.seal, t.levels = s, w.rules.Levels
	if t.begin.Levels != nil {
		t.levels = *t.begin.Levels
	}
	w.derive(t)
	asked := w.askAgain(t)
	if !t.free {
		if why := w.own(t, w.inTheWay(t)); why != nil {
			t.epoch, w.epoch = before, counter
			t.seal, t.restsOn, t.residue, t.would = nil, nil, nil, ""
			w.refuse(t, *why)
			return
		}
	}
	t.phase, t.footprint, t.signer = sequencer.PhaseSealed, s.Footprint(), in.Signer
	if s.Hook {
		t.verdictDue = w.time + w.rules.VerdictTicks
		if s.VerdictTicks != 0 {
			t.verdictDue = w.time + s.VerdictTicks
		}
	}
	w.waitForApproval(t)
	w.answer(t, 0)
	w.decideOnce(t, asked)
}

// decideOnce is what is judged at the seal only; the rest is asked in every step.
func (w *twin) decideOnce(t *twinTx, asked *twinMet) {
	refused := func(*twinTx) *twinFinding { return asked.refused }
	for _, check := range []func(*twinTx) *twinFinding{refused, w.phantom, w.stale, w.mismatch} {
		if why := t.enforce(check(t)); why != nil {
			w.abort(t, *why)
			return
		}
	}
	if !t.free {
		w.wound(t, asked)
		return
	}
	if len(asked.wounds) > 0 {
		t.note(sequencer.CodeWaiting)
	}
	t.note(w.judge(t).would())
	w.commit(t)
}

// note remembers what an observed transaction would have come to, the first of it.
func (t *twinTx) note(code sequencer.Code) {
	if t.would == "" {
		t.would = code
	}
}

// enforce drops what the transaction's levels switch off and what it only observes.
func (t *twinTx) enforce(f *twinFinding) *twinFinding {
	switch {
	case f == nil, f.level != 0 && t.levels&f.level == 0:
		return nil
	case t.free, t.begin.Observe && f.level != 0:
		t.note(f.code)
		return nil
	}
	return f
}

// incomplete finds what a seal leaves out or cannot mean.
func (w *twin) incomplete(t *twinTx, s *sequencer.Seal) *twinFinding {
	at := func(scope sequencer.Scope) *twinFinding {
		return &twinFinding{code: sequencer.CodeIncompleteFootprint, scope: scope}
	}
	for _, r := range s.Reads {
		if r.View > w.seq || r.Version > r.View {
			return at(r.Scope)
		}
	}
	for _, n := range t.asked {
		if !slices.Contains(s.Touches, sequencer.TouchReport{N: n, Known: true}) {
			return at("")
		}
	}
	for i, e := range s.Effects {
		if int(e.Index) != i {
			return at("")
		}
		if e.Absent && (e.Class != sequencer.ClassRead || len(e.Scopes) > 0 || e.Known) {
			return at(append(e.Scopes, "")[0])
		}
		if badApproval(e) {
			return at(append(slices.Clone(e.Scopes), "")[0])
		}
		if e.Class != sequencer.ClassReversible && e.Class != sequencer.ClassKnownOutcome {
			continue
		}
		for _, scope := range e.Scopes {
			held := slices.ContainsFunc(t.grants, func(g sequencer.Hold) bool {
				return g.Access == sequencer.WriteAccess && g.Scope.Covers(scope)
			})
			if !held || !e.Known {
				return at(e.Scopes[0])
			}
		}
		if !e.Known {
			return at("")
		}
	}
	for i, x := range s.Shards {
		twice := slices.ContainsFunc(s.Shards[:i], func(y sequencer.ShardWrite) bool { return x.Scope == y.Scope })
		f := x.Former
		late := f != nil && (f.View > w.seq || f.Version > f.View)
		late = late || f != nil && w.bounded() && f.Restored > f.Version
		late = late || x.Expect != nil && (x.Expect.View > w.seq || x.Expect.Version > x.Expect.View)
		star := x.Scope.HasStar() && !x.Absent
		if x.Scope.Type() != "shard" || star || twice || late || badDelta(&x) || badChain(&x) || badTombstone(s, &x) {
			return at(x.Scope)
		}
	}
	if scope := runsAtDelta(s); scope != "" {
		return at(scope)
	}
	if len(t.begin.May) > 0 {
		return t.outside(s)
	}
	return nil
}

// outside finds what lies outside of what begin declared.
func (t *twinTx) outside(s *sequencer.Seal) *twinFinding {
	declared := func(scope sequencer.Scope, access sequencer.Access) bool {
		return slices.ContainsFunc(t.begin.May, func(m sequencer.Want) bool {
			return m.Access >= access && m.Scope.Covers(scope)
		})
	}
	for _, r := range s.Reads {
		if !declared(r.Scope, sequencer.ReadAccess) {
			return &twinFinding{code: sequencer.CodeIncompleteFootprint, scope: r.Scope}
		}
	}
	for _, scope := range writtenScopes(s) {
		if !declared(scope, sequencer.WriteAccess) {
			return &twinFinding{code: sequencer.CodeIncompleteFootprint, scope: scope}
		}
	}
	return nil
}

// derive lists whom the reads rest on.
func (w *twin) derive(t *twinTx) {
	t.restsOn = slices.Clone(t.seal.ReadFrom)
	for _, r := range t.seal.Reads {
		for _, e := range w.window {
			switch {
			case !e.Scope.Overlaps(r.Scope) || e.Seq > r.View || e.Writer.Tx == "":
			case e.Writer.Residue:
				t.residue = append(t.residue, e.Writer.Tx)
			default:
				t.restsOn = append(t.restsOn, e.Writer.Tx)
			}
		}
	}
	var undone []sequencer.TxID
	for _, m := range w.txs {
		if m.coneOf != "" && w.sawUndone(t, m) {
			undone = append(undone, m.id)
		}
	}
	if len(undone) > 0 {
		t.restsOn = append(t.restsOn, slices.Min(undone))
	}
	for _, list := range []*[]sequencer.TxID{&t.restsOn, &t.residue} {
		*list = slices.DeleteFunc(*list, func(id sequencer.TxID) bool { return id == t.id })
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
}

// askAgain holds the footprint against what younger undecided ones were granted.
func (w *twin) askAgain(t *twinTx) *twinMet {
	m := &twinMet{wounds: map[*twinTx]sequencer.Scope{}}
	younger := func(u *twinTx, h sequencer.Hold) bool {
		return h.Kind == sequencer.Granted && u.undecided() && t.older(u)
	}
	for _, scope := range append(gatedScopes(t.seal), shardScopes(t.seal)...) {
		w.others(t, scope, func(u *twinTx, h sequencer.Hold) {
			switch at, met := m.wounds[u]; {
			case !younger(u, h):
			case t.begin.Mode == sequencer.Optimistic:
				m.refuse(u.epoch, w.conflict(u, h, 0))
			case !met || h.Scope < at:
				m.wounds[u] = h.Scope
			}
		})
	}
	for _, r := range t.seal.Reads {
		if r.Scope.Type() == "shard" {
			continue
		}
		w.others(t, r.Scope, func(u *twinTx, h sequencer.Hold) {
			if younger(u, h) && h.Access == sequencer.WriteAccess {
				if f := t.enforce(w.conflict(u, h, sequencer.A1)); f != nil {
					m.refuse(u.epoch, f)
				}
			}
		})
	}
	return m
}

// inTheWay is whom a seal would wait for.
func (w *twin) inTheWay(t *twinTx) *twinMet {
	m := &twinMet{}
	for _, id := range t.restsOn {
		if d := w.tx(id); d != nil && d.undecided() && d.older(t) {
			m.block(sequencer.Blocker{Tx: id, Why: "read_from"})
		}
	}
	w.checkSeven(t, m)
	return m
}

// phantom is check 1.
func (w *twin) phantom(t *twinTx) *twinFinding {
	sc := w.sidecar(t.incarnation)
	for _, p := range t.seal.Pins {
		if sc == nil || !sc.has(p) {
			return w.phantomOf(sc, p)
		}
	}
	return nil
}

// stale is check 2.
func (w *twin) stale(t *twinTx) *twinFinding {
	for _, r := range t.seal.Reads {
		var f *twinFinding
		if e := w.lastWrite(r.Scope); r.View < w.floor {
			f = &twinFinding{code: sequencer.CodeTooOld, level: sequencer.A1, scope: r.Scope}
			if w.bounded() {
				f.level |= sequencer.A3
			}
		} else if e.Seq > r.View {
			f = &twinFinding{code: sequencer.CodeStaleRead, level: sequencer.A1, scope: e.Scope, moved: w.moved(e)}
		}
		if w.bounded() {
			f = t.enforce(f)
		}
		if f != nil {
			return f
		}
	}
	return nil
}

// mismatch is check 3.
func (w *twin) mismatch(t *twinTx) *twinFinding {
	for _, x := range t.seal.Shards {
		if x.Expect == nil {
			continue
		}
		if x.Expect.View < w.floor {
			return &twinFinding{code: sequencer.CodeTooOld, scope: x.Scope}
		}
		if e := w.lastWrite(x.Scope); e.Seq > x.Expect.View {
			return &twinFinding{code: sequencer.CodeVersionMismatch, scope: e.Scope, moved: w.moved(e)}
		}
	}
	return nil
}

// judge is what is asked in every step: checks 1 and 4 to 7, the first that does not hold.
func (w *twin) judge(t *twinTx) *twinMet {
	m := &twinMet{}
	if f := t.enforce(w.phantom(t)); f != nil {
		m.refused = f
		return m
	}
	w.checkFour(t, m)
	if m.refused != nil || m.blocked && t.free {
		return m
	}
	waitsForWriters := m.blocked
	var refused *twinFinding
	if g := t.begin.Group; g != "" {
		switch winner := w.groups[g].Winner; winner {
		case t.id:
		case "":
			m.block(sequencer.Blocker{Tx: t.id, Why: "branch"})
		default:
			refused = &twinFinding{code: sequencer.CodeLostBranch}
			if w.bounded() {
				refused.moved = sequencer.Writer{Seq: w.groups[g].Seq, Tx: winner}
			}
		}
	}
	switch {
	case !t.seal.Hook || t.verdict > 0:
	case t.verdict == 0:
		m.block(sequencer.Blocker{Tx: t.id, Why: "verdict"})
	case refused == nil && t.verdict == -2:
		refused = &twinFinding{code: w.silence()}
	case refused == nil:
		refused = &twinFinding{code: sequencer.CodeVetoed}
	}
	if t.unheard() {
		m.block(sequencer.Blocker{Tx: t.id, Why: "approval"})
	}
	if refused != nil && !waitsForWriters {
		m.refused = refused
		return m
	}
	w.checkSeven(t, m)
	return m
}

// checkFour: no transaction commits on what an undecided or aborted transaction showed.
func (w *twin) checkFour(t *twinTx, m *twinMet) {
	for _, id := range t.restsOn {
		d := w.tx(id)
		var f *twinFinding
		switch {
		case d == nil:
		case d.undecided() && d.older(t):
			m.block(sequencer.Blocker{Tx: id, Why: "read_from"})
		case d.undecided():
			f = w.readFrom(t, d, &twinFinding{code: sequencer.CodeConflict, level: sequencer.A3})
		case d.aborted() || d.coneOf != "":
			f = &twinFinding{code: sequencer.CodeCascade, level: sequencer.A3, scope: w.met(t, d),
				moved: sequencer.Writer{Seq: d.decision, Tx: id}}
		}
		if f = t.enforce(f); f != nil {
			m.refused = f
			return
		}
	}
}

// checkSeven lists those in the way of a sealed footprint.
func (w *twin) checkSeven(t *twinTx, m *twinMet) {
	for _, r := range t.seal.Reads {
		w.others(t, r.Scope, func(u *twinTx, h sequencer.Hold) {
			older := u.undecided() && u.older(t) && h.Kind == sequencer.Granted
			if h.Access == sequencer.WriteAccess && (older || !u.undecided()) {
				m.block(blocker(u, h))
			}
		})
	}
	for _, scope := range t.writes() {
		w.others(t, scope, func(u *twinTx, h sequencer.Hold) {
			if (!u.undecided() || u.older(t)) && !t.goesWith(scope, u, h) {
				m.block(blocker(u, h))
			}
		})
		for _, u := range w.txs {
			if u == t || u.phase != sequencer.PhaseSealed || u.begin.Mode != sequencer.Ordered || !u.older(t) {
				continue
			}
			for _, r := range u.seal.Reads {
				if r.Scope.Overlaps(scope) {
					m.block(sequencer.Blocker{Tx: u.id, Scope: r.Scope, Why: "sealed_read"})
				}
			}
		}
	}
}
