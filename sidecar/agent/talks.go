package agent

import (
	"cmp"
	"context"
	"slices"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/sidecar/view"
)

// overtakes is what a decision has written over of one conversation's loose reads.
type overtakes struct {
	scopes []sequencer.Scope
	first  *api.Overtaken
}

// observeLoose tells conversations that a decision has written over what they read.
func (s *Agent) observeLoose(o *sequencer.Outcome) {
	for talk, reads := range s.loose {
		for _, r := range reads {
			at := writtenOver(o, r.Scope)
			if r.View >= o.Seq || at == "" {
				continue
			}
			m := s.moved[talk]
			if m.scopes = api.AddScope(m.scopes, r.Scope); m.first == nil {
				m.first = overtakenBy(o, r.Scope, at)
			}
			s.moved[talk] = m
		}
	}
}

// forgiveMoved: the scope was read again, so that it had moved does not matter any more.
func (s *Agent) forgiveMoved(talk string, scope sequencer.Scope) {
	m := s.moved[talk]
	kept := m.scopes[:0]
	for _, moved := range m.scopes {
		if moved != scope {
			kept = append(kept, moved)
		}
	}
	if m.scopes = kept; m.first != nil && sequencer.Scope(m.first.Scope) == scope {
		m.first = nil
	}
	if s.moved[talk] = m; len(kept) == 0 && m.first == nil {
		delete(s.moved, talk)
	}
}

// loosely answers a read outside any transaction: it goes to the next seal of its conversation.
func (s *Agent) loosely(ctx context.Context, talk string, look func() *reading) (*reading, error) {
	if err := s.await(ctx); err != nil {
		return nil, err
	}
	if err := s.fetched(ctx, look); err != nil {
		return nil, err
	}
	if _, err := s.current(); err != nil {
		return nil, err
	}
	if len(s.loose) >= s.limits.Conversations && len(s.loose[talk]) == 0 { // forgetting another's reads would weaken it
		return nil, api.Problemf(api.CodeLimit, "%d conversations of this agent have read outside transactions and "+
			"sealed nothing since: end those that are over with DELETE /v1/workspaces/%s/session, or read inside a "+
			"transaction", len(s.loose), s.workspace)
	}
	got := look()
	if len(got.lacks()) > 0 {
		return nil, view.BeingFetched(got.lacks()[0])
	}
	got.talk = talk
	entries, err := s.deliverAll(ctx, "", got)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		s.loose.Add(talk, entry)
		s.forgiveMoved(talk, entry.Scope)
	}
	return got, nil
}

// blame puts back what of a conversation's reads was written over: it was not shown what it read again.
func (s *Agent) blame(talk string, was overtakes) {
	m := s.moved[talk]
	for _, scope := range was.scopes {
		if !slices.Contains(m.scopes, scope) {
			m.scopes = append(m.scopes, scope)
		}
	}
	if m.first = cmp.Or(m.first, was.first); len(m.scopes) > 0 {
		s.moved[talk] = m
	}
}

// endTalk drops the loose reads of a conversation that the agent says is over; it returns how many they were. Nothing
// rests on what it read any more, so it is owed no 410 either: its name may come again, for a new one.
func (s *Agent) endTalk(ctx context.Context, talk string) (int, error) {
	if err := s.await(ctx); err != nil {
		return 0, err
	}
	if err := s.toldForgotten(talk); err != nil {
		return 0, err
	}
	if len(s.loose[talk]) == 0 {
		return 0, nil
	}
	if err := s.delivery.Record(journal.RecordTalk, journal.TalkRecord{Session: talk}); err != nil {
		return 0, err
	}
	delete(s.moved, talk)
	return len(s.loose.Take(talk)), nil
}
