package schedules

import (
	"fmt"
	"slices"

	"github.com/hence-dev/hence/cmd/hence/internal/runtimes"
	"github.com/hence-dev/hence/cmd/hence/internal/scenarios"
	"github.com/hence-dev/hence/topology/trace"
)

// Model is what the runtimes must do, in few lines: nothing is kept but which operation is how far and since when, and
// each decision is taken from that by its definition.
type Model struct {
	kind      runtimes.Kind
	ops       []Shape
	state     []runtimes.State
	began     []int // clock
	committed []int
	tool      string
	pinned    []string
	from      [][]int // operations whose writes it read, direct ones
	clock     int
	asked     []int     // in the order of their begins
	deferred  [][]Event // of those that wait
}

// Predict is what a runtime of a kind must make of a schedule.
func Predict(k runtimes.Kind, s Schedule) *Model {
	n := len(s.Ops)
	m := &Model{kind: k, ops: s.Ops, state: make([]runtimes.State, n), began: make([]int, n), committed: make([]int, n),
		tool: "v1", pinned: make([]string, n), from: make([][]int, n), deferred: make([][]Event, n)}
	for _, e := range s.Events {
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

func (m *Model) take(e Event) {
	i := e.Of
	switch {
	case e.What == 't':
		m.tool = ""
	case e.What == 's':
		m.tool = "v2"
	case e.What == 'b':
		m.asked = append(m.asked, i)
		m.begin(i)
	case m.state[i] == runtimes.Waiting:
		m.deferred[i] = append(m.deferred[i], e)
	case e.What == 'c' && m.state[i] == runtimes.Open:
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
	case e.What == 'r' && m.state[i] == runtimes.Committed:
		m.state[i] = runtimes.Retracted
		for j := range m.state {
			if m.kind.Excludes().A3 && m.state[j] == runtimes.Committed && m.rests(j, i) {
				m.state[j] = runtimes.Retracted
			}
		}
	}
}

// catchUp takes what waited for a begin, as scripts do: in the order of the begins, until none can go on.
func (m *Model) catchUp() {
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

func (m *Model) locking() bool {
	return m.kind == runtimes.PessimisticDrop || m.kind == runtimes.PessimisticWait
}

func (m *Model) begin(i int) {
	for j := range m.ops {
		if m.locking() && m.state[j] == runtimes.Open && m.ops[j].Reads&m.ops[i].Reads != 0 {
			m.state[i] = runtimes.Refused
			if m.kind == runtimes.PessimisticWait {
				m.state[i] = runtimes.Waiting
			}
			return
		}
	}
	m.state[i], m.began[i], m.pinned[i] = runtimes.Open, m.clock, m.tool
	for _, bit := range []int{1, 2} {
		if p := m.holds(bit); p >= 0 && m.ops[i].Reads&bit != 0 {
			m.from[i] = append(m.from[i], p)
		}
	}
}

// holds is the operation whose write a cell holds, or -1.
func (m *Model) holds(bit int) int {
	latest := -1
	for j := range m.ops {
		if m.state[j] == runtimes.Committed && m.ops[j].Writes&bit != 0 &&
			(latest < 0 || m.committed[j] > m.committed[latest]) {
			latest = j
		}
	}
	return latest
}

// rests reports whether i read what p wrote, or what another one wrote that did.
func (m *Model) rests(i, p int) bool {
	return slices.ContainsFunc(m.from[i], func(q int) bool { return q == p || m.rests(q, p) })
}

// may reports whether i may commit.
func (m *Model) may(i int) bool {
	own := m.ops[i]
	for j, other := range m.ops {
		overtook := m.state[j] == runtimes.Committed && m.committed[j] > m.began[i] && other.Writes&own.Reads != 0
		switch m.kind {
		case runtimes.PessimisticDrop, runtimes.PessimisticWait:
			if j != i && m.state[j] == runtimes.Open && other.Reads&own.Writes != 0 {
				return false
			}
		case runtimes.Snapshot:
			if overtook && own.Writes != 0 {
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

// Differs says how what a runtime did differs from what it must do; empty: in nothing.
func (m *Model) Differs(r *scenarios.Result) string {
	for i := range r.Records {
		if what := m.differs(&r.Records[i]); what != "" {
			return what
		}
	}
	for i, cell := range []string{"x", "y"} {
		if want := m.value(m.holds(1 << i)); r.Final[cell] != want && (want != trace.Null || r.Final[cell] != "") {
			return fmt.Sprintf("%s is %s at the end, by the model %s", cell, r.Final[cell], want)
		}
	}
	return ""
}

func (m *Model) value(op int) trace.Value {
	if op < 0 {
		return trace.Null
	}
	return trace.Text(Name(op))
}

// differs says how a record differs from what the model knows of its operation.
func (m *Model) differs(rec *trace.Record) string {
	i := int(rec.Txn[2] - '0')
	if state := m.state[i]; rec.TookEffect() != (state == runtimes.Committed) ||
		!rec.TookEffect() && (rec.WriteTime > 0) != (state == runtimes.Retracted) {
		return fmt.Sprintf("%s took effect: %v at %d, by the model it is %s", rec.Txn, rec.TookEffect(), rec.WriteTime,
			state)
	}
	if rec.WriteTime == 0 {
		return ""
	}
	if int(rec.ReadTime) != m.began[i] || int(rec.WriteTime) != m.committed[i] {
		return fmt.Sprintf("%s read at %d and wrote at %d, by the model at %d and %d", rec.Txn, rec.ReadTime,
			rec.WriteTime, m.began[i], m.committed[i])
	}
	for _, cell := range rec.ReadSet {
		from := -1
		for _, p := range m.from[i] {
			if slices.Contains(cells(m.ops[p].Writes), cell) && (from < 0 || m.committed[p] > m.committed[from]) {
				from = p
			}
		}
		if rec.ReadValues[cell] != m.value(from) {
			return fmt.Sprintf("%s read %s = %s, by the model %s", rec.Txn, cell, rec.ReadValues[cell], m.value(from))
		}
	}
	left := cells(m.ops[i].Writes)
	if m.ops[i].Backward && m.kind != runtimes.Sequencer && m.kind != runtimes.Saga {
		slices.Reverse(left)
	}
	for k, e := range rec.CO {
		if k >= len(left) || e.Cell != left[k] {
			return fmt.Sprintf("%s: effect %d to leave was on %s, by the model they leave as %v", rec.Txn, k, e.Cell, left)
		}
	}
	if len(rec.CO) != len(left) {
		return fmt.Sprintf("%s: %d effects left, by the model %v", rec.Txn, len(rec.CO), left)
	}
	return ""
}
