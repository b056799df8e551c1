package anomaly

import (
	"cmp"
	"slices"
)

// Report is what a history contains.
type Report struct {
	Ops      int // all operations
	Aborted  int // of these, aborted ones: they are judged as predecessors only
	Agents   int
	Cells    int
	Findings []Finding // by kind, certain ones first, then as the operations stand
	// Undecided is what the history cannot show, by kind.
	Undecided []Undecided
	// OwnOverlaps counts what would be A1 but that both operations are of one agent.
	OwnOverlaps int
	// Missing counts reads and writes of standing operations without a recorded value.
	Missing int
	// Spanning counts the operations that began before what the history starts with: what they have to do with
	// operations before the cut is not known. 0 for a whole history.
	Spanning int
	// RecordBytes is the most memory that the history and its check took for operations and what they name, and
	// CellBytes that for what they read and wrote: cells, values, dependencies. Findings come on top of both.
	RecordBytes, CellBytes uint64

	of *check // that it comes from
}

// Check judges a history. Aborted operations are judged as the predecessors of others only.
func (h *History) Check() *Report { return h.checkWith(48) }

// checkWith is Check; up to so many versions are looked at one by one before they are counted.
func (h *History) checkWith(least int) *Report {
	v := versionsOf(h)
	v.least = least
	r := &Report{Ops: len(h.ops), Agents: len(h.agents.text) - 1, Cells: len(h.cells.text) - 1, Spanning: h.spanning}
	undecided := map[reason]int{}
	for why, n := range h.undecided {
		undecided[why] = n
	}
	c := &check{h: h, v: v, r: r, undecided: undecided, cascaded: map[uint32]uint32{}, scarred: map[uint32]bool{}}
	r.of = c
	r.Findings = append(r.Findings, h.single...)
	for i := range h.ops {
		if h.ops[i].aborted {
			r.Aborted++
			if c.h.cut() && h.ops[i].name != missing {
				undecided[cutAborted]++
			}
			continue
		}
		c.cascade(uint32(i))
		c.op(uint32(i))
	}
	cascade := c.cascadeFar()
	scars, causes := c.scarFar()
	c.split()
	c.skew()
	cycles, edges := c.cycles()
	ofRecords, ofCells := h.bytes()
	r.RecordBytes = ofRecords + max(cascade, scars, cycles) // these came one after the other
	r.CellBytes = ofCells + v.bytes() + uint64(len(c.rw))*12 + max(causes, edges)
	c.rw, c.wr = nil, nil
	for why := noValueRead; why <= cutEdge; why++ {
		if undecided[why] > 0 {
			u := Undecided{Kind: why.kind(), Count: undecided[why], Why: why.String(), Open: why.blocks()}
			r.Undecided = append(r.Undecided, u)
			if why == noReplica || why == noValueSeen { // without it neither is decided
				u.Kind = A4v
				r.Undecided = append(r.Undecided, u)
			}
		}
	}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(btoi(b.Certain), btoi(a.Certain)),
			slices.Compare(a.Records, b.Records), cmp.Compare(a.Cell, b.Cell))
	})
	return r
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

type check struct {
	h         *History
	v         *versions
	r         *Report
	undecided map[reason]int
	rw        []overwrite // by reader
	wr        []edge
	cascaded  map[uint32]uint32 // operations of which preds name an aborted one, and that one
	scarred   map[uint32]bool   // operations of which preds name one that was committed later
	backward  bool              // an edge leads to an operation that was not committed later: there may be a cycle
}

// overwrite is a dependency rw: reader read the version of the cell before that of writer.
type overwrite struct{ reader, writer, cell uint32 }

func (a overwrite) compare(b overwrite) int {
	return cmp.Or(cmp.Compare(a.reader, b.reader), cmp.Compare(a.writer, b.writer), cmp.Compare(a.cell, b.cell))
}

func (c *check) find(f Finding) { c.r.Findings = append(c.r.Findings, f) }

