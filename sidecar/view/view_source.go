package view

import (
	"context"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// TableWait is how long a derived table may take to answer.
const TableWait = 5 * time.Second

// Source delivers decisions and what they refer to.
type Source interface {
	Snapshot(ctx context.Context, workspace string) (*topology.Snapshot, error)
	// Follow gives every outcome after a seq to apply, in order and without gaps, until ctx ends or apply errs.
	Follow(ctx context.Context, workspace string, after sequencer.Seq,
		apply func(*sequencer.Outcome, streams.Way) error) error
	// FollowAt is Follow with the time of the record that a decision answers; zero: not known.
	FollowAt(ctx context.Context, workspace string, after sequencer.Seq,
		apply func(*sequencer.Outcome, streams.Way, time.Time) error) error
	Content(ctx context.Context, workspace string, ref sequencer.Ref) ([]byte, error)
}

// Tables answers what concerns no agent. Derived tables may lag.
type Tables interface {
	Closure(ctx context.Context, workspace string, tx sequencer.TxID, limit int) (*topology.Closure, error)
	Frontier(ctx context.Context, workspace string, prefix sequencer.Scope, limit int) ([]topology.FrontierRow, error)
	// Live is what goes on in a workspace: sidecars with a lease, transactions that are not final.
	Live(ctx context.Context, workspace string) (topology.Live, error)
	// Ready says per dependency what is wrong with it; nil values are good ones.
	Ready(ctx context.Context) map[string]error
}
