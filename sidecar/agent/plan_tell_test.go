package agent

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
	"github.com/hence-dev/hence/sidecar/once"
	"github.com/hence-dev/hence/topology"
)

// The hook is asked about the calls that came, each with its own arguments; of one that never came it is told nothing.
func TestPlanHook(t *testing.T) {
	var seen hooked
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&seen); err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(w, `{"yes":true}`)
	}))
	defer server.Close()
	a := start(t, "a", newLog().Door(), withTools(newSink()), func(c *setup) {
		c.Hook = Hook{URL: server.URL, Timeout: 10 * time.Second}
	})
	ctx := background(t)
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	must(tx.Plan(ctx, "never", "second", "first"))(t)
	for _, call := range []string{"first", "second"} {
		must(tx.Effect(ctx, "mail", at{At: call}, client.EffectOptions{Call: call}))(t)
	}
	if d := must(tx.Seal(ctx))(t); d.State != api.StateCommitted {
		t.Fatalf("decided: %+v", d)
	}
	var told []string
	for _, e := range seen.Effects {
		told = append(told, string(e.Args))
	}
	if !slices.Equal(told, []string{`{"at":"second"}`, `{"at":"first"}`}) || seen.Effects[0].Index != 1 {
		t.Errorf("it was asked about %q: %+v", told, seen.Effects)
	}
}

// slowPlans is a log that acknowledges no plan until the test says so.
type slowPlans struct {
	*memlog.Door
	mu   sync.Mutex
	acks []func()
	kept chan struct{} // takes one for each plan that is not acknowledged; nil: it is not asked
}

func (l *slowPlans) PublishAsync(events []*topology.Event, done func(sequencer.Place, error)) {
	l.Door.PublishAsync(events, func(at sequencer.Place, err error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if events[0].Kind == topology.EventPlan && l.acks != nil {
			l.acks = append(l.acks, func() { done(at, err) })
			if l.kept != nil {
				l.kept <- struct{}{}
			}
			return
		}
		go done(at, err)
	})
}

// acknowledge gives all acknowledgements that were kept, and keeps none any more.
func (l *slowPlans) acknowledge() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, ack := range l.acks {
		go ack()
	}
	l.acks = nil
}

// No planned call runs before the events topic has the plan: a stranger goes by it where the first call never came.
func TestPlanIsPublishedFirst(t *testing.T) {
	world, log := newSink(), &slowPlans{Door: newLog().Door(), acks: []func(){}, kept: make(chan struct{}, 8)}
	a := start(t, "a", log, withTools(world))
	defer log.acknowledge()
	ctx := background(t)
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	must(tx.Plan(ctx, "runs"))(t)
	<-log.kept // else the call may be published with it, and wait for one acknowledgement of both
	short, cancel := context.WithCancel(ctx)
	broken := make(chan error, 1)
	go func() {
		_, err := a.session.Effect(short, once.Call{}, tx.ID(), &api.Effect{Tool: "set", Call: "runs",
			Args: json.RawMessage(`{"at":"x"}`)})
		broken <- err
	}()
	a.place(ctx, t, tx.ID(), "runs", func(p *place) bool { return p.made != nil && p.made.acked })
	open := must(a.session.known(sequencer.TxID(tx.ID())))(t)
	moves := sequencer.Want{Scope: "thing:/x", Access: sequencer.WriteAccess}
	for granted := false; !granted; { // and once more: a call that waited for nothing else would have left by then
		granted = inside(a.session, func() bool { return open.holds(moves) })
		must(a.client.Commit(ctx, client.Commit{Writes: []client.Write{{Scope: "shard:/beside", Content: []byte("x")}}}))(t)
	}
	world.expect(t)
	cancel()
	if err := <-broken; err == nil {
		t.Error("a call was answered, and its plan is not in the topic")
	}
	a.place(ctx, t, tx.ID(), "runs", func(p *place) bool { return p.state == placeMissing })
	world.expect(t)
	log.acknowledge()
	must(tx.Effect(ctx, "set", at{At: "x"}, client.EffectOptions{Call: "runs"}))(t)
	world.expect(t, "set x")
}

