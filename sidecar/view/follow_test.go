package view

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// growing is a log whose snapshots are of the second in which they are asked for.
type growing struct {
	Source
	began time.Time
	asked int
}

func (g *growing) Snapshot(context.Context, string) (*topology.Snapshot, error) {
	g.asked++
	seq := sequencer.Seq(1 + time.Since(g.began)/time.Second)
	return &topology.Snapshot{Workspace: "w", Seq: seq, Through: seq}, nil
}

func (g *growing) Follow(ctx context.Context, _ string, _ sequencer.Seq,
	_ func(*sequencer.Outcome, streams.Way) error) error {
	<-ctx.Done()
	return ctx.Err()
}

// A view asks for its snapshot at once, and begins with it when it may: the watchers are there by then. One that has
// become old meanwhile is asked for again.
func TestFollowBegins(t *testing.T) {
	for _, c := range []struct {
		opens time.Duration // after the view was started
		asked int
		at    sequencer.Seq
	}{
		{0, 1, 1},
		{5 * time.Second, 1, 1},
		{15 * time.Second, 2, 16},
	} {
		synctest.Test(t, func(t *testing.T) {
			log := &growing{began: time.Now()}
			ctx, stop := context.WithCancel(t.Context())
			v, open, ended := New("w", 1<<20, 1<<20), make(chan struct{}), make(chan error, 1)
			go func() { ended <- v.Follow(ctx, log, open, slog.New(slog.DiscardHandler), func(streams.Way) {}) }()
			<-time.After(c.opens) // of the bubble's clock
			synctest.Wait()
			if log.asked != 1 || v.Ready() == nil {
				t.Errorf("opened after %v: %d snapshots were asked for before, and the view is ready: %t", c.opens, log.asked,
					v.Ready() == nil)
			}
			begun := 0
			v.Watch(Watcher{Begun: func() { begun++ }})
			close(open)
			synctest.Wait()
			if log.asked != c.asked || v.At() != c.at || v.Ready() != nil || begun != 1 {
				t.Errorf("opened after %v: %d snapshots, the view is at %d: %v; %d watchers know", c.opens, log.asked, v.At(),
					v.Ready(), begun)
			}
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}
