package processor

import (
	"errors"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/internal/meters"
	"github.com/hence-dev/hence/topology"
)

// RebuiltRows are the rows of both tables as one reading of the log from its first record makes them, by group and
// key: all events first, then all decisions.
func RebuiltRows(events, decisions []*kgo.Record) (map[string]map[string][]byte, error) {
	cfg := streams.Config{Logger: slog.New(slog.DiscardHandler), Partitions: 2}
	bare := func() *base {
		return &base{cfg: cfg, metrics: meters.New(prometheus.NewRegistry()), stores: make(map[int32]*tableStore)}
	}
	c, f := newClosureProcessor(bare(), nil), newFrontierProcessor(bare(), nil)
	closures := c.newPart(0, newTableStore(streams.TableSpan{}, nil))
	frontiers := f.newPart(0, newTableStore(streams.TableSpan{}, nil))
	l := newLedger(func(string, int32, int64) {})
	e := l.begin("", 0, 0)
	for _, r := range events {
		ev, err := topology.DecodeEvent(r.Value)
		if err != nil {
			return nil, err
		}
		if ev.Tx != "" && ev.Kind != topology.EventContent {
			c.change(closures, ev.Workspace, ev.Tx, l, e, func(row *topology.ClosureRow) { joinEvent(row, ev, r.Offset) })
		}
	}
	last := make(map[string]sequencer.Seq)
	for _, r := range decisions {
		o, err := topology.DecodeCloudEvent(r.Value)
		if err != nil {
			return nil, err
		}
		if o.Seq <= last[o.Workspace] {
			continue // a second copy
		}
		last[o.Workspace] = o.Seq
		if o.Tx != "" {
			c.change(closures, o.Workspace, o.Tx, l, e, func(row *topology.ClosureRow) { joinOutcome(row, o) })
		}
		f.apply(frontiers, topology.SplitByScope(o), l, e)
	}
	rows := make(map[string]map[string][]byte)
	return rows, errors.Join(written(closures, rows, topology.GroupClosure),
		written(frontiers, rows, topology.GroupFrontier))
}

// written adds the rows that a partition has in memory.
func written[R any](p *lazyPart[R], rows map[string]map[string][]byte, group string) error {
	rows[group] = make(map[string][]byte)
	for _, u := range p.units {
		for key, row := range u.rows {
			value, err := p.form.write(row)
			if err != nil {
				return err
			}
			rows[group][key] = value
		}
	}
	return nil
}
