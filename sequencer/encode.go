package sequencer

import (
	"crypto/sha256"
	"encoding/binary"
)

// encoder writes the canonical form that hashes are taken over: numbers as varints, texts and lists with their length
// in front, so that no two values share a form. It is not a wire format.
type encoder []byte

// maxScratch is the longest text whose room is kept for the next one.
const maxScratch = 64 << 10

// sum returns the hash of what was written and empties the encoder.
func (e *encoder) sum() Hash {
	h := Hash(sha256.Sum256(*e))
	if *e = (*e)[:0]; cap(*e) > maxScratch {
		*e = nil
	}
	return h
}

func (e *encoder) num(v uint64) { *e = binary.AppendUvarint(*e, v) }

func (e *encoder) flag(v bool) {
	if v {
		e.num(1)
		return
	}
	e.num(0)
}

func (e *encoder) str(s string) {
	e.num(uint64(len(s)))
	*e = append(*e, s...)
}

func (e *encoder) hash(h *Hash) { *e = append(*e, h[:]...) }

func list[S ~[]T, T any](e *encoder, s S, put func(*encoder, T)) {
	e.num(uint64(len(s)))
	for _, v := range s {
		put(e, v)
	}
}

func (e *encoder) writer(w Writer) {
	e.num(uint64(w.Seq))
	e.str(string(w.Tx))
	e.flag(w.Residue)
}

func putScope(e *encoder, s Scope) { e.str(string(s)) }

func putTx(e *encoder, id TxID) { e.str(string(id)) }

func putHold(e *encoder, h Hold) {
	e.str(string(h.Scope))
	e.num(uint64(h.Kind))
	e.num(uint64(h.Access))
}

func putWant(e *encoder, w Want) {
	e.str(string(w.Scope))
	e.num(uint64(w.Access))
}

func putBlocker(e *encoder, b Blocker) {
	e.str(string(b.Tx))
	e.str(string(b.Scope))
	e.str(b.Why)
}

func putWrite(e *encoder, w Write) {
	e.str(string(w.Scope))
	e.writer(w.Writer)
	e.writer(w.Former)
}

func putShard(e *encoder, w ShardWrite) {
	e.str(string(w.Scope))
	e.str(w.Type)
	e.str(string(w.Content))
	putRef(e, w.Ref)
	rest := uint64(0) // one number says which of the rest there is: a write without it is as it was before logic 2
	for bit, there := range []bool{w.Expect != nil, w.Former != nil, w.Absent, w.Restored != 0,
		w.Former != nil && w.Former.Restored != 0, w.Op != OpSet, w.Removes != 0, w.Ref != nil && w.Ref.Chunks != 0} {
		if there {
			rest |= 1 << bit
		}
	}
	e.num(rest)
	if x := w.Expect; x != nil {
		e.num(uint64(x.Version))
		e.num(uint64(x.View))
	}
	if x := w.Former; x != nil {
		e.num(uint64(x.Version))
		e.num(uint64(x.View))
		e.str(x.Type)
		e.str(string(x.Content))
		putRef(e, x.Ref)
		if x.Restored != 0 {
			e.num(uint64(x.Restored))
		}
	}
	if w.Restored != 0 {
		e.num(uint64(w.Restored))
	}
	if w.Op != OpSet {
		e.num(uint64(w.Op))
	}
	if w.Removes != 0 {
		e.num(uint64(w.Removes))
	}
	if r := w.Ref; r != nil && r.Chunks != 0 {
		e.num(uint64(r.Chunks))
		e.num(uint64(r.Last))
	}
}

func putRef(e *encoder, r *Ref) {
	e.flag(r != nil)
	if r != nil {
		e.num(uint64(r.Partition))
		e.num(uint64(r.Offset))
		e.num(uint64(r.Size))
		e.hash(&r.SHA256)
	}
}

func (e *encoder) place(p *Place) {
	e.flag(p != nil)
	if p != nil {
		e.num(uint64(p.Partition))
		e.num(uint64(p.Offset))
	}
}

func (e *encoder) rules(r *Rules) {
	for _, v := range []uint64{uint64(r.Version), uint64(r.Logic), uint64(r.Levels), uint64(r.HorizonSeqs),
		uint64(r.CapSeqs), uint64(r.LeaseTicks), uint64(r.DeadlineTicks), uint64(r.BoundTicks), uint64(r.VerdictTicks),
		uint64(r.MaxOpen), uint64(r.MaxScopes), uint64(r.MaxBytes), uint64(r.MaxInline), uint64(r.MaxContent),
		uint64(r.MaxInlineTotal), uint64(r.MaxKept)} {
		e.num(v)
	}
	e.flag(r.Observe)
	if r.Logic >= 3 {
		e.num(uint64(r.MaxSidecars))
		e.num(uint64(r.HorizonCommits))
		e.num(uint64(r.HorizonTicks))
	}
	if r.Logic >= 4 {
		e.num(uint64(r.ApprovalTicks))
	}
}

