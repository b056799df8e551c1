package anomaly

import (
	"cmp"
	"slices"
	"sort"
)

// versions are the standing writes of each cell in the order of their times; at one time, in that of the file.
type versions struct {
	h     *History
	order []uint32 // writes, by cell and time
	begin []uint32 // by cell: where its versions begin; one more at the end
	at    []uint32 // by write: its place in order, meaningless for aborted ones

	counted map[uint32]*counts // of cells that were asked for much
	// least is how many versions are looked at one by one before counting pays.
	least int
}

func versionsOf(h *History) *versions {
	v := &versions{h: h, begin: make([]uint32, len(h.cells.text)+1), at: make([]uint32, len(h.writes)),
		counted: map[uint32]*counts{}}
	for _, w := range h.writes {
		if !h.ops[w.op].aborted {
			v.begin[w.cell+1]++
		}
	}
	for cell := range h.cells.text {
		v.begin[cell+1] += v.begin[cell]
	}
	v.order = make([]uint32, v.begin[len(v.begin)-1])
	next := slices.Clone(v.begin)
	for i, w := range h.writes { // in the order of the file, which the sort keeps
		if !h.ops[w.op].aborted {
			v.order[next[w.cell]] = uint32(i)
			next[w.cell]++
		}
	}
	for cell := range h.cells.text {
		mine := v.order[v.begin[cell]:v.begin[cell+1]]
		later := func(a, b uint32) int { return cmp.Compare(v.timeOf(a), v.timeOf(b)) }
		if !slices.IsSortedFunc(mine, later) {
			slices.SortStableFunc(mine, later)
		}
	}
	for place, w := range v.order {
		v.at[w] = uint32(place)
	}
	return v
}

func (v *versions) timeOf(w uint32) uint64 { return v.h.ops[v.h.writes[w].op].writeTime }

// upTo is the place behind the last version of a cell at or before a time.
func (v *versions) upTo(cell uint32, time uint64) int {
	from, to := int(v.begin[cell]), int(v.begin[cell+1])
	return from + sort.Search(to-from, func(n int) bool { return v.timeOf(v.order[from+n]) > time })
}

// overtaken is what happened to a cell between two times, as seen by one who read a value of it.
type overtaken struct {
	first  uint32 // place of the first version of another agent with another value
	others int    // such versions
	own    int    // versions of the same agent with another value
	blank  int    // versions of other agents whose value is not recorded
}

// between counts the versions of places from to to as one reader sees them.
func (v *versions) between(cell uint32, from, to int, agent, value uint32) (o overtaken) {
	if to-from <= v.least {
		for place := from; place < to; place++ {
			w := v.h.writes[v.order[place]]
			switch same := v.h.ops[w.op].agent == agent; {
			case same && w.value != value && w.value != missing && value != missing:
				o.own++
			case same || w.value == value && value != missing:
			case w.value == missing || value == missing:
				o.blank++
			default:
				if o.others == 0 {
					o.first = uint32(place)
				}
				o.others++
			}
		}
		return o
	}
	c := v.counts(cell)
	mine, blank, mineBlank := c.agent(agent, from, to), c.value(missing, from, to), c.both(agent, missing, from, to)
	if value == missing {
		o.blank = to - from - mine
		return o
	}
	others := func(end int) int {
		return end - from - c.agent(agent, from, end) - c.value(value, from, end) - c.value(missing, from, end) +
			c.both(agent, value, from, end) + c.both(agent, missing, from, end)
	}
	o.own = mine - mineBlank - c.both(agent, value, from, to)
	o.blank = blank - mineBlank
	if o.others = others(to); o.others > 0 {
		o.first = uint32(from + sort.Search(to-from, func(n int) bool { return others(from+n+1) > 0 }))
	}
	return o
}

// counts has the places of a cell's versions by agent, by value and by both, so that a range of them is counted with
// two searches, however long it is.
type counts struct {
	agents, values map[uint32][]uint32
	pairs          map[uint64][]uint32
}

func (v *versions) counts(cell uint32) *counts {
	if c := v.counted[cell]; c != nil {
		return c
	}
	c := &counts{agents: map[uint32][]uint32{}, values: map[uint32][]uint32{}, pairs: map[uint64][]uint32{}}
	for place := v.begin[cell]; place < v.begin[cell+1]; place++ {
		w := v.h.writes[v.order[place]]
		agent := v.h.ops[w.op].agent
		c.agents[agent] = append(c.agents[agent], place)
		c.values[w.value] = append(c.values[w.value], place)
		pair := uint64(agent)<<32 | uint64(w.value)
		c.pairs[pair] = append(c.pairs[pair], place)
	}
	v.counted[cell] = c
	return c
}

func (c *counts) agent(agent uint32, from, to int) int { return within(c.agents[agent], from, to) }
func (c *counts) value(value uint32, from, to int) int { return within(c.values[value], from, to) }
func (c *counts) both(agent, value uint32, from, to int) int {
	return within(c.pairs[uint64(agent)<<32|uint64(value)], from, to)
}

// within counts the places of an ascending list that are in a range.
func within(places []uint32, from, to int) int {
	low, _ := slices.BinarySearch(places, uint32(from))
	high, _ := slices.BinarySearch(places, uint32(to))
	return high - low
}
