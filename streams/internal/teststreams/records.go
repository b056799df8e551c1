package teststreams

import (
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// Kafka is a plain client without any of our settings but the partitioner.
func (w *World) Kafka() *kgo.Client {
	w.T.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.Servers.Brokers...), kgo.ProducerLinger(0),
		kgo.ProducerBatchMaxBytes(4<<20),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(cl.Close)
	return cl
}

// Put writes a record as it is.
func (w *World) Put(cl *kgo.Client, topic, key string, value []byte) kgo.Record {
	w.T.Helper()
	r := w.record(topic, key, value)
	if err := cl.ProduceSync(w.Context(), r).FirstErr(); err != nil {
		w.T.Fatal(err)
	}
	return *r
}

func (w *World) record(topic, key string, value []byte) *kgo.Record {
	return &kgo.Record{Topic: topic, Key: []byte(key), Value: value,
		Partition: topology.PartitionOf(key, w.Cfg.Partitions)}
}

// Records reads a topic to its present end.
func (w *World) Records(topic string) []*kgo.Record {
	w.T.Helper()
	ctx := w.Context()
	admin := kadm.NewClient(w.Kafka())
	ends, err := admin.ListEndOffsets(ctx, topic)
	if err != nil {
		w.T.Fatal(err)
	}
	begins, err := admin.ListStartOffsets(ctx, topic)
	if err != nil {
		w.T.Fatal(err)
	}
	starts, left := make(map[int32]kgo.Offset), make(map[int32]int64) // ends of partitions that are not read to them
	ends.Each(func(o kadm.ListedOffset) {
		if begin, _ := begins.Lookup(topic, o.Partition); begin.Offset < o.Offset {
			starts[o.Partition], left[o.Partition] = kgo.NewOffset().AtStart(), o.Offset
		}
	})
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.Servers.Brokers...), kgo.FetchMaxWait(50*time.Millisecond),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: starts}))
	if err != nil {
		w.T.Fatal(err)
	}
	defer cl.Close()
	var out []*kgo.Record
	for len(left) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			w.T.Fatal(err)
		}
		out = append(out, fetches.Records()...)
		for _, r := range fetches.Records() {
			if end, reads := left[r.Partition]; reads && r.Offset >= end-1 {
				delete(left, r.Partition) // records may be deleted meanwhile, so they are not counted
			}
		}
	}
	return out
}

// Published reads hence.decisions and returns a workspace's decisions by seq; copies of one must agree.
func (w *World) Published(workspace string) (decisions map[sequencer.Seq]*sequencer.Outcome, copies int) {
	w.T.Helper()
	decisions = make(map[sequencer.Seq]*sequencer.Outcome)
	for _, r := range w.Records(topology.TopicDecisions) {
		o, err := topology.DecodeCloudEvent(r.Value)
		if err != nil {
			continue
		}
		if o.Workspace != workspace {
			continue
		}
		if had := decisions[o.Seq]; had != nil {
			copies++
			if had.Chain != o.Chain || had.Intent != o.Intent {
				w.T.Fatalf("decision %d differs between two copies:\n%+v\n%+v", o.Seq, had, o)
			}
			continue
		}
		decisions[o.Seq] = o
	}
	return decisions, copies
}

// Complete fails unless hence.decisions has what a view was given.
func (w *World) Complete(v *View, workspace string) {
	w.T.Helper()
	seen := v.All()
	var got map[sequencer.Seq]*sequencer.Outcome
	w.Until("every decision in Kafka", func() bool {
		got, _ = w.Published(workspace)
		return len(got) >= len(seen) && got[sequencer.Seq(len(got))] != nil
	})
	for _, o := range seen {
		if got[o.Seq] == nil || got[o.Seq].Chain != o.Chain {
			w.T.Fatalf("decision %d was delivered and hence.decisions has %+v", o.Seq, got[o.Seq])
		}
	}
}

// Committed is where the sequencers of replica a read a partition on; zero: they have committed nothing.
func (w *World) Committed(partition int32) int64 {
	w.T.Helper()
	offsets, err := kadm.NewClient(w.Kafka()).FetchOffsets(w.Context(), topology.GroupSequencer)
	if err != nil {
		w.T.Fatal(err)
	}
	o, ok := offsets.Lookup(topology.TopicIntents, partition)
	if !ok {
		return 0
	}
	return max(o.At, 0)
}

// Begun waits until a partition's owner has taken all of its records but some.
func (w *World) Begun(partition int32, left float64) {
	w.T.Helper()
	w.Until("records before the owner", func() bool {
		return w.Count("hence_input_lag_records", "topic", topology.TopicIntents,
			"partition", strconv.Itoa(int(partition))) == left
	})
}
