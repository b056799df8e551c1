package streams

import (
	"errors"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// Why a record was parked; labels of a metric, so there are few of them.
const (
	reasonEmpty     = "empty"
	reasonMalformed = "malformed"
	reasonForeign   = "foreign_version"
	reasonOversize  = "oversize"
	reasonKey       = "key"
	reasonPartition = "partition"
)

// maxParkedBytes is how much of a parked record is kept.
const maxParkedBytes = topology.MaxRecordBytes

// Largest records that are read; a larger one is parked unread. Producers of ours stay far below.
const (
	maxIntentBytes = 512 << 10
	maxEventBytes  = 512 << 10
)

// park puts a record that cannot be read aside, with its origin, and keeps its offset uncommitted until that is done.
func (b *base) park(ctx *tracked, value []byte, reason string) {
	topic := string(ctx.Topic())
	b.metrics.parked.WithLabelValues(topic, reason).Inc()
	b.cfg.Logger.Warn("record parked", "topic", topic, "partition", ctx.Partition(), "offset", ctx.Offset(),
		"reason", reason)
	rec := &kgo.Record{Topic: topology.TopicParked, Key: []byte(ctx.Key()),
		Value: value[:min(len(value), maxParkedBytes)]}
	for k, v := range ctx.Headers() {
		rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: k, Value: v})
	}
	add := func(k, v string) {
		rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: k, Value: []byte(v)})
	}
	add(topology.HeaderParkedTopic, topic)
	add(topology.HeaderParkedPartition, strconv.Itoa(int(ctx.Partition())))
	add(topology.HeaderParkedOffset, strconv.FormatInt(ctx.Offset(), 10))
	add(topology.HeaderParkedReason, reason)
	ctx.ledger.hold(ctx.entry)
	b.out.send(rec, func(_ *kgo.Record, err error) {
		if err != nil {
			b.fail(err)
			return
		}
		ctx.ledger.release(ctx.entry)
	})
}

// brokenRow counts a row of a derived table that cannot be read; it is made anew, as if it had not been there.
func (b *base) brokenRow(key string, err error) {
	b.metrics.parked.WithLabelValues(b.table, reasonOf(err)).Inc()
	b.cfg.Logger.Error("row of a derived table cannot be read and begins anew", "table", b.table, "key", key,
		"error", err)
}

// reasonOf classifies a decoder's error.
func reasonOf(err error) string {
	if errors.Is(err, topology.ErrForeignVersion) {
		return reasonForeign
	}
	return reasonMalformed
}

// checkKey holds a key against the rule that chose its partition: a producer with another hash would split a
// workspace's state silently.
func checkKey(key string, partition, partitions int32) string {
	if topology.ValidWorkspace(topology.WorkspaceOfKey(key)) != nil {
		return reasonKey
	}
	if topology.PartitionOf(key, partitions) != partition {
		return reasonPartition
	}
	return ""
}

// readIntent decodes a record of hence.intents, or says why it cannot be read.
func readIntent(key string, partition, partitions int32, value []byte) (*sequencer.Intent, string) {
	if topology.ValidWorkspace(key) != nil {
		return nil, reasonKey
	}
	if reason := checkKey(key, partition, partitions); reason != "" {
		return nil, reason
	}
	switch {
	case len(value) == 0:
		return nil, reasonEmpty
	case len(value) > maxIntentBytes:
		return nil, reasonOversize
	}
	in, err := topology.DecodeIntent(value)
	if err != nil {
		return nil, reasonOf(err)
	}
	return in, ""
}
