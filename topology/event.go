// Package topology describes the records between the parts of Hence as data: topics, keys, partitions, codecs and
// the shapes of what travels in them.
package topology

import (
	"cmp"
	"slices"
	"strings"

	"github.com/hence-dev/hence/sequencer"
)

// EventKind says what an event of hence.events records.
type EventKind uint8

// The events.
const (
	EventRead    EventKind = iota + 1 // an answered read
	EventWrite                        // a write taken into a transaction; not decided yet
	EventContent                      // content of a shard write, kept by reference: all of it, or the next part
	EventSeal                         // the full text of a sealed footprint
	EventEffect                       // a tool call, whole: before it runs or is held
	EventAnswer                       // what became of one: of the call, its release or its compensation
	EventTouch                        // scopes that the agent asked for before it acted on them by itself
	EventPlan                         // the calls that are to come, with the index of each
)

// Event is one record of hence.events: what an agent did through its sidecar, before anything was decided about it.
type Event struct {
	Kind        EventKind
	Workspace   string
	Tx          sequencer.TxID // empty: a loose read of a session
	Agent       string
	Incarnation sequencer.Seq
	Index       uint64 // 1-based, contiguous per incarnation: a second copy has the same index
	AtMs        int64  // unix milliseconds of the sidecar's clock; for people
	Scope       sequencer.Scope
	View        sequencer.Seq  // reads: the view's seq when the call left
	Version     sequencer.Seq  // reads: the version answered; zero: absent
	Writer      sequencer.TxID // reads: the writer of that version
	MediaType   string         // content and writes
	Content     []byte         // EventContent only
	Size        int64          // bytes of the content read or written
	SHA256      sequencer.Hash // of that content
	Seal        *sequencer.Seal
	Traceparent string
	Effect      *EffectText // EventEffect and EventAnswer
	Session     string      // of a loose read: the agent's conversation; empty: the default one
	Plan        *Plan       // EventPlan
	Chunk       *Chunk      // EventContent: it has a part of a content; nil: the whole
}

// Chunk says which part of a content an event has. Size and SHA256 of the event are the part's.
type Chunk struct {
	At int64          // where in the content it begins, bytes
	Of sequencer.Hash // SHA-256 of the whole content
}

// Plan gives tool calls of a transaction their indexes before any of them comes.
type Plan struct {
	First uint32   // index of the first
	Calls []string // their ids, as the agent made them; the indexes follow one another
}

// What the Detail of an answer begins with when an operator tried by hand, after the settlement, to make a call or its
// compensation. The transaction under which that was tried comes behind it. It is written beside ByHand for releases
// that know nothing else.
const (
	MadeByHand   = "made by hand in "
	UndoneByHand = "undone by hand in "
)

// EffectText is a tool call as the events topic has it.
type EffectText struct {
	Index     uint32 // issuance order in its transaction, 0-based
	Step      uint8  // of an answer: the gate's step; zero in EventEffect
	Class     sequencer.Class
	Tool      string
	Pin       *sequencer.Pin
	Key       string // what the sink is given; empty: it takes none
	Scopes    []sequencer.Scope
	May       []sequencer.Scope
	Cost      uint32
	MaxTimeMs int64
	Args      []byte         // a JSON object; nil when ArgsRef is set
	ArgsRef   *sequencer.Ref // a former record of kind EventContent
	Answer    []byte         // of an answer: the gate's answer as JSON; nil when AnswerRef is set
	AnswerRef *sequencer.Ref
	Detail    string
	// ByHand, of an answer: it is about a try asked for after the settlement. Nil: it is not, or an older
	// release wrote it; see Hand.
	ByHand *ByHand
}

// ByHand is a try of a residue.
type ByHand struct {
	In   sequencer.TxID // the transaction under which it was tried
	Undo bool           // it was the compensation that was tried
}

// Text is what an older release reads of a try: the Detail of its events, whole.
func (b ByHand) Text() string {
	if b.Undo {
		return UndoneByHand + string(b.In)
	}
	return MadeByHand + string(b.In)
}

// Hand is the try that an answer is about; not ok: it is about none. Of an older release only Detail says so.
func (e *EffectText) Hand() (by ByHand, ok bool) {
	if e.ByHand != nil {
		return *e.ByHand, true
	}
	if in, found := strings.CutPrefix(e.Detail, UndoneByHand); found {
		return ByHand{In: sequencer.TxID(in), Undo: true}, true
	}
	in, found := strings.CutPrefix(e.Detail, MadeByHand)
	return ByHand{In: sequencer.TxID(in)}, found
}

// ShardRow is one shard as the frontier table and a snapshot know it.
type ShardRow struct {
	Scope   sequencer.Scope
	Version sequencer.Seq // seq of its last write
	Writer  sequencer.Writer
	Type    string
	Content []byte
	Ref     *sequencer.Ref

	// Restored is, where a retraction put the content back, the decision that has it: Type, Content and Ref are empty.
	// With Held they are here all the same: the row still had them.
	Restored sequencer.Seq
	Held     bool

	Count WriteCount // of a snapshot; in a row of the frontier table the row has it

	// Writes are, of a shard with deltas, what stands: its content is what they come to. Type, Content, Ref and Restored
	// are empty then.
	Writes []sequencer.Standing
}

