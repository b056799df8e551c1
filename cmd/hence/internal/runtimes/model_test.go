package runtimes_test

import (
	"slices"

	"github.com/hence-dev/hence/cmd/hence/internal/runtimes"
)

// model is what the runtimes must do, in few lines: nothing is kept but which operation is how far and since when, and
// each decision is taken from that by its definition.
type model struct {
	kind      runtimes.Kind
	ops       []shape
	state     []runtimes.State
	began     []int // clock
	committed []int
	tool      string
	pinned    []string
	from      [][]int // operations whose writes it read, direct ones
	clock     int
	asked     []int     // in the order of their begins
	deferred  [][]event // of those that wait
}

func predict(k runtimes.Kind, s schedule) *model {
	n := len(s.ops)
	m := &model{kind: k, ops: s.ops, state: make([]runtimes.State, n), began: make([]int, n), committed: make([]int, n),
		tool: "v1", pinned: make([]string, n), from: make([][]int, n), deferred: make([][]event, n)}
	for _, e := range s.events {
		m.take(e)
		m.catchUp()
	}
	for i := range m.state { // what is not over at the end is given up
		if m.state[i] == runtimes.Open || m.state[i] == runtimes.Waiting {
			m.state[i] = runtimes.Refused
		}
	}
	return m
}

func (m *model) take(e event) {
	i := e.of
	switch {
	case e.what == 't':
		m.tool = ""
	case e.what == 's':
		m.tool = "v2"
	case e.what == 'b':
		m.asked = append(m.asked, i)
		m.begin(i)
	case m.state[i] == runtimes.Waiting:
		m.deferred[i] = append(m.deferred[i], e)
	case e.what == 'c' && m.state[i] == runtimes.Open:
		m.state[i] = runtimes.Refused
		if m.may(i) {
			m.clock++
			m.state[i], m.committed[i] = runtimes.Committed, m.clock
		}
		for _, j := range m.asked {
			if m.state[j] == runtimes.Waiting {
				m.begin(j)
			}
		}
	case e.what == 'r' && m.state[i] == runtimes.Committed:
		m.state[i] = runtimes.Retracted
		for j := range m.state {
			if m.kind.Excludes().A3 && m.state[j] == runtimes.Committed && m.rests(j, i) {
				m.state[j] = runtimes.Retracted
			}
		}
	}
}

// catchUp takes what waited for a begin, as scripts do: in the order of the begins, until none can go on.
func (m *model) catchUp() {
	for moved := true; moved; {
		moved = false
		for _, i := range m.asked {
			if m.state[i] == runtimes.Waiting || m.deferred[i] == nil {
				continue
			}
			later := m.deferred[i]
			m.deferred[i], moved = nil, true
			for _, e := range later {
				m.take(e)
			}
		}
	}
}

func (m *model) locking() bool {
	return m.kind == runtimes.PessimisticDrop || m.kind == runtimes.PessimisticWait
}

func (m *model) begin(i int) {
	for j := range m.ops {
		if m.locking() && m.state[j] == runtimes.Open && m.ops[j].reads&m.ops[i].reads != 0 {
			m.state[i] = runtimes.Refused
			if m.kind == runtimes.PessimisticWait {
				m.state[i] = runtimes.Waiting
			}
			return
		}
	}
	m.state[i], m.began[i], m.pinned[i] = runtimes.Open, m.clock, m.tool
	for _, bit := range []int{1, 2} {
		if p := m.holds(bit); p >= 0 && m.ops[i].reads&bit != 0 {
			m.from[i] = append(m.from[i], p)
		}
	}
}

// holds is the operation whose write a cell holds, or -1.
func (m *model) holds(bit int) int {
	latest := -1
	for j := range m.ops {
		if m.state[j] == runtimes.Committed && m.ops[j].writes&bit != 0 &&
			(latest < 0 || m.committed[j] > m.committed[latest]) {
			latest = j
		}
	}
	return latest
}

// rests reports whether i read what p wrote, or what another one wrote that did.
func (m *model) rests(i, p int) bool {
	return slices.ContainsFunc(m.from[i], func(q int) bool { return q == p || m.rests(q, p) })
}

// may reports whether i may commit.
func (m *model) may(i int) bool {
	own := m.ops[i]
	for j, other := range m.ops {
		overtook := m.state[j] == runtimes.Committed && m.committed[j] > m.began[i] && other.writes&own.reads != 0
		switch m.kind {
		case runtimes.PessimisticDrop, runtimes.PessimisticWait:
			if j != i && m.state[j] == runtimes.Open && other.reads&own.writes != 0 {
				return false
			}
		case runtimes.Snapshot:
			if overtook && own.writes != 0 {
				return false
			}
		case runtimes.Serializable:
			if overtook {
				return false
			}
		case runtimes.Cascade:
			if overtook || m.rests(i, j) && m.state[j] == runtimes.Retracted {
				return false
			}
		case runtimes.Provenance:
			if m.rests(i, j) && m.state[j] == runtimes.Retracted {
				return false
			}
		}
	}
	return m.kind != runtimes.RegistryValidate || m.pinned[i] == "" || m.tool == m.pinned[i]
}
