package agent

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/agent/settle"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

func soon(c *setup) {
	c.Limits.SettlementWait, c.Limits.WatermarkEvery = 20*time.Millisecond, 10*time.Millisecond
}

// Without its journal a sidecar knows from the log what was handed to the agent, and lists its use as unresolved.
func TestOwnWithoutJournal(t *testing.T) {
	log := newLog()
	a := start(t, "a", log.Door(), soon)
	ctx := background(t)
	tx := open(ctx, t, a, client.BeginOptions{})
	touch(ctx, t, tx, writes("order:/1"))
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	a = start(t, "a", log.Door(), soon)
	a.final(ctx, t, tx.ID())
	list := log.Residue()
	if len(list) != 1 || list[0].Tool != settle.OwnTool || list[0].Result != sequencer.ResultUnresolved {
		t.Errorf("the list of residues: %+v", list)
	}
}

// When a commit is retracted its agent is asked what it has taken back of what it did by itself.
func TestOwnRetracted(t *testing.T) {
	for name, say := range map[string]int{"said": 0, "not said": 1} {
		t.Run(name, func(t *testing.T) {
			log := newLog()
			a := start(t, "a", log.Door(), func(c *setup) {
				if name == "not said" {
					soon(c)
				}
			})
			ctx := background(t)
			tx := open(ctx, t, a, client.BeginOptions{})
			touch(ctx, t, tx, writes("order:/1"))
			must(tx.Seal(ctx))(t)
			dry := must(a.client.Retract(ctx, tx.ID(), "", true))(t)
			if len(dry.Cone) != 1 || len(dry.Cone[0].Effects) != 1 || dry.Cone[0].Effects[0].Fate != api.FateUnknown {
				t.Errorf("the dry run: %+v", dry)
			}
			must(a.client.Retract(ctx, tx.ID(), "", false))(t)
			if name == "said" {
				undone := []client.SettledEffect{{Scopes: []string{"order:/1"}, Result: "clean"}}
				if d := must(tx.Settle(ctx, undone, true))(t); !d.Final || !d.Undone {
					t.Errorf("said: %+v", d)
				}
			}
			a.final(ctx, t, tx.ID())
			if list := log.Residue(); len(list) != say {
				t.Errorf("the list of residues: %+v", list)
			}
		})
	}
}

// What the agent did by itself stands behind the planned calls, also where one of these never came: in the footprint,
// in a retraction's dry run and on the list of residues.
func TestOwnBehindPlan(t *testing.T) {
	log, world := newLog(), newSink()
	a := start(t, "a", log.Door(), quick(world), func(c *setup) { c.Limits.SettlementWait = 20 * time.Millisecond })
	ctx := background(t)
	tx := open(ctx, t, a, client.BeginOptions{})
	must(tx.Plan(ctx, "never", "mail"))(t)
	must(tx.Effect(ctx, "mail", at{At: "m"}, client.EffectOptions{Call: "mail"}))(t)
	touch(ctx, t, tx, writes("order:/1"))
	if d := must(tx.Seal(ctx))(t); d.State != api.StateCommitted {
		t.Fatalf("decided: %+v", d)
	}
	a.final(ctx, t, tx.ID())
	var places []string
	for _, e := range sealedEffects(log, tx.ID()) {
		places = append(places, fmt.Sprint("sealed ", e.Index, e.Tool, e.Absent))
	}
	for _, e := range must(a.client.Retract(ctx, tx.ID(), "", true))(t).Cone[0].Effects {
		places = append(places, fmt.Sprint("dry ", e.Index, e.Tool))
	}
	must(a.client.Retract(ctx, tx.ID(), "", false))(t)
	if err := log.Until(ctx, func() bool { return len(log.Residue()) > 1 }); err != nil {
		t.Fatalf("the list of residues: %+v", log.Residue())
	}
	for _, r := range log.Residue() {
		places = append(places, fmt.Sprint("residue ", r.Index, r.Tool))
	}
	want := []string{"sealed 0true", "sealed 1mailfalse", "sealed 2touchfalse", "dry 1mail", "dry 2touch",
		"residue 1mail", "residue 2touch"}
	slices.Sort(places[len(places)-2:])
	if !slices.Equal(places, want) {
		t.Errorf("%q, want %q", places, want)
	}
}
