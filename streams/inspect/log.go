package inspect

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/internal/states"
	"github.com/hence-dev/hence/topology"
)

// How many of a partition's newest records are read; the wider look is for seqs that seemed to be missing, since two
// replicas may write the same decisions far apart.
const (
	inspectRecords = 2048
	inspectWider   = 32768
	inspectGaps    = 16 // of one partition that are told
)

// decisions looks for gaps.
func (i *inspection) decisions(ctx context.Context) {
	for p := range i.cfg.Partitions {
		f, unsure := i.partition(ctx, p, inspectRecords)
		if len(f.Gaps) > 0 || unsure {
			f, unsure = i.partition(ctx, p, inspectWider)
		}
		if unsure {
			if all, _ := i.partition(ctx, p, math.MaxInt64); all.Error == "" { // there may be too many to read
				f = all
			}
		}
		fix := ""
		if len(f.Gaps) > 0 {
			fix = i.fixOfGaps(ctx, p)
		}
		for _, g := range f.Gaps {
			i.problem("decisions", topology.TopicDecisions,
				fmt.Sprintf("workspace %s lacks the decisions between %d and %d in partition %d",
					g.Workspace, g.After, g.Before, p), fix)
		}
		i.Decisions = append(i.Decisions, f)
	}
	i.parked(ctx)
}

// parked counts what was put aside, and says how to look at it, and how to clear just that.
func (i *inspection) parked(ctx context.Context) {
	var ends []string
	for p := range i.cfg.Partitions {
		tryCtx, cancel := context.WithTimeout(ctx, inspectIn)
		start, err := streams.StartOffset(tryCtx, i.cl, topology.TopicParked, p)
		end, endErr := streams.EndOffset(tryCtx, i.cl, topology.TopicParked, p)
		cancel()
		if err == nil && endErr == nil && end > start {
			i.Parked += end - start
			ends = append(ends, fmt.Sprintf(`{"topic":%q,"partition":%d,"offset":%d}`, topology.TopicParked, p, end))
		}
	}
	if i.Parked > 0 {
		i.problem("parked", topology.TopicParked, fmt.Sprintf("%d records could not be read and were put aside", i.Parked),
			"kcat -b "+strings.Join(i.cfg.Brokers, ",")+" -C -t hence.parked -o beginning -e -f '%h\\n' shows where each came "+
				`from and why; then clear them: echo '{"version":1,"partitions":[`+strings.Join(ends, ",")+
				"]}' > parked.json && "+i.cfg.Tool("kafka-delete-records")+" --offset-json-file parked.json")
	}
}

// fixOfGaps says what fixes decisions that are missing: a log that is whole is recomputed, another one cannot be.
func (i *inspection) fixOfGaps(ctx context.Context, p int32) string {
	ctx, cancel := context.WithTimeout(ctx, inspectIn)
	defer cancel()
	const keep = "keep the tables and offsets of the sequencers, and start a replica that is behind, if there is one: " +
		"it may publish what is missing; "
	switch start, err := streams.StartOffset(ctx, i.cl, topology.TopicIntents, p); {
	case err != nil:
		return keep + fmt.Sprintf("it is not known whether %s/%d is whole: %v", topology.TopicIntents, p, err)
	case start > 0:
		return keep + fmt.Sprintf("%s/%d begins at offset %d, so the log cannot be recomputed",
			topology.TopicIntents, p, start)
	}
	return fmt.Sprintf("stop the sequencers and let them forget what they computed, replica a: `%s`; replica b, if it "+
		"runs: `%s`. Start them: they recompute and publish the log", i.cfg.ForgetCommand(topology.ReplicaA),
		i.cfg.ForgetCommand(topology.ReplicaB))
}

// partition reads a partition's newest decisions; unsure says that older ones may show a gap.
func (i *inspection) partition(ctx context.Context, p int32, most int64) (f DecisionsFact, unsure bool) {
	ctx, cancel := context.WithTimeout(ctx, inspectIn)
	defer cancel()
	f.Partition = p
	end, err := streams.EndOffset(ctx, i.cl, topology.TopicDecisions, p)
	if err != nil {
		f.Error = err.Error()
		return f, false
	}
	start, err := streams.StartOffset(ctx, i.cl, topology.TopicDecisions, p)
	if err != nil {
		f.Error = err.Error()
		return f, false
	}
	f.End = end
	from, seen := max(start, end-most), make(map[string]*written)
	err = i.cfg.ReadRange(ctx, topology.TopicDecisions, p, from, end, func(r *kgo.Record) error {
		f.Looked++
		o, err := topology.DecodeCloudEvent(r.Value)
		if err != nil {
			return nil // it is parked
		}
		if seen[o.Workspace] == nil {
			seen[o.Workspace] = &written{first: make(map[sequencer.Seq]appearance), writers: make(map[int64]sequencer.Seq)}
		}
		if !seen[o.Workspace].take(o.Seq, r.Offset, r.ProducerID) {
			f.Copies++
		}
		return nil
	})
	if err != nil {
		f.Error = err.Error()
		return f, false
	}
	for _, workspace := range slices.Sorted(maps.Keys(seen)) {
		i.lowest[workspace] = slices.Min(slices.Collect(maps.Keys(seen[workspace].first)))
		gaps, open := seen[workspace].gaps(from > 0, i.two())
		unsure = unsure || open
		for _, g := range gaps {
			if len(f.Gaps) < inspectGaps {
				f.Gaps = append(f.Gaps, Gap{Workspace: workspace, After: uint64(g[0]), Before: uint64(g[1])})
			}
		}
	}
	return f, unsure
}

