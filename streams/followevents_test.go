package streams_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams/internal/teststreams"
	"github.com/hence-dev/hence/topology"
)

// TestFollowEvents: events of the workspace come in order, those from before and those that come later; no others'.
func TestFollowEvents(t *testing.T) {
	w := teststreams.New(t)
	c := w.Dial(w.Cfg)
	publish := func(workspace string, tx sequencer.TxID, index uint64) {
		t.Helper()
		ev := &topology.Event{Kind: topology.EventRead, Workspace: workspace, Tx: tx, Agent: "a", Incarnation: 1,
			Index: index, Scope: "shard:/x"}
		if _, err := c.Publish(t.Context(), ev); err != nil {
			t.Fatal(err)
		}
	}
	publish("mine", "a.1.1", 1)
	publish("other", "b.1.1", 1)
	ctx, cancel := context.WithTimeout(t.Context(), teststreams.Patience)
	defer cancel()
	enough := errors.New("enough")
	var seen []sequencer.TxID
	first := make(chan struct{})
	go func() {
		select {
		case <-first:
			ev := &topology.Event{Kind: topology.EventRead, Workspace: "mine", Tx: "a.1.2", Agent: "a", Incarnation: 1,
				Index: 2, Scope: "shard:/x"}
			c.PublishAsync([]*topology.Event{ev}, nil)
		case <-ctx.Done():
		}
	}()
	err := c.FollowEvents(ctx, "mine", time.Hour, func(ev *topology.Event) error {
		if seen = append(seen, ev.Tx); len(seen) == 1 {
			close(first)
			return nil
		}
		return enough
	})
	if !errors.Is(err, enough) || len(seen) != 2 || seen[0] != "a.1.1" || seen[1] != "a.1.2" {
		t.Errorf("seen %v, %v; want a.1.1 and a.1.2", seen, err)
	}
	if err := c.FollowEvents(ctx, "no|such", time.Hour, nil); err == nil {
		t.Error("a workspace that cannot be is followed")
	}
}
