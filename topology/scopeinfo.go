package topology

import "github.com/hence-dev/hence/sequencer"

// Scopes are rows of the frontier table, as people are shown them.
type Scopes struct {
	Workspace string      `json:"workspace"`
	Rows      []ScopeInfo `json:"rows"` // by Scope
	Truncated bool        `json:"truncated"`
}

// ScopeInfo is one scope as the frontier table has it.
type ScopeInfo struct {
	Scope    sequencer.Scope `json:"scope"`
	Seq      sequencer.Seq   `json:"seq"`      // of the last outcome that moved the row
	Version  sequencer.Seq   `json:"version"`  // seq of the last write; zero: none since it was first seen
	Writer   sequencer.TxID  `json:"writer"`   // of that write
	Residue  bool            `json:"residue"`  // what stands there could not be made clean
	Frontier sequencer.Epoch `json:"frontier"` // the smallest epoch that can still change it; zero: none can
	Open     []ScopeOpen     `json:"open"`     // who holds or claims it, by epoch
	Shard    bool            `json:"shard"`    // Hence keeps its content
	Type     string          `json:"type"`     // media type of that content
}

// ScopeOpen is one transaction that can still change a scope.
type ScopeOpen struct {
	Tx    sequencer.TxID  `json:"tx"`
	Epoch sequencer.Epoch `json:"epoch"`
	Since sequencer.Seq   `json:"since"` // the frontier's lag is the head minus this
}

// ScopeInfoOf is what people are shown of a row.
func ScopeInfoOf(r *FrontierRow) ScopeInfo {
	s := ScopeInfo{Scope: r.Scope, Seq: r.Seq, Version: r.Version, Writer: r.Writer.Tx, Residue: r.Writer.Residue,
		Frontier: r.Frontier, Shard: r.Shard != nil}
	if r.Shard != nil {
		s.Type = r.Shard.Type
	}
	for _, o := range r.Open {
		s.Open = append(s.Open, ScopeOpen{Tx: o.Tx, Epoch: o.Epoch, Since: o.Since})
	}
	return s
}
