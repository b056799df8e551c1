package sequencer

import (
	"cmp"
	"slices"
)

// maxRestsOn bounds what a decision lists of the writers that it rests on; a list of a large subtree may have more.
// All that the window shows are committed, so none beyond the bound could refuse the seal.
const (
	maxRestsOn      = 512
	maxRestsOnBytes = 16 << 10
)

// derive notes which writers a footprint's reads rest on, as the window shows them, and what the seal adds.
func (f *Fold) derive(t *tx) {
	left := maxRestsOnBytes
	for _, r := range t.Seal.Reads {
		f.window.visit(r.Scope, func(_ Scope, seq Seq, w Writer) bool {
			if seq <= r.View && w.Tx != "" && w.Tx != t.ID {
				// A writer whose write a tombstone took away before the read is listed, too, as one whose pattern was
				// overwritten in part is: too many is safe, and what a decision lists is under its chain hash. A retraction
				// asks [Fold.buried] for what was really read.
				left -= 4 + len(w.Tx)
				t.restOn(w)
			}
			// One left out is committed, and a later retraction finds it by the reads in Past.
			return len(t.RestsOn) < maxRestsOn && left > 0
		})
	}
	if u := f.undoneUnder(t.Seal); u != nil {
		// What was read is taken back, though the window shows the older writer again.
		t.restOn(Writer{Tx: u.ID})
	}
	for _, id := range t.Seal.ReadFrom {
		if id != t.ID {
			t.restOn(Writer{Tx: id})
		}
	}
	slices.Sort(t.RestsOn)
	t.RestsOn = slices.Compact(t.RestsOn)
	slices.Sort(t.Residue)
	t.Residue = slices.Compact(t.Residue)
}

func (t *tx) restOn(w Writer) {
	if w.Residue {
		t.Residue = append(t.Residue, w.Tx)
		return
	}
	t.RestsOn = append(t.RestsOn, w.Tx)
}

// askAgain asks for the footprint once more at the seal. What a younger undecided transaction was granted may be dirty
// for a read, and is not ours to overwrite.
func (f *Fold) askAgain(t *tx) judgement {
	var j judgement
	for _, w := range t.Seal.gated() {
		f.askWrite(t, w, &j)
	}
	for i := range t.Seal.Shards {
		f.askWrite(t, t.Seal.Shards[i].Scope, &j)
	}
	for _, r := range t.Seal.Reads {
		if r.Scope.IsShard() {
			// A shard's content comes from decisions, so no read of it is dirty.
			continue
		}
		f.holds.visit(r.Scope, func(_ Scope, b *bound) bool {
			if b.t != t && b.Kind == Granted && b.Access == WriteAccess && b.t.undecided() && t.olderThan(b.t) {
				// A younger one's effect stands in the world undecided: it may be undone after this one has committed on it
				// (holes 2).
				f.judgeDirty(t, b, &j)
			}
			return true
		})
	}
	return j.done()
}

// judgeDirty: the value read may be one that a compensation takes back. Where the levels switch that off, it must not
// hide what refuses a write.
func (f *Fold) judgeDirty(t *tx, b *bound, j *judgement) {
	why := f.enforced(t, finding{code: CodeConflict, scope: b.Scope, moved: Writer{Tx: b.t.ID}, level: A1, met: b,
		detail:   "the value read may be dirty: a younger transaction was granted the scope",
		blockers: []Blocker{blockerOf(b)}})
	if why.found() {
		j.refuse(b.t.Epoch, why)
	}
}

// inTheWay lists all that a seal would wait for, whatever refuses it.
func (f *Fold) inTheWay(t *tx, asked judgement) judgement {
	j := judgement{blockers: asked.blockers}
	for _, id := range t.RestsOn {
		// A seal waits for the older ones that it read from.
		if d := f.txs[id]; d != nil && d.undecided() && d.olderThan(t) {
			j.blockers = append(j.blockers, Blocker{Tx: id, Why: "read_from"})
		}
	}
	f.judgeReads(t, &j, true)
	f.judgeWrites(t, &j, true)
	return j.done()
}

