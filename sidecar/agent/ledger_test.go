package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/topology"
)

// A rewritten journal has the calls of settled transactions without their arguments. They come back from the log when
// such a one is retracted, also after a restart.
func TestRewrittenJournalOfSettledCalls(t *testing.T) {
	log, world := newLog(), newSink()
	door := log.Door()
	a := start(t, "a", door, quick(world), func(c *setup) { c.Limits.JournalBytes = 1 })
	ctx := background(t)
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	must(tx.Effect(ctx, "set", at{At: "x"}, client.EffectOptions{}))(t)
	if d := must(tx.Seal(ctx))(t); d.State != api.StateCommitted {
		t.Fatalf("seal: %+v", d)
	}
	a.final(ctx, t, tx.ID())
	d := a.session.delivery
	if d.Drain(ctx) > 0 {
		t.Fatal("events are not published")
	}
	settled := func() bool {
		p, _ := a.session.delivery.Call(sequencer.TxID(tx.ID()), 0)
		return p.Args == nil
	}
	if err := a.session.eventually(ctx, settled); err != nil {
		t.Fatal(err)
	}
	d.Mu.Lock()
	d.Shortly = 0
	d.Mu.Unlock()
	if err := d.Mark(); err != nil {
		t.Fatal(err)
	}
	journal := a.die(t, door)
	if !strings.Contains(string(journal), `"Args":null`) {
		t.Error("the journal was not rewritten")
	}
	b := reborn(t, log, "a", journal, quick(world)).aloneNow()
	retractNow(t, log, b, tx.ID())
	retracted(t, log, tx.ID())
	world.expect(t, "set x", "back x")
	if list := log.Residue(); len(list) > 0 {
		t.Errorf("the list of residues: %+v", list)
	}
}

// savingTools are tools whose calls save something for their compensation, which is kept of the compensation's call.
type savingTools struct {
	*testTools
	saves json.RawMessage
	got   *atomic.Value
}

func (p savingTools) Adapter(string) (gate.Adapter, error) { return savingSink{p.sink, p}, nil }

// Undo is told what was saved.
func (p savingTools) Undo(e gate.Effect, a gate.Answer) (gate.Call, error) {
	p.got.Store(string(a.Saved))
	return p.testTools.Undo(e, a)
}

type savingSink struct {
	*sink
	tools savingTools
}

func (s savingSink) Call(ctx context.Context, c gate.Call) (gate.Answer, error) {
	a, err := s.sink.Call(ctx, c)
	if c.Compensates == "" {
		a.Saved = s.tools.saves
	}
	return a, err
}

// saving lets each call save something, and returns what its compensation was given.
func saving(world *sink) (opts func(*setup), got *atomic.Value) {
	got = &atomic.Value{}
	return func(c *setup) {
		quick(world)(c)
		c.Tools.(*testTools).maxTime = 3 * time.Second
		c.Tools = savingTools{c.Tools.(*testTools), json.RawMessage(`{"former":1}`), got}
	}, got
}

// What a call saves for its compensation is there for it also where as many events wait as may.
func TestSavedBehindABacklog(t *testing.T) {
	ctx, log, world := background(t), newLog(), newSink()
	door := log.Door()
	tools, got := saving(world)
	a := start(t, "a", door, tools, func(c *setup) { c.Limits.PendingEvents = 8 })
	tx, open, done := inSink(ctx, t, a, world)
	door.Silence(true)
	once := client.New(a.URL(), a.Token(), client.WithTries(1))
	defer once.Close()
	for i := range 9 {
		_, err := once.Get(ctx, fmt.Sprintf("shard:/s%d", i))
		if full := err != nil; full != (i == 8) {
			t.Fatalf("read %d: %v", i, err)
		}
	}
	close(open)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	door.Silence(false)
	comes(ctx, t, "the answer is told", func() bool { return hasEvent(log.Events(), topology.EventAnswer, tx.ID()) })
	must(tx.Seal(ctx))(t)
	a.final(ctx, t, tx.ID())
	retractNow(t, log, a, tx.ID())
	retracted(t, log, tx.ID())
	world.expect(t, "set x", "back x")
	if got.Load() != `{"former":1}` {
		t.Errorf("the compensation was given %q", got.Load())
	}
}

// fullAfter is a disk without room for the second record that says what a call has saved: that of the event.
type fullAfter struct {
	journal.Disk
	count *atomic.Int64
}

func (f fullAfter) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("former")) && f.count.Add(1) == 2 {
		return 0, syscall.ENOSPC
	}
	return f.Disk.Write(p)
}

// What a call saves is there for its compensation also where the journal took the answer and not its event: in this
// process, and in the next one, which tells it.
func TestSavedWithoutItsEvent(t *testing.T) {
	for _, next := range []bool{false, true} {
		t.Run(fmt.Sprintf("next %v", next), func(t *testing.T) {
			ctx, log, world := background(t), newLog(), newSink()
			door, full := log.Door(), &atomic.Int64{}
			tools, got := saving(world)
			a := start(t, "a", door, tools, func(c *setup) {
				c.Machine.Open = func(path string) (journal.Disk, error) {
					file, err := journal.OpenOS(path)
					return fullAfter{file, full}, err
				}
			})
			tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
			must(tx.Effect(ctx, "set", at{At: "x"}, client.EffectOptions{}))(t)
			must(tx.Seal(ctx))(t)
			a.final(ctx, t, tx.ID())
			told := func() bool { return hasEvent(log.Events(), topology.EventAnswer, tx.ID()) }
			if a.session.delivery.Drain(ctx); full.Load() != 2 || told() {
				t.Fatalf("%d writes, told %v", full.Load(), told())
			}
			if next {
				a = reborn(t, log, "a", a.die(t, door), tools).aloneNow()
				comes(ctx, t, "the answer is told", told)
			}
			retractNow(t, log, a, tx.ID())
			retracted(t, log, tx.ID())
			world.expect(t, "set x", "back x")
			if got.Load() != `{"former":1}` {
				t.Errorf("the compensation was given %q", got.Load())
			}
		})
	}
}

// What was open when a process ended is gone from the journal two starts later, but for that of a key whose request
// was not answered: it is done by then, too, as it left nothing.
func TestVainIsNotKept(t *testing.T) {
	ctx, log := background(t), newLog()
	door := log.Door()
	a := start(t, "a", door, func(c *setup) { c.Limits.WaitMost = 150 * time.Millisecond })
	request := put(inDefault+"/shards/x", "Idempotency-Key", "k")
	door.FailAppends(1 << 30)
	if status, _, _ := a.send(t, request); status != http.StatusAccepted && status/100 != 5 {
		t.Fatalf("without the log: %d", status)
	}
	for n := range 4 {
		for range 5 {
			must(a.client.Begin(ctx, client.BeginOptions{}))(t)
		}
		dir := a.copied(t, nil)
		_ = a.stop()
		a = start(t, "a", log.Door(), inFolder(dir))
		l := must(journal.ReadLedger(a.journalPath()))(t)
		if want := 1 + 5*min(n+1, 2); len(l.Txs) > want {
			t.Errorf("after %d starts the journal has %d transactions, want %d at most", n+1, len(l.Txs), want)
		}
	}
	if status, p, _ := a.send(t, request); status != http.StatusCreated {
		t.Errorf("under its key: %d %+v", status, p)
	}
}
