package agent

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
)

// What is given changes, at the version that was read; the rest stays.
func TestRules(t *testing.T) {
	log := newLog()
	a, b := start(t, "a", log.Door()), start(t, "b", log.Door())
	ctx := background(t)
	was := must(a.client.Rules(ctx))(t)
	if was.Version != 0 || was.Logic != sequencer.Logic || was.Levels != "L4" || was.HorizonSeqs != 1000 {
		t.Fatalf("the rules at first: %+v", was)
	}
	horizon, levels, observe := uint32(50), "A1,A3", true
	change := client.RulesChange{HorizonSeqs: &horizon, Levels: &levels, Observe: &observe}
	got := must(a.client.SetRules(ctx, 0, change))(t)
	want := was
	want.Version, want.HorizonSeqs, want.Levels, want.Observe = 1, 50, "L2", true
	if got != want {
		t.Errorf("changed: %+v, want %+v", got, want)
	}
	if err := b.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	if seen := must(b.client.Rules(ctx))(t); seen != want {
		t.Errorf("another sidecar: %+v", seen)
	}
	_, err := b.client.SetRules(ctx, 0, client.RulesChange{HorizonSeqs: &horizon})
	var p *client.Problem
	if !errors.As(err, &p) || p.Status != 412 {
		t.Errorf("of an old version: %v", err)
	}
	zero, far := uint32(0), uint32(9)
	if _, err = b.client.SetRules(ctx, 1, client.RulesChange{CapSeqs: &zero}); problemCode(err) != api.CodeBadRequest ||
		!strings.Contains(err.Error(), "65536") {
		t.Errorf("rules that cannot be: %v", err)
	}
	if _, err = b.client.SetRules(ctx, 1, client.RulesChange{Logic: &far}); problemCode(err) != api.CodeBadRequest {
		t.Errorf("a logic that there is not: %v", err)
	}
	empty := ""
	if _, err = b.client.SetRules(ctx, 1, client.RulesChange{Levels: &empty}); problemCode(err) != api.CodeBadRequest {
		t.Errorf("no levels: %v", err)
	}
	if status, p, _ := a.send(t, put(inDefault+"/rules", "If-Match", "*")); status != 400 {
		t.Errorf("without a version: %d %+v", status, p)
	}
}

// TestMaxSidecars holds that the bound on sidecars is shown and set from logic 3 on, and that older logics have none.
func TestMaxSidecars(t *testing.T) {
	log := newLog()
	must(log.Add(&sequencer.Intent{Kind: sequencer.IntentJoin, Agent: "old",
		Join: &sequencer.Join{ID: "old", Logic: 2}}))(t)
	a := start(t, "a", log.Door())
	ctx := background(t)
	if was := must(a.client.Rules(ctx))(t); was.Logic != 2 || was.MaxSidecars != 0 {
		t.Fatalf("the rules at first: %+v", was)
	}
	few, three, levels := uint32(5), uint32(3), "L3"
	_, err := a.client.SetRules(ctx, 0, client.RulesChange{MaxSidecars: &few})
	if problemCode(err) != api.CodeBadRequest || !strings.Contains(err.Error(), "logic 3") {
		t.Errorf("set under logic 2: %v", err)
	}
	got := must(a.client.SetRules(ctx, 0, client.RulesChange{Logic: &three, MaxSidecars: &few}))(t)
	if got.Logic != 3 || got.MaxSidecars != few {
		t.Errorf("set with logic 3: %+v", got)
	}
	if got = must(a.client.SetRules(ctx, 1, client.RulesChange{Levels: &levels}))(t); got.MaxSidecars != few {
		t.Errorf("another change: %+v", got)
	}
}

