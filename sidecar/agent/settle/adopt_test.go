package settle

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
	"github.com/hence-dev/hence/topology"
)

// The bound after which any sidecar adopts counts from the end of its last owner, who may come back for it.
func TestBoundCountsFromLastOwner(t *testing.T) {
	s := alone(t)
	tx := api.TxName("a", 5, 1)
	s.observeLeft(&sequencer.Outcome{Kind: sequencer.OutcomeLeaseEnded, Agent: "a", Incarnation: 5})
	s.orphans.left.ended[5] = s.clock.Now().Add(-time.Hour)
	s.orphans.left.last["a"] = s.orphans.left.ended[5]
	rows := []topology.Unsettled{{Tx: tx, Incarnation: 5}}
	since := func() time.Duration { return time.Since(s.leftSince(rows, s.clock.Now())[0]) }
	if age := since(); age < time.Hour {
		t.Errorf("without a later owner it is left since %v", age)
	}
	for _, owner := range []string{"b", "a"} { // who adopted it, and the agent's own next session
		s.orphans.left.observeOwner(&sequencer.Outcome{Kind: sequencer.OutcomeAdopted, Tx: tx, Agent: owner})
		s.observeLeft(&sequencer.Outcome{Kind: sequencer.OutcomeLeaseEnded, Agent: owner, Incarnation: 9})
		if age := since(); age > time.Minute {
			t.Errorf("after %s had it, it is left since %v", owner, age)
		}
		delete(s.orphans.left.last, owner)
	}
}

// A former owner of what was adopted may begin a call, and publish it, until its lease has passed. What it publishes
// after the first look is settled, too: the log is read again then, and nothing is settled before.
func TestAdoptedIsReadOnceFreed(t *testing.T) {
	s := alone(t)
	d := &unsettled{tx: api.TxName("b", 5, 1), seq: 6, grantsTo: 6, freed: s.clock.Steady().Add(time.Hour)}
	look := func() (effects []gate.Progress, waits bool) {
		effects, claim, err := s.owed(t.Context(), d, 7)
		if err != nil || claim != gate.ClaimStranger {
			t.Fatal(claim, err)
		}
		return effects, s.mustWait(d, effects, claim)
	}
	if effects, waits := look(); len(effects) > 0 || !waits || !d.notBefore.Equal(d.freed) {
		t.Errorf("while its owner may call: %d calls, waits %v until %v, want %v", len(effects), waits, d.notBefore, d.freed)
	}
	s.Events.(*memlog.Door).PublishAsync([]*topology.Event{{Kind: topology.EventEffect, Workspace: "w", Tx: d.tx,
		Agent: "b", Incarnation: 5, Effect: &topology.EffectText{Tool: "late", Class: sequencer.ClassReversible}}},
		func(_ sequencer.Place, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	d.freed = s.clock.Steady()
	if effects, waits := look(); len(effects) != 1 || effects[0].Tool.Name != "late" || waits {
		t.Errorf("once its owner is silent: waits %v, calls %+v, want the late one", waits, effects)
	}
}

// TestAdoptNamedOnce holds what a sidecar remembers: the last list that was said, without what was adopted, and
// nothing once the turn has come.
func TestAdoptNamedOnce(t *testing.T) {
	s := alone(t)
	later := s.clock.Now().Add(time.Hour)
	wants := func() (out []sequencer.TxID) {
		txs, _ := s.orphans.namedNow(later)
		for tx := range txs {
			out = append(out, tx)
		}
		slices.Sort(out)
		return out
	}
	say := func(kind sequencer.OutcomeKind, tx sequencer.TxID, inc sequencer.Seq, by ...sequencer.TxID) {
		o := &sequencer.Outcome{Kind: kind, Tx: tx, Agent: "b", Incarnation: inc, Retraction: "b.1.1"}
		for _, one := range by {
			o.BlockedBy = append(o.BlockedBy, sequencer.Blocker{Tx: one, Why: whyOrphan})
		}
		if kind == sequencer.OutcomeAdopted {
			o.Retraction = ""
		}
		s.observeOrphans(o)
	}
	for _, step := range []struct {
		say  func()
		want []sequencer.TxID
	}{
		{func() { say(sequencer.OutcomeRetracting, "b.1.2", 7, "c.1.1", "c.1.2") }, []sequencer.TxID{"c.1.1", "c.1.2"}},
		{func() { say(sequencer.OutcomeRetracting, "b.1.2", 7, "c.1.1", "c.1.3") }, []sequencer.TxID{"c.1.1", "c.1.3"}},
		{func() { say(sequencer.OutcomeAdopted, "c.1.1", 9) }, []sequencer.TxID{"c.1.3"}},
		{func() { say(sequencer.OutcomeTurn, "b.1.2", 7) }, nil},
		{func() { say(sequencer.OutcomeTurn, "b.1.1", 0) }, []sequencer.TxID{"b.1.1"}},
		{func() { say(sequencer.OutcomeAdopted, "b.1.1", 9) }, nil},
		{func() { s.waitsForTurn("b.1.1") }, nil},
	} {
		step.say()
		if got := wants(); !slices.Equal(got, step.want) {
			t.Errorf("wanted are %v, want %v", got, step.want)
		}
	}
	if _, any := s.orphans.namedNow(later); !any {
		t.Error("what was said before this session is not looked for")
	}
}

// TestAdoptNamedSpread holds that sidecars that are not the first differ in when they adopt.
func TestAdoptNamedSpread(t *testing.T) {
	const after = time.Second
	seen := map[time.Duration]bool{}
	for i := range 20 {
		agent := fmt.Sprintf("agent-%d", i)
		in := adoptIn(after, agent, "b.1.1", false)
		if in < 4*after || in > 20*after {
			t.Errorf("%s adopts after %s", agent, in)
		}
		seen[in] = true
	}
	if len(seen) < 10 || adoptIn(after, "a", "b.1.1", true) != after {
		t.Errorf("20 agents adopt at %d times", len(seen))
	}
}
