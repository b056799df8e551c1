// Package anomaly finds in a recorded history of operations what isolation would have prevented, and names it: the
// published catalogue A1, A2, A3, A4 and A6, lost updates, write skew, every cycle of dependencies, and commit orders
// that contradict causality. It is pure: operations go in, findings come out.
//
// What is found is exact over the whole history: no sampling, no window (callers that cut a history in windows say
// so). What a history cannot show is counted as undecidable, never as clean.
//
// A history without A1 need not be serializable, and a serializable one can have A1: both verdicts are given, neither
// is derived from the other.
package anomaly

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Null is the value of a cell that was never written.
const Null = "null"

// Op is one operation as it is added to a History: an agent reads cells at ReadTime, or each at a time of its own, and
// writes cells at WriteTime,
// both positions in the log of commits. An operation that reads at t sees what was written at times ≤ t.
type Op struct {
	Line      int    // where it stands in its file, 1-based
	Name      string // what Preds of others call it; empty: it has no name
	Agent     string
	ReadTime  uint64
	WriteTime uint64
	Reads     []Read
	Writes    []Write
	Aborted   bool // it never took effect, or was taken back

	Plan  Plan
	Order Order

	HasPreds bool     // the trace says whose writes it observed; otherwise unknown
	Preds    []string // names of these operations
}

// Read is one cell that an operation read.
type Read struct {
	Cell    string
	Value   string // empty: unknown. Two values are equal if and only if their texts are
	Replica string // which copy of the store answered; empty: unknown
	Version string // which version of the cell it was; empty: unknown
	Time    uint64 // at which it was read, if Timed
	Timed   bool   // Time counts, and not the operation's ReadTime
}

// Write is one cell that an operation wrote.
type Write struct {
	Cell  string
	Value string // empty: unknown
}

// Plan is what a trace says of the tool that an operation had planned to call.
type Plan struct {
	Known        bool // the trace says which tool was planned, or that none was
	Tool         string
	AtRead       Seen // whether the registry had the tool when the plan was made
	AtWrite      Seen // whether the registry had it when the operation committed
	Used         Seen // whether it was called
	ChangedSince bool // its signature at the commit is another one, or missing, and both are known
}

// Seen is an answer that a trace may owe.
type Seen uint8

// The answers.
const (
	Unknown Seen = iota
	No
	Yes
)

// Order is what a trace says of the order of an operation's effects.
type Order struct {
	IssuedKnown   bool // the order of issue is recorded
	HappenedKnown bool // the order in which they happened is recorded
	Issued        []Write
	Happened      []Write
}

// History is a set of operations, held in memory that is linear in their number and in that of their cells.
type History struct {
	ops    []op
	reads  []read
	writes []write
	copies []copied
	preds  []uint32 // names
	apart  []apart  // by operation and cell
	owner  []uint32 // by name: the operation + 1; 0: none so far

	names, agents, cells, values, places intern

	single    []Finding // of one record each, found when it is added
	undecided map[reason]int
	since     uint64
	spanning  int
	within    bool // it is judged by itself: what a cut hides leaves the level as it is
}

type op struct {
	readTime, writeTime  uint64
	agent, line, name    uint32
	reads, writes, preds uint32 // where its own begin
	aborted, hasPreds    bool
	apart                bool // of some cells the history has times of their own
}

type read struct{ cell, value uint32 }

// apart is the time of a read that is not that of its operation.
type apart struct {
	op, cell uint32
	time     uint64
}

type write struct{ cell, value, op uint32 }

// copied is a read of which the trace says the replica.
type copied struct{ cell, value, replica, version, op uint32 }

// Texts that every history knows: numbers 0 and 1 of each table.
const (
	missing = 0 // the trace has none
	null    = 1
)

// NewHistory returns an empty history. Since is the greatest WriteTime of operations that came before it and are not
// in it, 0 for a whole history: what may rest on those is counted as spanning the cut.
func NewHistory(since uint64) *History {
	h := &History{since: since, undecided: map[reason]int{}}
	for _, t := range []*intern{&h.names, &h.agents, &h.cells, &h.values, &h.places} {
		t.number = map[string]uint32{}
		t.id("")
	}
	h.values.id(Null)
	return h
}

// Len is how many operations the history has.
func (h *History) Len() int { return len(h.ops) }

// Latest is the greatest time at which an operation of the history wrote, and not 0 if it has any: what comes after
// these is no whole history.
func (h *History) Latest() (latest uint64) {
	for i := range h.ops {
		latest = max(latest, h.ops[i].writeTime)
	}
	return max(latest, h.since, uint64(min(len(h.ops), 1)))
}

