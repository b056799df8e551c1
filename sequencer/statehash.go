package sequencer

import (
	"crypto/sha256"
	"fmt"
)

// StateHash returns the hash of everything that the fold keeps. Folds that were given the same records agree on it.
func (f *Fold) StateHash() Hash {
	st := f.export(func(t TxState) TxState { return t }) // nothing changes it meanwhile
	return st.Hash()
}

// Hash returns the hash of the state.
func (st *State) Hash() Hash {
	h := sha256.New()
	hashed := func(e *encoder) {
		h.Write(*e)
		*e = (*e)[:0]
	}
	e := make(encoder, 0, 2*pieceBytes)
	e.str(st.Workspace)
	for _, v := range []uint64{uint64(st.Seq), uint64(st.Floor), uint64(st.Horizon), st.TickN, uint64(st.Time),
		uint64(st.LastEpoch), st.LastOrder} {
		e.num(v)
	}
	e.hash(&st.Chain)
	e.rules(&st.Rules)
	bounds, merges, signs := st.Rules.Logic >= 3, st.Rules.Logic >= 4, st.Rules.Logic >= 5
	list(&e, st.Sidecars, func(e *encoder, sc SidecarState) { putSidecar(e, sc, bounds) })
	list(&e, st.Joins, func(e *encoder, j JoinState) {
		e.str(j.ID)
		e.num(uint64(j.Seq))
	})
	retracts := st.Rules.Logic >= 2
	listInPieces(&e, hashed, st.Txs, func(e *encoder, t *TxState) {
		putTxState(e, t)
		if retracts {
			putPast(e, t)
		}
		if bounds {
			putBounded(e, t)
		}
		if merges {
			putMerging(e, t)
		}
		if signs {
			e.str(t.Signer)
		}
	})
	listInPieces(&e, hashed, st.Window, func(e *encoder, w *WindowState) {
		e.str(string(w.Scope))
		e.num(uint64(w.Seq))
		e.writer(w.Writer)
		if bounds {
			e.str(string(w.By))
		}
	})
	list(&e, st.Catalogues, func(e *encoder, c Catalogue) {
		e.hash(&c.Hash)
		list(e, c.Tools, func(e *encoder, t Tool) {
			e.str(t.Name)
			e.str(t.Signature)
		})
	})
	list(&e, st.Groups, func(e *encoder, g GroupState) {
		e.str(g.ID)
		e.str(string(g.Winner))
		e.num(uint64(g.Seq))
	})
	if retracts {
		st.putUndo(&e, hashed, bounds, merges)
	}
	hashed(&e)
	return Hash(h.Sum(nil))
}

// putUndo writes what there is since logic 2.
func (st *State) putUndo(e *encoder, hashed func(*encoder), bounds, merges bool) {
	list(e, st.Retractions, func(e *encoder, r RetractionState) {
		putRetraction(e, r)
		if bounds {
			list(e, r.Ground, putFrom)
			e.flag(r.Named != nil)
			if r.Named != nil {
				putBlocker(e, *r.Named)
			}
		}
		if merges {
			list(e, r.Ground, func(e *encoder, g ConeScope) { e.flag(g.Kept) })
		}
	})
	listInPieces(e, hashed, st.Versions, func(e *encoder, v *ShardVersion) {
		putVersion(e, v)
		if bounds {
			e.num(uint64(v.From))
		}
	})
	e.num(uint64(st.Unversioned))
	if merges {
		list(e, st.Tombs, func(e *encoder, b Tombstone) {
			e.str(string(b.Scope))
			e.num(uint64(b.Seq))
			e.str(string(b.Tx))
		})
	}
}

// pieceBytes is how much of a state is written before it is hashed: a state may be large.
const pieceBytes = 16 << 10

// listInPieces is list for the long ones. Whenever there is a piece, it is to be hashed.
func listInPieces[T any](e *encoder, hashed func(*encoder), s []T, put func(*encoder, *T)) {
	e.num(uint64(len(s)))
	for i := range s {
		put(e, &s[i])
		if len(*e) >= pieceBytes {
			hashed(e)
		}
	}
}

