package brute

import (
	"slices"
	"strconv"

	"github.com/hence-dev/hence/topology/trace"
)

// World is a finite set of histories: all that its bounds allow.
type World struct {
	// Bounds says in a line what varies, and how far.
	Bounds string
	// Count is how many histories there are, At(0) to At(Count-1).
	Count int
	// At makes a new copy of one of them.
	At func(index int) []trace.Record
}

// Worlds are the sets of all histories that the predicates are compared on: some 91,000, or 700,000 large ones. Each
// lets the fields of some predicates take all values together, and leaves the others harmless.
func Worlds(large bool) []World {
	worlds := []World{tools(), effects(), replicas(large), lies(large), overlaps(large), footprints(), apart(large),
		provenance(large), backwards(large)}
	if large {
		worlds = append(worlds, chains())
	}
	return worlds
}

// choice picks one of base possibilities, from 0.
type choice func(base int) int

// world counts the histories of a maker by letting it make one: the product of all bases that it asks for. A maker
// asks for the same bases each time.
func world(bounds string, build func(choice) []trace.Record) World {
	count := 1
	build(func(base int) int {
		count *= base
		return 0
	})
	return World{Bounds: bounds, Count: count, At: func(index int) []trace.Record {
		return build(func(base int) int {
			digit := index % base
			index /= base
			return digit
		})
	}}
}

// of chooses an element.
func of[T any](choose choice, from ...T) T { return from[choose(len(from))] }

// quiet is a record that has all optional fields, of which none makes a finding.
func quiet(number int, agent string) trace.Record {
	return trace.Record{
		Txn: txn(number), Agent: agent, ReadSet: []string{}, WriteSet: []string{},
		ReadValues: map[string]trace.Value{}, WriteValues: map[string]trace.Value{}, PlannedTool: trace.Plan(""),
		IO: []trace.Effect{}, CO: []trace.Effect{}, Preds: []trace.ID{},
		Replica: trace.PerCell[string]{"x": "p", "y": "p", "z": "p"},
	}
}

func txn(number int) trace.ID { return trace.ID("t" + strconv.Itoa(number)) }

// read gives a record a read of a cell; the value missing leaves read_values without it.
func read(r *trace.Record, c string, v trace.Value) {
	r.ReadSet = append(r.ReadSet, c)
	if v != missing {
		r.ReadValues[c] = v
	}
}

// write is read, for writes.
func write(r *trace.Record, c string, v trace.Value) {
	r.WriteSet = append(r.WriteSet, c)
	if v != missing {
		r.WriteValues[c] = v
	}
}

// untouched is a value that the choice of a footprint takes for: this cell is not in the set.
const untouched trace.Value = "untouched"

// touch chooses whether a record reads or writes a cell, and which value.
func touch(choose choice, r *trace.Record, into func(*trace.Record, string, trace.Value), c string,
	values ...trace.Value,
) {
	if v := of(choose, append([]trace.Value{untouched}, values...)...); v != untouched {
		into(r, c, v)
	}
}

// aborted chooses among the three states of the field.
func aborted(choose choice) *bool {
	taken, stood := true, false
	return of(choose, nil, &taken, &stood)
}

// tools: what A2 asks of a record.
func tools() World {
	lists := [][]string{nil, {}, {"t"}, {"u"}}
	return world("1 record: planned tool t, none, absent; registries at read and write and tools used {} {t} {u} "+
		"absent; signatures at read and write {} t t' absent; aborted, not, absent",
		func(choose choice) []trace.Record {
			r := quiet(1, "a")
			r.PlannedTool = of(choose, trace.Planned{}, trace.Plan(""), trace.Plan("t"))
			r.ToolsVisibleAtRead, r.ToolsVisibleAtWrite = of(choose, lists...), of(choose, lists...)
			r.ToolsUsed = of(choose, lists...)
			r.ToolSignaturesAtRead = of(choose, nil, map[string]string{}, map[string]string{"t": "s"})
			r.ToolSignaturesAtWrite = of(choose, nil, map[string]string{}, map[string]string{"t": "s"},
				map[string]string{"t": "s'"})
			r.Aborted, r.WriteTime = aborted(choose), 1
			return []trace.Record{r}
		})
}

