package processor_test

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams/internal/teststreams"
	"github.com/hence-dev/hence/topology"
)

// foreign is a whole record of a format version that is unknown.
var foreign = []byte{0x7f, 0x90}

// spoiler writes records that cannot be read and remembers how they must be parked.
type spoiler struct {
	w      *teststreams.World
	cl     *kgo.Client
	expect map[string]int // by topic/reason
}

func (s *spoiler) spoil(topic, key, reason string, readers int, value []byte) {
	s.w.T.Helper()
	s.w.Put(s.cl, topic, key, value)
	s.expect[topic+"/"+reason] += readers
}

// all spoils every input topic in every way.
func (s *spoiler) all() {
	s.w.T.Helper()
	good, err := topology.EncodeIntent(&sequencer.Intent{Kind: sequencer.IntentTick, Tick: &sequencer.TickMark{}})
	if err != nil {
		s.w.T.Fatal(err)
	}
	for _, topic := range []struct {
		name, key string
		readers   int
	}{
		{topology.TopicIntents, "shop", 1}, {topology.TopicEvents, "shop|t1", 1},
		{topology.TopicDecisions, "shop", 2},
	} {
		s.spoil(topic.name, topic.key, "malformed", topic.readers, []byte{1, 0xc1})
		s.spoil(topic.name, topic.key, "empty", topic.readers, nil)
		if topic.name != topology.TopicDecisions {
			s.spoil(topic.name, topic.key, "foreign_version", topic.readers, foreign)
		}
		s.spoil(topic.name, "No Workspace", "key", topic.readers, good)
	}
	large := bytes.Repeat([]byte{1}, 600<<10)
	s.spoil(topology.TopicIntents, "shop", "oversize", 1, large)
	s.spoil(topology.TopicEvents, "shop|t1", "oversize", 1, large)
	wrong := &kgo.Record{Topic: topology.TopicIntents, Key: []byte("shop"), Value: good,
		Partition: 1 - topology.PartitionOf("shop", 2)}
	if err := s.cl.ProduceSync(s.w.Context(), wrong).FirstErr(); err != nil {
		s.w.T.Fatal(err)
	}
	s.expect["hence.intents/partition"]++
}

// parked waits until everything is parked and compares what hence.parked says of it.
func (s *spoiler) parked() {
	s.w.T.Helper()
	total := 0
	for what, n := range s.expect {
		topic, reason, _ := strings.Cut(what, "/")
		total += n
		s.w.Until(fmt.Sprintf("%d × %s parked", n, what), func() bool {
			return s.w.Count("hence_records_parked_total", "topic", topic, "reason", reason) == float64(n)
		})
	}
	var records []*kgo.Record
	s.w.Until("records in hence.parked", func() bool {
		records = s.w.Records(topology.TopicParked)
		return len(records) >= total
	})
	got := make(map[string]int)
	for _, r := range records {
		h := make(map[string]string)
		for _, x := range r.Headers {
			h[x.Key] = string(x.Value)
		}
		got[h[topology.HeaderParkedTopic]+"/"+h[topology.HeaderParkedReason]]++
		if _, err := strconv.ParseInt(h[topology.HeaderParkedOffset], 10, 64); err != nil {
			s.w.T.Errorf("a parked record does not say where it came from: %v", h)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(s.expect) {
		s.w.T.Errorf("parked %v, want %v", got, s.expect)
	}
}

// Records that cannot be read are counted, put aside with the place they came from, and stop nothing.
func TestPoisonIsParked(t *testing.T) {
	w := teststreams.New(t)
	w.Run(w.Cfg)
	c := w.Dial(w.Cfg)
	v := w.Follow(c, "shop")
	a := w.Join(c, v, "shop", "ann")
	s := &spoiler{w: w, cl: w.Kafka(), expect: make(map[string]int)}
	s.all()
	w.Decided(v, a.Write("orders/1", "x"))
	s.parked()
	if n := w.Count("hence_processor_restarts_total"); n != 0 {
		t.Errorf("%v restarts", n)
	}
	// A follower on Kafka passes over what is in its way, too.
	w.Servers.StopNATS()
	late := w.Follow(w.Dial(w.Cfg), "shop")
	w.Until("a follower on Kafka", func() bool { return late.Len() >= v.Len() })
}

// A broken row of a derived table is rebuilt; a broken state stops its workspace, because deciding from nothing
// would decide the past again.
func TestBrokenRows(t *testing.T) {
	w := teststreams.New(t)
	cl := w.Kafka()
	w.Put(cl, topology.TableOf(topology.GroupFrontier), "shop|shard:/orders/1", []byte("broken"))
	w.Put(cl, topology.TableOf(topology.GroupClosure), "shop|ann-1", []byte("broken"))
	w.Put(cl, topology.TableOf(topology.GroupSequencer), "No Workspace", []byte("broken"))
	w.Put(cl, topology.TableOf(topology.GroupSequencer), samePartition("shop", 2), []byte("broken"))
	w.Run(w.Cfg)
	c := w.Dial(w.Cfg)
	v := w.Follow(c, "shop")
	a := w.Join(c, v, "shop", "ann")
	tx := a.Write("orders/1", "x")
	w.Decided(v, tx)
	w.Until("rows rebuilt", func() bool {
		s, err := c.Snapshot(w.Context(), "shop")
		closure, closureErr := c.Closure(w.Context(), "shop", tx, 10)
		return err == nil && len(s.Shards) == 1 && closureErr == nil && closure.Rows[0].Status == "committed"
	})
	if n := w.Count("hence_workspaces_stopped"); n != 1 {
		t.Errorf("%v workspaces stopped, want the one with the broken state", n)
	}
	if n := w.Count("hence_processor_restarts_total"); n != 0 {
		t.Errorf("%v restarts", n)
	}
}
