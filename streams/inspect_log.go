package streams

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// How many of a partition's newest records are read; the wider look is for seqs that seemed to be missing, since two
// replicas may write the same decisions far apart.
const (
	inspectRecords = 2048
	inspectWider   = 32768
	inspectGaps    = 16 // of one partition that are told
)

// decisions looks for gaps, and counts what was parked.
func (i *inspection) decisions(ctx context.Context) {
	for p := range i.cfg.Partitions {
		f := i.partition(ctx, p, inspectRecords)
		if len(f.Gaps) > 0 {
			f = i.partition(ctx, p, inspectWider)
		}
		for _, g := range f.Gaps {
			i.problem("decisions", topology.TopicDecisions,
				fmt.Sprintf("workspace %s lacks the decisions between %d and %d in partition %d",
					g.Workspace, g.After, g.Before, p), "stop the sequencers, delete their tables and offsets and start them: "+
					"they compute and publish the log anew")
		}
		i.Decisions = append(i.Decisions, f)
	}
	for p := range i.cfg.Partitions {
		tryCtx, cancel := context.WithTimeout(ctx, inspectIn)
		start, err := startOffset(tryCtx, i.cl, topology.TopicParked, p)
		end, endErr := endOffset(tryCtx, i.cl, topology.TopicParked, p)
		cancel()
		if err == nil && endErr == nil {
			i.Parked += end - start
		}
	}
	if i.Parked > 0 {
		i.problem("parked", topology.TopicParked, fmt.Sprintf("%d records could not be read and were put aside", i.Parked),
			"kcat -C -t hence.parked -o beginning -e -f '%h\\n' shows where each came from and why")
	}
}

// partition reads a partition's newest decisions.
func (i *inspection) partition(ctx context.Context, p int32, most int64) (f DecisionsFact) {
	ctx, cancel := context.WithTimeout(ctx, inspectIn)
	defer cancel()
	f.Partition = p
	end, err := endOffset(ctx, i.cl, topology.TopicDecisions, p)
	if err != nil {
		f.Error = err.Error()
		return f
	}
	f.End = end
	seen := make(map[string]map[sequencer.Seq]bool)
	err = i.cfg.readRange(ctx, topology.TopicDecisions, p, max(0, end-most), end, func(r *kgo.Record) error {
		f.Looked++
		o, err := topology.DecodeCloudEvent(r.Value)
		if err != nil {
			return nil // it is parked
		}
		if seen[o.Workspace] == nil {
			seen[o.Workspace] = make(map[sequencer.Seq]bool)
		}
		if seen[o.Workspace][o.Seq] {
			f.Copies++
		}
		seen[o.Workspace][o.Seq] = true
		return nil
	})
	if err != nil {
		f.Error = err.Error()
		return f
	}
	for _, workspace := range slices.Sorted(maps.Keys(seen)) {
		seqs := slices.SortedFunc(maps.Keys(seen[workspace]), cmp.Compare[sequencer.Seq])
		for n := 1; n < len(seqs) && len(f.Gaps) < inspectGaps; n++ {
			if seqs[n] != seqs[n-1]+1 {
				f.Gaps = append(f.Gaps, Gap{Workspace: workspace, After: uint64(seqs[n-1]), Before: uint64(seqs[n])})
			}
		}
	}
	return f
}

// replicas compares what both have said of their states, as the processors do.
func (i *inspection) replicas(ctx context.Context) {
	quiet := i.cfg
	quiet.Health, quiet.Logger = nil, slog.New(slog.DiscardHandler)
	c := newComparison(quiet, newMetrics(quiet.Metrics), i.Log)
	for p := range i.cfg.Partitions {
		tryCtx, cancel := context.WithTimeout(ctx, inspectIn)
		end, err := endOffset(tryCtx, i.cl, topology.TopicHashes, p)
		if err == nil {
			err = i.cfg.readRange(tryCtx, topology.TopicHashes, p, max(0, end-inspectRecords), end,
				func(r *kgo.Record) error {
					if h, err := topology.DecodeStateHash(r.Value); err == nil {
						c.take(h)
					}
					return nil
				})
		}
		cancel()
		if err != nil {
			continue // the topic is missing, which is said already
		}
	}
	for _, both := range c.states {
		for n, h := range both {
			if h != nil {
				*[]*uint64{&i.Replicas.A, &i.Replicas.B}[n]++
			}
		}
		if both[0] != nil && both[1] != nil {
			i.Replicas.Compared++
		}
	}
	for _, workspace := range slices.Sorted(maps.Keys(c.differ)) {
		i.Replicas.Difference = c.differ[workspace].Error()
		i.problem("replicas", "", i.Replicas.Difference, "hence version, on both")
	}
}