func putSidecar(e *encoder, sc SidecarState, bounds bool) {
	e.num(uint64(sc.Incarnation))
	e.str(sc.Agent)
	e.num(uint64(sc.Watermark))
	e.num(uint64(sc.Due))
	list(e, sc.Servers, func(e *encoder, s ServerState) {
		e.str(s.Server)
		e.num(s.Generation)
		e.flag(s.Present)
		e.hash(&s.Catalogue)
	})
	if bounds {
		e.flag(sc.Shut)
		list(e, sc.Servers, func(e *encoder, s ServerState) { e.num(uint64(s.Seq)) })
	}
}

func putTxState(e *encoder, t *TxState) {
	for _, s := range []string{string(t.ID), t.Agent, t.Group, t.VerdictWhy, string(t.Code), string(t.Would)} {
		e.str(s)
	}
	for _, v := range []uint64{t.Order, uint64(t.Incarnation), uint64(t.Owner), uint64(t.Base), uint64(t.Mode),
		uint64(t.Epoch), uint64(t.Phase), uint64(t.Due), uint64(t.VerdictDue), uint64(t.Verdict + 1),
		uint64(t.SealLevels), uint64(t.Decision)} {
		e.num(v)
	}
	for _, v := range []bool{t.Observe, t.Free, t.Succeeded, t.Unclean, t.Levels != nil, t.Waiting != nil,
		t.Seal != nil} {
		e.flag(v)
	}
	if t.Levels != nil {
		e.num(uint64(*t.Levels))
	}
	if w := t.Waiting; w != nil {
		e.num(uint64(w.N))
		e.num(uint64(w.Due))
		list(e, w.Wants, putWant)
	}
	if t.Seal != nil {
		e.seal(t.Seal)
	}
	list(e, t.May, putWant)
	list(e, t.Answers, func(e *encoder, a Answer) {
		e.num(uint64(a.Kind))
		e.num(uint64(a.Incarnation))
		e.num(uint64(a.N))
		e.num(uint64(a.Seq))
	})
	list(e, t.Grants, putHold)
	list(e, t.GrantedNs, func(e *encoder, n uint32) { e.num(uint64(n)) })
	e.hash(&t.Footprint)
	list(e, t.RestsOn, putTx)
	list(e, t.Residue, putTx)
	list(e, t.Gated, putScope)
}

// Restore makes the fold that a state was taken from. It goes on as if it had never stopped.
func Restore(st State) (*Fold, error) {
	if st.Rules.Logic == 0 || st.Rules.Logic > Logic {
		// Restored without what the newer logic keeps, it would go on and diverge (holes 11).
		return nil, fmt.Errorf("%w: the state has logic %d, this one is %d", ErrUnknownLogic, st.Rules.Logic, Logic)
	}
	f := New(st.Workspace)
	f.seq, f.floor, f.horizon, f.tickN, f.time = st.Seq, st.Floor, st.Horizon, st.TickN, st.Time
	f.lastEpoch, f.lastOrder, f.chain, f.rules = st.LastEpoch, st.LastOrder, st.Chain, st.Rules
	f.rules.fill() // a state of logic 3 from before it had a rule
	f.window = newWindow(st.Window)
	for _, j := range st.Joins {
		f.joins.add(j)
	}
	for _, g := range st.Groups {
		f.groups[g.ID] = &group{GroupState: g}
		if g.Winner != "" {
			f.chosen += g.bytes()
		}
	}
	byHash := map[Hash][]Tool{}
	for _, c := range st.Catalogues {
		byHash[c.Hash] = c.Tools
	}
	for _, sc := range st.Sidecars {
		c := sc
		c.Servers = append([]ServerState(nil), sc.Servers...)
		for _, s := range c.Servers {
			f.listed += s.bytes()
			if s.Present && f.catalogues.keep(byHash[s.Catalogue]) != s.Catalogue {
				// Without its tools every plan with a pin would be refused from here on, and only in this process.
				return nil, fmt.Errorf("sequencer: restore %s: the catalogue of server %s is missing from the state",
					st.Workspace, s.Server)
			}
		}
		f.sidecars.add(&c)
	}
	f.restoreTxs(st.Txs)
	f.restoreRetractions(&st)
	f.step = stepState{}
	return f, nil
}

