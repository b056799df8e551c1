package agent

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
	"github.com/hence-dev/hence/sidecar/once"
	"github.com/hence-dev/hence/topology"
)

// heldBack leaves one transaction of a call on the list, which did not leave, and lets its sink work again.
func heldBack(t *testing.T, a *rig, world *sink, tool, key string) string {
	t.Helper()
	ctx := background(t)
	world.set(func() { world.down[tool] = 1 << 20 })
	tx := must(a.client.Do(ctx, tool, at{At: tool}, client.EffectOptions{Key: key}))(t).Tx
	a.final(ctx, t, tx)
	world.set(func() { clear(world.down) })
	world.expect(t)
	return tx
}

// A held call that was made by hand after its settlement has happened: a retraction compensates it, whichever sidecar
// made it and whichever has the turn; where nothing undoes it the list says that it left.
func TestRetractAfterRetry(t *testing.T) {
	for _, c := range []struct {
		name, tool, key string
		by              string // whose sidecar makes it
		lost            bool   // the journal is, before the turn
		undone          bool
	}{
		{"without a key", "stage", "", "a", false, true},
		{"with a key", "stage", "k", "a", false, true},
		{"by a sidecar that joined before", "stage", "k", "before", false, true},
		{"by one that joined later", "stage", "k", "later", false, true},
		{"its journal is lost", "stage", "k", "before", true, true},
		{"nothing undoes it", "mail", "", "a", false, false},
		{"nothing undoes it, by another", "unmail", "", "before", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			log, world := newLog(), newSink()
			rigs := map[string]*rig{}
			for _, name := range []string{"before", "a", "later"} {
				rigs[name] = start(t, name, log.Door(), quick(world))
			}
			a, ctx := rigs["a"], background(t)
			tx := heldBack(t, a, world, c.tool, c.key)
			if r := must(rigs[c.by].client.RetryResidue(ctx, tx, 0, true))(t); r.State != "resolved" {
				t.Fatalf("tried again: %+v", r)
			}
			made := c.tool + " " + c.tool
			world.expect(t, made)
			if c.lost {
				if err := a.stop(); err != nil {
					t.Fatal(err)
				}
				a = start(t, "a", log.Door(), quick(world)).aloneNow()
			}
			retractNow(t, log, a, tx)
			retracted(t, log, tx)
			want := []string{made}
			if c.undone {
				want = append(want, "back "+c.tool)
			}
			world.expect(t, want...)
			list := log.Residue()
			if len(list) != 1 || c.undone != (list[0].State == topology.ResidueResolved) ||
				c.undone != (list[0].Result == sequencer.ResultClean) || !c.undone && list[0].Result != sequencer.ResultLeaked {
				t.Errorf("the list: %+v", list)
			}
		})
	}
}

// A held call that was made by hand and not answered has an unknown outcome: a retraction asks the sink, and where
// that says nothing it leaves residue.
func TestRetractAfterUnanswered(t *testing.T) {
	for _, c := range []struct {
		tool, key string
		result    sequencer.Result // left by the turn
		world     []string
	}{
		{"stage", "k", sequencer.ResultUnresolved, []string{"stage stage", "back stage"}},
		{"unmail", "", sequencer.ResultUnresolved, []string{"unmail unmail"}},
	} {
		t.Run(c.tool, func(t *testing.T) {
			t.Parallel()
			log, world := newLog(), newSink()
			a := start(t, "a", log.Door(), quick(world))
			ctx := background(t)
			world.set(func() { world.deny["mail"] = true })
			tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
			must(tx.Effect(ctx, "mail", at{At: "first"}, client.EffectOptions{}))(t)
			must(tx.Effect(ctx, c.tool, at{At: c.tool}, client.EffectOptions{Key: c.key}))(t)
			must(tx.Seal(ctx))(t)
			a.final(ctx, t, tx.ID())
			world.set(func() { world.lose[c.tool] = 1 })
			if _, err := a.client.RetryResidue(ctx, tx.ID(), 1, true); problemCode(err) != api.CodeToolUnreachable {
				t.Fatalf("tried again: %v", err)
			}
			retractNow(t, log, a, tx.ID())
			retracted(t, log, tx.ID())
			world.expect(t, c.world...)
			at := slices.IndexFunc(log.Residue(), func(r topology.Residue) bool { return r.Index == 1 })
			if at < 0 || log.Residue()[at].Result != c.result || log.Residue()[at].State != topology.ResidueOpen {
				t.Errorf("the list: %+v", log.Residue())
			}
		})
	}
}

