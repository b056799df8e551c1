package agent

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
)

// orphaned leaves a transaction of an agent that is gone: it was granted a scope, and is not settled.
func orphaned(t *testing.T, log *memlog.Log, agent string) sequencer.TxID {
	t.Helper()
	inc := stranger(t, log, agent)
	tx := sequencer.TxID(fmt.Sprintf("%s.%d.1", agent, inc))
	must(log.Add(&sequencer.Intent{Kind: sequencer.IntentTouch, Tx: tx, N: 1, Agent: agent, Incarnation: inc,
		Base: log.Seq(), Begin: &sequencer.Begin{}, Touch: &sequencer.Touch{Wants: []sequencer.Want{{
			Scope: sequencer.Scope("order:/" + agent), Access: sequencer.WriteAccess}}}}))(t)
	must(log.Add(&sequencer.Intent{Kind: sequencer.IntentAbort, Tx: tx, N: 1, Agent: agent, Incarnation: inc,
		Abort: &sequencer.Abort{}}))(t)
	return tx
}

// adopters are the agents that have asked for an orphan, in the order of the log.
func adopters(log *memlog.Log, tx sequencer.TxID) (out []string) {
	for _, in := range log.Intents() {
		if in.Kind == sequencer.IntentAdopt && in.Tx == tx && !slices.Contains(out, in.Agent) {
			out = append(out, in.Agent)
		}
	}
	return out
}

// adoptedBy waits until an agent asks for an orphan, and returns the first that did.
func adoptedBy(ctx context.Context, t *testing.T, log *memlog.Log, tx sequencer.TxID) string {
	t.Helper()
	if err := log.Until(ctx, func() bool { return len(adopters(log, tx)) > 0 }); err != nil {
		t.Fatalf("nobody adopts %s: %v", tx, err)
	}
	return adopters(log, tx)[0]
}

// TestAdoptNamed holds who adopts an orphan that a retraction is said to wait for: the owner of the member that waits,
// the sidecar that asked where that has none, and at last anybody; never one that has an owner.
func TestAdoptNamed(t *testing.T) {
	for _, c := range []struct {
		name  string
		owner bool // the member has one: agent b
		asks  bool // agent a has asked for the retraction
		first string
	}{
		{"the member's owner", true, true, "b"},
		{"the one that asked", false, true, "a"},
		{"anybody", false, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			log, world := newLog(), newSink()
			ctx := background(t)
			orphan := orphaned(t, log, "gone")
			endLease(t, log, incarnationOf(orphan))
			var rigs []*rig
			for _, agent := range []string{"a", "b", "c"} {
				rigs = append(rigs, start(t, agent, log.Door(), quick(world), func(c *setup) {
					c.Limits.AdoptAfter = 60 * time.Millisecond
				}))
			}
			a, b := rigs[0], rigs[1]
			tx := must(b.client.Begin(ctx, client.BeginOptions{}))(t)
			must(tx.Effect(ctx, "set", at{At: "x"}, client.EffectOptions{}))(t)
			must(tx.Seal(ctx))(t)
			member := sequencer.TxID(tx.ID())
			free := a.session.stand()
			if c.asks {
				a.session.settlements().Asked(member)
			}
			free()
			said := sequencer.Outcome{Kind: sequencer.OutcomeRetracting, Tx: member, Agent: "b", Retraction: member,
				BlockedBy: []sequencer.Blocker{{Tx: orphan, Scope: "order:/gone", Why: "orphan"},
					{Tx: "a.9.9", Scope: "order:/a", Why: "granted"}}}
			if c.owner {
				said.Incarnation = b.session.inc()
			}
			must(log.Say(said))(t)
			first := adoptedBy(ctx, t, log, orphan)
			if c.first != "" && first != c.first {
				t.Errorf("%s adopts it first, want %s", first, c.first)
			}
			if got := adopters(log, "a.9.9"); len(got) > 0 {
				t.Errorf("one that has an owner is adopted by %v", got)
			}
			if got := must(a.client.Retract(ctx, tx.ID(), "", false))(t); len(got.BlockedBy) != 2 ||
				got.BlockedBy[0].Tx != string(orphan) {
				t.Errorf("what it waits for is not said: %+v", got)
			}
		})
	}
}

func incarnationOf(tx sequencer.TxID) sequencer.Seq {
	_, inc, _, _ := api.OwnerOf(tx)
	return inc
}