// op judges what one standing operation read and wrote.
func (c *check) op(i uint32) {
	for _, r := range c.h.readsOf(i) {
		c.r.Missing += btoi(r.value == missing)
		seen := c.v.upTo(r.cell, c.h.readAt(i, r.cell))
		c.stale(i, r, seen)
		if !c.h.ops[i].hasPreds {
			c.residue(i, r, seen)
		}
		c.depends(i, r, seen)
	}
	if c.h.cut() && c.h.ops[i].writeTime < c.h.since && len(c.h.writesOf(i)) > 0 {
		c.undecided[cutWrite]++
	}
	for _, w := range c.h.writesOf(i) {
		c.r.Missing += btoi(w.value == missing)
		if w.value == null {
			c.deleted(i, w.cell)
		}
	}
}

// stale judges A1: another agent's write of a cell that i read, with another value, strictly between i's read and i's
// commit. Each such write counts, also one that was overwritten again.
func (c *check) stale(i uint32, r read, seen int) {
	own, at := c.h.ops[i], c.h.readAt(i, r.cell)
	if own.writeTime <= at {
		return
	}
	if c.h.cut() && at+1 < own.writeTime && at < c.h.since { // a write in between may lie before the cut
		c.undecided[cutRead]++
	}
	end := c.v.upTo(r.cell, own.writeTime-1)
	if end <= seen {
		return
	}
	o := c.v.between(r.cell, seen, end, own.agent, r.value)
	c.r.OwnOverlaps += btoi(o.own > 0)
	if o.others > 0 {
		writer := c.h.writes[c.v.order[o.first]]
		c.find(Finding{Kind: A1, Certain: true, Records: []uint32{i, writer.op}, Cell: c.h.cells.text[r.cell],
			Count: o.others, read: r.value, wrote: writer.value})
	} else if o.blank > 0 {
		c.undecided[noValueRead]++
	}
}

// residue judges A3 where nothing says whose writes i observed: what i read was written by no standing operation at or
// before the read. It errs both ways: seeded values show as residue, and an equal value by another writer hides a
// cascade.
func (c *check) residue(i uint32, r read, seen int) {
	switch r.value {
	case null:
		return
	case missing: // it may be a value that nothing wrote
		c.undecided[noProvenance]++
		return
	}
	begin := int(c.v.begin[r.cell])
	if seen > begin {
		last := c.h.writes[c.v.order[seen-1]]
		if last.value == r.value && last.op != i {
			return
		}
	}
	producers, blank := 0, 0
	if seen > begin {
		counts := c.v.counts(r.cell)
		producers, blank = counts.value(r.value, begin, seen), counts.value(missing, begin, seen)
		if w, wrote := c.wrote(i, r.cell); wrote && int(c.v.at[w]) < seen { // its own write is no other's
			producers -= btoi(c.h.writes[w].value == r.value)
			blank -= btoi(c.h.writes[w].value == missing)
		}
	}
	switch {
	case producers > 0:
	case blank > 0: // one of these may have written it
		c.undecided[noProvenance]++
	case c.h.since > 0:
		c.undecided[cutResidue]++
	default:
		c.find(Finding{Kind: A3, Records: []uint32{i}, Cell: c.h.cells.text[r.cell], Count: 1, read: r.value,
			how: byResidue})
	}
}

// wrote is i's write of a cell.
func (c *check) wrote(i, cell uint32) (w uint32, is bool) {
	mine := c.h.writesOf(i)
	n, is := slices.BinarySearchFunc(mine, cell, func(w write, cell uint32) int { return cmp.Compare(w.cell, cell) })
	return c.h.ops[i].writes + uint32(n), is
}

