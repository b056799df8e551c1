package agent

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/agent/settle"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/topology"
	"github.com/hence-dev/hence/topology/machine"
)

// callStates are the states of a transaction's calls, as GET /v1/tx/{tx}/effects has them.
func (r *rig) callStates(ctx context.Context, t *testing.T, tx string) (states []string) {
	t.Helper()
	for _, e := range must(r.client.Tx(tx).Effects(ctx))(t).Effects {
		states = append(states, e.State)
	}
	return states
}

// busyClock is of a machine on which much happens between any two steps.
type busyClock struct {
	machine.Clock
	read atomic.Int64
}

func (c *busyClock) Now() time.Time {
	return c.Clock.Now().Add(time.Duration(c.read.Add(1)) * 2 * time.Millisecond)
}

// TestNotSent holds what is said of held calls that were not made after their commit: the one whose service is not
// reached and those behind it are not_sent, in the list, in words, on the list of residues and in the events; tried
// again by hand, they are released there.
func TestNotSent(t *testing.T) {
	log, world := newLog(), newSink()
	a := startWith(t, "a", log.Door(), func(c *setup) {
		quick(world)(c)
		c.Machine.Clock = &busyClock{}
	})
	ctx := background(t)
	world.set(func() { world.away["mail"] = true })
	tx := open(ctx, t, a, client.BeginOptions{})
	for i, tool := range []string{"stage", "mail", "unmail"} {
		must(tx.Effect(ctx, tool, at{At: tool, Key: "k" + string(rune('0'+i))}, client.EffectOptions{}))(t)
	}
	must(tx.Seal(ctx))(t)
	a.final(ctx, t, tx.ID())
	world.expect(t, "stage stage")
	want := []string{api.EffectReleased, api.EffectNotSent, api.EffectNotSent}
	if got := a.callStates(ctx, t, tx.ID()); !slices.Equal(got, want) {
		t.Errorf("the calls are %v, want %v", got, want)
	}
	e := must(tx.Effects(ctx))(t).Effects[1]
	if !strings.Contains(e.Detail, "3 tries did not reach the sink") || !strings.Contains(e.Note, "hence residue") {
		t.Errorf("it says %q and %q", e.Detail, e.Note)
	}
	why := must(a.client.Explain(ctx, tx.ID()))(t).Paragraph
	for _, w := range []string{"Its calls: 2 not sent, 1 released.",
		"Call 1, mail, was not sent: 3 tries"} {
		if !strings.Contains(why, w) {
			t.Errorf("%q does not say %q", why, w)
		}
	}
	for _, r := range must(a.client.Residue(ctx, client.ResidueQuery{}))(t).Items {
		if r.Call != api.EffectNotSent || r.Result != "partial" {
			t.Errorf("the list: %+v", r)
		}
	}
	said := map[uint32]bool{}
	all := func() bool {
		for _, ev := range log.Events() {
			if ev.Kind == topology.EventAnswer && gate.Step(ev.Effect.Step) == gate.StepNotSent && ev.Effect.Detail != "" {
				said[ev.Effect.Index] = true
			}
		}
		return said[1] && said[2]
	}
	if err := log.Until(ctx, all); err != nil || said[0] {
		t.Errorf("the events topic says not_sent of %v", said)
	}
	world.set(func() { world.away["mail"] = false })
	if r := must(a.client.RetryResidue(ctx, tx.ID(), 1, false))(t); r.Call != api.EffectReleased {
		t.Errorf("tried again: %+v", r)
	}
	world.expect(t, "stage stage", "mail mail")
	want = []string{api.EffectReleased, api.EffectReleased, api.EffectNotSent}
	if got := a.callStates(ctx, t, tx.ID()); !slices.Equal(got, want) {
		t.Errorf("after a try by hand the calls are %v, want %v", got, want)
	}
}

// TestCallTimes holds that journal and log have one time of a call, and that no two calls of a transaction have
// the same, however fast or slow they come: a start tells by it whether an index belongs to a later call.
func TestCallTimes(t *testing.T) {
	frozen := &fakeClock{now: time.Unix(1e9, 0), beat: make(chan time.Time)}
	for name, clock := range map[string]Clock{"frozen": frozen, "busy": &busyClock{}} {
		t.Run(name, func(t *testing.T) {
			log, world := newLog(), newSink()
			a := startWith(t, "a", log.Door(), func(c *setup) {
				quick(world)(c)
				c.Machine.Clock = clock
			})
			ctx := background(t)
			tx := open(ctx, t, a, client.BeginOptions{})
			for _, key := range []string{"k", "l", "m"} {
				must(tx.Effect(ctx, "mail", at{At: key, Key: key}, client.EffectOptions{}))(t)
			}
			logged := map[uint32]int64{}
			all := func() bool {
				for _, ev := range log.Events() {
					if ev.Kind == topology.EventEffect {
						logged[ev.Effect.Index] = ev.AtMs
					}
				}
				return len(logged) == 3
			}
			if err := log.Until(ctx, all); err != nil {
				t.Fatal(err)
			}
			last := int64(0)
			a.session.loop.Run(func() {
				for _, i := range a.session.txs[sequencer.TxID(tx.ID())].effects {
					if ms := i.effect.At.UnixMilli(); ms != logged[i.effect.Index] || ms <= last {
						t.Errorf("call %d is of %d, of %d in the log, after %d", i.effect.Index, ms, logged[i.effect.Index], last)
					}
					last = i.effect.At.UnixMilli()
				}
			})
		})
	}
}

