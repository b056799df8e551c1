package streams

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// What is kept of many rows is what keeping all of them would show, whatever was forgotten on the way.
func TestNewestRows(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		n := newestRows{limit: 1 + rng.IntN(5), maxBytes: 1 << 20, rows: map[string]rowAt{}}
		last := map[string]int64{}
		for offset := range int64(200) {
			key := fmt.Sprint("k", rng.IntN(30))
			n.take(key, []byte("v"), offset)
			last[key] = offset
			if len(n.rows) > 2*n.limit {
				t.Fatalf("%d rows are kept", len(n.rows))
			}
		}
		var want []int64
		for _, offset := range last {
			want = append(want, -offset)
		}
		slices.Sort(want)
		for i, row := range n.newest() {
			if row.offset != -want[i] || last[row.key] != row.offset {
				t.Fatalf("seed %d: row %d is of offset %d, want %d", seed, i, row.offset, -want[i])
			}
		}
		if len(n.rows) != min(n.limit, len(last)) || n.cut != (len(last) > n.limit) {
			t.Fatalf("seed %d: %d of %d rows, cut %v", seed, len(n.rows), len(last), n.cut)
		}
	}
	small := newestRows{limit: 100, maxBytes: 100, rows: map[string]rowAt{}}
	for i := range int64(50) {
		small.take(fmt.Sprint(i), make([]byte, 30), i)
	}
	if rows := small.newest(); !small.cut || len(rows) == 0 || len(rows) > 3 || rows[0].offset != 49 {
		t.Errorf("under a bound of bytes: %d rows", len(rows))
	}
}

// More than is read at once is an error, never half of it.
func TestEffectsAreBounded(t *testing.T) {
	value, err := topology.EncodeEvent(&topology.Event{Kind: topology.EventEffect, Workspace: "w", Tx: "t",
		Effect: &topology.EffectText{Args: make([]byte, 1000)}})
	if err != nil {
		t.Fatal(err)
	}
	r := effectReader{workspace: "w", tx: "t", key: "w|t"}
	rec := &kgo.Record{Key: []byte("w|t"), Value: value}
	for n := range maxTxEffects + 1 {
		if err = r.take(rec); err != nil {
			if n != maxTxEffects {
				t.Errorf("after %d: %v", n, err)
			}
			break
		}
	}
	if !errors.Is(err, ErrTooLarge) {
		t.Errorf("many: %v", err)
	}
	r = effectReader{workspace: "w", tx: "t", key: "w|t"}
	big := &topology.Event{Effect: &topology.EffectText{ArgsRef: &sequencer.Ref{Size: maxTxEffectBytes + 1,
		Partition: topology.PartitionOf("w", 1)}}}
	r.log = &Client{cfg: Config{Partitions: 1}}
	if err := r.resolve(t.Context(), big); !errors.Is(err, ErrTooLarge) {
		t.Errorf("large: %v", err)
	}
}
