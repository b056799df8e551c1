package sequencer_test

import (
	"math"
	"testing"

	"github.com/hence-dev/hence/sequencer"
)

// TestChainIsHashed: two chains that differ are two footprints and two decisions, and what is no chain is hashed as it
// was before there were any.
func TestChainIsHashed(t *testing.T) {
	of := func(r sequencer.Ref) (sequencer.Hash, sequencer.Hash) {
		shards := []sequencer.ShardWrite{{Scope: "shard:/s", Ref: &r}}
		seal, o := sequencer.Seal{Shards: shards}, sequencer.Outcome{Seq: 1, Shards: shards}
		return seal.Footprint(), o.ChainAfter(sequencer.Hash{})
	}
	seen := map[sequencer.Hash]sequencer.Ref{}
	for _, r := range []sequencer.Ref{{Offset: 7, Size: 300_000}, {Offset: 7, Size: 300_000, Chunks: 2, Last: 8},
		{Offset: 7, Size: 300_000, Chunks: 2, Last: 9}, {Offset: 7, Size: 300_000, Chunks: 3, Last: 9}} {
		footprint, chain := of(r)
		for _, h := range []sequencer.Hash{footprint, chain} {
			if was, known := seen[h]; known {
				t.Errorf("%+v and %+v have one hash", was, r)
			}
			seen[h] = r
		}
	}
}

// TestChainBeginsInTheLog: a chain has a first place. Scripts cannot write one that has none.
func TestChainBeginsInTheLog(t *testing.T) {
	for first, bad := range map[int64]bool{0: false, -1: true, math.MinInt64: true} {
		w := sequencer.ShardWrite{Ref: &sequencer.Ref{Offset: first, Last: 9, Size: sequencer.ChunkBytes + 1, Chunks: 2}}
		if got := w.BadChain(); (got != "") != bad {
			t.Errorf("one that begins at %d: %q", first, got)
		}
	}
}
