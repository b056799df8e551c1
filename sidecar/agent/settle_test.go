package agent

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
	"github.com/hence-dev/hence/topology"
)

// quick gives a sidecar short calls and frequent beats.
func quick(s *sink) func(*setup) {
	return func(c *setup) {
		c.Tools = &testTools{sink: s, maxTime: 150 * time.Millisecond}
		c.Limits.WatermarkEvery, c.Limits.StopWait, c.Limits.AdoptAfter = 10*time.Millisecond, 50*time.Millisecond,
			20*time.Millisecond
	}
}

// die ends a sidecar as a SIGKILL does, as far as the log and the world can tell, and returns its journal.
func (r *rig) die(t *testing.T, door *memlog.Door) []byte {
	t.Helper()
	content := must(os.ReadFile(r.journalPath()))(t)
	door.FailAppends(1 << 30)
	door.Silence(true)
	_ = r.stop()
	return content
}

// reborn starts the agent's next sidecar, on a journal or without one.
func reborn(t *testing.T, log *memlog.Log, agent string, journal []byte, opts ...func(*setup)) *rig {
	t.Helper()
	dir := t.TempDir()
	if journal != nil {
		if err := os.WriteFile(journalIn(t, dir, log, agent), journal, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return start(t, agent, log.Door(), append(opts, func(c *setup) { c.DataDir = dir })...)
}

// aloneNow lets a sidecar know that no former process is left: a test need not wait until its lease would have ended.
func (r *rig) aloneNow() *rig {
	s := r.session
	defer s.stand()()
	s.settlements().Alone(150 * time.Millisecond)
	return r
}

// leases makes leases short, so that a test need not wait for long.
func leases(t *testing.T, log *memlog.Log, ticks sequencer.Tick) {
	t.Helper()
	rules := sequencer.DefaultRules()
	rules.Version, rules.Logic, rules.LeaseTicks = 1, sequencer.Logic, ticks
	if _, err := log.Add(&sequencer.Intent{Kind: sequencer.IntentRules, Rules: &rules}); err != nil {
		t.Fatal(err)
	}
}

// The steps of a release at which the process dies.
const (
	diesBefore  = "before the release begins"
	diesCalling = "while the sink is called"
	diesAfter   = "after the sink has answered"
)

// A release survives the death of its process at any step: a sink with a key got the effect once, one without at most
// once, and what is not known is on the list.
func TestReleaseSurvives(t *testing.T) {
	for _, tool := range []string{"mail", "unmail"} {
		for _, step := range []string{diesBefore, diesCalling, diesAfter} {
			for _, journal := range []string{"with the journal", "without it"} {
				t.Run(fmt.Sprintf("%s/%s/%s", tool, step, journal), func(t *testing.T) {
					t.Parallel()
					releaseSurvives(t, tool, step, journal == "with the journal")
				})
			}
		}
	}
}

func releaseSurvives(t *testing.T, tool, step string, whole bool) {
	log, world, door := newLog(), newSink(), (*memlog.Door)(nil)
	leases(t, log, 13)
	door = log.Door()
	a := start(t, "a", door, quick(world))
	ctx := background(t)
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	must(tx.Effect(ctx, tool, at{At: "x"}, client.EffectOptions{}))(t)
	sealTo(ctx, t, log, door, a, tx, tool, step, world)
	journal := a.die(t, door)
	world.set(func() { clear(world.block) })
	if !whole {
		journal = nil
	}
	b := reborn(t, log, "a", journal, quick(world)).aloneNow()
	b.final(ctx, t, tx.ID())
	checkRelease(t, log, world, tool, step, whole)
}

// marked waits until a sidecar has marked a step of a call, and the log says so.
func (r *rig) marked(ctx context.Context, t *testing.T, log *memlog.Log, step gate.Step) {
	t.Helper()
	said := func(ev *topology.Event) bool {
		return ev.Kind == topology.EventAnswer && gate.Step(ev.Effect.Step) == step
	}
	err := log.Until(ctx, func() bool { return slices.ContainsFunc(log.Events(), said) })
	if err != nil || r.session.delivery.Drain(ctx) > 0 {
		t.Fatalf("a call is not marked as %s: %v", step, err)
	}
}

// sealTo seals a transaction of one call and lets its release come to a step.
func sealTo(ctx context.Context, t *testing.T, log *memlog.Log, door *memlog.Door, a *rig, tx *client.Tx,
	tool, step string, world *sink) {
	t.Helper()
	if err := a.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	door.Hold()
	if step == diesCalling {
		world.set(func() { world.block[tool] = make(chan struct{}) })
	}
	sealed := make(chan struct{})
	short, cancel := context.WithCancel(ctx)
	go func() { defer close(sealed); _, _ = tx.Seal(short) }()
	awaitKind(ctx, t, log, sequencer.OutcomeCommitted)
	if step == diesAfter {
		door.FailAppends(1 << 30)
	}
	if step != diesBefore {
		door.Release()
	}
	switch step {
	case diesCalling:
		<-world.entered
	case diesAfter:
		a.marked(ctx, t, log, gate.StepAnswered)
	}
	cancel()
	<-sealed
}

func checkRelease(t *testing.T, log *memlog.Log, world *sink, tool, step string, whole bool) {
	t.Helper()
	called := tool == "mail" || step == diesAfter || step == diesBefore && whole
	if called {
		world.expect(t, tool+" x")
	} else {
		world.expect(t)
	}
	list := log.Residue()
	if called != (len(list) == 0) {
		t.Errorf("the list of residues: %+v", list)
	}
	for _, r := range list {
		if r.Result != sequencer.ResultUnresolved || r.Tool != tool || string(r.Tx) == "" {
			t.Errorf("the residue: %+v", r)
		}
	}
}
