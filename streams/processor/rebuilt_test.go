package processor_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/internal/teststreams"
	"github.com/hence-dev/hence/topology"
)

// A table of scopes that another group makes later, of decisions that are long made, is whole, and counts no gap.
func TestFrontierMadeLater(t *testing.T) {
	w, a, b := teststreams.Replicas(t)
	const scope = sequencer.Scope("shard:/x")
	w.Run(a)
	w.Well(a.Health)
	c := w.Dial(w.Cfg)
	v := w.Follow(c, "shop")
	ann := w.Join(c, v, "shop", "ann")
	w.Decided(v, ann.Write("x", "content"))
	ann.Touched("t", scope)
	w.Decided(v, "t")
	n := sequencer.Seq(v.Len())
	w.Until("the table", func() bool {
		s, err := c.Snapshot(w.Context(), "shop")
		return err == nil && s.Seq >= n
	})
	b.Health, b.Metrics = new(streams.Health), w.Reg
	w.Run(b)
	rows := func() map[string]topology.FrontierRow {
		name := topology.TableOf(topology.GroupOf(topology.GroupFrontier, topology.ReplicaB))
		return table(w, name, "shop", topology.DecodeFrontierRow)
	}
	w.Until("the whole table of b", func() bool { return rows()[""].Seq >= n })
	row := rows()[string(scope)]
	if row.Shard == nil || string(row.Shard.Content) != "content" || row.Seq <= row.Version {
		t.Errorf("the row is %+v", row)
	}
	if n := w.Count("hence_frontier_gaps_total"); n != 0 {
		t.Errorf("%v gaps while the table was made", n)
	}
	w.Decide("bank", 1, 3)
	w.Until("a true gap, in both", func() bool { return w.Count("hence_frontier_gaps_total") == 2 })
}

// lockedText is what was written to it.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// A gap that stays is counted with each decision behind it, and said once.
func TestGapIsSaidOnce(t *testing.T) {
	var lines lockedText
	w := teststreams.New(t, func(c *streams.Config) { c.Logger = slog.New(slog.NewTextHandler(&lines, nil)) })
	w.Run(w.Cfg)
	w.Decide("bank", 1, 3, 4, 5)
	w.Until("the gaps", func() bool { return w.Count("hence_frontier_gaps_total") == 3 })
	if n := strings.Count(lines.String(), "decisions are missing"); n != 1 {
		t.Errorf("said %d times:\n%s", n, lines.String())
	}
}

// A former owner's row of the same seq does not take the content from its heir's, in the table nor in a snapshot.
func TestRowsOfOneSeq(t *testing.T) {
	w := teststreams.New(t)
	rows := []topology.FrontierRow{{Seq: 9, Version: 3, Shard: &topology.ShardRow{Scope: "shard:/x", Version: 3,
		Content: []byte("content")}}, {Seq: 9}}
	for _, row := range rows {
		row.Workspace, row.Scope = "shop", "shard:/x"
		value, err := topology.EncodeFrontierRow(&row)
		if err != nil {
			t.Fatal(err)
		}
		w.Put(w.Kafka(), topology.TableOf(topology.GroupFrontier), "shop|shard:/x", value)
	}
	c := w.Dial(w.Cfg)
	has := func() bool {
		s, err := c.Snapshot(w.Context(), "shop")
		return err == nil && len(s.Shards) == 1
	}
	if !has() {
		t.Error("a snapshot lacks the shard")
	}
	w.Run(w.Cfg)
	w.Until("the heir's row again", func() bool { return len(w.Records(topology.TableOf(topology.GroupFrontier))) == 3 })
	if !has() {
		t.Error("a snapshot lacks the shard after the table was read back")
	}
}

// A workspace's own row that cannot be read stops the frontier's partition with a fix in its health, and so does a
// shard's whose content does not come again. Rebuilt as it says, the table is whole.
func TestUnreadableRowStopsTheFrontier(t *testing.T) {
	for _, scope := range []sequencer.Scope{"", "shard:/x"} {
		t.Run("scope "+string(scope), func(t *testing.T) {
			w := teststreams.New(t)
			w.Cfg.Health = new(streams.Health)
			w.Put(w.Kafka(), topology.TableOf(topology.GroupFrontier), topology.ScopeKey("shop", scope), []byte("broken"))
			stop := w.Run(w.Cfg)
			c := w.Dial(w.Cfg)
			v := w.Follow(c, "shop")
			ann := w.Join(c, v, "shop", "ann")
			ann.Touched("t", "shard:/x")
			w.Decided(v, "t")
			part := fmt.Sprintf("frontier partition %d", topology.PartitionOf("shop", w.Cfg.Partitions))
			w.Until("the stop", func() bool {
				err := w.Cfg.Health.Ready()[part]
				return err != nil && strings.Contains(err.Error(),
					"delete hence-frontier-table and the offsets of group hence-frontier, and start")
			})
			if n := w.Count("hence_partitions_stopped", "processor", "frontier"); n != 1 {
				t.Errorf("%v partitions stopped", n)
			}
			if s, err := c.Snapshot(w.Context(), "shop"); err == nil {
				t.Errorf("a snapshot of a table that cannot be read: %+v", s)
			}
			stop()
			if n := w.Count("hence_partitions_stopped"); n != 0 || w.Cfg.Health.Ready()[part] != nil {
				t.Errorf("%v partitions stopped after the end", n)
			}
			w.ForgetGroup(topology.GroupFrontier, "")
			if err := streams.EnsureTopics(t.Context(), w.Cfg); err != nil {
				t.Fatal(err)
			}
			w.Run(w.Cfg)
			w.Until("the whole table", func() bool {
				s, err := c.Snapshot(w.Context(), "shop")
				return err == nil && s.Seq >= sequencer.Seq(v.Len())
			})
		})
	}
}
