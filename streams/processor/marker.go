package processor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// A new owner reads its table's log. Rows of a former owner may stand in it behind newer ones, so compaction waits for
// a day, and the log of a day may be a thousand times as large as the rows. Therefore the owner writes all rows once
// more now and then, and says with a marker from which offset on the log has them all. The marker is metadata of a
// committed offset: Kafka takes that from a member of the present generation only, and so from no former owner
// (docs/holes.md, 23; streams/DESIGN.md says which steps a crash may fall between).
const (
	markEvery  = time.Second // between two looks at how the logs have grown
	markGrowth = 3           // a log is rewritten when it has as many times the bytes of the rows
	markRows   = 1 << 10     // rows that are sent at once, beside those that callbacks write
	markBytes  = 256 << 10   // and about how many bytes
	markPause  = 20 * time.Millisecond
	markTries  = 30   // looks at the committed offset, until a broker is taken for one that keeps no metadata
	deleteInMs = 5000 // that brokers may take to delete records
)

// Steps of a marker, for tests: see streams.Faults.Marking.
const (
	stepBegun   = "begun"   // the offset is noted
	stepSent    = "sent"    // some rows are on their way
	stepWritten = "written" // all rows are acknowledged
	stepMarked  = "marked"  // the marker goes with the next commit
	stepKept    = "kept"    // Kafka has the marker
)

// marking is what an owner is at with the marker of one partition.
type marking struct {
	pending int64 // it is to be committed; -1: none is
	tries   int   // how often it was not seen among the committed offsets
	again   bool  // writing the rows failed
	refused bool  // Kafka does not keep markers
}

// keepMarkers marks the owned partitions when their logs have grown, until ctx ends.
func (b *base) keepMarkers(ctx context.Context) {
	was := make(map[*tableStore]*marking)
	deletes := true
	for {
		select {
		case <-ctx.Done():
			return
		// A log that grows between two looks is only read for longer.
		case <-b.cfg.Clock.After(markEvery):
		}
		// A copy: what follows asks Kafka, and goka gives and takes partitions meanwhile.
		b.mu.Lock()
		stores := maps.Clone(b.stores)
		b.mu.Unlock()
		seen := make(map[*tableStore]*marking)
		for partition, store := range stores {
			if !store.ready() {
				continue // its rows are being read
			}
			m := was[store]
			if m == nil {
				m = &marking{pending: -1}
			}
			seen[store] = m
			before, err := b.keepMarker(ctx, partition, store, m)
			if err != nil {
				b.cfg.Logger.Debug("failed to mark a table as whole: it is tried again", "table", b.table, "partition", partition,
					"error", err)
			}
			if before > 0 && deletes {
				deletes = b.deleteBefore(ctx, partition, before)
			}
		}
		was = seen
	}
}

// keepMarker does what is due about one partition's marker. Once Kafka has it, it returns the offset of the former
// one, before which nothing is read any more: who began to read there is not cut off.
func (b *base) keepMarker(ctx context.Context, partition int32, store *tableStore, m *marking) (
	before int64, err error,
) {
	switch log, rows := store.sizes(); {
	case m.refused:
		return 0, nil
	case m.pending >= 0:
		return b.confirm(ctx, partition, store, m)
	case log <= max(b.cfg.MarkAfter, markGrowth*rows) && !m.again:
		return 0, nil
	}
	from, err := b.writeAll(ctx, partition, store)
	if m.again = err != nil; m.again {
		return 0, err
	}
	// Only now: committed before the rows are acknowledged, it would promise rows that a crash takes.
	store.commitMarker(b.markerAt(partition), topology.Marker{Table: store.span.Table, From: from}.String())
	m.pending, m.tries = from, 0
	b.step(partition, stepMarked)
	return 0, nil
}

// markerAt is the place beside whose committed offset a partition's marker stands.
func (b *base) markerAt(partition int32) place {
	return place{topology.MarkerTopic(b.group), partition}
}

// writeAll writes all rows of a store once more and returns the offset from which on the log has them.
//
// The offset is noted first: what is acknowledged before it was in the store then, so it is among the rows that
// follow, or is of a former owner, and what that one did behind the committed offset this owner does again. What is
// acknowledged later stands behind it.
func (b *base) writeAll(ctx context.Context, partition int32, store *tableStore) (from int64, err error) {
	if from, err = streams.EndOffset(ctx, b.out.client, b.table, partition); err != nil {
		return 0, err
	}
	store.countFrom(from)
	b.step(partition, stepBegun)
	for keys := store.keys(); len(keys) > 0; {
		acks, sent := make(chan error, markRows), 0
		if sent, err = b.sendAgain(partition, store, keys, acks); err != nil {
			return 0, err
		}
		b.step(partition, stepSent)
		for range sent {
			select {
			case <-ctx.Done():
				return 0, ctx.Err()
			// Some at a time: callbacks wait for a producer whose buffer is full.
			case err := <-acks:
				if err != nil { // such as a full buffer
					return 0, fmt.Errorf("write the rows of %s/%d again: %w", b.table, partition, err)
				}
			}
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		// So that a large table does not keep callbacks and brokers from their work.
		case <-b.cfg.Clock.After(markPause):
		}
		keys = keys[sent:]
	}
	b.step(partition, stepWritten)
	return from, nil
}

