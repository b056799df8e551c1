package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
	"github.com/hence-dev/hence/sidecar/once"
	"github.com/hence-dev/hence/topology"
	"github.com/hence-dev/hence/topology/machine"
)

// planBound is a bound that nothing else has: only the plan's waits are the test's to end.
const planBound = 77 * time.Hour

// planClock is the system's, but for how long a call waits for those planned before it: that the test says.
type planClock struct {
	machine.Clock
	mu    sync.Mutex
	now   time.Duration
	waits []*planWait
}

type planWait struct {
	from time.Duration
	end  context.CancelCauseFunc
}

func (c *planClock) Within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d != planBound {
		return c.Clock.Within(ctx, d)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	bound, end := context.WithCancelCause(ctx)
	c.waits = append(c.waits, &planWait{c.now, end})
	return bound, func() { end(context.Canceled) }
}

// advance lets time pass for the waits of plans.
func (c *planClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += d
	for _, w := range c.waits {
		if w.from+planBound <= c.now {
			w.end(context.DeadlineExceeded)
		}
	}
}

func (c *planClock) at() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// withPlans is a sidecar whose plans wait by a test's clock.
func withPlans(clock *planClock, world *sink) func(*setup) {
	return func(c *setup) {
		quick(world)(c)
		c.Machine.Clock, c.Limits.PlanWait = clock, planBound
	}
}

// answered is what came of a planned call.
type answered struct {
	receipt client.Receipt
	err     error
	at      time.Duration
}

// send makes a planned call, and does not wait for its answer.
func (c *planClock) send(ctx context.Context, tx *client.Tx, call, tool string, in at) <-chan answered {
	out := make(chan answered, 1)
	go func() {
		r, err := tx.Effect(ctx, tool, in, client.EffectOptions{Call: call})
		out <- answered{r, err, c.at()}
	}()
	return out
}

// got is the answer of a planned call.
func got(t *testing.T, sent <-chan answered) answered {
	t.Helper()
	select {
	case a := <-sent:
		return a
	case <-time.After(testWait):
		t.Fatal("a planned call is not answered")
	}
	return answered{}
}

// comes waits until a call works at its place.
func (r *rig) comes(ctx context.Context, t *testing.T, tx, call string) {
	t.Helper()
	r.place(ctx, t, tx, call, func(p *place) bool { return p.state != placeMissing })
}

// place waits until something holds of a call's place.
func (r *rig) place(ctx context.Context, t *testing.T, tx, call string, holds func(*place) bool) {
	t.Helper()
	x := must(r.session.known(sequencer.TxID(tx)))(t)
	if err := r.session.eventually(ctx, func() bool { return holds(x.places[x.indexOf(call)]) }); err != nil {
		t.Fatalf("%s is not there yet: %v, %+v", call, err, *x.places[x.indexOf(call)])
	}
}

// sealedEffects are the effects of a transaction's seal as the log has them.
func sealedEffects(log *memlog.Log, tx string) []sequencer.Effect {
	for _, in := range log.Intents() {
		if in.Kind == sequencer.IntentSeal && string(in.Tx) == tx {
			return in.Seal.Effects
		}
	}
	return nil
}