// TestRulesFilledIn holds that rules whose bound the fold has filled in are those that were asked for.
func TestRulesFilledIn(t *testing.T) {
	asked := sequencer.DefaultRules()
	asked.Version, asked.Logic, asked.MaxSidecars = 1, 3, 0
	now := asked
	if now.MaxSidecars = 1024; !inForce(now, asked) {
		t.Error("the default of the fold is taken for another change")
	}
	if now.HorizonCommits, now.HorizonTicks = 2000, 2_419_200; !inForce(now, asked) {
		t.Error("the default horizon of the fold is taken for another change")
	}
	if now.ApprovalTicks = 14_400; !inForce(now, asked) {
		t.Error("the default bound of approvals is taken for another change")
	}
	if asked.MaxSidecars = 5; inForce(now, asked) {
		t.Error("another bound is taken for the one that was asked for")
	}
}

// TestNotWhileObserving holds that what the log refuses to observe is said under its own code.
func TestNotWhileObserving(t *testing.T) {
	log := newLog()
	a := start(t, "a", log.Door())
	ctx := background(t)
	if _, err := a.client.Rules(ctx); err != nil { // learnt while the log still answers
		t.Fatal(err)
	}
	at := log.Seq()
	must(log.Say(sequencer.Outcome{Kind: sequencer.OutcomeRefused, Agent: "a", Intent: "nobody's"}))(t)
	if err := a.view.Reach(ctx, at+1); err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 1)
	observe := true
	go func() {
		_, err := a.client.SetRules(ctx, 0, client.RulesChange{Observe: &observe})
		result <- err
	}()
	var in *sequencer.Intent
	asked := func() bool {
		for _, one := range log.Intents() {
			if one.Kind == sequencer.IntentRules {
				in = one
			}
		}
		return in != nil
	}
	if err := log.Until(ctx, asked); err != nil {
		t.Fatal(err)
	}
	must(log.Say(sequencer.Outcome{Kind: sequencer.OutcomeRefused, Agent: "a", Incarnation: in.Incarnation,
		Intent: in.ID(), Code: sequencer.CodeNotWhileObserving, Detail: "a retraction runs", Retryable: true}))(t)
	err := <-result
	var p *client.Problem
	if !errors.As(err, &p) || p.Code != string(sequencer.CodeNotWhileObserving) || !p.Retryable || p.Status != 409 {
		t.Errorf("refused: %v", err)
	}
}

// TestRulesChanged holds that an abort by a change of the rules is a conflict that may be tried again.
func TestRulesChanged(t *testing.T) {
	log := newLog()
	a := start(t, "a", log.Door())
	ctx := background(t)
	tx := open(ctx, t, a, client.BeginOptions{})
	must(tx.Read(ctx, "shard:/x"))(t)
	must(log.Say(sequencer.Outcome{Kind: sequencer.OutcomeAborted, Tx: sequencer.TxID(tx.ID()), Agent: "a",
		Incarnation: a.session.inc(), Code: sequencer.CodeRulesChanged, Retryable: true, Final: true}))(t)
	if err := a.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	d := must(tx.Seal(ctx))(t)
	if d.State != api.StateAborted || d.Code != string(sequencer.CodeRulesChanged) || !d.Retryable || d.BackoffMs == 0 {
		t.Errorf("decided: %+v", d)
	}
	next := must(tx.Retry(ctx))(t)
	if got := next.Opened(); got.State != api.StateOpen || got.Attempt != d.Attempt+1 {
		t.Errorf("tried again: %+v", got)
	}
	status, p, _ := a.send(t, with(rawCall{method: "POST", path: "/v1/tx/" + tx.ID() + "/seal"}))
	if status != 409 || !p.Retryable || p.Code != string(sequencer.CodeRulesChanged) ||
		!strings.Contains(p.Detail, "began to enforce") {
		t.Errorf("answered %d %+v", status, p)
	}
}

