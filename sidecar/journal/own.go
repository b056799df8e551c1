package journal

import (
	"slices"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
)

// InlineArgs bounds the arguments and answers that are kept where they stand, in bytes; larger ones travel by
// reference.
const InlineArgs = 4 << 10

// Bytes is the journal's size; zero where there is none.
func (d *Journal) Bytes() int64 {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if d.file == nil {
		return 0
	}
	return d.file.size
}

// Outcome is the record as the decision of a transaction, without contents and scopes.
func (d *DecidedRecord) Outcome(id sequencer.TxID) *sequencer.Outcome {
	o := &sequencer.Outcome{Kind: sequencer.OutcomeAborted, Tx: id, Seq: d.Seq, Code: d.Code, Scope: d.Scope,
		Moved: d.Moved, Detail: d.Detail, Final: d.Final, Retryable: d.Code.Retryable(),
		By: d.By, Tool: d.Tool, MovedAgent: d.MovedAgent, Floor: d.Floor}
	if d.State == "committed" {
		o.Kind = sequencer.OutcomeCommitted
	}
	return o
}

// Share notes that the settlement of a transaction had another owner.
func (d *Journal) Share(id sequencer.TxID) error {
	d.Mu.Lock()
	t := d.Ledger.Txs[id]
	known := t != nil && !t.Foreign && !t.Shared
	if known {
		t.Shared = true // also where the journal does not take it
	}
	d.Mu.Unlock()
	if !known {
		return nil
	}
	return d.Record(recordShared, &DecidedRecord{Tx: id})
}

// Bounds of what a sink answered, bytes of JSON.
const (
	MaxAnswer = maxMark - 64<<10 // in the journal
	MaxSpread = 480 << 10        // in the events topic, which takes events of 512 KiB
)

// OwnRecord says in the journal that an agent may act on scopes by itself, or what it said that it did.
type OwnRecord struct {
	Tx     sequencer.TxID
	Scopes []sequencer.Scope `json:",omitempty"`
	Told   *sequencer.Settle `json:",omitempty"`
}

// applyOwn adds such a record.
func (l *Ledger) applyOwn(r *OwnRecord) {
	t := l.Txs[r.Tx]
	if t == nil {
		return // settled since
	}
	for _, scope := range r.Scopes {
		t.Own = api.AddScope(t.Own, scope)
	}
	if r.Told != nil {
		t.Told = r.Told
	}
}

// Sync returns once what was journalled is on the disk.
func (d *Journal) Sync() error {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	return d.sync()
}

// OwnOf is what an agent did by itself in a transaction, as far as the journal knows.
func (d *Journal) OwnOf(id sequencer.TxID) (scopes []sequencer.Scope, told *sequencer.Settle) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if t := d.Ledger.Txs[id]; t != nil {
		return slices.Clone(t.Own), t.Told
	}
	return nil, nil
}

// kept says what a journal has of a transaction: nothing; only what was taken from the log before; or the calls,
// perhaps without their arguments, since it was settled; or without the newest of them, since the machine is not the
// one, or was started again since.
type kept struct{ Known, Foreign, Shared, Stripped, Short bool }

// Untold are the calls whose answers have no event in the journal.
func (d *Journal) Untold() (out []gate.Progress) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	for _, id := range d.Ledger.Order() {
		t := d.Ledger.Txs[id]
		for _, p := range t.effects {
			if t.untold(p) {
				out = append(out, *p)
			}
		}
	}
	return out
}

// Owed are a transaction's calls as the journal has them.
func (d *Journal) Owed(id sequencer.TxID) (out []gate.Progress, k kept) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	out, k.Known = d.Ledger.effectsOf(id)
	if k.Known {
		t := d.Ledger.Txs[id]
		k.Foreign, k.Shared, k.Short = t.Foreign, t.Shared, d.Boot == "" || t.Boot != d.Boot
	}
	k.Stripped = slices.ContainsFunc(out, func(p gate.Progress) bool { return p.Args == nil })
	return out, k
}

// WithIt is what a journal's loss costs.
const WithIt = "Its open transactions are aborted and their held calls dropped, calls without a key whose outcome " +
	"only it knew become residue, and each conversation is told once to read again; all that was decided is in the log"