// Parallel calls have the indexes of their plan, whichever comes first; those that run at once and move the same run
// in its order; a call that never comes keeps its index, and nothing comes of it.
func TestPlan(t *testing.T) {
	log, world, clock := newLog(), newSink(), &planClock{}
	a := start(t, "a", log.Door(), withPlans(clock, world))
	ctx := background(t)
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	plan := must(tx.Plan(ctx, "one", "two", "three", "mail1", "mail2"))(t)
	if len(plan.Calls) != 5 || plan.Calls[4] != (api.PlaceOfCall{Call: "mail2", Index: 4}) {
		t.Fatalf("the plan: %+v", plan)
	}
	three := clock.send(ctx, tx, "three", "set", at{At: "x/3"})
	a.comes(ctx, t, tx.ID(), "three")
	two := clock.send(ctx, tx, "two", "set", at{At: "x"}) // overlaps with three
	a.comes(ctx, t, tx.ID(), "two")
	last := got(t, clock.send(ctx, tx, "mail2", "mail", at{At: "m"})) // held: it waits for nothing
	if last.err != nil || *last.receipt.Index != 4 || last.receipt.Call != "mail2" {
		t.Fatalf("the last held call: %+v %v", last.receipt, last.err)
	}
	one := got(t, clock.send(ctx, tx, "one", "set", at{At: "x"}))
	for i, r := range []answered{one, got(t, two), got(t, three)} {
		if r.err != nil || r.receipt.State != api.EffectDone || int(*r.receipt.Index) != i {
			t.Errorf("call %d: %+v %v", i, r.receipt, r.err)
		}
	}
	world.expect(t, "set x", "set x", "set x/3")
	if d := must(tx.Seal(ctx))(t); d.State != api.StateCommitted {
		t.Fatalf("decided: %+v", d)
	}
	a.final(ctx, t, tx.ID())
	world.expect(t, "set x", "set x", "set x/3", "mail m")
	effects := sealedEffects(log, tx.ID())
	for i, e := range effects {
		if int(e.Index) != i || e.Absent != (i == 3) {
			t.Errorf("sealed: %+v", e)
		}
	}
	if len(effects) != 5 {
		t.Errorf("%d effects are sealed", len(effects))
	}
	var plans int
	for _, ev := range log.Events() {
		if ev.Kind == topology.EventPlan {
			plans++
		}
		if ev.Kind == topology.EventEffect && plans != 1 {
			t.Error("a call is in the log before its plan")
		}
	}
	_, err := tx.Effect(ctx, "mail", at{At: "n"}, client.EffectOptions{Call: "mail1"})
	if problemCode(err) != "late_effect" {
		t.Errorf("after the seal: %v", err)
	}
	again := must(tx.Effect(ctx, "set", at{At: "x"}, client.EffectOptions{Call: "one"}))(t)
	if *again.Index != 0 || again.State != api.EffectDone {
		t.Errorf("the same call after the seal: %+v", again)
	}
}

// A call goes at the bound without those that have not come; they are refused when they come, and no others are.
func TestPlanPasses(t *testing.T) {
	log, world, clock := newLog(), newSink(), &planClock{}
	a := start(t, "a", log.Door(), withPlans(clock, world))
	ctx := background(t)
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	must(tx.Plan(ctx, "lost", "held", "runs", "next"))(t)
	runs := clock.send(ctx, tx, "runs", "set", at{At: "x"})
	a.comes(ctx, t, tx.ID(), "runs")
	must(tx.Effect(ctx, "mail", at{At: "m"}, client.EffectOptions{Call: "held"}))(t)
	clock.advance(planBound - 1)
	world.expect(t)
	clock.advance(1)
	if r := got(t, runs); r.err != nil || *r.receipt.Index != 2 {
		t.Fatalf("at the bound: %+v %v", r.receipt, r.err)
	}
	for _, tool := range []string{"set", "mail", "look"} {
		_, err := tx.Effect(ctx, tool, at{At: "x"}, client.EffectOptions{Call: "lost"})
		if p := problemIn(t, err); p.Code != api.CodePlanPassed || p.Status != 409 || p.Retryable {
			t.Errorf("late: %+v", p)
		}
	}
	must(tx.Effect(ctx, "set", at{At: "x"}, client.EffectOptions{Call: "next"}))(t)
	must(tx.Plan(ctx, "lost-again"))(t) // appended, behind a call that no plan named
	free := must(tx.Effect(ctx, "mail", at{At: "n"}, client.EffectOptions{}))(t)
	appended := must(tx.Plan(ctx, "more"))(t)
	if *free.Index != 5 || appended.Calls[0].Index != 6 || free.Call != "" {
		t.Errorf("call %d, and then a plan from %d", *free.Index, appended.Calls[0].Index)
	}
	if r := must(tx.Effect(ctx, "mail", at{At: "o"}, client.EffectOptions{Call: "more"}))(t); *r.Index != 6 {
		t.Errorf("the call of the second plan: %+v", r)
	}
	if err := tx.Abort(ctx, "enough"); err != nil {
		t.Fatal(err)
	}
	a.final(ctx, t, tx.ID())
	world.expect(t, "set x", "set x", "back x", "back x")
}

