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
	wg.Go(func() { c.keepRows(ctx) })
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
		for _, p := range c.owned() {
			c.sweep(p, closureKeptSeqs)
		}
	}
}

// sweep takes the rows of settled transactions that were decided more than kept seqs before the newest decision of
// their workspace out of the table, in memory and in the topic. It sees rows as they were written last.
func (c *closureProcessor) sweep(p *lazyPart[topology.ClosureRow], kept sequencer.Seq) {
	decided := map[string]sequencer.Seq{}
	heads := map[string]sequencer.Seq{}
	for _, key := range p.store.keys() { // a copy of the whole table would be as large
		value, _ := p.store.Get(key) // a map's lookup does not fail
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
		c.forget(p, key)
	}
}

// forget deletes a row, unless it is about to be written again: the next sweep sees to it then.
func (c *closureProcessor) forget(p *lazyPart[topology.ClosureRow], key string) {
	// A row that is written between the look and the deletion would stay in the topic only.
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left || p.units[key] != nil {
		return
	}
	_ = p.store.Delete(key) // a map's deletion does not fail
	c.out.send(&kgo.Record{Topic: c.table, Key: []byte(key)}, func(_ *kgo.Record, err error) {
		if err != nil {
			c.cfg.Logger.Warn("failed to delete a forgotten row: the next sweep tries again", "key", key, "error", err)
		}
	})
}

// ended reports whether nothing of a row's transaction is pending; a row of the first release does not say.
func ended(row *topology.ClosureRow) bool {
	return row.Status != statusRetracting && (row.Final || row.Events == nil)
}
