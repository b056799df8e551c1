// Package brute finds the anomalies of a history the slow way: loops over all records, pairs and triples of records,
// each predicate written as the paper has it. It is the measure that the detectors are tested against, and was written
// from the paper by an author who had not seen them. It is slow on purpose, and only tests use it.
//
// What to compare: Judge gives an Answer, a plain value. Its Findings are one line for each witness, in one order:
// class, how sure, the numbers of the records in the file (from 1, in the order of the predicate's variables) and the
// cells. Detectors that report less than all witnesses are compared with what Findings say of one class after both
// were reduced in the same way. Components have what a test needs to hold a reported cycle to: its members, the length
// of a shortest cycle, the kinds that a shortest one may have; Edges are what such a cycle is made of.
//
// Truth has three values. A conjunct over a field that a record does not have is unknown; a predicate is undecidable
// where none of its conjuncts is false and some are unknown. So "absent" is never "clean", and a pair is not called
// undecidable where what is known excludes it.
//
// Where the text leaves a choice, this package takes:
//   - versions of one write_time stand in the order of the file (LatestWriteBefore takes the largest index);
//   - the version that i read is the one that was the latest at read_time_i, if its value is the one that i read; of
//     another value, or of one that the file does not have, the version that was read is unknown, and the read has no
//     edge. Where there was no write, it is the first version, whatever its value: nothing can be checked;
//   - an operation without preds is judged by its residue: possible where it fires, clean where it does not (A3
//     implies it);
//   - whether an operation that reads after its own write had read the version before that is undecidable where the
//     read has the value of that version;
//   - where io is absent and co has two effects, their order is unknown, also with an empty write_set: co is what
//     tells whether there were effects;
//   - a planned tool that was used is clean where the registry at write is absent: its predicate is the proxy, not
//     Definition 2;
//   - a pinned signature that changed is A2 also where the list of names at read lacks the tool: A2s asks for the
//     signature alone;
//   - where there are no lists of tools, the names in the lists of signatures are the registry;
//   - a cell in read_times was read then, and read_time_i counts for the other cells; so it is in each predicate;
//   - a dependency of a scar is an entry of preds or the producer of a read, and what these rest on.
package brute

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hence-dev/hence/topology/trace"
)

// Class names a predicate.
type Class string

// The classes. Cells and Records of a Finding are those of the variables named here, in this order.
const (
	Stale            Class = "A1"                  // i read c, j wrote it meanwhile
	StaleOwn         Class = "A1 of one agent"     // the same where i and j are of one agent: not A1, counted apart
	Phantom          Class = "A2"                  // i planned a tool that was gone when it wrote
	PhantomSignature Class = "A2 by signature"     // i planned a tool that was gone or another one when it wrote
	Cascade          Class = "A3"                  // j stands, and p of its preds was aborted
	CascadeFar       Class = "A3 through others"   // j stands, and what its preds rest on has the aborted p
	Residue          Class = "A3 residue"          // j, without preds, read in c what no surviving write had made
	SplitView        Class = "A4"                  // i and j (i<j) read c of two replicas and saw two values
	SplitVersion     Class = "A4v"                 // the same at one version
	Reordering       Class = "A6"                  // effects of i left in another order than they were issued in
	Effects          Class = "effects"             // effects of i are missing or were not issued
	LostUpdate       Class = "lost update"         // i overwrote c without having seen what j wrote
	WriteSkew        Class = "write skew"          // i (i<j) read x, which j wrote, j read y, which i wrote: cells x,y
	Cycle            Class = "cycle"               // the operations of one strongly connected component, ascending
	NullOverwrite    Class = "null overwrite"      // i deleted in c what k had written, without having read it: i,k
	Scar             Class = "scar"                // j rests on p and stands before it in the order of commits
	GapRead          Class = "read without value"  // i read c, and the file does not say what
	GapWritten       Class = "write without value" // i wrote c, and the file does not say what
)

