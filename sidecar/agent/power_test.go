package agent

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

// journalNow is the journal as it is on the disk.
func (r *rig) journalNow(t *testing.T) []byte {
	t.Helper()
	return must(os.ReadFile(r.journalPath()))(t)
}

// A crash of the machine takes the newest records of the journal. What they said of calls the log says too: a held
// call leaves all the same, and an eager one is undone.
func TestMachineCrash(t *testing.T) {
	for tool, want := range map[string][]string{
		"mail":   {"mail x"},          // committed: released
		"unmail": {"unmail x"},        // its start would be on the disk
		"set":    {"set x", "back x"}, // open: aborted and undone
		"charge": {"charge x", "back x"},
	} {
		t.Run(tool, func(t *testing.T) {
			log, world := newLog(), newSink()
			door := log.Door()
			a := start(t, "a", door, quick(world))
			ctx := background(t)
			tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
			journal := a.journalNow(t)
			must(tx.Effect(ctx, tool, at{At: "x", Key: "k"}, client.EffectOptions{}))(t)
			if tool == "mail" || tool == "unmail" {
				held(t, a, log, door, tx)
			} else {
				abortedByLog(ctx, t, a, tx)
			}
			a.die(t, door)
			dir := t.TempDir()
			if err := os.WriteFile(journalIn(t, dir, log, "a"), journal, 0o600); err != nil {
				t.Fatal(err)
			}
			again := startWith(t, "a", log.Door(), func(c *setup) { c.Machine.Boot = "another" }, quick(world),
				func(c *setup) { c.DataDir = dir })
			again.final(ctx, t, tx.ID())
			world.expect(t, want...)
			if list := log.Residue(); len(list) > 0 {
				t.Errorf("residue: %+v", list)
			}
		})
	}
}

// A crash of the machine leaves an eager call whose touch was never granted: it never left, and is not made only to
// find that out.
func TestMachineCrashBeforeTheGrant(t *testing.T) {
	for _, kept := range []bool{true, false} {
		t.Run(fmt.Sprintf("journal %v", kept), func(t *testing.T) { neverGranted(t, kept) })
	}
}