// Lacks reports whether the content is in the decision that Restored names, and not here.
func (s *ShardRow) Lacks() bool { return s.Restored != 0 && !s.Held }

// FormerContent is a content that stood in a shard before, and that a retraction may put back.
type FormerContent struct {
	Version sequencer.Seq // of the shard, while it stood
	Carrier sequencer.Seq // the decision that has it; another one where a retraction had put it back
	Type    string
	Content []byte
	Ref     *sequencer.Ref
}

// Snapshot is what a sidecar's view starts from: a prefix once every outcome up to Through is applied on top of Seq.
type Snapshot struct {
	Workspace string
	Seq       sequencer.Seq // every outcome up to it is contained whole
	Through   sequencer.Seq // the greatest seq that any row shows
	Chain     sequencer.Hash
	Time      sequencer.Tick
	Floor     sequencer.Seq
	Shards    []ShardRow
	Types     []string // of scopes that outcomes moved or granted, sorted
}

// FrontierRow is one row of the frontier table.
type FrontierRow struct {
	Workspace string
	Scope     sequencer.Scope
	Seq       sequencer.Seq // of the last outcome that moved the row
	Shard     *ShardRow     // set when the scope is a shard that was written
	Version   sequencer.Seq
	Writer    sequencer.Writer
	Open      []OpenEpoch     // by Epoch: transactions that hold or claim the scope
	Frontier  sequencer.Epoch // the smallest of them; zero: none can still change it

	Chain sequencer.Hash // of Seq; only the workspace's own row, whose scope is empty, has this and what follows
	Time  sequencer.Tick
	Floor sequencer.Seq

	Former []FormerContent // by Version: the newest ones, as many as the frontier's bounds let it keep
	Count  WriteCount      // of the shard; it goes on where the shard was taken away
}

// OpenEpoch is one undecided or unsettled transaction at a scope.
type OpenEpoch struct {
	Epoch sequencer.Epoch
	Tx    sequencer.TxID
	Since sequencer.Seq
}

// ClosureEdge says that a transaction rests on another through one read.
type ClosureEdge struct {
	Scope   sequencer.Scope
	Writer  sequencer.TxID
	Version sequencer.Seq
	View    sequencer.Seq
}

// ClosureRow is one transaction's direct causes and status.
type ClosureRow struct {
	Workspace string
	Tx        sequencer.TxID
	Agent     string
	Status    string // open, sealed, committed, aborted, settled, retracting, retracted
	Code      sequencer.Code
	Seq       sequencer.Seq // of its decision; zero: none yet
	Edges     []ClosureEdge // by Scope, then Version
	RestsOn   []sequencer.TxID
	Writes    []sequencer.Scope
	Scar      bool // an edge points at a later commit: the commit order violates causality

	Final   bool         // nothing of it is pending any more
	Events  *EventSpan   // nil: not known, a binary of the first release has written the row
	Effects []EffectSeen // by Index, once each: tool calls that are known, of any class but read

	Retraction sequencer.TxID // the retracted transaction whose cone it is in, or was; empty: none
}

// EventSpan says where a transaction's events lie in its partition of hence.events.
type EventSpan struct {
	First int64 // offset of the first one; negative: none was seen yet
}

// EffectSeen is one tool call of a transaction as its closure row knows it.
type EffectSeen struct {
	Index uint32
	Class sequencer.Class
	Event uint64 // index of the event that says so; the last one counts
}

// EffectsByClass counts the tool calls of a row.
func (r *ClosureRow) EffectsByClass() map[sequencer.Class]int {
	counts := map[sequencer.Class]int{}
	for _, e := range r.Effects {
		counts[e.Class]++
	}
	return counts
}

// Closure is a transaction's causes, walked from the table.
type Closure struct {
	Tx        sequencer.TxID
	Rows      []ClosureRow // the transaction first, then breadth first
	Truncated bool         // the walk met its limit; what is missing lies beyond the rows shown
	Limit     int
}

// Effects are the tool calls and answers of a transaction among events: in the order of incarnation and index, without
// second copies. Where a call was issued again under an index, because its touch was refused, both are there.
func Effects(events []*Event, workspace string, tx sequencer.TxID) []*Event {
	var found []*Event
	for _, e := range events {
		if e.IsEffect() && e.Workspace == workspace && e.Tx == tx {
			found = append(found, e)
		}
	}
	slices.SortStableFunc(found, func(a, b *Event) int {
		return cmp.Or(cmp.Compare(a.Incarnation, b.Incarnation), cmp.Compare(a.Index, b.Index))
	})
	return slices.CompactFunc(found, func(a, b *Event) bool {
		return a.Index > 0 && a.Incarnation == b.Incarnation && a.Index == b.Index
	})
}

// IsEffect reports whether the event is a tool call, an answer to one, a plan of calls, or scopes that the agent acts
// on by itself; of a plan and of scopes Effect is nil.
func (e *Event) IsEffect() bool {
	called := (e.Kind == EventEffect || e.Kind == EventAnswer) && e.Effect != nil
	return called || e.Kind == EventTouch || e.Kind == EventPlan && e.Plan != nil
}
