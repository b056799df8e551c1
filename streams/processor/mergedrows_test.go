package processor_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams/internal/teststreams"
)

// Deltas, what takes one out, contents over them and tombstones go through a running processor, some twice, and across
// its restart: the snapshot has what they come to, and counts what was written since the last tombstone.
func TestMergedRows(t *testing.T) {
	const list, sum = sequencer.Scope("shard:/m/list"), sequencer.Scope("shard:/m/sum")
	w := teststreams.New(t)
	stop := w.Run(w.Cfg)
	c := w.Dial(w.Cfg)
	seq := sequencer.Seq(0)
	var last *sequencer.Outcome
	decide := func(kind sequencer.OutcomeKind, shards ...sequencer.ShardWrite) {
		seq++
		last = &sequencer.Outcome{Workspace: "bank", Seq: seq, Kind: kind, Tx: sequencer.TxID(fmt.Sprint("t", seq)),
			Shards: shards}
		w.DecideAs(last)
	}
	line := func(text string) sequencer.ShardWrite {
		return sequencer.ShardWrite{Scope: list, Op: sequencer.OpAppend, Content: []byte(text)}
	}
	add := func(text string) sequencer.ShardWrite {
		return sequencer.ShardWrite{Scope: sum, Op: sequencer.OpAdd, Content: []byte(text)}
	}
	shows := func(when string, want map[string]string) {
		t.Helper()
		w.Until(when, func() bool {
			s, err := c.Snapshot(w.Context(), "bank")
			if err != nil || s.Seq != seq {
				return false
			}
			got := map[string]string{}
			for i := range s.Shards {
				x := s.Shards[i].State()
				value, err := x.Value(nil)
				if err != nil {
					t.Fatalf("%s: %s: %v", when, s.Shards[i].Scope, err)
				}
				got[string(s.Shards[i].Scope)] = fmt.Sprint(string(value.Content), " ", s.Shards[i].Count.Writes)
			}
			if !maps.Equal(got, want) {
				t.Fatalf("%s: the snapshot has %q, want %q", when, got, want)
			}
			return true
		})
	}
	decide(sequencer.OutcomeCommitted, line("a"), add("1"))
	decide(sequencer.OutcomeCommitted, line("b"), add("2"))
	shows("two deltas of each", map[string]string{string(list): "ab 2", string(sum): "3 2"})
	decide(sequencer.OutcomeCommitted, sequencer.ShardWrite{Scope: "shard:/m", Absent: true})
	w.DecideAs(last)
	shows("a tombstone", map[string]string{})
	decide(sequencer.OutcomeCommitted, line("c"))
	decide(sequencer.OutcomeCommitted, line("d"), add("5"))
	w.DecideAs(last) // of another processor
	shows("deltas behind a tombstone", map[string]string{string(list): "cd 2", string(sum): "5 1"})
	stop()
	stop = w.Run(w.Cfg)
	decide(sequencer.OutcomeSettled, sequencer.ShardWrite{Scope: list, Op: sequencer.OpAppend, Removes: 4})
	shows("a delta is taken out", map[string]string{string(list): "d 3", string(sum): "5 1"})
	decide(sequencer.OutcomeCommitted, sequencer.ShardWrite{Scope: list, Content: []byte("W")})
	decide(sequencer.OutcomeCommitted, line("x"))
	decide(sequencer.OutcomeCommitted, sequencer.ShardWrite{Scope: sum, Absent: true})
	shows("a content, and a delta on it", map[string]string{string(list): "Wx 5"})
	if n := w.Count("hence_frontier_gaps_total"); n != 0 {
		t.Errorf("%v gaps", n)
	}
	stop()
}
