package agent

import (
	"context"

	"github.com/hence-dev/hence/gate/failpoint"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/agent/settle"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/loop"
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

// send appends an intent, again and again until it is acknowledged or the view shows that it arrived. An append that
// timed out is unknown: the same intent with the same number is repeated, and the log drops a second copy.
func (s *Agent) send(ctx context.Context, t *tx, in *sequencer.Intent) error {
	s.traces(ctx, t)
	var sent error
	over := false
	ok := s.loop.Go(func(ctx context.Context) { // it goes on when the request does not wait any more
		sent, over = s.repeat(ctx, t, in), true
		s.loop.Moved(&t.changed)
	})
	if !ok {
		return api.Problemf(api.CodeBusy, "the sidecar is stopping, or has too many appends under way")
	}
	if err := s.through(ctx, t, func() bool { return over }); err != nil {
		return err
	}
	return sent
}

// append adds an intent to the log once.
func (s *Agent) append(ctx context.Context, in *sequencer.Intent) (int64, error) {
	if in.Kind == sequencer.IntentSeal { // its footprint's text is published also after a crash
		if err := s.delivery.Flush(); err != nil {
			s.log.Warn("a seal is sent whose footprint's text may not be published", "tx", string(in.Tx), "cause", err)
		}
	}
	ctx, end := s.tracing.append(ctx, in)
	at, err := loop.Do(s.loop, func() (int64, error) { // the log may be away for long
		failpoint.Hit(failpoint.AppendBefore)
		defer failpoint.Hit(failpoint.AppendAfter)
		return s.events.Append(ctx, s.workspace, in)
	})
	end(at, err)
	return at, err
}

func (s *Agent) repeat(ctx context.Context, t *tx, in *sequencer.Intent) error {
	ctx = under(ctx, s.traceOf(t.id))
	return s.loop.Retry(ctx, func() error {
		if s.needless(t, in) {
			return nil
		}
		try, cancel := s.clock.Within(ctx, appendTry)
		defer cancel()
		_, err := s.append(try, in)
		return err
	}, func(err error) {
		s.metrics.AppendErrors.Inc()
		s.log.Warn("an append failed: it is unknown, and repeated", "intent", in.ID(), "cause", err)
	})
}

// needless: the log will not, or need not, take the intent any more.
func (s *Agent) needless(t *tx, in *sequencer.Intent) bool {
	switch in.Kind {
	case sequencer.IntentTouch:
		return t.phase != phaseOpen
	}
	return t.outcome != nil || t.phase == phaseLost
}

// questions are intents that belong to no transaction of this sidecar and whose answer somebody waits for. The zero
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

// observe keeps the first decision on an intent that somebody waits for: what it leads to has its id, too.
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

// ask appends an intent, again and again until the view shows its decision, or that done holds: then there may be
// none.
func (s *Agent) ask(ctx context.Context, in *sequencer.Intent, done func() bool) (*sequencer.Outcome, error) {
	id := in.ID()
	in.Signer = api.SignerOf(ctx)
	s.questions.expect(id)
	defer s.questions.drop(id)
	over := func() bool { return s.questions.answer(id) != nil || done() }
	err := s.loop.Retry(ctx, func() error {
		if over() {
			return nil
		}
		try, cancel := s.clock.Within(ctx, appendTry)
		defer cancel()
		if _, err := s.append(try, in); err != nil {
			return err
		}
		return s.loop.Until(try, over)
	}, func(err error) {
		s.log.Warn("an intent has no decision yet: it is repeated", "intent", id, "cause", err)
	})
	if err != nil {
		return nil, err
	}
	return s.questions.answer(id), nil
}
