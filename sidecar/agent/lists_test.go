package agent

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/view"
	"github.com/hence-dev/hence/topology"
	"github.com/hence-dev/hence/topology/machine"
)

// all reads a list in pages of one and returns the names of its items.
func all(t *testing.T, pick map[string]string, page func(client.Page) ([]string, string, error)) (names []string) {
	t.Helper()
	for after := ""; ; {
		some, next, err := page(client.Page{After: after, Limit: 1, Pick: pick})
		if err != nil || len(some) > 1 {
			t.Fatalf("%v after %q: %v, %v", pick, after, some, err)
		}
		if names = append(names, some...); next == "" {
			return names
		}
		after = next
	}
}

// transactions is one page of the list as names with states.
func transactions(t *testing.T, r *rig) func(client.Page) ([]string, string, error) {
	return func(p client.Page) (names []string, next string, err error) {
		list, err := r.client.Transactions(t.Context(), p)
		for _, one := range list.Items {
			names = append(names, one.Tx+" "+one.State+" "+one.Code)
		}
		return names, list.Next, err
	}
}

// The list of transactions has those of all agents, the newest first, also one that no record of the log names yet.
func TestListTransactions(t *testing.T) {
	log := newLog()
	a, b := start(t, "a", log.Door()), start(t, "b", log.Door())
	ctx := background(t)
	of := must(b.client.Put(ctx, "shard:/x", []byte("1"), client.WriteOptions{}))(t)
	if err := inside(a.session, func() error { return a.session.reachSeq(ctx, sequencer.Seq(of.Seq)) }); err != nil {
		t.Fatal(err)
	}
	mine := must(a.client.Put(ctx, "shard:/y", []byte("1"), client.WriteOptions{}))(t)
	zero := uint64(0)
	refused := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	if err := refused.Write(ctx, "shard:/x", []byte("2"), client.WriteOptions{IfVersion: &zero}); err == nil {
		must(refused.Seal(ctx))(t)
	} else {
		_ = refused.Abort(ctx, "") // refused at the write
	}
	open := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	got := all(t, nil, transactions(t, a))
	want := []string{open.ID() + " open ", refused.ID() + " aborted ", mine.Tx + " committed ", of.Tx + " committed "}
	if len(got) != len(want) {
		t.Fatalf("listed are %q, want %q", got, want)
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("item %d is %q, want %q", i, got[i], want[i])
		}
	}
	for _, pick := range []struct {
		by   map[string]string
		want int
	}{{map[string]string{"agent": "b"}, 1}, {map[string]string{"state": "committed"}, 2},
		{map[string]string{"state": "open", "agent": "a"}, 1}, {map[string]string{"code": "no_such"}, 0}} {
		if got := all(t, pick.by, transactions(t, a)); len(got) != pick.want {
			t.Errorf("%v picks %q", pick.by, got)
		}
	}
	for _, bad := range []client.Page{{Pick: map[string]string{"state": "opne"}}, {After: "z.9.9"}} {
		_, err := a.client.Transactions(ctx, bad)
		var p *client.Problem
		if !errors.As(err, &p) || p.Status != http.StatusBadRequest {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// The list of agents is the fold's: all that have a lease, with what they have under way.
func TestListAgents(t *testing.T) {
	log := newLog()
	a := start(t, "a", log.Door())
	start(t, "b", log.Door())
	ctx := background(t)
	must(a.client.Begin(ctx, client.BeginOptions{Mode: "ordered"}))(t)
	names := all(t, nil, func(p client.Page) (names []string, next string, err error) {
		list, err := a.client.Agents(ctx, p)
		for _, one := range list.Items {
			names = append(names, one.Agent)
			if one.Here != (one.Agent == "a") || one.Open != map[string]int{"a": 1}[one.Agent] || one.LeaseTicks == 0 {
				t.Errorf("%+v", one)
			}
		}
		return names, list.Next, err
	})
	if !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("live are %q", names)
	}
}

// declaredTools is a policy that says what it declares.
type declaredTools struct{ *testTools }

func (declaredTools) Declared() []gate.Declared {
	return []gate.Declared{{Name: "mail", Class: sequencer.ClassIrreversible, Adapter: "http"},
		{Name: "set", Class: sequencer.ClassReversible, Adapter: "http", Compensation: "unset"},
		{Name: "note", Class: sequencer.ClassReversible, Adapter: gate.KindShard}}
}

// The lists of tools and of calls are the agent's own: declared ones with when they run, registered ones, and each
// call as it stands.
func TestListToolsAndEffects(t *testing.T) {
	log, world := newLog(), newSink()
	a := start(t, "a", log.Door(), quick(world), func(c *setup) { c.Tools = declaredTools{&testTools{sink: world}} })
	b := start(t, "b", log.Door())
	ctx := background(t)
	must(a.client.PutTool(ctx, "mine", "find", "v1"))(t)
	runs := map[string]string{}
	list := must(a.client.Tools(ctx, client.Page{}))(t)
	for _, one := range list.Items {
		runs[one.Name] = one.Source + " " + one.Runs
	}
	for name, want := range map[string]string{"find": "registered ", "mail": "policy after_commit",
		"set": "policy at_once", "note": "policy with_commit"} {
		if runs[name] != want {
			t.Errorf("%s is %q, want %q", name, runs[name], want)
		}
	}
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	for _, key := range []string{"k1", "k2"} {
		must(tx.Effect(ctx, "mail", at{At: "x", Key: key}, client.EffectOptions{}))(t)
	}
	effects := func(r *rig) func(client.Page) ([]string, string, error) {
		return func(p client.Page) (names []string, next string, err error) {
			list, err := r.client.Effects(ctx, p)
			for _, one := range list.Items {
				names = append(names, one.Tool+" "+one.State)
			}
			return names, list.Next, err
		}
	}
	for state, want := range map[string]int{"": 2, "held": 2, "released": 0} {
		if got := all(t, map[string]string{"state": state}, effects(a)); len(got) != want {
			t.Errorf("state %q: %q", state, got)
		}
	}
	for _, bad := range []client.Page{{Pick: map[string]string{"state": "hold"}}, {After: tx.ID() + "/9"},
		{After: "z.9.9/0"}} {
		_, err := a.client.Effects(ctx, bad)
		if p := problemIn(t, err); p.Status != http.StatusBadRequest {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if got := all(t, nil, effects(b)); len(got) != 0 {
		t.Errorf("another agent's sidecar lists %q", got)
	}
}

// A look binds nothing: a later write of what it read refuses no commit. After a get it does.
func TestLookBindsNothing(t *testing.T) {
	log := newLog()
	a, b := start(t, "a", log.Door()), start(t, "b", log.Door())
	ctx := background(t)
	for n, look := range []bool{true, false} {
		must(b.client.Put(ctx, "shard:/x", []byte{byte('0' + n)}, client.WriteOptions{}))(t)
		if look {
			must(a.client.Look(ctx, "shard:/x"))(t)
			must(a.client.LookAll(ctx, "shard:/", "", 0))(t)
		} else {
			must(a.client.Get(ctx, "shard:/x"))(t)
		}
		moved := must(b.client.Put(ctx, "shard:/x", []byte("moved"), client.WriteOptions{}))(t)
		if err := inside(a.session, func() error { return a.session.reachSeq(ctx, sequencer.Seq(moved.Seq)) }); err != nil {
			t.Fatal(err)
		}
		d := must(a.client.Put(ctx, "shard:/y", []byte("1"), client.WriteOptions{}))(t)
		if (d.State == "committed") != look {
			t.Errorf("look %v: %+v", look, d)
		}
	}
}

// scans counts how often a transaction's calls are read from the log, and lets none of it through while it is away.
type scans struct {
	Log
	away  atomic.Bool
	count atomic.Int32
}

func (l *scans) Effects(ctx context.Context, workspace string, id sequencer.TxID) ([]*topology.Event, error) {
	l.count.Add(1)
	if l.away.Load() {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return l.Log.Effects(ctx, workspace, id)
}

// What the journal knows is not looked for in the log: a settled transaction without calls reads nothing, also once
// the journal has dropped it, and a list reads for its own page only.
func TestEffectsReadTheLogSparingly(t *testing.T) {
	log, world := newLog(), newSink()
	door := &scans{Log: log.Door()}
	a := start(t, "a", door, quick(world))
	ctx := background(t)
	world.set(func() { world.away["mail"] = true })
	for range 3 { // settled, and the log may know more of each call
		tx := open(ctx, t, a, client.BeginOptions{})
		must(tx.Effect(ctx, "mail", at{At: "x", Key: "k" + tx.ID()}, client.EffectOptions{}))(t)
		must(tx.Seal(ctx))(t)
		a.final(ctx, t, tx.ID())
	}
	var put string
	for range 5 {
		put = must(a.client.Put(ctx, "shard:/x", []byte("1"), client.WriteOptions{}))(t).Tx
	}
	door.count.Store(0)
	must(a.client.Explain(ctx, put))(t)
	must(a.client.Tx(put).Effects(ctx))(t)
	a.session.delivery.Mu.Lock()
	delete(a.session.delivery.Ledger.Txs, sequencer.TxID(put))
	a.session.delivery.Mu.Unlock()
	must(a.client.Tx(put).Effects(ctx))(t)
	if n := door.count.Load(); n != 0 {
		t.Errorf("the log was read %d times for a transaction without calls", n)
	}
	if list := must(a.client.Effects(ctx, client.Page{Limit: 1}))(t); len(list.Items) != 1 || list.Next == "" ||
		door.count.Load() > 2 {
		t.Errorf("a page of one read the log %d times: %+v", door.count.Load(), list)
	}
}

// While the log is away, what a committed call has come to is answered from the journal, soon, and says so.
func TestEffectsWhileTheLogIsAway(t *testing.T) {
	log, world := newLog(), newSink()
	door := &scans{Log: log.Door()}
	clock := &hastyClock{}
	a := start(t, "a", door, quick(world), func(c *setup) { c.Machine.Clock = clock })
	ctx := background(t)
	world.set(func() { world.away["mail"] = true })
	tx := open(ctx, t, a, client.BeginOptions{})
	must(tx.Effect(ctx, "mail", at{At: "x", Key: "k"}, client.EffectOptions{}))(t)
	must(tx.Seal(ctx))(t)
	a.final(ctx, t, tx.ID())
	door.away.Store(true)
	clock.hastes.Store(true)
	if e := must(a.session.Effects(ctx, tx.ID()))(t).Effects[0]; !strings.HasPrefix(e.Note, unreadNote) {
		t.Errorf("without the log: %+v", e)
	}
}

// hastyClock ends what waits for a table at once when the test says so.
type hastyClock struct {
	machine.Clock
	hastes atomic.Bool
}

func (c *hastyClock) Within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d == view.TableWait && c.hastes.Load() {
		d = time.Millisecond
	}
	return c.Clock.Within(ctx, d)
}

// A transaction of which the view saw the settlement only is not called open.
func TestListTransactionsDecidedBefore(t *testing.T) {
	log := newLog()
	a := start(t, "a", log.Door())
	for _, kind := range []sequencer.OutcomeKind{sequencer.OutcomeSettled, sequencer.OutcomeAdopted,
		sequencer.OutcomeTurn} {
		id := sequencer.TxID("b.1." + strconv.Itoa(int(kind)))
		must(log.Say(sequencer.Outcome{Kind: kind, Tx: id, Agent: "b", Final: kind == sequencer.OutcomeSettled}))(t)
	}
	if err := a.view.Reach(background(t), log.Seq()); err != nil {
		t.Fatal(err)
	}
	if got := all(t, nil, transactions(t, a)); len(got) != 0 {
		t.Errorf("listed are %q", got)
	}
	if got := must(a.client.Explain(t.Context(), "b.1.7"))(t); got.Decision.State == api.StateOpen {
		t.Errorf("it is explained as %+v", got.Decision)
	}
}

// The pages of a list are one read: what changes on the first one while the second is asked for makes it stale.
func TestPagesAreOneRead(t *testing.T) {
	for name, later := range map[string]bool{"written between the pages": true, "all is read anew": false} {
		log := newLog()
		a, b, ctx := start(t, "a", log.Door()), start(t, "b", log.Door()), background(t)
		for _, scope := range []string{"shard:/p/1", "shard:/p/2"} {
			must(b.client.Put(ctx, scope, []byte("1"), client.WriteOptions{}))(t)
		}
		reach := func() {
			if err := a.view.Reach(ctx, log.Seq()); err != nil {
				t.Fatal(err)
			}
		}
		reach()
		first := must(a.client.List(ctx, "shard:/p", "", 1))(t)
		must(b.client.Put(ctx, "shard:/p/1", []byte("2"), client.WriteOptions{}))(t)
		reach()
		after, want := "", ""
		if later {
			after, want = first.Next, "stale_read"
		}
		if rest := must(a.client.List(ctx, "shard:/p", after, 1))(t); len(rest.Items) != 1 {
			t.Fatalf("%s: %+v", name, rest)
		}
		d, err := a.client.Put(ctx, "shard:/q", []byte("1"), client.WriteOptions{})
		if code := cmp.Or(d.Code, problemCode(err)); code != want {
			t.Errorf("%s: the next write is %q, want %q", name, code, want)
		}
	}
}
