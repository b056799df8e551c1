package streams_test

import (
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// kafka is a plain client without any of our settings but the partitioner.
func (w *world) kafka() *kgo.Client {
	w.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.servers.Brokers...), kgo.ProducerLinger(0),
		kgo.ProducerBatchMaxBytes(4<<20),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(cl.Close)
	return cl
}

// put writes a record as it is.
func (w *world) put(cl *kgo.Client, topic, key string, value []byte) kgo.Record {
	w.t.Helper()
	r := &kgo.Record{Topic: topic, Key: []byte(key), Value: value,
		Partition: topology.PartitionOf(key, w.cfg.Partitions)}
	if err := cl.ProduceSync(w.context(), r).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
	return *r
}

// records reads a topic to its present end.
func (w *world) records(topic string) []*kgo.Record {
	w.t.Helper()
	ctx := w.context()
	admin := kadm.NewClient(w.kafka())
	ends, err := admin.ListEndOffsets(ctx, topic)
	if err != nil {
		w.t.Fatal(err)
	}
	left := int64(0)
	starts := make(map[int32]kgo.Offset)
	ends.Each(func(o kadm.ListedOffset) {
		left += o.Offset
		starts[o.Partition] = kgo.NewOffset().At(0)
	})
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.servers.Brokers...), kgo.FetchMaxWait(50*time.Millisecond),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: starts}))
	if err != nil {
		w.t.Fatal(err)
	}
	defer cl.Close()
	var out []*kgo.Record
	for int64(len(out)) < left {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			w.t.Fatal(err)
		}
		out = append(out, fetches.Records()...)
	}
	return out
}

// published reads hence.decisions and returns a workspace's decisions by seq; copies of one must agree.
func (w *world) published(workspace string) (decisions map[sequencer.Seq]*sequencer.Outcome, copies int) {
	w.t.Helper()
	decisions = make(map[sequencer.Seq]*sequencer.Outcome)
	for _, r := range w.records(topology.TopicDecisions) {
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
				w.t.Fatalf("decision %d differs between two copies:\n%+v\n%+v", o.Seq, had, o)
			}
			continue
		}
		decisions[o.Seq] = o
	}
	return decisions, copies
}

// complete fails unless hence.decisions has what a view was given.
func (w *world) complete(v *view, workspace string) {
	w.t.Helper()
	seen := v.all()
	var got map[sequencer.Seq]*sequencer.Outcome
	w.until("every decision in Kafka", func() bool {
		got, _ = w.published(workspace)
		return len(got) >= len(seen) && got[sequencer.Seq(len(got))] != nil
	})
	for _, o := range seen {
		if got[o.Seq] == nil || got[o.Seq].Chain != o.Chain {
			w.t.Fatalf("decision %d was delivered and hence.decisions has %+v", o.Seq, got[o.Seq])
		}
	}
}

func (w *world) committed(partition int32) int64 {
	w.t.Helper()
	offsets, err := kadm.NewClient(w.kafka()).FetchOffsets(w.context(), topology.GroupSequencer)
	if err != nil {
		w.t.Fatal(err)
	}
	o, ok := offsets.Lookup(topology.TopicIntents, partition)
	if !ok {
		return 0
	}
	return max(o.At, 0)
}

// begun waits until a partition's owner has taken all of its records but some.
func (w *world) begun(partition int32, left float64) {
	w.t.Helper()
	w.until("records before the owner", func() bool {
		return w.count("hence_input_lag_records", "topic", topology.TopicIntents,
			"partition", strconv.Itoa(int(partition))) == left
	})
}
