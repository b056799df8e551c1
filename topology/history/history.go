// Package history makes a history of operations, as detectors of anomalies read it, from the records of a workspace:
// what each transaction read, at which seq, and what it wrote, at which. It is pure: records go in, operations come
// out. docs/export.md has the table of what becomes of what.
//
// Two passes give the whole of it: Scan is shown all decisions and intents first, and then knows which transactions
// are taken back later, and which scopes are read as a whole. Without it (a live reader) these are known from when
// they are seen on.
package history

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
	"github.com/hence-dev/hence/topology/trace"
)

// What stands behind the transaction in the names of operations that are not the transaction itself.
const (
	Settled   = "#settled"   // what its settlement moved
	Retracted = "#retracted" // what its compensation in a retraction put back
)

// maxDecided is how many decided transactions are remembered, so that late copies of their seals are not kept.
const maxDecided = 1 << 16

// ownTool is what a seal calls what an agent did by itself under a touch: no sink was called.
const ownTool = "touch"

// Builder makes operations out of one workspace's records. It holds the scopes that were named, with the values that a
// read may still be of; the seals that are not decided; the registry; what is taken back; and, of tool calls, in which
// order they were answered, until the transaction is exported.
type Builder struct {
	scopes *node
	places int
	cut    bool // what stood before the first decision is not known

	open     map[sequencer.TxID]*open
	decided  map[sequencer.TxID]bool
	order    []sequencer.TxID // of decided: the oldest first
	registry map[sequencer.Seq]map[string][]sequencer.Tool
	pending  map[int64]*sequencer.Intent // registers that no decision has answered, by offset
	undone   map[sequencer.TxID]bool
	wrote    map[sequencer.TxID]*sequencer.Outcome // of undone ones: their commits
	tombs    []sequencer.Write                     // what took shards away, with its seq as the writer's
	answers  map[sequencer.TxID][]answer
	unread   int
}

// open is a transaction that is not decided.
type open struct {
	seals   []*sequencer.Intent // that it was sealed with, each try
	granted []sequencer.Scope   // for writing
}

// answer says that a call was answered, in the place that its sidecar gave the event.
type answer struct {
	incarnation sequencer.Seq
	event       uint64
	index       uint32
}

// New returns a builder. After is the seq of the last decision before those that come, 0 for a whole log.
func New(after sequencer.Seq) *Builder {
	return &Builder{scopes: &node{}, cut: after > 0, open: map[sequencer.TxID]*open{},
		decided: map[sequencer.TxID]bool{}, registry: map[sequencer.Seq]map[string][]sequencer.Tool{},
		pending: map[int64]*sequencer.Intent{}, undone: map[sequencer.TxID]bool{},
		wrote:   map[sequencer.TxID]*sequencer.Outcome{},
		answers: map[sequencer.TxID][]answer{}}
}

// ScanIntent is shown an intent before the first decision is given: which scopes are read.
func (b *Builder) ScanIntent(in *sequencer.Intent) {
	if in == nil || in.Seal == nil {
		return
	}
	for _, r := range in.Seal.Reads {
		b.noteRead(r.Scope)
	}
}

// ScanDecision is the same with a decision: what is written, and which transactions are taken back.
func (b *Builder) ScanDecision(o *sequencer.Outcome) {
	if o.Kind == sequencer.OutcomeSettled && o.Retraction != "" {
		b.undone[o.Tx] = true
	}
	for _, w := range o.Writes {
		b.noteWrite(w.Scope, slices.ContainsFunc(o.Shards, func(s sequencer.ShardWrite) bool {
			return s.Scope == w.Scope && (s.Op != sequencer.OpSet || s.Removes != 0)
		}))
	}
}

// Event takes an event of hence.events: it has in which order calls were answered. Without events that order is not
// known.
func (b *Builder) Event(ev *topology.Event) {
	if ev.Kind != topology.EventAnswer || ev.Effect == nil {
		return
	}
	if _, byHand := ev.Effect.Hand(); byHand { // a try of what was settled
		return
	}
	b.answers[ev.Tx] = append(b.answers[ev.Tx], answer{ev.Incarnation, ev.Index, ev.Effect.Index})
}

// Intent takes the intent of an offset. Each comes before the decisions that follow from it.
func (b *Builder) Intent(offset int64, in *sequencer.Intent) {
	switch {
	case in == nil:
	case in.Register != nil:
		b.pending[offset] = in
	case in.Seal != nil && !b.decided[in.Tx]:
		t := b.tx(in.Tx)
		t.seals = append(t.seals, in)
		for _, r := range in.Seal.Reads {
			b.noteRead(r.Scope)
		}
	}
}