// What has no id of its own plan, or another call's, is refused and changes nothing.
func TestPlanRefuses(t *testing.T) {
	log, world, clock := newLog(), newSink(), &planClock{}
	a := start(t, "a", log.Door(), withPlans(clock, world))
	ctx := background(t)
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	many := make([]string, maxPlan+1)
	for i := range many {
		many[i] = fmt.Sprint("c", i)
	}
	for what, calls := range map[string][]string{"none": {}, "many": many, "empty": {""}, "twice": {"a", "a"},
		"long": {strings.Repeat("x", maxCallBytes+1)}, "a space": {"a b"}, "a letter": {"ä"}} {
		if _, err := tx.Plan(ctx, calls...); problemCode(err) != api.CodeBadRequest {
			t.Errorf("%s: %v", what, err)
		}
	}
	must(tx.Plan(ctx, many[:maxPlan]...))(t)
	if _, err := tx.Plan(ctx, "new", many[7]); problemCode(err) != api.CodeBadRequest || !strings.Contains(err.Error(),
		`"c7" is planned already, as call 7`) {
		t.Errorf("planned twice: %v", err)
	}
	further := make([]string, maxPlan)
	for i := range further {
		further[i] = fmt.Sprint("d", i)
	}
	if _, err := tx.Plan(ctx, further...); problemCode(err) != api.CodeLimit {
		t.Errorf("more than a footprint takes: %v", err)
	}
	for _, call := range []string{"new", "d0"} {
		_, err := tx.Effect(ctx, "mail", at{At: "x"}, client.EffectOptions{Call: call})
		if problemCode(err) != api.CodeBadRequest || !strings.Contains(err.Error(), "no plan of "+tx.ID()) {
			t.Errorf("a call that is not planned: %v", err)
		}
	}
	must(tx.Effect(ctx, "mail", at{At: "x"}, client.EffectOptions{Call: "c0"}))(t)
	for tool, in := range map[string]at{"mail": {At: "y"}, "stage": {At: "x"}} {
		_, err := tx.Effect(ctx, tool, in, client.EffectOptions{Call: "c0"})
		if problemCode(err) != api.CodeKeyReused {
			t.Errorf("another call under the same id: %v", err)
		}
	}
	if d := must(tx.Seal(ctx))(t); d.State != api.StateCommitted {
		t.Fatalf("decided: %+v", d)
	}
	a.final(ctx, t, tx.ID())
	world.expect(t, "mail x")
	if _, err := tx.Plan(ctx, "after"); problemCode(err) != "late_effect" {
		t.Errorf("after the seal: %v", err)
	}
}

// A call that comes twice is one call: while it waits, while it runs and afterwards; and one that was refused may come
// again.
func TestPlannedTwice(t *testing.T) {
	log, world, clock := newLog(), newSink(), &planClock{}
	door := log.Door()
	a := start(t, "a", door, withPlans(clock, world))
	ctx := background(t)
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	must(tx.Plan(ctx, "one", "two", "read", "mail"))(t)
	world.set(func() { world.away["look"] = true })
	if _, err := tx.Effect(ctx, "look", at{At: "x"}, client.EffectOptions{Call: "one"}); problemCode(err) !=
		api.CodeToolUnreachable {
		t.Fatalf("not reached: %v", err)
	}
	world.set(func() { world.away["look"] = false })
	var twos []<-chan answered
	for range 3 {
		twos = append(twos, clock.send(ctx, tx, "two", "set", at{At: "x"}))
	}
	a.comes(ctx, t, tx.ID(), "two")
	door.Hold() // what it moves is not granted: its request ends before it has run, and who waits for it goes on waiting
	short, cancel := context.WithCancel(ctx)
	broken := make(chan error, 1)
	go func() {
		_, err := a.session.Effect(short, once.Call{}, tx.ID(), &api.Effect{Tool: "set", Call: "one",
			Args: json.RawMessage(`{"at":"x/one"}`)})
		broken <- err
	}()
	a.place(ctx, t, tx.ID(), "one", func(p *place) bool { return p.made != nil })
	cancel()
	if err := <-broken; err == nil {
		t.Error("a request that ended was answered")
	}
	a.place(ctx, t, tx.ID(), "one", func(p *place) bool { return p.state == placeMissing })
	door.Release()
	world.expect(t)
	must(tx.Effect(ctx, "set", at{At: "x/one"}, client.EffectOptions{Call: "one"}))(t)
	for _, two := range twos {
		if r := got(t, two); r.err != nil || *r.receipt.Index != 1 || r.receipt.State != api.EffectDone {
			t.Errorf("one of three: %+v %v", r.receipt, r.err)
		}
	}
	for range 2 {
		must(tx.Effect(ctx, "look", at{At: "y"}, client.EffectOptions{Call: "read"}))(t)
		held := must(tx.Effect(ctx, "mail", at{At: "m"}, client.EffectOptions{Call: "mail"}))(t)
		if *held.Index != 3 || held.State != api.EffectHeld {
			t.Errorf("the held one: %+v", held)
		}
	}
	must(tx.Seal(ctx))(t)
	a.final(ctx, t, tx.ID())
	world.expect(t, "set x/one", "set x", "look y", "look y", "mail m")
	if e := sealedEffects(log, tx.ID()); len(e) != 4 || !e[2].Absent || e[1].Absent {
		t.Errorf("sealed: %+v", e)
	}
}

