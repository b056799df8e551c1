package view

import (
	"cmp"
	"slices"
	"strings"

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

// note keeps what a decision says of a transaction.
func (v *View) note(o *sequencer.Outcome) {
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
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, t := range v.txs {
		if t.Decision != nil && !t.Final {
			return true
		}
	}
	return false
}

// Transaction is what the decisions show of one.
func (v *View) Transaction(tx sequencer.TxID) (TxState, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
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

// Retracting is where a transaction stands in a retraction.
type Retracting struct {
	Of     sequencer.TxID // whose cone it is in; empty: none
	Seq    sequencer.Seq  // when that was decided
	Undone bool
	Over   sequencer.Seq       // undone: the decision that said so
	queued bool                // it waits for its start, and may still be given up
	Final  bool                // queued: the transaction is final if it is given up
	Waits  []sequencer.Blocker // what its start, or its turn, waits for
}

// Observe takes over a decision about the transaction; final: nothing of it is pending.
func (r *Retracting) Observe(o *sequencer.Outcome, final *bool) {
	if o.Final {
		*final, r.Final = true, true
	}
	if r.queued && o.Kind == sequencer.OutcomeRefused && gaveUp(o) {
		*final, *r = r.Final, Retracting{}
		return
	}
	if o.Retraction == "" {
		return
	}
	if r.Of == "" {
		r.Of, r.Seq = o.Retraction, o.Seq
		r.queued, r.Final = len(o.BlockedBy) > 0 && asksToRetract(o), *final // else a turn waits, in one that has started
	} else if o.Kind == sequencer.OutcomeRetracting {
		r.queued = false
	}
	r.Waits = o.BlockedBy
	switch o.Kind {
	case sequencer.OutcomeSettled:
		r.Of, r.Undone, r.Over = o.Retraction, true, o.Seq
	case sequencer.OutcomeRetracting, sequencer.OutcomeTurn:
		*final = false // until its turn is settled
	}
}

// Tell gives what is known of a transaction what is known of its retraction.
func (r *Retracting) Tell(d *api.Decision) {
	d.Retraction, d.Undone, d.UndoneSeq = string(r.Of), r.Undone, uint64(r.Over)
}

// gaveUp: the log will not start a retraction that it had accepted. Refusals with other codes are of one request.
func gaveUp(o *sequencer.Outcome) bool {
	return asksToRetract(o) && (o.Code == sequencer.CodeLimit || o.Code == sequencer.CodeTooOld)
}

// asksToRetract: the decision answers a request to retract its transaction.
func asksToRetract(o *sequencer.Outcome) bool {
	asked := sequencer.Intent{Kind: sequencer.IntentRetract, Tx: o.Tx}
	return strings.HasPrefix(o.Intent, strings.TrimSuffix(asked.ID(), "0"))
}

// revisionOf is the revision that a decision makes of a shard. A retraction restores what stands: its writer is the
// one who counts as it now, and the shard may not be there any more.
func revisionOf(o *sequencer.Outcome, w *sequencer.ShardWrite) Revision {
	r := Revision{Version: o.Seq, At: o.Seq, Writer: o.Tx, By: o.Tx, Media: w.Type, Content: w.Content, Ref: w.Ref}
	if o.Retraction == "" {
		return r
	}
	for i := range o.Writes {
		if o.Writes[i].Scope == w.Scope {
			r.Writer = o.Writes[i].Writer.Tx
		}
	}
	if w.Absent {
		return Revision{At: o.Seq, By: o.Tx}
	}
	r.From, r.Lacks = w.Restored, w.Restored != 0
	return r
}

// Cone are the members of a retraction that the view remembers, the most recent first.
func (v *View) Cone(of sequencer.TxID) (out []TxState) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, t := range v.txs {
		if t.Retraction.Of == of && of != "" && t.Decision != nil {
			out = append(out, *t)
		}
	}
	sortByDecision(out)
	return out
}

// Members are all of a cone, also those that were decided before the view began.
func (v *View) Members(of sequencer.TxID) (out []sequencer.TxID) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, t := range v.txs {
		if t.Retraction.Of == of && of != "" {
			out = append(out, t.Tx)
		}
	}
	slices.Sort(out)
	return out
}

// sortByDecision brings decided transactions into their order, the most recent first.
func sortByDecision(list []TxState) {
	slices.SortStableFunc(list, func(a, b TxState) int { return cmp.Compare(b.Decision.Seq, a.Decision.Seq) })
}
