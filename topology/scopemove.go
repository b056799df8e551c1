package topology

import (
	"errors"

	"github.com/hence-dev/hence/sequencer"
)

// ScopeMove is what one decision did at one scope. A decision is cut into one of them for each scope that it names in
// its holds, writes and shards, in the order of first mention, and a last one with an empty scope that says how many
// there were. Holds that a decision ends without listing them are not in any of them. Processors of former releases
// wrote each one to hence.scopes, so each one must fit into a record.
type ScopeMove struct {
	Workspace string
	Scope     sequencer.Scope // empty: the decision's last record
	Seq       sequencer.Seq
	Kind      sequencer.OutcomeKind
	Tx        sequencer.TxID
	Agent     string
	Epoch     sequencer.Epoch
	Added     []sequencer.Hold // at this scope
	Ended     []sequencer.Hold // at this scope
	Write     *sequencer.Write // set when the scope was written
	Shard     *sequencer.ShardWrite

	Chain  sequencer.Hash // last record only, as are those below
	Time   sequencer.Tick
	Floor  sequencer.Seq
	Scopes uint32 // number of the decision's other records
}

// Last reports whether m is the last record of its decision.
func (m *ScopeMove) Last() bool { return m.Scope == "" }

// TakesAway reports whether the move takes away all shards at or below its scope: a tombstone.
func (m *ScopeMove) TakesAway() bool {
	return m.Kind == sequencer.OutcomeCommitted && m.Shard != nil && m.Shard.Absent
}

// Key is the key of m's record.
func (m *ScopeMove) Key() string { return ScopeKey(m.Workspace, m.Scope) }

// ErrNoScope is returned by EncodeDecision and CheckScopes when a decision names an empty scope.
var ErrNoScope = errors.New("the decision names an empty scope")

// CheckScopes says whether SplitByScope takes a decision: an empty scope is the key of the workspace's own row.
func CheckScopes(o *sequencer.Outcome) error {
	empty := false
	for _, h := range o.Added {
		empty = empty || h.Scope == ""
	}
	for _, h := range o.Ended {
		empty = empty || h.Scope == ""
	}
	for i := range o.Writes {
		empty = empty || o.Writes[i].Scope == ""
	}
	for i := range o.Shards {
		empty = empty || o.Shards[i].Scope == ""
	}
	if empty {
		return ErrNoScope
	}
	return nil
}

// checkSplits says whether each scope move of a decision, which has so many bytes itself, is a record.
func checkSplits(o *sequencer.Outcome, encodedBytes int) error {
	if err := CheckScopes(o); err != nil {
		return err
	}
	// A move has nothing that the decision has not, but its scope once more: only a large decision needs a closer look.
	if encodedBytes <= MaxRecordBytes/2 {
		return nil
	}
	moves := SplitByScope(o)
	for i := range moves {
		if _, err := EncodeScopeMove(&moves[i]); err != nil {
			return err
		}
	}
	return nil
}

// SplitByScope cuts a decision into its scope moves. They point into the outcome, which must not change afterwards. It
// panics where CheckScopes fails.
func SplitByScope(o *sequencer.Outcome) []ScopeMove {
	s := splitter{o: o, at: make(map[sequencer.Scope]int, len(o.Added)+len(o.Ended)+len(o.Writes))}
	for _, h := range o.Added {
		m := s.move(h.Scope)
		m.Added = append(m.Added, h)
	}
	for _, h := range o.Ended {
		m := s.move(h.Scope)
		m.Ended = append(m.Ended, h)
	}
	for i := range o.Writes {
		s.move(o.Writes[i].Scope).Write = &o.Writes[i]
	}
	for i := range o.Shards {
		s.move(o.Shards[i].Scope).Shard = &o.Shards[i]
	}
	last := s.head("")
	last.Chain, last.Time, last.Floor, last.Scopes = o.Chain, o.Time, o.Floor, uint32(len(s.moves))
	return append(s.moves, last)
}

// splitter collects the moves of one decision.
type splitter struct {
	o     *sequencer.Outcome
	moves []ScopeMove
	at    map[sequencer.Scope]int
}

func (s *splitter) head(scope sequencer.Scope) ScopeMove {
	return ScopeMove{Workspace: s.o.Workspace, Scope: scope, Seq: s.o.Seq, Kind: s.o.Kind,
		Tx: s.o.Tx, Agent: s.o.Agent, Epoch: s.o.Epoch}
}

func (s *splitter) move(scope sequencer.Scope) *ScopeMove {
	if scope == "" {
		panic("topology: decision " + DecisionMessageID(s.o.Workspace, s.o.Seq) + " names an empty scope")
	}
	i, known := s.at[scope]
	if !known {
		i = len(s.moves)
		s.at[scope] = i
		s.moves = append(s.moves, s.head(scope))
	}
	return &s.moves[i]
}