// sendShort sends a call whose request the test ends, and returns what ends it once the call has come.
func (r *rig) sendShort(ctx context.Context, t *testing.T, tx, call, where string) (end func()) {
	t.Helper()
	short, cancel := context.WithCancel(ctx)
	broken := make(chan error, 1)
	go func() {
		_, err := r.session.Effect(short, once.Call{}, tx, &api.Effect{Tool: "set", Call: call,
			Args: json.RawMessage(`{"at":"` + where + `"}`)})
		broken <- err
	}()
	r.comes(ctx, t, tx, call)
	return func() {
		cancel()
		if err := <-broken; err == nil {
			t.Error("a request that ended was answered")
		}
		r.place(ctx, t, tx, call, func(p *place) bool { return p.state != placeComing && p.made == nil })
	}
}

// The bound is one for all that a call waits for: one that is refused when it is over is passed at once.
func TestPlanBoundIsOne(t *testing.T) {
	world, clock, door := newSink(), &planClock{}, newLog().Door()
	a := start(t, "a", door, withPlans(clock, world))
	ctx := background(t)
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	must(tx.Plan(ctx, "one", "two"))(t)
	two := clock.send(ctx, tx, "two", "set", at{At: "x"})
	a.comes(ctx, t, tx.ID(), "two")
	clock.advance(planBound - 1)
	door.Hold() // what the first one moves is not granted
	end := a.sendShort(ctx, t, tx.ID(), "one", "x")
	clock.advance(1) // it is under way, and is waited for
	world.expect(t)
	end()
	door.Release()
	if r := got(t, two); r.err != nil || *r.receipt.Index != 1 {
		t.Errorf("behind the bound: %+v %v", r.receipt, r.err)
	}
	_, err := tx.Effect(ctx, "set", at{At: "x"}, client.EffectOptions{Call: "one"})
	if problemCode(err) != api.CodePlanPassed {
		t.Errorf("late: %v", err)
	}
	world.expect(t, "set x")
}

// A call that was to move something else when a later one went, and was refused, does not come behind that one.
func TestPlanOvertaken(t *testing.T) {
	world, clock := newSink(), &planClock{}
	first, second := make(chan struct{}), make(chan struct{})
	world.block["set"] = first
	a := start(t, "a", newLog().Door(), withPlans(clock, world))
	ctx := background(t)
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	must(tx.Plan(ctx, "zero", "one", "two"))(t)
	zero := clock.send(ctx, tx, "zero", "set", at{At: "z"})
	<-world.entered
	two := clock.send(ctx, tx, "two", "set", at{At: "x"})
	a.comes(ctx, t, tx.ID(), "two")
	end := a.sendShort(ctx, t, tx.ID(), "one", "y") // the second one waits for it no longer, and has come before it
	world.set(func() { world.block["set"] = second })
	close(first)
	a.place(ctx, t, tx.ID(), "two", func(p *place) bool { return p.made != nil })
	end()
	one := clock.send(ctx, tx, "one", "set", at{At: "x/1"})
	a.comes(ctx, t, tx.ID(), "one")
	close(second)
	if r := got(t, one); problemCode(r.err) != api.CodePlanPassed {
		t.Errorf("behind a later one: %+v %v", r.receipt, r.err)
	}
	for _, sent := range []<-chan answered{zero, two} {
		if r := got(t, sent); r.err != nil {
			t.Errorf("%+v %v", r.receipt, r.err)
		}
	}
	_, err := tx.Effect(ctx, "set", at{At: "y"}, client.EffectOptions{Call: "one"})
	if problemCode(err) != api.CodePlanPassed {
		t.Errorf("once more: %v", err)
	}
	world.expect(t, "set z", "set x")
}
