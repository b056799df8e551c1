package streams_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/internal/teststreams"
	"github.com/hence-dev/hence/streams/processor"
	"github.com/hence-dev/hence/topology"
)

func TestContentIsHeldAgainstItsReference(t *testing.T) {
	w := teststreams.New(t)
	c := w.Dial(w.Cfg)
	content := bytes.Repeat([]byte("a shard "), 20_000)
	ev := &topology.Event{Kind: topology.EventContent, Workspace: "shop", Tx: "t", Agent: "ann", Index: 1,
		Content: content, Size: int64(len(content)), SHA256: sha256.Sum256(content)}
	place, err := c.Publish(w.Context(), ev)
	if err != nil {
		t.Fatal(err)
	}
	ref := sequencer.Ref{Partition: place.Partition, Offset: place.Offset, Size: ev.Size, SHA256: ev.SHA256}
	got, err := c.Content(w.Context(), "shop", ref)
	if err != nil || !bytes.Equal(got, content) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	if _, err := c.Content(w.Context(), "bank", ref); !errors.Is(err, streams.ErrContent) {
		t.Errorf("content of another workspace: %v", err)
	}
	ref.SHA256[0]++
	if _, err := c.Content(w.Context(), "shop", ref); !errors.Is(err, streams.ErrContent) {
		t.Errorf("content with another hash: %v", err)
	}
	async := make(chan error, 1)
	c.PublishAsync([]*topology.Event{ev}, func(_ sequencer.Place, err error) { async <- err })
	if err := <-async; err != nil {
		t.Error(err)
	}
}

// A broker that is not there costs a caller no more than its own time, and what is in flight is unknown.
func TestDeadBroker(t *testing.T) {
	cfg := streams.Config{Brokers: []string{"127.0.0.1:1"}, NATS: "nats://127.0.0.1:1", Partitions: 2, Instance: "one"}
	c, err := streams.Dial(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	brief := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	join := &sequencer.Intent{Kind: sequencer.IntentJoin, N: 1, Agent: "ann", Join: &sequencer.Join{ID: "j"}}
	if _, err := c.Append(brief(), "shop", join); !errors.Is(err, streams.ErrUnknown) {
		t.Errorf("append: %v", err)
	}
	if _, err := c.Snapshot(brief(), "shop"); err == nil {
		t.Error("a snapshot from nowhere")
	}
	if _, err := c.Closure(brief(), "shop", "t", 1); !errors.Is(err, streams.ErrNoAnswer) {
		t.Errorf("closure: %v", err)
	}
	apply := func(*sequencer.Outcome, streams.Way) error { return nil }
	if err := c.Follow(brief(), "shop", 0, apply); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("follow: %v", err)
	}
	for what, err := range c.Ready(brief()) {
		if err == nil {
			t.Errorf("%s is ready", what)
		}
	}
	if err := processor.Run(brief(), cfg); err == nil {
		t.Error("run on a dead broker")
	}
}

func TestBadNames(t *testing.T) {
	w := teststreams.New(t)
	c := w.Dial(w.Cfg)
	for _, name := range []string{"", "Shop", "a|b", "a.b", "*"} {
		if _, err := c.Append(w.Context(), name, &sequencer.Intent{Kind: sequencer.IntentTick}); err == nil {
			t.Errorf("append to %q", name)
		}
		if _, err := c.Snapshot(w.Context(), name); err == nil {
			t.Errorf("snapshot of %q", name)
		}
		if err := c.Follow(w.Context(), name, 0, nil); err == nil {
			t.Errorf("follow %q", name)
		}
	}
	large := &topology.Event{Kind: topology.EventContent, Workspace: "shop", Content: make([]byte, 600<<10)}
	if _, err := c.Publish(w.Context(), large); !errors.Is(err, streams.ErrTooLarge) {
		t.Errorf("a large event: %v", err)
	}
}

func TestReady(t *testing.T) {
	w := teststreams.New(t)
	c := w.Dial(w.Cfg)
	w.Until("all but the sequencer", func() bool {
		r := c.Ready(w.Context())
		return r["kafka"] == nil && r["nats"] == nil && r["topics"] == nil && r["decisions"] != nil
	})
	w.Run(w.Cfg)
	w.Until("the sequencer", func() bool { return c.Ready(w.Context())["decisions"] == nil })
	w.Servers.StopNATS()
	w.Until("NATS gone", func() bool { return c.Ready(w.Context())["nats"] != nil })
}

