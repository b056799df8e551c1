package agent

import (
	"context"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/view"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// Log is what a sidecar needs of the log and of the tables derived from it. streams.Client is one.
type Log interface {
	Writer
	view.Source
	view.Tables
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
