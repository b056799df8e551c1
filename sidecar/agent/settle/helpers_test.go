package settle

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/sidecar/loop"
	"github.com/hence-dev/hence/sidecar/metrics"
	"github.com/hence-dev/hence/sidecar/view"
	"github.com/hence-dev/hence/topology/machine"
)

// session is a live one that tells the log nothing.
type session struct{ Session }

func (session) Incarnation() sequencer.Seq { return 7 }
func (session) Live() bool                 { return true }
func (session) Hurry()                     {}

// longest is a lease that lasts.
type longest struct{ Lease }

func (longest) Longest() time.Duration { return time.Hour }

// alone is a settler of agent "a" that only observes, with its journal in memory. It has the loop until the test ends.
func alone(t *testing.T) *Settler {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	door := memlog.New("w").Door()
	l := loop.New(loop.Options{})
	c := Config{Reader: Reader{Loop: loop.Timed{Loop: l, Clock: machine.Clock{}}, Events: door, Workspace: "w"},
		Agent: "a", View: view.New("w", 1, 1), Journal: journal.New(door, 100, 1<<20, log), Logger: log,
		Metrics: metrics.New(func() float64 { return 0 }).Agent(""), Limits: Limits{AdoptAfter: time.Second},
		Session: session{}, Lease: longest{}, Outlives: context.Background()}
	if err := c.Journal.Open("", journal.Of{Log: "l", Workspace: "w", Agent: "a"}, journal.OpenOS, nil); err != nil {
		t.Fatal(err)
	}
	c.Formers = NewFormers(c)
	has, free := make(chan struct{}), make(chan struct{})
	go l.Run(func() { close(has); <-free })
	<-has
	t.Cleanup(func() {
		close(free)
		l.Stop()
		if err := c.Journal.Close(); err != nil {
			t.Error(err)
		}
	})
	return New(c)
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