// askWrite: a seal asks for gated effects and shard writes as a touch would.
func (f *Fold) askWrite(t *tx, w Scope, j *judgement) {
	f.holds.visit(w, func(_ Scope, b *bound) bool {
		if b.t != t && b.Kind == Granted && b.t.undecided() && t.olderThan(b.t) {
			f.meet(t, Want{w, WriteAccess}, b, j, true)
		}
		return true
	})
}

// phantomTool: the plan's tools are not the registry's any more.
func (f *Fold) phantomTool(t *tx) finding {
	sc := f.sidecars.live(t.Incarnation)
	for _, p := range t.Seal.Pins {
		if sc == nil || !f.catalogues.has(sc, p) {
			// The plan was made for a tool that is gone, or that takes other arguments now.
			return f.changedTool(sc, p)
		}
	}
	return finding{}
}

// changedTool says which tool it is and what changed it last: an announcement or a withdrawal of its server; where
// there was none, the join of the sidecar, whose registry was empty then.
func (f *Fold) changedTool(sc *SidecarState, p Pin) finding {
	why := finding{code: CodePhantomTool, level: A2,
		detail: p.Server + "/" + p.Name + " is not in the registry as the plan knew it"}
	if !f.bounded() || sc == nil {
		return why
	}
	why.detail = "the tool is not in the registry as the plan knew it"
	why.tool, why.agent, why.moved.Seq = p.Server+"/"+p.Name, sc.Agent, sc.Incarnation
	if at, found := sc.server(p.Server); found {
		why.moved.Seq = sc.Servers[at].Seq
	}
	return why
}

// staleRead: a read's ground has moved, or is forgotten.
func (f *Fold) staleRead(t *tx) finding {
	tooOld := A1
	if f.bounded() {
		tooOld |= A3 // nobody remembers whose write it was, and so not whether that one was aborted
	}
	for _, r := range t.Seal.Reads {
		why := f.movedRead(r)
		// Below the floor the window is silent because it has forgotten, and not because nothing was written (holes 5f).
		if r.View < f.floor {
			why = finding{code: CodeTooOld, scope: r.Scope, level: tooOld,
				detail: "the read is older than what the workspace remembers"}
		}
		if f.bounded() {
			why = f.enforced(t, why) // a stale read that is let pass must not hide one that is too old
		}
		if why.found() {
			return why
		}
	}
	return finding{}
}

// movedRead: the window shows a write above a read's view seq.
func (f *Fold) movedRead(r Read) finding {
	if at, seq, w, found := f.window.after(r.Scope, r.View); found {
		return f.movedBy(CodeStaleRead, A1, at, seq, w)
	}
	return finding{}
}

// versionMismatch: an expected version does not hold. No level switches it off.
func (f *Fold) versionMismatch(t *tx) finding {
	for _, w := range t.Seal.Shards {
		if w.Expect == nil {
			continue
		}
		if w.Expect.View < f.floor {
			// The write that it should collide with may be forgotten: a lost update (holes 5e).
			return finding{code: CodeTooOld, scope: w.Scope,
				detail: "the expected version is older than what the workspace remembers"}
		}
		if at, seq, by, found := f.window.after(w.Scope, w.Expect.View); found {
			// Written since: to commit would drop that write, which the agent has not seen.
			return f.movedBy(CodeVersionMismatch, 0, at, seq, by)
		}
	}
	return finding{}
}

// movedBy refuses what the write at a scope has overtaken. Who moved it need not be who counts as its writer.
func (f *Fold) movedBy(code Code, level Levels, at Scope, seq Seq, w Writer) finding {
	w.Seq = seq
	if f.bounded() {
		// A compensation puts an older writer back; the one to blame is who did that.
		_, w.Tx = f.window.at(at)
	}
	return finding{code: code, level: level, scope: at, moved: w}
}

// judgeSeal asks what is asked in every step: pins, writers read from, branch, verdict, and those in the way.
func (f *Fold) judgeSeal(t *tx, collect bool) judgement {
	var j judgement
	if why := f.enforced(t, f.phantomTool(t)); why.found() {
		// Asked again in every step: the tool may be withdrawn while the seal waits for its hook (holes 15b).
		j.refused = why
		return j
	}
	f.judgeReadFrom(t, &j, collect)
	if j.refused.found() || j.blocked && !collect {
		return j
	}
	f.judgeBranch(t, &j, collect)
	f.judgeVerdict(t, &j, collect)
	f.judgeApproval(t, &j, collect)
	if j.refused.found() || j.blocked && !collect {
		return j
	}
	f.judgeReads(t, &j, collect)
	f.judgeWrites(t, &j, collect)
	return j.done()
}