// effects: what A6 asks of a record.
func effects() World {
	kinds := []trace.Effect{{Cell: "x", Value: "1"}, {Cell: "x", Value: "2"}, {Cell: "y", Value: "1"}}
	orders := [][]trace.Effect{nil, {}}
	for at := 1; at < len(orders) && len(orders[at]) < 3; at++ {
		for _, e := range kinds {
			orders = append(orders, append(slices.Clone(orders[at]), e))
		}
	}
	return world("1 record: io and co all sequences of up to 3 of 3 effects, and absent; aborted, not",
		func(choose choice) []trace.Record {
			r := quiet(1, "a")
			r.IO, r.CO = of(choose, orders...), of(choose, orders...)
			taken := true
			r.Aborted, r.WriteTime = of(choose, nil, &taken), 1
			return []trace.Record{r}
		})
}

// replicas: what A4 asks of reads.
func replicas(large bool) World {
	n, versions := 2, []trace.PerCell[trace.Value]{nil, {"x": "1"}, {"x": "2"}}
	bounds := "2 reads of one cell: versions 1 2 absent"
	if large {
		n, versions = 3, versions[:2]
		bounds = "3 reads of one cell: versions 1 absent"
	}
	return world(bounds+"; values NULL 1 2 missing; replicas p q absent; aborted, not",
		func(choose choice) (h []trace.Record) {
			for i := range n {
				r := quiet(i+1, "a")
				read(&r, "x", of(choose, trace.Null, "1", "2", missing))
				r.Replica = of(choose, nil, trace.PerCell[string]{"x": "p"}, trace.PerCell[string]{"x": "q"})
				taken := true
				r.Version, r.Aborted = of(choose, versions...), of(choose, nil, &taken)
				r.WriteTime = uint64(i + 1)
				h = append(h, r)
			}
			return h
		})
}

// lies: two records about one cell at any times, in agreement with nothing.
func lies(large bool) World {
	values, bounds := []trace.Value{trace.Null, "1"}, "values NULL 1"
	if large {
		values, bounds = []trace.Value{trace.Null, "1", missing}, "values NULL 1 missing; the last one aborted, not"
	}
	return world("2 records of 2 agents, one cell, no preds: read, written or not; read at 0 to 2, written at 0 to 2; "+
		bounds,
		func(choose choice) (h []trace.Record) {
			for i := range 2 {
				r := quiet(i+1, "a")
				if i > 0 {
					r.Agent = of(choose, "a", "b")
				}
				r.Preds = nil
				touch(choose, &r, read, "x", values...)
				touch(choose, &r, write, "x", values...)
				r.ReadTime, r.WriteTime = uint64(choose(3)), uint64(choose(3))
				if taken := true; large && i > 0 {
					r.Aborted = of(choose, nil, &taken)
				}
				h = append(h, r)
			}
			return h
		})
}

// overlaps: three records about one cell that overlap in each way.
func overlaps(large bool) World {
	agents, values, bounds := []string{"aba", "abb", "abc"}, []trace.Value{trace.Null, "1"}, "values NULL 1"
	taken, fates := true, []*bool{nil}
	if large {
		values, fates, bounds = append(values, "2"), append(fates, &taken), "values NULL 1 2; the first one aborted, not"
	}
	return world("3 records of 2 or 3 agents, one cell, no preds: read, written or not; written at 1, 2, 3, read at any "+
		"time before; "+bounds,
		func(choose choice) (h []trace.Record) {
			names := of(choose, agents...)
			for i := range 3 {
				r := quiet(i+1, names[i:i+1])
				r.Preds = nil
				touch(choose, &r, read, "x", values...)
				touch(choose, &r, write, "x", values...)
				r.WriteTime = uint64(i + 1)
				r.ReadTime = uint64(choose(i + 1))
				if i == 0 {
					r.Aborted = of(choose, fates...)
				}
				h = append(h, r)
			}
			return h
		})
}

// footprints: three records that read truly what was there, over two cells, in each overlap.
func footprints() World {
	return world("3 records of 3 agents, 2 cells: each read, written or not, own values, true reads; written at 1, 2, "+
		"3, read at any time before",
		func(choose choice) (h []trace.Record) {
			for i := range 3 {
				r := quiet(i+1, string(rune('a'+i)))
				r.WriteTime = uint64(i + 1)
				r.ReadTime = uint64(choose(i + 1))
				for _, c := range []string{"x", "y"} {
					touch(choose, &r, read, c, shown(h, c, r.ReadTime))
					touch(choose, &r, write, c, trace.Value(strconv.Itoa(i+1)))
				}
				h = append(h, r)
			}
			return h
		})
}

