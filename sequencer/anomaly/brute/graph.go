package brute

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hence-dev/hence/topology/trace"
)

// Edge is one dependency between two operations, by their positions in the history, from 0.
type Edge struct {
	From, To int
	Kind     string // "ww", "wr" or "rw"
	Cell     string
}

// writers are those of a cell that stand, in version order: by write_time, and at one time by the file.
func (h history) writers(c string) (writers []int) {
	for k := range h.records {
		if h.if_(producerStands, stands(&h.records[k])) == yes && writes(&h.records[k], c) {
			writers = append(writers, k)
		}
	}
	slices.SortStableFunc(writers, func(k, l int) int {
		return cmp.Compare(h.records[k].WriteTime, h.records[l].WriteTime)
	})
	return writers
}

// producer(i,c) is the version that i read: the latest k ∈ surv with write_time_k ≤ read_time_i, checked against the
// value. It is a position in versions[c], or -1 for what the cell held before all of them. It is not known where the
// value is another one, or missing.
func (h history) producer(i int, c string) (version int, known bool) {
	reader, versions, version := &h.records[i], h.versions[c], -1
	for at, k := range versions {
		if h.if_(producerVisible, h.records[k].WriteTime <= readAt(reader, c)) == yes {
			version = at
		}
	}
	if version < 0 {
		return version, true
	}
	wrote := h.records[versions[version]].WriteValues[c]
	return version, h.hold(producerValue, not(differ(wrote, reader.ReadValues[c]))) == yes
}

// edges are ww (consecutive versions), wr (producer → reader) and rw (reader → writer of the next version), none from
// an operation to itself.
func (h history) edges() (edges []Edge) {
	add := func(from, to int, kind, c string) {
		if h.if_(edgeOthers, from != to) == yes {
			edges = append(edges, Edge{from, to, kind, c})
		}
	}
	for _, c := range h.cells {
		versions := h.versions[c]
		for at := 1; at < len(versions); at++ {
			add(versions[at-1], versions[at], "ww", c)
		}
		for i := range h.records {
			version, known := h.producer(i, c)
			if h.if_(edgeReaderStands, stands(&h.records[i])) != yes || !reads(&h.records[i], c) || !known {
				continue
			}
			if version >= 0 {
				add(versions[version], i, "wr", c)
			}
			if version+1 < len(versions) {
				add(i, versions[version+1], "rw", c)
			}
		}
	}
	return edges
}

// Edges are the dependencies of a history: ww, wr and rw.
func Edges(h []trace.Record) []Edge { return newHistory(h, 0).edges() }

// lostUpdate: rw(i→j on c) and j's version of c lies before i's own write of c, c ∈ RS(i) ∩ WS(i) ∩ WS(j), any agents,
// any values.
func (h history) lostUpdate(edges []Edge, i, j int, c string) truth {
	mine, theirs := h.records[i].WriteTime, h.records[j].WriteTime
	return all(
		h.if_(lostRW, slices.Contains(edges, Edge{i, j, "rw", c})),
		h.if_(lostWritten, writes(&h.records[i], c)),
		h.if_(lostBefore, theirs < mine || theirs == mine && j < i),
	)
}

// writeSkew: rw(i→j on x), rw(j→i on y), WS(i) ∩ WS(j) = ∅.
func (h history) writeSkew(edges []Edge, i, j int, x, y string) truth {
	disjoint := !slices.ContainsFunc(h.cells, func(c string) bool {
		return writes(&h.records[i], c) && writes(&h.records[j], c)
	})
	return all(
		h.if_(skewForth, slices.Contains(edges, Edge{i, j, "rw", x})),
		h.if_(skewBack, slices.Contains(edges, Edge{j, i, "rw", y})),
		h.if_(skewDisjoint, disjoint),
	)
}

