package streams_test

import (
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/internal/teststreams"
	"github.com/hence-dev/hence/topology"
)

// stalled runs a read whose first fetch waits until something else was done.
func stalled[T any](w *teststreams.World, read func() (T, error), meanwhile func()) (T, error) {
	w.T.Helper()
	var begun atomic.Bool
	stalls, goesOn := make(chan struct{}), make(chan struct{})
	kafka := w.Servers.Kafka()
	kafka.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		if begun.CompareAndSwap(false, true) {
			kafka.SleepControl(func() {
				close(stalls)
				<-goesOn
			})
		}
		return nil, nil, false
	})
	var (
		got T
		err error
	)
	done := make(chan struct{})
	go func() {
		defer close(done)
		got, err = read()
	}()
	<-stalls
	meanwhile()
	close(goesOn)
	<-done
	return got, err
}

// cut deletes the records of partition 0 of a topic before an offset.
func cut(w *teststreams.World, topic string, before int64) {
	w.T.Helper()
	var to kadm.Offsets
	to.AddOffset(topic, 0, before, -1)
	if deleted, err := kadm.NewClient(w.Kafka()).DeleteRecords(w.Context(), to); err != nil || deleted.Error() != nil {
		w.T.Fatal(err, deleted.Error())
	}
}

// A snapshot whose rows are deleted while it is read, as an owner deletes what lies before its former marker, is not
// returned as if it were whole; the next one has what was written since.
func TestSnapshotIsCutWhileRead(t *testing.T) {
	w := teststreams.New(t, func(c *streams.Config) { c.Partitions = 1 })
	table := topology.TableOf(topology.GroupFrontier)
	write := func() {
		t.Helper()
		for _, scope := range []sequencer.Scope{"shard:/a", "shard:/b", ""} {
			row := topology.FrontierRow{Workspace: "shop", Scope: scope, Seq: 2}
			if scope != "" {
				row.Version, row.Shard = 2, &topology.ShardRow{Scope: scope, Version: 2, Content: []byte("content")}
			}
			b, err := topology.EncodeFrontierRow(&row)
			if err != nil {
				t.Fatal(err)
			}
			w.Put(w.Kafka(), table, topology.ScopeKey("shop", scope), b)
		}
	}
	write()
	c := w.Dial(w.Cfg)
	read := func() (*topology.Snapshot, error) { return c.Snapshot(w.Context(), "shop") }
	if s, err := stalled(w, read, func() {
		write()
		cut(w, table, 3)
	}); err == nil {
		t.Errorf("a snapshot at %d has %d of 2 shards, and no error", s.Seq, len(s.Shards))
	}
	if s, err := read(); err != nil || s.Seq != 2 || len(s.Shards) != 2 {
		t.Errorf("asked again: %+v, %v", s, err)
	}
}

// Effects of which one is deleted while they are read are not returned as if they were all.
func TestEffectsAreCutWhileRead(t *testing.T) {
	w := teststreams.New(t, func(c *streams.Config) { c.Partitions = 1 })
	c := w.Dial(w.Cfg)
	p := caller{w, c, 1}
	p.effect(1, "t", 0, "{a}")
	p.effect(2, "t", 1, "{b}")
	read := func() ([]*topology.Event, error) { return c.Effects(w.Context(), "shop", "t") }
	if events, err := stalled(w, read, func() { cut(w, topology.TopicEvents, 1) }); err == nil {
		t.Errorf("%s, and no error", shown(events))
	}
}
