package agent

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
	"github.com/hence-dev/hence/sidecar/view"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology/machine"
)

// shiftedClock is the system's, and its steady time jumps when the test says so: the machine slept.
type shiftedClock struct {
	machine.Clock
	mu sync.Mutex
	by time.Duration
}

func (c *shiftedClock) Steady() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Clock.Steady().Add(c.by)
}

func (c *shiftedClock) sleep(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.by += d
}

// comes waits until something holds of a sidecar, or fails the test.
func comes(ctx context.Context, t *testing.T, what string, holds func() bool) {
	t.Helper()
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for !holds() {
		select {
		case <-look.C:
		case <-ctx.Done():
			t.Fatalf("never: %s", what)
		}
	}
}

// until is until when the sidecar lets a former process begin calls, and whether it holds a settlement back for that.
func (r *rig) until(id string) (until time.Time, waits bool) {
	s := r.session
	defer s.stand()()
	return s.settlements().StrangersUntil(sequencer.TxID(id))
}

// A successor that finds a live session of which it has no journal waits until that process's lease would have ended
// by its own clock: so does the next start, however soon it comes, and whatever the machine's clock says then.
func TestStrangersAreRemembered(t *testing.T) {
	const boot = "this boot"
	for name, c := range map[string]struct {
		boot  string // of the second start
		again bool   // the whole lease passes again
		rules sequencer.Tick
		times int
	}{
		"started again":                    {boot: boot, times: 1},
		"started again and again":          {boot: boot, times: 3},
		"after the machine's start":        {boot: "another", again: true, times: 1},
		"on a machine that names no boot":  {boot: "", again: true, times: 1},
		"under shorter leases since":       {boot: boot, rules: 13, times: 1},
		"under longer leases since, twice": {boot: boot, rules: 80, times: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, log, world := background(t), newLog(), newSink()
			door := log.Door()
			a := start(t, "a", door, quick(world))
			tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
			must(tx.Effect(ctx, "set", at{At: "x"}, client.EffectOptions{}))(t)
			if err := a.view.Reach(ctx, log.Seq()); err != nil {
				t.Fatal(err)
			}
			door.Hold() // it is alive, and hears nothing
			clock := &shiftedClock{}
			on := func(boot, dir string) *rig {
				prepare := func(c *setup) { c.Machine.Boot, c.Machine.Clock = boot, clock }
				return startWith(t, "a", log.Door(), prepare, quick(world), inFolder(dir))
			}
			b := on(boot, t.TempDir())
			waits := func() bool { _, waits := b.until(tx.ID()); return waits }
			comes(ctx, t, "the first start waits", waits)
			first, _ := b.until(tx.ID())
			if c.rules > 0 {
				leases(t, log, c.rules)
				if err := b.view.Reach(ctx, log.Seq()); err != nil {
					t.Fatal(err)
				}
				if c.rules > 40 {
					first = first.Add(time.Duration(c.rules-40) * view.TickLength)
				}
			}
			for range c.times {
				b = on(c.boot, b.copied(t, nil)) // killed, and started again
				comes(ctx, t, "the next start waits", waits)
				until, _ := b.until(tx.ID())
				if until != first && !c.again || c.again && !until.After(first) {
					t.Fatalf("it waits until %v, the first start until %v", until, first)
				}
			}
			until, _ := b.until(tx.ID())
			clock.sleep(until.Sub(clock.Steady()) - time.Second)
			if comes(ctx, t, "it still waits", waits); len(world.world()) != 1 {
				t.Fatalf("undone while the former process may call: %q", world.world())
			}
			clock.sleep(time.Second)
			b.final(ctx, t, tx.ID())
			world.expect(t, "set x", "back x")
		})
	}
}

