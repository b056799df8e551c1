package agent

import (
	"context"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/loop"
)

// lineWait is how long a seal waits for one before it that is not judged: the log is away then, or it was not sent.
const lineWait = time.Second

// ahead is a seal of this process, of any of its agents, that seals of this agent wait for.
type ahead struct {
	over    bool         // a decision names its transaction, or it has left the line
	changed loop.Watched // over
}

// standInLine gives a transaction that is about to be sealed its place among the seals of this process that are on
// their way. First it waits, as long as ctx lasts, until none of them writes one of its reads: the log would judge
// that one first, and where it commits, the view refuses this one without a seal. Nothing else depends on the order:
// without the wait the log would refuse it. stale says that the view does so by now: others may take their places
// without end.
func (s *Agent) standInLine(ctx context.Context, t *tx, reads, writes []sequencer.Scope, stale func() bool) {
	if t.begun || !s.mayWait(&t.begin) { // others may wait for it in the log: it waits for nobody here
		reads = nil
	}
	for by := s.view.Enter(t.id, reads, writes); by != ""; by = s.view.Enter(t.id, reads, writes) {
		if stale() || s.judged(ctx, by) != nil {
			reads = nil
		}
	}
}

// letPass waits, as long as ctx lasts, until no seal of this process is on its way that writes one of the scopes. What
// is to be begun with them as its reads may be refused then before it has a name; stale says that it is.
func (s *Agent) letPass(ctx context.Context, begin *sequencer.Begin, reads []sequencer.Scope, stale func() bool) {
	if !s.mayWait(begin) {
		return
	}
	for by := s.view.Ahead(reads); by != ""; by = s.view.Ahead(reads) {
		if stale() || s.judged(ctx, by) != nil {
			return
		}
	}
}

// mayWait reports whether a write over its reads ends a transaction: else it would wait for nothing. One of the other
// modes is in the log from its begin on.
func (s *Agent) mayWait(begin *sequencer.Begin) bool {
	now := s.view.Settings()
	return begin.Mode == sequencer.Optimistic && !begin.Observe && !now.Rules.Observe &&
		levelsUnder(begin, now)&sequencer.A1 != 0
}

// judged waits until a seal that was in the line just now is decided, waits in the log, or has left the line. One of
// which nothing is heard leaves it. An error says that ctx ended, or the agent stops.
func (s *Agent) judged(ctx context.Context, id sequencer.TxID) error {
	a := s.ahead[id]
	if a == nil {
		a = &ahead{}
		s.ahead[id] = a
	}
	short, cancel := s.clock.Within(ctx, lineWait)
	defer cancel()
	err := s.loop.UntilOn(short, &a.changed, func() bool { return a.over })
	if err != nil && short.Err() != nil && ctx.Err() == nil {
		s.leaveLine(id)
		return nil
	}
	return err
}

// leaveLine gives up a transaction's place: nothing of it is on its way. What waits for it here goes on at once, what
// does at other agents of the process with the next decision.
func (s *Agent) leaveLine(id sequencer.TxID) {
	s.view.Leave(id)
	s.passed("")
}

// passed lets go on what waits for seals that are not in the line any more; a decision names the transaction of one.
func (s *Agent) passed(named sequencer.TxID) {
	for id, a := range s.ahead {
		if id != named && s.view.InLine(id) {
			continue
		}
		a.over = true
		s.loop.Moved(&a.changed)
		delete(s.ahead, id)
	}
}

// conditions are the scopes of which another's write ends a transaction, with the loose reads that its seal carries.
func (s *Agent) conditions(t *tx) (out []sequencer.Scope) {
	out = scopesOf(t.reads, func(r sequencer.Read) sequencer.Scope { return r.Scope })
	for _, r := range s.loose[t.begin.Session] {
		out = append(out, r.Scope)
	}
	for _, w := range t.writes {
		if w.Expect != nil {
			out = append(out, w.Scope)
		}
	}
	return out
}

// scopesOf are the scopes of reads or writes.
func scopesOf[T any](list []T, scope func(T) sequencer.Scope) []sequencer.Scope {
	out := make([]sequencer.Scope, len(list))
	for i, one := range list {
		out[i] = scope(one)
	}
	return out
}

func shardWritten(w sequencer.ShardWrite) sequencer.Scope { return w.Scope }
func toWrite(w writing) sequencer.Scope                   { return w.scope }
func seenScope(r seen) sequencer.Scope                    { return r.scope }
