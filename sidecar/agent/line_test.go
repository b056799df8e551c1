package agent

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
)

// patience is a clock by which a seal has waited for too long once the test says so, and not before.
type patience struct {
	Clock
	over chan struct{}
}

func (p *patience) Within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d != lineWait {
		return p.Clock.Within(ctx, d)
	}
	short, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-p.over:
			cancel()
		case <-short.Done():
		}
	}()
	return short, cancel
}

// lining starts an agent whose seals wait in line as long as the test likes.
func lining(t *testing.T, door Log) (*rig, *patience) {
	clock := &patience{over: make(chan struct{})}
	return startWith(t, "a", door, func(c *setup) {
		clock.Clock = c.Machine.orThis().Clock
		c.Machine.Clock, c.Limits.FutureWait = clock, 2*lineWait
	}), clock
}

// ending is how a commit that ran beside the test has ended.
type ending struct {
	done client.Committed
	err  error
}

// beside makes a commit in a conversation of its own.
func (r *rig) beside(ctx context.Context, talk string, c client.Commit) <-chan ending {
	out := make(chan ending, 1)
	go func() {
		done, err := r.client.Session(talk).Commit(ctx, c)
		out <- ending{done, err}
	}()
	return out
}

// sealsIn counts the seals that a log has.
func sealsIn(log *memlog.Log) (n int) {
	for _, in := range log.Intents() {
		if in.Kind == sequencer.IntentSeal {
			n++
		}
	}
	return n
}

// overwrite reads one shard as absent and writes another.
func overwrite(read, write string) client.Commit {
	return client.Commit{Reads: []client.SeenAt{version(read, 0)},
		Writes: []client.Write{{Scope: write, Content: []byte("new")}}}
}

// waits reports whether a seal of the agent waits for one before it.
func (s *Agent) waits() bool { return len(s.ahead) > 0 }

// Of two commits on one version of a shard the second waits for the first one's decision, and is refused without a
// record: the view says the rest.
func TestBehindACommit(t *testing.T) {
	log := newLog()
	door := log.Door()
	a, _ := lining(t, door)
	ctx := background(t)
	door.Hold()
	first := a.beside(ctx, "one", overwrite("shard:/x", "shard:/x"))
	if err := log.Until(ctx, func() bool { return sealsIn(log) == 1 }); err != nil {
		t.Fatal(err)
	}
	second := a.beside(ctx, "two", overwrite("shard:/x", "shard:/x"))
	if err := a.session.eventually(ctx, a.session.waits); err != nil {
		t.Fatal(err)
	}
	door.Release()
	won := <-first
	if won.err != nil || won.done.Decision.State != api.StateCommitted {
		t.Fatalf("the first: %+v", won)
	}
	if a.view.InLine(sequencer.TxID(won.done.Tx)) {
		t.Error("it is decided, and others wait for it")
	}
	p := refusedAs(t, (<-second).err, "stale_read")
	if p.MovedBy != won.done.Tx || p.MovedSeq != won.done.Decision.Seq || p.By != "sidecar" {
		t.Errorf("the second: %+v", p)
	}
	if n := begun(log.Intents()); n != 1 {
		t.Errorf("%d intents of transactions are in the log, want the first one's seal alone", n)
	}
	if inside(a.session, a.session.waits) {
		t.Error("it waits for what is decided")
	}
	for _, f := range must(a.counted.Registry.Gather())(t) {
		if n := f.GetMetric()[0].GetCounter().GetValue(); f.GetName() == "hence_sidecar_early_answers_total" && n != 1 {
			t.Errorf("%v early answers are counted", n)
		}
	}
}

// A commit that stands behind one which the log refuses is not refused with it: it goes on and commits.
func TestBehindARefusedCommit(t *testing.T) {
	log := newLog()
	door := log.Door()
	a, _ := lining(t, door)
	ctx := background(t)
	door.Hold() // its view does not learn that what the first one has read is written over
	must(start(t, "b", log.Door()).client.Put(ctx, "shard:/y", []byte("1"), client.WriteOptions{}))(t)
	before := sealsIn(log)
	first := a.beside(ctx, "one", overwrite("shard:/y", "shard:/x"))
	if err := log.Until(ctx, func() bool { return sealsIn(log) == before+1 }); err != nil {
		t.Fatal(err)
	}
	second := a.beside(ctx, "two", overwrite("shard:/x", "shard:/z"))
	if err := a.session.eventually(ctx, a.session.waits); err != nil {
		t.Fatal(err)
	}
	door.Release()
	if lost := <-first; lost.err != nil || lost.done.Decision.Code != "stale_read" {
		t.Errorf("the first: %+v", lost)
	}
	if won := <-second; won.err != nil || won.done.Decision.State != api.StateCommitted {
		t.Errorf("the second: %+v", won)
	}
}

