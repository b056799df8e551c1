package journal

import (
	"encoding/json"
	"slices"

	"github.com/hence-dev/hence/sequencer"
)

// Talks are the loose reads of an agent's conversations, by name; the default one has none. They are what a
// conversation has read outside transactions since its last seal, and go with its next one. A conversation that has
// none is not here.
type Talks map[string][]sequencer.Read

// maxTalks is how many loose reads an agent's conversations name one by one, all together.
const maxTalks = 8192

// Add adds a loose read. Beyond the bound of all conversations the longest one's reads become one of everything.
func (t Talks) Add(talk string, r sequencer.Read) {
	t[talk] = addLoose(t[talk], r)
	t.shorten()
}

// Has reports whether a conversation's reads name a scope, or one that covers it.
func (t Talks) Has(talk string, name sequencer.Scope) bool {
	return slices.ContainsFunc(t[talk], func(r sequencer.Read) bool { return r.Scope.Overlaps(name) })
}

// Take gives away what a conversation has read: its seal carries it.
func (t Talks) Take(talk string) []sequencer.Read {
	reads := t[talk]
	delete(t, talk)
	return reads
}

// Give takes back what a refused seal carried.
func (t Talks) Give(talk string, reads []sequencer.Read) {
	if all := mergeLoose(reads, t[talk]); len(all) > 0 {
		t[talk] = all
		t.shorten()
	}
}

func (t Talks) shorten() {
	for t.Reads() > maxTalks {
		longest := ""
		for talk, reads := range t {
			if n := len(t[longest]); len(reads) > n || len(reads) == n && talk < longest {
				longest = talk
			}
		}
		if len(t[longest]) == 1 {
			return
		}
		t[longest] = Together(t[longest])
	}
}

// Reads counts the loose reads of all conversations.
func (t Talks) Reads() (n int) {
	for _, reads := range t {
		n += len(reads)
	}
	return n
}

// Oldest is the least view of them, or at.
func (t Talks) Oldest(at sequencer.Seq) sequencer.Seq {
	for _, reads := range t {
		for _, r := range reads {
			at = min(at, r.View)
		}
	}
	return at
}

// TalkRecord is what one conversation has read outside transactions, at this point of the journal.
type TalkRecord struct {
	Session string
	Reads   []sequencer.Read `json:",omitempty"`
}

// applyLoose takes a record that says what a conversation has read; that of the default one comes first.
func (l *Ledger) applyLoose(kind byte, body []byte) error {
	r := TalkRecord{}
	if kind == RecordTalk {
		if err := json.Unmarshal(body, &r); err != nil {
			return err
		}
	} else {
		l.Loose = Talks{}
		if err := json.Unmarshal(body, &r.Reads); err != nil {
			return err
		}
	}
	l.Loose.Take(r.Session)
	l.Loose.Give(r.Session, r.Reads)
	return nil
}