// apart: records that read their two cells each at a time of its own, and what was there then.
func apart(large bool) World {
	bounds := "the first one only writes, the last one"
	if large {
		bounds = "each"
	}
	return world("3 records of 3 agents, 2 cells: each read, written or not, own values, true reads; written at 1, 2, "+
		"3; "+bounds+" reads each cell at any time before",
		func(choose choice) (h []trace.Record) {
			for i := range 3 {
				r := quiet(i+1, string(rune('a'+i)))
				r.WriteTime = uint64(i + 1)
				r.ReadTime = uint64(choose(i + 1))
				for _, c := range []string{"x", "y"} {
					at := r.ReadTime
					if c == "y" && (large || i == 2) {
						at = uint64(choose(i + 1))
						r.ReadTimes = map[string]uint64{c: at}
					}
					if large || i > 0 {
						touch(choose, &r, read, c, shown(h, c, at))
					}
					touch(choose, &r, write, c, trace.Value(strconv.Itoa(i+1)))
				}
				h = append(h, r)
			}
			return h
		})
}

// chains: four records, for longer cycles.
func chains() World {
	shapes := []struct{ reads, writes string }{{"x", ""}, {"", "x"}, {"x", "x"}, {"x", "y"}, {"y", "x"},
		{"z", "x"}, {"y", "z"}}
	return world("4 records of 4 agents, 3 cells: 7 footprints, own values, true reads; written at 1 to 4, read at any "+
		"time before",
		func(choose choice) (h []trace.Record) {
			for i := range 4 {
				r, shape := quiet(i+1, string(rune('a'+i))), of(choose, shapes...)
				r.WriteTime = uint64(i + 1)
				r.ReadTime = uint64(choose(i + 1))
				for _, c := range shape.reads {
					read(&r, string(c), shown(h, string(c), r.ReadTime))
				}
				for _, c := range shape.writes {
					write(&r, string(c), trace.Value(strconv.Itoa(i+1)))
				}
				h = append(h, r)
			}
			return h
		})
}

// shown is what a store shows of a cell at a time.
func shown(h []trace.Record, c string, at uint64) trace.Value {
	v := trace.Null
	for i := range h {
		if stands(&h[i]) && writes(&h[i], c) && h[i].WriteTime <= at {
			v = h[i].WriteValues[c]
		}
	}
	return v
}

// provenance: preds in each shape, circles and later ones too, in each order of commits.
func provenance(large bool) World {
	orders := [][]uint64{{1, 2, 3}, {2, 1, 3}, {3, 2, 1}}
	bounds := "orders of commits abc bac cba; preds any of the others, absent; aborted, not"
	if large {
		orders = append(orders, []uint64{1, 3, 2}, []uint64{2, 3, 1}, []uint64{3, 1, 2}, []uint64{1, 1, 2})
		bounds = "all orders of commits, and two at once; preds any of the others and a forgotten one, absent; aborted, " +
			"not, absent"
	}
	return world("3 records, the last two read what the first wrote: "+bounds,
		func(choose choice) (h []trace.Record) {
			times := of(choose, orders...)
			for i := range 3 {
				r := quiet(i+1, string(rune('a'+i)))
				r.WriteTime, r.ReadTime = times[i], times[i]-1
				if i == 0 {
					write(&r, "x", "1")
				} else {
					read(&r, "x", "1")
				}
				one, two := txn((i+1)%3+1), txn((i+2)%3+1)
				lists := [][]trace.ID{nil, {}, {one}, {two}, {one, two}}
				taken := true
				if large {
					lists = append(lists, []trace.ID{"gone"}, []trace.ID{"gone", one}, []trace.ID{two, "gone", "gone"})
					r.Preds, r.Aborted = of(choose, lists...), aborted(choose)
				} else {
					r.Preds, r.Aborted = of(choose, lists...), of(choose, nil, &taken)
				}
				h = append(h, r)
			}
			return h
		})
}

// backwards: two records over two cells whose times may run backwards, so that each depends on the other by reads.
func backwards(large bool) World {
	times, bounds := 2, "read at 0 or 1, written at 0 or 1"
	if large {
		times, bounds = 3, "read at 0 to 2, written at 0 to 2"
	}
	return world("2 records of one agent, 2 cells: each read, written or not, one value; "+bounds,
		func(choose choice) (h []trace.Record) {
			for i := range 2 {
				r := quiet(i+1, "a")
				for _, c := range []string{"x", "y"} {
					touch(choose, &r, read, c, "1")
					touch(choose, &r, write, c, "1")
				}
				r.ReadTime, r.WriteTime = uint64(choose(times)), uint64(choose(times))
				h = append(h, r)
			}
			return h
		})
}
