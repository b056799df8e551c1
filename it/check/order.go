package check

import (
	"cmp"
	"slices"
)

// AgentOrder holds that commit order extends each agent's own: what it began after it was told of a decision is
// decided later than that.
func (h *History) AgentOrder() []Violation {
	return h.inOrder("agent_order", func(a *Attempt) string { return a.Agent })
}

// RealTime holds the same across agents: what began after anybody was told of a commit is committed later than that.
func (h *History) RealTime() []Violation {
	return h.inOrder("real_time", func(*Attempt) string { return "" })
}

func (h *History) inOrder(check string, group func(*Attempt) string) []Violation {
	byGroup := map[string][]settled{}
	for _, c := range h.commits() {
		if c.Start != 0 && c.End != 0 && c.State == Committed {
			byGroup[group(c.Attempt)] = append(byGroup[group(c.Attempt)], c)
		}
	}
	var found []Violation
	for _, list := range byGroup {
		found = append(found, outOfOrder(check, list)...)
	}
	return found
}

// outOfOrder walks the attempts by their start and keeps the latest seq among those that had ended by then.
func outOfOrder(check string, list []settled) []Violation {
	byStart := slices.Clone(list)
	slices.SortFunc(byStart, func(x, y settled) int { return cmp.Compare(x.Start, y.Start) })
	byEnd := slices.Clone(list)
	slices.SortFunc(byEnd, func(x, y settled) int { return cmp.Compare(x.End, y.End) })
	var found []Violation
	var latest settled
	ended := 0
	for _, c := range byStart {
		for ; ended < len(byEnd) && byEnd[ended].End < c.Start; ended++ {
			if byEnd[ended].seq > latest.seq {
				latest = byEnd[ended]
			}
		}
		if latest.seq > c.seq {
			found = append(found, violation(check, "%s of %s began after %s of %s had ended, and has seq %d before its %d",
				c.Tx, c.Agent, latest.Tx, latest.Agent, c.seq, latest.seq))
		}
	}
	return found
}

// cluster is one value of a register: its write and the reads that returned it.
type cluster struct {
	scope     string
	version   uint64
	firstEnd  int64 // the earliest end of an operation on it
	lastStart int64 // the latest start of one
	writeFrom int64 // the start of its write; zero: the register's first value
	readEnd   int64 // the earliest end of a read of it
}

// Registers holds that each scope is a linearizable register: there is one order of its committed reads and writes
// that real time allows and in which every read returns the last write before it. Values are unique (versions are
// seqs), so the zones of Gibbons and Korach decide it: two values may not both be certainly current at one moment, and
// none may live only inside another's such time.
func (h *History) Registers() []Violation {
	var found []Violation
	byScope := map[string]map[uint64]*cluster{}
	for _, c := range h.commits() {
		if c.Start == 0 {
			continue
		}
		end := c.End
		if end == 0 || c.State == Unknown {
			end = int64(^uint64(0) >> 1) // it may have taken effect at any time since
		}
		for _, r := range c.Reads {
			of(byScope, r.Scope, r.Version).read(c.Start, end)
		}
		for _, w := range c.Writes {
			of(byScope, w.Scope, c.seq).write(c.Start, end)
		}
	}
	for _, clusters := range byScope {
		found = append(found, zones(clusters)...)
	}
	return found
}

func of(all map[string]map[uint64]*cluster, scope string, version uint64) *cluster {
	if all[scope] == nil {
		all[scope] = map[uint64]*cluster{}
	}
	c := all[scope][version]
	if c == nil {
		const never = int64(^uint64(0) >> 1)
		c = &cluster{scope: scope, version: version, firstEnd: never, readEnd: never}
		if version == 0 {
			c.firstEnd = 0 // absence was there before anybody looked
		}
		all[scope][version] = c
	}
	return c
}

func (c *cluster) read(start, end int64) {
	c.readEnd = min(c.readEnd, end)
	c.span(start, end)
}

func (c *cluster) write(start, end int64) {
	c.writeFrom = start
	c.span(start, end)
}

func (c *cluster) span(start, end int64) {
	c.firstEnd, c.lastStart = min(c.firstEnd, end), max(c.lastStart, start)
}

// forward: the value was certainly current from firstEnd to lastStart.
func (c *cluster) forward() bool { return c.firstEnd < c.lastStart }

func zones(clusters map[uint64]*cluster) []Violation {
	var found []Violation
	var sure, other []*cluster
	for _, c := range clusters {
		switch {
		case c.writeFrom > c.readEnd:
			found = append(found, violation("register", "%s: version %d was read before its write began", c.scope, c.version))
		case c.forward():
			sure = append(sure, c)
		default:
			other = append(other, c)
		}
	}
	slices.SortFunc(sure, func(x, y *cluster) int { return cmp.Compare(x.firstEnd, y.firstEnd) })
	for i := 1; i < len(sure); i++ {
		if sure[i].firstEnd < sure[i-1].lastStart {
			found = append(found, violation("register", "%s: versions %d and %d were both current at one moment",
				sure[i].scope, sure[i-1].version, sure[i].version))
		}
	}
	for _, c := range other {
		i, _ := slices.BinarySearchFunc(sure, c.lastStart, func(s *cluster, at int64) int {
			return cmp.Compare(s.firstEnd, at)
		})
		if i > 0 && c.firstEnd < sure[i-1].lastStart {
			found = append(found, violation("register", "%s: version %d lived only while %d was current",
				c.scope, c.version, sure[i-1].version))
		}
	}
	return found
}
