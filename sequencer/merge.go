package sequencer

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Writes that merge, since logic 4. Such a write says how the content changes and not what it is, so two of one kind
// at one shard go in either order: neither refuses the other, nor waits for it. The fold keeps no merged value. A
// decision carries the delta, its seq is the version, and who shows the shard works its content out with Writes.

// Op says how a shard write changes the content.
type Op uint8

// The ops.
const (
	OpSet    Op = iota // what the write says is the content
	OpAppend           // its bytes come behind those that are there
	OpAdd              // its number is added to the one that is there; both are an int64 in decimal digits
	OpUnion            // its lines join the set of lines that is there
	numOps
)

// String returns the op's name as decisions carry it.
func (o Op) String() string { return nameOf(o, "set", "append", "add", "union") }

func (o Op) valid() bool { return o < numOps }

// merging: the workspace's logic has writes that merge.
func (f *Fold) merging() bool { return f.rules.Logic >= 4 }

// badDelta says what is wrong with a delta; empty: nothing, or the write is none.
func (w *ShardWrite) badDelta() string {
	switch {
	case w.Op == OpSet:
		return ""
	case w.Expect != nil:
		// Who expects a version has seen the content: that is a reader, and must not go in any order.
		return "a write that merges expects no version"
	case w.Op == OpAdd && w.Ref != nil:
		return "a number is written inline"
	case w.Op == OpAdd:
		if _, err := numberIn(w.Content); err != nil {
			// No follower could add it, and the commit would have changed nothing.
			return "what is added is no int64 in decimal digits"
		}
	}
	return ""
}

// deltas are the ops of a transaction by shard: those of its seal while it has one, else those that it committed.
func (t *tx) deltas() map[Scope]Op {
	if t.opsKnown {
		return t.ops
	}
	t.ops, t.opsKnown = nil, true
	add := func(s Scope, o Op) {
		if o == OpSet {
			return
		}
		if t.ops == nil {
			t.ops = map[Scope]Op{}
		}
		t.ops[s] = o
	}
	switch {
	case t.Seal != nil:
		for i := range t.Seal.Shards {
			add(t.Seal.Shards[i].Scope, t.Seal.Shards[i].Op)
		}
	case t.Past != nil:
		for i := range t.Past.Writes {
			add(t.Past.Writes[i].Scope, t.Past.Writes[i].Op)
		}
	}
	return t.ops
}

// delta is the op of a transaction at exactly this shard.
func (t *tx) delta(s Scope) Op { return t.deltas()[s] }

// bindsAsDelta: what binds a scope to the transaction is its delta there and nothing else: a claim of its seal, or,
// while a retraction takes it back, what it committed.
func (t *tx) bindsAsDelta(h Hold) bool {
	if t.delta(h.Scope) == OpSet {
		return false
	}
	if t.undecided() {
		return t.Phase == PhaseSealed && h.Kind == Claimed
	}
	return h.Kind == Granted && !t.granted(h.Scope)
}

// granted: a touch gave it the scope itself for writing.
func (t *tx) granted(s Scope) bool {
	return slices.ContainsFunc(t.Grants, func(g Hold) bool { return g.Scope == s && g.Access == WriteAccess })
}

// merges: what a sealed transaction writes at a scope and what the hold in its way stands for are deltas of one kind
// at one shard.
func (f *Fold) merges(t *tx, s Scope, b *bound) bool {
	op := t.delta(s)
	return op != OpSet && b.Scope == s && b.t.delta(s) == op && b.t.bindsAsDelta(b.Hold)
}

// mergesUnder: all that a transaction has at a scope of a cone is a delta of the kind that the member wrote there.
func (f *Fold) mergesUnder(t *tx, s Scope, m *tx, at Scope) bool {
	return s == at && t.Phase == PhaseSealed && t.delta(s) != OpSet && t.delta(s) == m.delta(s) && !t.granted(s)
}

// bothDeltas: an earlier and a later write of one shard that merge. The later one has not read the earlier one, and
// stands without it.
func bothDeltas(t *tx, s Scope, m *tx, at Scope) bool {
	return s == at && t.delta(s) != OpSet && m.delta(s) != OpSet
}