// Who reads nothing that a seal on its way writes does not wait for it, nor does a transaction that the log knows:
// others may wait for that one.
func TestNotInLine(t *testing.T) {
	log := newLog()
	door := log.Door()
	a, _ := lining(t, door)
	ctx := background(t)
	held := open(ctx, t, a, client.BeginOptions{})
	must(held.Read(ctx, "shard:/x"))(t)
	must(held.Touch(ctx, []client.Want{{Scope: "thing:/1", Access: "write"}}, client.TouchOptions{}))(t)
	door.Hold()
	first := a.beside(ctx, "one", overwrite("shard:/x", "shard:/x"))
	if err := log.Until(ctx, func() bool { return sealsIn(log) == 1 }); err != nil {
		t.Fatal(err)
	}
	other := a.beside(ctx, "two", overwrite("shard:/y", "shard:/x"))
	blind := a.beside(ctx, "three", client.Commit{Writes: []client.Write{{Scope: "shard:/x", Content: []byte("3")}}})
	if err := log.Until(ctx, func() bool { return sealsIn(log) == 3 }); err != nil {
		t.Fatal(err)
	}
	decided := sealing(ctx, t, held)
	if err := log.Until(ctx, func() bool { return sealsIn(log) == 4 }); err != nil {
		t.Fatal(err)
	}
	if a.view.Ahead([]sequencer.Scope{"shard:/x"}) == "" {
		t.Error("one has waited until it had waited for too long")
	}
	door.Release()
	for i, end := range []<-chan ending{first, other, blind} {
		if got := <-end; got.err != nil || got.done.Decision.State != api.StateCommitted {
			t.Errorf("commit %d: %+v", i, got)
		}
	}
	if d := <-decided; d.Code != "stale_read" {
		t.Errorf("what had read before: %+v", d)
	}
}

// A seal of which nothing is heard holds up those behind it for a while, and no longer.
func TestBehindALostSeal(t *testing.T) {
	log := newLog()
	door := log.Door()
	a, clock := lining(t, door)
	ctx := background(t)
	door.FailAppends(1 << 30)
	patient := context.WithoutCancel(ctx) // else the end of the second commit's own wait would let it go on, too
	first := a.beside(patient, "one", overwrite("shard:/x", "shard:/x"))
	under := func() bool { return len(a.session.sending) == 1 }
	if err := a.session.eventually(ctx, under); err != nil {
		t.Fatal(err)
	}
	second := a.beside(patient, "two", overwrite("shard:/x", "shard:/z"))
	if err := a.session.eventually(ctx, a.session.waits); err != nil {
		t.Fatal(err)
	}
	close(clock.over)
	both := func() bool { return len(a.session.sending) == 2 }
	if err := a.session.eventually(ctx, both); err != nil {
		t.Fatal(err)
	}
	door.FailAppends(0)
	for _, end := range []<-chan ending{first, second} {
		if got := <-end; got.err != nil {
			t.Errorf("%+v", got)
		}
	}
}

// A transaction of several requests that stands behind a commit is refused from the view, too. It has a name: its
// abort is in the log.
func TestSealBehindACommit(t *testing.T) {
	log := newLog()
	door := log.Door()
	a, _ := lining(t, door)
	ctx := background(t)
	tx := open(ctx, t, a, client.BeginOptions{})
	must(tx.Read(ctx, "shard:/x"))(t)
	door.Hold()
	first := a.beside(ctx, "one", overwrite("shard:/x", "shard:/x"))
	if err := log.Until(ctx, func() bool { return sealsIn(log) == 1 }); err != nil {
		t.Fatal(err)
	}
	decided := sealing(ctx, t, tx)
	if err := a.session.eventually(ctx, a.session.waits); err != nil {
		t.Fatal(err)
	}
	door.Release()
	if won := <-first; won.err != nil || won.done.Decision.State != api.StateCommitted {
		t.Errorf("the first: %+v", won)
	}
	if d := <-decided; d.Code != "stale_read" || d.By != "sidecar" {
		t.Errorf("the second: %+v", d)
	}
	over := func() bool { return len(ofTx(log, tx.ID())) > 0 }
	if err := log.Until(ctx, over); err != nil {
		t.Fatal(err)
	}
	if n := sealsIn(log); n != 1 {
		t.Errorf("%d seals are in the log", n)
	}
}