func (b *Builder) tx(id sequencer.TxID) *open {
	t := b.open[id]
	if t == nil {
		t = &open{}
		b.open[id] = t
	}
	return t
}

// Unread is how many committed operations came out without what they read, called and planned: no intent with their
// footprint was given.
func (b *Builder) Unread() int { return b.unread }

// Decision takes the next decision and returns the operations that end with it: none, or one.
func (b *Builder) Decision(o *sequencer.Outcome) (out []trace.Record) {
	switch o.Kind {
	case sequencer.OutcomeRegistered, sequencer.OutcomeUnregistered:
		b.registered(o)
	case sequencer.OutcomeLeaseEnded:
		delete(b.registry, o.Incarnation)
	case sequencer.OutcomeCommitted:
		out = append(out, b.committed(o))
	case sequencer.OutcomeAborted:
		out = append(out, b.aborted(o))
	case sequencer.OutcomeSettled:
		if len(o.Writes) > 0 {
			out = append(out, b.settled(o))
		}
	}
	for _, h := range o.Added {
		if h.Kind == sequencer.Granted && h.Access == sequencer.WriteAccess && !b.decided[o.Tx] {
			t := b.tx(o.Tx)
			t.granted = append(t.granted, h.Scope)
		}
	}
	return out
}

// registered takes a catalogue over when it is in force.
func (b *Builder) registered(o *sequencer.Outcome) {
	in := b.pending[o.Offset]
	for offset := range b.pending { // those before were copies, or refused
		if offset <= o.Offset {
			delete(b.pending, offset)
		}
	}
	servers := b.registry[o.Incarnation]
	if servers == nil {
		servers = map[string][]sequencer.Tool{}
		b.registry[o.Incarnation] = servers
	}
	delete(servers, o.Server)
	if o.Kind == sequencer.OutcomeRegistered && in != nil {
		servers[o.Server] = in.Register.Tools
	}
}

// seal is the intent with the footprint that was decided, as far as there was one, of a transaction that is no longer
// open. Of several the hash says which; the intent that a decision names may be a later one that was refused. Where
// none has the hash (a logic before 4 leaves fields out of it) it is the last.
func (b *Builder) seal(o *sequencer.Outcome) (in *sequencer.Intent, granted []sequencer.Scope) {
	if t := b.open[o.Tx]; t != nil {
		granted = t.granted
		for _, one := range t.seals {
			if in == nil || in.Seal.Footprint() != o.Footprint {
				in = one
			}
		}
	}
	delete(b.open, o.Tx)
	if !b.decided[o.Tx] {
		b.decided[o.Tx] = true
		b.order = append(b.order, o.Tx)
	}
	if len(b.order) > maxDecided {
		delete(b.decided, b.order[0])
		b.order = b.order[1:]
	}
	return in, granted
}

func (b *Builder) committed(o *sequencer.Outcome) trace.Record {
	in, _ := b.seal(o)
	r := trace.Record{Txn: trace.ID(o.Tx), Agent: o.Agent, WriteTime: uint64(o.Seq), ReadTime: uint64(o.Seq),
		ReadSet: []string{}, WriteSet: []string{}, Preds: b.preds(o, in)}
	if b.undone[o.Tx] {
		r.Aborted = new(bool)
		*r.Aborted = true
		b.wrote[o.Tx] = o
	}
	if in == nil {
		b.unread++
	} else {
		b.reads(&r, o, in)
		b.effects(&r, o.Tx, in.Seal)
		b.plan(&r, o, in.Seal)
	}
	b.writes(&r, o)
	delete(b.answers, o.Tx)
	return r
}

// aborted is an operation that never took effect. What it may have written meanwhile is what it was granted.
func (b *Builder) aborted(o *sequencer.Outcome) trace.Record {
	in, granted := b.seal(o)
	yes := true
	r := trace.Record{Txn: trace.ID(o.Tx), Agent: o.Agent, WriteTime: uint64(o.Seq), ReadTime: uint64(o.Seq),
		ReadSet: []string{}, WriteSet: []string{}, Preds: b.preds(o, in), Aborted: &yes}
	if in != nil {
		b.reads(&r, o, in)
	}
	for _, s := range granted {
		r.WriteSet = append(r.WriteSet, string(s))
	}
	slices.Sort(r.WriteSet)
	r.WriteSet = slices.Compact(r.WriteSet)
	delete(b.answers, o.Tx)
	return r
}

