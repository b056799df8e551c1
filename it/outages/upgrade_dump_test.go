package outages

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/it/recorded"
	"github.com/hence-dev/hence/topology"
)

// dumpBound is how long reading or writing a whole dump may take.
const dumpBound = time.Minute

// dumped is one line of a dump: a record, or a place up to which a group has committed.
type dumped struct {
	Group     string            `json:"group,omitempty"`
	Topic     string            `json:"topic"`
	Partition int32             `json:"partition"`
	Offset    int64             `json:"offset"`
	Key       string            `json:"key,omitempty"`
	Value     []byte            `json:"value,omitempty"`
	Headers   map[string][]byte `json:"headers,omitempty"`
}

// previous is what the build that left a dump says of it.
type previous struct {
	Build     string          `json:"build"`
	Log       recorded.Hashes `json:"log"`        // what the whole log of intents leads to
	RowOffset int64           `json:"row_offset"` // of the state in the sequencer's table
	RowHash   string          `json:"row_hash"`
}

// dump reads every record of the topics and every committed offset.
func dump(t *testing.T, brokers []string) []dumped {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), dumpBound)
	defer cancel()
	cl := harness.RawClient(t, brokers)
	admin := kadm.NewClient(cl)
	var all []dumped
	for _, group := range []string{topology.GroupSequencer, topology.GroupClosure, topology.GroupFrontier} {
		offsets, err := admin.FetchOffsets(ctx, group)
		if err != nil {
			t.Fatal(err)
		}
		offsets.Each(func(o kadm.OffsetResponse) {
			all = append(all, dumped{Group: group, Topic: o.Topic, Partition: o.Partition, Offset: o.At})
		})
	}
	for _, topic := range topology.Topics(topology.Options{}) {
		all = append(all, dumpTopic(ctx, t, brokers, topic.Name)...)
	}
	return all
}

func dumpTopic(ctx context.Context, t *testing.T, brokers []string, topic string) (all []dumped) {
	t.Helper()
	from, ends := map[int32]kgo.Offset{}, harness.Ends(t, brokers, topic)
	left := int64(0)
	for p, end := range ends {
		if end > 0 {
			from[p], left = kgo.NewOffset().AtStart(), left+end
		}
	}
	if left == 0 {
		return nil
	}
	cl := harness.RawClient(t, brokers, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))
	defer cl.Close()
	for open := maps.Clone(ends); len(from) > 0; {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("read %s: %v", topic, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			d := dumped{Topic: topic, Partition: r.Partition, Offset: r.Offset, Key: string(r.Key), Value: r.Value}
			for _, h := range r.Headers {
				if d.Headers == nil {
					d.Headers = map[string][]byte{}
				}
				d.Headers[h.Key] = h.Value
			}
			all = append(all, d)
			if r.Offset == open[r.Partition]-1 {
				delete(from, r.Partition)
			}
		})
	}
	return all
}

// restore writes a dump into an empty cluster, every record at its offset.
func restore(t *testing.T, brokers []string, all []dumped) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), dumpBound)
	defer cancel()
	cl := harness.RawClient(t, brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	former := []string{topology.TopicScopes, topology.TopicTxs}
	_, err := kadm.NewClient(cl).CreateTopics(ctx, topology.DefaultPartitions, 1, nil, former...)
	if err != nil {
		t.Fatalf("create the topics that only former builds have: %v", err)
	}
	offsets := map[string]kadm.Offsets{}
	for _, d := range all {
		if d.Group != "" {
			if offsets[d.Group] == nil {
				offsets[d.Group] = kadm.Offsets{}
			}
			at := offsets[d.Group]
			at.AddOffset(d.Topic, d.Partition, d.Offset, -1)
			continue
		}
		r := &kgo.Record{Topic: d.Topic, Partition: d.Partition, Key: []byte(d.Key), Value: d.Value}
		for _, k := range slices.Sorted(maps.Keys(d.Headers)) {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: k, Value: d.Headers[k]})
		}
		if err := cl.ProduceSync(ctx, r).FirstErr(); err != nil {
			t.Fatalf("restore %s/%d: %v", d.Topic, d.Partition, err)
		}
		if r.Offset != d.Offset {
			t.Fatalf("a record of %s/%d with offset %d came to %d: the cluster is not empty", d.Topic, d.Partition, d.Offset,
				r.Offset)
		}
	}
	for group, at := range offsets {
		if err := kadm.NewClient(cl).CommitAllOffsets(ctx, group, at); err != nil {
			t.Fatalf("commit the offsets of %s: %v", group, err)
		}
	}
}

// compacted is a dump without what is of no use to a later build: records of tables that newer ones replace. Their
// offsets close up, which nothing rests on.
func compacted(all []dumped) (kept []dumped) {
	type row struct{ topic, key string }
	tables, newest := map[string]bool{}, map[row]int{}
	for _, topic := range topology.Topics(topology.Options{}) {
		tables[topic.Name] = topic.Cleanup != topology.CleanupDelete
	}
	for i, d := range all {
		newest[row{d.Topic, d.Key}] = i
	}
	next := map[string]int64{}
	for i, d := range all {
		if d.Group == "" && tables[d.Topic] {
			if newest[row{d.Topic, d.Key}] != i || d.Value == nil {
				continue
			}
			at := fmt.Sprint(d.Topic, "/", d.Partition)
			d.Offset = next[at]
			next[at]++
		}
		kept = append(kept, d)
	}
	return kept
}

func writeDump(path string, all []dumped) error {
	var out bytes.Buffer
	packed, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return err
	}
	lines := json.NewEncoder(packed)
	for _, d := range all {
		if err := lines.Encode(d); err != nil {
			return err
		}
	}
	if err := packed.Close(); err != nil {
		return err
	}
	return os.WriteFile(path, out.Bytes(), 0o644)
}

func readDump(path string) (all []dumped, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	packed, err := gzip.NewReader(bufio.NewReader(file))
	if err != nil {
		return nil, err
	}
	for lines := json.NewDecoder(packed); ; {
		var d dumped
		switch err := lines.Decode(&d); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("line %d of %s: %w", len(all)+1, path, err)
		}
		all = append(all, d)
	}
}

// framesIn are a dump's records of hence.intents of one workspace.
func framesIn(all []dumped, workspace string) (frames []recorded.Frame) {
	for _, d := range all {
		if d.Group == "" && d.Topic == topology.TopicIntents && d.Key == workspace {
			frames = append(frames, recorded.Frame{Offset: d.Offset, Value: d.Value})
		}
	}
	return frames
}
