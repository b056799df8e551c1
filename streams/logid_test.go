package streams_test

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/embedded"
	"github.com/hence-dev/hence/streams/internal/teststreams"
	"github.com/hence-dev/hence/topology"
)

// TestStreamOfAnotherLog loses the broker's disk and keeps that of NATS: what the stream has of the former log, under
// the same workspace and the same seqs, reaches no reader, and what is decided again is no second copy of it.
func TestStreamOfAnotherLog(t *testing.T) {
	w := teststreams.New(t)
	decide := func(t *testing.T, name string) {
		here := *w
		here.T = t
		stop := here.Run(here.Cfg)
		defer stop()
		c := here.Dial(here.Cfg)
		v := here.Follow(c, "shop")
		a := here.Join(c, v, "shop", name)
		for range 5 {
			a.Write("orders/1", name)
		}
		here.Decided(v, sequencer.TxID(name+"-5"))
		here.Complete(v, "shop")
		for _, o := range v.All() {
			if o.Agent != name {
				t.Errorf("decision %d is of %s, in a log where only %s acts", o.Seq, o.Agent, name)
			}
		}
		late := here.Follow(here.Dial(here.Cfg), "shop")
		here.Until("a late joiner", func() bool { return late.Len() >= v.Len() })
		if late.By(streams.WayJetStream) == 0 {
			t.Errorf("nothing came from JetStream: %v", late.Ways)
		}
	}
	t.Run("before", func(t *testing.T) { decide(t, "ann") })
	w.Servers.StopKafka()
	if err := w.Servers.StartKafka(); err != nil {
		t.Fatal(err)
	}
	if err := streams.EnsureTopics(w.Context(), w.Cfg); err != nil {
		t.Fatal(err)
	}
	t.Run("after", func(t *testing.T) { decide(t, "bob") })
}

// TestLogID: the id is another one for each log in memory and for a topic that is recreated, and the same for a log
// that is opened again from its folder. A client that has had to do with one says when it is another.
func TestLogID(t *testing.T) {
	seen := map[string]string{}
	id := func(w *teststreams.World) string {
		t.Helper()
		id, err := w.Dial(w.Cfg).ID(w.Context())
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	fresh := func(what, id string) {
		t.Helper()
		if former, ok := seen[id]; ok || id == "" {
			t.Errorf("%s: %q is that of %s, too", what, id, former)
		}
		seen[id] = what
	}
	restart := func(w *teststreams.World) {
		t.Helper()
		w.Servers.StopKafka()
		if err := w.Servers.StartKafka(); err != nil {
			t.Fatal(err)
		}
		if err := streams.EnsureTopics(w.Context(), w.Cfg); err != nil {
			t.Fatal(err)
		}
	}
	memory := teststreams.New(t)
	fresh("one in memory", id(memory))
	client := memory.Dial(memory.Cfg)
	if _, err := client.ID(memory.Context()); err != nil {
		t.Fatal(err)
	}
	restart(memory)
	fresh("the next one in memory", id(memory))
	if got, err := client.ID(memory.Context()); !errors.Is(err, streams.ErrOtherLog) {
		t.Errorf("a client of the former log: %s, %v", got, err)
	}

	folder := teststreams.NewIn(t, embedded.Options{DataDir: t.TempDir()})
	first := id(folder)
	fresh("one in a folder", first)
	restart(folder)
	if again := id(folder); again != first {
		t.Errorf("opened again it is %s, before %s", again, first)
	}
	admin := kadm.NewClient(folder.Kafka())
	if _, err := admin.DeleteTopics(folder.Context(), topology.TopicIntents); err != nil {
		t.Fatal(err)
	}
	if err := streams.EnsureTopics(folder.Context(), folder.Cfg); err != nil {
		t.Fatal(err)
	}
	fresh("the topic recreated", id(folder))
}