// takenBack reports whether the write of a transaction does not stand, or will not once the running retraction is
// done.
func (f *Fold) takenBack(id TxID) bool {
	t := f.txs[id]
	return t != nil && t.Retraction != ""
}

// takeOut is the write of a turn's outcome that takes a member's delta out of a shard, and notes what stands there
// then.
func (f *Fold) takeOut(m *tx, w *PastWrite, seq Seq) ShardWrite {
	if v := f.contentUnder(w.Scope, f.takenBack); !v.Unknown {
		v.Seq = seq
		f.shards.put(v)
	}
	return ShardWrite{Scope: w.Scope, Op: w.Op, Removes: m.Decision}
}

// WholeEvery is after how many deltas Writes keeps the whole content again.
const WholeEvery = 64

// ErrNoContent is returned by Writes.Value when the content that the deltas rest on is not there: Writes.Missing says
// which decision carries it.
var ErrNoContent = errors.New("sequencer: the content under the deltas is not here")

// Writes is what is known of one shard: its last contents and the deltas on them. It is fed with the shard's writes in
// the order of their seqs, and its value is a pure function of them; so all who were given the same show the same.
type Writes struct {
	Seq  Seq        // of the decision that was applied last
	List []Standing // by Seq; what was taken back is not in it
}

// Standing is one content or delta that stands.
type Standing struct {
	Seq     Seq // of the decision that wrote it
	Op      Op
	Type    string
	Content []byte
	Ref     *Ref
	Absent  bool // from here on there is no shard
	Missing bool // only Seq is known of it: the log, or a table, has the content as of there

	// Whole is, of every WholeEvery-th delta, what all up to it come to; nil: it was not worked out.
	Whole *Value
}

// Value is what a shard holds.
type Value struct {
	Type    string
	Content []byte
	Ref     *Ref // instead of Content: what was written by reference and has no delta on it
	Absent  bool
}

// Apply takes the next write of the shard over, of the decision at a seq. One that was applied before changes nothing.
func (x *Writes) Apply(seq Seq, w *ShardWrite) {
	if seq <= x.Seq {
		// Two processors publish one decision: applied twice a delta would count twice.
		return
	}
	x.Seq = seq
	switch {
	case w.Removes != 0:
		x.remove(w.Removes)
	case w.Restored != 0:
		x.backTo(w.Restored)
	case w.Op == OpSet || w.Absent:
		x.List = append(x.List, Standing{Seq: seq, Type: w.Type, Content: w.Content, Ref: w.Ref, Absent: w.Absent})
	default:
		x.List = append(x.List, Standing{Seq: seq, Op: w.Op, Type: w.Type, Content: w.Content, Ref: w.Ref})
		x.keepWhole()
	}
}

// keepWhole stores the whole with the last delta, when enough of them came since the last whole.
func (x *Writes) keepWhole() {
	last := len(x.List) - 1
	if last+1 < WholeEvery {
		return
	}
	for i := last; i > last-WholeEvery; i-- {
		if x.List[i].Op == OpSet || x.List[i].Whole != nil {
			return
		}
	}
	if v, err := x.Value(nil); err == nil {
		x.List[last].Whole = &v
	}
}

// remove takes one delta out. What was worked out with it is not known any more.
func (x *Writes) remove(seq Seq) {
	at := slices.IndexFunc(x.List, func(s Standing) bool { return s.Seq == seq })
	if at < 0 {
		return // what it stood on was taken back before
	}
	x.List = slices.Delete(slices.Clone(x.List), at, at+1)
	for i := at; i < len(x.List) && x.List[i].Op != OpSet; i++ {
		x.List[i].Whole = nil
	}
}

// backTo makes the content that of an earlier version, without what was taken back since.
func (x *Writes) backTo(version Seq) {
	at := slices.IndexFunc(x.List, func(s Standing) bool { return s.Seq > version })
	switch {
	case at > 0:
		x.List = x.List[:at:at]
	case at == 0 || len(x.List) == 0:
		x.List = []Standing{{Seq: version, Missing: true}}
	}
}

