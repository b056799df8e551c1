package agent

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
)

// turn is one planned turn of an agent, as its test knows it.
type turn struct {
	t     *testing.T
	n     int
	dice  *rand.Rand
	clock *planClock
	rig   *rig
	tx    *client.Tx
	calls []*plannedCall // in the order of the plan
}

// plannedCall is one call of a turn.
type plannedCall struct {
	id, tool string
	in       at
	eager    bool
	alone    bool // it moves what no other does
	never    bool
	twice    bool

	sent    bool
	since   time.Duration
	passed  bool // a later one went without it
	pending []<-chan answered
	made    bool
}

// name is what the sink has of the call.
func (c *plannedCall) name() string { return c.tool + " " + c.in.At }

// Turns of five parallel calls in random order, of which some never come and some come twice; in some the process
// dies. The sinks have what moves the same in the order of the plan, each call once; no call waits for longer than the
// bound; late ones are refused; what never came leaves no residue. HENCE_PLAN_TURNS is how many turns.
func TestPlannedTurns(t *testing.T) {
	turns, seed := 30, uint64(16)
	if text := os.Getenv("HENCE_PLAN_TURNS"); text != "" {
		turns = must(strconv.Atoi(text))(t)
	}
	log, world, clock := newLog(), newSink(), &planClock{}
	leases(t, log, 40)
	door := log.Door()
	a := start(t, "a", door, withPlans(clock, world))
	tally := map[string]int{}
	for n := range turns {
		x := &turn{t: t, n: n, dice: rand.New(rand.NewPCG(seed, uint64(n))), clock: clock, rig: a}
		x.begin()
		kills := n%10 == 7
		order := x.dice.Perm(len(x.calls))
		if kills && x.dice.IntN(2) == 0 {
			order = order[:x.dice.IntN(len(order))]
		}
		for _, i := range order {
			x.send(x.calls[i])
			x.quiet()
			if x.dice.IntN(3) == 0 {
				clock.advance(planBound / 2)
				x.quiet()
			}
		}
		for range 2 { // in halves, as above: a wait ends at its bound and not behind it
			if !kills {
				clock.advance(planBound / 2)
				x.quiet()
			}
		}
		ctx := background(t)
		if kills {
			door, a = x.dies(ctx, log, door, world)
		} else if d := must(x.tx.Seal(ctx))(t); d.State != api.StateCommitted {
			t.Fatalf("turn %d: %+v", n, d)
		}
		if x.inLog(log) {
			x.final(ctx, log)
		}
		x.check(log, world, tally, kills)
		if left := log.Residue(); len(left) > 0 {
			t.Fatalf("turn %d: residue %+v", n, left)
		}
	}
	t.Log(tally)
	for _, what := range []string{"made", "passed", "never", "twice", "killed"} {
		if tally[what] == 0 {
			t.Errorf("no call was %s: %v", what, tally)
		}
	}
}

// begin plans a turn, in one plan or in two.
func (x *turn) begin() {
	ctx := background(x.t)
	x.tx = must(x.rig.client.Begin(ctx, client.BeginOptions{}))(x.t)
	var ids []string
	for i := range 5 {
		c := &plannedCall{id: fmt.Sprint("call", i), eager: x.dice.IntN(2) == 0, never: x.dice.IntN(10) == 0,
			twice: x.dice.IntN(10) == 0}
		c.tool = []string{"mail", "stage"}[x.dice.IntN(2)]
		if c.eager {
			c.tool = []string{"set", "charge"}[x.dice.IntN(2)]
		}
		c.in.At = fmt.Sprintf("t%d", x.n) + strings.Repeat("/c", i) // all of these meet
		if c.alone = x.dice.IntN(4) == 0; c.alone {
			c.in.At = fmt.Sprintf("t%d-%d", x.n, i)
		}
		x.calls, ids = append(x.calls, c), append(ids, c.id)
	}
	first := 5
	if x.dice.IntN(3) == 0 {
		first = 3
	}
	must(x.tx.Plan(ctx, ids[:first]...))(x.t)
	if first < 5 {
		must(x.tx.Plan(ctx, ids[first:]...))(x.t)
	}
}

// send sends a call, once or twice.
func (x *turn) send(c *plannedCall) {
	if c.never {
		return
	}
	ctx := background(x.t)
	c.sent, c.since = true, x.clock.at()
	for range 1 + map[bool]int{true: 1}[c.twice] {
		c.pending = append(c.pending, x.clock.send(ctx, x.tx, c.id, c.tool, c.in))
	}
	x.rig.comes(ctx, x.t, x.tx.ID(), c.id)
}

// quiet waits for the answers of all calls that nothing holds back any more; the others are on their way.
func (x *turn) quiet() {
	for again := true; again; {
		again = false
		for i, c := range x.calls {
			if len(c.pending) == 0 || x.held(i) {
				continue
			}
			again = true
			for _, p := range c.pending {
				x.answered(i, got(x.t, p))
			}
			c.pending = nil
		}
	}
	waits := 0
	for i, c := range x.calls {
		if len(c.pending) > 0 && x.held(i) {
			waits++
		}
	}
	if n := x.clock.open(); n < waits {
		x.t.Fatalf("turn %d: %d calls wait by the clock, want %d", x.n, n, waits)
	}
}