// Of two changes of one version one holds; the other is told to read again.
func TestRulesRace(t *testing.T) {
	log := newLog()
	a, b := start(t, "a", log.Door()), start(t, "b", log.Door())
	ctx := background(t)
	result := make(chan error, 2)
	for i, r := range []*rig{a, b} {
		horizon := uint32(100 + i)
		go func() {
			_, err := r.client.SetRules(ctx, 0, client.RulesChange{HorizonSeqs: &horizon})
			result <- err
		}()
	}
	one, two := <-result, <-result
	if (one == nil) == (two == nil) {
		t.Errorf("both or none: %v, %v", one, two)
	}
}

// A sidecar that began after the workspace's first join learns the logic that this one set, without a new version.
func TestLogicOfTheFirstJoin(t *testing.T) {
	log := newLog()
	a := start(t, "a", log.Door())
	ctx := background(t)
	must(a.client.Put(ctx, "shard:/x", []byte("1"), client.WriteOptions{}))(t)
	b := start(t, "b", log.Door())
	must(b.client.Put(ctx, "shard:/y", []byte("1"), client.WriteOptions{}))(t)
	if now := b.view.Settings(); !now.Exact || now.Rules.Logic != sequencer.Logic {
		t.Errorf("the rules that it knows: %+v", now)
	}
	if got := must(b.client.Rules(ctx))(t); got.Version != 0 || got.Logic != sequencer.Logic {
		t.Errorf("the rules that it shows: %+v", got)
	}
}

// older is a log whose processors know an older logic.
type older struct {
	Log
	asked atomic.Int32
}

func (d *older) KnownLogic(context.Context, string) (uint32, error) {
	d.asked.Add(1)
	return 2, nil
}

// The first join of a workspace asks for the logic that the processors know; later ones do not ask.
func TestFirstJoinAsksForAKnownLogic(t *testing.T) {
	log := newLog()
	first, second := &older{Log: log.Door()}, &older{Log: log.Door()}
	ctx := background(t)
	a := start(t, "a", first)
	must(a.client.Put(ctx, "shard:/x", []byte("1"), client.WriteOptions{}))(t)
	b := start(t, "b", second)
	must(b.client.Put(ctx, "shard:/y", []byte("1"), client.WriteOptions{}))(t)
	if got := must(b.client.Rules(ctx))(t); got.Logic != 2 {
		t.Errorf("the workspace has logic %d", got.Logic)
	}
	if first.asked.Load() == 0 || second.asked.Load() != 0 {
		t.Errorf("the first asked %d times, the second %d times", first.asked.Load(), second.asked.Load())
	}
}

// A tool that was changed or withdrawn between plan and commit refuses the commit; the call that was held never
// leaves.
func TestPinnedTools(t *testing.T) {
	log, world := newLog(), newSink()
	a := start(t, "a", log.Door(), withTools(world))
	ctx := background(t)
	must(a.client.PutTool(ctx, "", "search", "s1"))(t)
	got := must(a.client.PutTool(ctx, "", "calendar/add", "c1"))(t)
	if got.Server != defaultServer || got.Tools != 2 || got.Name != "calendar/add" {
		t.Errorf("registered: %+v", got)
	}
	must(a.client.PutTool(ctx, "other", "search", "o1"))(t)
	pinned := func(pin client.Pin) client.Decision {
		t.Helper()
		tx := open(ctx, t, a, client.BeginOptions{})
		must(tx.Effect(ctx, "mail", at{At: "b", Key: tx.ID()}, client.EffectOptions{}))(t)
		return must(tx.SealPinned(ctx, []client.Pin{pin}))(t)
	}
	if d := pinned(client.Pin{Name: "search", Signature: "s1"}); d.State != api.StateCommitted {
		t.Errorf("as it was: %+v", d)
	}
	must(a.client.PutTool(ctx, "", "search", "s2"))(t)
	if d := pinned(client.Pin{Name: "search", Signature: "s1"}); d.Code != "phantom_tool" || !d.Retryable {
		t.Errorf("changed: %+v", d)
	}
	must(a.client.DeleteTool(ctx, "", "search"))(t)
	if d := pinned(client.Pin{Name: "search", Signature: "s2"}); d.Code != "phantom_tool" {
		t.Errorf("withdrawn: %+v", d)
	}
	if d := pinned(client.Pin{Server: "other", Name: "search", Signature: "o1"}); d.State != api.StateCommitted {
		t.Errorf("another server's: %+v", d)
	}
	if d := must(a.client.DeleteTool(ctx, "other", "search"))(t); d.Tools != 0 {
		t.Errorf("the last one: %+v", d)
	}
	for i, o := range inside(a.session, func() []*tx { return a.session.branches("") }) {
		a.final(ctx, t, string(o.id))
		_ = i
	}
	if n := len(world.world()); n != 2 {
		t.Errorf("%d calls were made, want those of the 2 commits", n)
	}
}

