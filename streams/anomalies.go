package streams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/topology"
)

// ErrAnomaliesOff is returned by Level, Anomalies and FollowAnomalies when there is no topic of anomalies.
var ErrAnomaliesOff = errors.New("no processor looks for anomalies")

// Bounds of Anomalies.
const (
	maxAnomalies     = 1000
	maxAnomaliesBack = 10_000 // records before the end
)

// Level asks what the last operations of a workspace leave of the levels. It fails with ErrNoAnswer where no process
// answers in time, and also with ErrAnomaliesOff where there is not even a topic.
func (c *Client) Level(ctx context.Context, workspace string) (*topology.AnomalyLevel, error) {
	b, err := c.ask(ctx, topology.AskLevel, workspace, "", 1)
	if errors.Is(err, ErrNoAnswer) {
		// Where there is not even a topic no answer will come.
		err = errors.Join(c.anomaliesThere(ctx), err)
	}
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
// hence.anomalies and the record itself: from a place on, or -1: from now on; until ctx ends or each
// fails. A finding may come again, under the same ID. It fails with ErrAnomaliesOff where there is no such topic.
func (c *Client) FollowAnomalies(ctx context.Context, workspace string, from int64,
	each func(at int64, a *topology.Anomaly, record []byte) error,
) error {
	if err := topology.ValidWorkspace(workspace); err != nil {
		return err
	}
	failed := func(err error) error { return fmt.Errorf("follow the anomalies of %s: %w", workspace, err) }
	if err := c.anomaliesThere(ctx); err != nil { // to wait would look as if nothing were found
		return failed(err)
	}
	partition := topology.PartitionOf(workspace, c.cfg.Partitions)
	if from < 0 {
		var err error
		if from, err = EndOffset(ctx, c.log, topology.TopicAnomalies, partition); err != nil {
			return failed(err)
		}
	}
	return failed(c.cfg.ReadRange(ctx, topology.TopicAnomalies, partition, from, math.MaxInt64,
		func(r *kgo.Record) error {
			if string(r.Key) != workspace {
				return nil
			}
			a, err := topology.DecodeAnomaly(r.Value)
			if err != nil || a.Workspace != workspace {
				return nil // of a later release, or of a foreign producer
			}
			return each(r.Offset, a, r.Value)
		}))
}

// anomaliesThere is ErrAnomaliesOff where there is no topic of anomalies.
func (c *Client) anomaliesThere(ctx context.Context) error {
	there, err := kadm.NewClient(c.log).ListTopics(ctx, topology.TopicAnomalies)
	if err == nil && !there.Has(topology.TopicAnomalies) {
		err = ErrAnomaliesOff
	}
	return err
}

// Anomalies are the newest findings of a workspace, each once, newest first: at most limit and 1,000, of the last
// 10,000 records of its partition.
func (c *Client) Anomalies(ctx context.Context, workspace string, limit int) (found []topology.Anomaly, err error) {
	if err := topology.ValidWorkspace(workspace); err != nil {
		return nil, err
	}
	failed := func(err error) error { return fmt.Errorf("anomalies of %s: %w", workspace, err) }
	if err := c.anomaliesThere(ctx); err != nil {
		return nil, failed(err)
	}
	partition := topology.PartitionOf(workspace, c.cfg.Partitions)
	end, err := EndOffset(ctx, c.log, topology.TopicAnomalies, partition)
	if err != nil {
		return nil, failed(err)
	}
	limit = min(max(limit, 1), maxAnomalies)
	err = c.cfg.ReadRange(ctx, topology.TopicAnomalies, partition, max(end-maxAnomaliesBack, 0), end,
		func(r *kgo.Record) error {
			if string(r.Key) != workspace {
				return nil
			}
			a, err := topology.DecodeAnomaly(r.Value)
			if err != nil || slices.ContainsFunc(found, func(b topology.Anomaly) bool { return a.ID() == b.ID() }) {
				return nil
			}
			if found = append(found, *a); len(found) > limit {
				found = found[1:]
			}
			return nil
		})
	slices.Reverse(found)
	if err != nil {
		return found, failed(err)
	}
	return found, nil
}