// errGivenUp ends the work on a partition that is not ours any more.
var errGivenUp = errors.New("the partition was given up")

// sendAgain sends the rows of the first keys, as many as are on their way at once, and returns how many keys that
// were. acks is told of each.
func (b *base) sendAgain(partition int32, store *tableStore, keys []string, acks chan<- error) (n int, err error) {
	// Under the lock under which partitions are given up: rows that are sent later could stand behind an heir's.
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stores[partition] != store {
		return 0, errGivenUp
	}
	for size := 0; n < min(len(keys), markRows) && size < markBytes; n++ {
		size += store.again(keys[n], func(row []byte, at int64, there bool) {
			if !there {
				acks <- nil
				return
			}
			if at < 0 && b.position != nil {
				at = b.position(row)
			}
			// Tried only: who waited here for a full buffer would keep callbacks from changing rows.
			b.out.trySend(b.record(keys[n], row, at), func(_ *kgo.Record, err error) { acks <- err })
		})
	}
	return n, nil
}

// confirm looks whether Kafka has a marker; see keepMarker.
func (b *base) confirm(ctx context.Context, partition int32, store *tableStore, m *marking) (before int64, err error) {
	at := b.markerAt(partition)
	of, err := streams.CommittedOf(ctx, b.out.client, b.group, at.topic, partition)
	if err != nil {
		return 0, err
	}
	switch {
	case of.Metadata == store.session.marker(at):
		before = store.kept.Swap(m.pending)
		m.pending = -1
		b.step(partition, stepKept)
		return before, nil
	case of.Offset < 0:
		return 0, nil // nothing is committed yet that it could stand beside: it goes with the first commit
	}
	if m.tries++; m.tries == markTries {
		b.cfg.Logger.Warn("Kafka does not keep the metadata of committed offsets: a new owner reads all of the table; see "+
			"offset.metadata.max.bytes", "table", b.table, "partition", partition)
		// A broker that refuses the metadata refuses the offset beside it.
		store.commitMarker(at, "")
		m.refused = true
	}
	return 0, nil
}

// deleteBefore deletes the records of a table before an offset, and reports whether that may be tried again.
//
// Kafka does not fence this, and a former owner may do it late. It deletes no row that an heir relies on: the offset
// is that of a marker which Kafka had before the former owner committed the next one. So the heir found one of the two
// or a later one, and read nothing before it. An older release reads without markers: see streams/DESIGN.md.
func (b *base) deleteBefore(ctx context.Context, partition int32, offset int64) bool {
	var before kadm.Offsets
	before.AddOffset(b.table, partition, offset, -1)
	admin := kadm.NewClient(b.out.client)
	admin.SetTimeoutMillis(deleteInMs)
	deleted, err := admin.DeleteRecords(ctx, before)
	if err == nil {
		err = deleted.Error()
	}
	if errors.Is(err, kerr.PolicyViolation) || errors.Is(err, kerr.TopicAuthorizationFailed) {
		b.cfg.Logger.Info("records that are not read any more stay until they are compacted: the table needs "+
			"cleanup.policy [compact,delete], and this user the right to delete records", "table", b.table, "error", err)
		return false
	}
	if err != nil {
		b.cfg.Logger.Debug("failed to delete records before a marker: the next marker deletes them", "table", b.table,
			"partition", partition, "error", err)
	}
	return true
}

// step tells a test how far the marker of a partition is.
func (b *base) step(partition int32, step string) {
	if f := b.cfg.Faults.Marking; f != nil {
		f(b.table, partition, step)
	}
}

// marker is what is to stand beside the committed offset of a place.
func (s *session) marker(at place) string {
	// Marks are made by the ledger, markers by another goroutine.
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.markers[at]
}

// adopt takes over what a partition's former owner had committed, and commits it once more. Until then Kafka may still
// take in a commit of the former generation, whose marker could pass rows that are relied on here.
func (s *session) adopt(at place, span streams.TableSpan) {
	text := ""
	if span.Marker >= 0 {
		text = topology.Marker{Table: span.Table, From: span.Marker}.String()
	}
	s.mu.Lock()
	s.markers[at] = text
	s.mu.Unlock()
	// A consumer of the session has asked before: what was committed since is where it begins.
	s.ConsumerGroupSession.MarkOffset(at.topic, at.partition, span.Offset, text)
	s.commitBeside(at, span.Offset)
}

// commitBeside lets the marker of a place be committed beside an offset at which it stands already.
func (s *session) commitBeside(at place, offset int64) {
	if offset >= 0 { // else nothing is committed that it could stand beside: the first mark takes it along
		s.ResetOffset(at.topic, at.partition, offset, s.marker(at))
	}
}

// commitMarker lets a marker be committed although no record may move the offset beside it. It belongs to the session
// in which the store was gained: between this one and a later one another owner may have written rows before it.
func (s *tableStore) commitMarker(at place, text string) {
	s.session.mu.Lock()
	s.session.markers[at] = text
	s.session.mu.Unlock()
	s.session.ledger.stands(at, func(next int64) {
		if next == 0 {
			next = s.span.Offset
		}
		s.session.commitBeside(at, next)
	})
}