// held says that a call waits for one before it: nothing has come there, and the bound has not passed.
func (x *turn) held(i int) bool {
	c := x.calls[i]
	if !c.eager || c.passed {
		return false
	}
	missing := slices.ContainsFunc(x.calls[:i], func(b *plannedCall) bool { return !b.sent && !b.passed })
	if missing && x.clock.at() >= c.since+planBound { // it goes, and those that have not come are passed
		for _, b := range x.calls[:i] {
			b.passed = b.passed || !b.sent
		}
		missing = false
	}
	return missing
}

// answered holds an answer against what the call may be told.
func (x *turn) answered(i int, a answered) {
	c := x.calls[i]
	switch {
	case c.passed:
		if problemCode(a.err) != api.CodePlanPassed {
			x.t.Errorf("turn %d: %s is late: %+v %v", x.n, c.id, a.receipt, a.err)
		}
	case a.err != nil || int(*a.receipt.Index) != i:
		x.t.Errorf("turn %d: %s: %+v %v", x.n, c.id, a.receipt, a.err)
	case c.eager && a.at > c.since+planBound:
		x.t.Errorf("turn %d: %s came at %v and was answered at %v", x.n, c.id, c.since, a.at)
	default:
		c.made = true
	}
}

// open is how many waits are not over yet.
func (c *planClock) open() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.waits {
		if w.from+planBound > c.now {
			n++
		}
	}
	return n
}

// dies kills the process, before or after its seal is in the log, and starts the next one on its journal.
func (x *turn) dies(ctx context.Context, log *memlog.Log, door *memlog.Door, world *sink) (*memlog.Door, *rig) {
	if x.dice.IntN(2) == 0 && !slices.ContainsFunc(x.calls, func(c *plannedCall) bool { return len(c.pending) > 0 }) {
		x.rig.sealsUnanswered(ctx, x.t, log, door, x.tx)
	}
	journal := x.rig.die(x.t, door)
	for _, c := range x.calls {
		for _, p := range c.pending {
			got(x.t, p)
		}
		c.pending = nil
	}
	dir := x.t.TempDir()
	if err := os.WriteFile(journalIn(x.t, dir, log, "a"), journal, 0o600); err != nil {
		x.t.Fatal(err)
	}
	next := log.Door()
	x.rig = start(x.t, "a", next, withPlans(x.clock, world), func(c *setup) { c.DataDir = dir }).aloneNow()
	return next, x.rig
}

// sealsUnanswered seals a transaction whose commit the process does not see.
func (r *rig) sealsUnanswered(ctx context.Context, t *testing.T, log *memlog.Log, door *memlog.Door, tx *client.Tx) {
	t.Helper()
	if err := r.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	door.Hold()
	short, cancel := context.WithCancel(ctx)
	sealed := make(chan struct{})
	go func() { defer close(sealed); _, _ = tx.Seal(short) }()
	err := log.Until(ctx, func() bool { return sealedEffects(log, tx.ID()) != nil })
	cancel()
	<-sealed
	if err != nil {
		t.Fatal(err)
	}
}

// check holds what the sinks have against the plan.
func (x *turn) check(log *memlog.Log, world *sink, tally map[string]int, killed bool) {
	committed := x.committed(log)
	times, place := map[string]int{}, map[string]int{}
	for at, w := range world.world() {
		times[w]++
		place[w] = at
	}
	before := map[bool]int{true: -1, false: -1} // of those that run at once and of those that are held
	for _, c := range x.calls {
		n := times[c.name()]
		switch {
		case n > 1, n == 1 && !c.sent, n == 1 && c.passed, n == 1 && !c.eager && !committed:
			x.t.Errorf("turn %d: %s was made %d times: %+v", x.n, c.name(), n, c)
		case n == 0 && c.made && (c.eager || committed):
			x.t.Errorf("turn %d: %s was answered and not made", x.n, c.name())
		}
		if n == 1 && !(c.eager && c.alone) {
			if at := place[c.name()]; at < before[c.eager] {
				x.t.Errorf("turn %d: %s was made before one that is planned before it: %q", x.n, c.name(), world.world())
			}
			before[c.eager] = place[c.name()]
		}
		for what, so := range map[string]bool{"made": c.made, "passed": c.passed && c.sent, "never": c.never,
			"twice": c.twice && c.made} {
			if so {
				tally[what]++
			}
		}
	}
	if killed {
		tally["killed"]++
	}
}

// final waits until nothing more comes of the turn. The log says so: who starts again need not know what is over.
func (x *turn) final(ctx context.Context, log *memlog.Log) {
	err := log.Until(ctx, func() bool {
		return slices.ContainsFunc(log.Outcomes(), func(o *sequencer.Outcome) bool {
			return o.Final && string(o.Tx) == x.tx.ID()
		})
	})
	if err != nil {
		x.t.Fatalf("turn %d is not final: %v", x.n, err)
	}
}

// inLog reports whether the log has heard of the turn. One that only held calls when its process died is gone with it.
func (x *turn) inLog(log *memlog.Log) bool {
	return slices.ContainsFunc(log.Intents(), func(in *sequencer.Intent) bool { return string(in.Tx) == x.tx.ID() })
}

// committed reports whether the log has committed the turn.
func (x *turn) committed(log *memlog.Log) bool {
	return slices.ContainsFunc(log.Outcomes(), func(o *sequencer.Outcome) bool {
		return o.Kind == sequencer.OutcomeCommitted && string(o.Tx) == x.tx.ID()
	})
}
