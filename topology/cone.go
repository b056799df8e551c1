package topology

import (
	"errors"

	"github.com/hence-dev/hence/sequencer"
)

// Cone is what a retraction would undo now: the answer to a dry run.
type Cone struct {
	Workspace string
	Tx        sequencer.TxID // the transaction to retract
	Through   sequencer.Seq  // what the fold that answered has decided
	Code      sequencer.Code // what a retraction would be refused with; empty: it would be accepted
	Detail    string         // why there are no members: for people
	Members   []ConeMember   // the most recent first, in the order of their turns
	Total     uint32         // members, also those that are not shown

	Undo *sequencer.UndoLeft // how long it can still be retracted; nil: no longer, or logic 3 does not hold
}

// Truncated reports whether not every member is shown.
func (c *Cone) Truncated() bool { return int(c.Total) > len(c.Members) }

// ConeMember is one transaction that a retraction would undo.
type ConeMember struct {
	Tx       sequencer.TxID
	Agent    string
	Seq      sequencer.Seq   // of its decision
	Depth    uint32          // steps from the retracted transaction, which has none
	Why      string          // read_from or overwrote; empty: it is the retracted one
	Of       sequencer.TxID  // the member that it read from or overwrote
	At       sequencer.Scope // where; empty where only the sidecar's list says so
	Settled  bool            // its turn need not wait for its own settlement
	Effects  bool            // a sidecar has to compensate something
	Writes   []sequencer.Scope
	Restored []ShardRestored
}

// ShardRestored is one shard of a member as a retraction would leave it.
type ShardRestored struct {
	Scope   sequencer.Scope
	Seq     sequencer.Seq // since when that content was there; zero: from before what the fold remembers
	Tx      sequencer.TxID
	Absent  bool // it would not be there
	Unknown bool // its content is not known any more: it would stay as it is, as residue
}

// ConeIn is what retracting a transaction would undo now, by a fold.
func ConeIn(f *sequencer.Fold, tx sequencer.TxID) *Cone {
	c := &Cone{Workspace: f.Workspace(), Tx: tx, Through: f.Seq()}
	members, err := f.Cone(tx)
	if err != nil {
		c.Code, c.Detail = coneRefusal(f, err), err.Error()
		return c
	}
	c.Total = uint32(len(members))
	if left, ok := f.UndoLeft(tx); ok {
		c.Undo = &left
	}
	c.Members = make([]ConeMember, len(members))
	depths := depthsOf(members)
	for i := range members {
		m := &members[i]
		one := ConeMember{Tx: m.Tx, Agent: m.Agent, Seq: m.Decision, Depth: depths[m.Tx], Why: m.Why, Of: m.Of, At: m.At,
			Settled: m.Settled, Effects: m.Effects, Writes: m.Writes}
		for _, s := range m.Restored {
			one.Restored = append(one.Restored, ShardRestored{Scope: s.Scope, Seq: s.Seq, Tx: s.Tx, Absent: s.Absent,
				Unknown: s.Unknown})
		}
		c.Members[i] = one
	}
	return c
}

// coneRefusal is what a retraction would be refused with. One that is retracted already is answered again.
func coneRefusal(f *sequencer.Fold, err error) sequencer.Code {
	switch {
	case errors.Is(err, sequencer.ErrRetracted):
		return ""
	case errors.Is(err, sequencer.ErrNotCommitted):
		return sequencer.CodeNotCommitted
	case f.State().Rules.Logic < retractingLogic:
		return sequencer.CodeUnknownIntent
	}
	return sequencer.CodeTooOld
}

// retractingLogic is the first logic of the fold that has retraction.
const retractingLogic = 2

// depthsOf counts each member's steps from the retracted transaction, which names no other.
func depthsOf(members []sequencer.ConeMember) map[sequencer.TxID]uint32 {
	of := make(map[sequencer.TxID]sequencer.TxID, len(members))
	for i := range members {
		of[members[i].Tx] = members[i].Of
	}
	depths := make(map[sequencer.TxID]uint32, len(members))
	for tx := range of {
		var way []sequencer.TxID
		at, known := tx, false
		for !known && of[at] != "" && len(way) < len(members) {
			way = append(way, at)
			at = of[at]
			_, known = depths[at]
		}
		for i := len(way) - 1; i >= 0; i-- {
			depths[way[i]] = depths[of[way[i]]] + 1
		}
	}
	return depths
}

const (
	coneMemberFields    = 11
	shardRestoredFields = 5
)

func walkCone(w *walker, c *Cone) {
	undo := w.decoding || c.Undo != nil
	outer := w.open(optional(7, undo), 7)
	text(w, &c.Workspace)
	text(w, &c.Tx)
	number(w, &c.Through)
	text(w, &c.Code)
	text(w, &c.Detail)
	list(w, &c.Members, 1+coneMemberFields, walkConeMember)
	number(w, &c.Total)
	if undo {
		pointer(w, &c.Undo, walkUndoLeft)
	}
	w.close(outer)
}

func walkUndoLeft(w *walker, u *sequencer.UndoLeft) {
	outer := w.open(6, 6)
	number(w, &u.Commits)
	number(w, &u.Bytes)
	number(w, &u.Ticks)
	number(w, &u.Span)
	number(w, &u.Made)
	number(w, &u.Kept)
	w.close(outer)
}

func walkConeMember(w *walker, m *ConeMember) {
	outer := w.open(coneMemberFields, coneMemberFields)
	text(w, &m.Tx)
	text(w, &m.Agent)
	number(w, &m.Seq)
	number(w, &m.Depth)
	text(w, &m.Why)
	text(w, &m.Of)
	text(w, &m.At)
	w.truth(&m.Settled)
	w.truth(&m.Effects)
	list(w, &m.Writes, wordBytes, text)
	list(w, &m.Restored, 1+shardRestoredFields, walkShardRestored)
	w.close(outer)
}

func walkShardRestored(w *walker, s *ShardRestored) {
	outer := w.open(shardRestoredFields, shardRestoredFields)
	text(w, &s.Scope)
	number(w, &s.Seq)
	text(w, &s.Tx)
	w.truth(&s.Absent)
	w.truth(&s.Unknown)
	w.close(outer)
}

// EncodeCone writes the answer to a dry run of a retraction.
func EncodeCone(v *Cone) ([]byte, error) { return replyCodec("cone", walkCone).encode(v) }

// DecodeCone reads it.
func DecodeCone(b []byte) (*Cone, error) { return replyCodec("cone", walkCone).decode(b) }
