package check

import (
	"slices"
	"strings"
)

// Contiguous holds that the log's seqs are 1, 2, 3, … without a gap or a repetition, and that no transaction is
// decided twice.
func (h *History) Contiguous() []Violation {
	var found []Violation
	at := map[string]uint64{}
	for i, d := range h.Decisions {
		if want := uint64(i + 1); d.Seq != want {
			return append(found, violation("contiguous", "decision %d of the log has seq %d", want, d.Seq))
		}
		if d.Kind != string(Committed) && d.Kind != string(Aborted) {
			continue
		}
		if before, twice := at[d.Tx]; twice {
			found = append(found, violation("contiguous", "%s is decided at seq %d and at %d", d.Tx, before, d.Seq))
		}
		at[d.Tx] = d.Seq
	}
	return found
}

// LostAcknowledged holds that every decision which an agent was told of is in the log as it was told.
func (h *History) LostAcknowledged() []Violation {
	var found []Violation
	log := h.decided()
	for _, a := range h.Attempts {
		if a.State == Unknown {
			continue
		}
		switch d, ok := log[a.Tx]; {
		case !ok && a.State == Aborted && a.Seq == 0: // refused from the view: never sealed
		case !ok:
			found = append(found, violation("lost_acknowledged", "%s was told that %s is %s, the log has nothing",
				a.Agent, a.Tx, a.State))
		case d.Kind != string(a.State) || a.Seq != 0 && d.Seq != a.Seq:
			found = append(found, violation("lost_acknowledged", "%s was told that %s is %s at seq %d, the log has %s at %d",
				a.Agent, a.Tx, a.State, a.Seq, d.Kind, d.Seq))
		}
	}
	return found
}

// Unresolved holds that no attempt whose end its agent does not know is still undecided: run it once everything has
// come to rest.
func (h *History) Unresolved() []Violation {
	var found []Violation
	log := h.decided()
	begun := map[string]bool{}
	for _, d := range h.Decisions {
		begun[d.Tx] = begun[d.Tx] || d.opens()
	}
	for _, a := range h.Attempts {
		if _, ok := log[a.Tx]; a.State == Unknown && !ok && begun[a.Tx] {
			found = append(found, violation("unresolved", "%s of %s is in the log and was never decided", a.Tx, a.Agent))
		}
	}
	return found
}

// opens reports whether a decision shows that the log has its transaction. A refusal need not: what refuses a begin,
// or whatever else may come first before the log looks at the transaction, opens none. A refused touch or seal may
// leave one open.
func (d *Decision) opens() bool {
	return d.Kind != "refused" || !strings.Contains(d.Intent, ":begin:") &&
		!slices.Contains([]string{"lease_expired", "unknown_intent", "too_old"}, d.Code)
}

// SameChain holds that observers who saw a seq saw the same chain hash there. It returns the number of seqs that at
// least two of them share.
func SameChain(observers map[string]map[uint64]string) (shared int, found []Violation) {
	type first struct{ by, chain string }
	seen, counted := map[uint64]first{}, map[uint64]bool{}
	names := make([]string, 0, len(observers))
	for name := range observers {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for seq, chain := range observers[name] {
			f, known := seen[seq]
			if !known {
				seen[seq] = first{name, chain}
				continue
			}
			counted[seq] = true
			if f.chain != chain {
				found = append(found, violation("same_chain", "at seq %d %s has %s and %s has %s",
					seq, f.by, f.chain, name, chain))
			}
		}
	}
	return len(counted), found
}
