package streams_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/internal/teststreams"
	"github.com/hence-dev/hence/topology"
)

// together publishes events in one record, as p.publish does one, and returns its place.
func (p caller) together(events ...*topology.Event) sequencer.Place {
	p.w.T.Helper()
	for _, ev := range events {
		ev.Workspace, ev.Agent, ev.Incarnation = "shop", "ann", p.incarnation
	}
	type answer struct {
		at  sequencer.Place
		err error
	}
	done := make(chan answer, 1)
	p.c.PublishAsync(events, func(at sequencer.Place, err error) { done <- answer{at, err} })
	got := <-done
	if got.err != nil {
		p.w.T.Fatal(got.err)
	}
	return got.at
}

// Calls are found among the other events of their record, and once where a record and a copy of one event have them.
// A place of several events is no content's.
func TestEffectsAmongOthers(t *testing.T) {
	w := teststreams.New(t)
	c := w.Dial(w.Cfg)
	p := caller{w, c, 3}
	call := func(index uint64, n uint32) *topology.Event {
		return &topology.Event{Kind: topology.EventEffect, Tx: "t", Index: index, Effect: &topology.EffectText{Index: n,
			Class: sequencer.ClassReversible, Tool: "put", Args: fmt.Appendf(nil, "{%d}", n)}}
	}
	read := func(index uint64) *topology.Event {
		return &topology.Event{Kind: topology.EventRead, Tx: "t", Index: index, Scope: "shard:/x"}
	}
	answer := &topology.Event{Kind: topology.EventAnswer, Tx: "t", Index: 5, Effect: &topology.EffectText{Step: 3,
		Answer: []byte("[a]")}}
	p.together(call(4, 1), answer) // sent again behind those after it
	at := p.together(read(1), call(2, 0), read(3), call(4, 1))
	p.publish(2, call(2, 0))
	events, err := c.Effects(w.Context(), "shop", "t")
	if err != nil {
		t.Fatal(err)
	}
	if want := "3/2:0{0} 3/4:1{1} 3/5:0[a] "; shown(events) != want {
		t.Errorf("%s, want %s", shown(events), want)
	}
	empty := sequencer.Ref{Partition: at.Partition, Offset: at.Offset, SHA256: sha256.Sum256(nil)}
	_, err = c.Content(w.Context(), "shop", empty)
	if !errors.Is(err, streams.ErrContent) {
		t.Errorf("the content of four events: %v", err)
	}
	ctx, cancel := context.WithCancel(w.Context())
	defer cancel()
	var seen []uint64
	_ = c.FollowEvents(ctx, "shop", time.Hour, func(ev *topology.Event) error {
		if seen = append(seen, ev.Index); len(seen) == 7 {
			cancel()
		}
		return nil
	})
	if want := []uint64{4, 5, 1, 2, 3, 4, 2}; !slices.Equal(seen, want) {
		t.Errorf("followed %v, want %v", seen, want)
	}
}

// reads holds which format of hence.events a sidecar may write.
func reads(w *teststreams.World, c *streams.Client, want uint32) {
	w.T.Helper()
	if got, err := c.KnownEvents(w.Context(), "shop"); err != nil || got != want {
		w.T.Errorf("format %d, %v, want %d", got, err, want)
	}
}

// Several events go into one record once all groups that run say that they read such; a group of a release that does
// not say so parks them, and which groups run must be known.
func TestKnownEvents(t *testing.T) {
	t.Parallel()
	for name, older := range map[string]streams.Faults{"says nothing": {HideLogic: true},
		"says its logic": {HideEvents: true}} {
		t.Run(name, func(t *testing.T) {
			w, a, b := teststreams.Replicas(t)
			b.Faults = older
			w.Run(a)
			stop := w.Run(b)
			w.Well(a.Health)
			w.Well(b.Health)
			c := w.Dial(w.Cfg)
			for range 20 { // either may be the first to answer
				reads(w, c, topology.EventsSingle)
			}
			stop()
			w.Until("the groups are asked again", func() bool {
				got, err := c.KnownEvents(w.Context(), "shop")
				return err == nil && got == topology.EventsBatched
			})
			alone := w.Cfg
			alone.NATS = ""
			reads(w, w.Dial(alone), topology.EventsSingle)
		})
	}
}