// two says whether there are sequencers of both replicas, running or not.
func (i *inspection) two() bool {
	n := 0
	for _, g := range i.Groups {
		if g.State != "Dead" && (g.Name == topology.GroupOf(topology.GroupSequencer, topology.ReplicaA) ||
			g.Name == topology.GroupOf(topology.GroupSequencer, topology.ReplicaB)) {
			n++
		}
	}
	return n == 2
}

// written is what a workspace's newest records in hence.decisions show, in their order. Each replica writes its
// decisions in the order of their seqs, but one of them may be far behind the other.
type written struct {
	first   map[sequencer.Seq]appearance
	writers map[int64]sequencer.Seq // producers that were seen, each with its last
	jumps   [][2]sequencer.Seq      // from and to of one producer
	highest sequencer.Seq
}

// appearance is the first record of a decision.
type appearance struct {
	offset  int64
	highest bool // it was behind all that came before it
	begins  bool // it was the first record of its writer
}

// take notes a record; it returns false for a copy.
func (w *written) take(seq sequencer.Seq, offset, writer int64) bool {
	last, known := w.writers[writer]
	if w.writers[writer] = seq; known && writer >= 0 && seq > last+1 {
		w.jumps = append(w.jumps, [2]sequencer.Seq{last, seq})
	}
	if _, ok := w.first[seq]; ok {
		return false
	}
	w.first[seq] = appearance{offset: offset, highest: seq > w.highest, begins: writer >= 0 && !known}
	w.highest = max(w.highest, seq)
	return true
}

// gaps are the decisions that are missing between two. Where what lies behind came first, or what lies before it went
// on afterwards, these are two replicas, and one is behind. What was written before the records that were read (cut)
// may have been the other replica's (two): it is not missing when that one has passed it. When it begins here behind
// it, that is not known (unsure), unless another writer jumped over it here: both replicas lack it then.
func (w *written) gaps(cut, two bool) (gaps [][2]sequencer.Seq, unsure bool) {
	seqs := slices.SortedFunc(maps.Keys(w.first), cmp.Compare[sequencer.Seq])
	for n := 1; n < len(seqs); n++ {
		gap := [2]sequencer.Seq{seqs[n-1], seqs[n]}
		before, behind := w.first[gap[0]], w.first[gap[1]]
		jumped := func(j [2]sequencer.Seq) bool { return j[0] <= gap[0] && j[1] >= gap[1] }
		switch {
		case gap[1] == gap[0]+1, before.offset > behind.offset, cut && !behind.highest:
		case cut && two && behind.begins && !slices.ContainsFunc(w.jumps, jumped):
			unsure = true
		default:
			gaps = append(gaps, gap)
		}
	}
	return gaps, unsure
}

// replicas compares what both have said of their states, as the processors do.
func (i *inspection) replicas(ctx context.Context) {
	c := states.New(i.cfg, i.Log)
	for p := range i.cfg.Partitions {
		tryCtx, cancel := context.WithTimeout(ctx, inspectIn)
		end, err := streams.EndOffset(tryCtx, i.cl, topology.TopicHashes, p)
		if err == nil {
			err = i.cfg.ReadRange(tryCtx, topology.TopicHashes, p, max(0, end-inspectRecords), end,
				func(r *kgo.Record) error {
					if h, err := topology.DecodeStateHash(r.Value); err == nil {
						c.Take(h)
					}
					return nil
				})
		}
		cancel()
		if err != nil {
			continue // the topic is missing, which is said already
		}
	}
	i.Replicas.A, i.Replicas.B, i.Replicas.Compared = c.Said()
	if text := c.Uneven(); text != "" {
		i.problem("replicas", "", text, "hence version, on both")
	}
	for _, workspace := range slices.Sorted(maps.Keys(c.Differences())) {
		i.Replicas.Difference = c.Differences()[workspace].Error()
		i.problem("replicas", "", i.Replicas.Difference, "hence version, on both")
	}
}
