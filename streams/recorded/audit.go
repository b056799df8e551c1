package recorded

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
	"github.com/hence-dev/hence/topology/audit"
)

// Sealed is a workspace's part of the log with what the processors have sealed of it: what an audit reads, and a
// bundle is made of. It implements audit.Source.
type Sealed struct {
	*Log
	ID      string // of the log, as Kafka gave it to hence.intents
	SealsAt Span
	NoSeals bool // there is no topic hence.seals
}

// OpenSealed is Open for an audit.
func OpenSealed(ctx context.Context, cfg streams.Config, workspace string) (*Sealed, error) {
	if err := topology.ValidWorkspace(workspace); err != nil {
		return nil, err
	}
	cfg, err := cfg.Checked()
	if err != nil {
		return nil, err
	}
	cl, err := kgo.NewClient(cfg.BaseOptions()...)
	if err != nil {
		return nil, fmt.Errorf("read the log of %s: %w", workspace, err)
	}
	defer cl.Close()
	s := &Sealed{Log: &Log{Partition: topology.PartitionOf(workspace, cfg.Partitions)}}
	if s.ID, err = streams.TopicID(ctx, cl, topology.TopicIntents); err != nil {
		return nil, fmt.Errorf("read the log of %s: %w", workspace, s.why(topology.TopicIntents, err))
	}
	// Seals first: each that is read here is then over decisions that are read here too.
	s.SealsAt, err = spanOf(ctx, cl, topology.TopicSeals, s.Partition)
	if s.NoSeals = errors.Is(err, kerr.UnknownTopicOrPartition); err != nil && !s.NoSeals {
		return nil, fmt.Errorf("read the log of %s: %w", workspace, s.why(topology.TopicSeals, err))
	}
	s.Log, err = Open(ctx, cfg, workspace)
	return s, err
}

// Head implements audit.Source.
func (s *Sealed) Head() (workspace, log string) { return s.Workspace, s.ID }

// Place implements audit.Source.
func (s *Sealed) Place(topic string) audit.Place {
	span, known := s.span(topic)
	absent := !known
	if topic == topology.TopicSeals {
		span, absent = s.SealsAt, s.NoSeals
	}
	return audit.Place{Partition: s.Partition, Start: span.Start, End: span.End, Absent: absent}
}

// Each implements audit.Source. What it gives the function is of that call alone.
func (s *Sealed) Each(ctx context.Context, topic string, f func(audit.Record) error) error {
	take := func(r *kgo.Record) error {
		if string(r.Key) != s.Workspace {
			return nil
		}
		rec := audit.Record{Offset: r.Offset, Value: r.Value}
		for _, h := range r.Headers {
			if h.Key == topology.HeaderSignature && topic == topology.TopicSeals {
				rec.Signature = h.Value
			}
		}
		return f(rec)
	}
	if topic != topology.TopicSeals {
		return s.Log.Each(ctx, topic, take)
	}
	if s.NoSeals {
		return nil
	}
	err := s.cfg.ReadRange(ctx, topic, s.Partition, s.SealsAt.Start, s.SealsAt.End, take)
	if err != nil {
		return fmt.Errorf("read the log of %s: %w", s.Workspace, s.why(topic, err))
	}
	return nil
}
