package topology

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hence-dev/hence/sequencer"
)

// However late and however often writes come, their count is the one of those who count them in order.
func TestWriteCountInAnyOrder(t *testing.T) {
	for seed := range uint64(5000) {
		rng := rand.New(rand.NewPCG(seed, 7))
		var all []sequencer.Seq
		absent := map[sequencer.Seq]bool{}
		var want uint64
		for seq := sequencer.Seq(1); seq <= 12; seq++ {
			if rng.IntN(3) == 0 {
				continue // a decision about something else
			}
			all = append(all, seq)
			if absent[seq] = rng.IntN(5) == 0; absent[seq] {
				want = 0
			} else {
				want++
			}
		}
		var ahead, ordered WriteCount
		for _, seq := range all[rng.IntN(len(all)+1):] { // before the older ones, which a broker has refused
			ahead.Add(seq, 0, absent[seq])
		}
		for _, seq := range all {
			ahead.Add(seq, seq-1, absent[seq])
			ordered.Add(seq, seq-1, absent[seq])
		}
		for _, seq := range all { // second copies
			for _, c := range []*WriteCount{&ahead, &ordered} {
				if before := c.Clone(); c.Add(seq, 12, absent[seq]) || !slices.Equal(before.Counted, c.Counted) {
					t.Fatalf("seed %d: the second copy of %d counts", seed, seq)
				}
			}
		}
		if ahead.Writes != want || ordered.Writes != want {
			t.Fatalf("seed %d: %d and %d of %d: %v, absent %v", seed, ahead.Writes, ordered.Writes, want, all, absent)
		}
	}
}
