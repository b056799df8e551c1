package sidecar

import "github.com/hence-dev/hence/sequencer"

// txState is any agent's transaction as the decisions show it.
type txState struct {
	tx         sequencer.TxID
	agent      string
	mode       sequencer.Mode
	decision   *sequencer.Outcome // committed or aborted
	waiting    *sequencer.Outcome // the last one that said so; nil once decided or granted
	after      bool               // a decision shows what comes after the one that decides it
	final      bool
	clean      bool // the settlement of its release left no residue
	retraction retracting
}

// note keeps what a decision says of a transaction.
func (v *view) note(o *sequencer.Outcome) {
	if o.Tx == "" {
		return
	}
	t := v.txs[o.Tx]
	if t == nil {
		if o.Kind == sequencer.OutcomeRefused {
			return // of a transaction that the log does not know
		}
		t = &txState{tx: o.Tx, agent: o.Agent, mode: o.Mode}
		v.txs[o.Tx] = t
		v.txOrder = append(v.txOrder, o.Tx)
		v.forget()
	}
	t.retraction.observe(o, &t.final)
	t.clean = t.clean || releasedAll(o)
	switch o.Kind {
	case sequencer.OutcomeWaiting:
		t.waiting = brief(o)
	case sequencer.OutcomeGranted:
		t.waiting = nil
	case sequencer.OutcomeCommitted, sequencer.OutcomeAborted:
		t.decision, t.waiting = brief(o), nil
	case sequencer.OutcomeSettled, sequencer.OutcomeAdopted, sequencer.OutcomeRetracting, sequencer.OutcomeTurn:
		t.after = true
	}
}

// before reports whether the transaction was decided before the view began: how, it has not seen.
func (t *txState) before() bool {
	return t.decision == nil && (t.after || t.final || t.retraction.of != "")
}

// brief is what is remembered of a decision: not the contents and scopes, which may be large.
func brief(o *sequencer.Outcome) *sequencer.Outcome {
	out := *o
	out.Shards, out.Writes, out.Added, out.Ended, out.May, out.RestsOn = nil, nil, nil, nil, nil, nil
	return &out
}

// forget drops transactions that are final below the floor, and beyond the bound the oldest ones.
func (v *view) forget() {
	for len(v.txOrder) > 0 {
		t := v.txs[v.txOrder[0]]
		done := t.final && t.decision != nil && t.decision.Seq <= v.floor
		if len(v.txOrder) <= keptTxs && (!done || len(v.txOrder) <= keptTxs/4) {
			return
		}
		delete(v.txs, t.tx)
		v.txOrder = v.txOrder[1:]
	}
}

// owes reports whether the view shows a decided transaction that is not settled.
func (v *view) owes() bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, t := range v.txs {
		if t.decision != nil && !t.final {
			return true
		}
	}
	return false
}

// transaction is what the decisions show of one.
func (v *view) transaction(tx sequencer.TxID) (txState, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	t := v.txs[tx]
	if t == nil {
		return txState{}, false
	}
	return *t, true
}