// What is kept nowhere is said to be gone; it is not waited for.
func TestDecisionsThatAreGone(t *testing.T) {
	w := teststreams.New(t, func(c *streams.Config) { c.NATS = "" })
	w.Run(w.Cfg)
	c := w.Dial(w.Cfg)
	v := w.Follow(c, "shop")
	a := w.Join(c, v, "shop", "ann")
	for range 5 {
		a.Write("orders/1", "x")
	}
	w.Decided(v, "ann-5")
	w.Complete(v, "shop")
	if v.By(streams.WayKafka) != v.Len() {
		t.Errorf("without NATS they come by %v", v.Ways)
	}
	p := topology.PartitionOf("shop", 2)
	cut := kadm.Offsets{}
	cut.AddOffset(topology.TopicDecisions, p, 3, -1)
	if _, err := kadm.NewClient(w.Kafka()).DeleteRecords(w.Context(), cut); err != nil {
		t.Fatal(err)
	}
	err := c.Follow(w.Context(), "shop", 0, func(*sequencer.Outcome, streams.Way) error { return nil })
	if !errors.Is(err, streams.ErrGone) {
		t.Errorf("follow from 1: %v", err)
	}
	enough := errors.New("enough")
	err = c.Follow(w.Context(), "shop", 4, func(o *sequencer.Outcome, _ streams.Way) error {
		if o.Seq == 5 {
			return enough
		}
		return fmt.Errorf("first is %d", o.Seq)
	})
	if !errors.Is(err, enough) {
		t.Errorf("follow after 4: %v", err)
	}
}

// A broker that answers late has taken the record all the same: the caller hears "unknown", the log has it once.
func TestAppendThatTimesOutIsUnknown(t *testing.T) {
	w := teststreams.New(t)
	w.Run(w.Cfg)
	c := w.Dial(w.Cfg)
	v := w.Follow(c, "shop")
	a := w.Join(c, v, "shop", "ann")
	fault := w.Servers.Kafka().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topology.TopicIntents,
		Err: kerr.NotEnoughReplicasAfterAppend, Count: -1})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	tx, in := a.Intent("orders/1", "x")
	if _, err := c.Append(ctx, "shop", in); !errors.Is(err, streams.ErrUnknown) {
		t.Fatalf("append: %v", err)
	}
	fault.Remove()
	w.Decided(v, tx)
	if _, err := c.Append(w.Context(), "shop", in); err != nil { // the same intent again
		t.Fatal(err)
	}
	w.Decided(v, a.Write("orders/1", "x"))
	n := 0
	for _, o := range v.All() {
		if o.Tx == tx && o.Kind == sequencer.OutcomeCommitted {
			n++
		}
	}
	if n != 1 {
		t.Errorf("committed %d times", n)
	}
}

// TestFollowTimes: on each way a decision has the time at which its record was appended, and the same on all of them.
func TestFollowTimes(t *testing.T) {
	w := teststreams.New(t)
	began := time.Now().Truncate(time.Millisecond)
	w.Run(w.Cfg)
	c := w.Dial(w.Cfg)
	v := w.Follow(c, "shop")
	a := w.Join(c, v, "shop", "ann")
	for range 3 {
		a.Write("orders/1", "x")
	}
	w.Decided(v, "ann-3")
	plain := w.Cfg
	plain.NATS = ""
	last := sequencer.Seq(v.Len())
	times := func(c *streams.Client) (all []time.Time) {
		enough := errors.New("enough")
		err := c.FollowAt(w.Context(), "shop", 0, func(o *sequencer.Outcome, way streams.Way, at time.Time) error {
			if at.Before(began) || at.After(time.Now().Add(time.Second)) {
				t.Errorf("decision %d by %v is of %v", o.Seq, way, at)
			}
			if all = append(all, at); o.Seq == last {
				return enough
			}
			return nil
		})
		if !errors.Is(err, enough) {
			t.Fatal(err)
		}
		return all
	}
	stream, kafka := times(w.Dial(w.Cfg)), times(w.Dial(plain))
	if !slices.EqualFunc(stream, kafka, time.Time.Equal) {
		t.Errorf("JetStream says %v, Kafka %v", stream, kafka)
	}
}
