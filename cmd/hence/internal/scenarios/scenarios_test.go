package scenarios_test

import (
	"strings"
	"testing"

	"github.com/hence-dev/hence/cmd/hence/internal/runtimes"
	"github.com/hence-dev/hence/cmd/hence/internal/scenarios"
	"github.com/hence-dev/hence/sequencer/anomaly"
	"github.com/hence-dev/hence/topology/trace"
)

// TestPhantomClaim holds that no runtime sees through a claim, and that the history says that it may rest on nothing.
func TestPhantomClaim(t *testing.T) {
	for _, kind := range runtimes.Kinds() {
		r := scenarios.Run(scenarios.PhantomClaim(), runtimes.New(kind), scenarios.Options{})
		if r.Possible() != "A3" || r.Counts.Committed != 1 {
			t.Errorf("%s: possible %q, %+v", kind, r.Possible(), r.Counts)
		}
	}
}

// TestSharedBlock holds how many of 24 lines are in the block at the end, and that none is lost silently but where
// nothing is validated.
func TestSharedBlock(t *testing.T) {
	for _, c := range []struct {
		kinds []runtimes.Kind
		retry bool
		there int
		lost  int // committed, and not there
	}{
		{[]runtimes.Kind{runtimes.Vanilla}, false, 6, 18},
		{[]runtimes.Kind{runtimes.Sequencer}, false, 6, 18},
		{[]runtimes.Kind{runtimes.PessimisticDrop}, false, 6, 0},
		{[]runtimes.Kind{runtimes.PessimisticDrop}, true, 24, 0},
		{[]runtimes.Kind{runtimes.PessimisticWait}, false, 24, 0},
		{[]runtimes.Kind{runtimes.Snapshot}, false, 6, 0},
		{[]runtimes.Kind{runtimes.Serializable}, true, 24, 0},
		{[]runtimes.Kind{runtimes.Cascade, runtimes.Sequencer, runtimes.RegistryValidate}, true, 24, 0},
	} {
		r := scenarios.Run(scenarios.SharedBlock(4, 6), runtimes.New(c.kinds...), scenarios.Options{Retry: c.retry})
		there := len(strings.Fields(scenarios.TextOf(r.Final["block"])))
		if there != c.there || r.Counts.Committed-there != c.lost {
			t.Errorf("%v, retry %v: %d lines there, %d lost; want %d, %d", c.kinds, c.retry, there,
				r.Counts.Committed-there, c.there, c.lost)
		}
	}
}

// TestDeerFlow holds what is left of the todos.
func TestDeerFlow(t *testing.T) {
	plain := scenarios.Run(scenarios.DeerFlow(), runtimes.New(runtimes.Vanilla), scenarios.Options{})
	reduced := scenarios.Run(scenarios.DeerFlowReducer(), runtimes.New(runtimes.Vanilla), scenarios.Options{})
	if plain.Final["todos"] != trace.Null || reduced.Final["todos#1"] != trace.Text("search, write") {
		t.Errorf("todos are %s; through the reducer %s", plain.Final["todos"], reduced.Final["todos#1"])
	}
	if least, _ := plain.Report.Points(); least.Level() != 4 {
		t.Errorf("level %d: the catalogue alone does not see a null overwrite", least.Level())
	}
}

// TestDepths holds that a cascade reaches all that rest on what is taken back, and nothing is left without one.
func TestDepths(t *testing.T) {
	for _, depth := range []int{2, 3, 5} {
		bare := scenarios.Run(scenarios.Chain(depth), runtimes.New(runtimes.Serializable), scenarios.Options{})
		whole := scenarios.Run(scenarios.Chain(depth), runtimes.New(runtimes.Cascade), scenarios.Options{})
		if bare.Fired() != "A3" || whole.Fired() != "" || whole.Counts.Cascaded != depth-1 {
			t.Errorf("depth %d: %q without, %q with, %d taken back", depth, bare.Fired(), whole.Fired(),
				whole.Counts.Cascaded)
		}
	}
}

