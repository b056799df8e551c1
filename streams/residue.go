package streams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/topology"
)

// ErrTruncated is returned by Residue and Unsettled, with the rows that they could give, when there are more of them.
var ErrTruncated = errors.New("there is more than was asked for")

// Bounds of a list of residue.
const (
	maxResidueRows  = 10_000
	maxResidueBytes = 64 << 20 // of the records that are kept while the topic is read
)

// PublishResidue writes one effect's residue, over what was there under its transaction and index, and returns once
// all in-sync replicas have it. It fails with ErrUnknown when the caller's time ended first; writing it again is safe.
func (c *Client) PublishResidue(ctx context.Context, r *topology.Residue) error {
	value, err := topology.EncodeResidue(r)
	if err != nil {
		return err
	}
	rec := &kgo.Record{Topic: topology.TopicResidue, Key: []byte(r.RecordKey()), Value: value,
		Headers: []kgo.RecordHeader{{Key: "content-type", Value: []byte(topology.ResidueContentType)}}}
	if _, err := produce(ctx, c.log, rec); err != nil {
		return fmt.Errorf("publish residue %s: %w", r.RecordKey(), err)
	}
	return nil
}

// Residue lists what could not be made clean in a workspace, whatever its state: the last record of each effect, the
// one that was written last first. The partition's order decides, since no writer knows a better one: a transaction is
// settled by one writer after the other, and people come last. When there are more than limit (at most 10,000), the
// newest are returned with ErrTruncated. A record that cannot be read is left out, with a line in the log.
func (c *Client) Residue(ctx context.Context, workspace string, limit int) ([]topology.Residue, error) {
	if err := topology.ValidWorkspace(workspace); err != nil {
		return nil, err
	}
	partition := topology.PartitionOf(workspace, c.cfg.Partitions)
	end, err := EndOffset(ctx, c.log, topology.TopicResidue, partition)
	if err != nil {
		return nil, fmt.Errorf("residue of %s: %w", workspace, err)
	}
	rows := newestRows{limit: min(max(limit, 1), maxResidueRows), maxBytes: maxResidueBytes, rows: map[string]rowAt{}}
	err = c.cfg.ReadRange(ctx, topology.TopicResidue, partition, 0, end, func(r *kgo.Record) error {
		if topology.WorkspaceOfKey(string(r.Key)) == workspace {
			rows.take(string(r.Key), r.Value, r.Offset)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("residue of %s: %w", workspace, err)
	}
	var list []topology.Residue
	for _, row := range rows.newest() {
		r, err := topology.DecodeResidue(row.value)
		if err != nil || r.RecordKey() != row.key {
			c.cfg.Logger.Warn("a residue cannot be read", "topic", topology.TopicResidue, "partition", partition,
				"offset", row.offset, "key", row.key, "error", err)
			continue
		}
		list = append(list, *r)
	}
	if rows.cut {
		return list, fmt.Errorf("residue of %s: %w: these are the newest %d", workspace, ErrTruncated, len(list))
	}
	return list, nil
}

// newestRows keeps the last records of the keys that were written last. It may forget a key whenever so many others
// were written after it, because those only move further away: a forgotten key that comes again is newest again.
type newestRows struct {
	limit    int
	maxBytes int
	rows     map[string]rowAt
	bytes    int
	cut      bool // more keys have a record than are kept
}

type rowAt struct {
	key    string
	value  []byte
	offset int64
}

// take notes a record; one without a value deletes its key.
func (n *newestRows) take(key string, value []byte, offset int64) {
	n.bytes += len(key) + len(value)
	if had, ok := n.rows[key]; ok {
		n.bytes -= len(key) + len(had.value)
	}
	if len(value) == 0 {
		n.bytes -= len(key)
		delete(n.rows, key)
		return
	}
	n.rows[key] = rowAt{key, slices.Clone(value), offset} // the record's bytes are part of a whole batch
	if len(n.rows) > 2*n.limit || n.bytes > n.maxBytes {
		n.forget(n.limit, n.maxBytes/2)
	}
}

// forget keeps so many of the newest rows, with so many bytes at most.
func (n *newestRows) forget(rows, bytes int) {
	sorted := n.sorted()
	n.bytes = 0
	for i, row := range sorted {
		size := len(row.key) + len(row.value)
		if i < rows && n.bytes+size <= bytes {
			n.bytes += size
			continue
		}
		for _, old := range sorted[i:] {
			delete(n.rows, old.key)
		}
		n.cut = true
		return
	}
}

func (n *newestRows) sorted() []rowAt {
	sorted := make([]rowAt, 0, len(n.rows))
	for _, row := range n.rows {
		sorted = append(sorted, row)
	}
	slices.SortStableFunc(sorted, func(a, b rowAt) int { return cmp.Compare(b.offset, a.offset) })
	return sorted
}

// newest are the rows to show, newest first.
func (n *newestRows) newest() []rowAt {
	n.forget(n.limit, n.maxBytes)
	return n.sorted()
}
