package streams

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/topology"
)

// maxEventsBack is how many records before the end FollowEvents begins at most, whatever time is asked for.
const maxEventsBack = 100_000

// FollowEvents calls each for the events of a workspace as they come to hence.events, beginning with those of the last
// back and at most 100,000 records before the end, until ctx ends or each fails. An event may come twice, under the
// same Index; what cannot be read is passed over. It is for people who watch: nothing is decided by it.
func (c *Client) FollowEvents(ctx context.Context, workspace string, back time.Duration,
	each func(*topology.Event) error,
) error {
	if err := topology.ValidWorkspace(workspace); err != nil {
		return err
	}
	partition := topology.PartitionOf(workspace, c.cfg.Partitions)
	from, err := c.eventsSince(ctx, partition, c.cfg.Clock.Now().Add(-back))
	if err != nil {
		return fmt.Errorf("follow the events of %s: %w", workspace, err)
	}
	err = c.cfg.readRange(ctx, topology.TopicEvents, partition, from, math.MaxInt64, func(r *kgo.Record) error {
		if topology.WorkspaceOfKey(string(r.Key)) != workspace {
			return nil
		}
		ev, err := topology.DecodeEvent(r.Value)
		if err != nil {
			return nil // the processors park it
		}
		return each(ev)
	})
	return fmt.Errorf("follow the events of %s: %w", workspace, err)
}

// eventsSince is the offset of the first event at or after a time; the end when there is none.
func (c *Client) eventsSince(ctx context.Context, partition int32, t time.Time) (int64, error) {
	end, err := endOffset(ctx, c.log, topology.TopicEvents, partition)
	if err != nil {
		return 0, err
	}
	after := func(ctx context.Context, topics ...string) (kadm.ListedOffsets, error) {
		return kadm.NewClient(c.log).ListOffsetsAfterMilli(ctx, t.UnixMilli(), topics...)
	}
	from, err := listOffset(ctx, "first event", after, topology.TopicEvents, partition)
	if err != nil {
		return 0, err
	}
	return max(from, end-maxEventsBack), nil
}