// Sure says how much a finding claims.
type Sure string

// A certain finding is there; a possible one cannot be excluded by what the file has, and a proxy points to it; of an
// undecidable one the fields that would decide it are absent.
const (
	Certain     Sure = "certain"
	Possible    Sure = "possible"
	Undecidable Sure = "undecidable"
)

// Finding is one witness. It is comparable.
type Finding struct {
	Class   Class
	Sure    Sure
	Records string // numbers in the file, from 1, with commas: what At makes
	Cells   string // names with commas, or none
}

// String is the finding as a line.
func (f Finding) String() string {
	line := string(f.Class) + " " + f.Records
	if f.Cells != "" {
		line += " " + f.Cells
	}
	if f.Sure != Certain {
		line += " " + string(f.Sure)
	}
	return line
}

// At spells numbers of records, which count from 1, as Finding has them.
func At(numbers ...int) string {
	texts := make([]string, len(numbers))
	for i, n := range numbers {
		texts[i] = strconv.Itoa(n)
	}
	return strings.Join(texts, ",")
}

// Set is a set of the four anomalies of the lattice: a point of it, or what fired.
type Set uint8

// The four, and all of them.
const (
	A1 Set = 1 << iota
	A2
	A3
	A6
	All = A1 | A2 | A3 | A6
)

