package topology

import "github.com/hence-dev/hence/sequencer"

const (
	writerFields  = 3
	blockerBytes  = 4
	writeBytes    = 2 + 2*writerFields + 1
	outcomeFields = 39
	outcomeLeast  = 37 // of the first release
	outcomeBytes  = 1 + outcomeLeast
)

func walkOutcome(w *walker, o *sequencer.Outcome) {
	signs := w.decoding || o.Signer != ""
	approvals := signs || len(o.Approvals) > 0
	said := approvals || o.By != "" || o.Tool != "" || o.MovedAgent != ""
	outer := w.open(optional(outcomeFields, said, said, said, approvals, signs), outcomeLeast)
	text(w, &o.Workspace)
	number(w, &o.Seq)
	signed(w, &o.Offset)
	number(w, &o.RulesVersion)
	w.hash(&o.Chain)
	number(w, &o.Time)
	number(w, &o.Floor)
	number(w, &o.Kind)
	text(w, &o.Intent)
	text(w, &o.Tx)
	text(w, &o.Agent)
	number(w, &o.Incarnation)
	number(w, &o.Mode)
	number(w, &o.Epoch)
	walkReason(w, o)
	walkMoves(w, o)
	w.hash(&o.Footprint)
	pointer(w, &o.At, walkPlace)
	text(w, &o.Group)
	text(w, &o.Winner)
	text(w, &o.Server)
	w.hash(&o.Catalogue)
	w.truth(&o.Final)
	pointer(w, &o.Rules, walkRules)
	pointer(w, &o.StateHash, walkHash)
	text(w, &o.Retraction)
	list(w, &o.Cone, wordBytes, text)
	if said {
		text(w, &o.By)
		text(w, &o.Tool)
		text(w, &o.MovedAgent)
	}
	if approvals {
		list(w, &o.Approvals, approvalBytes, walkApproval)
	}
	if signs {
		text(w, &o.Signer)
	}
	w.close(outer)
}

// walkReason is the part of an outcome that says why: seven fields of it.
func walkReason(w *walker, o *sequencer.Outcome) {
	text(w, &o.Code)
	text(w, &o.Detail)
	text(w, &o.Scope)
	walkWriter(w, &o.Moved)
	list(w, &o.BlockedBy, blockerBytes, walkBlocker)
	w.truth(&o.Retryable)
	text(w, &o.Would)
}

// walkMoves is the part of an outcome that says what moved: seven fields of it.
func walkMoves(w *walker, o *sequencer.Outcome) {
	list(w, &o.Added, holdBytes, walkHold)
	list(w, &o.Ended, holdBytes, walkHold)
	list(w, &o.May, wantBytes, walkWant)
	list(w, &o.Writes, writeBytes, walkWrite)
	list(w, &o.Shards, shardBytes, walkShardWrite)
	list(w, &o.RestsOn, wordBytes, text)
	list(w, &o.Residue, wordBytes, text)
}

// walkHash is a hash behind a pointer, where nil means something else than zero.
func walkHash(w *walker, h *sequencer.Hash) {
	if w.decoding {
		w.hash(h)
	} else {
		w.putBytes(h[:])
	}
}

func walkWriter(w *walker, v *sequencer.Writer) {
	outer := w.open(writerFields, writerFields)
	number(w, &v.Seq)
	text(w, &v.Tx)
	w.truth(&v.Residue)
	w.close(outer)
}

func walkBlocker(w *walker, b *sequencer.Blocker) {
	outer := w.open(3, 3)
	text(w, &b.Tx)
	text(w, &b.Scope)
	text(w, &b.Why)
	w.close(outer)
}

func walkWrite(w *walker, v *sequencer.Write) {
	outer := w.open(3, 3)
	text(w, &v.Scope)
	walkWriter(w, &v.Writer)
	walkWriter(w, &v.Former)
	w.close(outer)
}