// TestWidths holds that effects leave in the order of issue for every order of completion up to a width of 5, that
// none is lost, and that without a sequencer every order but one is seen.
func TestWidths(t *testing.T) {
	for width := 1; width <= 5; width++ {
		reordered, all := 0, 0
		permute(width, func(order []int) {
			all++
			if scenarios.Run(scenarios.Effects(order), runtimes.New(runtimes.Vanilla), scenarios.Options{}).Fired() == "A6" {
				reordered++
			}
			for _, kind := range []runtimes.Kind{runtimes.Sequencer, runtimes.Saga} {
				r := scenarios.Run(scenarios.Effects(order), runtimes.New(kind), scenarios.Options{})
				if r.Fired() != "" || len(r.Records[0].CO) != width {
					t.Errorf("%s, order %v: %q, %d of %d effects", kind, order, r.Fired(), len(r.Records[0].CO), width)
				}
			}
		})
		if reordered != all-1 {
			t.Errorf("width %d: %d of %d orders are seen", width, reordered, all)
		}
	}
}

// permute visits all orders of 0..n-1.
func permute(n int, visit func([]int)) {
	order := make([]int, 0, n)
	taken := make([]bool, n)
	var next func()
	next = func() {
		if len(order) == n {
			visit(order)
			return
		}
		for k := range n {
			if taken[k] {
				continue
			}
			taken[k] = true
			order = append(order, k)
			next()
			order = order[:len(order)-1]
			taken[k] = false
		}
	}
	next()
}

// TestToolGone holds what becomes of a call to a tool that was removed or changed: refused, or sent to what is gone.
func TestToolGone(t *testing.T) {
	for _, changed := range []bool{false, true} {
		for _, c := range []struct {
			kind  runtimes.Kind
			fired string
			want  runtimes.Counts
		}{
			{runtimes.Vanilla, "A2", runtimes.Counts{Operations: 1, Committed: 1, Gone: 1}},
			{runtimes.RegistryValidate, "", runtimes.Counts{Operations: 1, Aborted: 1}},
			{runtimes.RegistryPinned, "", runtimes.Counts{Operations: 1, Committed: 1, Gone: 1}},
		} {
			r := scenarios.Run(scenarios.ToolGone(4, 2, changed), runtimes.New(c.kind), scenarios.Options{})
			if r.Fired() != c.fired || r.Counts != c.want {
				t.Errorf("%s, changed %v: %q, %+v", c.kind, changed, r.Fired(), r.Counts)
			}
		}
	}
}

// TestUndone holds that effects are compensated last first.
func TestUndone(t *testing.T) {
	s := scenarios.Effects([]int{2, 0, 1})
	s.Steps = append(s.Steps, scenarios.Retract("act"))
	r := runtimes.New(runtimes.Saga)
	scenarios.Run(s, r, scenarios.Options{})
	var cells []string
	for _, e := range r.Undone() {
		cells = append(cells, e.Cell)
	}
	if got := strings.Join(cells, " "); got != "effect2 effect1 effect0" {
		t.Errorf("compensated %s", got)
	}
}

// TestPoints holds that the runtime of each of the sixteen points excludes its anomalies and no others, in a history
// that has all four; and that each level excludes those of the levels below.
func TestPoints(t *testing.T) {
	for bits := range 16 {
		p := anomaly.Point{A1: bits&1 > 0, A2: bits&2 > 0, A3: bits&4 > 0, A6: bits&8 > 0}
		r := scenarios.Run(scenarios.AllFour(), runtimes.ForPoint(p), scenarios.Options{})
		if least, most := r.Report.Points(); least != p || most != p {
			t.Errorf("the runtime of %s leaves %s to %s: %s", p, least, most, r.Fired())
		}
	}
	for level := range 5 {
		r := scenarios.Run(scenarios.AllFour(), runtimes.At(level), scenarios.Options{})
		if least, most := r.Report.Points(); least.Level() != level || most.Level() != level {
			t.Errorf("the runtime of L%d leaves L%d to L%d", level, least.Level(), most.Level())
		}
	}
}
