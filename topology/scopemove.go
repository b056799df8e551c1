package topology

import "github.com/hence-dev/hence/sequencer"

// ScopeMove is what one decision did at one scope: a record of hence.scopes. A decision becomes one of them for each
// scope that it names in its holds, writes and shards, in the order of first mention, and a last one with an empty
// scope that says how many there were. Holds that a decision ends without listing them are not in any of them.
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

// Key is the key of m's record.
func (m *ScopeMove) Key() string { return ScopeKey(m.Workspace, m.Scope) }

// SplitByScope cuts a decision into its scope moves. They point into the outcome, which must not change afterwards.
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
