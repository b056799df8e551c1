package streams

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// Snapshot reads the frontier table's partition from its marker to its end, of both replicas where there are two, and
// returns the newer one. Every outcome up to Seq is in it whole, and some of those up to Through: it is a prefix once
// every outcome up to Through is applied on top of Seq. A workspace that nothing is known of yet has an empty snapshot
// at Seq 0.
func (c *Client) Snapshot(ctx context.Context, workspace string) (*topology.Snapshot, error) {
	if err := topology.ValidWorkspace(workspace); err != nil {
		return nil, err
	}
	replicas := []string{topology.ReplicaA, topology.ReplicaB}
	found, errs := make([]*topology.Snapshot, len(replicas)), make([]error, len(replicas))
	var reading sync.WaitGroup
	for i, replica := range replicas { // at once: a start waits for both
		reading.Go(func() {
			found[i], errs[i] = c.snapshotIn(ctx, workspace, topology.GroupOf(topology.GroupFrontier, replica))
		})
	}
	reading.Wait()
	var newest *topology.Snapshot
	for _, s := range found {
		if s != nil && (newest == nil || newest.Seq < s.Seq) {
			newest = s
		}
	}
	if newest == nil {
		// One replica's table is enough, and the second one's need not be there: the first error says more.
		return nil, fmt.Errorf("snapshot of %s: %w", workspace, cmp.Or(errs...))
	}
	return newest, nil
}

// snapshotIn reads the table of one group, from its marker on.
func (c *Client) snapshotIn(ctx context.Context, workspace, group string) (*topology.Snapshot, error) {
	table, partition := topology.TableOf(group), topology.PartitionOf(workspace, c.cfg.Partitions)
	span, err := SpanToRead(ctx, c.log, group, partition)
	if err != nil {
		return nil, err
	}
	rows := make(map[sequencer.Scope]*topology.FrontierRow)
	broken := make(map[sequencer.Scope]error) // by the scope in the key
	err = c.cfg.ReadRange(ctx, table, partition, span.From(), span.End, func(r *kgo.Record) error {
		if topology.WorkspaceOfKey(string(r.Key)) != workspace || r.Value == nil {
			return nil
		}
		row, err := topology.DecodeFrontierRow(r.Value)
		if err != nil {
			// Only an error if no other row of the scope can be read.
			broken[sequencer.Scope(topology.RestOfKey(string(r.Key)))] = fmt.Errorf("at offset %d: %w", r.Offset, err)
			return nil
		}
		// The newest row counts, not the last one: a processor that was thought dead may have written after its heir.
		had := rows[row.Scope]
		if had == nil || cmp.Or(cmp.Compare(had.Seq, row.Seq), cmp.Compare(had.Version, row.Version)) <= 0 {
			row.Former, row.Open = nil, nil // no part of a snapshot, and often most of the row
			rows[row.Scope] = row
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := c.stillFrom(ctx, table, partition, span.From()); err != nil {
		return nil, err
	}
	for scope, err := range broken {
		if rows[scope] == nil { // a scope that would be missing must not look absent
			return nil, fmt.Errorf("row %q of %s cannot be read: %w", scope, table, err)
		}
	}
	return snapshotOf(workspace, rows), nil
}

func snapshotOf(workspace string, rows map[sequencer.Scope]*topology.FrontierRow) *topology.Snapshot {
	s := &topology.Snapshot{Workspace: workspace}
	if head := rows[""]; head != nil {
		s.Seq, s.Chain, s.Time, s.Floor = head.Seq, head.Chain, head.Time, head.Floor
	}
	types, shards := make(map[string]bool), 0
	for _, row := range rows {
		s.Through = max(s.Through, row.Seq)
		if row.Scope != "" {
			types[row.Scope.Type()] = true
		}
		if row.Shard != nil {
			shards++
		}
	}
	s.Types = slices.Sorted(maps.Keys(types))
	if shards > 0 {
		s.Shards = make([]topology.ShardRow, 0, shards)
	}
	for _, row := range rows {
		if shard := row.Shard; shard != nil {
			if shard.Count = row.Count; !shard.Count.Known() {
				shard.Count = topology.CountFrom(shard.Version)
			}
			s.Shards = append(s.Shards, *shard)
		}
	}
	sort.Slice(s.Shards, func(i, j int) bool { return s.Shards[i].Scope < s.Shards[j].Scope })
	return s
}

// pastGone says what leads past a decision that is gone.
func (c *Client) pastGone(ctx context.Context, workspace string, missing sequencer.Seq) string {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	switch s, err := c.Snapshot(ctx, workspace); {
	case err != nil:
		return fmt.Sprintf("start again; when this comes back, run hence doctor (%v)", err)
	case s.Seq >= missing:
		return fmt.Sprintf("start again: a snapshot at %d leads past it", s.Seq)
	default:
		return fmt.Sprintf("snapshots end at %d, so a new start comes back to this until the decision is published "+
			"again: run hence doctor", s.Seq)
	}
}