// A refusal comes with what was read, as it is now, when the commit asks for it: from the view, or after the log's
// decision. It is a read of the conversation like any other.
func TestReadAgain(t *testing.T) {
	log := newLog()
	door := log.Door()
	a, b, ctx := start(t, "a", door), start(t, "b", log.Door()), background(t)
	c := overwrite("shard:/x", "shard:/y")
	c.Reads, c.ReadAgain = append(c.Reads, asOf("thing:/1", 1)), true
	c.Reads[1].Announce = true
	refusal := func(what string, got ending, version uint64) {
		t.Helper()
		seen := got.done.Read
		if got.err != nil {
			seen = refusedAs(t, got.err, "stale_read").Read
		}
		if seen == nil {
			t.Fatalf("%s: nothing is read: %+v", what, got)
		}
		shards := must(client.ShardsOf(seen))(t)
		if len(shards) != 1 || shards[0].Version != version || seen.View < version {
			t.Errorf("%s: read again are %+v", what, shards)
		}
	}
	door.Hold() // the log alone knows what is written over
	one := must(b.client.Put(ctx, "shard:/x", []byte("1"), client.WriteOptions{}))(t)
	before := sealsIn(log)
	first := a.beside(ctx, "talk", c)
	if err := log.Until(ctx, func() bool { return sealsIn(log) == before+1 }); err != nil {
		t.Fatal(err)
	}
	door.Release()
	refusal("by the log", <-first, one.Seq)
	refusal("from the view", <-a.beside(ctx, "talk", c), one.Seq)
	two := must(b.client.Put(ctx, "shard:/x", []byte("2"), client.WriteOptions{}))(t)
	if err := a.view.Reach(ctx, sequencer.Seq(two.Seq)); err != nil {
		t.Fatal(err)
	}
	bound := a.client.Session("talk")
	if d := must(bound.Put(ctx, "shard:/z", nil, client.WriteOptions{}))(t); d.Code != "stale_read" {
		t.Errorf("what was read again binds nothing: %+v", d)
	}
	c.ReadAgain = false
	if p := refusedAs(t, (<-a.beside(ctx, "talk", c)).err, "stale_read"); p.Read != nil {
		t.Errorf("it reads unasked: %+v", p.Read)
	}
}

// crowd is a clock by which a seal has waited for too long once the test says so. By then another one has its place.
type crowd struct {
	Clock
	waits chan func() // gives the end of each wait in line
	seals int
}

func (c *crowd) Within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d != lineWait {
		return c.Clock.Within(ctx, d)
	}
	short, cancel := context.WithCancel(ctx)
	c.waits <- cancel
	return short, cancel
}

// enter puts a seal that writes shard:/x last in the line.
func (c *crowd) enter(t *testing.T, a *rig) {
	t.Helper()
	c.seals++
	if by := a.view.Enter(api.TxName("crowd", 1, uint64(c.seals)), nil, []sequencer.Scope{"shard:/x"}); by != "" {
		t.Fatalf("it waits for %s, and reads nothing", by)
	}
}

// next waits until a wait has begun; what it returns ends that, behind which there is another one then.
func (c *crowd) next(ctx context.Context, t *testing.T, a *rig) (pass func()) {
	t.Helper()
	select {
	case end := <-c.waits:
		return func() {
			t.Helper()
			c.enter(t, a)
			end()
		}
	case <-ctx.Done():
		t.Fatal("nothing waits in line")
		return nil
	}
}