// settled is what a settlement moved: it is a write of its own, at its own seq, and rests on nothing. It follows what
// was there right before.
func (b *Builder) settled(o *sequencer.Outcome) trace.Record {
	name := Settled
	if o.Retraction != "" {
		name = Retracted
	}
	r := trace.Record{Txn: trace.ID(string(o.Tx) + name), Agent: o.Agent, ReadTime: uint64(o.Seq) - 1,
		WriteTime: uint64(o.Seq), ReadSet: []string{}, WriteSet: []string{}, Preds: []trace.ID{},
		PlannedTool: trace.Plan(""), IO: []trace.Effect{}, CO: []trace.Effect{}}
	b.writes(&r, o)
	return r
}

// preds are whom an operation rests on. Writers of residue stand, whatever became of them, and are not among them. Nor
// are those of which a tombstone had taken away all that was read: a decision lists them, and a retraction of one
// leaves standing who read behind the tombstone.
func (b *Builder) preds(o *sequencer.Outcome, in *sequencer.Intent) []trace.ID {
	out := make([]trace.ID, 0, len(o.RestsOn))
	for _, tx := range o.RestsOn {
		if from := b.wrote[tx]; from == nil || in == nil || !b.buried(from, in.Seal) {
			out = append(out, trace.ID(tx))
		}
	}
	return out
}

// buried reports whether all that a footprint could have read of a transaction lies under a tombstone: as the fold
// judges it for a retraction.
func (b *Builder) buried(from *sequencer.Outcome, s *sequencer.Seal) bool {
	if slices.Contains(s.ReadFrom, from.Tx) {
		return false
	}
	for _, r := range s.Reads {
		for _, w := range from.Writes {
			if !r.Scope.Overlaps(w.Scope) || from.Seq > r.View {
				continue
			}
			if !slices.ContainsFunc(b.tombs, func(t sequencer.Write) bool {
				return t.Writer.Seq > from.Seq && t.Writer.Seq <= r.View && t.Scope.Covers(w.Scope)
			}) {
				return false
			}
		}
	}
	return true
}

// reads fills in what was read: of each cell the oldest read, since that one may be stale.
func (b *Builder) reads(r *trace.Record, o *sequencer.Outcome, in *sequencer.Intent) {
	r.ReadTime = uint64(in.Base)
	times := map[string]sequencer.Seq{}
	r.ReadValues = map[string]trace.Value{}
	add := func(cell string, view sequencer.Seq, value trace.Value) {
		if before, twice := times[cell]; twice && before <= view {
			return
		}
		times[cell] = view
		delete(r.ReadValues, cell)
		if value != "" {
			r.ReadValues[cell] = value
		}
	}
	for _, read := range in.Seal.Reads {
		p := b.noteRead(read.Scope)
		if !read.Scope.IsShard() {
			add(regionOf(p.scope), read.View, b.regionAt(p, read))
			continue
		}
		if !read.Scope.HasStar() && read.Scope != "shard:/" {
			add(string(p.scope), read.View, p.exact.when(read.View))
		}
		if !p.wide {
			continue
		}
		add(regionOf(p.scope), read.View, b.regionAt(p, read))
		b.visit(read.Scope, func(shown *place) {
			// What it showed, and what came since: that was not there.
			if shown == p || !shown.written || shown.scope.HasStar() || !read.Scope.Covers(shown.scope) {
				return
			}
			value := shown.exact.when(read.View)
			if value != trace.Null || shown.exact.last() > read.View && shown.exact.last() < o.Seq {
				add(string(shown.scope), read.View, value)
			}
		})
	}
	for cell := range times {
		r.ReadSet = append(r.ReadSet, cell)
	}
	slices.Sort(r.ReadSet)
	for n, cell := range r.ReadSet {
		if at := uint64(times[cell]); n == 0 || at < r.ReadTime {
			r.ReadTime = at
		}
	}
	for _, cell := range r.ReadSet {
		if at := uint64(times[cell]); at != r.ReadTime {
			if r.ReadTimes == nil {
				r.ReadTimes = map[string]uint64{}
			}
			r.ReadTimes[cell] = at
		}
	}
}

// regionAt is the value of a region as a read saw it: its last writer. The read says it itself where the log does not
// go back that far.
func (b *Builder) regionAt(p *place, read sequencer.Read) trace.Value {
	value := p.region.when(read.View)
	if value == trace.Null {
		return valueOf(sequencer.Writer{})
	}
	if value == "" && read.Writer != "" {
		return valueOf(sequencer.Writer{Seq: read.Version, Tx: read.Writer})
	}
	return value
}

