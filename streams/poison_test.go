package streams_test

import (
	"bytes"
	"fmt"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// foreign is a whole record of a format version that nobody knows.
var foreign = []byte{0x7f, 0x90}

// Records that cannot be read are counted, put aside with the place they came from, and stop nothing.
func TestPoisonIsParked(t *testing.T) {
	w := newWorld(t)
	w.run(w.cfg)
	c := w.dial(w.cfg)
	v := w.follow(c, "shop")
	a := w.join(c, v, "shop", "ann")
	cl := w.kafka()

	expect := make(map[string]int) // by topic/reason
	spoil := func(topic, key, reason string, readers int, value []byte) {
		w.put(cl, topic, key, value)
		expect[topic+"/"+reason] += readers
	}
	intent := func() []byte {
		b, err := topology.EncodeIntent(&sequencer.Intent{Kind: sequencer.IntentTick, Tick: &sequencer.TickMark{}})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}()
	large := bytes.Repeat([]byte{1}, 600<<10)
	for _, topic := range []struct {
		name, key string
		readers   int
	}{
		{topology.TopicIntents, "shop", 1}, {topology.TopicEvents, "shop|t1", 1},
		{topology.TopicDecisions, "shop", 2}, {topology.TopicScopes, "shop|shard:/x", 1},
		{topology.TopicTxs, "shop|t1", 1},
	} {
		spoil(topic.name, topic.key, "malformed", topic.readers, []byte{1, 0xc1})
		spoil(topic.name, topic.key, "empty", topic.readers, nil)
		if topic.name != topology.TopicDecisions {
			spoil(topic.name, topic.key, "foreign_version", topic.readers, foreign)
		}
		spoil(topic.name, "No Workspace", "key", topic.readers, intent)
	}
	spoil(topology.TopicIntents, "shop", "oversize", 1, large)
	spoil(topology.TopicEvents, "shop|t1", "oversize", 1, large)
	wrong := &kgo.Record{Topic: topology.TopicIntents, Key: []byte("shop"), Value: intent,
		Partition: 1 - topology.PartitionOf("shop", 2)}
	if err := cl.ProduceSync(w.context(), wrong).FirstErr(); err != nil {
		t.Fatal(err)
	}
	expect["hence.intents/partition"]++

	a.write("orders/1", "x")
	w.decided(v, "ann-1")
	total := 0
	for what, n := range expect {
		topic, reason, _ := bytes.Cut([]byte(what), []byte("/"))
		total += n
		w.until(fmt.Sprintf("%d × %s parked", n, what), func() bool {
			return w.count("hence_records_parked_total", "topic", string(topic), "reason", string(reason)) == float64(n)
		})
	}
	var parked []*kgo.Record
	w.until("records in hence.parked", func() bool {
		parked = w.records(topology.TopicParked)
		return len(parked) >= total
	})
	got := make(map[string]int)
	for _, r := range parked {
		h := make(map[string]string)
		for _, x := range r.Headers {
			h[x.Key] = string(x.Value)
		}
		got[h[topology.HeaderParkedTopic]+"/"+h[topology.HeaderParkedReason]]++
		if _, err := strconv.ParseInt(h[topology.HeaderParkedOffset], 10, 64); err != nil {
			t.Errorf("a parked record does not say where it came from: %v", h)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(expect) {
		t.Errorf("parked %v, want %v", got, expect)
	}
	if n := w.count("hence_processor_restarts_total"); n != 0 {
		t.Errorf("%v restarts", n)
	}
	// The closure table and a follower on Kafka pass over what is in their way, too.
	w.servers.StopNATS()
	late := w.follow(w.dial(w.cfg), "shop")
	w.until("a follower on Kafka", func() bool { return late.len() >= v.len() })
}

// A broken row of a derived table is made anew; a broken state stops its partition, because deciding from nothing
// would decide the past again.
func TestBrokenRows(t *testing.T) {
	w := newWorld(t)
	cl := w.kafka()
	w.put(cl, topology.TableOf(topology.GroupFrontier), "shop|shard:/orders/1", []byte("broken"))
	w.put(cl, topology.TableOf(topology.GroupClosure), "shop|ann-1", []byte("broken"))
	w.put(cl, topology.TableOf(topology.GroupSequencer), "No Workspace", []byte("broken"))
	other := "bank"
	for i := 0; topology.PartitionOf(other, 2) == topology.PartitionOf("shop", 2); i++ {
		other = fmt.Sprint("bank", i)
	}
	w.put(cl, topology.TableOf(topology.GroupSequencer), other, []byte("broken"))
	w.run(w.cfg)
	c := w.dial(w.cfg)
	v := w.follow(c, "shop")
	a := w.join(c, v, "shop", "ann")
	tx := a.write("orders/1", "x")
	w.decided(v, tx)
	w.until("rows made anew", func() bool {
		s, err := c.Snapshot(w.context(), "shop")
		closure, closureErr := c.Closure(w.context(), "shop", tx, 10)
		return err == nil && len(s.Shards) == 1 && closureErr == nil && closure.Rows[0].Status == "committed"
	})
	if n := w.count("hence_partitions_stopped"); n != 1 {
		t.Errorf("%v partitions stopped, want the one with the broken state", n)
	}
	if n := w.count("hence_processor_restarts_total"); n != 0 {
		t.Errorf("%v restarts", n)
	}
}
