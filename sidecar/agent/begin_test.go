package agent

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
	"github.com/hence-dev/hence/topology"
)

// full makes a workspace of one open transaction, which the agent it returns has.
func full(ctx context.Context, t *testing.T, log *memlog.Log) *client.Tx {
	t.Helper()
	rules := sequencer.DefaultRules()
	rules.Version, rules.Logic, rules.MaxOpen = 1, sequencer.Logic, 1
	must(log.Add(&sequencer.Intent{Kind: sequencer.IntentRules, Rules: &rules}))(t)
	return open(ctx, t, start(t, "full", log.Door()), client.BeginOptions{Mode: "ordered"})
}

// ofTx are the log's decisions about a transaction, but for refusals.
func ofTx(log *memlog.Log, tx string) (out []*sequencer.Outcome) {
	for _, o := range log.Outcomes() {
		if string(o.Tx) == tx && o.Kind != sequencer.OutcomeRefused {
			out = append(out, o)
		}
	}
	return out
}

// A seal that was refused before the log knew the transaction is sent again with what its begin says.
func TestRefusedSealKeepsItsBegin(t *testing.T) {
	log := newLog()
	ctx := background(t)
	other := full(ctx, t, log)
	a := start(t, "a", log.Door())
	g := must(a.client.Speculate(ctx, 2, client.BeginOptions{}))(t)
	branch := g.Branches()[0]
	if status, p, _ := a.send(t, post("/v1/tx/"+branch.ID()+"/seal", "")); status != http.StatusTooManyRequests ||
		p.Code != api.CodeLimit || !p.Retryable || p.Decision.State != api.StateOpen {
		t.Fatalf("without room: %d %+v", status, p)
	}
	if err := other.Abort(ctx, "makes room"); err != nil {
		t.Fatal(err)
	}
	decided := make(chan client.Decision, 1)
	go func() {
		d, err := branch.Seal(ctx)
		if err != nil {
			t.Error(err)
		}
		decided <- d
	}()
	if err := log.Until(ctx, func() bool { return len(ofTx(log, branch.ID())) > 0 }); err != nil {
		t.Fatal(err)
	}
	if o := ofTx(log, branch.ID())[0]; o.Kind != sequencer.OutcomeWaiting || o.Group != g.ID() {
		t.Errorf("sealed again: %s, group %q", o.Kind, o.Group)
	}
	must(g.Select(ctx, branch))(t)
	if d := <-decided; d.State != api.StateCommitted {
		t.Errorf("the winner: %+v", d)
	}
}

// A touch that the seal makes needless before it has arrived takes no begin with it.
func TestNeedlessTouchKeepsTheBegin(t *testing.T) {
	log := newLog()
	door := log.Door()
	a, b := start(t, "a", door), start(t, "b", log.Door())
	ctx := background(t)
	tx := open(ctx, t, a, client.BeginOptions{Observe: true})
	must(tx.Read(ctx, "shard:/x"))(t)
	if err := tx.Write(ctx, "shard:/y", []byte("y"), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	door.FailAppends(1 << 30)
	sent := must(a.session.known(sequencer.TxID(tx.ID())))(t)
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	scope := []sequencer.Want{{Scope: "order:/1", Access: sequencer.WriteAccess}}
	if _, err := flow(a.session, func() (*api.Touched, error) {
		return a.session.touchFor(short, sent, asking{wants: scope, wait: testWait})
	}); err == nil {
		t.Fatal("a touch was answered without the log")
	}
	must(b.client.Put(ctx, "shard:/x", []byte("1"), client.WriteOptions{}))(t) // it would be stale_read
	decided := sealing(ctx, t, tx)
	sealed := func() bool {
		return slices.ContainsFunc(log.Events(), func(ev *topology.Event) bool {
			return ev.Kind == topology.EventSeal && string(ev.Tx) == tx.ID()
		})
	}
	if err := log.Until(ctx, sealed); err != nil {
		t.Fatal(err)
	}
	door.FailAppends(0)
	if d := <-decided; d.State != api.StateCommitted || d.Would != "stale_read" {
		t.Errorf("it only observes: %+v", d)
	}
}

// A transaction that the log has refused to open, and that its client abandons, ends at its deadline.
func TestRefusedAtFirstExpires(t *testing.T) {
	log := newLog()
	ctx := background(t)
	full(ctx, t, log)
	clock := &fakeClock{now: time.Unix(1e9, 0), beat: make(chan time.Time)}
	a := startWith(t, "a", log.Door(), func(c *setup) { c.Machine.Clock = clock })
	tx := open(ctx, t, a, client.BeginOptions{DeadlineMs: 1000})
	if status, p, _ := a.send(t, post("/v1/tx/"+tx.ID()+"/seal", "")); p == nil || p.Code != api.CodeLimit {
		t.Fatalf("without room: %d %+v", status, p)
	}
	clock.advance(time.Minute)
	clock.advance(0)
	if d := must(tx.Status(ctx, testWait))(t); d.Code != "deadline" {
		t.Errorf("left lying: %+v", d)
	}
}