// TestNotSentBehindARefusal tells a call that its sink refused from the one behind it that never left.
func TestNotSentBehindARefusal(t *testing.T) {
	log, world := newLog(), newSink()
	a := start(t, "a", log.Door(), quick(world))
	ctx := background(t)
	world.set(func() { world.deny["mail"] = true })
	tx := open(ctx, t, a, client.BeginOptions{})
	for _, tool := range []string{"mail", "stage"} {
		must(tx.Effect(ctx, tool, at{At: tool}, client.EffectOptions{}))(t)
	}
	must(tx.Seal(ctx))(t)
	a.final(ctx, t, tx.ID())
	want := []string{api.EffectFailed, api.EffectNotSent}
	if got := a.callStates(ctx, t, tx.ID()); !slices.Equal(got, want) {
		t.Errorf("the calls are %v, want %v", got, want)
	}
}

// withdrawn is a policy whose tools are gone.
type withdrawn struct{ settle.NoTools }

func (withdrawn) Find(string, json.RawMessage) (gate.Tool, error) {
	return gate.Tool{}, gate.ErrNotServed
}

// TestNotSentAfterARestart holds what becomes of a held call whose owner comes back and cannot make it as it was
// declared: it is not_sent at once where that is certain, and unknown where the former process may have made it.
func TestNotSentAfterARestart(t *testing.T) {
	for _, c := range []struct{ how, policy, state, says string }{
		{"held", "changed", api.EffectNotSent, "signature sealed, and now has other"},
		{"held", "withdrawn", api.EffectNotSent, "signature sealed, and now has none"},
		{"held", "the same", api.EffectReleased, ""},
		{"begun", "changed", api.EffectUnknown, ""},
	} {
		t.Run(c.how+", "+c.policy, func(t *testing.T) {
			t.Parallel()
			ctx := background(t)
			log, world := newLog(), newSink()
			leases(t, log, 13)
			tx, journal := leftBehind(t, log, world, c.how)
			world.set(func() { clear(world.block) })
			policy := map[string]func(*setup){"changed": declared(world, "other"), "the same": declared(world, "sealed"),
				"withdrawn": func(s *setup) { quick(world)(s); s.Tools = withdrawn{} }}[c.policy]
			b := reborn(t, log, "a", journal, policy).aloneNow()
			b.final(ctx, t, tx)
			e := must(b.client.Tx(tx).Effects(ctx))(t).Effects[0]
			if e.State != c.state || !strings.Contains(e.Detail, c.says) {
				t.Errorf("the call is %+v, want %s and %q", e, c.state, c.says)
			}
		})
	}
}

// TestWithoutAPolicyNothingIsReleasing holds that a committed call whose owner has no policy file is held, with the
// reason, and not said to be under way.
func TestWithoutAPolicyNothingIsReleasing(t *testing.T) {
	ctx := background(t)
	log, world := newLog(), newSink()
	leases(t, log, 13)
	tx, journal := leftBehind(t, log, world, "held")
	b := reborn(t, log, "a", journal).aloneNow()
	e := must(b.client.Tx(tx).Effects(ctx))(t).Effects[0]
	if e.State != api.EffectHeld || !strings.Contains(e.Note, "without a policy file") {
		t.Errorf("the call is %+v", e)
	}
	told := func() bool {
		return slices.ContainsFunc(log.Events(), func(ev *topology.Event) bool {
			return ev.Kind == topology.EventAnswer && strings.Contains(ev.Effect.Detail, "without a policy file")
		})
	}
	if err := log.Until(ctx, told); err != nil {
		t.Error("those who watch are not told:", err)
	}
	world.expect(t)
}

// TestReleasedByAnother holds that a call which an adopter has made is released for its own agent, too, whose journal
// knows nothing of it.
func TestReleasedByAnother(t *testing.T) {
	ctx := background(t)
	log, world := newLog(), newSink()
	leases(t, log, 13)
	tx, journal := leftBehind(t, log, world, "held")
	_, former, _, _ := api.OwnerOf(sequencer.TxID(tx))
	endLease(t, log, former)
	b := start(t, "b", log.Door(), declared(world, "sealed"))
	b.session.loop.Run(func() { b.session.settlements().Adopt(ctx, sequencer.TxID(tx)) })
	b.final(ctx, t, tx)
	told := func() bool {
		return slices.ContainsFunc(log.Events(), func(ev *topology.Event) bool { return ev.Kind == topology.EventAnswer })
	}
	if err := log.Until(ctx, told); err != nil {
		t.Fatal(err)
	}
	a := reborn(t, log, "a", journal, declared(world, "sealed")).aloneNow()
	if got := a.callStates(ctx, t, tx); !slices.Equal(got, []string{api.EffectReleased}) {
		t.Errorf("the call is %v", got)
	}
	if why := must(b.client.Explain(ctx, tx))(t).Paragraph; !strings.Contains(why, "Its calls: 1 released.") {
		t.Errorf("another sidecar explains it by %q", why)
	}
}
