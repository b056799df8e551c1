package processor_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/internal/teststreams"
	"github.com/hence-dev/hence/topology"
)

// A processor that was thought dead may write its old rows after its heir wrote newer ones. Neither a snapshot nor the
// next owner believes them, and the next owner puts the table right.
func TestLateRowsOfAZombie(t *testing.T) {
	w := teststreams.New(t, func(c *streams.Config) { c.StateEvery = 1 })
	stop := w.Run(w.Cfg)
	c := w.Dial(w.Cfg)
	v := w.Follow(c, "shop")
	a := w.Join(c, v, "shop", "ann")
	for i := range 10 {
		a.Write("orders/1", fmt.Sprint(i))
		if i == 0 || i == 9 { // first and last rows
			w.Decided(v, sequencer.TxID(fmt.Sprint("ann-", i+1)))
			tablesEqual(w, v, "shop")
		}
	}
	stop()
	writeLate(w, topology.GroupSequencer)
	writeLate(w, topology.GroupFrontier)
	s, err := c.Snapshot(w.Context(), "shop")
	if err != nil || s.Seq != 11 || len(s.Shards) != 1 || string(s.Shards[0].Content) != "9" {
		t.Fatalf("the snapshot is %+v, %v", s, err)
	}
	stop = w.Run(w.Cfg)
	w.Decided(v, a.Write("orders/2", "y"))
	w.Complete(v, "shop")
	tablesEqual(w, v, "shop")
	stop()
	rows := table(w, topology.TableOf(topology.GroupSequencer), "shop", topology.DecodeReplica)
	if got := rows[""]; got.State.Seq < 12 {
		t.Errorf("the state's last row is of %d", got.State.Seq)
	}
}

// writeLate writes the first row of each key of a group's table behind the others, and returns the last ones.
func writeLate(w *teststreams.World, group string) (last map[string]*kgo.Record) {
	w.T.Helper()
	name, cl := topology.TableOf(group), w.Kafka()
	first, last := make(map[string]*kgo.Record), make(map[string]*kgo.Record)
	for _, r := range w.Records(name) {
		if first[string(r.Key)] == nil {
			first[string(r.Key)] = r
		}
		last[string(r.Key)] = r
	}
	for key, r := range first {
		if last[key] == r {
			w.T.Fatalf("%s: only one row of %q", name, key)
		}
		late := &kgo.Record{Topic: name, Key: r.Key, Value: r.Value, Headers: r.Headers, Partition: r.Partition}
		if err := cl.ProduceSync(w.Context(), late).FirstErr(); err != nil {
			w.T.Fatal(err)
		}
	}
	return last
}

// hourlyClock is one on which what comes once an hour comes at once.
type hourlyClock struct{}

func (hourlyClock) Now() time.Time { return time.Now() }

func (hourlyClock) After(d time.Duration) <-chan time.Time {
	if d >= time.Hour {
		d = 20 * time.Millisecond
	}
	return time.After(d)
}

// An owner finds a former owner's rows of transactions too, which have no seq that would tell old from new.
func TestOwnerOutwritesALateClosureRow(t *testing.T) {
	w := teststreams.New(t, func(c *streams.Config) { c.Clock = hourlyClock{} })
	w.Run(w.Cfg)
	c := w.Dial(w.Cfg)
	a := w.Join(c, w.Follow(c, "shop"), "shop", "ann")
	name := topology.TableOf(topology.GroupClosure)
	rows := func(n int) (rows []*kgo.Record) {
		w.Until(fmt.Sprint(n, " rows"), func() bool {
			rows = w.Records(name)
			return len(rows) >= n
		})
		return rows
	}
	publishAs(a, &topology.Event{Kind: topology.EventRead, Tx: "ann-1", Scope: "shard:/x", View: 1})
	first := rows(1)[0]
	a.Write("x", "y")
	own := rows(2)[1]
	w.Put(w.Kafka(), name, string(first.Key), first.Value) // of a former release, without a header
	if last := rows(4)[3]; !bytes.Equal(last.Value, own.Value) || bytes.Equal(first.Value, own.Value) {
		t.Errorf("the table ends with %s, want %s", shown(topology.GroupClosure, last.Value),
			shown(topology.GroupClosure, own.Value))
	}
	late := &kgo.Record{Topic: name, Key: first.Key, Value: first.Value, Headers: first.Headers,
		Partition: first.Partition}
	if err := w.Kafka().ProduceSync(w.Context(), late).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if last := rows(6)[5]; !bytes.Equal(last.Value, own.Value) {
		t.Errorf("the table ends with %s", shown(topology.GroupClosure, last.Value))
	}
}

// An owner does not leave a table with a former owner's row at its end: compaction would take its own away.
func TestOwnerOutwritesAZombie(t *testing.T) {
	w := teststreams.New(t, func(c *streams.Config) { c.StateEvery, c.Clock = 1, hourlyClock{} })
	w.Run(w.Cfg)
	c := w.Dial(w.Cfg)
	v := w.Follow(c, "shop")
	a := w.Join(c, v, "shop", "ann")
	for i := range 3 {
		w.Decided(v, a.Write("orders/1", fmt.Sprint(i)))
		tablesEqual(w, v, "shop") // each a row of its own
	}
	for _, group := range []string{topology.GroupSequencer, topology.GroupFrontier} {
		own := writeLate(w, group)
		w.Until("the owner's rows at the end of the table of "+group, func() bool {
			ends := make(map[string]*kgo.Record)
			for _, r := range w.Records(topology.TableOf(group)) {
				ends[string(r.Key)] = r
			}
			for key, r := range own {
				if bytes.Compare(ends[key].Headers[0].Value, r.Headers[0].Value) < 0 { // positions
					return false
				}
			}
			return true
		})
	}
}
