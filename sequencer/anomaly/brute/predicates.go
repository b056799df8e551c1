package brute

import (
	"slices"

	"github.com/hence-dev/hence/topology/trace"
)

// truth is yes, no, or unknown where a record lacks a field. Its order is that of the connective: all takes the least.
type truth int8

const (
	no truth = iota - 1
	unknown
	yes
)

func is(b bool) truth {
	if b {
		return yes
	}
	return no
}

func not(t truth) truth { return -t }

func all(conjuncts ...truth) truth { return slices.Min(conjuncts) }

// conjunct names one conjunct of a predicate, so that a test can drop it.
type conjunct int

const (
	_ conjunct = iota
	staleReaderStands
	staleWriterStands
	staleAgents
	staleRead
	staleWritten
	staleAfterRead
	staleBeforeWrite
	staleValues
	staleOwnAgent
	phantomStands
	phantomPlanned
	phantomAtRead
	phantomAtWrite
	phantomUnused
	signatureStands
	signaturePinned
	signatureOther
	cascadeStands
	cascadePred
	cascadeAborted
	residueStands
	residueFlat
	residueRead
	residueNotNull
	residueWriterStands
	residueOther
	residueWritten
	residueBefore
	residueValue
	splitStands
	splitRead
	splitReplicas
	splitValues
	splitVersions
	reorderingStands
	reorderingTwo
	reorderingDiffers
	reorderingPermutation
	effectsStand
	effectsPermutation
	producerStands
	producerVisible
	producerValue
	edgeReaderStands
	edgeOthers
	lostRW
	lostWritten
	lostBefore
	skewForth
	skewBack
	skewDisjoint
	nullValue
	nullPrevious
	nullOver
	nullUnread
	scarStands
	scarBothStand
	scarDependency
	scarOrder
	conjuncts // how many there are
)

// hold is the truth of a conjunct.
func (h history) hold(c conjunct, t truth) truth {
	if c == h.dropped {
		return yes
	}
	return t
}

// if_ is hold of what is known.
func (h history) if_(c conjunct, b bool) truth { return h.hold(c, is(b)) }

// stands: surv(h) has the records with aborted false, and all records where the field is absent.
func stands(r *trace.Record) bool { return r.Aborted == nil || !*r.Aborted }

func reads(r *trace.Record, c string) bool  { return slices.Contains(r.ReadSet, c) }
func writes(r *trace.Record, c string) bool { return slices.Contains(r.WriteSet, c) }

// readAt is read_time_i of a cell: of those in read_times, which the paper's records lack, the one that stands there.
func readAt(r *trace.Record, c string) uint64 {
	if at, own := r.ReadTimes[c]; own {
		return at
	}
	return r.ReadTime
}

// missing is a value that the file does not have. No value is spelled so.
const missing trace.Value = ""

// differ: v ≠ w, unknown where one is missing.
func differ(v, w trace.Value) truth {
	if v == missing || w == missing {
		return unknown
	}
	return is(v != w)
}

// staleness is Definition 1 but for the agents: c ∈ RS(i) ∩ WS(j), read_time_i < write_time_j < write_time_i and
// read_i[c] ≠ write_j[c].
func (h history) staleness(i, j int, c string) truth {
	a, b := &h.records[i], &h.records[j]
	return all(
		h.if_(staleReaderStands, stands(a)),
		h.if_(staleWriterStands, stands(b)),
		h.if_(staleRead, reads(a, c)),
		h.if_(staleWritten, writes(b, c)),
		h.if_(staleAfterRead, readAt(a, c) < b.WriteTime),
		h.if_(staleBeforeWrite, b.WriteTime < a.WriteTime),
		h.hold(staleValues, differ(a.ReadValues[c], b.WriteValues[c])),
	)
}

// stale, A1 (Definition 1): ∃ i ≠ j, agent_i ≠ agent_j, c ∈ RS(i) ∩ WS(j): read_time_i < write_time_j < write_time_i ∧
// read_i[c] ≠ write_j[c].
func (h history) stale(i, j int, c string) truth {
	return all(
		is(i != j), // follows from the times
		h.if_(staleAgents, h.records[i].Agent != h.records[j].Agent),
		h.staleness(i, j, c),
	)
}

// staleOwn: "self-agent counted apart, not as A1" (trap 1).
func (h history) staleOwn(i, j int, c string) truth {
	return all(
		is(i != j), // follows from the times
		h.if_(staleOwnAgent, h.records[i].Agent == h.records[j].Agent),
		h.staleness(i, j, c),
	)
}

// has: tool ∈ registry, unknown where the file has no registry, or does not say which tool.
func has(registry []string, tool trace.Planned) truth {
	if registry == nil || !tool.Known {
		return unknown
	}
	return is(slices.Contains(registry, tool.Tool))
}