// What is wrong with a tool is said.
func TestToolsBadInput(t *testing.T) {
	log, world := newLog(), newSink()
	a := start(t, "a", log.Door(), withTools(world))
	ctx := background(t)
	server, _ := a.session.tools.(catalogue).Catalogue()
	for name, c := range map[string]struct {
		err  error
		code string
	}{
		"unknown":      {second(a.client.DeleteTool(ctx, "", "none")), api.CodeNotFound},
		"no signature": {second(a.client.PutTool(ctx, "", "x", "")), api.CodeBadRequest},
		"long":         {second(a.client.PutTool(ctx, "", "x", strings.Repeat("s", 2000))), api.CodeBadRequest},
		"long name":    {second(a.client.PutTool(ctx, "", strings.Repeat("n", 300), "s")), api.CodeBadRequest},
		"the policy's": {second(a.client.PutTool(ctx, server, "x", "s")), api.CodeBadRequest},
	} {
		if problemCode(c.err) != c.code {
			t.Errorf("%s: %v, want %s", name, c.err, c.code)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// A new session of the same process registers the agent's tools again.
func TestToolsAgain(t *testing.T) {
	log := newLog()
	a := start(t, "a", log.Door())
	ctx := background(t)
	must(a.client.PutTool(ctx, "", "search", "s1"))(t)
	inc := a.session.inc()
	if err := log.Tick(200); err != nil {
		t.Fatal(err)
	}
	again := func() bool { now := a.session.liveIncarnation(); return now != 0 && now != inc }
	if err := a.session.eventually(ctx, again); err != nil {
		t.Fatal(err)
	}
	tx := open(ctx, t, a, client.BeginOptions{})
	if d := must(tx.SealPinned(ctx, []client.Pin{{Name: "search", Signature: "s1"}}))(t); d.State != api.StateCommitted {
		t.Errorf("sealed: %+v", d)
	}
}

// askedInVain is a log whose fold does not answer the first question for the rules.
type askedInVain struct {
	*memlog.Door
	asked atomic.Int32
}

func (d *askedInVain) Rules(ctx context.Context, ws string) (sequencer.Rules, sequencer.Seq, error) {
	if d.asked.Add(1) == 1 {
		return sequencer.Rules{}, 0, memlog.ErrLost
	}
	return d.Door.Rules(ctx, ws)
}

// A settlement that waits for a former owner's lease asks for the rules, which say how long that is, when the
// session's own question was not answered.
func TestSettlementAsksForTheRules(t *testing.T) {
	log, world := newLog(), newSink()
	leases(t, log, 13)
	ctx := background(t)
	door := log.Door()
	a := start(t, "a", door, quick(world))
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	must(tx.Effect(ctx, "set", at{At: "x"}, client.EffectOptions{}))(t)
	if a.session.delivery.Drain(ctx) > 0 {
		t.Fatal("events are not published")
	}
	a.die(t, door)
	b := start(t, "a", &askedInVain{Door: log.Door()}, quick(world))
	b.final(ctx, t, tx.ID())
	world.expect(t, "set x", "back x")
}
