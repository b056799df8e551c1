package agent

import (
	"context"
	"errors"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/agent/settle"
	"github.com/hence-dev/hence/sidecar/view"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// Log is what a sidecar needs of the log and of the tables derived from it. streams.Client is one.
type Log interface {
	Writer
	view.Source
	view.Tables
	settle.Records
	Folds
	// Parts gives a content part by part, in the memory of a few; the last one only when all together are what the
	// reference names. With streams.ErrContent one is missing for good, or damaged.
	Parts(ctx context.Context, workspace string, ref sequencer.Ref, take func(part []byte) error) error
	// ID names the log: no other has it, even one with the same workspaces and transactions. The error is
	// streams.ErrOtherLog when it is not the one any more that was first asked for.
	ID(ctx context.Context) (string, error)
}

// Writer takes intents and events.
type Writer interface {
	// Append adds an intent and returns once it is durable. An error leaves it unknown whether it was added, or will be:
	// but not after an intent that was appended later and acknowledged.
	Append(ctx context.Context, workspace string, in *sequencer.Intent) (offset int64, err error)
	// PublishAsync adds events of one transaction in one record, and calls done once, from any goroutine.
	PublishAsync(events []*topology.Event, done func(sequencer.Place, error))
}

// Folds answer for the fold itself, exactly as of through.
type Folds interface {
	// Cone is what retracting a transaction would undo now.
	Cone(ctx context.Context, workspace string, tx sequencer.TxID) (*topology.Cone, error)
	// Rules are those in force.
	Rules(ctx context.Context, workspace string) (_ sequencer.Rules, through sequencer.Seq, _ error)
	// KnownLogic is the newest logic that all owners of a workspace know.
	KnownLogic(ctx context.Context, workspace string) (uint32, error)
	// KnownEvents is the newest format of hence.events that all owners of a workspace read.
	KnownEvents(ctx context.Context, workspace string) (uint32, error)
}

var _ Log = (*streams.Client)(nil)

// questions are intents that belong to no transaction of this sidecar and whose answer a caller waits for. The zero
// value is ready.
type questions struct{ byID map[string]*question }

type question struct {
	asked  int
	answer *sequencer.Outcome
}

func (q *questions) expect(id string) {
	if q.byID == nil {
		q.byID = map[string]*question{}
	}
	if q.byID[id] == nil {
		q.byID[id] = &question{}
	}
	q.byID[id].asked++
}

func (q *questions) drop(id string) {
	if one := q.byID[id]; one != nil {
		if one.asked--; one.asked == 0 {
			delete(q.byID, id)
		}
	}
}

// observe keeps the first decision on an intent that a caller waits for: what it leads to has its id, too.
func (q *questions) observe(o *sequencer.Outcome) {
	if one := q.byID[o.Intent]; one != nil && one.answer == nil {
		one.answer = o
	}
}

func (q *questions) answer(id string) *sequencer.Outcome {
	if one := q.byID[id]; one != nil {
		return one.answer
	}
	return nil
}

// How long one try of something may take before it is tried again.
const (
	appendTry  = 5 * time.Second
	joinTry    = 10 * time.Second
	resolveTry = 30 * time.Second
)

// idTry is how long the log may take to say its id before that is said.
const idTry = 5 * time.Second

var errResolved = errors.New("all that was looked for in the log was seen")
