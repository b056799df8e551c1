package processor_test

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/internal/teststreams"
	"github.com/hence-dev/hence/topology"
)

// TestAnomaliesWhilePartitionsMove: two processes share the partitions, and one of them goes and comes back while
// stale reads are committed. Each finding is there, none that was not made is, copies have one id, and the level is
// that of all of them.
func TestAnomaliesWhilePartitionsMove(t *testing.T) {
	w := teststreams.New(t, func(c *streams.Config) { c.Anomalies = 1000 })
	w.Run(w.Cfg)
	second := w.Cfg
	second.Instance, second.Metrics, second.Health = "two", prometheus.NewRegistry(), new(streams.Health)
	stop := w.Run(second)
	w.Well(second.Health)
	c := w.Dial(w.Cfg)
	other := "x"
	for topology.PartitionOf(other, w.Cfg.Partitions) == topology.PartitionOf("w", w.Cfg.Partitions) {
		other += "x"
	}
	pairs := map[string]pair{"w": newPair(w, c, "w"), other: newPair(w, c, other)}
	type of struct {
		workspace string
		seq       sequencer.Seq
	}
	made, last := map[of]bool{}, map[string]sequencer.Seq{}
	overtake := func(rounds int) {
		for range rounds {
			for name, p := range pairs {
				ben, _ := p.overtake(fmt.Sprint("s", len(made)), true)
				made[of{name, ben.Seq}] = true
				last[name] = ben.Seq
			}
		}
	}
	overtake(2)
	gone := make(chan struct{})
	go func() { stop(); close(gone) }()
	overtake(4)
	<-gone
	w.Run(second)
	overtake(6)
	for name, seq := range last {
		level := judged(w, c, name, seq)
		ids := map[string]bool{}
		w.Until("anomalies of "+name, func() bool {
			for _, a := range anomalies(w, name) {
				if !made[of{name, a.Seq}] || a.Kind != "A1" {
					t.Fatalf("nobody made %+v", a)
				}
				ids[a.ID()] = true
			}
			return len(ids) >= len(made)/2
		})
		if len(ids) != len(made)/2 || level.Kinds[0].Certain != len(made)/2 || level.Operations != 3*len(made)/2 ||
			level.Seq != seq {
			t.Errorf("%s: %d ids of %d findings, level %+v", name, len(ids), len(made)/2, level)
		}
	}
}
