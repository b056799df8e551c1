package harness

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/topology"
)

// rawBound is how long a whole topic may take to read.
const rawBound = 2 * time.Minute

// RawClient is a Kafka client without any code of ours: what any consumer or producer could be.
func RawClient(tb testing.TB, brokers []string, opts ...kgo.Opt) *kgo.Client {
	tb.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(brokers...), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.MetadataMinAge(50 * time.Millisecond), kgo.FetchMaxWait(250 * time.Millisecond), kgo.ProducerLinger(0),
	}, opts...)...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(cl.Close)
	return cl
}

// Ends are the end offsets of a topic's partitions.
func Ends(tb testing.TB, brokers []string, topic string) map[int32]int64 {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), rawBound)
	defer cancel()
	listed, err := kadm.NewClient(RawClient(tb, brokers)).ListEndOffsets(ctx, topic)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		tb.Fatalf("end offsets of %s: %v", topic, err)
	}
	ends := map[int32]int64{}
	listed.Each(func(o kadm.ListedOffset) { ends[o.Partition] = o.Offset })
	return ends
}

// ReadTopic reads the records that a topic has now, those of one workspace, in the order of partition and offset.
func ReadTopic(tb testing.TB, brokers []string, topic, workspace string) []*kgo.Record {
	tb.Helper()
	ends := Ends(tb, brokers, topic)
	partition := topology.PartitionOf(workspace, int32(len(ends)))
	var all []*kgo.Record
	if ends[partition] == 0 {
		return nil
	}
	start := kgo.NewOffset().AtStart()
	cl := RawClient(tb, brokers, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: start}}))
	defer cl.Close()
	ctx, cancel := context.WithTimeout(tb.Context(), rawBound)
	defer cancel()
	for last := int64(-1); last < ends[partition]-1; {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			tb.Fatalf("read %s/%d, at offset %d of %d: %v", topic, partition, last, ends[partition], err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			last = max(last, r.Offset)
			if r.Offset < ends[partition] && topology.WorkspaceOfKey(string(r.Key)) == workspace {
				all = append(all, r)
			}
		})
	}
	slices.SortFunc(all, func(x, y *kgo.Record) int { return int(x.Offset - y.Offset) })
	return all
}

// ReadEvents reads the events of one workspace that hence.events has now, in its order: copies too.
func ReadEvents(tb testing.TB, brokers []string, workspace string) (all []*topology.Event) {
	tb.Helper()
	for _, r := range ReadTopic(tb, brokers, topology.TopicEvents, workspace) {
		events, err := topology.DecodeEvents(r.Value)
		if err != nil {
			tb.Fatalf("%s/%d offset %d: %v", r.Topic, r.Partition, r.Offset, err)
		}
		all = append(all, events...)
	}
	return all
}

// ReadTable is the newest value of each key of a compacted topic, those of one workspace; deleted keys are left out.
func ReadTable(tb testing.TB, brokers []string, topic, workspace string) map[string][]byte {
	tb.Helper()
	table := map[string][]byte{}
	for _, r := range ReadTopic(tb, brokers, topic, workspace) {
		if r.Value == nil {
			delete(table, string(r.Key))
			continue
		}
		table[string(r.Key)] = r.Value
	}
	return table
}

// Produce appends one raw record to the partition that its key belongs to and returns its place.
func Produce(tb testing.TB, brokers []string, topic, key string, value []byte) (partition int32, offset int64) {
	tb.Helper()
	cl := RawClient(tb, brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer cl.Close()
	partition = topology.PartitionOf(key, int32(len(Ends(tb, brokers, topic))))
	ctx, cancel := context.WithTimeout(tb.Context(), rawBound)
	defer cancel()
	r := &kgo.Record{Topic: topic, Partition: partition, Key: []byte(key), Value: value}
	if err := cl.ProduceSync(ctx, r).FirstErr(); err != nil {
		tb.Fatalf("produce to %s: %v", topic, err)
	}
	return r.Partition, r.Offset
}

// Eventually calls cond until it returns nil, with a pause between, and fails the test with its last error after the
// bound. Use it only for what is not announced.
func Eventually(tb testing.TB, bound time.Duration, cond func() error) {
	tb.Helper()
	deadline := time.After(bound)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := cond()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			tb.Fatal(fmt.Errorf("not within %v: %w", bound, err))
		case <-tick.C:
		}
	}
}
