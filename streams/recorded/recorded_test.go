package recorded_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/internal/teststreams"
	"github.com/hence-dev/hence/streams/recorded"
	"github.com/hence-dev/hence/topology"
)

func TestMain(m *testing.M) { teststreams.Main(m) }

// world is a log with one partition, without processors: the tests write the decisions.
func world(t *testing.T) *teststreams.World {
	return teststreams.New(t, func(c *streams.Config) { c.Partitions = 1 })
}

func open(t *testing.T, w *teststreams.World) *recorded.Log {
	t.Helper()
	l, err := recorded.Open(w.Context(), w.Cfg, "shop")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func seqs(t *testing.T, w *teststreams.World, l *recorded.Log, after sequencer.Seq) (got []sequencer.Seq, err error) {
	t.Helper()
	err = l.Decisions(w.Context(), after, func(d recorded.Decision) error {
		got = append(got, d.Seq)
		return nil
	})
	return got, err
}

// TestRead: what a processor decided is read back, one workspace's alone, up to where the topics ended at Open.
func TestRead(t *testing.T) {
	w := world(t)
	stop := w.Run(w.Cfg)
	c := w.Dial(w.Cfg)
	v, other := w.Follow(c, "shop"), w.Follow(c, "farm")
	ann := w.Join(c, v, "shop", "ann")
	tx := ann.Write("a", "1")
	w.Decided(v, tx)
	bob := w.Join(c, other, "farm", "bob")
	w.Decided(other, bob.Write("a", "2"))
	ev := &topology.Event{Kind: topology.EventWrite, Workspace: "shop", Tx: tx, Agent: "ann", Index: 1,
		Incarnation: ann.Incarnation, Scope: "shard:/a"}
	if _, err := c.Publish(w.Context(), ev); err != nil {
		t.Fatal(err)
	}
	w.Until("decisions in Kafka", func() bool { d, _ := w.Published("shop"); return len(d) == 2 })
	stop()
	l := open(t, w)
	later := ann.Write("a", "late")
	told := map[string]int64{}
	l.Progress = func(topic string, at int64, _ recorded.Span) { told[topic] = at }
	var intents []sequencer.TxID
	if err := l.Intents(w.Context(), func(in recorded.Intent) error {
		intents = append(intents, in.Intent.Tx)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(intents) < 2 || intents[1] != tx {
		t.Errorf("the intents are of %q, want a join and %s", intents, tx)
	}
	for _, got := range intents {
		if got == later {
			t.Error("an intent was read that came after Open")
		}
	}
	var last recorded.Decision
	if err := l.Decisions(w.Context(), 0, func(d recorded.Decision) error {
		last = d
		return l.Whole(d.Outcome)
	}); err != nil {
		t.Fatal(err)
	}
	if last.Seq != 2 || last.Tx != tx || len(last.Record.Value) == 0 || last.In.Time.IsZero() {
		t.Errorf("the last decision is %+v", last.Outcome)
	}
	var order []string
	err := l.Together(w.Context(), 0, func(in recorded.Intent) error {
		order = append(order, in.Intent.Kind.String())
		return nil
	}, func(d recorded.Decision) error {
		order = append(order, d.Kind.String())
		return nil
	})
	if want := "join joined seal committed"; err != nil || strings.Join(order, " ") != want {
		t.Errorf("together they are %v, not %s: %v", order, want, err)
	}
	var events []recorded.Event
	if err := l.Events(w.Context(), func(e recorded.Event) error {
		events = append(events, e)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(events) != 1 || events[0].Event.Tx != tx {
		t.Errorf("the events are %v", events)
	}
	for topic, end := range map[string]int64{topology.TopicIntents: l.IntentsAt.End,
		topology.TopicDecisions: l.DecisionsAt.End, topology.TopicEvents: l.EventsAt.End} {
		if told[topic] != end {
			t.Errorf("%s: %d of %d were told of at the end", topic, told[topic], end)
		}
	}
}

// TestCopies: the copies of two replicas, one of them behind, come to each decision once and in order.
func TestCopies(t *testing.T) {
	w := world(t)
	w.Decide("shop", 1, 2, 4, 3, 1, 2, 3, 4, 6)
	w.Decide("farm", 1, 2)
	w.Decide("shop", 5, 6)
	got, err := seqs(t, w, open(t, w), 0)
	if err != nil || len(got) != 6 {
		t.Fatalf("%v, %v", got, err)
	}
	for i, seq := range got {
		if seq != sequencer.Seq(i+1) {
			t.Errorf("decision %d is %d", i+1, seq)
		}
	}
	if got, err := seqs(t, w, open(t, w), 4); err != nil || len(got) != 2 || got[0] != 5 {
		t.Errorf("after 4: %v, %v", got, err)
	}
	if got, err := seqs(t, w, open(t, w), 9); err != nil || len(got) != 0 {
		t.Errorf("after 9: %v, %v", got, err)
	}
}

// TestGap: a missing decision is an error, and so is an end without those that others wait for.
func TestGap(t *testing.T) {
	w := world(t)
	w.Decide("shop", 1, 2, 4)
	if got, err := seqs(t, w, open(t, w), 0); !errors.Is(err, recorded.ErrGap) || len(got) != 2 {
		t.Errorf("%v, %v", got, err)
	}
}

// TestRetention: what was deleted is named, for each topic as far as it can be known.
func TestRetention(t *testing.T) {
	w := world(t)
	w.Decide("shop", 1, 2, 3, 4)
	cut(t, w, topology.TopicDecisions, 2)
	l := open(t, w)
	if got, err := seqs(t, w, l, 0); !errors.Is(err, recorded.ErrGone) || len(got) != 0 {
		t.Errorf("from the beginning: %v, %v", got, err)
	}
	oldest, err := l.Oldest(w.Context())
	if err != nil || oldest != 3 {
		t.Errorf("the oldest is %d, %v", oldest, err)
	}
	if got, err := seqs(t, w, l, oldest-1); err != nil || len(got) != 2 {
		t.Errorf("from the oldest: %v, %v", got, err)
	}
	c := w.Dial(w.Cfg)
	for n := range uint32(2) {
		if _, err := c.Append(w.Context(), "shop", &sequencer.Intent{Kind: sequencer.IntentTick, N: n + 1,
			Tick: &sequencer.TickMark{N: uint64(n) + 1, Weight: 1}}); err != nil {
			t.Fatal(err)
		}
	}
	cut(t, w, topology.TopicIntents, 1)
	l = open(t, w)
	if err := l.Whole(&sequencer.Outcome{Seq: 1, Offset: 0}); !errors.Is(err, recorded.ErrGone) {
		t.Errorf("an intent before the topic's start: %v", err)
	}
	if err := l.Whole(&sequencer.Outcome{Seq: 1, Offset: 1}); err != nil {
		t.Errorf("an intent that is kept: %v", err)
	}
}

// TestCutWhileRead: retention that runs between Open and the reading is noticed.
func TestCutWhileRead(t *testing.T) {
	w := world(t)
	w.Decide("shop", 1, 2, 3)
	l := open(t, w)
	cut(t, w, topology.TopicDecisions, 1)
	if got, err := seqs(t, w, l, 1); !errors.Is(err, recorded.ErrGone) {
		t.Errorf("%v, %v", got, err)
	}
	cut(t, w, topology.TopicDecisions, 3)
	if got, err := seqs(t, w, l, 1); !errors.Is(err, recorded.ErrGone) {
		t.Errorf("all of it: %v, %v", got, err)
	}
	if got, err := seqs(t, w, open(t, w), 0); !errors.Is(err, recorded.ErrGone) {
		t.Errorf("nothing is left: %v, %v", got, err)
	}
}

// TestForbidden: a missing right is told at once, with what to allow.
func TestForbidden(t *testing.T) {
	w := world(t)
	w.Decide("shop", 1)
	l := open(t, w)
	for _, key := range []kmsg.Key{kmsg.Fetch, kmsg.ListOffsets} {
		fault := w.Servers.Kafka().Fault(kfake.Fault{Keys: []kmsg.Key{key}, Topic: topology.TopicDecisions,
			Err: kerr.TopicAuthorizationFailed, Count: -1})
		ctx, cancel := context.WithTimeout(w.Context(), 3*time.Second)
		err := l.Decisions(ctx, 0, func(recorded.Decision) error { return nil })
		if key == kmsg.ListOffsets {
			_, err = recorded.Open(ctx, w.Cfg, "shop")
		}
		cancel()
		fault.Remove()
		if !errors.Is(err, kerr.TopicAuthorizationFailed) {
			t.Errorf("%s: %v", key.Name(), err)
		}
	}
}

// cut deletes a partition's records before an offset, as retention does.
func cut(t *testing.T, w *teststreams.World, topic string, before int64) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.Cfg.Brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	offsets := kadm.Offsets{}
	offsets.AddOffset(topic, 0, before, -1)
	if _, err := kadm.NewClient(cl).DeleteRecords(w.Context(), offsets); err != nil {
		t.Fatal(err)
	}
}