func (e *encoder) seal(s *Seal) {
	list(e, s.Reads, func(e *encoder, r Read) {
		e.str(string(r.Scope))
		e.num(uint64(r.View))
		e.num(uint64(r.Version))
		e.str(string(r.Writer))
	})
	list(e, s.Effects, func(e *encoder, x Effect) {
		e.num(uint64(x.Index))
		list(e, x.Scopes, putScope)
		e.num(uint64(x.Class))
		e.str(x.Tool)
		e.str(x.Key)
		rest := uint64(0) // before logic 4 it is known or not
		named := x.Args != Hash{}
		for bit, there := range []bool{x.Known, x.Absent, x.Approve, named} {
			if there {
				rest |= 1 << bit
			}
		}
		e.num(rest)
		if named {
			e.hash(&x.Args)
		}
	})
	list(e, s.Touches, func(e *encoder, r TouchReport) {
		e.num(uint64(r.N))
		e.flag(r.Known)
	})
	list(e, s.Shards, putShard)
	list(e, s.Pins, func(e *encoder, p Pin) {
		e.str(p.Server)
		e.str(p.Name)
		e.str(p.Signature)
	})
	list(e, s.ReadFrom, putTx)
	e.flag(s.Hook)
	e.num(uint64(s.VerdictTicks))
	e.place(s.At)
}

// Footprint returns the hash that names a sealed footprint: what verdicts are on.
func (s *Seal) Footprint() Hash {
	e := make(encoder, 0, s.bytes()+s.inline())
	return s.hash(&e)
}

// hash is Footprint, written into an encoder that is empty.
func (s *Seal) hash(e *encoder) Hash {
	e.seal(s)
	return e.sum()
}

// ChainAfter returns the chain hash of the outcome when the one before it was prev. Chain and StateHash do not count.
func (o *Outcome) ChainAfter(prev Hash) Hash {
	e := make(encoder, 0, 512)
	return o.chainAfter(&prev, &e)
}

// chainAfter is ChainAfter, written into an encoder that is empty.
func (o *Outcome) chainAfter(prev *Hash, e *encoder) Hash {
	e.hash(prev)
	e.str(o.Workspace)
	for _, v := range []uint64{uint64(o.Seq), uint64(o.Offset), uint64(o.RulesVersion), uint64(o.Time), uint64(o.Floor),
		uint64(o.Kind), uint64(o.Incarnation), uint64(o.Mode), uint64(o.Epoch)} {
		e.num(v)
	}
	for _, s := range []string{o.Intent, string(o.Tx), o.Agent, string(o.Code), o.Detail, string(o.Scope),
		string(o.Would), o.Group, string(o.Winner), o.Server} {
		e.str(s)
	}
	e.writer(o.Moved)
	e.flag(o.Retryable)
	e.flag(o.Final)
	list(e, o.BlockedBy, putBlocker)
	list(e, o.Added, putHold)
	list(e, o.Ended, putHold)
	list(e, o.May, putWant)
	list(e, o.Writes, putWrite)
	list(e, o.Shards, putShard)
	list(e, o.RestsOn, putTx)
	list(e, o.Residue, putTx)
	e.hash(&o.Footprint)
	e.hash(&o.Catalogue)
	e.place(o.At)
	e.flag(o.Rules != nil)
	if o.Rules != nil {
		e.rules(o.Rules)
	}
	if o.Retraction != "" { // not written where there is none: as before logic 2
		e.str(string(o.Retraction))
		list(e, o.Cone, putTx)
	}
	approved, signed := len(o.Approvals) > 0, o.Signer != ""
	if o.By != "" || o.Tool != "" || o.MovedAgent != "" || approved || signed {
		e.num(0) // as before logic 3; a retraction has a name, so it is not 0
		e.str(o.By)
		e.str(o.Tool)
		e.str(o.MovedAgent)
	}
	if approved || signed { // as before logic 4
		list(e, o.Approvals, putApproval)
	}
	if signed { // as before logic 5; behind a list of approvals, even of none, it is not taken for one
		e.str(o.Signer)
	}
	return e.sum()
}
