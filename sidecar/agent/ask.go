package agent

import (
	"context"
	"sync"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/view"
)

// questions are intents that belong to no transaction of this sidecar and whose answer somebody waits for. The zero
// value is ready.
type questions struct {
	mu   sync.Mutex
	byID map[string]*question
}

type question struct {
	asked  int
	answer *sequencer.Outcome
}

func (q *questions) expect(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.byID == nil {
		q.byID = map[string]*question{}
	}
	if q.byID[id] == nil {
		q.byID[id] = &question{}
	}
	q.byID[id].asked++
}

func (q *questions) drop(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if one := q.byID[id]; one != nil {
		if one.asked--; one.asked == 0 {
			delete(q.byID, id)
		}
	}
}

// observe keeps the first decision on an intent that somebody waits for: what it leads to has its id, too.
func (q *questions) observe(o *sequencer.Outcome) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if one := q.byID[o.Intent]; one != nil && one.answer == nil {
		one.answer = o
	}
}

func (q *questions) answer(id string) *sequencer.Outcome {
	q.mu.Lock()
	defer q.mu.Unlock()
	if one := q.byID[id]; one != nil {
		return one.answer
	}
	return nil
}

// ask appends an intent, again and again until the view shows its decision, or that done holds: then there may be
// none.
func (s *Agent) ask(ctx context.Context, in *sequencer.Intent, done func() bool) (*sequencer.Outcome, error) {
	id := in.ID()
	s.questions.expect(id)
	defer s.questions.drop(id)
	over := func() bool { return s.questions.answer(id) != nil || done() }
	err := view.Retry(ctx, func() error {
		if over() {
			return nil
		}
		try, cancel := context.WithTimeout(ctx, appendTry)
		defer cancel()
		if _, err := s.append(try, in); err != nil {
			return err
		}
		return s.view.Waits.Until(try, view.WaitIntent(id), over)
	}, func(err error) {
		s.log.Warn("an intent has no decision yet: it is repeated", "intent", id, "cause", err)
	})
	if err != nil {
		return nil, err
	}
	return s.questions.answer(id), nil
}