func neverGranted(t *testing.T, kept bool) {
	log, world := newLog(), newSink()
	world.mute = true
	ctx := background(t)
	door := log.Door()
	holder, a := start(t, "b", log.Door()), start(t, "a", door, quick(world))
	touch(ctx, t, must(holder.client.Begin(ctx, client.BeginOptions{}))(t), writes("thing:/x"))
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	must(tx.Effect(ctx, "set", at{At: "y"}, client.EffectOptions{}))(t) // it leaves something to settle
	short, cancel := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = tx.Effect(short, "set", at{At: "x", Key: "k"}, client.EffectOptions{})
	}()
	awaitKind(ctx, t, log, sequencer.OutcomeWaiting)
	if err := a.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	abortedByLog(ctx, t, a, tx)
	file := a.die(t, door)
	cancel()
	<-over
	dir := t.TempDir()
	if kept {
		if err := os.WriteFile(journalIn(t, dir, log, "a"), file, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	again := startWith(t, "a", log.Door(), func(c *setup) { c.Machine.Boot = "another" }, quick(world),
		func(c *setup) { c.DataDir = dir }).aloneNow()
	again.final(ctx, t, tx.ID())
	world.expect(t, "set y", "back y")
}

// One that was granted may have left, though neither the journal nor the log has heard how it ended: it is undone.
func TestMachineCrashAfterTheGrant(t *testing.T) {
	for _, kept := range []bool{true, false} {
		log, world := newLog(), newSink()
		gateway := make(chan struct{})
		world.block["set"] = gateway
		ctx := background(t)
		door := log.Door()
		a, b := start(t, "a", door, quick(world)), start(t, "b", log.Door())
		tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
		file := a.journalNow(t)
		over := make(chan struct{})
		go func() {
			defer close(over)
			_, _ = tx.Effect(ctx, "set", at{At: "x", Key: "k"}, client.EffectOptions{})
		}()
		<-world.entered
		abortedByLog(ctx, t, a, tx)
		for range 3 {
			must(b.client.Put(ctx, "shard:/y", nil, client.WriteOptions{}))(t)
		}
		door.FailAppends(1 << 30)
		close(gateway)
		<-over // the call was made, and only the journal has its answer
		a.die(t, door)
		dir := t.TempDir()
		if kept {
			if err := os.WriteFile(journalIn(t, dir, log, "a"), file, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		// Each look at the log ends after one decision: the next one goes on behind it.
		again := startWith(t, "a", choppyLog{Door: log.Door(), from: log.Seq()},
			func(c *setup) { c.Machine.Boot = "another" }, quick(world),
			func(c *setup) { c.DataDir = dir }).aloneNow()
		again.final(ctx, t, tx.ID())
		world.expect(t, "set x", "back x")
	}
}

// A crash of the machine may have taken the newest reads, too: what rests on them is refused once.
func TestReadsAfterMachineCrash(t *testing.T) {
	log := newLog()
	a := start(t, "a", log.Door())
	ctx := background(t)
	must(a.client.Put(ctx, "shard:/x", []byte("1"), client.WriteOptions{}))(t)
	dir := a.copied(t, nil)
	must(a.client.Get(ctx, "shard:/x"))(t)
	b := startWith(t, "a", log.Door(), func(c *setup) { c.Machine.Boot = "another" }, func(c *setup) { c.DataDir = dir })
	_, err := b.client.Put(ctx, "shard:/y", []byte("rests on x"), client.WriteOptions{})
	if p := problemIn(t, err); p.Code != api.CodeSessionLost {
		t.Fatalf("a write that rests on a read that is lost: %+v", p)
	}
	must(b.client.Put(ctx, "shard:/y", []byte("read again"), client.WriteOptions{}))(t)
}

// abortedByLog gives an open transaction a record in the log, so that the next join ends it there.
func abortedByLog(ctx context.Context, t *testing.T, a *rig, tx *client.Tx) {
	t.Helper()
	if a.session.delivery.Drain(ctx) > 0 {
		t.Fatal("events are not published")
	}
	_, known := a.view.Transaction(sequencer.TxID(tx.ID()))
	if !known {
		t.Fatal("the log does not know the transaction of an eager call")
	}
}

// A lease that was closed, since the sidecar stops, is not revived by a renewal that was on its way.
func TestLeaseClosed(t *testing.T) {
	now := time.Unix(1e9, 0)
	l := lease{now: func() time.Time { return now }}
	l.begin(now, 10*time.Second)
	l.renew(3, now, 20*time.Second)
	l.close()
	l.renew(5, now, 20*time.Second)
	l.confirm(6, 20*time.Second)
	l.begin(now, 10*time.Second)
	if left := l.Left(); left != 0 {
		t.Errorf("a closed lease lasts %v", left)
	}
}

// A begin that the journal did not take leaves its name to the next one, and is not that one when it is sent again.
func TestBeginNeedsTheJournal(t *testing.T) {
	f := &fault{in: -1}
	log := newLog()
	r := startWith(t, "a", log.Door(), func(c *setup) { c.Machine.Open = f.open })
	begin := func(key string) (int, string) {
		status, _, header := r.send(t, with(post(inDefault+"/tx", ""), "Idempotency-Key", key))
		return status, header.Get("Location")
	}
	f.arm(0, syscall.ENOSPC, 0)
	if status, _ := begin("one"); status != 503 {
		t.Fatalf("without the journal: %d", status)
	}
	f.arm(-1, nil, 0)
	_, other := begin("two")
	status, again := begin("one")
	if status != 201 || again == other {
		t.Errorf("two begins made %s, and %d %s", other, status, again)
	}
}
