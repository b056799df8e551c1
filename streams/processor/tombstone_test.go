package processor_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/internal/teststreams"
	"github.com/hence-dev/hence/topology"
)

// takeAway is a transaction that takes away all shards at or below a scope.
func takeAway(a *teststreams.Agent, under sequencer.Scope) sequencer.TxID {
	tx, in := a.Intent("", "")
	in.Seal = &sequencer.Seal{Shards: []sequencer.ShardWrite{{Scope: under, Absent: true}}}
	a.Append(in)
	return tx
}

// standing are the shards that the decisions leave, read as plainly as can be: content and number of writes.
func standing(w *teststreams.World, workspace string) (at sequencer.Seq, tombs int, out map[sequencer.Scope]string) {
	decisions, _ := w.Published(workspace)
	counts, is := map[sequencer.Scope]int{}, map[sequencer.Scope]string{}
	for seq := sequencer.Seq(1); seq <= sequencer.Seq(len(decisions)); seq++ {
		for _, s := range decisions[seq].Shards {
			if !s.Absent {
				counts[s.Scope]++
				is[s.Scope] = string(s.Content)
				continue
			}
			tombs++
			for scope := range is {
				if s.Scope.Covers(scope) {
					delete(counts, scope)
					delete(is, scope)
				}
			}
		}
	}
	out = map[sequencer.Scope]string{}
	for scope, content := range is {
		out[scope] = fmt.Sprint(content, " ", counts[scope])
	}
	return sequencer.Seq(len(decisions)), tombs, out
}

// stands are the shards of a snapshot.
func stands(s *topology.Snapshot) map[sequencer.Scope]string {
	out := map[sequencer.Scope]string{}
	for i := range s.Shards {
		one := &s.Shards[i]
		out[one.Scope] = fmt.Sprint(string(one.Content), " ", one.Count.Writes)
	}
	return out
}

// Tombstones go through the processors: the table of scopes, and every snapshot of it, has exactly the shards that
// stand behind them, with as many writes, over restarts, and where the table is made again from the decisions.
func TestTombstonesInTheTable(t *testing.T) {
	w := teststreams.New(t)
	stop := w.Run(w.Cfg)
	c := w.Dial(w.Cfg)
	v := w.Follow(c, "shop")
	if _, err := c.Append(w.Context(), "shop", &sequencer.Intent{Kind: sequencer.IntentJoin, N: 1, Agent: "first",
		Join: &sequencer.Join{ID: "first", Logic: sequencer.Logic}}); err != nil {
		t.Fatal(err)
	}
	a, b := w.Join(c, v, "shop", "ann"), w.Join(c, v, "shop", "bob")
	rng := rand.New(rand.NewPCG(1, 2))
	var last sequencer.TxID
	round := func(n int) {
		for range n {
			by := a
			if rng.IntN(2) == 0 {
				by = b
			}
			shards := []string{"a", "b", "c/x", "c/y", "d/x"}
			if rng.IntN(6) > 0 {
				last = by.Write(shards[rng.IntN(len(shards))], fmt.Sprint("text-", rng.IntN(1000)))
				continue
			}
			last = takeAway(by, []sequencer.Scope{"shard:/", "shard:/c", "shard:/*/x", "shard:/a"}[rng.IntN(4)])
		}
		w.Decided(v, last)
	}
	equal := func(when string) {
		t.Helper()
		w.Complete(v, "shop") // decisions reach the view before they are in Kafka
		at, tombs, want := standing(w, "shop")
		if tombs < 3 || len(want) == 0 {
			t.Fatalf("%s: %d tombstones, and %d shards stand", when, tombs, len(want))
		}
		var s *topology.Snapshot
		w.Until("a snapshot at the head", func() (ok bool) {
			var err error
			s, err = c.Snapshot(w.Context(), "shop")
			return err == nil && s.Seq >= at
		})
		if got := stands(s); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: the snapshot at %d has\n%v\nwant\n%v", when, s.Seq, got, want)
		}
	}
	round(60)
	equal("at first")
	stop()
	stop = w.Run(w.Cfg) // everything in memory is gone
	round(60)
	equal("after a restart")
	stop()
	w.ForgetGroup(topology.GroupFrontier, "")
	if err := streams.EnsureTopics(t.Context(), w.Cfg); err != nil {
		t.Fatal(err)
	}
	stop = w.Run(w.Cfg)
	equal("made again")
	w.Decided(v, a.Write("a", "last"))
	equal("and gone on with")
	if n := w.Count("hence_frontier_gaps_total"); n != 0 {
		t.Errorf("%v gaps", n)
	}
	rows, err := c.Frontier(w.Context(), "shop", "shard:/", 100)
	if err != nil || len(rows) < 6 {
		t.Fatalf("%d rows: %v", len(rows), err)
	}
	for i := range rows {
		if rows[i].Shard != nil && rows[i].Count.Writes == 0 || rows[i].Shard == nil && rows[i].Count.Writes != 0 {
			t.Errorf("row %s has the content %v after %d writes", rows[i].Scope, rows[i].Shard, rows[i].Count.Writes)
		}
	}
	stop()
}
