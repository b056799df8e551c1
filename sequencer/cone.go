package sequencer

import "errors"

// ErrNotCommitted is returned by Fold.Cone when the transaction is undecided or was aborted: there is nothing to undo.
var ErrNotCommitted = errors.New("sequencer: the transaction is not committed")

// ErrTooOld is returned by Fold.Cone when the transaction has no record, or was decided before the undo horizon.
var ErrTooOld = errors.New("sequencer: the transaction is older than the undo horizon")

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