// registry is the list of tools, or else the names in the list of signatures; nil where the file has neither.
func registry(list []string, signatures map[string]string) []string {
	if list != nil || signatures == nil {
		return list
	}
	names := []string{}
	for name := range signatures {
		names = append(names, name)
	}
	return names
}

// phantom, A2 (Definition 2): ∃ i: planned_i ≠ NULL ∧ planned_i ∈ registry_at_read_i ∧ planned_i ∉
// registry_at_write_i. Without the registry at write the proxy "visible at read and not in tools_used", possible.
func (h history) phantom(i int) (there bool, sure Sure) {
	r := &h.records[i]
	planned := unknown
	if r.PlannedTool.Known {
		planned = is(r.PlannedTool.Tool != "")
	}
	atWrite := registry(r.ToolsVisibleAtWrite, r.ToolSignaturesAtWrite)
	before := all(
		h.if_(phantomStands, stands(r)),
		h.hold(phantomPlanned, planned),
		h.hold(phantomAtRead, has(registry(r.ToolsVisibleAtRead, r.ToolSignaturesAtRead), r.PlannedTool)),
	)
	defined := all(before, h.hold(phantomAtWrite, not(has(atWrite, r.PlannedTool))))
	if atWrite != nil {
		return defined != no, map[truth]Sure{yes: Certain, unknown: Undecidable}[defined]
	}
	// "without tools_visible_at_write: visible at read and not used" (issue 17, item 2): this is the predicate then, so
	// what was used is clean
	proxy := all(before, h.hold(phantomUnused, not(has(r.ToolsUsed, r.PlannedTool))))
	return proxy != no, map[truth]Sure{yes: Possible, unknown: Undecidable}[proxy]
}

// phantomSignature (the model of L4): the planned tool is, against the registry at write, either absent or of another
// signature than the one pinned at read. Asked only where both lists of signatures are given.
func (h history) phantomSignature(i int) truth {
	r := &h.records[i]
	pinned, isPinned := r.ToolSignaturesAtRead[r.PlannedTool.Tool]
	now, there := r.ToolSignaturesAtWrite[r.PlannedTool.Tool]
	return all(
		h.if_(signatureStands, stands(r)),
		is(r.ToolSignaturesAtWrite != nil),
		h.if_(signaturePinned, isPinned && r.PlannedTool.Tool != ""),
		h.if_(signatureOther, !there || now != pinned),
	)
}

// preds has the positions of the records that preds of j names.
func (h history) preds(j int) (at []int) {
	for p := range h.records {
		if id := h.records[p].Txn; id != "" && slices.Contains(h.records[j].Preds, id) {
			at = append(at, p)
		}
	}
	return at
}

// forgotten counts names in preds of j that no record has: "unknown pred ids stand, and are counted" (trap 18).
func (h history) forgotten(j int) (n int) {
	if !stands(&h.records[j]) {
		return 0
	}
	for at, id := range h.records[j].Preds {
		known := slices.ContainsFunc(h.records, func(r trace.Record) bool { return r.Txn == id })
		if !known && !slices.Contains(h.records[j].Preds[:at], id) {
			n++
		}
	}
	return n
}

// cascade, A3 (Definition 3): ∃ j, p: ¬aborted_j ∧ p ∈ preds_j ∧ aborted_p.
func (h history) cascade(j, p int) truth {
	return all(
		h.if_(cascadeStands, stands(&h.records[j])),
		h.if_(cascadePred, slices.Contains(h.preds(j), p)),
		h.if_(cascadeAborted, !stands(&h.records[p])),
	)
}

// cascadeFar is Definition 3 with the causal closure, where the file has direct preds only: what only the closure adds
// (trap 18: "some witness exists iff one exists with the closure, but the set differs").
func (h history) cascadeFar(j, p int) truth {
	return all(
		h.if_(cascadeStands, stands(&h.records[j])),
		h.if_(cascadePred, reachable(len(h.records), h.preds, j)[p] && !slices.Contains(h.preds(j), p)),
		h.if_(cascadeAborted, !stands(&h.records[p])),
	)
}

// reachable has true for whatever can be reached from one position in one step or more.
func reachable(n int, next func(int) []int, from int) []bool {
	reached := make([]bool, n)
	todo := next(from)
	for len(todo) > 0 {
		at := todo[0]
		todo = todo[1:]
		if !reached[at] {
			reached[at] = true
			todo = append(todo, next(at)...)
		}
	}
	return reached
}