// A seal waits behind others while it may commit, one after the other. Once the view shows that it cannot, it is
// refused, although others take places before it without end: before it has a name, when it is filled, when it is
// sealed.
func TestStaleInACrowd(t *testing.T) {
	type refusal struct {
		code   string
		placed bool // it has a place in the line
	}
	const talk = "one"
	fill := func(ctx context.Context, a *rig) error {
		version := uint64(0)
		b, err := a.session.batchOf(ctx, &api.Commit{Reads: []api.SeenAt{{Scope: "shard:/x", Version: &version}},
			Writes: []api.Write{{Scope: "shard:/y", Value: []byte("1")}}})
		if err != nil {
			return err
		}
		own, err := a.session.startWhole(ctx, sequencer.Begin{Session: talk})
		if err != nil {
			return err
		}
		_, err = a.session.fill(ctx, own, b, nil)
		a.session.leaveLine(own.id)
		return err
	}
	for name, run := range map[string]func(ctx context.Context, t *testing.T, a *rig, tx *client.Tx) refusal{
		"begun": func(ctx context.Context, _ *testing.T, a *rig, _ *client.Tx) refusal {
			_, err := a.client.Session(talk).Commit(ctx, overwrite("shard:/x", "shard:/y"))
			return refusal{code: problemCode(err)}
		},
		"filled": func(ctx context.Context, _ *testing.T, a *rig, _ *client.Tx) refusal {
			var err error
			a.session.loop.Run(func() { err = fill(ctx, a) })
			return refusal{code: api.AsProblem(err).Code}
		},
		"sealed": func(ctx context.Context, t *testing.T, a *rig, tx *client.Tx) refusal {
			d, err := tx.Seal(ctx)
			if err != nil {
				t.Error(err)
			}
			return refusal{d.Code, a.view.InLine(sequencer.TxID(tx.ID()))}
		},
	} {
		t.Run(name, func(t *testing.T) {
			log := newLog()
			clock := &crowd{waits: make(chan func(), 8)}
			a := startWith(t, "a", log.Door(), func(c *setup) {
				clock.Clock = c.Machine.orThis().Clock
				c.Machine.Clock, c.Limits.FutureWait = clock, 2*lineWait
			})
			b, ctx := start(t, "b", log.Door()), background(t)
			tx := open(ctx, t, a, client.BeginOptions{})
			must(tx.Read(ctx, "shard:/x"))(t)
			if err := tx.Write(ctx, "shard:/y", []byte("1"), client.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
			before := sealsIn(log)
			clock.enter(t, a)
			ended := make(chan refusal, 1)
			go func() { ended <- run(ctx, t, a, tx) }()
			clock.next(ctx, t, a)()
			clock.next(ctx, t, a)()
			pass := clock.next(ctx, t, a) // it waits before the view moves: else it could be refused without a wait
			d := must(b.client.Put(ctx, "shard:/x", []byte("1"), client.WriteOptions{}))(t)
			told := func() bool { return a.session.told >= sequencer.Seq(d.Seq) }
			if err := a.session.eventually(ctx, told); err != nil {
				t.Fatal(err)
			}
			pass()
			select {
			case got := <-ended:
				if got != (refusal{code: "stale_read"}) {
					t.Errorf("it ends with %+v", got)
				}
			case <-clock.waits:
				t.Error("it waits for one more, and the view refuses it already")
			}
			if n := sealsIn(log) - before; n != 1 {
				t.Errorf("%d seals are in the log, want b's alone", n)
			}
		})
	}
}

// What was to be read again with a refusal and could not be shown still counts as written over: the next seal of the
// conversation is refused, as it was before.
func TestReadAgainThatFails(t *testing.T) {
	log := newLog()
	a, b, ctx := start(t, "a", log.Door()), start(t, "b", log.Door()), background(t)
	c := overwrite("shard:/x", "shard:/y")
	c.ReadAgain = true
	part := make([]byte, sequencer.DefaultRules().MaxContent)
	for size, n := 0, 0; size <= maxBytesRead; size, n = size+len(part), n+1 { // more than one answer has
		scope := fmt.Sprintf("shard:/large/%d", n)
		d := must(b.client.Put(ctx, scope, part, client.WriteOptions{}))(t)
		c.Reads = append(c.Reads, version(scope, d.Seq))
	}
	if err := a.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	bound := a.client.Session("talk")
	must(bound.Get(ctx, "shard:/x"))(t)
	must(b.client.Put(ctx, "shard:/x", []byte("1"), client.WriteOptions{}))(t)
	moved := func() bool { return len(a.session.moved["talk"].scopes) > 0 }
	if err := a.session.eventually(ctx, moved); err != nil {
		t.Fatal(err)
	}
	_, err := bound.Commit(ctx, c)
	if p := refusedAs(t, err, "stale_read"); p.Read != nil || len(p.ReRead) != 1 {
		t.Errorf("refused with %+v", p)
	}
	d := must(bound.Put(ctx, "shard:/z", nil, client.WriteOptions{}))(t)
	if d.Code != "stale_read" || d.By != "sidecar" || d.Scope != "shard:/x" {
		t.Errorf("what it was not shown binds nothing: %+v", d)
	}
	if d := must(bound.Put(ctx, "shard:/z", nil, client.WriteOptions{}))(t); d.State != api.StateCommitted {
		t.Errorf("that is told once: %+v", d)
	}
}