// depends draws the dependencies that come from one read, and judges the lost update.
func (c *check) depends(i uint32, r read, seen int) {
	begin, end := int(c.v.begin[r.cell]), int(c.v.begin[r.cell+1])
	if seen == begin && c.h.readAt(i, r.cell) < c.h.since { // the version that it read lies before the cut
		if c.h.cut() {
			c.undecided[cutEdge]++
		}
		return
	}
	if seen > begin {
		from := c.h.writes[c.v.order[seen-1]]
		if r.value == missing || from.value != r.value { // which version it read is not known
			c.undecided[noProducer]++
			return
		}
		if from.op != i {
			c.wr = append(c.wr, edge{from.op, i, r.cell, WR})
			c.forward(from.op, i)
		}
	}
	if seen == end {
		return
	}
	next := c.h.writes[c.v.order[seen]]
	if next.op == i {
		return
	}
	c.rw = append(c.rw, overwrite{i, next.op, r.cell})
	c.forward(i, next.op)
	if w, wrote := c.wrote(i, r.cell); wrote && int(c.v.at[w]) > seen {
		c.find(Finding{Kind: LostUpdate, Certain: true, Records: []uint32{i, next.op}, Cell: c.h.cells.text[r.cell],
			Count: int(c.v.at[w]) - seen, read: r.value, wrote: next.value})
	}
}

// forward notes whether an edge can be a part of a cycle that leads back: times of commits only grow along the others.
func (c *check) forward(from, to uint32) {
	if c.h.ops[to].writeTime <= c.h.ops[from].writeTime {
		c.backward = true
	}
}

// deleted judges the null overwrite: i deletes a value that it had not read.
func (c *check) deleted(i, cell uint32) {
	w, _ := c.wrote(i, cell)
	place := c.v.at[w]
	if place == c.v.begin[cell] {
		return
	}
	before := c.h.writes[c.v.order[place-1]]
	if before.value == null || before.value == missing || before.op == i {
		return
	}
	for _, r := range c.h.readsOf(i) {
		seen := c.v.upTo(cell, c.h.readAt(i, cell))
		if r.cell != cell || seen < int(place) || r.value != missing && r.value != before.value {
			continue
		}
		// It may have read the version that it deleted, unless a later one, such as its own, was visible and has the value
		// that it read.
		if last := c.h.writes[c.v.order[seen-1]]; seen == int(place) || r.value == missing || last.value != r.value {
			return
		}
	}
	c.find(Finding{Kind: NullOverwrite, Certain: true, Records: []uint32{i, before.op}, Cell: c.h.cells.text[cell],
		Count: 1, wrote: before.value})
}

// cascade judges A3 by provenance, and κ-scars: a standing operation among whose predecessors is an aborted one, or
// one that was committed later.
func (c *check) cascade(i uint32) {
	var first, scar Finding
	for _, name := range c.h.predsOf(i) {
		p, known := c.h.called(name)
		switch {
		case !known && c.h.cut(): // it may be an aborted one of another window
			c.undecided[cutPred]++
		case !known: // forgotten: it stands
			c.undecided[predUnknown]++
		case p == i:
		case c.h.ops[p].aborted:
			cell, value, direct := c.shared(i, p)
			if first.Count == 0 || direct && first.Cell == "" { // the direct one says more
				first = Finding{Kind: A3, Certain: true, Records: []uint32{i, p}, Cell: cell, Count: first.Count,
					read: value}
			}
			first.Count++
		case c.h.ops[p].writeTime > c.h.ops[i].writeTime:
			if scar.Count == 0 {
				scar = Finding{Kind: Scar, Certain: true, Records: []uint32{i, p}}
			}
			scar.Count++
		}
	}
	if first.Count > 0 {
		c.cascaded[i] = first.Records[1]
		c.find(first)
	}
	if scar.Count > 0 {
		c.scarred[i] = true
		c.find(scar)
	}
}