// The 410 that is owed after a journal's loss is owed until the agent has had it, however often the sidecar is started
// before that, and not after.
func TestOwed410IsRemembered(t *testing.T) {
	for name, change := range map[string]func([]byte) []byte{
		"damaged": func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"missing": func([]byte) []byte { return nil },
		"torn":    func(b []byte) []byte { return b[:len(b)-3] },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, log := background(t), newLog()
			other, a := start(t, "b", log.Door()), start(t, "a", log.Door())
			must(other.client.Put(ctx, "shard:/x", []byte("1"), client.WriteOptions{}))(t)
			if err := a.view.Reach(ctx, log.Seq()); err != nil {
				t.Fatal(err)
			}
			must(a.client.Get(ctx, "shard:/x"))(t)
			must(other.client.Put(ctx, "shard:/x", []byte("2"), client.WriteOptions{}))(t)
			put := func(r *rig) error {
				_, err := r.client.Put(ctx, "shard:/y", []byte("rests on x = 1"), client.WriteOptions{})
				return err
			}
			if name == "torn" { // by the machine's crash
				b := startWith(t, "a", log.Door(), func(c *setup) { c.Machine.Boot = "another" }, inFolder(a.copied(t, change)))
				b = startWith(t, "a", log.Door(), func(c *setup) { c.Machine.Boot = "another" }, inFolder(b.copied(t, nil)))
				lost(t, put(b))
				return
			}
			b := a.crash(t, log.Door(), change)
			for range 3 {
				b = b.crash(t, log.Door(), nil) // before the agent came
			}
			lost(t, put(b))
			b = b.crash(t, log.Door(), nil) // the answer may not have left
			lost(t, put(b))
			if err := put(b); err != nil {
				t.Fatalf("it has been told: %v", err)
			}
			if err := put(b.crash(t, log.Door(), nil)); err != nil {
				t.Errorf("it has been told, and comes again: %v", err)
			}
		})
	}
}

// A copy of a journal from before another process of the agent went on with it is locked and whole, and shows no
// start: and still nothing is called that the other one may have called, nor undone that it may have undone.
func TestCopyOfAJournal(t *testing.T) {
	for _, end := range []string{"committed", "retracted", "retracted, at a second start"} {
		t.Run(end, func(t *testing.T) {
			ctx, log, world := background(t), newLog(), newSink()
			leases(t, log, 13)
			door := log.Door()
			a := start(t, "a", door, quick(world))
			tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
			tool, want := "unmail", []string{}
			retracted := end != "committed"
			if retracted {
				tool, want = "unset", []string{"unset x"}
			}
			must(tx.Effect(ctx, tool, at{At: "x"}, client.EffectOptions{}))(t)
			if end == "committed" {
				held(t, a, log, door, tx)
			} else {
				must(tx.Seal(ctx))(t)
				a.final(ctx, t, tx.ID())
			}
			before, after := a.copied(t, nil), a.copied(t, nil)
			a.die(t, door)
			calling := tool
			if retracted {
				calling = "back"
			}
			world.set(func() { world.block[calling] = make(chan struct{}) })
			door = log.Door()
			b := start(t, "a", door, quick(world), inFolder(after))
			if retracted {
				go func() { _, _ = b.client.Retract(ctx, tx.ID(), "it was wrong", false) }()
			}
			<-world.entered // it calls, and dies
			b.die(t, door)
			world.set(func() { clear(world.block) })
			if strings.HasSuffix(end, "start") { // the first one settles nothing: it cannot read who else there was
				half := unreadLog{Door: log.Door(), blocked: make(chan struct{}), from: log.Seq()}
				first := start(t, "a", half, quick(world), inFolder(before))
				before = first.copied(t, nil)
				first.die(t, half.Door)
			}
			c := start(t, "a", log.Door(), quick(world), inFolder(before)).aloneNow()
			if end == "committed" {
				c.final(ctx, t, tx.ID())
			} else if err := log.Until(ctx, func() bool { return len(log.Residue()) > 0 }); err != nil {
				t.Fatal("no residue")
			}
			world.expect(t, want...)
			if list := log.Residue(); len(list) != 1 || list[0].Result != sequencer.ResultUnresolved {
				t.Errorf("residue: %+v", list)
			}
		})
	}
}

// How the former session's transactions ended cannot be read: whether another process has worked on them is then not
// known, either, and what only one may call is not called.
func TestUnreadEndsClaimNothing(t *testing.T) {
	ctx, log, world := background(t), newLog(), newSink()
	door := log.Door()
	a := start(t, "a", door, quick(world))
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	must(tx.Effect(ctx, "unmail", at{At: "x"}, client.EffectOptions{}))(t)
	held(t, a, log, door, tx)
	a.die(t, door)
	b := start(t, "a", shortLog{Door: log.Door(), from: log.Seq()}, quick(world), inFolder(a.config.DataDir))
	b.final(ctx, t, tx.ID())
	world.expect(t)
	if list := log.Residue(); len(list) != 1 || list[0].Result != sequencer.ResultUnresolved {
		t.Errorf("residue: %+v", list)
	}
}

