package settle

import (
	"context"
	"errors"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/loop"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

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

// Log is what settlements need of the log and of the tables derived from it.
type Log interface {
	Records
	// Follow gives every outcome after a seq to apply, in order and without gaps, until ctx ends or apply errs.
	Follow(ctx context.Context, workspace string, after sequencer.Seq,
		apply func(*sequencer.Outcome, streams.Way) error) error
	// Cone is what retracting a transaction would undo now.
	Cone(ctx context.Context, workspace string, tx sequencer.TxID) (*topology.Cone, error)
	// Closure is what a transaction rests on and what rests on it; the table may lag.
	Closure(ctx context.Context, workspace string, tx sequencer.TxID, limit int) (*topology.Closure, error)
}

// Reader reads one workspace's log inside of flows, which give way while the log answers.
type Reader struct {
	Loop      loop.Timed
	Events    Log
	Workspace string
}

// Unsettled are the decided transactions of an agent, or of all, that are not settled, exactly as of through.
func (r Reader) Unsettled(ctx context.Context, agent string) (rows []topology.Unsettled, through sequencer.Seq,
	err error) {
	r.Loop.Do(func() { // a table answers
		rows, through, err = r.Events.Unsettled(ctx, r.Workspace, agent, maxUnsettled)
	})
	return rows, through, err
}

// Effects are the events of a transaction's calls.
func (r Reader) Effects(ctx context.Context, id sequencer.TxID) ([]*topology.Event, error) {
	return loop.Do(r.Loop, func() ([]*topology.Event, error) { return r.Events.Effects(ctx, r.Workspace, id) })
}

// Through reads the decisions after a seq and gives those that concern look to it, each in the loop, until look says
// that it was the last one, which must concern it. seen: it was; else err is why the log did not come so far, and a
// next try goes on after to. A long log is mostly of others, and a decision that waits for the loop waits behind all
// that does: so concern is asked outside of it.
func (r Reader) Through(ctx context.Context, after sequencer.Seq, concern func(*sequencer.Outcome) bool,
	look func(*sequencer.Outcome) (last bool)) (to sequencer.Seq, seen bool, err error) {
	to = after
	r.Loop.Do(func() { // the log delivers
		err = r.Events.Follow(ctx, r.Workspace, after, func(o *sequencer.Outcome, _ streams.Way) error {
			if concern(o) {
				r.Loop.Run(func() { seen = look(o) })
			}
			if to = o.Seq; seen {
				return errSeen
			}
			return nil
		})
	})
	if seen {
		return to, true, nil
	}
	return to, false, err
}

// errSeen ends a look at the log that has seen what it was for.
var errSeen = errors.New("all that was looked for in the log was seen")
