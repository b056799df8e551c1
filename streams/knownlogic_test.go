package streams_test

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/internal/teststreams"
	"github.com/hence-dev/hence/topology"
)

// knows holds what a new workspace's first join may ask for.
func knows(w *teststreams.World, c *streams.Client, want uint32) {
	w.T.Helper()
	if got, err := c.KnownLogic(w.Context(), "new"); err != nil || got != want {
		w.T.Errorf("logic %d, %v, want %d", got, err, want)
	}
}

// One group that runs answers alone, at once; one of an older release that says nothing knows what was released then.
func TestKnownLogicOfOneGroup(t *testing.T) {
	w := teststreams.New(t)
	w.Cfg.Health = new(streams.Health)
	stop := w.Run(w.Cfg)
	w.Well(w.Cfg.Health)
	c := w.Dial(w.Cfg)
	knows(w, c, sequencer.Logic)
	began := time.Now()
	knows(w, c, sequencer.Logic)
	t.Logf("asked again: %v", time.Since(began))
	stop()
	old := w.Cfg
	old.Faults.HideLogic = true
	stop = w.Run(old)
	w.Well(w.Cfg.Health)
	knows(w, c, 2)
	stop()
	if got, err := c.KnownLogic(t.Context(), "No Workspace"); err == nil {
		t.Errorf("logic %d of no workspace", got)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := c.KnownLogic(ended, "new"); err == nil {
		t.Errorf("logic %d for who does not wait", got)
	}
	alone := w.Cfg
	alone.NATS = ""
	knows(w, w.Dial(alone), 2)
}

// The group that knows least counts, however late it answers; one whose members have ended does not.
func TestKnownLogicOfTwoGroups(t *testing.T) {
	t.Parallel()
	for name, older := range map[string]streams.Faults{"says nothing": {HideLogic: true}, "says 2": {KnownLogic: 2}} {
		t.Run(name, func(t *testing.T) {
			w, a, b := teststreams.Replicas(t)
			b.Faults = older
			w.Run(a)
			stop := w.Run(b)
			w.Well(a.Health)
			w.Well(b.Health)
			c := w.Dial(w.Cfg)
			for range 20 { // either may be the first to answer
				knows(w, c, 2)
			}
			stop()
			w.Until("the groups are asked again", func() bool {
				got, err := c.KnownLogic(w.Context(), "new")
				return err == nil && got == sequencer.Logic
			})
		})
	}
}

// Where Kafka does not say which groups there are, answers are waited for a while.
func TestKnownLogicWithoutRights(t *testing.T) {
	w, a, b := teststreams.Replicas(t)
	b.Faults.KnownLogic = 2
	w.Run(a)
	w.Run(b)
	w.Well(a.Health)
	w.Well(b.Health)
	w.Servers.Kafka().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeGroups}, Count: -1,
		Err: kerr.GroupAuthorizationFailed})
	knows(w, w.Dial(w.Cfg), 2)
	reads(w, w.Dial(w.Cfg), topology.EventsSingle) // a group that has not been heard may read nothing else
}
