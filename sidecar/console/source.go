package console

import (
	"context"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// Source is where the console looks: streams.Client is one.
type Source interface {
	Tails
	Tables
	Folds
	// Ready says per dependency what is wrong with it; nil values are good ones.
	Ready(ctx context.Context) map[string]error
}

// Tails are the records as they come.
type Tails interface {
	// Follow gives every outcome after a seq, in order and without gaps, until ctx ends or apply errs.
	Follow(ctx context.Context, workspace string, after sequencer.Seq,
		apply func(*sequencer.Outcome, streams.Way) error) error
	// FollowAt is Follow with the time of the record that a decision answers; zero: not known.
	FollowAt(ctx context.Context, workspace string, after sequencer.Seq,
		apply func(*sequencer.Outcome, streams.Way, time.Time) error) error
	// FollowEvents gives what agents do, from some time back on; an event may come twice.
	FollowEvents(ctx context.Context, workspace string, back time.Duration, each func(*topology.Event) error) error
	// Effects are one transaction's tool calls, with arguments and answers.
	Effects(ctx context.Context, workspace string, tx sequencer.TxID) ([]*topology.Event, error)
	// Residue is the newest of what could not be made clean.
	Residue(ctx context.Context, workspace string, limit int) ([]topology.Residue, error)
}

// Tables answers from the derived tables; they may lag.
type Tables interface {
	Closure(ctx context.Context, workspace string, tx sequencer.TxID, limit int) (*topology.Closure, error)
	Scopes(ctx context.Context, workspace string, prefix sequencer.Scope, limit int) (topology.Scopes, error)
	Snapshot(ctx context.Context, workspace string) (*topology.Snapshot, error)
	// Level and Anomalies are what is found among the last operations, where that is looked for.
	Level(ctx context.Context, workspace string) (*topology.AnomalyLevel, error)
	Anomalies(ctx context.Context, workspace string, limit int) ([]topology.Anomaly, error)
}

// Folds answer for the fold itself, exactly as of a seq.
type Folds interface {
	Live(ctx context.Context, workspace string) (topology.Live, error)
	Cone(ctx context.Context, workspace string, tx sequencer.TxID) (*topology.Cone, error)
	Rules(ctx context.Context, workspace string) (_ sequencer.Rules, through sequencer.Seq, _ error)
}

// Actions are what an operator may do, and with a token of their own people who approve: the client of a sidecar is
// one.
type Actions interface {
	ApproveAs(ctx context.Context, token, tx string, index uint32, yes bool, args string) (api.Decision, error)
	AcceptResidue(ctx context.Context, tx string, index uint32, note string) (api.Residue, error)
	RetryResidueWith(ctx context.Context, tx string, index uint32, allowed api.RetryResidue) (api.Residue, error)
	Retract(ctx context.Context, tx, reason string, dry bool) (api.Retraction, error)
}
