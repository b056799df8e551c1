package streams_test

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// A processor that was thought dead may write its old rows after its heir wrote newer ones. Neither a snapshot nor the
// next owner believes them, and the next owner puts the table right.
func TestLateRowsOfAZombie(t *testing.T) {
	w := newWorld(t, func(c *streams.Config) { c.StateEvery = 1 })
	stop := w.run(w.cfg)
	c := w.dial(w.cfg)
	v := w.follow(c, "shop")
	a := w.join(c, v, "shop", "ann")
	for i := range 10 {
		a.write("orders/1", fmt.Sprint(i))
	}
	w.decided(v, "ann-10")
	w.tablesEqual(v, "shop")
	stop()
	cl := w.kafka()
	for _, group := range []string{topology.GroupSequencer, topology.GroupFrontier} {
		name := topology.TableOf(group)
		first, last := make(map[string]*kgo.Record), make(map[string]*kgo.Record)
		for _, r := range w.records(name) {
			if first[string(r.Key)] == nil {
				first[string(r.Key)] = r
			}
			last[string(r.Key)] = r
		}
		for key, r := range first {
			if last[key] == r {
				t.Fatalf("%s: only one row of %q", name, key)
			}
			late := &kgo.Record{Topic: name, Key: r.Key, Value: r.Value, Headers: r.Headers, Partition: r.Partition}
			if err := cl.ProduceSync(w.context(), late).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	s, err := c.Snapshot(w.context(), "shop")
	if err != nil || s.Seq != 11 || len(s.Shards) != 1 || string(s.Shards[0].Content) != "9" {
		t.Fatalf("the snapshot is %+v, %v", s, err)
	}
	stop = w.run(w.cfg)
	w.decided(v, a.write("orders/2", "y"))
	w.complete(v, "shop")
	w.tablesEqual(v, "shop")
	stop()
	rows := table(w, topology.TableOf(topology.GroupSequencer), "shop", topology.DecodeReplica)
	if got := rows[""]; got.State.Seq < 12 {
		t.Errorf("the state's last row is of %d", got.State.Seq)
	}
}
