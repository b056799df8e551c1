package streams

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// Newest is the seq of the last decision of a workspace that JetStream has; zero: none. It is for those who measure:
// the stream may lag behind the log, and may be away.
func (c *Client) Newest(ctx context.Context, workspace string) (sequencer.Seq, error) {
	if err := topology.ValidWorkspace(workspace); err != nil {
		return 0, err
	}
	if c.js == nil {
		return 0, errors.New("newest decision: no NATS address is configured")
	}
	id, err := c.firstID(ctx)
	if err != nil {
		return 0, fmt.Errorf("newest decision of %s: %w", workspace, err)
	}
	stream, err := c.js.Stream(ctx, topology.DecisionStream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return 0, nil // the processors have not made it yet
	}
	if err != nil {
		return 0, fmt.Errorf("newest decision of %s: %w", workspace, err)
	}
	last, err := stream.GetLastMsgForSubject(ctx, topology.DecisionSubject(workspace))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("newest decision of %s: %w", workspace, err)
	}
	if last.Header.Get(topology.HeaderLog) != id {
		return 0, nil // it is of a former log
	}
	o, err := topology.DecodeOutcome(last.Data)
	if err != nil {
		return 0, fmt.Errorf("newest decision of %s: %w", workspace, err)
	}
	return o.Seq, nil
}

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
	start, err := StartOffset(ctx, c.log, topology.TopicDecisions, partition)
	if err != nil {
		return 0, err
	}
	to, err := offsetAfter(ctx, t.UnixMilli(), c.log, topology.TopicDecisions, partition)
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
	err := c.cfg.ReadRange(ctx, topology.TopicDecisions, partition, from, to, func(r *kgo.Record) error {
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
	err = c.cfg.ReadRange(ctx, topology.TopicEvents, partition, from, math.MaxInt64, func(r *kgo.Record) error {
		if topology.WorkspaceOfKey(string(r.Key)) != workspace {
			return nil
		}
		events, err := topology.DecodeEvents(r.Value)
		if err != nil {
			return nil // the processors park it
		}
		for _, ev := range events {
			if err := each(ev); err != nil {
				return err
			}
		}
		return nil
	})
	return fmt.Errorf("follow the events of %s: %w", workspace, err)
}

// eventsSince is the offset of the first event at or after a time; the end when there is none.
func (c *Client) eventsSince(ctx context.Context, partition int32, t time.Time) (int64, error) {
	end, err := EndOffset(ctx, c.log, topology.TopicEvents, partition)
	if err != nil {
		return 0, err
	}
	from, err := offsetAfter(ctx, t.UnixMilli(), c.log, topology.TopicEvents, partition)
	if err != nil {
		return 0, err
	}
	return max(from, end-maxEventsBack), nil
}
