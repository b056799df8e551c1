package streams

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// sinceWindow is how many records SeqBefore looks at first; each further look is eight times as wide.
const sinceWindow = 512

// SeqBefore is the seq of a workspace's last decision that hence.decisions took before a time, by the clocks of its
// publishers: follow after it to see what came since. Zero means that there is none, or none is kept. It is for people
// who watch: nothing is decided by it.
func (c *Client) SeqBefore(ctx context.Context, workspace string, t time.Time) (sequencer.Seq, error) {
	if err := topology.ValidWorkspace(workspace); err != nil {
		return 0, err
	}
	partition := topology.PartitionOf(workspace, c.cfg.Partitions)
	seq, err := c.seqBefore(ctx, workspace, partition, t)
	if err != nil {
		return 0, fmt.Errorf("find the decisions of %s since %s: %w", workspace, t.Format(time.RFC3339), err)
	}
	return seq, nil
}

func (c *Client) seqBefore(ctx context.Context, workspace string, partition int32, t time.Time,
) (sequencer.Seq, error) {
	start, err := startOffset(ctx, c.log, topology.TopicDecisions, partition)
	if err != nil {
		return 0, err
	}
	after := func(ctx context.Context, topics ...string) (kadm.ListedOffsets, error) {
		return kadm.NewClient(c.log).ListOffsetsAfterMilli(ctx, t.UnixMilli(), topics...)
	}
	to, err := listOffset(ctx, "first decision", after, topology.TopicDecisions, partition)
	if err != nil {
		return 0, err
	}
	for wide := int64(sinceWindow); to > start; wide *= 8 {
		from := max(start, to-wide)
		last, err := c.lastSeq(ctx, workspace, partition, from, to)
		if last > 0 || err != nil {
			return last, err
		}
		to = from
	}
	return 0, nil
}

// lastSeq is the greatest seq of a workspace in a range of offsets: a copy of an older decision may lie behind it.
func (c *Client) lastSeq(ctx context.Context, workspace string, partition int32, from, to int64,
) (sequencer.Seq, error) {
	var last sequencer.Seq
	err := c.cfg.readRange(ctx, topology.TopicDecisions, partition, from, to, func(r *kgo.Record) error {
		if string(r.Key) != workspace {
			return nil
		}
		o, err := topology.DecodeCloudEvent(r.Value)
		if err == nil && o.Workspace == workspace {
			last = max(last, o.Seq)
		}
		return nil // what cannot be read is parked by the processors
	})
	return last, err
}
