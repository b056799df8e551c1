package processor

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/lovoo/goka"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/internal/meters"
)

// lagReportIn is how often the lag is counted.
const lagReportIn = time.Second

// processor is one of the three, for one run.
type processor interface {
	graph() *goka.GroupGraph
	common() *base
	gained(partition int32, store *tableStore) error            // its table has been read
	merge(key string, value []byte, at int64, into *tableStore) // a row of the table, while it is read
	dropped(graceful bool)                                      // every partition stopped
	keep(ctx context.Context)                                   // runs beside the callbacks
}

// base is what the processors have in common; one per run.
type base struct {
	name    string
	group   string
	table   string
	cfg     streams.Config
	metrics *meters.Meters
	out     producer
	work    *processorWork
	fail    func(error) // ends the run
	written *writtenDecisions
	patient bool // no decision waits for it, so its records are fetched some at a time

	position func(row []byte) int64 // of a row, -1: not known; nil: rows of this table have none

	mu     sync.Mutex
	stores map[int32]*tableStore
}

// store is the table of an owned partition, or nil.
func (b *base) store(partition int32) *tableStore {
	// Questions look here while goka gives and takes partitions.
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stores[partition]
}

// restore writes rows again that a former owner has overwritten with older ones, before compaction makes that final.
func (b *base) restore(store *tableStore) {
	for key, row := range store.overruled() {
		b.cfg.Logger.Warn("a former owner wrote late; its row is replaced", "table", b.table, "key", key)
		at, ok := store.at[key]
		if !ok {
			at = -1
		}
		// Goka fences no former owner, and the table keeps whichever row was written last.
		b.rewrite(key, row, at)
	}
}

// record is a row as the table topic has it; at is its position, -1: it has none.
func (b *base) record(key string, row []byte, at int64) *kgo.Record {
	rec := &kgo.Record{Topic: b.table, Key: []byte(key), Value: row}
	if at >= 0 {
		rec.Headers = atHeader(at)
	}
	return rec
}

// rewrite writes a row once more; at is its position, -1: it has none.
func (b *base) rewrite(key string, row []byte, at int64) {
	b.out.send(b.record(key, row, at), func(_ *kgo.Record, err error) {
		if err != nil {
			// Silence would leave the older row, which compaction then makes the only one.
			b.fail(fmt.Errorf("write %q to %s again: %w", key, b.table, err))
		}
	})
}

// logged counts a record of the table that Kafka has.
func (b *base) logged(partition int32, offset int64, size int) {
	if store := b.store(partition); store != nil {
		store.logged(offset, size)
	}
}

func (b *base) forgetStores() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.stores)
}

func (b *base) reportLag(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.cfg.Clock.After(lagReportIn):
		}
		for at, lag := range b.work.lags() {
			b.metrics.Lag.WithLabelValues(at.topic, strconv.Itoa(int(at.partition))).Set(float64(lag))
		}
	}
}

func atHeader(at int64) []kgo.RecordHeader {
	return []kgo.RecordHeader{{Key: headerAt, Value: binary.BigEndian.AppendUint64(nil, uint64(at))}}
}

// positionOf reads headerAt; -1 when a record has none.
func positionOf(h goka.Headers) int64 {
	if v := h[headerAt]; len(v) == 8 {
		return int64(binary.BigEndian.Uint64(v))
	}
	return -1
}

// headerAt is the header of a table's record that says which position of its input the row is of.
const headerAt = "hence-at"
