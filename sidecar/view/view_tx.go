package view

import (
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/words"
)

// TxState is any agent's transaction as the decisions show it.
type TxState struct {
	Tx         sequencer.TxID
	Agent      string
	mode       sequencer.Mode
	Decision   *sequencer.Outcome // committed or aborted
	Waiting    *sequencer.Outcome // the last one that said so; nil once decided or granted
	after      bool               // a decision shows what comes after the one that decides it
	Final      bool
	Clean      bool // the settlement of its release left no residue
	Retraction Retracting
}

// Note keeps what a decision says of a transaction.
func (v *View) Note(o *sequencer.Outcome) {
	if o.Tx == "" {
		return
	}
	t := v.txs[o.Tx]
	if t == nil {
		if o.Kind == sequencer.OutcomeRefused {
			return // of a transaction that the log does not know
		}
		t = &TxState{Tx: o.Tx, Agent: o.Agent, mode: o.Mode}
		v.txs[o.Tx] = t
		v.txOrder = append(v.txOrder, o.Tx)
		v.forget()
	}
	t.Retraction.Observe(o, &t.Final)
	t.Clean = t.Clean || ReleasedAll(o)
	switch o.Kind {
	case sequencer.OutcomeWaiting:
		t.Waiting = Brief(o)
	case sequencer.OutcomeGranted:
		t.Waiting = nil
	case sequencer.OutcomeCommitted, sequencer.OutcomeAborted:
		t.Decision, t.Waiting = Brief(o), nil
	case sequencer.OutcomeSettled, sequencer.OutcomeAdopted, sequencer.OutcomeRetracting, sequencer.OutcomeTurn:
		t.after = true
	}
}

// Before reports whether the transaction was decided before the view began: how, it has not seen.
func (t *TxState) Before() bool {
	return t.Decision == nil && (t.after || t.Final || t.Retraction.Of != "")
}

// forget drops transactions that are final below the floor, and beyond the bound the oldest ones.
func (v *View) forget() {
	for len(v.txOrder) > 0 {
		t := v.txs[v.txOrder[0]]
		done := t.Final && t.Decision != nil && t.Decision.Seq <= v.floor
		if len(v.txOrder) <= keptTxs && (!done || len(v.txOrder) <= keptTxs/4) {
			return
		}
		delete(v.txs, t.Tx)
		v.txOrder = v.txOrder[1:]
	}
}

// Owes reports whether the view shows a decided transaction that is not settled.
func (v *View) Owes() bool {
	v.Mu.RLock()
	defer v.Mu.RUnlock()
	for _, t := range v.txs {
		if t.Decision != nil && !t.Final {
			return true
		}
	}
	return false
}

// Transaction is what the decisions show of one.
func (v *View) Transaction(tx sequencer.TxID) (TxState, bool) {
	v.Mu.RLock()
	defer v.Mu.RUnlock()
	t := v.txs[tx]
	if t == nil {
		return TxState{}, false
	}
	return *t, true
}

// Describe is what decisions show of a transaction.
func (t *TxState) Describe() *api.Decision {
	d := &api.Decision{State: api.StateOpen}
	switch {
	case t.Decision != nil:
		d = words.Decision(t.Decision)
		d.State = StateOf(t.Decision)
	case t.Waiting != nil:
		d = words.Decision(t.Waiting)
		d.State, d.Seq = api.StateSealed, 0
	}
	d.Tx, d.Mode, d.Final = string(t.Tx), t.mode.String(), t.Final
	t.Retraction.Tell(d)
	return d
}