// A start that dies after its join and before its session is no other process: the next one on its journal still has
// the whole of it.
func TestJoinBeforeTheSession(t *testing.T) {
	ctx, log, world := background(t), newLog(), newSink()
	door := log.Door()
	a := start(t, "a", door, quick(world))
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	must(tx.Effect(ctx, "unmail", at{At: "x"}, client.EffectOptions{}))(t)
	held(t, a, log, door, tx)
	a.die(t, door)
	half := unreadLog{Door: log.Door(), blocked: make(chan struct{}), from: log.Seq()}
	b := launch(t, "a", half, nil, quick(world), inFolder(a.config.DataDir))
	joins := func() (n int) {
		for _, o := range log.Outcomes() {
			if o.Kind == sequencer.OutcomeJoined {
				n++
			}
		}
		return n
	}
	if err := log.Until(ctx, func() bool { return joins() == 2 }); err != nil {
		t.Fatal(err)
	}
	half.FailAppends(1 << 30) // a process that is killed joins no further time
	dir := b.copied(t, nil)
	_ = b.stop()
	c := start(t, "a", log.Door(), quick(world), inFolder(dir))
	c.final(ctx, t, tx.ID())
	world.expect(t, "unmail x")
}

// unsureLog does not say which log it is while a start has joined and is not let go on; and what it says of a past
// that it is asked for again breaks off.
type unsureLog struct {
	*memlog.Door
	unsure  func() bool
	refused atomic.Bool   // it was asked meanwhile
	from    sequencer.Seq // the past ends there

	mu    sync.Mutex
	whole bool            // the past is said to its end
	asked []sequencer.Seq // after what
	told  sequencer.Seq   // the last that was said of it
}

func (l *unsureLog) ID(ctx context.Context) (string, error) {
	if l.unsure() {
		l.refused.Store(true)
		return "", memlog.ErrLost
	}
	return l.Door.ID(ctx)
}

func (l *unsureLog) Follow(ctx context.Context, workspace string, after sequencer.Seq,
	apply func(*sequencer.Outcome, streams.Way) error) error {
	l.mu.Lock()
	past, whole := after < l.from, l.whole
	if past {
		l.asked = append(l.asked, after)
	}
	l.mu.Unlock()
	if !past || whole {
		return l.Door.Follow(ctx, workspace, after, apply)
	}
	return l.Door.Follow(ctx, workspace, after, func(o *sequencer.Outcome, way streams.Way) error {
		if err := apply(o, way); err != nil {
			return err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.told = o.Seq
		return memlog.ErrLost
	})
}

// A start whose first join has ended its own former session knows that no other process had its place until then.
// That join gives no session, and another process has one before the next join: that is found, although the log says
// its past in pieces only, and each look goes on where the one before was broken off.
func TestOthersAfterAJoinWithoutASession(t *testing.T) {
	ctx, log := background(t), newLog()
	first := log.Door()
	a := start(t, "a", first)
	for _, scope := range []string{"shard:/x", "shard:/y"} { // more of the past than one look is told
		must(a.client.Put(ctx, scope, []byte("1"), client.WriteOptions{}))(t)
	}
	a.die(t, first)
	door := &unsureLog{Door: log.Door(), from: log.Seq(), unsure: func() bool { // until it joins after the stranger
		all := joins(log, "a")
		came := slices.IndexFunc(all, func(in *sequencer.Intent) bool { return in.Join.ID == "a joins" })
		return len(all) > 1 && (came < 0 || came == len(all)-1)
	}}
	b := launch(t, "a", door, nil, inFolder(a.config.DataDir))
	comes(ctx, t, "a join of which no session comes", door.refused.Load)
	stranger(t, log, "a")
	select {
	case <-b.Ready():
	case <-ctx.Done():
		t.Fatal("it is not ready")
	}
	s := b.session
	since := inside(s, s.formers.MayHaveHadOthers)
	if since == 0 {
		t.Error("what it knew before the join without a session it holds for true")
	}
	look := func() (found bool, err error) {
		s.loop.Run(func() { found, err = s.formers.HadOthers(ctx) })
		return found, err
	}
	if found, err := look(); err == nil {
		t.Errorf("the look was broken off, and says %v", found)
	}
	if now := inside(s, s.formers.MayHaveHadOthers); now != door.told || now <= since {
		t.Errorf("the journal is to say that nobody has looked since %d, want %d, after %d", now, door.told, since)
	}
	door.mu.Lock()
	door.whole = true
	door.mu.Unlock()
	if found, err := look(); !found || err != nil {
		t.Errorf("another process had a session: %v, %v", found, err)
	}
	if n := len(door.asked); n != 2 || door.asked[0] != since || door.asked[1] != door.told {
		t.Errorf("it has looked after %v, broken off at %d", door.asked, door.told)
	}
}