// String is the set as the paper writes it: {1,3}.
func (s Set) String() string {
	var names []string
	for i, name := range []string{"1", "2", "3", "6"} {
		if s&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return "{" + strings.Join(names, ",") + "}"
}

// Level is the greatest n for which a point excludes all that Lₙ excludes: L0 = ∅, L1 = {1}, L2 = {1,3}, L3 = {1,3,6},
// L4 = {1,2,3,6}.
func (s Set) Level() int {
	level := 0
	for n, needs := range []Set{0, A1, A1 | A3, A1 | A3 | A6, All} {
		if needs&^s == 0 {
			level = n
		}
	}
	return level
}

// Answer is what a history contains.
type Answer struct {
	// Findings are all witnesses, each once, sorted by class, records, cells.
	Findings []Finding
	// Components has one entry for each finding of class Cycle, in the same order.
	Components []Component
	// Fired, Suspected and Undecided are the anomalies of the lattice with a certain, possible, undecidable finding. A2
	// by signature counts as A2; a residue is a suspected A3.
	Fired, Suspected, Undecided Set
	// Forgotten counts the names in preds of surviving records that no record has, each once for each record.
	Forgotten int
}

// Point is what the history excludes for certain not to have fired: the complement of what fired.
func (a Answer) Point() Set { return All &^ a.Fired }

// LowPoint is the point that is left if all that is possible or undecidable did happen.
func (a Answer) LowPoint() Set { return a.Point() &^ (a.Suspected | a.Undecided) }

// Levels is the interval of the history's level. Both ends are equal where nothing is possible or undecidable.
func (a Answer) Levels() (low, high int) { return a.LowPoint().Level(), a.Point().Level() }

// String has one line for each finding, one for each component, and one for the point and the levels.
func (a Answer) String() string {
	var out strings.Builder
	for _, f := range a.Findings {
		fmt.Fprintln(&out, f)
	}
	for _, c := range a.Components {
		fmt.Fprintln(&out, c)
	}
	low, high := a.Levels()
	fmt.Fprintf(&out, "point %v level %d", a.Point(), high)
	if low != high {
		fmt.Fprintf(&out, " or down to %d", low)
	}
	return out.String() + "\n"
}

// Judge finds everything in a history. The records stand in the order of the file.
func Judge(h []trace.Record) Answer { return newHistory(h, 0).answer() }

func newHistory(records []trace.Record, dropped conjunct) history {
	h := history{records: records, cells: cellsOf(records), dropped: dropped, versions: map[string][]int{}}
	for _, c := range h.cells {
		h.versions[c] = h.writers(c)
	}
	return h
}

// cellsOf has each cell that some record reads or writes.
func cellsOf(h []trace.Record) (cells []string) {
	for i := range h {
		cells = append(append(cells, h[i].ReadSet...), h[i].WriteSet...)
	}
	slices.Sort(cells)
	return slices.Compact(cells)
}

// history is what the predicates speak of.
type history struct {
	records []trace.Record
	cells   []string
	// versions has the writers of each cell in version order.
	versions map[string][]int
	// dropped is a conjunct that counts as true: tests see with it that each one matters. 0: none.
	dropped conjunct
}

// answer evaluates each predicate for every choice of its variables.
func (h history) answer() Answer {
	var a Answer
	add := func(class Class, t truth, cells string, records ...int) {
		switch t {
		case yes:
			a.Findings = append(a.Findings, Finding{class, Certain, numbers(records), cells})
		case unknown:
			a.Findings = append(a.Findings, Finding{class, Undecidable, numbers(records), cells})
		}
	}
	edges := h.edges()
	for i := range h.records {
		phantom, sure := h.phantom(i)
		if phantom {
			a.Findings = append(a.Findings, Finding{Phantom, sure, numbers([]int{i}), ""})
		}
		add(PhantomSignature, h.phantomSignature(i), "", i)
		add(Reordering, h.reordering(i), "", i)
		add(Effects, h.effects(i), "", i)
		a.Forgotten += h.forgotten(i)
		for _, c := range h.cells {
			switch h.residueWithoutPreds(i, c) {
			case yes:
				a.Findings = append(a.Findings, Finding{Residue, Possible, numbers([]int{i}), c})
			case unknown:
				add(Residue, unknown, c, i)
			}
			add(GapRead, h.gapRead(i, c), c, i)
			add(GapWritten, h.gapWritten(i, c), c, i)
		}
		for j := range h.records {
			add(Cascade, h.cascade(i, j), "", i, j)
			add(CascadeFar, h.cascadeFar(i, j), "", i, j)
			add(Scar, h.scar(i, j), "", i, j)
			for _, c := range h.cells {
				add(Stale, h.stale(i, j, c), c, i, j)
				add(StaleOwn, h.staleOwn(i, j, c), c, i, j)
				add(LostUpdate, h.lostUpdate(edges, i, j, c), c, i, j)
				add(NullOverwrite, h.nullOverwrite(i, j, c), c, i, j)
				if i < j {
					add(SplitView, h.splitView(i, j, c), c, i, j)
					add(SplitVersion, h.splitVersion(i, j, c), c, i, j)
				}
				for _, other := range h.cells {
					if i < j {
						add(WriteSkew, h.writeSkew(edges, i, j, c, other), c+","+other, i, j)
					}
				}
			}
		}
	}
	for _, members := range components(len(h.records), edges) {
		add(Cycle, yes, "", members...)
		a.Components = append(a.Components, describe(members, edges))
	}
	slices.SortFunc(a.Findings, compare)
	slices.SortFunc(a.Components, func(x, y Component) int { return strings.Compare(x.Records, y.Records) })
	for _, f := range a.Findings {
		in := map[Class]Set{Stale: A1, Phantom: A2, PhantomSignature: A2, Cascade: A3, Residue: A3, Reordering: A6}[f.Class]
		switch f.Sure {
		case Certain:
			a.Fired |= in
		case Possible:
			a.Suspected |= in
		case Undecidable:
			a.Undecided |= in
		}
	}
	return a
}

func compare(x, y Finding) int {
	return cmp.Or(cmp.Compare(x.Class, y.Class), cmp.Compare(x.Records, y.Records), cmp.Compare(x.Cells, y.Cells),
		cmp.Compare(x.Sure, y.Sure))
}

// numbers spells positions in the history as numbers in the file.
func numbers(positions []int) string {
	from1 := make([]int, len(positions))
	for i, p := range positions {
		from1[i] = p + 1
	}
	return At(from1...)
}
