package processor

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// A transaction's row serves lineage and explanation, which reach down to the undo horizon. Far below it the row goes,
// or the table would grow with every transaction that ever was. One that is not settled keeps its row, from which its
// heir learns where its events begin; the fold bounds how many of them there are.
const (
	closureKeptSeqs = 1 << 16 // the greatest horizon that rules may set
	sweepEvery      = time.Minute
)

func (c *closureProcessor) keep(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { c.sweepFrom(ctx) })
	c.answer(ctx, c.conn, topology.AskClosure, c.closureOf)
}

// sweepFrom sweeps the owned partitions now and then, until ctx ends.
func (c *closureProcessor) sweepFrom(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		// The table grows with each transaction; a minute's worth is little.
		case <-c.cfg.Clock.After(sweepEvery):
		}
		for _, store := range c.owned() {
			if store.ready() {
				c.sweep(store, closureKeptSeqs)
			}
		}
	}
}

// sweep takes the rows of settled transactions that were decided more than kept seqs before the newest decision of
// their workspace out of the table, in memory and in the topic.
func (c *closureProcessor) sweep(store *tableStore, kept sequencer.Seq) {
	decided := map[string]sequencer.Seq{}
	heads := map[string]sequencer.Seq{}
	for key, value := range store.snapshot() {
		row, err := topology.DecodeClosureRow(value)
		if err != nil || row.Seq == 0 {
			continue
		}
		heads[row.Workspace] = max(heads[row.Workspace], row.Seq)
		if ended(row) {
			decided[key] = row.Seq
		}
	}
	for key, seq := range decided {
		if seq+kept >= heads[topology.WorkspaceOfKey(key)] {
			// Lineage and explanation still reach it: the horizon may be as far back.
			continue
		}
		_ = store.Delete(key) // a map's deletion does not fail
		c.out.send(&kgo.Record{Topic: c.table, Key: []byte(key)}, func(_ *kgo.Record, err error) {
			if err != nil {
				c.cfg.Logger.Warn("failed to delete a forgotten row: the next sweep tries again", "key", key, "error", err)
			}
		})
	}
}

// ended reports whether nothing of a row's transaction is pending; a row of the first release does not say.
func ended(row *topology.ClosureRow) bool {
	return row.Status != statusRetracting && (row.Final || row.Events == nil)
}

// owned are the stores in memory.
func (b *base) owned() []*tableStore {
	// A copy: a sweep takes long, and goka gives and takes partitions meanwhile.
	b.mu.Lock()
	defer b.mu.Unlock()
	stores := make([]*tableStore, 0, len(b.stores))
	for _, s := range b.stores {
		stores = append(stores, s)
	}
	return stores
}
