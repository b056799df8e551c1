package agent

import (
	"testing"

	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/metrics"
)

// When the agent's process has ended, what it left open is aborted and undone; what was decided stays. All is counted.
func TestFarewell(t *testing.T) {
	world := newSink()
	s := start(t, "a", newLog().Door(), withTools(world))
	ctx := background(t)
	mailed := must(s.client.Begin(ctx, client.BeginOptions{}))(t)
	must(mailed.Effect(ctx, "mail", at{At: "sent", Key: "k"}, client.EffectOptions{}))(t)
	if d := must(mailed.Seal(ctx))(t); d.State != "committed" {
		t.Fatalf("%+v", d)
	}
	s.final(ctx, t, mailed.ID()) // its mail leaves before anything else is called
	stale := must(s.client.Begin(ctx, client.BeginOptions{}))(t)
	must(stale.Read(ctx, "shard:/x"))(t)
	must(s.client.Put(ctx, "shard:/x", []byte("new"), client.WriteOptions{}))(t)
	if d := must(stale.Seal(ctx))(t); d.Code != "stale_read" {
		t.Fatalf("%+v", d)
	}
	open := must(s.client.Begin(ctx, client.BeginOptions{}))(t)
	must(open.Effect(ctx, "set", at{At: "done"}, client.EffectOptions{}))(t)
	must(open.Effect(ctx, "stage", at{At: "held"}, client.EffectOptions{}))(t)
	must(s.client.Begin(ctx, client.BeginOptions{}))(t) // of which the log knows nothing
	if n := inside(s.session, func() int { return s.session.owing() }); n == 0 {
		t.Error("nothing is owed for, and a transaction is open")
	}
	if left := s.Farewell(ctx); left != 0 {
		t.Errorf("%d are left", left)
	}
	if d := must(open.Status(ctx, 0))(t); d.State != "aborted" || d.Code != "aborted_by_agent" {
		t.Errorf("%+v", d)
	}
	world.expect(t, "mail sent", "set done", "back done")
	if got, want := s.metrics.Counters(), (metrics.Counters{Committed: 2, Refused: 1, Held: 2}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
