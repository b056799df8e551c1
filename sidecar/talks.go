package sidecar

import (
	"context"
	"encoding/json"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
)

// talks are the loose reads of an agent's conversations, by name; the default one has none. They are what a
// conversation has read outside transactions since its last seal, and go with its next one. A conversation that has
// none is not here.
type talks map[string][]sequencer.Read

// maxTalks is how many loose reads an agent's conversations name one by one, all together.
const maxTalks = 8192

// add adds a loose read. Beyond the bound of all conversations the longest one's reads become one of everything.
func (t talks) add(talk string, r sequencer.Read) {
	t[talk] = addLoose(t[talk], r)
	t.shorten()
}

// take gives away what a conversation has read: its seal carries it.
func (t talks) take(talk string) []sequencer.Read {
	reads := t[talk]
	delete(t, talk)
	return reads
}

// give takes back what a refused seal carried.
func (t talks) give(talk string, reads []sequencer.Read) {
	if all := mergeLoose(reads, t[talk]); len(all) > 0 {
		t[talk] = all
		t.shorten()
	}
}

func (t talks) shorten() {
	for t.reads() > maxTalks {
		longest := ""
		for talk, reads := range t {
			if n := len(t[longest]); len(reads) > n || len(reads) == n && talk < longest {
				longest = talk
			}
		}
		if len(t[longest]) == 1 {
			return
		}
		t[longest] = together(t[longest])
	}
}

func (t talks) reads() (n int) {
	for _, reads := range t {
		n += len(reads)
	}
	return n
}

// oldest is the least view of them, or at.
func (t talks) oldest(at sequencer.Seq) sequencer.Seq {
	for _, reads := range t {
		for _, r := range reads {
			at = min(at, r.View)
		}
	}
	return at
}

// overtakes is what a decision has written over of one conversation's loose reads.
type overtakes struct {
	scopes []sequencer.Scope
	first  *api.Overtaken
}

// observeLoose tells conversations that a decision has written over what they read.
func (s *session) observeLoose(o *sequencer.Outcome) {
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
func (s *session) forgiveMoved(talk string, scope sequencer.Scope) {
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
func (s *session) loosely(ctx context.Context, talk string, look func() *reading) (*reading, error) {
	if err := s.await(ctx); err != nil {
		return nil, err
	}
	if err := s.fetched(ctx, look); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.current(); err != nil {
		return nil, err
	}
	if len(s.loose) >= s.limits.Conversations && len(s.loose[talk]) == 0 { // forgetting another's reads would weaken it
		return nil, api.Problemf(api.CodeLimit, "%d conversations of this agent have read outside transactions and sealed nothing "+
			"since: end those that are over with DELETE /v1/workspaces/%s/session, or read inside a transaction",
			len(s.loose), s.workspace)
	}
	got := look()
	if len(got.lacks()) > 0 {
		return nil, beingFetched(got.lacks()[0])
	}
	got.talk = talk
	entries, err := s.deliverAll(ctx, "", got)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		s.loose.add(talk, entry)
		s.forgiveMoved(talk, entry.Scope)
	}
	return got, nil
}

// talkRecord is what one conversation has read outside transactions, at this point of the journal.
type talkRecord struct {
	Session string
	Reads   []sequencer.Read `json:",omitempty"`
}

// applyLoose takes a record that says what a conversation has read; that of the default one comes first.
func (l *ledger) applyLoose(kind byte, body []byte) error {
	r := talkRecord{}
	if kind == recordTalk {
		if err := json.Unmarshal(body, &r); err != nil {
			return err
		}
	} else {
		l.loose = talks{}
		if err := json.Unmarshal(body, &r.Reads); err != nil {
			return err
		}
	}
	l.loose.take(r.Session)
	l.loose.give(r.Session, r.Reads)
	return nil
}

// endTalk drops the loose reads of a conversation that the agent says is over; it returns how many they were. Nothing
// rests on what it read any more, so it is owed no 410 either: its name may come again, for a new one.
func (s *session) endTalk(ctx context.Context, talk string) (int, error) {
	if err := s.await(ctx); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.toldForgotten(talk); err != nil {
		return 0, err
	}
	if len(s.loose[talk]) == 0 {
		return 0, nil
	}
	if err := s.delivery.record(recordTalk, talkRecord{Session: talk}); err != nil {
		return 0, err
	}
	delete(s.moved, talk)
	return len(s.loose.take(talk)), nil
}
