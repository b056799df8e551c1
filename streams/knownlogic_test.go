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
)

// knows holds what a new workspace's first join may ask for.
func (w *world) knows(c *streams.Client, want uint32) {
	w.t.Helper()
	if got, err := c.KnownLogic(w.context(), "new"); err != nil || got != want {
		w.t.Errorf("logic %d, %v, want %d", got, err, want)
	}
}

// One group that runs answers alone, at once; one of an older release that says nothing knows what was released then.
func TestKnownLogicOfOneGroup(t *testing.T) {
	w := newWorld(t)
	w.cfg.Health = new(streams.Health)
	stop := w.run(w.cfg)
	w.well(w.cfg.Health)
	c := w.dial(w.cfg)
	w.knows(c, sequencer.Logic)
	began := time.Now()
	w.knows(c, sequencer.Logic)
	t.Logf("asked again: %v", time.Since(began))
	stop()
	old := w.cfg
	old.Faults.HideLogic = true
	stop = w.run(old)
	w.well(w.cfg.Health)
	w.knows(c, 2)
	stop()
	if got, err := c.KnownLogic(t.Context(), "No Workspace"); err == nil {
		t.Errorf("logic %d of no workspace", got)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := c.KnownLogic(ended, "new"); err == nil {
		t.Errorf("logic %d for who does not wait", got)
	}
	alone := w.cfg
	alone.NATS = ""
	w.knows(w.dial(alone), 2)
}

// The group that knows least counts, however late it answers; one whose members have ended does not.
func TestKnownLogicOfTwoGroups(t *testing.T) {
	t.Parallel()
	for name, older := range map[string]streams.Faults{"says nothing": {HideLogic: true}, "says 2": {KnownLogic: 2}} {
		t.Run(name, func(t *testing.T) {
			w, a, b := replicas(t)
			b.Faults = older
			w.run(a)
			stop := w.run(b)
			w.well(a.Health)
			w.well(b.Health)
			c := w.dial(w.cfg)
			for range 20 { // either may be the first to answer
				w.knows(c, 2)
			}
			stop()
			w.until("the groups are asked anew", func() bool {
				got, err := c.KnownLogic(w.context(), "new")
				return err == nil && got == sequencer.Logic
			})
		})
	}
}

// Where Kafka does not say which groups there are, answers are waited for a while.
func TestKnownLogicWithoutRights(t *testing.T) {
	w, a, b := replicas(t)
	b.Faults.KnownLogic = 2
	w.run(a)
	w.run(b)
	w.well(a.Health)
	w.well(b.Health)
	w.servers.Kafka().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeGroups}, Count: -1,
		Err: kerr.GroupAuthorizationFailed})
	w.knows(w.dial(w.cfg), 2)
}
