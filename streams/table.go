package streams

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/topology"
)

// TableSpan is what a reader of one partition of a table has to read: offsets From to End, without End.
type TableSpan struct {
	Committed        // what the table's group had committed of the partition of its MarkerTopic
	Table     string // id of the table's topic
	Start     int64  // the first offset that the partition still has
	Marker    int64  // the offset from which a marker says that it is whole; -1: none that can be used
	End       int64  // where the next record will go; all before it is acknowledged
}

// Committed is what a group has committed of one partition of an input.
type Committed struct {
	Offset   int64 // where the group reads on; -1: it has committed nothing
	Metadata string
}

// From is where a reader begins. Without a marker it is the log's start: records are only ever deleted up to an
// earlier marker.
func (s TableSpan) From() int64 { return max(s.Start, s.Marker) }

// SpanOfTable asks where one partition of a group's table is to be read from, given what the group has committed. A
// marker of another topic, of a form that is not known or behind the end is none. Errors are Kafka's.
func SpanOfTable(ctx context.Context, cl *kgo.Client, group string, partition int32, of Committed) (
	s TableSpan, err error,
) {
	s, table := TableSpan{Committed: of, Marker: -1}, topology.TableOf(group)
	if s.Table, err = TopicID(ctx, cl, table); err != nil {
		return s, fmt.Errorf("id of %s: %w", table, err)
	}
	if s.Start, err = StartOffset(ctx, cl, table, partition); err != nil {
		return s, err
	}
	if s.End, err = EndOffset(ctx, cl, table, partition); err != nil {
		return s, err
	}
	if m, ok := topology.ParseMarker(of.Metadata); ok && m.Table == s.Table && m.From <= s.End {
		s.Marker = m.From
	}
	return s, nil
}

// markerIn bounds a client's question for a marker: without its answer a reader only reads more.
const markerIn = 2 * time.Second

// SpanToRead is SpanOfTable for who only looks at a table, and perhaps may not look at its group.
func SpanToRead(ctx context.Context, cl *kgo.Client, group string, partition int32) (TableSpan, error) {
	askCtx, cancel := context.WithTimeout(ctx, markerIn)
	of, _ := CommittedOf(askCtx, cl, group, topology.MarkerTopic(group), partition)
	cancel()
	return SpanOfTable(ctx, cl, group, partition, of)
}

// CommittedOf asks what a group has committed of a partition.
func CommittedOf(ctx context.Context, cl *kgo.Client, group, topic string, partition int32) (Committed, error) {
	none := Committed{Offset: -1}
	offsets, err := kadm.NewClient(cl).FetchOffsets(ctx, group)
	if err != nil {
		return none, fmt.Errorf("offsets of group %s: %w", group, err)
	}
	o, ok := offsets.Lookup(topic, partition)
	if !ok {
		return none, nil
	}
	if o.Err != nil {
		return none, fmt.Errorf("offset of group %s in %s/%d: %w", group, topic, partition, o.Err)
	}
	return Committed{Offset: o.At, Metadata: o.Metadata}, nil
}
