package processor

import (
	"bytes"
	"context"
	"maps"
	"time"

	"github.com/lovoo/goka"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// lateEvery is how often an owner looks for rows that a former owner wrote behind its own. Who reads the table meets
// both and takes the newer one, but compaction, after a day, leaves the last one.
const lateEvery = time.Hour

// watchRows looks after the tables of the owned partitions until ctx ends.
func (b *base) watchRows(ctx context.Context) {
	if b.position == nil {
		return
	}
	seen := make(map[*tableStore]int64) // the offset up to which each was looked at
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.cfg.Clock.After(lateEvery):
		}
		// A copy: reading the topics takes long, and goka gives and takes partitions meanwhile.
		b.mu.Lock()
		stores := maps.Clone(b.stores)
		b.mu.Unlock()
		was := seen
		seen = make(map[*tableStore]int64)
		for partition, store := range stores {
			seen[store] = max(was[store], store.kept.Load()) // before the marker no row is the last of its key
			if !store.ready() {
				// Its rows are being read; what is late among them is found then.
				continue
			}
			end, err := b.outwrite(ctx, partition, store, seen[store])
			if err != nil {
				b.cfg.Logger.Debug("failed to read the end of the table", "table", b.table, "partition", partition, "error", err)
				continue
			}
			seen[store] = end
		}
	}
}

// outwrite writes the owner's row again where the table topic ends with an older one, and returns how far it looked. A
// row of the owner that is still on its way is written twice, which is no harm; one that overtakes this is found to be
// behind at the next look.
func (b *base) outwrite(ctx context.Context, partition int32, store *tableStore, from int64) (end int64, err error) {
	if end, err = streams.EndOffset(ctx, b.out.client, b.table, partition); err != nil {
		// The next look begins where this one did.
		return 0, err
	}
	other := make(map[string]int64) // positions of rows that are not the owner's
	err = b.cfg.ReadRange(ctx, b.table, partition, from, end, func(r *kgo.Record) error {
		key := string(r.Key)
		if row, _ := store.Get(key); row == nil || bytes.Equal(row, r.Value) {
			delete(other, key)
		} else {
			other[key] = positionOf(headersOf(r))
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	for key, at := range other {
		row, _ := store.Get(key)
		if own := b.position(row); own > at && b.store(partition) == store { // else an heir may have written more
			b.cfg.Logger.Debug("the table ends with an older row; it is written again", "table", b.table, "key", key)
			b.rewrite(key, row, own)
		}
	}
	return end, nil
}

func headersOf(r *kgo.Record) goka.Headers {
	h := make(goka.Headers, len(r.Headers))
	for _, x := range r.Headers {
		h[x.Key] = x.Value
	}
	return h
}

// statePosition is the offset of the last record in a state, or the position of a mark.
func statePosition(row []byte) int64 {
	if st, err := topology.DecodeReplica(row); err == nil {
		return st.Offset
	}
	if s, err := topology.DecodeStopped(row); err == nil {
		return markPosition(s)
	}
	return -1
}