// nullOverwrite: a write of NULL over a non-NULL version that the writer had not read: k's is the version of c before
// i's.
func (h history) nullOverwrite(i, k int, c string) truth {
	versions := h.versions[c]
	at := slices.Index(versions, i)
	unread := yes
	if reads(&h.records[i], c) {
		if version, known := h.producer(i, c); known {
			unread = is(version < 0 || versions[version] != k)
		} else if h.records[k].WriteTime <= readAt(&h.records[i], c) &&
			differ(h.records[i].ReadValues[c], h.records[k].WriteValues[c]) != yes {
			unread = unknown // k's was visible, and its value is not another one
		}
	}
	return all(
		h.if_(nullPrevious, at > 0 && versions[at-1] == k), // so both stand and write c
		h.hold(nullValue, not(differ(h.records[i].WriteValues[c], trace.Null))),
		h.hold(nullOver, differ(h.records[k].WriteValues[c], trace.Null)),
		h.hold(nullUnread, unread),
	)
}

// dependencies of j are what preds names and the producers of its reads.
func (h history) dependencies(j int) []int {
	on := h.preds(j)
	for _, c := range h.cells {
		if version, known := h.producer(j, c); known && version >= 0 && reads(&h.records[j], c) {
			on = append(on, h.versions[c][version])
		}
	}
	return on
}

// scar (Definition 6.5 of the light cones): a stored pair with p ∈ deps*(j) and j ≺ p, ≺ the order of commits.
func (h history) scar(j, p int) truth {
	return all(
		h.if_(scarStands, stands(&h.records[j])),
		h.if_(scarBothStand, stands(&h.records[p])),
		h.if_(scarOrder, h.records[j].WriteTime < h.records[p].WriteTime),
		h.if_(scarDependency, reachable(len(h.records), h.dependencies, j)[p]),
	)
}

// Component is a strongly connected component of more than one operation.
type Component struct {
	// Records are its members, as a Finding has them.
	Records string
	// Length is how many edges a shortest cycle in it has.
	Length int
	// Kinds are those that a shortest cycle in it may have, sorted, with commas: G0 only ww, G1c ww and wr, G-single
	// one rw, G2 more. Two operations may have several edges between them, so a shortest cycle may have several.
	Kinds string
}

// String is the component as a line.
func (c Component) String() string {
	return fmt.Sprintf("component %s of cycles from %d: %s", c.Records, c.Length, c.Kinds)
}

// components are the strongly connected components of more than one operation: i and j are in one if and only if each
// can be reached from the other.
func components(n int, edges []Edge) (all [][]int) {
	next := func(i int) (to []int) {
		for _, e := range edges {
			if e.From == i {
				to = append(to, e.To)
			}
		}
		return to
	}
	reached := make([][]bool, n)
	for i := range n {
		reached[i] = reachable(n, next, i)
	}
	for i := range n {
		members := []int{}
		for j := range n {
			if j == i || reached[i][j] && reached[j][i] {
				members = append(members, j)
			}
		}
		if len(members) > 1 && members[0] == i {
			all = append(all, members)
		}
	}
	return all
}

// describe looks for the shortest cycles of a component: all paths of 2 edges that come back, then of 3, and so on.
func describe(members []int, edges []Edge) Component {
	c := Component{Records: numbers(members)}
	for c.Length = 2; c.Kinds == ""; c.Length++ {
		kinds := map[string]bool{}
		for _, from := range members {
			walk(edges, from, from, c.Length, 0, 0, kinds)
		}
		var names []string
		for kind := range kinds {
			names = append(names, kind)
		}
		slices.Sort(names)
		if c.Kinds = strings.Join(names, ","); c.Kinds != "" {
			break
		}
	}
	return c
}

// walk collects the kinds of the closed paths of a length.
func walk(edges []Edge, at, home, left, wr, rw int, kinds map[string]bool) {
	if left == 0 {
		if at == home {
			kinds[kind(wr, rw)] = true
		}
		return
	}
	for _, e := range edges {
		if e.From != at {
			continue
		}
		switch e.Kind {
		case "ww":
			walk(edges, e.To, home, left-1, wr, rw, kinds)
		case "wr":
			walk(edges, e.To, home, left-1, wr+1, rw, kinds)
		case "rw":
			walk(edges, e.To, home, left-1, wr, rw+1, kinds)
		}
	}
}

// kind: G0 only ww, G1c ww/wr, G-single one rw, G2 more.
func kind(wr, rw int) string {
	switch {
	case rw > 1:
		return "G2"
	case rw == 1:
		return "G-single"
	case wr > 0:
		return "G1c"
	}
	return "G0"
}
