package processor_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams/internal/teststreams"
	"github.com/hence-dev/hence/topology"
)

// waitsFor is a clock that tells when an owner waits for what the replicas have said: nothing else waits ten seconds.
type waitsFor chan struct{}

func (w waitsFor) Now() time.Time { return time.Now() }

func (w waitsFor) After(d time.Duration) <-chan time.Time {
	if d == 10*time.Second {
		w <- struct{}{}
	}
	return time.After(d)
}

// An owner that begins while the replicas differ publishes nothing first: it reads what both said before.
func TestReplicasDifferedBefore(t *testing.T) {
	w, a, _ := teststreams.Replicas(t)
	stop := w.Run(a)
	w.Well(a.Health)
	c := w.Dial(w.Cfg)
	v := w.Follow(c, "shop")
	ann := w.Join(c, v, "shop", "ann")
	w.Decided(v, ann.Write("x", "1"))
	stop()
	id, err := c.ID(w.Context())
	if err != nil {
		t.Fatal(err)
	}
	partition := topology.PartitionOf("shop", w.Cfg.Partitions)
	var said []*kgo.Record
	say := func(replica string, seq sequencer.Seq, hash byte) {
		value, err := topology.EncodeStateHash(&topology.StateHash{Workspace: "shop", Seq: seq, Replica: replica,
			Log: id, Hash: sequencer.Hash{hash}, Instance: replica})
		if err != nil {
			t.Fatal(err)
		}
		said = append(said, &kgo.Record{Topic: topology.TopicHashes, Key: []byte("shop"), Value: value,
			Partition: partition})
	}
	say("a", 2, 1)
	say("b", 2, 2)
	if err := w.Kafka().ProduceSync(w.Context(), said...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	before := copies(w, "shop")
	ann.Write("x", "2")
	waits := make(waitsFor, 8)
	a.Clock, a.Faults.BeforeStates = waits, func() { <-waits }
	w.Run(a)
	stopped := false
	w.Until("a stop or a decision", func() bool {
		err := a.Health.Ready()[fmt.Sprintf("partition %d", partition)]
		stopped = err != nil && strings.Contains(err.Error(), `replicas a and b differ in workspace "shop" at seq 2`)
		return stopped || copies(w, "shop") != before
	})
	if !stopped {
		waits <- struct{}{}
	}
	if after := copies(w, "shop"); after != before {
		t.Errorf("%d decisions were published", after-before)
	}
}
