package agent

import (
	"context"
	"reflect"
	"slices"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
	"github.com/hence-dev/hence/sidecar/view"
)

// A retraction restores shards as new versions, takes away what was created, and undoes calls; anybody may ask.
func TestRetract(t *testing.T) {
	log, world := newLog(), newSink()
	a, b := start(t, "a", log.Door(), withTools(world)), start(t, "b", log.Door(), withTools(world))
	ctx := background(t)
	must(a.client.Put(ctx, "shard:/x", []byte("old"), client.WriteOptions{}))(t)
	tx := open(ctx, t, a, client.BeginOptions{})
	must(tx.Read(ctx, "shard:/x"))(t)
	for _, scope := range []string{"shard:/x", "shard:/new"} {
		if err := tx.Write(ctx, scope, []byte("bad"), client.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	must(tx.Effect(ctx, "set", at{At: "s"}, client.EffectOptions{}))(t)
	must(tx.Effect(ctx, "mail", at{At: "m", Key: "k"}, client.EffectOptions{}))(t)
	if d := must(tx.Seal(ctx))(t); d.State != api.StateCommitted {
		t.Fatalf("seal: %+v", d)
	}
	for _, r := range []*rig{a, b} {
		r.final(ctx, t, tx.ID())
	}
	after := open(ctx, t, b, client.BeginOptions{})
	must(after.Read(ctx, "shard:/x"))(t)
	if err := after.Write(ctx, "shard:/follows", []byte("f"), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if d := must(after.Seal(ctx))(t); d.State != api.StateCommitted {
		t.Fatalf("seal: %+v", d)
	}
	head := log.Seq()
	dry := must(b.client.Retract(ctx, tx.ID(), "", true))(t)
	if log.Seq() != head || dry.State != api.RetractPossible || dry.Total != 2 || len(dry.Cone) != 2 {
		t.Fatalf("the dry run: %+v", dry)
	}
	first, last := dry.Cone[0], dry.Cone[1]
	if first.Tx != after.ID() || first.Of != tx.ID() || first.Why != "read_from" || first.Depth != 1 || last.Depth != 0 {
		t.Errorf("the tree: %+v", dry.Cone)
	}
	var fates []string
	for _, e := range last.Effects {
		fates = append(fates, e.Tool+" "+e.Fate)
	}
	if !slices.Equal(fates, []string{"set compensated", "mail left"}) {
		t.Errorf("the calls: %v", fates)
	}
	got := must(b.client.Retract(ctx, tx.ID(), "wrong customer", false))(t)
	if got.State == api.RetractPossible || got.Seq <= uint64(head) {
		t.Errorf("retracted: %+v", got)
	}
	checkRestored(ctx, t, a, tx, uint64(head))
	if err := b.view.Reach(ctx, log.Seq()); err != nil { // that was a's view
		t.Fatal(err)
	}
	if again := must(b.client.Retract(ctx, tx.ID(), "", false))(t); again.State != api.RetractDone || again.Total != 2 {
		t.Errorf("asked again: %+v", again)
	}
	world.expect(t, "set s", "mail m", "back s")
	c := start(t, "c", log.Door(), withTools(world))
	for _, dry := range []bool{true, false} {
		if late := must(c.client.Retract(ctx, tx.ID(), "", dry))(t); late.State != api.RetractDone {
			t.Errorf("asked by a sidecar that began later, dry %v: %+v", dry, late)
		}
	}
}

// A retraction that the log gives up before its start is over, whatever had been accepted; one that runs is not.
func TestRetractionGivenUp(t *testing.T) {
	at := func(kind sequencer.OutcomeKind, change func(*sequencer.Outcome)) *sequencer.Outcome {
		o := &sequencer.Outcome{Kind: kind, Tx: "a.1.1"}
		change(o)
		return o
	}
	committed := at(sequencer.OutcomeCommitted, func(o *sequencer.Outcome) { o.Final = true })
	queued := at(sequencer.OutcomeRetracting, func(o *sequencer.Outcome) {
		o.Intent = "a.1.1:retract:7"
		o.Retraction, o.BlockedBy = "a.1.1", []sequencer.Blocker{{Tx: "b.1.1", Why: "retraction"}}
	})
	waits := at(sequencer.OutcomeRetracting, func(o *sequencer.Outcome) { // the turn of one that has started
		o.Retraction, o.BlockedBy = "a.1.1", []sequencer.Blocker{{Tx: "b.1.1", Scope: "shard:/x", Why: "orphan"}}
	})
	started := at(sequencer.OutcomeRetracting, func(o *sequencer.Outcome) { o.Retraction = "a.1.1" })
	refused := func(intent string, code sequencer.Code) *sequencer.Outcome {
		return at(sequencer.OutcomeRefused, func(o *sequencer.Outcome) { o.Intent, o.Code = intent, code })
	}
	limit := refused("a.1.1:retract:7", sequencer.CodeLimit)
	lease := refused("a.1.1:retract:7", sequencer.CodeLeaseExpired)
	touch := refused("a.1.1:touch:7", sequencer.CodeLimit)
	for name, x := range map[string]struct {
		said []*sequencer.Outcome
		over bool
	}{
		"given up":                   {[]*sequencer.Outcome{committed, queued, limit}, true},
		"started":                    {[]*sequencer.Outcome{committed, queued, started, limit}, false},
		"its turn waits":             {[]*sequencer.Outcome{committed, waits, limit}, false},
		"another is refused":         {[]*sequencer.Outcome{committed, queued, lease}, false},
		"something else is too much": {[]*sequencer.Outcome{committed, queued, touch}, false},
	} {
		var r view.Retracting
		var final bool
		for _, o := range x.said {
			r.Observe(o, &final)
		}
		if over := reflect.DeepEqual(r, view.Retracting{}) && final; over != x.over {
			t.Errorf("%s: %+v, final %v", name, r, final)
		}
	}
}

// endsAsked is a way to the log that loses what asks for a retraction, and with it the session's lease.
type endsAsked struct {
	*memlog.Door
	log *memlog.Log
}

func (d endsAsked) Append(ctx context.Context, ws string, in *sequencer.Intent) (int64, error) {
	if in.Kind != sequencer.IntentRetract {
		return d.Door.Append(ctx, ws, in)
	}
	if err := d.log.Tick(200); err != nil {
		return 0, err
	}
	return 0, memlog.ErrLost
}

// A retraction of which the log has said nothing when the session ended does not run, as far as anybody knows.
func TestRetractSessionEnds(t *testing.T) {
	log := newLog()
	a := start(t, "a", endsAsked{log.Door(), log})
	ctx := background(t)
	put := must(a.client.Put(ctx, "shard:/x", []byte("1"), client.WriteOptions{}))(t)
	got, err := flow(a.session, func() (*api.Retraction, error) {
		return a.session.settle.Retract(ctx, sequencer.TxID(put.Tx), false)
	})
	if p := api.AsProblem(err); err == nil || p.Code != api.CodeNotReady {
		t.Errorf("retracted: %+v, %v", got, err)
	}
}

// checkRestored: once the retraction is through the shards are as they would be without the transaction.
func checkRestored(ctx context.Context, t *testing.T, a *rig, tx *client.Tx, head uint64) {
	t.Helper()
	undone := func() bool {
		seen, _ := a.view.Transaction(sequencer.TxID(tx.ID()))
		return seen.Retraction.Undone
	}
	if err := a.session.eventually(ctx, undone); err != nil {
		t.Fatal(err)
	}
	d := must(tx.Status(ctx, 0))(t)
	if d.Retraction != tx.ID() || !d.Undone || !d.Final || d.State != api.StateCommitted {
		t.Errorf("its status: %+v", d)
	}
	x := must(a.client.Get(ctx, "shard:/x"))(t)
	if string(x.Content) != "old" || x.Version <= head || x.Writer == tx.ID() {
		t.Errorf("restored: %+v", x)
	}
	for _, gone := range []string{"shard:/new", "shard:/follows"} {
		if s := must(open(ctx, t, a, client.BeginOptions{}).Read(ctx, gone))(t); s.Exists {
			t.Errorf("%s is still there: %+v", gone, s)
		}
	}
	if page := must(a.client.List(ctx, "shard:/", "", 0))(t); len(page.Items) != 1 {
		t.Errorf("the list: %+v", page.Items)
	}
	fresh := uint64(0)
	if _, err := a.client.Put(ctx, "shard:/new", []byte("again"), client.WriteOptions{IfVersion: &fresh}); err != nil {
		t.Errorf("created again: %v", err)
	}
}

// What cannot be retracted is refused with the reason.
func TestRetractRefused(t *testing.T) {
	log := newLog()
	a := start(t, "a", log.Door())
	ctx := background(t)
	undecided, aborted := open(ctx, t, a, client.BeginOptions{Mode: "ordered"}), open(ctx, t, a, client.BeginOptions{})
	if err := aborted.Abort(ctx, ""); err != nil {
		t.Fatal(err)
	}
	for tx, want := range map[string]string{
		"nonsense":     api.CodeUnknownTx,
		"b.1.1":        "too_old",
		undecided.ID(): "not_committed",
		aborted.ID():   "not_committed",
	} {
		for _, dry := range []bool{true, false} {
			if _, err := a.client.Retract(ctx, tx, "", dry); problemCode(err) != want {
				t.Errorf("%s, dry %v: %v, want %s", tx, dry, err, want)
			}
		}
	}
}
