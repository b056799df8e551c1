// Package coverage counts, for an agent's conversations, what the figures about its models need: when a conversation
// read what, in which step, and how many tokens its models have taken since its last decision.
//
// It is for figures alone. It forgets at a restart and beyond its bounds: a figure is less exact then, and no decision
// is another one.
package coverage

import "time"

// mostReads bounds what is kept of one conversation.
const mostReads = 4096

// Log is that of one agent. It is not safe for use by several goroutines at once.
type Log struct {
	most  int // conversations
	reads uint64
	talks map[string]*talk
}

type talk struct {
	reads  map[string]read // by scope
	asked  uint64          // reads that were counted when its last request to a model left
	tokens uint64
}

// read is the last one of a scope.
type read struct {
	number uint64
	at     time.Time
}

// New makes a log of at most so many conversations.
func New(most int) *Log { return &Log{most: most, talks: map[string]*talk{}} }

func (l *Log) of(name string) *talk {
	t := l.talks[name]
	if t == nil {
		for other := range l.talks { // any will do
			if len(l.talks) < l.most {
				break
			}
			delete(l.talks, other)
		}
		t = &talk{reads: map[string]read{}}
		l.talks[name] = t
	}
	return t
}

// Read notes that a conversation was shown a scope.
func (l *Log) Read(talk, scope string, at time.Time) {
	t := l.of(talk)
	if len(t.reads) >= mostReads { // of transactions that were given up, for the most part
		clear(t.reads)
	}
	l.reads++
	t.reads[scope] = read{l.reads, at}
}

// Ask notes that a request to a model leaves. The step that it ends has the reads that come after what it returns.
func (l *Log) Ask(talk string) (step uint64) {
	t := l.of(talk)
	step, t.asked = t.asked, l.reads
	return step
}

// InStep reports whether a conversation has read a scope since a step began.
func (l *Log) InStep(talk, scope string, step uint64) bool {
	t := l.talks[talk]
	return t != nil && t.reads[scope].number > step
}

// Seal forgets reads that a transaction carries away, and returns how old the oldest of them is; not known: it has
// none.
func (l *Log) Seal(talk string, scopes []string, now time.Time) (oldest time.Duration, known bool) {
	t := l.talks[talk]
	if t == nil {
		return 0, false
	}
	for _, scope := range scopes {
		r, is := t.reads[scope]
		if !is {
			continue
		}
		delete(t.reads, scope)
		oldest, known = max(oldest, now.Sub(r.at)), true
	}
	if len(t.reads) == 0 && t.asked == 0 && t.tokens == 0 {
		delete(l.talks, talk)
	}
	return oldest, known
}

// Spend notes what an answer of a model has cost a conversation.
func (l *Log) Spend(talk string, tokens uint64) { l.of(talk).tokens += tokens }

// Decide returns the tokens that a conversation has spent since its last decision.
func (l *Log) Decide(talk string) (tokens uint64) {
	if t := l.talks[talk]; t != nil {
		tokens, t.tokens = t.tokens, 0
	}
	return tokens
}
