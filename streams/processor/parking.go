package processor

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// How much of a parked record is kept: together far less than a batch of hence.parked may have.
const (
	maxParkedBytes   = topology.MaxRecordBytes // of its value
	maxParkedKey     = 4 << 10
	maxParkedHeaders = 64 << 10 // of all that it came with
)

// park puts a record that cannot be read aside, with its origin, and keeps its offset uncommitted until that is done.
func (b *base) park(ctx *tracked, value []byte, reason string) {
	topic := string(ctx.Topic())
	b.metrics.Parked.WithLabelValues(topic, reason).Inc()
	b.cfg.Logger.Warn("record parked", "topic", topic, "partition", ctx.Partition(), "offset", ctx.Offset(),
		"reason", reason)
	from := origin{topic, ctx.Partition(), ctx.Offset(), reason}
	// Until hence.parked has it, the record's only trace is its own offset.
	ctx.ledger.hold(ctx.entry)
	done := func(_ *kgo.Record, err error) {
		if err != nil {
			// Passed over, it would be neither folded nor to be found anywhere.
			b.fail(err)
			return
		}
		ctx.ledger.release(ctx.entry)
	}
	b.out.send(from.parked(ctx.Key(), ctx.Headers(), value), func(r *kgo.Record, err error) {
		if !errors.Is(err, kerr.MessageTooLarge) {
			done(r, err)
			return
		}
		// The origin alone: the run would otherwise fail at this record at every start.
		b.cfg.Logger.Error("hence.parked refuses a record for its size; it keeps the origin only", "topic", topic,
			"partition", from.partition, "offset", from.offset)
		bare := &kgo.Record{Topic: topology.TopicParked}
		from.sign(bare)
		b.out.trySend(bare, done)
	})
}

// origin is where a parked record came from, and why it is parked.
type origin struct {
	topic     string
	partition int32
	offset    int64
	reason    string
}

// sign adds the origin to a record's headers, behind those that it came with.
func (o origin) sign(r *kgo.Record) {
	addHeader(r, topology.HeaderParkedTopic, o.topic)
	addHeader(r, topology.HeaderParkedPartition, strconv.Itoa(int(o.partition)))
	addHeader(r, topology.HeaderParkedOffset, strconv.FormatInt(o.offset, 10))
	addHeader(r, topology.HeaderParkedReason, o.reason)
}

// parked is a record of hence.parked with as much of what came as is kept. Its producer may have compressed more than
// fits into a batch of ours.
func (o origin) parked(key string, headers map[string][]byte, value []byte) *kgo.Record {
	rec := &kgo.Record{Topic: topology.TopicParked, Key: []byte(key[:min(len(key), maxParkedKey)]),
		Value: value[:min(len(value), maxParkedBytes)]}
	size, left := 0, 0
	for _, k := range slices.Sorted(maps.Keys(headers)) {
		if n := len(k) + len(headers[k]); size+n > maxParkedHeaders {
			left++
		} else {
			size += n
			rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: k, Value: headers[k]})
		}
	}
	if left > 0 || len(key) > maxParkedKey || len(value) > maxParkedBytes {
		addHeader(rec, topology.HeaderParkedCut, fmt.Sprintf("key of %d bytes, value of %d bytes, %d headers left out",
			len(key), len(value), left))
	}
	o.sign(rec)
	return rec
}

func addHeader(r *kgo.Record, key, value string) {
	r.Headers = append(r.Headers, kgo.RecordHeader{Key: key, Value: []byte(value)})
}

// brokenRow counts a row of a derived table that cannot be read; it begins again, as if it had not been there. Where
// the next record lacks what the row had (a workspace's own row, a shard's content) the frontier stops instead.
func (b *base) brokenRow(key string, err error) {
	b.metrics.Parked.WithLabelValues(b.table, reasonOf(err)).Inc()
	b.cfg.Logger.Error("a row of a derived table cannot be read: later records rebuild it", "table", b.table, "key", key,
		"error", err)
}

// reasonOf classifies a decoder's error.
func reasonOf(err error) string {
	if errors.Is(err, topology.ErrForeignVersion) {
		return topology.ParkedForeign
	}
	return topology.ParkedMalformed
}

// checkKey holds a key against the rule that chose its partition: a producer with another hash would split a
// workspace's state silently.
func checkKey(key string, partition, partitions int32) string {
	if topology.ValidWorkspace(topology.WorkspaceOfKey(key)) != nil {
		return topology.ParkedKey
	}
	if topology.PartitionOf(key, partitions) != partition {
		// Folded here, its workspace would have two states, in two partitions.
		return topology.ParkedPartition
	}
	return ""
}

// readIntent decodes a record of hence.intents, or says why it cannot be read.
func readIntent(key string, partition, partitions int32, value []byte) (*sequencer.Intent, string) {
	if topology.ValidWorkspace(key) != nil {
		return nil, topology.ParkedKey
	}
	if reason := checkKey(key, partition, partitions); reason != "" {
		return nil, reason
	}
	switch {
	case len(value) == 0:
		return nil, topology.ParkedEmpty
	case len(value) > topology.MaxIntentBytes:
		return nil, topology.ParkedOversize
	}
	in, err := topology.DecodeIntent(value)
	if err != nil {
		// A step of nothing for every reader: see the fold's readable.
		return nil, reasonOf(err)
	}
	return in, ""
}

// readDecision decodes a record of hence.decisions; one that cannot be read is parked and nil is returned.
func (b *base) readDecision(ctx *tracked, value []byte) *sequencer.Outcome {
	reason := checkKey(ctx.Key(), ctx.Partition(), b.cfg.Partitions)
	var o *sequencer.Outcome
	switch {
	case reason != "":
	case len(value) == 0:
		reason = topology.ParkedEmpty
	default:
		var err error
		if o, err = b.written.decode(value); err != nil {
			reason = reasonOf(err)
		} else if o.Workspace != ctx.Key() {
			reason = topology.ParkedKey
		}
	}
	if reason != "" {
		// The derived tables go on without it; followers hold chain and seq against each other and notice.
		b.park(ctx, value, reason)
		return nil
	}
	return o
}
