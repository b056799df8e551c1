package recorded

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
	"github.com/hence-dev/hence/topology/audit"
)

// FromBundle is Open for a bundle: it has no events, and its records have no time of their own.
func FromBundle(b audit.Source) *Log {
	l := &Log{bundle: b}
	l.Workspace, _ = b.Head()
	intents, decisions := b.Place(topology.TopicIntents), b.Place(topology.TopicDecisions)
	l.Partition = decisions.Partition
	l.IntentsAt, l.DecisionsAt = Span{intents.Start, intents.End}, Span{decisions.Start, decisions.End}
	return l
}

// eachBundled is Each of a bundle.
func (l *Log) eachBundled(ctx context.Context, topic string, f func(*kgo.Record) error) error {
	if l.bundle.Place(topic).Absent {
		return fmt.Errorf("%w: the bundle has no %s", ErrGone, topic)
	}
	err := l.bundle.Each(ctx, topic, func(r audit.Record) error {
		return f(&kgo.Record{Topic: topic, Partition: l.Partition, Offset: r.Offset, Key: []byte(l.Workspace),
			Value: r.Value})
	})
	if err == nil || errors.Is(err, streams.ErrStop) {
		return nil
	}
	return fmt.Errorf("read the bundle of %s: %w", l.Workspace, err)
}
