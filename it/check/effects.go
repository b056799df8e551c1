package check

import (
	"cmp"
	"slices"
)

// Issued is one tool call as its agent made it.
type Issued struct {
	Tx     string
	Index  int
	Key    string // business key; empty: its sink takes none
	Scopes []string
	Held   bool // it was to leave on commit only
}

// Sent is one effect as a sink has it.
type Sent struct {
	At    int // position among all that arrived at any sink of the test, as the sinks noted it
	Tx    string
	Index int
	Key   string
}

// Unclean is one entry of the residue topic.
type Unclean struct {
	Tx     string
	Index  int
	Result string
}

// Effects is what agents issued beside what sinks have and what the residue topic says.
type Effects struct {
	History
	Issued  []Issued
	Sent    []Sent
	Residue []Unclean
}

// call names one effect of one transaction.
type call struct {
	tx    string
	index int
}

// Leaks finds held effects that a sink has although the log does not show their transaction as committed.
func (e *Effects) Leaks() []Violation {
	held := map[call]bool{}
	for _, i := range e.Issued {
		held[call{i.Tx, i.Index}] = i.Held
	}
	decided := e.decided()
	var found []Violation
	for _, s := range e.Sent {
		if held[call{s.Tx, s.Index}] && decided[s.Tx].Kind != string(Committed) {
			found = append(found, violation("leak", "effect %d of %s is in its sink; its transaction is %q", s.Index, s.Tx,
				decided[s.Tx].Kind))
		}
	}
	return found
}

// Duplicates finds keys, and calls without a key, that a sink has more than once.
func (e *Effects) Duplicates() []Violation {
	keys, calls := map[string]int{}, map[call]int{}
	var found []Violation
	for _, s := range e.Sent {
		if s.Key != "" {
			if keys[s.Key]++; keys[s.Key] == 2 {
				found = append(found, violation("duplicate", "key %q is in its sink more than once", s.Key))
			}
			continue
		}
		if calls[call{s.Tx, s.Index}]++; calls[call{s.Tx, s.Index}] == 2 {
			found = append(found, violation("duplicate", "effect %d of %s is in its sink more than once", s.Index, s.Tx))
		}
	}
	return found
}

// Lost finds held effects of committed transactions that no sink has and no residue names.
func (e *Effects) Lost() []Violation {
	arrived, named := map[call]bool{}, map[call]bool{}
	keys := map[string]bool{}
	for _, s := range e.Sent {
		arrived[call{s.Tx, s.Index}] = true
		keys[s.Key] = s.Key != ""
	}
	for _, r := range e.Residue {
		named[call{r.Tx, r.Index}] = true
	}
	decided := e.decided()
	var found []Violation
	for _, i := range e.Issued {
		c := call{i.Tx, i.Index}
		if i.Held && decided[i.Tx].Kind == string(Committed) && !arrived[c] && !named[c] && !keys[i.Key] {
			found = append(found, violation("lost", "effect %d of %s never arrived and no residue says so", i.Index, i.Tx))
		}
	}
	return found
}

// Orders holds that sinks saw effects in the order in which their agent issued them, and those of different
// transactions on one scope in commit order.
func (e *Effects) Orders() []Violation {
	sent := slices.SortedFunc(slices.Values(e.Sent), func(a, b Sent) int { return cmp.Compare(a.At, b.At) })
	scopes := map[call][]string{}
	for _, i := range e.Issued {
		if i.Held {
			scopes[call{i.Tx, i.Index}] = i.Scopes
		}
	}
	decided := e.decided()
	index, last := map[string]int{}, map[string]Sent{}
	var found []Violation
	for _, s := range sent {
		at, held := scopes[call{s.Tx, s.Index}]
		if !held {
			continue
		}
		if before, ok := index[s.Tx]; ok && before > s.Index {
			found = append(found, violation("issuance order", "%s: effect %d arrived after effect %d", s.Tx, s.Index, before))
		}
		index[s.Tx] = s.Index
		for _, scope := range at {
			if l, ok := last[scope]; ok && l.Tx != s.Tx && decided[l.Tx].Seq > decided[s.Tx].Seq {
				found = append(found, violation("commit order", "%s: %s at seq %d arrived after %s at seq %d", scope, s.Tx,
					decided[s.Tx].Seq, l.Tx, decided[l.Tx].Seq))
			}
			last[scope] = s
		}
	}
	return found
}
