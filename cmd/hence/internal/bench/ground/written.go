package ground

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// sampled is how many records of a partition are read to know how large those of its topic are.
const sampled = 1000

// Mark is how far each partition of each topic of Hence is.
type Mark kadm.ListedOffsets

// Mark reads the end offsets.
func (g *Ground) Mark(ctx context.Context) (Mark, error) {
	var names []string
	for _, t := range g.Servers.Topics() {
		names = append(names, t.Name)
	}
	ends, err := kadm.NewClient(g.looks).ListEndOffsets(ctx, names...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("read the end offsets: %w", err)
	}
	return Mark(ends), nil
}

// Written is what went into a topic.
type Written struct {
	Topic   string
	Records int64
	Bytes   int64 // of keys, values and headers, before compression; from the last records of each partition
}

// Written is what was written between two marks, of all who use these servers, by topic in the order of the topology.
// A topic without a record is not there.
func (g *Ground) Written(ctx context.Context, from, to Mark) (all []Written, err error) {
	for _, t := range g.Servers.Topics() {
		w := Written{Topic: t.Name}
		for partition, end := range to[t.Name] {
			begin := from[t.Name][partition].Offset
			n := end.Offset - begin
			if n == 0 {
				continue
			}
			read, bytes := int64(0), int64(0)
			err := g.Servers.ReadRange(ctx, t.Name, partition, max(begin, end.Offset-sampled), end.Offset,
				func(r *kgo.Record) error {
					read++
					bytes += int64(len(r.Key) + len(r.Value))
					for _, h := range r.Headers {
						bytes += int64(len(h.Key) + len(h.Value))
					}
					return nil
				})
			if err != nil {
				return nil, err
			}
			w.Records += n
			if read > 0 { // else all of them were compacted away
				w.Bytes += bytes * n / read
			}
		}
		if w.Records > 0 {
			all = append(all, w)
		}
	}
	return all, nil
}