// shared is the cell that i read and p wrote with the same value, if there is one.
func (c *check) shared(i, p uint32) (cell string, value uint32, is bool) {
	for _, r := range c.h.readsOf(i) {
		if w, wrote := c.wrote(p, r.cell); wrote && r.value != missing && c.h.writes[w].value == r.value {
			return c.h.cells.text[r.cell], r.value, true
		}
	}
	return "", missing, false
}

// split judges A4, two reads of a cell from different replicas with different values, and A4v, the same at one
// version.
func (c *check) split() {
	byCell := slices.Clone(c.h.copies)
	slices.SortStableFunc(byCell, func(a, b copied) int { return cmp.Compare(a.cell, b.cell) })
	eachRun(byCell, func(x copied) uint32 { return x.cell }, func(reads []copied) {
		c.splitAmong(A4, reads)
		slices.SortStableFunc(reads, func(a, b copied) int { return cmp.Compare(a.version, b.version) })
		eachRun(reads, func(x copied) uint32 { return x.version }, func(reads []copied) {
			if reads[0].version != missing {
				c.splitAmong(A4v, reads)
			}
		})
	})
}

// eachRun visits the parts of a sorted list that have one key.
func eachRun[T any](sorted []T, key func(T) uint32, visit func([]T)) {
	for from := 0; from < len(sorted); {
		to := from + 1
		for to < len(sorted) && key(sorted[to]) == key(sorted[from]) {
			to++
		}
		visit(sorted[from:to])
		from = to
	}
}

// splitAmong looks for two reads that differ in replica and in value. If none differs so from the first one, each has
// its replica or its value; then two differ only if one of both sorts is there.
func (c *check) splitAmong(kind Kind, reads []copied) {
	var known []copied
	for _, r := range reads {
		if r.value != missing {
			known = append(known, r)
		}
	}
	if len(known) == 0 {
		return
	}
	first := known[0]
	var sameReplica, sameValue *copied
	for n := range known {
		r := &known[n]
		switch {
		case r.replica != first.replica && r.value != first.value:
			c.splitFound(kind, &first, r)
			return
		case r.replica == first.replica && r.value != first.value && sameReplica == nil:
			sameReplica = r
		case r.replica != first.replica && r.value == first.value && sameValue == nil:
			sameValue = r
		}
	}
	if sameReplica != nil && sameValue != nil {
		c.splitFound(kind, sameReplica, sameValue)
	}
}

func (c *check) splitFound(kind Kind, a, b *copied) {
	if b.op < a.op {
		a, b = b, a
	}
	text := c.h.places.text
	c.find(Finding{Kind: kind, Certain: true, Records: []uint32{a.op, b.op}, Cell: c.h.cells.text[a.cell],
		Cell2: text[a.replica] + " and " + text[b.replica], Count: 1, read: a.value, wrote: b.value})
}

// skew judges write skew: two operations that each overwrote what the other had read, and wrote no cell both.
func (c *check) skew() {
	if !c.backward { // one of both would have to be committed before itself
		return
	}
	all := slices.Clone(c.rw)
	slices.SortFunc(all, overwrite.compare)
	var last overwrite
	for n, e := range all {
		if e.reader >= e.writer || n > 0 && last.reader == e.reader && last.writer == e.writer {
			continue
		}
		last = e
		back, _ := slices.BinarySearchFunc(all, overwrite{reader: e.writer, writer: e.reader}, overwrite.compare)
		if back == len(all) || all[back].reader != e.writer || all[back].writer != e.reader ||
			c.meet(e.reader, e.writer) {
			continue
		}
		c.find(Finding{Kind: WriteSkew, Certain: true, Records: []uint32{e.reader, e.writer}, Count: 1,
			Cell: c.h.cells.text[e.cell], Cell2: c.h.cells.text[all[back].cell]})
	}
}

// meet reports whether two operations wrote a cell both.
func (c *check) meet(i, j uint32) bool {
	for _, w := range c.h.writesOf(i) {
		if _, both := c.wrote(j, w.cell); both {
			return true
		}
	}
	return false
}