// What a further try holds is not the agent's: the agent's loose reads stay for its own next seal.
func TestRetryTakesNoLooseReads(t *testing.T) {
	log, world := newLog(), newSink()
	a, b := start(t, "a", log.Door(), quick(world)), start(t, "b", log.Door())
	ctx := background(t)
	tx := heldBack(t, a, world, "stage", "k")
	must(b.client.Put(ctx, "shard:/x", []byte("1"), client.WriteOptions{}))(t)
	if err := a.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	must(a.client.Get(ctx, "shard:/x"))(t)
	must(a.client.RetryResidue(ctx, tx, 0, false))(t)
	must(b.client.Put(ctx, "shard:/x", []byte("2"), client.WriteOptions{}))(t)
	own := open(ctx, t, a, client.BeginOptions{})
	if err := own.Write(ctx, "shard:/y", []byte("from 1"), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if d := must(own.Seal(ctx))(t); d.Code != string(sequencer.CodeStaleRead) {
		t.Errorf("sealed on what has moved: %+v", d)
	}
}

// unlisted tries a residue again of which the list cannot be told, and returns once it can be again.
func unlisted(t *testing.T, log *memlog.Log, world *sink, leave func(a *rig) string) (a *rig, door *memlog.Door,
	tx string) {
	t.Helper()
	door = log.Door()
	armed := false
	called := func() {
		world.mu.Lock()
		defer world.mu.Unlock()
		door.Silence(armed)
	}
	a = start(t, "a", door, quick(world), func(c *setup) { c.Tools = calledTools{c.Tools.(*testTools), called} })
	tx = leave(a)
	world.set(func() { armed = true })
	status, p, _ := a.send(t, post("/v1/residue/"+tx+"/0/retry", `{"force":true}`))
	if status != 503 {
		t.Fatalf("tried again: %d %+v", status, p)
	}
	world.set(func() { armed = false })
	door.Silence(false)
	if a.session.delivery.Drain(background(t)) > 0 {
		t.Fatal("events are not published")
	}
	return a, door, tx
}

// What came of a further try, and could not be listed, does not hide what a retraction has left since.
func TestUnpublishedBeforeRetraction(t *testing.T) {
	log, world := newLog(), newSink()
	a, _, tx := unlisted(t, log, world, func(a *rig) string { return heldBack(t, a, world, "unmail", "") })
	retractNow(t, log, a, tx)
	retracted(t, log, tx)
	if err := a.view.Reach(background(t), log.Seq()); err != nil { // the sidecar has seen it, too
		t.Fatal(err)
	}
	if _, err := a.client.RetryResidue(background(t), tx, 0, true); problemCode(err) != api.CodeTool {
		t.Errorf("tried again: %v", err)
	}
	if list := log.Residue(); len(list) != 1 || list[0].State != "open" || list[0].Result != sequencer.ResultLeaked {
		t.Errorf("the list: %+v", list)
	}
	world.expect(t, "unmail unmail")
}

// A further try that was answered, and whose sidecar ended before the list said so, is not made again.
func TestUnpublishedSurvives(t *testing.T) {
	for name, c := range map[string]struct {
		leave func(t *testing.T, a *rig, world *sink) string
		world []string
	}{
		"a call": {func(t *testing.T, a *rig, world *sink) string {
			return heldBack(t, a, world, "unmail", "")
		}, []string{"unmail unmail"}},
		"a compensation": {func(t *testing.T, a *rig, world *sink) string {
			ctx := background(t)
			world.set(func() { world.down["back"] = 1 << 20 })
			tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
			must(tx.Effect(ctx, "unset", at{At: "x"}, client.EffectOptions{}))(t)
			if err := tx.Abort(ctx, ""); err != nil {
				t.Fatal(err)
			}
			a.final(ctx, t, tx.ID())
			world.set(func() { clear(world.down) })
			return tx.ID()
		}, []string{"unset x", "back x"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log, world := newLog(), newSink()
			a, door, tx := unlisted(t, log, world, func(a *rig) string { return c.leave(t, a, world) })
			a.die(t, door)
			b := start(t, "b", log.Door(), quick(world))
			if r := must(b.client.RetryResidue(background(t), tx, 0, true))(t); r.State != "resolved" {
				t.Errorf("asked again: %+v", r)
			}
			world.expect(t, c.world...)
		})
	}
}

// A retraction that starts while a held call is made by hand waits for its answer, and then undoes it.
func TestRetractWhileRetried(t *testing.T) {
	log, world := newLog(), newSink()
	a, b := start(t, "a", log.Door(), quick(world)), start(t, "b", log.Door(), quick(world))
	ctx := background(t)
	tx := heldBack(t, a, world, "stage", "k")
	block := make(chan struct{})
	world.set(func() { world.block["stage"] = block })
	tried := make(chan error, 1)
	go func() { _, err := b.client.RetryResidue(ctx, tx, 0, false); tried <- err }()
	<-world.entered
	retractNow(t, log, a, tx)
	awaitKind(ctx, t, log, sequencer.OutcomeRetracting)
	close(block)
	if err := <-tried; err != nil {
		t.Errorf("tried again: %v", err)
	}
	retracted(t, log, tx)
	world.expect(t, "stage stage", "back stage")
	for _, r := range log.Residue() {
		if r.State == topology.ResidueOpen {
			t.Errorf("left: %+v", r)
		}
	}
}

// What was made by hand after another member of the cone had written the same thing came after that: its compensation
// would put back what the other one wrote. One that came before is undone in its turn.
func TestRetractCrossed(t *testing.T) {
	for name, crossed := range map[string]bool{"another wrote before it": true, "another wrote after it": false} {
		for _, view := range []string{"whole", "younger"} {
			t.Run(name+"/"+view, func(t *testing.T) {
				t.Parallel()
				log, world := newLog(), newSink()
				a, b := start(t, "a", log.Door(), quick(world)), start(t, "b", log.Door(), quick(world))
				ctx := background(t)
				tx := heldBack(t, a, world, "stage", "k")
				set := func() {
					own := must(b.client.Begin(ctx, client.BeginOptions{}))(t)
					must(own.Effect(ctx, "set", at{At: "stage"}, client.EffectOptions{}))(t)
					must(own.Seal(ctx))(t)
					a.final(ctx, t, own.ID())
				}
				if crossed {
					set()
				}
				must(a.client.RetryResidue(ctx, tx, 0, false))(t)
				if !crossed {
					set()
				}
				if view == "younger" {
					// The try's own transaction is settled first: its next owner, without a journal, would wait for minutes
					// for what the agent may say of it.
					if err := log.Until(ctx, func() bool { return settled(log) }); err != nil {
						t.Fatal(err)
					}
					if err := a.stop(); err != nil {
						t.Fatal(err)
					}
					a = start(t, "a", log.Door(), quick(world)).aloneNow()
				}
				retractNow(t, log, a, tx)
				retracted(t, log, tx)
				want := []string{"stage stage", "set stage", "back stage", "back stage"}
				leaked := crossed || view == "younger" // which came first is not known then
				if crossed {
					want[0], want[1] = want[1], want[0]
				}
				if leaked {
					want = want[:3]
				}
				world.expect(t, want...)
				list := log.Residue()
				if len(list) != 1 || leaked != (list[0].State == topology.ResidueOpen) ||
					leaked && !strings.Contains(list[0].Detail, "b.2.1") {
					t.Errorf("the list: %+v", list)
				}
			})
		}
	}
}

// settled: no transaction that was aborted is still to be settled.
func settled(log *memlog.Log) bool {
	owed := map[sequencer.TxID]bool{}
	for _, o := range log.Outcomes() {
		if o.Kind == sequencer.OutcomeAborted || o.Kind == sequencer.OutcomeSettled {
			owed[o.Tx] = !o.Final
		}
	}
	for _, is := range owed {
		if is {
			return false
		}
	}
	return true
}

// A further try whose client goes away is not broken off: what comes of it is on the list.
func TestRetryOutlivesItsRequest(t *testing.T) {
	log, world := newLog(), newSink()
	a := start(t, "a", log.Door(), quick(world))
	ctx := background(t)
	tx := heldBack(t, a, world, "unmail", "")
	block := make(chan struct{})
	world.set(func() { world.block["unmail"] = block })
	request, leave := context.WithCancel(ctx)
	tried := make(chan error, 1)
	r := log.Residue()[0]
	go func() {
		tried <- inside(a.session, func() error {
			return a.session.retry(request, &r)
		})
	}()
	<-world.entered
	leave()
	close(block)
	if err := <-tried; err != nil {
		t.Errorf("tried again: %v", err)
	}
	world.expect(t, "unmail unmail")
	if list := log.Residue(); len(list) != 1 || list[0].State != topology.ResidueResolved {
		t.Errorf("the list: %+v on %s", list, tx)
	}
}

// retry makes the call of a residue again, inside of the loop.
func (s *Agent) retry(ctx context.Context, r *topology.Residue) error {
	_, err := s.settle.Resolve(ctx, (*once.Slot)(nil), string(r.Tx), strconv.Itoa(int(r.Index)),
		&api.Resolve{Retry: &api.RetryResidue{Force: true}})
	return err
}

// meanwhileList does something after it was listed that a further try may have happened.
type meanwhileList struct {
	*memlog.Door
	meanwhile func()
	once      *sync.Once
}

func (d meanwhileList) PublishResidue(ctx context.Context, r *topology.Residue) error {
	err := d.Door.PublishResidue(ctx, r)
	if strings.Contains(r.Detail, "no answer is known") {
		d.once.Do(d.meanwhile)
	}
	return err
}

// A further try whose session ends while it is announced does not leave under the next one: what it moves may be
// another's by then.
func TestRetryAcrossSessions(t *testing.T) {
	log, world := newLog(), newSink()
	var a *rig
	a = start(t, "a", meanwhileList{log.Door(), func() { a.rejoin(t, log) }, new(sync.Once)}, quick(world))
	heldBack(t, a, world, "unmail", "")
	r := log.Residue()[0]
	before := r
	err := inside(a.session, func() error {
		return a.session.retry(background(t), &r)
	})
	if problemCode(err) != api.CodeSessionLost {
		t.Errorf("tried again: %v", err)
	}
	world.expect(t)
	if list := log.Residue(); len(list) != 1 || list[0].Result != before.Result || list[0].Tries != before.Tries {
		t.Errorf("the list: %+v, before %+v", list, before)
	}
}

// What a try of a settlement has listed, and the next process has made after all, is no residue any more: who reads
// the list would make it by hand.
func TestResidueOfALaterTry(t *testing.T) {
	ctx, log, world := background(t), newLog(), newSink()
	door := log.Door()
	a := start(t, "a", door, quick(world))
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	must(tx.Effect(ctx, "stage", at{At: "x"}, client.EffectOptions{}))(t)
	must(tx.Effect(ctx, "mail", at{At: "y"}, client.EffectOptions{}))(t)
	world.set(func() { world.away["stage"], world.deny["mail"] = true, true })
	held(t, a, log, door, tx)
	door.FailAppends(1 << 30)
	door.Release()
	comes(ctx, t, "both are listed", func() bool { return len(log.Residue()) == 2 })
	file := a.die(t, door)
	world.set(func() { world.away["stage"] = false })
	reborn(t, log, "a", file, quick(world)).aloneNow().final(ctx, t, tx.ID())
	world.expect(t, "stage x")
	for _, r := range log.Residue() {
		want := topology.ResidueOpen
		if r.Tool == "stage" {
			want = topology.ResidueResolved
		}
		if r.State != want {
			t.Errorf("%s is %s on the list, want %s: %s", r.Tool, r.State, want, r.Detail)
		}
	}
}