// residue: ∃ j ∈ surv, c ∈ RS(j), v = read_j[c] ≠ NULL: no k ∈ surv, k ≠ j with c ∈ WS(k), write_time_k ≤ read_time_j,
// write_k[c] = v.
func (h history) residue(j int, c string) truth {
	reader := &h.records[j]
	conjuncts := []truth{
		h.if_(residueStands, stands(reader)),
		h.if_(residueRead, reads(reader, c)),
		h.hold(residueNotNull, differ(reader.ReadValues[c], trace.Null)),
	}
	for k := range h.records {
		writer := &h.records[k]
		conjuncts = append(conjuncts, not(all(
			h.if_(residueWriterStands, stands(writer)),
			h.if_(residueOther, k != j),
			h.if_(residueWritten, writes(writer, c)),
			h.if_(residueBefore, writer.WriteTime <= readAt(reader, c)),
			h.hold(residueValue, not(differ(writer.WriteValues[c], reader.ReadValues[c]))),
		)))
	}
	return all(conjuncts...)
}

// residueWithoutPreds: "with provenance use A3 only; residue is possible" (trap 2).
func (h history) residueWithoutPreds(j int, c string) truth {
	return all(h.if_(residueFlat, h.records[j].Preds == nil), h.residue(j, c))
}

// splitView, A4: two reads of one cell, different replicas, different values.
func (h history) splitView(i, j int, c string) truth {
	a, b := &h.records[i], &h.records[j]
	replicaA, knownA := a.Replica[c]
	replicaB, knownB := b.Replica[c]
	replicas := unknown
	if knownA && knownB {
		replicas = is(replicaA != replicaB)
	}
	return all(
		h.if_(splitStands, stands(a) && stands(b)),
		h.if_(splitRead, reads(a, c) && reads(b, c)),
		h.hold(splitReplicas, replicas),
		h.hold(splitValues, differ(a.ReadValues[c], b.ReadValues[c])),
	)
}

// splitVersion, A4v: the same with the same version.
func (h history) splitVersion(i, j int, c string) truth {
	a, b := &h.records[i], &h.records[j]
	return all(h.splitView(i, j, c), h.hold(splitVersions, not(differ(a.Version[c], b.Version[c]))))
}

// permutation: co is a permutation of io as a multiset.
func permutation(io, co []trace.Effect) bool {
	if len(io) != len(co) {
		return false
	}
	count := func(in []trace.Effect, e trace.Effect) (n int) {
		for _, other := range in {
			if other == e {
				n++
			}
		}
		return n
	}
	for _, e := range io {
		if count(io, e) != count(co, e) {
			return false
		}
	}
	return true
}

// orders gives what A6 asks of io and co, unknown where the file lacks one. "write_set and write_values are derived
// from co" (3.5): what wrote nothing has no effects, also where the file has no co; and a permutation of two or more
// has as many.
func orders(r *trace.Record) (two, differs, permuted truth) {
	if r.CO == nil && len(r.WriteSet) == 0 || r.CO != nil && r.IO == nil && len(r.CO) < 2 {
		return no, no, unknown
	}
	if r.IO != nil {
		two = is(len(r.IO) >= 2)
	}
	if r.IO != nil && r.CO != nil {
		differs, permuted = is(!slices.Equal(r.IO, r.CO)), is(permutation(r.IO, r.CO))
	}
	return two, differs, permuted
}

// reordering, A6 (Definition 4): ∃ i: |io_i| ≥ 2 ∧ co_i ≠ io_i ∧ co_i is a permutation of io_i as a multiset.
func (h history) reordering(i int) truth {
	two, differs, permuted := orders(&h.records[i])
	return all(
		h.if_(reorderingStands, stands(&h.records[i])),
		h.hold(reorderingTwo, two), // follows from the two others
		h.hold(reorderingDiffers, differs),
		h.hold(reorderingPermutation, permuted),
	)
}

// effects: co is not a permutation of io (not A6). Asked only where the file has both.
func (h history) effects(i int) truth {
	r := &h.records[i]
	_, _, permuted := orders(r)
	return all(
		h.if_(effectsStand, stands(r)),
		is(r.IO != nil && r.CO != nil),
		h.hold(effectsPermutation, not(permuted)),
	)
}

// gapRead: a cell of the read set without an entry in read_values: "the gap is reported".
func (h history) gapRead(i int, c string) truth {
	r := &h.records[i]
	return all(is(stands(r)), is(reads(r, c)), is(r.ReadValues[c] == missing))
}

// gapWritten: a cell of the write set without an entry in write_values.
func (h history) gapWritten(i int, c string) truth {
	r := &h.records[i]
	return all(is(stands(r)), is(writes(r, c)), is(r.WriteValues[c] == missing))
}
