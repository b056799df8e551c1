// Package export writes a workspace's log as a trace: the history that "hence check" reads.
package export

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams/recorded"
	"github.com/hence-dev/hence/topology/audit"
	"github.com/hence-dev/hence/topology/history"
	"github.com/hence-dev/hence/topology/trace"
)

// Options are what of a log is written.
type Options struct {
	Tx     sequencer.TxID // with those that it met; empty: all
	Oldest bool           // begin with the oldest decision that is kept, where retention has deleted the first ones
}

// Result is what was written.
type Result struct {
	Workspace  string        `json:"workspace"`
	First      sequencer.Seq `json:"first_seq"` // the decisions that were read
	Last       sequencer.Seq `json:"last_seq"`
	Operations int           `json:"operations"`
	Aborted    int           `json:"aborted"` // of these: refused, or taken back
	Unread     int           `json:"unread"`  // of all that were read: without footprint, since its intent was deleted
}

// Write writes a workspace's history, in the order of its decisions, a line at a time.
func Write(ctx context.Context, log *recorded.Log, to io.Writer, o Options) (*Result, error) {
	after := sequencer.Seq(0)
	if o.Oldest {
		oldest, err := log.Oldest(ctx)
		if err != nil {
			return nil, err
		}
		after = max(oldest, 1) - 1
	}
	wanted := func(*trace.Record) bool { return true }
	if o.Tx != "" {
		var one *trace.Record
		_, err := each(ctx, log, after, func(r *trace.Record) error {
			if r.Txn == trace.ID(o.Tx) {
				one = r
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		if one == nil {
			return nil, fmt.Errorf("no transaction %s is decided in the log of %s: hence tail shows those that are", o.Tx,
				log.Workspace)
		}
		wanted = func(r *trace.Record) bool { return met(one, r) }
	}
	w := trace.NewWriter(to)
	var operations, aborted int
	result, err := each(ctx, log, after, func(r *trace.Record) error {
		if !wanted(r) {
			return nil
		}
		operations++
		if !r.TookEffect() {
			aborted++
		}
		r.Excerpt = trace.ID(o.Tx)
		return w.Write(*r)
	})
	if err != nil {
		return nil, err
	}
	result.Operations, result.Aborted = operations, aborted
	return result, w.Flush()
}

// each makes the operations of a log: one look at all of it, to know what was taken back later, and one to make them.
func each(ctx context.Context, log *recorded.Log, after sequencer.Seq, f func(*trace.Record) error) (*Result, error) {
	b := history.New(after)
	err := log.Intents(ctx, func(in recorded.Intent) error {
		b.ScanIntent(in.Intent)
		return nil
	})
	if err != nil {
		return nil, err
	}
	result := &Result{Workspace: log.Workspace}
	err = log.Decisions(ctx, after, func(d recorded.Decision) error {
		if result.First == 0 {
			result.First = d.Seq
		}
		result.Last = d.Seq
		b.ScanDecision(d.Outcome)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if result.Last == 0 {
		return nil, audit.Nothing(log.Workspace)
	}
	err = log.Events(ctx, func(e recorded.Event) error {
		b.Event(e.Event)
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = log.Together(ctx, after, func(in recorded.Intent) error {
		b.Intent(in.In.Offset, in.Intent)
		return nil
	}, func(d recorded.Decision) error {
		for _, r := range b.Decision(d.Outcome) {
			if err := f(&r); err != nil {
				return err
			}
		}
		return nil
	})
	result.Unread = b.Unread()
	return result, err
}

// met reports whether an operation is the one asked for, or has to do with it directly: the one rests on the other,
// or they met in a cell that one of both wrote.
func met(one, r *trace.Record) bool {
	share := func(a, b []string) bool {
		return slices.ContainsFunc(a, func(cell string) bool {
			_, has := slices.BinarySearch(b, cell)
			return has
		})
	}
	return r.Txn == one.Txn || slices.Contains(one.Preds, r.Txn) || slices.Contains(r.Preds, one.Txn) ||
		share(one.ReadSet, r.WriteSet) || share(one.WriteSet, r.ReadSet) || share(one.WriteSet, r.WriteSet)
}