// valueOf is the value of what Hence keeps no content of: seq:writer, also without a writer: what a settlement or a
// turn leaves without one is not deleted by it.
func valueOf(w sequencer.Writer) trace.Value {
	return trace.Text(strconv.FormatUint(uint64(w.Seq), 10) + ":" + string(w.Tx))
}

// contentOf is the value of a content: its SHA-256.
func contentOf(w *sequencer.ShardWrite) trace.Value {
	sum := sequencer.Hash(sha256.Sum256(w.Content))
	if w.Ref != nil {
		sum = w.Ref.SHA256
	}
	return trace.Text(hex.EncodeToString(sum[:]))
}

// writes fills in what a decision moved, and remembers it for those who read it.
func (b *Builder) writes(r *trace.Record, o *sequencer.Outcome) {
	values := map[string]trace.Value{}
	for i := range o.Writes {
		w := &o.Writes[i]
		at := slices.IndexFunc(o.Shards, func(s sequencer.ShardWrite) bool { return s.Scope == w.Scope })
		var s *sequencer.ShardWrite
		if at >= 0 {
			s = &o.Shards[at]
		}
		p := b.noteWrite(w.Scope, s != nil && (s.Op != sequencer.OpSet || s.Removes != 0))
		p.by = w.Writer
		by := valueOf(w.Writer)
		switch {
		case !w.Scope.IsShard(): // its region is all there is
		case s == nil && o.Kind == sequencer.OutcomeSettled: // its content stays as it is
		case s == nil: // moved, and it is not said to what
			b.put(values, p, o, by)
		case s.Removes != 0:
			values[deltaOf(s.Scope, s.Removes)] = trace.Null
		case s.Op != sequencer.OpSet:
			values[deltaOf(s.Scope, o.Seq)] = contentOf(s)
		case o.Kind == sequencer.OutcomeSettled: // a turn, and of this shard alone
			value := restored(p, s)
			if b.put(values, p, o, value); value == trace.Null {
				// The turn knows what it takes away. The value is left out: what was there may be of one that is taken back too.
				r.ReadSet = append(r.ReadSet, string(w.Scope))
			}
		case s.Absent:
			b.tombs = append(b.tombs, sequencer.Write{Scope: w.Scope, Writer: sequencer.Writer{Seq: o.Seq}})
			b.visit(w.Scope, func(gone *place) {
				if gone.scope.IsShard() && w.Scope.Covers(gone.scope) && !gone.scope.HasStar() &&
					gone.exact.when(o.Seq) != trace.Null {
					b.put(values, gone, o, trace.Null)
				}
			})
		default:
			b.put(values, p, o, contentOf(s))
		}
		b.visit(w.Scope, func(in *place) {
			if in.scope.IsShard() && !(in.read && in.wide) || !in.scope.IsShard() && !in.read && in != p {
				return
			}
			values[regionOf(in.scope)] = by
			in.region.put(o.Seq, o.Floor, by)
		})
	}
	for cell := range values {
		r.WriteSet = append(r.WriteSet, cell)
	}
	slices.Sort(r.WriteSet)
	if len(values) > 0 {
		r.WriteValues = values
	}
}

// deltaOf is the cell of one write that merges: it is an append, and overwrites nothing.
func deltaOf(s sequencer.Scope, seq sequencer.Seq) string { return fmt.Sprintf("%s#%d", s, seq) }

func (b *Builder) put(values map[string]trace.Value, p *place, o *sequencer.Outcome, value trace.Value) {
	values[string(p.scope)] = value
	p.exact.put(o.Seq, o.Floor, value)
}

// restored is the content that a retraction put back: what stood at a former decision. Where that is not held any
// more it is named by the decision.
func restored(p *place, s *sequencer.ShardWrite) trace.Value {
	switch {
	case s.Absent:
		return trace.Null
	case s.Restored == 0: // up to logic 2 the content is here
		return contentOf(s)
	}
	if value := p.exact.when(s.Restored); value != "" {
		return value
	}
	return valueOf(sequencer.Writer{Seq: s.Restored})
}

