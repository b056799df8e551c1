package streams_test

import (
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/internal/teststreams"
	"github.com/hence-dev/hence/topology"
)

// What goes on is asked of the fold: who holds what, who waits for whom, and which scopes there are.
func TestLive(t *testing.T) {
	w := teststreams.New(t)
	w.Run(w.Cfg)
	c := w.Dial(w.Cfg)
	v := w.Follow(c, "shop")
	ann, bob := w.Join(c, v, "shop", "ann"), w.Join(c, v, "shop", "bob")
	touch := func(a *teststreams.Agent, tx sequencer.TxID) {
		a.Append(&sequencer.Intent{Kind: sequencer.IntentTouch, Tx: tx, N: 1, Agent: a.Name,
			Incarnation: a.Incarnation, Base: a.Incarnation, Begin: &sequencer.Begin{},
			Touch: &sequencer.Touch{Wants: []sequencer.Want{{Scope: "db:/1", Access: sequencer.WriteAccess}}}})
	}
	touch(ann, "a1")
	touch(bob, "b1")
	bob.Touched("b2", "db:/2")
	tx := ann.Write("x", "one")
	w.Decided(v, tx)
	live, err := c.Live(w.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	got := map[sequencer.TxID]topology.LiveTx{}
	for _, tx := range live.Transactions {
		got[tx.Tx] = tx
	}
	if x := got["a1"]; x.State != topology.LiveOpen || len(x.Granted) != 1 || x.Granted[0].Scope != "db:/1" ||
		x.DeadlineTick == 0 || x.BeganTick == 0 {
		t.Errorf("a1 is %+v", x)
	}
	if x := got["b1"]; x.State != topology.LiveWaiting || len(x.Waits) != 1 || x.Waits[0].Tx != "a1" || x.Agent != "bob" {
		t.Errorf("b1 is %+v", x)
	}
	if x := got["b2"]; x.State != topology.LiveSettling || x.Code != sequencer.CodeToolFailed || x.Committed {
		t.Errorf("b2 is %+v", x)
	}
	if len(got) != 3 || live.Counts.Waiting != 1 || live.Counts.Settling != 1 || len(live.Sidecars) != 2 ||
		live.Seq != sequencer.Seq(v.Len()) || live.Truncated {
		t.Errorf("live: %+v, the view is at %d", live, v.Len())
	}
	w.Until("the scopes", func() bool {
		s, err := c.Scopes(w.Context(), "shop", "", 10)
		return err == nil && len(s.Rows) == 3 && !s.Truncated && s.Rows[2].Scope == "shard:/x" && s.Rows[2].Writer == tx
	})
	if s, err := c.Scopes(w.Context(), "shop", "db:", 1); err != nil || len(s.Rows) != 1 || !s.Truncated ||
		len(s.Rows[0].Open) != 2 || s.Rows[0].Scope != "db:/1" {
		t.Errorf("scopes of db: %+v %v", s, err)
	}
}

// A question that no processor hears yet is put again until its time is over: processors may be about to start.
func TestUnheardQuestion(t *testing.T) {
	w := teststreams.New(t)
	_, err := w.Dial(w.Cfg).Live(w.Context(), "shop")
	if !errors.Is(err, streams.ErrNoAnswer) || !errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("without processors: %v", err)
	}
}
