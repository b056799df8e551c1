package streams_test

import (
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// What goes on is asked of the fold: who holds what, who waits for whom, and which scopes there are.
func TestLive(t *testing.T) {
	w := newWorld(t)
	w.run(w.cfg)
	c := w.dial(w.cfg)
	v := w.follow(c, "shop")
	ann, bob := w.join(c, v, "shop", "ann"), w.join(c, v, "shop", "bob")
	touch := func(a *agent, tx sequencer.TxID) {
		a.append(&sequencer.Intent{Kind: sequencer.IntentTouch, Tx: tx, N: 1, Agent: a.name,
			Incarnation: a.incarnation, Base: a.incarnation, Begin: &sequencer.Begin{},
			Touch: &sequencer.Touch{Wants: []sequencer.Want{{Scope: "db:/1", Access: sequencer.WriteAccess}}}})
	}
	touch(ann, "a1")
	touch(bob, "b1")
	bob.touched("b2", "db:/2")
	tx := ann.write("x", "one")
	w.decided(v, tx)
	live, err := c.Live(w.context(), "shop")
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
		live.Seq != sequencer.Seq(v.len()) || live.Truncated {
		t.Errorf("live: %+v, the view is at %d", live, v.len())
	}
	w.until("the scopes", func() bool {
		s, err := c.Scopes(w.context(), "shop", "", 10)
		return err == nil && len(s.Rows) == 3 && !s.Truncated && s.Rows[2].Scope == "shard:/x" && s.Rows[2].Writer == tx
	})
	if s, err := c.Scopes(w.context(), "shop", "db:", 1); err != nil || len(s.Rows) != 1 || !s.Truncated ||
		len(s.Rows[0].Open) != 2 || s.Rows[0].Scope != "db:/1" {
		t.Errorf("scopes of db: %+v %v", s, err)
	}
}

// A question that nobody hears yet is put again until its time is over: processors may be about to start.
func TestQuestionThatNobodyHears(t *testing.T) {
	w := newWorld(t)
	_, err := w.dial(w.cfg).Live(w.context(), "shop")
	if !errors.Is(err, streams.ErrNoAnswer) || !errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("without processors: %v", err)
	}
}