// restoreTxs files the transactions, and enters what they hold and ask for into the indexes.
func (f *Fold) restoreTxs(txs []TxState) {
	var decided []*tx
	for _, ts := range txs {
		t := &tx{TxState: ts.clone()}
		f.txs[t.ID] = t
		if t.Group != "" {
			f.joinGroup(t)
		}
		if t.Retraction != "" {
			f.enterUndone(t)
		}
		if !t.undecided() {
			decided = append(decided, t)
		} else {
			f.undecided++
		}
		f.account(t)
	}
	sortByDecision(decided)
	for _, t := range decided {
		f.settled.push(t)
	}
	for _, t := range f.inOrder(func(t *tx) bool { return !t.final() }) {
		f.reindex(t)
		// Views have been told of these holds by the outcomes that gave them.
		t.added, t.ended = holdList{}, holdList{}
	}
	f.dropStaleWakes()
}

// reindex enters one transaction's holds and asks.
func (f *Fold) reindex(t *tx) {
	for _, g := range t.Grants {
		f.hold(t, g)
	}
	for _, g := range t.Gated {
		f.hold(t, Hold{g, Held, WriteAccess})
	}
	if t.Retraction != "" {
		f.holdWritten(t, nil)
	}
	switch {
	case t.Phase == PhaseSealed:
		f.enqueueSeal(t)
	case t.Phase == PhaseOpen:
		for _, w := range t.May {
			f.hold(t, Hold{w.Scope, Claimed, w.Access})
		}
		if t.Waiting != nil {
			f.enqueueTouch(t, nil)
		}
	}
}

// dropStaleWakes empties the queue: before the state was taken its step had come to its fixpoint.
func (f *Fold) dropStaleWakes() {
	f.step.moved, f.step.seen = nil, nil
	for _, t := range f.step.queue {
		t.wake = false
	}
	f.step.queue = f.step.queue[:0]
}

// putBounded is what a transaction has since logic 3.
func putBounded(e *encoder, t *TxState) {
	list(e, t.Shared, putScope)
	list(e, t.Sealed, putScope)
	e.num(uint64(t.Commit))
	e.num(uint64(t.First))
	list(e, t.Since, func(e *encoder, s Seq) { e.num(uint64(s)) })
	if t.Waiting != nil {
		e.num(uint64(t.Waiting.Seq))
	}
	e.str(t.Session)
}

// putMerging is what a transaction has since logic 4.
func putMerging(e *encoder, t *TxState) {
	if t.Past != nil {
		list(e, t.Past.Writes, func(e *encoder, w PastWrite) { e.num(uint64(w.Op)) })
	}
	e.num(uint64(t.ApprovalDue))
	list(e, t.Approvals, putApproval)
}

func putPast(e *encoder, t *TxState) {
	e.str(string(t.Retraction))
	e.flag(t.Past != nil)
	if t.Past == nil {
		return
	}
	list(e, t.Past.Reads, func(e *encoder, r PastRead) {
		e.str(string(r.Scope))
		e.num(uint64(r.View))
	})
	list(e, t.Past.From, putTx)
	list(e, t.Past.Writes, func(e *encoder, w PastWrite) {
		e.str(string(w.Scope))
		e.writer(w.Former)
		e.flag(w.Shard)
	})
	e.flag(t.Past.Effects)
	e.num(uint64(t.Past.Undone))
}

func putRetraction(e *encoder, r RetractionState) {
	e.str(string(r.Tx))
	e.num(uint64(r.Seq))
	list(e, r.Cone, putTx)
	list(e, r.Ground, func(e *encoder, g ConeScope) {
		e.str(string(g.Scope))
		e.writer(g.Writer)
		e.flag(g.Unknown)
		e.flag(g.Shard != nil)
		if g.Shard != nil {
			putVersion(e, g.Shard)
		}
	})
	e.num(uint64(r.Turn))
}

// putFrom adds what logic 3 has of the content under a cone.
func putFrom(e *encoder, g ConeScope) {
	if g.Shard != nil {
		e.num(uint64(g.Shard.From))
	}
}

func putVersion(e *encoder, v *ShardVersion) {
	e.str(string(v.Scope))
	e.num(uint64(v.Seq))
	e.str(string(v.Tx))
	e.str(v.Type)
	e.str(string(v.Content))
	putRef(e, v.Ref)
	e.flag(v.Absent)
	e.flag(v.Unknown)
}
