package streams_test

import (
	"bytes"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hence-dev/hence/topology"
)

// parkedSoon runs the processors over a record that cannot be read, and expects it in hence.parked, no restart, and
// the next decision; it returns the parked record.
func (w *world) parkedSoon(key string, headers []kgo.RecordHeader) *kgo.Record {
	w.t.Helper()
	w.run(w.cfg)
	c := w.dial(w.cfg)
	v := w.follow(c, "shop")
	a := w.join(c, v, "shop", "ann")
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.cfg.Brokers...), kgo.ProducerBatchMaxBytes(16<<20),
		kgo.ProducerBatchCompression(kgo.Lz4Compression()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		w.t.Fatal(err)
	}
	defer cl.Close()
	p := topology.PartitionOf("shop", w.cfg.Partitions)
	rec := &kgo.Record{Topic: topology.TopicIntents, Partition: p, Key: []byte(key), Value: []byte("x"), Headers: headers}
	if err := cl.ProduceSync(w.context(), rec).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
	w.decided(v, a.write("orders/1", "x"))
	var records []*kgo.Record
	w.until("the parked record", func() bool {
		if w.count("hence_processor_restarts_total") != 0 {
			w.t.Fatal("a processor was built again")
		}
		records = w.records(topology.TopicParked)
		return len(records) > 0
	})
	w.until("its offset", func() bool { return w.committed(p) > rec.Offset })
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
	w := newWorld(t)
	r := w.parkedSoon(string(bytes.Repeat([]byte("k"), 1<<20)),
		[]kgo.RecordHeader{{Key: "large", Value: make([]byte, 5<<20)}, {Key: "small", Value: []byte("kept")}})
	if header(r, "small") != "kept" || header(r, "large") != "" || header(r, topology.HeaderParkedReason) != "key" ||
		len(r.Key) != 4<<10 || header(r, "hence-parked-cut") == "" {
		t.Errorf("parked with a key of %d bytes and %d headers, cut %q", len(r.Key), len(r.Headers),
			header(r, "hence-parked-cut"))
	}
}

// A record that hence.parked refuses for its size leaves its origin there.
func TestParkedWithoutContent(t *testing.T) {
	w := newWorld(t)
	w.servers.Kafka().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topology.TopicParked,
		Err: kerr.MessageTooLarge})
	r := w.parkedSoon("shop", []kgo.RecordHeader{{Key: "some", Value: []byte("header")}})
	if len(r.Value) != 0 || len(r.Key) != 0 || header(r, "some") != "" ||
		header(r, topology.HeaderParkedOffset) != "1" || header(r, topology.HeaderParkedReason) != "foreign_version" {
		t.Errorf("parked: %+v", r)
	}
}