// judgeReadFrom is check 4: no transaction commits on what an undecided or aborted one showed.
func (f *Fold) judgeReadFrom(t *tx, j *judgement, collect bool) {
	for _, id := range t.RestsOn {
		d := f.txs[id]
		if d == nil {
			// It is forgotten, so it was final and below the floor, and what it showed stood.
			continue
		}
		switch {
		case d.undecided() && d.olderThan(t):
			// Waiting for an older one cannot close a circle.
			j.blocked = true
			if collect {
				j.blockers = append(j.blockers, Blocker{Tx: id, Why: "read_from"})
			}
		case d.undecided():
			// To wait for a younger one could (holes 1c), and to go on would commit on what may be undone (holes 2).
			f.judgeCascade(t, j, finding{code: CodeConflict, moved: Writer{Tx: id}, level: A3, from: d,
				detail: "it read from a younger transaction that is not decided"})
		case d.Retraction != "":
			// What it read is being taken back, or has been.
			f.judgeCascade(t, j, finding{code: CodeCascade, moved: Writer{Seq: d.Decision, Tx: id}, level: A3, from: d,
				detail: "it read from a transaction that is retracted"})
		case d.aborted():
			// It read what never came to be.
			f.judgeCascade(t, j, finding{code: CodeCascade, moved: Writer{Seq: d.Decision, Tx: id}, level: A3, from: d,
				detail: "it read from a transaction that was aborted"})
		}
		if j.refused.found() {
			return
		}
	}
}

func (f *Fold) judgeCascade(t *tx, j *judgement, why finding) {
	if why = f.enforced(t, why); why.found() {
		j.refuse(0, why)
	}
}

// judgeBranch is check 5: only the chosen branch commits.
func (f *Fold) judgeBranch(t *tx, j *judgement, collect bool) {
	if t.Group == "" {
		return
	}
	switch g := f.groups[t.Group]; {
	case g.Winner == "":
		// Two branches that committed would both have happened.
		j.blocked = true
		if collect {
			j.blockers = append(j.blockers, Blocker{Tx: t.ID, Why: "branch"})
		}
	case g.Winner != t.ID:
		why := f.lostTo(g)
		if !f.bounded() {
			why.moved = Writer{}
		}
		j.refuse(0, why)
	}
}

// judgeVerdict is check 6: the hook has said yes, where it is asked.
func (f *Fold) judgeVerdict(t *tx, j *judgement, collect bool) {
	if t.VerdictDue == 0 && !t.Seal.Hook || t.Verdict > 0 {
		return
	}
	if t.Verdict < 0 {
		code := CodeVetoed
		if t.Verdict == verdictMissing {
			code = f.unheard()
		}
		// The hook has said no, or, since logic 3, nothing: only the former is final (holes 19).
		j.refuse(0, finding{code: code, detail: t.VerdictWhy})
		return
	}
	// To commit before the hook has answered would make its no come too late.
	j.blocked = true
	if collect {
		j.blockers = append(j.blockers, Blocker{Tx: t.ID, Why: "verdict"})
	}
}

// judgeReads is check 7 for reads: what was granted to an older one, or is decided and not settled, may still move
// them.
func (f *Fold) judgeReads(t *tx, j *judgement, collect bool) {
	for _, r := range t.Seal.Reads {
		f.holds.visit(r.Scope, func(_ Scope, b *bound) bool {
			if b.t == t || b.Access == ReadAccess {
				return true
			}
			// A decided one's release or compensation is still to come; an older grant's calls may be under way. A claim has
			// moved nothing yet, and is checked where it writes.
			if !b.t.undecided() || b.Kind == Granted && b.t.olderThan(t) {
				j.block(b, collect)
			}
			return collect || !j.blocked
		})
		if j.blocked && !collect {
			return
		}
	}
}

