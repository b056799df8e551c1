package demo

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Arrival is one effect as a sink of the run has it.
type Arrival struct {
	Tool  string    `json:"tool"`
	Tx    string    `json:"tx"`
	Index int       `json:"index"`
	Key   string    `json:"key,omitempty"`
	At    time.Time `json:"at"`
}

// Uncleaned is one entry of the residue.
type Uncleaned struct {
	Tx     string `json:"tx"`
	Index  int    `json:"index"`
	Tool   string `json:"tool"`
	Class  string `json:"class"`
	Result string `json:"result"`
}

// Finding is one effect that is not where it should be.
type Finding struct {
	Tool  string `json:"tool"`
	Tx    string `json:"tx"`
	Index int    `json:"index"`
	What  string `json:"what"`
}

// effectsFound is what the sinks and the residue show beside the agents' records and the log.
type effectsFound struct {
	arrived                   int            // at the sinks
	injected                  map[string]int // faults, by kind
	leaks, duplicates, absent []Finding
	standing                  []Finding      // reservations of tasks that were refused, neither released nor residue
	residue                   map[string]int // by class
	againstPlan               []Finding      // planned calls in another order, or that arrived and were not made
}

// place names one call.
type place struct {
	tx    string
	index int
}

// checkEffects compares what the sinks have with what the log decided. A held effect leaks when its transaction is not
// committed; a call arrives once; what was held and committed arrives or is residue; what was reserved and refused is
// released or is residue; and what was planned keeps to its plan.
func checkEffects(attempts []*Attempt, log map[string]logged, arrived []Arrival, left []Uncleaned) *effectsFound {
	f := &effectsFound{arrived: len(arrived), residue: map[string]int{}}
	named := map[place]bool{}
	for _, u := range left {
		named[place{u.Tx, u.Index}] = true
		f.residue[u.Class]++
	}
	seen := map[string]map[string]int{} // tool, then key or place, to how often
	at := map[string]map[place]bool{}   // tool, then who arrived
	first := map[place]time.Time{}      // when a call arrived, without what takes it back
	for _, a := range arrived {
		if seen[a.Tool] == nil {
			seen[a.Tool], at[a.Tool] = map[string]int{}, map[place]bool{}
		}
		p := place{a.Tx, a.Index}
		at[a.Tool][p] = true
		if before, came := first[p]; a.Tool != toolRelease && (!came || a.At.Before(before)) {
			first[p] = a.At
		}
		once := cmp.Or(a.Key, fmt.Sprintf("%s/%d", a.Tx, a.Index))
		if seen[a.Tool][once]++; seen[a.Tool][once] == 2 {
			f.duplicates = append(f.duplicates, Finding{a.Tool, a.Tx, a.Index, "arrived more than once"})
		}
		if held(a.Tool) && !log[a.Tx].committed {
			f.leaks = append(f.leaks, Finding{a.Tool, a.Tx, a.Index, "left without a commit"})
		}
	}
	for _, t := range attempts {
		for _, e := range t.Effects {
			f.account(t.Tx, e, log[t.Tx].committed, at, named)
		}
	}
	for _, t := range attempts {
		f.planned(t, first)
	}
	return f
}

// planned holds a planned turn against its plan: calls that run at once, and those that wait for the commit, reach
// the sinks in the order of their indexes, and nothing comes of a call that was not made.
func (f *effectsFound) planned(t *Attempt, first map[place]time.Time) {
	if len(t.Planned) == 0 {
		return
	}
	for _, p := range t.Planned {
		if _, came := first[place{t.Tx, p.Index}]; came && (p.End == plannedNever || p.End == plannedPassed) {
			f.againstPlan = append(f.againstPlan, Finding{p.Tool, t.Tx, p.Index, "arrived although it was not made"})
		}
	}
	last := map[bool]time.Time{}
	inOrder := slices.SortedFunc(slices.Values(t.Effects), func(a, b EffectRecord) int { return a.Index - b.Index })
	for _, e := range inOrder {
		at, came := first[place{t.Tx, e.Index}]
		if !came {
			continue
		}
		if at.Before(last[held(e.Tool)]) {
			f.againstPlan = append(f.againstPlan, Finding{e.Tool, t.Tx, e.Index, "arrived before a call that is before it"})
		}
		last[held(e.Tool)] = at
	}
}

func (f *effectsFound) account(tx string, e EffectRecord, committed bool, at map[string]map[place]bool,
	named map[place]bool) {
	p := place{tx, e.Index}
	switch {
	case named[p]:
	case held(e.Tool) && committed && !at[e.Tool][p]:
		f.absent = append(f.absent, Finding{e.Tool, tx, e.Index, "was committed and never arrived"})
	case e.Tool == toolReserve && !committed && at[e.Tool][p] && !at[toolRelease][p]:
		f.standing = append(f.standing, Finding{e.Tool, tx, e.Index, "stands although it was refused"})
	}
}

// held says whether calls of a tool wait for the commit.
func held(tool string) bool { return tool == toolCharge || tool == toolMail }

// sortFindings puts findings in the order of their transactions.
func sortFindings(found []Finding) []Finding {
	slices.SortStableFunc(found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Tx, b.Tx), cmp.Compare(a.Index, b.Index))
	})
	return found
}
