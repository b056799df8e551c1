package agent

import (
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/client"
)

// A lease lasts as long as is sure from before its record was sent, and is renewed only by what a later decision
// confirms.
func TestLease(t *testing.T) {
	now := time.Unix(1e9, 0)
	l := lease{now: func() time.Time { return now }}
	left := func(want time.Duration) {
		t.Helper()
		if got := l.Left(); got != want {
			t.Errorf("%v left, want %v", got, want)
		}
	}
	left(0)
	lasts := sureOf(sequencer.DefaultRules())
	if lasts != 31*250*time.Millisecond {
		t.Errorf("a lease of 40 ticks surely lasts %v", lasts)
	}
	l.begin(now, lasts)
	left(lasts)
	now = now.Add(time.Second)
	left(lasts - time.Second)
	l.renew(7, now, lasts)
	left(lasts - time.Second) // acknowledged, and perhaps behind the lease's end
	l.confirm(7, lasts)
	left(lasts - time.Second) // the record itself is no decision after it
	l.confirm(8, lasts)
	left(lasts)
	now = now.Add(20 * time.Second)
	left(0)
	l.renew(9, now.Add(-time.Second), lasts)
	l.confirm(30, lasts)
	left(lasts - time.Second) // it had not ended in the log, whatever the clock said
	l.renew(31, now, lasts)
	l.end()
	l.confirm(40, lasts)
	left(0)
	l.begin(now, 100*time.Second)
	l.renew(41, now, 100*time.Second)
	l.confirm(42, lasts) // the rules have changed since
	left(lasts)
	rules := sequencer.DefaultRules()
	if rules.LeaseTicks = 8; sureOf(rules) != 0 {
		t.Errorf("a lease that one tick can end surely lasts %v", sureOf(rules))
	}
}

// An idle sidecar whose renewals nothing confirms gets its lease confirmed when it needs it.
func TestStretchLease(t *testing.T) {
	log := newLog()
	clock := &fakeClock{now: time.Unix(1e9, 0), beat: make(chan time.Time)}
	a := startWith(t, "a", log.Door(), func(c *setup) { c.Machine.Clock = clock })
	clock.advance(10 * time.Second)
	clock.advance(0)
	if left := a.session.lease.Left(); left != 0 {
		t.Fatalf("%v left without any decision", left)
	}
	if err := inside(a.session, func() error { return a.session.stretchLease(background(t), time.Second) }); err != nil {
		t.Fatal(err)
	}
	if left := a.session.lease.Left(); left < 7*time.Second {
		t.Errorf("%v left after it was confirmed", left)
	}
}

// A rewritten journal still knows what is held, what is marked, and nothing of what is settled.
func TestRewrittenJournalKeepsCalls(t *testing.T) {
	log, world := newLog(), newSink()
	door := log.Door()
	a := start(t, "a", door, quick(world), func(c *setup) { c.Limits.JournalBytes = 1 })
	ctx := background(t)
	done := must(a.client.Do(ctx, "mail", at{At: "done"}, client.EffectOptions{}))(t)
	a.final(ctx, t, done.Tx)
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	must(tx.Effect(ctx, "set", at{At: "x"}, client.EffectOptions{}))(t)
	must(tx.Effect(ctx, "unmail", at{At: "x"}, client.EffectOptions{}))(t)
	held(t, a, log, door, tx)
	d := a.session.delivery
	d.Mu.Lock()
	d.Shortly = 0
	d.Mu.Unlock()
	if err := d.Mark(); err != nil {
		t.Fatal(err)
	}
	b := reborn(t, log, "a", a.die(t, door), quick(world))
	b.final(ctx, t, tx.ID())
	world.expect(t, "mail done", "set x", "unmail x")
	if list := log.Residue(); len(list) > 0 {
		t.Errorf("the list of residues: %+v", list)
	}
}

// A machine sleeps while its lease goes on in the log: no call begins afterwards until the log has renewed it, neither
// an agent's nor a settlement's.
func TestLeaseEndsWhileTheMachineSleeps(t *testing.T) {
	log, world, clock := newLog(), newSink(), &shiftedClock{}
	a := startWith(t, "a", log.Door(), func(c *setup) { c.Machine.Clock = clock }, quick(world),
		func(c *setup) { c.Limits.WatermarkEvery = time.Hour })
	if left := a.session.lease.Left(); left < 7*time.Second {
		t.Fatalf("%v left at first", left)
	}
	clock.sleep(10 * time.Second)
	if left := a.session.lease.Left(); left != 0 {
		t.Fatalf("%v left after it slept", left)
	}
	must(a.client.Do(background(t), "set", at{At: "x"}, client.EffectOptions{}))(t)
	if left := a.session.lease.Left(); left < 7*time.Second {
		t.Errorf("%v left: called without asking the log", left)
	}
	world.expect(t, "set x")
}

// Where no clock counts sleep the wall's does, and one that is set back changes nothing.
func TestLeaseByTheWallClock(t *testing.T) {
	began := time.Now()
	now := began
	l := lease{now: func() time.Time { return now }}
	l.begin(began, 10*time.Second)
	now = began.Round(0).Add(11 * time.Second) // what is left of a reading after a sleep that the other clock missed
	if left := l.Left(); left != 0 {
		t.Errorf("%v left after the wall clock has jumped", left)
	}
}