// effects fills in the order of calls. An eager call runs when it is issued, a held one leaves at the commit: these
// are listed behind all eager ones. Eager calls whose scopes do not overlap have no order.
func (b *Builder) effects(r *trace.Record, tx sequencer.TxID, s *sequencer.Seal) {
	var calls []sequencer.Effect
	for _, e := range s.Effects {
		if e.Class != sequencer.ClassRead && !e.Absent && e.Tool != ownTool {
			calls = append(calls, e)
			r.ToolsUsed = append(r.ToolsUsed, e.Tool)
		}
	}
	slices.Sort(r.ToolsUsed)
	r.ToolsUsed = slices.Compact(r.ToolsUsed)
	slices.SortStableFunc(calls, func(x, y sequencer.Effect) int {
		return cmp.Or(later(x.Class)-later(y.Class), cmp.Compare(x.Index, y.Index))
	})
	r.IO = make([]trace.Effect, len(calls))
	for i, e := range calls {
		r.IO[i] = effectOf(e)
	}
	happened, known := b.happened(tx, calls)
	if !known {
		return
	}
	r.CO = make([]trace.Effect, len(calls))
	for i, e := range happened {
		r.CO[i] = effectOf(e)
	}
}

func effectOf(e sequencer.Effect) trace.Effect {
	return trace.Effect{Cell: e.Tool, Value: trace.Value(strconv.FormatUint(uint64(e.Index), 10))}
}

func later(c sequencer.Class) int {
	if c.Gated() {
		return 1
	}
	return 0
}

// happened puts calls in the order in which they were answered, where that is an order that anybody can see. Not
// known: two that have an order, and one of all was not answered, or its event was not read.
func (b *Builder) happened(tx sequencer.TxID, calls []sequencer.Effect) (out []sequencer.Effect, known bool) {
	if len(calls) < 2 {
		return calls, true
	}
	answers := b.answers[tx]
	slices.SortStableFunc(answers, func(x, y answer) int {
		return cmp.Or(cmp.Compare(x.incarnation, y.incarnation), cmp.Compare(x.event, y.event))
	})
	if !slices.ContainsFunc(calls, func(x sequencer.Effect) bool { return !alone(x, calls) }) {
		return calls, true
	}
	place := map[uint32]int{}
	for n, a := range answers { // the last one counts: a call may be made again under its index
		place[a.index] = n
	}
	for _, e := range calls {
		if _, has := place[e.Index]; !has {
			return nil, false
		}
	}
	ordered := true
	for i, x := range calls {
		for _, y := range calls[i+1:] {
			ordered = ordered && (place[x.Index] < place[y.Index] || !meet(x, y))
		}
	}
	if ordered {
		return calls, true
	}
	out = slices.Clone(calls)
	slices.SortStableFunc(out, func(x, y sequencer.Effect) int { return cmp.Compare(place[x.Index], place[y.Index]) })
	return out, true
}

// alone reports whether no answer can put a call in another order: an eager one was answered before the seal, which is
// refused otherwise, and a held one leaves behind it. Of the others of its sort it meets none.
func alone(x sequencer.Effect, calls []sequencer.Effect) bool {
	return !slices.ContainsFunc(calls, func(y sequencer.Effect) bool {
		return y.Index != x.Index && y.Class.Gated() == x.Class.Gated() && meet(x, y)
	})
}

// meet reports whether the order of two calls matters: both are held, or their scopes overlap.
func meet(x, y sequencer.Effect) bool {
	return x.Class.Gated() || slices.ContainsFunc(x.Scopes, func(s sequencer.Scope) bool {
		return slices.ContainsFunc(y.Scopes, s.Overlaps)
	})
}

// plan fills in the tools that the agent had seen, and what of them is registered at the commit. Of several the first
// is the planned one that is not there any more as it was.
func (b *Builder) plan(r *trace.Record, o *sequencer.Outcome, s *sequencer.Seal) {
	r.PlannedTool = trace.Plan("")
	if len(s.Pins) == 0 {
		return
	}
	r.ToolSignaturesAtRead, r.ToolSignaturesAtWrite = map[string]string{}, map[string]string{}
	r.ToolsVisibleAtRead, r.ToolsVisibleAtWrite = []string{}, []string{}
	moved := ""
	for _, pin := range s.Pins {
		name := pin.Server + "/" + pin.Name
		r.ToolsVisibleAtRead = append(r.ToolsVisibleAtRead, name)
		r.ToolSignaturesAtRead[name] = pin.Signature
		is := false
		for _, tool := range b.registry[o.Incarnation][pin.Server] {
			if tool.Name == pin.Name {
				is = tool.Signature == pin.Signature
				r.ToolsVisibleAtWrite = append(r.ToolsVisibleAtWrite, name)
				r.ToolSignaturesAtWrite[name] = tool.Signature
				break
			}
		}
		if !is && moved == "" {
			moved = name
		}
	}
	r.PlannedTool = trace.Plan(cmp.Or(moved, s.Pins[0].Server+"/"+s.Pins[0].Name))
}
