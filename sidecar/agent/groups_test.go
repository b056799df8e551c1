package agent

import (
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

// Of a group's branches the chosen one commits; what the others held never leaves, and what they did is taken back.
func TestGroup(t *testing.T) {
	for _, mode := range []string{"optimistic", "ordered", "locked"} {
		t.Run(mode, func(t *testing.T) {
			log, world := newLog(), newSink()
			a := start(t, "a", log.Door(), withTools(world))
			ctx := background(t)
			g := must(a.client.Speculate(ctx, 4, client.BeginOptions{Mode: mode}))(t)
			branches := g.Branches()
			must(branches[0].Effect(ctx, "mail", at{At: "lost", Key: "k0"}, client.EffectOptions{}))(t)
			must(branches[0].Effect(ctx, "set", at{At: "a"}, client.EffectOptions{}))(t)
			must(branches[1].Effect(ctx, "mail", at{At: "won", Key: "k1"}, client.EffectOptions{}))(t)
			_, err := branches[1].Effect(ctx, "set", at{At: "a"}, client.EffectOptions{})
			if code := problemCode(err); code != "sibling" && code != "own_transaction" {
				t.Errorf("a sibling's scope: %v", err)
			}
			// The last one lost before the log ever heard of it.
			must(g.Select(ctx, branches[1]))(t)
			if d := must(branches[1].Seal(ctx))(t); d.State != api.StateCommitted {
				t.Fatalf("the winner: %+v", d)
			}
			for _, lost := range []int{0, 2, 3} {
				if d := must(branches[lost].Seal(ctx))(t); d.Code != "lost_branch" {
					t.Errorf("branch %d: %+v", lost, d)
				}
				if _, err := branches[lost].Retry(ctx); problemCode(err) != "lost_branch" {
					t.Errorf("branch %d again: %v", lost, err)
				}
				a.final(ctx, t, branches[lost].ID())
			}
			a.final(ctx, t, branches[1].ID())
			for _, what := range world.world() {
				if what == "mail lost" {
					t.Error("what a lost branch held has left")
				}
			}
			if n := len(log.Residue()); n != 0 {
				t.Errorf("%d residues", n)
			}
			again := must(g.Select(ctx, branches[1]))(t)
			if again.Winner != branches[1].ID() || len(again.Branches) != 4 {
				t.Errorf("chosen again: %+v", again)
			}
			if _, err := g.Select(ctx, branches[0]); problemCode(err) != "lost_branch" {
				t.Errorf("another choice: %v", err)
			}
			_, err = a.client.Begin(ctx, client.BeginOptions{Group: g.ID()})
			if problemCode(err) != "lost_branch" {
				t.Errorf("a late branch: %v", err)
			}
		})
	}
}

// A branch waits sealed until one is chosen; a further branch can join until then, and a retry stays in the group.
func TestGroupWaits(t *testing.T) {
	log := newLog()
	a := start(t, "a", log.Door())
	ctx := background(t)
	g := must(a.client.Speculate(ctx, 2, client.BeginOptions{}))(t)
	more := open(ctx, t, a, client.BeginOptions{Group: g.ID()})
	if _, err := a.client.Begin(ctx, client.BeginOptions{Group: "nobody's"}); problemCode(err) != api.CodeNotFound {
		t.Errorf("a group that there is not: %v", err)
	}
	if err := more.Abort(ctx, "changed its mind"); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Select(ctx, more); problemCode(err) != "aborted_by_agent" {
		t.Errorf("choosing one that is over: %v", err)
	}
	next := must(more.Retry(ctx))(t)
	decided := make(chan client.Decision, 1)
	go func() {
		d, err := next.Seal(ctx)
		if err != nil {
			t.Error(err)
		}
		decided <- d
	}()
	waits := func() bool {
		seen, ok := a.view.Transaction(sequencer.TxID(next.ID()))
		return ok && seen.Waiting != nil
	}
	if err := a.session.eventually(ctx, waits); err != nil {
		t.Fatal(err)
	}
	must(g.Select(ctx, next))(t)
	if d := <-decided; d.State != api.StateCommitted || d.Attempt != 2 || d.AttemptsLeft != 62 {
		t.Errorf("the winner: %+v", d)
	}
	outside := open(ctx, t, a, client.BeginOptions{})
	if _, err := g.Select(ctx, outside); problemCode(err) != api.CodeBadRequest {
		t.Errorf("choosing one from outside: %v", err)
	}
}

// A branch whose session has ended cannot be chosen: it cannot commit any more, and the choice would condemn its work.
func TestChooseLostBranch(t *testing.T) {
	log := newLog()
	a := start(t, "a", log.Door(), func(c *setup) { c.Limits.WatermarkEvery = testWait })
	ctx := background(t)
	g := must(a.client.Speculate(ctx, 2, client.BeginOptions{}))(t)
	former := a.session.inc()
	for log.Seq() < 2 { // until the lease's end and the new join are decided
		if err := log.Tick(1); err != nil {
			t.Fatal(err)
		}
	}
	joined := func() bool { now := a.session.liveIncarnation(); return now != 0 && now != former }
	if err := a.session.eventually(ctx, joined); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Select(ctx, g.Branches()[0]); problemCode(err) != api.CodeSessionLost {
		t.Errorf("choosing a lost branch: %v", err)
	}
	if winner, known := a.view.Winner(g.ID()); known {
		t.Errorf("%s was chosen", winner)
	}
}

// The chosen branch is tried again outside of its group, where no other branch can take its place; the others are not.
func TestRetryChosenBranch(t *testing.T) {
	log := newLog()
	a, b := start(t, "a", log.Door()), start(t, "b", log.Door())
	ctx := background(t)
	g := must(a.client.Speculate(ctx, 2, client.BeginOptions{}))(t)
	chosen, other := g.Branches()[0], g.Branches()[1]
	for _, branch := range g.Branches() {
		must(branch.Read(ctx, "shard:/x"))(t)
	}
	must(b.client.Put(ctx, "shard:/x", []byte("moved"), client.WriteOptions{}))(t)
	if d := must(other.Seal(ctx))(t); d.Code != "stale_read" {
		t.Fatalf("the other: %+v", d)
	}
	must(g.Select(ctx, chosen))(t)
	if d := must(chosen.Seal(ctx))(t); d.Code != "stale_read" || !d.Retryable {
		t.Fatalf("the chosen one: %+v", d)
	}
	next := must(chosen.Retry(ctx))(t)
	must(next.Read(ctx, "shard:/x"))(t)
	if d := must(next.Seal(ctx))(t); d.State != api.StateCommitted {
		t.Errorf("the chosen one again: %+v", d)
	}
	if _, err := other.Retry(ctx); problemCode(err) != "lost_branch" {
		t.Errorf("the other again: %v", err)
	}
}

// In a workspace that observes a branch commits without a choice. Choosing it then is a choice in the log as well, and
// no branch is said to have lost before there is one.
func TestChooseCommittedBranchWhileObserving(t *testing.T) {
	log := newLog()
	a := start(t, "a", log.Door())
	ctx := background(t)
	observe := true
	must(a.client.SetRules(ctx, 0, client.RulesChange{Observe: &observe}))(t)
	g := must(a.client.Speculate(ctx, 2, client.BeginOptions{}))(t)
	branches := g.Branches()
	if err := branches[0].Write(ctx, "shard:/x", []byte("1"), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if d := must(branches[0].Seal(ctx))(t); d.State != api.StateCommitted || d.Would == "" {
		t.Fatalf("it only observes: %+v", d)
	}
	if got := must(g.Select(ctx, branches[0]))(t); got.Winner != branches[0].ID() {
		t.Errorf("chosen: %+v", got)
	}
	if _, err := g.Select(ctx, branches[1]); problemCode(err) != "lost_branch" {
		t.Errorf("another choice: %v", err)
	}
	other := must(a.client.Speculate(ctx, 2, client.BeginOptions{}))(t)
	late := other.Branches()[0]
	must(late.Seal(ctx))(t)
	b := a.crash(t, log.Door(), nil) // what it only observed its journal does not say
	got := must(b.session.Select(ctx, other.ID(), &api.Select{Tx: late.ID()}))(t)
	if got.Winner != late.ID() {
		t.Errorf("chosen after a restart: %+v", got)
	}
	chosen := 0
	for _, o := range log.Outcomes() {
		if o.Kind == sequencer.OutcomeSelected {
			chosen++
		}
	}
	if chosen != 2 {
		t.Errorf("the log has %d choices, want 2", chosen)
	}
}