// judgeWrites is check 7 for writes: nothing is overwritten that an older one holds, claims, or in ordered has read.
func (f *Fold) judgeWrites(t *tx, j *judgement, collect bool) {
	for _, s := range t.writeScopes() {
		f.holds.visit(s, func(_ Scope, b *bound) bool {
			// To write now would be under what a settlement puts there later, or over what an older one was promised. Deltas
			// of one kind go in either order.
			if b.t != t && (!b.t.undecided() || b.t.olderThan(t)) && !f.merges(t, s, b) {
				j.block(b, collect)
			}
			return collect || !j.blocked
		})
		f.asks.visit(s, func(at Scope, a *ask) bool {
			u := a.t
			// In ordered an older one that is sealed keeps what it read from younger writers: such a write would make it stale.
			if a.kind == askRead && u != t && u.Mode == Ordered && u.Phase == PhaseSealed && u.olderThan(t) {
				j.blocked = true
				if collect {
					j.blockers = append(j.blockers, Blocker{Tx: u.ID, Scope: at, Why: "sealed_read"})
				}
			}
			return collect || !j.blocked
		})
		if j.blocked && !collect {
			return
		}
	}
}

// maxBlockers is how many transactions an answer names.
const maxBlockers = 16

// block notes that a hold of another transaction is in the way.
func (j *judgement) block(b *bound, collect bool) {
	j.blocked = true
	if collect {
		j.blockers = append(j.blockers, blockerOf(b))
	}
}

// refuse keeps the reason with the oldest transaction in it, of one transaction that with the smallest scope: what is
// answered must not depend on the order in which the index is walked.
func (j *judgement) refuse(by Epoch, why finding) {
	// Map and trie order must not reach an answer: it is hashed.
	if !j.refused.found() || cmp.Or(cmp.Compare(by, j.by), cmp.Compare(why.scope, j.refused.scope)) < 0 {
		j.by, j.refused = by, why
	}
}

func (j *judgement) wound(b *bound) { j.wounds = append(j.wounds, b) }

// done puts what was collected in an order that does not depend on how it was found. Of the holds of one transaction
// that is wounded the smallest scope is named.
func (j judgement) done() judgement {
	slices.SortFunc(j.wounds, func(a, b *bound) int {
		return cmp.Or(cmp.Compare(a.t.Epoch, b.t.Epoch), cmp.Compare(a.t.Order, b.t.Order), cmp.Compare(a.Scope, b.Scope))
	})
	j.wounds = slices.CompactFunc(j.wounds, func(a, b *bound) bool { return a.t == b.t })
	slices.SortStableFunc(j.blockers, compareBlockers)
	j.blockers = slices.Compact(j.blockers)
	return j
}

func compareBlockers(a, b Blocker) int {
	return cmp.Or(cmp.Compare(a.Tx, b.Tx), cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Why, b.Why))
}

// named is what an answer shows of the blockers.
func (j judgement) named() []Blocker { return j.blockers[:min(len(j.blockers), maxBlockers)] }

func blockerOf(b *bound) Blocker {
	return Blocker{Tx: b.t.ID, Scope: b.Scope, Why: b.t.why(b.Kind.String())}
}

// whyOrphan is how a decided transaction without an owner is in the way.
const whyOrphan = "orphan"

// why says how a transaction is in the way.
func (t *tx) why(kind string) string {
	if !t.undecided() && t.Owner == 0 {
		return whyOrphan
	}
	return kind
}

// would is what an observing workspace reports instead of doing it.
func would(j judgement) Code {
	switch {
	case j.refused.found():
		return j.refused.code
	case j.blocked, len(j.wounds) > 0:
		return CodeWaiting
	}
	return ""
}

// Blockers returns what a waiting transaction waits for now, as Outcome.BlockedBy would name it; nil when it does not
// wait, or is not remembered. It changes nothing.
func (f *Fold) Blockers(id TxID) []Blocker {
	t := f.txs[id]
	switch {
	case t == nil || !t.waits():
		return nil
	case t.Phase == PhaseOpen:
		return f.judgeTouch(t, t.Waiting.Wants, true).named()
	}
	would := t.Would // a judgement notes there what it only observes
	j := f.judgeSeal(t, true)
	t.Would = would
	return j.named()
}
