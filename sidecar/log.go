package sidecar

import (
	"context"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// Log is what a sidecar needs of the log and of the tables derived from it. streams.Client is one.
type Log interface {
	Writer
	Source
	Tables
	Records
	Folds
	// ID names the log: no other has it, even one with the same workspaces and transactions. The error is
	// streams.ErrOtherLog when it is not the one any more that was first asked for.
	ID(ctx context.Context) (string, error)
}

// Writer takes intents and events.
type Writer interface {
	// Append adds an intent and returns once it is durable. An error leaves it unknown whether it was added, or will be:
	// but not after an intent that was appended later and acknowledged.
	Append(ctx context.Context, workspace string, in *sequencer.Intent) (offset int64, err error)
	// PublishAsync adds an event and calls done once, from any goroutine.
	PublishAsync(ev *topology.Event, done func(sequencer.Place, error))
}

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

// Folds answer for the fold itself, exactly as of through.
type Folds interface {
	// Cone is what retracting a transaction would undo now.
	Cone(ctx context.Context, workspace string, tx sequencer.TxID) (*topology.Cone, error)
	// Rules are those in force.
	Rules(ctx context.Context, workspace string) (_ sequencer.Rules, through sequencer.Seq, _ error)
	// KnownLogic is the newest logic that all owners of a workspace know.
	KnownLogic(ctx context.Context, workspace string) (uint32, error)
}

// Records are what is kept of tool calls beyond the journals of those who made them.
type Records interface {
	// Effects gives every event of a transaction's tool calls, in order and complete up to now.
	Effects(ctx context.Context, workspace string, tx sequencer.TxID) ([]*topology.Event, error)
	// PublishResidue puts one effect on the list of those that could not be made clean; the last record of one counts.
	PublishResidue(ctx context.Context, r *topology.Residue) error
	Residue(ctx context.Context, workspace string, limit int) ([]topology.Residue, error)
	// Unsettled lists decided transactions that are not settled, of an agent or of all, exactly as of through.
	Unsettled(ctx context.Context, workspace, agent string, limit int) (_ []topology.Unsettled, through sequencer.Seq,
		_ error)
}

var _ Log = (*streams.Client)(nil)
