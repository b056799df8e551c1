package processor_test

import (
	"bytes"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hence-dev/hence/streams/internal/teststreams"
	"github.com/hence-dev/hence/topology"
)

// parkedSoon runs the processors over a record that cannot be read, and expects it in hence.parked, no restart, and
// the next decision; it returns the parked record.
func parkedSoon(w *teststreams.World, key string, headers []kgo.RecordHeader) *kgo.Record {
	w.T.Helper()
	w.Run(w.Cfg)
	c := w.Dial(w.Cfg)
	v := w.Follow(c, "shop")
	a := w.Join(c, v, "shop", "ann")
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.Cfg.Brokers...), kgo.ProducerBatchMaxBytes(16<<20),
		kgo.ProducerBatchCompression(kgo.Lz4Compression()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		w.T.Fatal(err)
	}
	defer cl.Close()
	p := topology.PartitionOf("shop", w.Cfg.Partitions)
	rec := &kgo.Record{Topic: topology.TopicIntents, Partition: p, Key: []byte(key), Value: []byte("x"), Headers: headers}
	if err := cl.ProduceSync(w.Context(), rec).FirstErr(); err != nil {
		w.T.Fatal(err)
	}
	w.Decided(v, a.Write("orders/1", "x"))
	var records []*kgo.Record
	w.Until("the parked record", func() bool {
		if w.Count("hence_processor_restarts_total") != 0 {
			w.T.Fatal("a processor was built again")
		}
		records = w.Records(topology.TopicParked)
		return len(records) > 0
	})
	w.Until("its offset", func() bool { return w.Committed(p) > rec.Offset })
	return records[0]
}

// header is a header's value; a record has each of ours once.
func header(r *kgo.Record, key string) string {
	for _, h := range r.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}

// A record whose headers its producer could compress, and whose key is long, is put aside as any other.
func TestLargeHeadersAreParked(t *testing.T) {
	w := teststreams.New(t)
	r := parkedSoon(w, string(bytes.Repeat([]byte("k"), 1<<20)),
		[]kgo.RecordHeader{{Key: "large", Value: make([]byte, 5<<20)}, {Key: "small", Value: []byte("kept")}})
	if header(r, "small") != "kept" || header(r, "large") != "" || header(r, topology.HeaderParkedReason) != "key" ||
		len(r.Key) != 4<<10 || header(r, "hence-parked-cut") == "" {
		t.Errorf("parked with a key of %d bytes and %d headers, cut %q", len(r.Key), len(r.Headers),
			header(r, "hence-parked-cut"))
	}
}

// A record that hence.parked refuses for its size leaves its origin there.
func TestParkedWithoutContent(t *testing.T) {
	w := teststreams.New(t)
	w.Servers.Kafka().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topology.TopicParked,
		Err: kerr.MessageTooLarge})
	r := parkedSoon(w, "shop", []kgo.RecordHeader{{Key: "some", Value: []byte("header")}})
	if len(r.Value) != 0 || len(r.Key) != 0 || header(r, "some") != "" ||
		header(r, topology.HeaderParkedOffset) != "1" || header(r, topology.HeaderParkedReason) != "foreign_version" {
		t.Errorf("parked: %+v", r)
	}
}