// Missing is the decision whose content the value rests on and that is not here; zero: all of it is.
func (x *Writes) Missing() Seq {
	if s := x.from(); s < len(x.List) && x.List[s].Missing {
		return x.List[s].Seq
	}
	return 0
}

// from is where the value begins: the last content, or the last delta that has the whole.
func (x *Writes) from() int {
	for i := len(x.List) - 1; i > 0; i-- {
		if x.List[i].Op == OpSet || x.List[i].Whole != nil {
			return i
		}
	}
	return 0
}

// Value is what the writes come to, one after the other. A delta that does not go with what it meets is left out: one
// to be added where there is no number, or where the sum would leave int64. Content by reference is asked for; without
// load, or where that fails, there is no value.
func (x *Writes) Value(load func(*Ref) ([]byte, error)) (Value, error) {
	v := Value{Absent: true}
	for i := x.from(); i < len(x.List); i++ {
		s := &x.List[i]
		switch {
		case s.Missing:
			return Value{}, fmt.Errorf("%w: of %d", ErrNoContent, s.Seq)
		case s.Whole != nil:
			v = *s.Whole
		case s.Op == OpSet:
			v = Value{Type: s.Type, Content: s.Content, Ref: s.Ref, Absent: s.Absent}
		default:
			base, err := loaded(v.Content, v.Ref, load)
			if err != nil {
				return Value{}, err
			}
			delta, err := loaded(s.Content, s.Ref, load)
			if err != nil {
				return Value{}, err
			}
			v = Value{Type: v.Type, Content: s.Op.merged(base, delta)}
		}
		if v.Type == "" {
			v.Type = s.Type
		}
	}
	return v, nil
}

func loaded(content []byte, ref *Ref, load func(*Ref) ([]byte, error)) ([]byte, error) {
	if ref == nil {
		return content, nil
	}
	if load == nil {
		return nil, fmt.Errorf("%w: it is kept by reference", ErrNoContent)
	}
	return load(ref)
}

// merged is what a delta makes of a content.
func (o Op) merged(base, delta []byte) []byte {
	switch o {
	case OpAppend:
		return slices.Concat(base, delta)
	case OpAdd:
		if sum, ok := added(base, delta); ok {
			return strconv.AppendInt(nil, sum, 10)
		}
	case OpUnion:
		return union(base, delta)
	}
	return base
}

// Overflows reports whether a number can not be added to a content: that is no int64, or the sum would not be one. Who
// knows the content refuses such a write before it is sealed; where two meet that were let through, the later one by
// seq is left out by all alike.
func Overflows(content, delta []byte) bool {
	_, ok := added(content, delta)
	return !ok
}

func added(base, delta []byte) (sum int64, ok bool) {
	b, err := numberIn(base)
	if len(base) == 0 {
		b, err = 0, nil
	}
	d, bad := numberIn(delta)
	if sum = b + d; err != nil || bad != nil || (sum > b) != (d > 0) {
		return 0, false
	}
	return sum, true
}

func numberIn(content []byte) (int64, error) { return strconv.ParseInt(string(content), 10, 64) }

// union is a set of lines as text: sorted, each once and with its end.
func union(sets ...[]byte) []byte {
	var lines []string
	for _, set := range sets {
		for line := range strings.SplitSeq(string(set), "\n") {
			if line != "" {
				lines = append(lines, line)
			}
		}
	}
	slices.Sort(lines)
	var out []byte
	for _, line := range slices.Compact(lines) {
		out = append(append(out, line...), '\n')
	}
	return out
}

// Forget makes one content of all that no retraction can take out any more: the writes up to a seq. It does nothing
// where a content is not here.
func (x *Writes) Forget(keep Seq, load func(*Ref) ([]byte, error)) error {
	n := 0
	for n < len(x.List) && x.List[n].Seq <= keep {
		n++
	}
	if n < 2 && (n == 0 || x.List[0].Op == OpSet) {
		return nil
	}
	below := Writes{List: x.List[:n]}
	v, err := below.Value(load)
	if err != nil {
		return err
	}
	base := Standing{Seq: x.List[n-1].Seq, Type: v.Type, Content: v.Content, Ref: v.Ref, Absent: v.Absent}
	x.List = append([]Standing{base}, x.List[n:]...)
	return nil
}
