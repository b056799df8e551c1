package streams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/topology"
)

// ErrAnomaliesOff is returned by FollowAnomalies when there is no topic of anomalies.
var ErrAnomaliesOff = errors.New("nobody looks for anomalies")

// Level asks what the last operations of a workspace leave of the levels. It fails with ErrNoAnswer also where no
// process looks for anomalies.
func (c *Client) Level(ctx context.Context, workspace string) (*topology.AnomalyLevel, error) {
	b, err := c.ask(ctx, topology.AskLevel, workspace, "", 1)
	if err != nil {
		return nil, fmt.Errorf("level of %s: %w", workspace, err)
	}
	level := new(topology.AnomalyLevel)
	if err := json.Unmarshal(b, level); err != nil {
		return nil, fmt.Errorf("level of %s: %w", workspace, err)
	}
	return level, nil
}

// FollowAnomalies calls each for the anomalies of a workspace as they are found, with the place of their record in
// hence.anomalies and the record itself: those behind the place after, or -1: from now on; until ctx ends or each
// fails. A finding may come again, under the same ID. It fails with ErrAnomaliesOff where there is no such topic.
func (c *Client) FollowAnomalies(ctx context.Context, workspace string, after int64,
	each func(at int64, a *topology.Anomaly, record []byte) error,
) error {
	if err := topology.ValidWorkspace(workspace); err != nil {
		return err
	}
	failed := func(err error) error { return fmt.Errorf("follow the anomalies of %s: %w", workspace, err) }
	there, err := kadm.NewClient(c.log).ListTopics(ctx, topology.TopicAnomalies)
	if err != nil {
		return failed(err)
	}
	if !there.Has(topology.TopicAnomalies) { // to wait for one would look as if nothing were found
		return failed(ErrAnomaliesOff)
	}
	partition := topology.PartitionOf(workspace, c.cfg.Partitions)
	if after < 0 {
		end, err := EndOffset(ctx, c.log, topology.TopicAnomalies, partition)
		if err != nil {
			return failed(err)
		}
		after = end - 1
	}
	return failed(c.cfg.ReadRange(ctx, topology.TopicAnomalies, partition, after+1, math.MaxInt64,
		func(r *kgo.Record) error {
			if string(r.Key) != workspace {
				return nil
			}
			a, err := topology.DecodeAnomaly(r.Value)
			if err != nil || a.Workspace != workspace {
				return nil // of a later release, or of somebody else
			}
			return each(r.Offset, a, r.Value)
		}))
}
