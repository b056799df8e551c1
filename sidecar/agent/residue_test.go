package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// A sink that stays away does not keep a transaction from being final: what did not leave is on the list, can be tried
// again under its key, and without one only when that is forced.
func TestResidue(t *testing.T) {
	log, world := newLog(), newSink()
	a := start(t, "a", log.Door(), quick(world))
	ctx := background(t)
	world.set(func() { world.down["mail"], world.down["unmail"] = 1<<20, 1<<20 })
	var txs []string
	for _, tool := range []string{"mail", "unmail"} {
		done := must(a.client.Do(ctx, tool, at{At: "x", Key: "k"}, client.EffectOptions{}))(t)
		a.final(ctx, t, done.Tx)
		txs = append(txs, done.Tx)
	}
	world.expect(t)
	list := must(a.client.Residue(ctx, client.ResidueQuery{}))(t)
	if len(list.Items) != 2 || list.Items[0].Tool != "unmail" || list.Items[0].Result != "unresolved" {
		t.Fatalf("the list: %+v", list)
	}
	for q, want := range map[client.ResidueQuery]int{
		{Tool: "mail"}: 1, {Tool: "other"}: 0, {Result: "unresolved"}: 2, {State: "accepted"}: 0, {Limit: 1}: 1,
	} {
		if got := must(a.client.Residue(ctx, q))(t); len(got.Items) != want || got.Truncated != (q.Limit == 1) {
			t.Errorf("%+v: %+v", q, got)
		}
	}
	d := must(a.client.Tx(txs[0]).Status(ctx, 0))(t)
	if !d.Final || !slices.Contains(d.Residue, txs[0]) {
		t.Errorf("the decision does not say that it left residue: %+v", d)
	}
	_, err := a.client.RetryResidue(ctx, txs[0], 0, false)
	if p := problemIn(t, err); p.Code != api.CodeToolUnreachable {
		t.Errorf("while the sink is away: %+v", p)
	}
	world.set(func() { clear(world.down) })
	if r := must(a.client.RetryResidue(ctx, txs[0], 0, false))(t); r.State != "resolved" || r.Result != "clean" {
		t.Errorf("tried again: %+v", r)
	}
	world.expect(t, "mail x")
	_, err = a.client.RetryResidue(ctx, txs[1], 0, false)
	if p := problemIn(t, err); p.Code != api.CodeUnkeyed || !strings.Contains(p.Detail, "second time") {
		t.Errorf("without a key: %+v", p)
	}
	_, err = a.client.AcceptResidue(ctx, txs[1], 0, "")
	if p := problemIn(t, err); p.Status != 400 {
		t.Errorf("without a note: %+v", p)
	}
	if r := must(a.client.AcceptResidue(ctx, txs[1], 0, "ops: it was sent by hand"))(t); r.State != "accepted" {
		t.Errorf("accepted: %+v", r)
	}
	for _, tx := range txs {
		if _, err := a.client.RetryResidue(ctx, tx, 0, true); problemIn(t, err).Code != api.CodeNotResidue {
			t.Errorf("%s: %v", tx, err)
		}
	}
	_, err = a.client.AcceptResidue(ctx, "a.1.99", 0, "who")
	if p := problemIn(t, err); p.Status != 404 {
		t.Errorf("one that is not on the list: %+v", p)
	}
}

// What comes behind a call that failed is not sent, and is on the list.
func TestReleaseStops(t *testing.T) {
	log, world := newLog(), newSink()
	a := start(t, "a", log.Door(), quick(world))
	ctx := background(t)
	world.set(func() { world.deny["mail"] = true })
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	for _, tool := range []string{"stage", "mail", "unmail"} {
		must(tx.Effect(ctx, tool, at{At: tool}, client.EffectOptions{}))(t)
	}
	if d := must(tx.Seal(ctx))(t); d.State != api.StateCommitted {
		t.Fatalf("decided: %+v", d)
	}
	a.final(ctx, t, tx.ID())
	world.expect(t, "stage stage")
	var results []sequencer.Result
	for _, r := range log.Residue() {
		results = append(results, r.Result)
	}
	if !slices.Equal(results, []sequencer.Result{sequencer.ResultPartial, sequencer.ResultPartial}) {
		t.Errorf("the list: %+v", log.Residue())
	}
}