// Add takes an operation into the history. It keeps none of the op's slices. What stands twice in a set counts
// once. It returns an error if another operation has the same name.
func (h *History) Add(o Op) error {
	i := uint32(len(h.ops))
	name := h.names.id(o.Name)
	if _, taken := h.called(name); taken {
		return fmt.Errorf("two operations are called %s: preds could mean either", o.Name)
	}
	h.owner = append(h.owner, make([]uint32, len(h.names.text)-len(h.owner))...)
	h.owner[name] = i + 1
	added := op{readTime: o.ReadTime, writeTime: o.WriteTime, agent: h.agents.id(o.Agent), line: uint32(o.Line),
		name: name, reads: uint32(len(h.reads)), writes: uint32(len(h.writes)), preds: uint32(len(h.preds)),
		aborted: o.Aborted, hasPreds: o.HasPreds}
	for _, r := range o.Reads {
		one := read{h.cells.id(r.Cell), h.values.id(keep(r.Value))}
		h.reads = append(h.reads, one)
		if r.Replica == "" {
			h.undecidedIf(!o.Aborted, noReplica)
			continue
		}
		h.undecidedIf(!o.Aborted && r.Version == "", noVersion)
		h.undecidedIf(!o.Aborted && r.Value == "", noValueSeen)
		if !o.Aborted {
			h.copies = append(h.copies, copied{one.cell, one.value, h.places.id(r.Replica), h.places.id(r.Version), i})
		}
	}
	h.reads = once(h.reads, int(added.reads), func(r read) uint32 { return r.cell })
	first := h.timesApart(i, &o)
	added.apart = len(h.apart) > 0 && h.apart[len(h.apart)-1].op == i
	for _, w := range o.Writes {
		h.writes = append(h.writes, write{h.cells.id(w.Cell), h.values.id(keep(w.Value)), i})
	}
	h.writes = once(h.writes, int(added.writes), func(w write) uint32 { return w.cell })
	for _, p := range o.Preds {
		h.preds = append(h.preds, h.names.id(p))
	}
	h.preds = once(h.preds, int(added.preds), func(name uint32) uint32 { return name })
	if first < h.since || o.WriteTime < h.since && !o.Aborted {
		h.spanning++
	}
	h.ops = append(h.ops, added)
	if !o.Aborted {
		h.tool(i, o.Plan)
		h.order(i, &o)
	}
	return nil
}

// timesApart takes in the times of an operation's reads, if not all are the operation's, and returns the first one.
func (h *History) timesApart(i uint32, o *Op) (first uint64) {
	first = o.ReadTime
	if !slices.ContainsFunc(o.Reads, func(r Read) bool { return r.Timed && r.Time != o.ReadTime }) {
		return first
	}
	begin := len(h.apart)
	for n := range o.Reads {
		r, at := &o.Reads[n], o.ReadTime
		if r.Timed {
			at = r.Time
		}
		first = min(first, at)
		h.apart = append(h.apart, apart{i, h.cells.id(r.Cell), at})
	}
	h.apart = once(h.apart, begin, func(a apart) uint32 { return a.cell })
	return first
}

// readAt is the time at which an operation read a cell.
func (h *History) readAt(i, cell uint32) uint64 {
	if h.ops[i].apart {
		n, found := slices.BinarySearchFunc(h.apart, apart{op: i, cell: cell}, func(a, b apart) int {
			return cmp.Or(cmp.Compare(a.op, b.op), cmp.Compare(a.cell, b.cell))
		})
		if found {
			return h.apart[n].time
		}
	}
	return h.ops[i].readTime
}

// cut reports whether what came before the history is a part of what is judged.
func (h *History) cut() bool { return h.since > 0 && !h.within }

// called is the operation of a name.
func (h *History) called(name uint32) (i uint32, is bool) {
	if name == missing || int(name) >= len(h.owner) || h.owner[name] == 0 {
		return 0, false
	}
	return h.owner[name] - 1, true
}

// once sorts what was added from a place on by key, and drops keys that come again.
func once[T any](all []T, from int, key func(T) uint32) []T {
	slices.SortStableFunc(all[from:], func(a, b T) int { return cmp.Compare(key(a), key(b)) })
	kept := slices.CompactFunc(all[from:], func(a, b T) bool { return key(a) == key(b) })
	return all[:from+len(kept)]
}

func (h *History) readsOf(i uint32) []read {
	return part(h.reads, i, h.ops, func(o *op) uint32 { return o.reads })
}

func (h *History) writesOf(i uint32) []write {
	return part(h.writes, i, h.ops, func(o *op) uint32 { return o.writes })
}

func (h *History) predsOf(i uint32) []uint32 {
	return part(h.preds, i, h.ops, func(o *op) uint32 { return o.preds })
}

// part is an operation's own of a list that has those of all, one after the other.
func part[T any](all []T, i uint32, ops []op, begins func(*op) uint32) []T {
	end := uint32(len(all))
	if int(i)+1 < len(ops) {
		end = begins(&ops[i+1])
	}
	return all[begins(&ops[i]):end]
}

// keep is what is held of a value: long ones are held as their SHA-256 behind how they begin.
func keep(value string) string {
	const long, shown = 96, 20
	if len(value) <= long {
		return value
	}
	sum := sha256.Sum256([]byte(value))
	return fmt.Sprintf("%.*s… (%d bytes, sha256 %s)", shown, value, len(value), hex.EncodeToString(sum[:]))
}

// intern numbers texts, so that each is held once. Number 0 is "".
type intern struct {
	number map[string]uint32
	text   []string
	bytes  int
}

func (t *intern) id(text string) uint32 {
	if n, has := t.number[text]; has {
		return n
	}
	n := uint32(len(t.text))
	text = strings.Clone(text) // the caller's may be a part of a long line
	t.text = append(t.text, text)
	t.number[text] = n
	t.bytes += len(text)
	return n
}