// What was planned and never came leaves nothing behind a crash: what ran is undone, what was sealed is released in
// the order of the plan, and nothing is unknown.
func TestPlanSurvives(t *testing.T) {
	for _, sealed := range []bool{false, true} {
		for _, whole := range []bool{false, true} {
			t.Run(fmt.Sprintf("sealed %v, journal %v", sealed, whole), func(t *testing.T) {
				t.Parallel()
				planSurvives(t, sealed, whole)
			})
		}
	}
}

func planSurvives(t *testing.T, sealed, whole bool) {
	log, world, clock := newLog(), newSink(), &planClock{}
	leases(t, log, 13)
	door := log.Door()
	a := start(t, "a", door, withPlans(clock, world))
	ctx := background(t)
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	must(tx.Plan(ctx, "lost", "mail1", "never", "mail2", "runs"))(t)
	for _, call := range []string{"mail2", "mail1"} {
		must(tx.Effect(ctx, "mail", at{At: call}, client.EffectOptions{Call: call}))(t)
	}
	runs := clock.send(ctx, tx, "runs", "set", at{At: "x"})
	a.comes(ctx, t, tx.ID(), "runs")
	clock.advance(planBound)
	if r := got(t, runs); r.err != nil {
		t.Fatal(r.err)
	}
	want := []string{"set x", "back x"}
	if sealed {
		want = []string{"set x", "mail mail1", "mail mail2"}
		sealTo(ctx, t, log, door, a, tx, "mail", diesBefore, world)
	}
	journal := a.die(t, door)
	if !whole {
		journal = nil
	}
	b := reborn(t, log, "a", journal, quick(world)).aloneNow()
	b.final(ctx, t, tx.ID())
	world.expect(t, want...)
	if left := log.Residue(); len(left) > 0 {
		t.Errorf("residue: %+v", left)
	}
	if !whole {
		return
	}
	var states []string
	list := must(b.client.Tx(tx.ID()).Effects(ctx))(t)
	for _, e := range list.Effects {
		states = append(states, fmt.Sprintf("%d %s %s", *e.Index, e.Call, e.State))
	}
	calls := []string{"1 mail1 dropped", "3 mail2 dropped", "4 runs undone"}
	if sealed {
		calls = []string{"1 mail1 released", "3 mail2 released", "4 runs done"}
	}
	if !slices.Equal(states, calls) {
		t.Errorf("the calls: %q, want %q", states, calls)
	}
	_, err := b.client.Tx(tx.ID()).Effect(ctx, "mail", at{At: "z"}, client.EffectOptions{Call: "never"})
	if code := problemCode(err); code != api.CodeSessionLost && code != "late_effect" {
		t.Errorf("a late one: %v", err)
	}
}
