package sequencer

import (
	"cmp"
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
	case w.Ref != nil && w.Ref.Chunks != 0:
		// It is longer than any merged content, so all who show the shard would leave it out.
		return "a delta is no chain of events"
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

// MaxMerged is how many bytes a content has at most that deltas make. One that would make it longer is left out, as an
// overflow is: tables keep such contents in their rows, which have a bound.
const MaxMerged = 256 << 10

// MostRemovable is more than the commits that any rules let a workspace take back: each keeps at least 280 bytes of
// the at most 800 KiB of MaxKept. So a delta that has so many behind it is never taken out.
const MostRemovable = 3 << 10

// ErrNoContent is returned by Writes.Value when the content that the deltas rest on is not there: Writes.Missing says
// which decision carries it.
var ErrNoContent = errors.New("sequencer: the content under the deltas is not here")

// Writes is what is known of one shard: its last contents and the deltas on them. It is fed with the shard's writes in
// the order of their seqs, and its value is a pure function of them; so all who were given the same show the same. It
// is not copied once it was fed: two would write into one content.
type Writes struct {
	Seq  Seq        // of the decision that was applied last
	List []Standing // by Seq; what was taken back is not in it

	tip    Value // of the first tipLen entries, the last of them at tipSeq; tipLen zero: not worked out
	tipLen int
	tipSeq Seq
	own    bool // what lies behind tip.Content in its array is not shown to anybody
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
	Folded  bool // the first one: there are deltas in its content, up to Seq

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
	if x.take(seq, w) {
		x.keepWhole()
	}
}

// Late takes a write over that may be there already, and that others behind it may have come before: a table that
// missed a decision is given it again, with all behind it. In the end it has what Apply makes of their order.
func (x *Writes) Late(seq Seq, w *ShardWrite) {
	x.Seq = max(x.Seq, seq)
	x.take(seq, w)
}

// take takes a write over and reports whether it is a delta behind all others.
func (x *Writes) take(seq Seq, w *ShardWrite) (last bool) {
	switch {
	case w.Removes != 0:
		x.remove(w.Removes)
	case w.Restored != 0:
		x.backTo(w.Restored, seq)
	case w.Op == OpSet || w.Absent:
		x.insert(Standing{Seq: seq, Type: w.Type, Content: w.Content, Ref: w.Ref, Absent: w.Absent})
	default:
		return x.insert(Standing{Seq: seq, Op: w.Op, Type: w.Type, Content: w.Content, Ref: w.Ref})
	}
	return false
}

// insert adds what is not there, and reports whether that is the last one now.
func (x *Writes) insert(s Standing) (last bool) {
	n := len(x.List)
	if n == 0 || x.List[n-1].Seq < s.Seq {
		x.List = append(x.List, s)
		return true
	}
	at, there := slices.BinarySearchFunc(x.List, s.Seq, bySeq)
	if there && x.List[at].Missing && (at > 0 || s.Op == OpSet) { // with what it stands on, it is what was missing
		x.List = slices.Clone(x.List)
		x.List[at] = s
		x.unsure(at)
		return false
	}
	if there || at == 0 && x.List[0].Folded {
		return false // it is there, or in what the first one folds
	}
	if at == 0 && s.Op != OpSet && x.List[0].Op == OpSet {
		// What it came upon was known before the content behind it, and is not any more.
		s = Standing{Seq: s.Seq, Missing: true}
	}
	x.List = slices.Insert(slices.Clone(x.List), at, s)
	x.unsure(at)
	return false
}

func bySeq(s Standing, seq Seq) int { return cmp.Compare(s.Seq, seq) }

// unsure drops what was worked out of the entries from one on.
func (x *Writes) unsure(at int) {
	x.tipLen = 0
	for i := at; i < len(x.List); i++ {
		x.List[i].Whole = nil
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
	at, there := slices.BinarySearchFunc(x.List, seq, bySeq)
	switch {
	case there && x.List[at].Op != OpSet:
		x.List = slices.Delete(slices.Clone(x.List), at, at+1)
		x.unsure(at)
	case len(x.List) > 0 && seq <= x.List[0].Seq && x.List[0].Folded:
		// It is in the content, and cannot be told from the others: only the log has them one by one.
		x.List = slices.Clone(x.List)
		x.List[0] = Standing{Seq: x.List[0].Seq, Missing: true, Folded: true}
		x.unsure(0)
	}
	// Else what it stood on was taken back before.
}

// backTo makes the content, as of a decision that restores it, that of an earlier version, without what was taken
// back since.
func (x *Writes) backTo(version, seq Seq) {
	from, there := slices.BinarySearchFunc(x.List, version, bySeq)
	if there {
		from++
	}
	to, _ := slices.BinarySearchFunc(x.List, seq, bySeq)
	if from > 0 && from == to {
		return
	}
	x.List = slices.Delete(slices.Clone(x.List), from, max(from, to))
	if from == 0 {
		x.List = slices.Insert(x.List, 0, Standing{Seq: version, Missing: true})
	}
	x.unsure(from)
}

// Last is the decision that the value is as of: of the last content or delta that stands; zero: none does.
func (x *Writes) Last() Seq {
	if len(x.List) == 0 {
		return 0
	}
	return x.List[len(x.List)-1].Seq
}

// Merges reports whether deltas stand, or may have to be taken out of what stands. Else the last content is all there
// is to know.
func (x *Writes) Merges() bool {
	return len(x.List) > 0 && x.List[0].Folded ||
		slices.ContainsFunc(x.List, func(s Standing) bool { return s.Op != OpSet })
}

// Missing is the decision whose content the value rests on and that is not here; zero: all of it is.
func (x *Writes) Missing() Seq {
	if s := x.from(); s < len(x.List) && x.List[s].Missing {
		return x.List[s].Seq
	}
	return 0
}

// Have takes the content of a reference over.
func (x *Writes) Have(ref *Ref, content []byte) {
	for i := range x.List {
		if s := &x.List[i]; s.Ref != nil && *s.Ref == *ref {
			s.Content, s.Ref = content, nil
			x.tipLen = 0 // what was worked out may name the reference
		}
	}
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
// to be added where there is no number, or where the sum would leave int64, and one that makes the content longer than
// MaxMerged. Content by reference is asked for; without load, or where that fails, there is no value.
func (x *Writes) Value(load func(*Ref) ([]byte, error)) (Value, error) {
	n := len(x.List)
	if n == 0 {
		return Value{Absent: true}, nil
	}
	f, i := folding{load: load, Value: Value{Absent: true}}, x.from()
	if x.tipLen > i && x.tipLen <= n && x.List[x.tipLen-1].Seq == x.tipSeq {
		f.Value, f.own, i = x.tip, x.own, x.tipLen
	}
	for ; i < n; i++ {
		if err := f.add(&x.List[i]); err != nil {
			return Value{}, err
		}
	}
	f.sort()
	x.tip, x.own, x.tipLen, x.tipSeq = f.Value, f.own, n, x.List[n-1].Seq
	f.Content = slices.Clip(f.Content)
	return f.Value, nil
}

// folding is a value on the way through its writes.
type folding struct {
	Value
	load  func(*Ref) ([]byte, error)
	own   bool            // the array of Content was made here, and nothing behind Content is shown
	lines map[string]bool // set: the content is these lines
	size  int             // of them, with their ends
}

func (f *folding) add(s *Standing) error {
	switch {
	case s.Missing:
		return fmt.Errorf("%w: of %d", ErrNoContent, s.Seq)
	case s.Whole != nil:
		f.Value, f.own, f.lines = *s.Whole, false, nil
	case s.Op == OpSet:
		f.Value, f.own, f.lines = Value{Type: s.Type, Content: s.Content, Ref: s.Ref, Absent: s.Absent}, false, nil
	case f.Ref != nil && f.Ref.Size > MaxMerged || s.Ref != nil && s.Ref.Size > MaxMerged:
		// Nothing goes with it, so nothing is fetched.
	default:
		base, err := loaded(f.Content, f.Ref, f.load)
		if err != nil {
			return err
		}
		delta, err := loaded(s.Content, s.Ref, f.load)
		if err != nil {
			return err
		}
		f.Content, f.Ref, f.Absent = base, nil, false
		f.merge(s.Op, delta)
	}
	if f.Type == "" {
		f.Type = s.Type
	}
	return nil
}

func (f *folding) merge(op Op, delta []byte) {
	if op != OpUnion {
		f.sort()
	}
	switch op {
	case OpAppend:
		switch {
		case len(f.Content)+len(delta) > MaxMerged: // left out
		case f.own:
			f.Content = append(f.Content, delta...)
		default:
			f.Content, f.own = append(append(make([]byte, 0, 2*len(f.Content)+len(delta)), f.Content...), delta...), true
		}
	case OpAdd:
		if sum, ok := added(f.Content, delta); ok {
			f.Content, f.own = strconv.AppendInt(nil, sum, 10), false
		}
	case OpUnion:
		f.join(delta)
	}
}

// join adds lines to the set.
func (f *folding) join(delta []byte) {
	lines, size := f.lines, f.size
	if lines == nil {
		lines = map[string]bool{}
		size = 0
		eachLine(f.Content, func(line string) {
			if !lines[line] {
				lines[line], size = true, size+len(line)+1
			}
		})
	}
	var more []string
	eachLine(delta, func(line string) {
		if !lines[line] {
			lines[line], more, size = true, append(more, line), size+len(line)+1
		}
	})
	if size <= MaxMerged {
		f.lines, f.size = lines, size
		return
	}
	for _, line := range more { // left out
		delete(lines, line)
	}
}

// sort brings the lines of a set into their one order.
func (f *folding) sort() {
	if f.lines == nil {
		return
	}
	lines := make([]string, 0, len(f.lines))
	for line := range f.lines {
		lines = append(lines, line)
	}
	slices.Sort(lines)
	out := make([]byte, 0, f.size)
	for _, line := range lines {
		out = append(append(out, line...), '\n')
	}
	f.Content, f.own, f.lines = out, false, nil
}

func eachLine(text []byte, do func(line string)) {
	for line := range strings.SplitSeq(string(text), "\n") {
		if line != "" {
			do(line)
		}
	}
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

// Merge is what a delta makes of a content; not ok: it does not go with it, and is left out. What is absent is empty.
func (o Op) Merge(base, delta []byte) (out []byte, ok bool) {
	if o == OpAdd && Overflows(base, delta) {
		return base, false
	}
	f := folding{Value: Value{Content: base}}
	f.merge(o, delta)
	grew := f.lines != nil || f.own || o == OpAdd
	f.sort()
	return f.Content, grew
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
	top := n - 1 // of what is folded, the last content and what is on it is in the new one
	for top > 0 && x.List[top].Op != OpSet {
		top--
	}
	folded := top < n-1 || x.List[top].Op != OpSet || x.List[top].Folded
	v, err := below.Value(load)
	if err != nil {
		return err
	}
	known := x.tipLen >= n
	base := Standing{Seq: x.List[n-1].Seq, Type: v.Type, Content: v.Content, Ref: v.Ref, Absent: v.Absent, Folded: folded}
	x.List = append([]Standing{base}, x.List[n:]...)
	if x.tipLen -= n - 1; !known {
		x.tipLen = 0
	}
	return nil
}

// keptContents is how many contents of a shard, one over the other, Bound keeps what is under them of: more than
// retractions put back one after the other in all but strange work.
const keptContents = 8

// Bound forgets what is too much to keep: what lies under the last contents, of more entries than so many what is
// older than MostRemovable, and of more bytes the older half. What is in the first entry only the log says one by one
// then. Where a content cannot be loaded nothing is folded.
func (x *Writes) Bound(entries, size int, load func(*Ref) ([]byte, error)) error {
	contents, bytes := 0, 0
	for i := len(x.List) - 1; i > 0; i-- {
		if x.List[i].Op == OpSet {
			contents++
		}
		if contents == keptContents {
			x.List = slices.Clone(x.List[i:])
			x.tipLen = 0
			break
		}
		bytes += len(x.List[i].Content)
	}
	if len(x.List) <= entries && bytes <= size {
		return nil
	}
	n := max(0, len(x.List)-MostRemovable)
	for i := max(n, 1); i < len(x.List) && bytes > size/2; i++ { // the rows of tables have a bound, whatever is in them
		bytes -= len(x.List[i].Content)
		n = i
	}
	return x.Forget(x.List[n].Seq, load)
}
