package agent

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/agent/settle"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/topology"
)

func writes(scopes ...string) (out []client.Want) {
	for _, scope := range scopes {
		out = append(out, client.Want{Scope: scope, Access: "write"})
	}
	return out
}

// problemCode is the code of a problem; empty: none.
func problemCode(err error) string {
	var p *client.Problem
	if errors.As(err, &p) {
		return p.Code
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// open begins a transaction as options say.
func open(ctx context.Context, t *testing.T, r *rig, o client.BeginOptions) *client.Tx {
	t.Helper()
	return must(r.client.Begin(ctx, o))(t)
}

func touch(ctx context.Context, t *testing.T, tx *client.Tx, wants []client.Want) client.Touched {
	t.Helper()
	return must(tx.Touch(ctx, wants, client.TouchOptions{}))(t)
}

// A touch that is granted is in the events topic, and the seal lists it.
func TestTouchGranted(t *testing.T) {
	log := newLog()
	a := start(t, "a", log.Door())
	ctx := background(t)
	tx := open(ctx, t, a, client.BeginOptions{})
	got := touch(ctx, t, tx, []client.Want{{Scope: "order:/1", Access: "write"}, {Scope: "order:/2", Access: "read"}})
	if got.State != api.TouchGranted || len(got.Wants) != 2 {
		t.Fatalf("touch: %+v", got)
	}
	touch(ctx, t, tx, writes("order:/1")) // held: answered again, and not announced again
	announced := 0
	for _, ev := range log.Events() {
		if ev.Kind == topology.EventTouch {
			announced++
			if ev.Scope != "order:/1" || string(ev.Tx) != tx.ID() {
				t.Errorf("the event: %+v", ev)
			}
		}
	}
	if announced != 1 {
		t.Errorf("%d events of touches, want one for the scope that may be written", announced)
	}
	if _, err := tx.SealUnknown(ctx); problemCode(err) != api.CodeCallsUnknown {
		t.Errorf("a seal with an unknown call: %v", err)
	}
	if d := must(tx.Seal(ctx))(t); d.State != api.StateCommitted || !d.Final {
		t.Errorf("seal: %+v", d)
	}
	if _, err := tx.Settle(ctx, nil, true); problemCode(err) != api.CodeAlreadyCommitted {
		t.Errorf("a settlement of a commit: %v", err)
	}
}

// A touch waits for an older holder and says for whom; asked again it is granted.
func TestTouchWaits(t *testing.T) {
	log := newLog()
	a, b := start(t, "a", log.Door()), start(t, "b", log.Door())
	ctx := background(t)
	one, two := open(ctx, t, a, client.BeginOptions{}), open(ctx, t, b, client.BeginOptions{})
	touch(ctx, t, one, writes("order:/1"))
	short := 50 * time.Millisecond
	got := must(two.Touch(ctx, writes("order:/1"), client.TouchOptions{Wait: &short}))(t)
	if got.State != api.TouchWaiting || len(got.BlockedBy) != 1 || got.BlockedBy[0].Tx != one.ID() {
		t.Fatalf("touch: %+v", got)
	}
	if _, err := two.Touch(ctx, writes("order:/2"), client.TouchOptions{}); problemCode(err) != "touch_waiting" {
		t.Errorf("a second touch while one waits: %v", err)
	}
	if d := must(one.Seal(ctx))(t); d.State != api.StateCommitted {
		t.Fatalf("seal: %+v", d)
	}
	if got = touch(ctx, t, two, writes("order:/1")); got.State != api.TouchGranted || got.WaitedMs == 0 {
		t.Errorf("after the holder's end: %+v", got)
	}
	if d := must(two.Seal(ctx))(t); d.State != api.StateCommitted || d.WaitedMs == 0 {
		t.Errorf("seal: %+v", d)
	}
}

// What refuses a touch leaves the transaction open and says what to do.
func TestTouchRefused(t *testing.T) {
	log := newLog()
	a, b := start(t, "a", log.Door()), start(t, "b", log.Door())
	ctx := background(t)
	one, two := open(ctx, t, a, client.BeginOptions{}), open(ctx, t, a, client.BeginOptions{})
	touch(ctx, t, one, writes("order:/1"))
	if _, err := two.Touch(ctx, writes("order:/1"), client.TouchOptions{}); problemCode(err) != "own_transaction" {
		t.Errorf("waiting for oneself: %v", err)
	}
	other := open(ctx, t, b, client.BeginOptions{})
	var bound error
	refused := make(chan struct{})
	go func() {
		defer close(refused)
		_, bound = other.Touch(ctx, writes("order:/1"), client.TouchOptions{Bound: time.Second})
	}()
	waits := func() bool {
		for _, o := range log.Outcomes() {
			if o.Kind == sequencer.OutcomeWaiting && string(o.Tx) == other.ID() {
				return true
			}
		}
		return false
	}
	if err := log.Until(ctx, waits); err != nil {
		t.Fatal(err)
	}
	if err := log.Tick(8); err != nil {
		t.Fatal(err)
	}
	<-refused
	if problemCode(bound) != "touch_bound" {
		t.Errorf("beyond its bound: %v", bound)
	}
	if d := must(other.Status(ctx, 0))(t); d.State != api.StateOpen {
		t.Errorf("its transaction: %+v", d)
	}
	for _, tx := range []*client.Tx{one, two} {
		if d := must(tx.Seal(ctx))(t); d.State != api.StateCommitted {
			t.Errorf("seal: %+v", d)
		}
	}
	if _, err := one.Touch(ctx, writes("order:/3"), client.TouchOptions{}); problemCode(err) != "late_effect" {
		t.Errorf("a touch after the end: %v", err)
	}
}

// settledOf is a transaction's settlement in the log.
func settledOf(log interface{ Outcomes() []*sequencer.Outcome }, tx string) *sequencer.Outcome {
	for _, o := range log.Outcomes() {
		if string(o.Tx) == tx && o.Kind == sequencer.OutcomeSettled {
			return o
		}
	}
	return nil
}

// After an abort nothing is settled until the agent has said what it did by itself.
func TestAgentSettles(t *testing.T) {
	for name, say := range map[string]struct {
		effects []client.SettledEffect
		none    bool
		moved   int
		residue string
	}{
		"nothing":  {nil, true, 0, ""},
		"undone":   {[]client.SettledEffect{{Scopes: []string{"order:/1"}, Result: "clean"}}, true, 1, ""},
		"leaked":   {[]client.SettledEffect{{Scopes: []string{"order:/1/mail"}, Result: "leaked"}}, true, 1, "leaked"},
		"not said": {nil, false, 1, "unresolved"},
	} {
		t.Run(name, func(t *testing.T) {
			log := newLog()
			a := start(t, "a", log.Door(), func(c *setup) {
				if name == "not said" {
					c.Limits.SettlementWait, c.Limits.WatermarkEvery = 20*time.Millisecond, 10*time.Millisecond
				}
			})
			ctx := background(t)
			tx := open(ctx, t, a, client.BeginOptions{})
			touch(ctx, t, tx, writes("order:/1"))
			if _, err := tx.Settle(ctx, nil, true); problemCode(err) != api.CodeNotAborted {
				t.Errorf("a settlement of an open one: %v", err)
			}
			if err := tx.Abort(ctx, ""); err != nil {
				t.Fatal(err)
			}
			if name != "not said" {
				if d := must(tx.Status(ctx, 0))(t); d.Final || !d.OwesSettlement {
					t.Fatalf("before the agent has said anything: %+v", d)
				}
				outside := []client.SettledEffect{{Scopes: []string{"order:/2"}, Result: "clean"}}
				if _, err := tx.Settle(ctx, outside, true); problemCode(err) != api.CodeBadRequest {
					t.Errorf("a settlement of what was not handed over: %v", err)
				}
				if d := must(tx.Settle(ctx, say.effects, say.none))(t); !d.Final {
					t.Fatalf("settled: %+v", d)
				}
			}
			if err := log.Until(ctx, func() bool { return settledOf(log, tx.ID()) != nil }); err != nil {
				t.Fatal(err)
			}
			if o := settledOf(log, tx.ID()); len(o.Writes) != say.moved {
				t.Errorf("the settlement moved %v", o.Writes)
			}
			list := log.Residue()
			if say.residue == "" && len(list) > 0 || say.residue != "" && (len(list) != 1 ||
				list[0].Result.String() != say.residue || list[0].Tool != settle.OwnTool) {
				t.Errorf("the list of residues: %+v", list)
			}
		})
	}
}

// A restarted sidecar knows what was handed to the agent, and waits for what the agent says of it.
func TestAgentSettlesAfterRestart(t *testing.T) {
	log := newLog()
	dir := t.TempDir()
	in := func(c *setup) { c.DataDir = dir }
	a := start(t, "a", log.Door(), in)
	ctx := background(t)
	tx := open(ctx, t, a, client.BeginOptions{})
	touch(ctx, t, tx, writes("order:/1"))
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	a = start(t, "a", log.Door(), in)
	again := a.client.Tx(tx.ID())
	if settledOf(log, tx.ID()) != nil {
		t.Fatal("it was settled before the agent said anything")
	}
	if d := must(again.Settle(ctx, nil, true))(t); !d.Final {
		t.Fatalf("settled: %+v", d)
	}
	if o := settledOf(log, tx.ID()); o == nil || len(o.Writes) != 0 {
		t.Errorf("the settlement: %+v", o)
	}
}

// A read of something that Hence does not keep is announced first, as of the view's seq, and goes stale like any
// other.
func TestForeignRead(t *testing.T) {
	log := newLog()
	a, b := start(t, "a", log.Door()), start(t, "b", log.Door())
	ctx := background(t)
	for _, mode := range []string{"optimistic", "locked"} {
		tx := open(ctx, t, a, client.BeginOptions{Mode: mode})
		view := must(tx.AnnounceUnknown(ctx, "order:/1"))(t)
		if view == 0 || view > uint64(log.Seq()) {
			t.Errorf("%s: view %d", mode, view)
		}
		zero := time.Duration(0)
		other := open(ctx, t, b, client.BeginOptions{})
		got := must(other.Touch(ctx, writes("order:/1"), client.TouchOptions{Wait: &zero}))(t)
		if want := map[string]string{"optimistic": api.TouchGranted, "locked": api.TouchWaiting}[mode]; got.State != want {
			t.Errorf("%s: another's touch is %s, want %s", mode, got.State, want)
		}
		if mode == "optimistic" {
			if d := must(other.Seal(ctx))(t); d.State != api.StateCommitted {
				t.Errorf("the other: %+v", d)
			}
		}
		want := map[string]string{"optimistic": "stale_read", "locked": ""}[mode]
		if d := must(tx.Seal(ctx))(t); d.Code != want {
			t.Errorf("%s: seal %+v", mode, d)
		}
		_ = other.Abort(ctx, "")
		_, _ = other.Settle(ctx, nil, true)
	}
}

// slowSync is a journal's file whose syncs wait, once it is armed, until it is let go.
type slowSync struct {
	journal.Disk
	armed   *atomic.Bool
	entered chan struct{}
	release chan struct{}
}

func (d *slowSync) Sync() error {
	if d.armed.CompareAndSwap(true, false) {
		close(d.entered)
		<-d.release
	}
	return d.Disk.Sync()
}

// What is handed over in the journal is handed over to the agent, also when its transaction is decided while the disk
// takes it: else the agent would not know that its word is waited for, and residue would say that it may have acted.
func TestHandedOverIsTold(t *testing.T) {
	ctx, log := background(t), newLog()
	disk := slowSync{armed: &atomic.Bool{}, entered: make(chan struct{}), release: make(chan struct{})}
	a := start(t, "a", log.Door(), func(c *setup) {
		c.Machine.Open = func(path string) (journal.Disk, error) {
			file, err := journal.OpenOS(path)
			slow := disk
			slow.Disk = file
			return &slow, err
		}
	})
	g := must(a.client.Speculate(ctx, 2, client.BeginOptions{}))(t)
	loser, winner := g.Branches()[0], g.Branches()[1]
	touched := make(chan error, 1)
	disk.armed.Store(true)
	go func() {
		got, err := loser.Touch(ctx, writes("order:/1"), client.TouchOptions{})
		if err == nil && got.State != api.TouchGranted {
			t.Errorf("the touch is %+v", got)
		}
		touched <- err
	}()
	<-disk.entered
	var selected sync.WaitGroup
	selected.Go(func() {
		if _, err := g.Select(ctx, winner); err != nil {
			t.Error(err)
		}
	})
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for chosen := false; !chosen && ctx.Err() == nil; <-poll.C {
		_, chosen = a.view.Winner(g.ID())
	}
	close(disk.release)
	if err := <-touched; err != nil {
		t.Errorf("the journal has that it was handed over, and the agent was told: %v", err)
	}
	selected.Wait()
	must(loser.Settle(ctx, nil, true))(t)
}