// What cannot be asked of a tool is refused with what to do, and nothing is called.
func TestEffectBadInput(t *testing.T) {
	log, world := newLog(), newSink()
	a, bare := start(t, "a", log.Door(), quick(world)), start(t, "b", log.Door())
	ctx := background(t)
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	for name, c := range map[string]struct {
		tool string
		args any
		key  string
		code string
		say  string
	}{
		"no object":    {"set", []int{1}, "", api.CodeBadRequest, "object"},
		"no tool":      {"", at{At: "x"}, "", api.CodeBadRequest, "tool"},
		"unknown":      {"fly", at{At: "x"}, "", api.CodeTool, "declared"},
		"no argument":  {"set", struct{}{}, "", api.CodeTool, "at is missing"},
		"too large":    {"set", at{At: strings.Repeat("x", maxArgs)}, "", api.CodeTooLarge, "bytes"},
		"key on eager": {"set", at{At: "x"}, "k", api.CodeTool, "leave key out"},
		"key unkeyed":  {"unmail", at{At: "x"}, "k", api.CodeTool, "takes no idempotency key"},
	} {
		_, err := tx.Effect(ctx, c.tool, c.args, client.EffectOptions{Key: c.key})
		if p := problemIn(t, err); p.Code != c.code || !strings.Contains(p.Detail, c.say) {
			t.Errorf("%s: %+v", name, p)
		}
	}
	_, err := bare.client.Do(ctx, "mail", at{At: "x"}, client.EffectOptions{})
	if p := problemIn(t, err); p.Code != api.CodeNoPolicy {
		t.Errorf("without a policy: %+v", p)
	}
	long := func(c *setup) { c.Tools = &testTools{sink: world, maxTime: 3600e9} }
	slow := start(t, "slow", log.Door(), long)
	_, err = slow.client.Do(ctx, "mail", at{At: "x"}, client.EffectOptions{})
	if p := problemIn(t, err); p.Code != api.CodeTool || !strings.Contains(p.Detail, "lease_ticks") {
		t.Errorf("a call that outlasts every lease: %+v", p)
	}
	if err := tx.Abort(ctx, ""); err != nil {
		t.Fatal(err)
	}
	_, err = tx.Effect(ctx, "mail", at{At: "x"}, client.EffectOptions{})
	if p := problemIn(t, err); p.Decision == nil {
		t.Errorf("after the abort: %+v", p)
	}
	world.expect(t)
}

// A tool that changed between plan and commit is not called.
func TestPhantomTool(t *testing.T) {
	log, world := newLog(), newSink()
	a := start(t, "a", log.Door(), func(c *setup) {
		quick(world)(c)
		c.Tools.(*testTools).pins = true
	})
	ctx := background(t)
	for changed, want := range map[bool]string{false: api.StateCommitted, true: api.StateAborted} {
		tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
		must(tx.Effect(ctx, "mail", at{At: fmt.Sprint(changed)}, client.EffectOptions{}))(t)
		if changed {
			in := &sequencer.Intent{Kind: sequencer.IntentUnregister, Agent: "a", Incarnation: a.session.inc(),
				Register: &sequencer.Register{Server: "policy", Generation: 1 << 40}}
			must(log.Add(in))(t)
		}
		d := must(tx.Seal(ctx))(t)
		if d.State != want || changed && d.Code != string(sequencer.CodePhantomTool) {
			t.Fatalf("changed %v: %+v", changed, d)
		}
		a.final(ctx, t, tx.ID())
		if changed {
			return
		}
		world.expect(t, "mail false")
	}
}

// Arguments above what an event carries go by reference, and come back from the log.
func TestLargeArguments(t *testing.T) {
	log, world := newLog(), newSink()
	a := start(t, "a", log.Door(), quick(world))
	ctx := background(t)
	where := strings.Repeat("y", 900)
	args := map[string]string{"At": where, "Pad": strings.Repeat("z", 100<<10)}
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	must(tx.Effect(ctx, "stage", args, client.EffectOptions{}))(t)
	if a.session.delivery.Drain(ctx) > 0 {
		t.Fatal("events are not published")
	}
	logged := must(flow(a.session, func() ([]gate.Progress, error) {
		return a.session.settlements().Logged(ctx, sequencer.TxID(tx.ID()))
	}))(t)
	if len(logged) != 1 || len(logged[0].Args) < 100<<10 {
		t.Fatalf("the log has %d calls", len(logged))
	}
	must(tx.Seal(ctx))(t)
	a.final(ctx, t, tx.ID())
	world.expect(t, "stage "+where)
}

// Many transactions settle beside each other, bounded, and all of them do.
func TestManySettle(t *testing.T) {
	log, world := newLog(), newSink()
	a := start(t, "a", log.Door(), quick(world))
	ctx := background(t)
	var txs []string
	for i := range 200 {
		tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
		must(tx.Effect(ctx, []string{"mail", "set"}[i%2], at{At: fmt.Sprint(i)}, client.EffectOptions{}))(t)
		if i%2 == 0 {
			must(tx.Seal(ctx))(t)
		} else if err := tx.Abort(ctx, ""); err != nil {
			t.Fatal(err)
		}
		txs = append(txs, tx.ID())
	}
	for _, tx := range txs {
		a.final(ctx, t, tx)
	}
	if n := len(world.world()); n != 300 || len(log.Residue()) > 0 {
		t.Errorf("%d calls happened, and residue %v", n, log.Residue())
	}
}

// A journal that is damaged knows nothing: what it held is settled from the log alone.
func TestDamagedJournal(t *testing.T) {
	log, world := newLog(), newSink()
	leases(t, log, 13)
	door := log.Door()
	a := start(t, "a", door, quick(world))
	ctx := background(t)
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	must(tx.Effect(ctx, "mail", at{At: "x"}, client.EffectOptions{}))(t)
	other := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	must(other.Effect(ctx, "unmail", at{At: "y"}, client.EffectOptions{}))(t)
	held(t, a, log, door, tx, other)
	journal := a.die(t, door)
	journal[len(journal)/2] ^= 1
	b := reborn(t, log, "a", journal, quick(world))
	b.final(ctx, t, tx.ID())
	b.final(ctx, t, other.ID())
	world.expect(t, "mail x")
	if list := log.Residue(); len(list) != 1 || list[0].Tool != "unmail" || list[0].Result != sequencer.ResultUnresolved {
		t.Errorf("the list of residues: %+v", list)
	}
}

// held seals transactions whose commits the sidecar does not see any more.
func held(t *testing.T, a *rig, log *memlog.Log, door *memlog.Door, txs ...*client.Tx) {
	t.Helper()
	ctx := background(t)
	if err := a.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	door.Hold()
	for _, tx := range txs {
		s := must(a.session.known(sequencer.TxID(tx.ID())))(t)
		sent := must(flow(a.session, func() (*sent, error) { return a.session.sendSeal(ctx, s) }))(t)
		if err := a.session.eventually(ctx, func() bool { return sent.over }); err != nil || sent.err != nil {
			t.Fatal(err, sent.err)
		}
	}
}

// goneLog is a log that no longer has what transactions called.
type goneLog struct{ *memlog.Door }

func (goneLog) Effects(context.Context, string, sequencer.TxID) ([]*topology.Event, error) {
	return nil, streams.ErrGone
}

// When neither a journal nor the log says what a transaction called, it is settled all the same, and the list says so.
func TestNobodyKnows(t *testing.T) {
	log, world := newLog(), newSink()
	door := log.Door()
	a := start(t, "a", door, quick(world))
	ctx := background(t)
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	must(tx.Effect(ctx, "mail", at{At: "x"}, client.EffectOptions{}))(t)
	held(t, a, log, door, tx)
	a.die(t, door)
	b := start(t, "a", goneLog{log.Door()}, quick(world)).aloneNow()
	b.final(ctx, t, tx.ID())
	world.expect(t)
	if list := log.Residue(); len(list) != 1 || list[0].Result != sequencer.ResultUnresolved {
		t.Errorf("the list of residues: %+v", list)
	}
}

// narrowLog takes smaller settlements than brokers do: older rules bound a footprint less than an intent.
type narrowLog struct {
	*memlog.Door
	most int
}

func (l narrowLog) Append(ctx context.Context, workspace string, in *sequencer.Intent) (int64, error) {
	if text, err := topology.EncodeIntent(in); err != nil || in.Settle != nil && len(text) > l.most {
		return 0, errors.Join(err, streams.ErrTooLarge)
	}
	return l.Door.Append(ctx, workspace, in)
}

// A settlement ends however much the agent has acted on: its residue is on the list, shortened, and can be accepted.
func TestSettlementOfManyScopes(t *testing.T) {
	const scopes = 300 // of 1 KiB
	for _, most := range []int{512 << 10, 256 << 10} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			t.Parallel()
			log := newLog()
			a := start(t, "a", narrowLog{log.Door(), most}, soon)
			ctx := background(t)
			rule := uint32(512)
			must(a.client.SetRules(ctx, 0, client.RulesChange{MaxScopes: &rule}))(t)
			tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
			for from := 0; from < scopes; from += 100 {
				var wants []client.Want
				for i := from; i < min(from+100, scopes); i++ {
					scope := fmt.Sprintf("order:/%s%03d", strings.Repeat("x", 1024-len("order:/")-3), i)
					wants = append(wants, client.Want{Scope: scope, Access: "write"})
				}
				if got := must(tx.Touch(ctx, wants, client.TouchOptions{}))(t); got.State != api.TouchGranted {
					t.Fatalf("%+v", got)
				}
			}
			if err := tx.Abort(ctx, "over"); err != nil {
				t.Fatal(err)
			}
			a.final(ctx, t, tx.ID())
			open := func() bool { return len(log.Residue()) > 0 }
			if err := log.Until(ctx, open); err != nil {
				t.Fatal(err)
			}
			list := must(a.client.Residue(ctx, client.ResidueQuery{}))(t).Items
			if len(list[0].Scopes) == 0 || !strings.HasPrefix(list[0].Detail, fmt.Sprint(scopes)) {
				t.Fatalf("%d residues, %.200v", len(list), list)
			}
			got, err := a.client.AcceptResidue(ctx, tx.ID(), list[0].Index, "looked at")
			if err != nil || got.State != "accepted" || len(got.Scopes) != len(list[0].Scopes) {
				t.Errorf("accepted: %.200v, %v", got, err)
			}
		})
	}
}
