// Package layers says of a topology of agents, from its layers alone, whether an agent can commit on what another one
// has overwritten meanwhile (A1), and runs it to see whether it does.
//
// A topology is a list of operations in supersteps. All reads of a superstep happen before all of its writes, and its
// writes in any order. That is what graph executors of agents do.
package layers

import (
	"fmt"
	"slices"
)

// Topology is what a file says.
type Topology struct {
	Operations []Operation
	// Reducers are the channels that add each write to what is there. Writes to other channels replace it.
	Reducers []string
}

// Operation is one read, generation and write of an agent.
type Operation struct {
	Agent string
	// From is the superstep in which it reads and To the one in which it writes, 1-based. To is From unless the
	// operation spans several.
	From, To int
	Reads    []string
	Writes   []string
	Line     int // of the file
}

// Risk is a way to a stale generation: the reader reads the channel and is not done when the writer writes it.
type Risk struct {
	Reader    Operation
	Writer    Operation
	Channel   string
	Superstep int // in which it is overwritten
	// Always: it happens in every order of commits, or else the same happens the other way round. Otherwise it needs the
	// writer to commit first.
	Always bool
}

// Verdict is what the layers alone say.
type Verdict struct {
	Risks []Risk // none: immune
	// Held says of each channel that one agent reads and another writes why it is no risk, sorted.
	Held []string
}

// Susceptible reports whether A1 can happen. Where it cannot, no schedule and no values make it happen; where it can,
// the values still have to differ.
func (v Verdict) Susceptible() bool { return len(v.Risks) > 0 }

// Classify looks for an agent that reads a channel without reducer which another one writes before the first is done.
func (t Topology) Classify() (v Verdict) {
	for _, i := range t.Operations {
		for _, j := range t.Operations {
			if i.Agent == j.Agent {
				continue // one agent's own operations are no A1
			}
			for _, channel := range i.Reads {
				if slices.Contains(j.Writes, channel) {
					t.pair(&v, i, j, channel)
				}
			}
		}
	}
	slices.Sort(v.Held)
	v.Held = slices.Compact(v.Held)
	if len(v.Held) == 0 && len(v.Risks) == 0 {
		v.Held = []string{"no agent reads a channel that another one writes"}
	}
	return v
}

// pair judges one channel that i reads and j writes.
func (t Topology) pair(v *Verdict, i, j Operation, channel string) {
	switch {
	case slices.Contains(t.Reducers, channel):
		v.Held = append(v.Held, channel+" has a reducer: a write adds to it and replaces nothing that was read")
	case j.To < i.From:
		v.Held = append(v.Held, fmt.Sprintf("%s is staged: %s has written it in superstep %d when %s reads it in %d",
			channel, j.Agent, j.To, i.Agent, i.From))
	case j.To > i.To:
		v.Held = append(v.Held, fmt.Sprintf("%s is staged: %s, which reads it, is done in superstep %d when %s writes it "+
			"in %d", channel, i.Agent, i.To, j.Agent, j.To))
	default:
		v.Risks = append(v.Risks, Risk{i, j, channel, j.To, j.To < i.To || t.mutual(i, j)})
	}
}

// mutual reports whether i also overwrites what j reads. Where both write in one superstep, the second is stale.
func (t Topology) mutual(i, j Operation) bool {
	return slices.ContainsFunc(j.Reads, func(channel string) bool {
		return slices.Contains(i.Writes, channel) && !slices.Contains(t.Reducers, channel)
	})
}

// String says how the risk comes about.
func (r Risk) String() string {
	when := r.Reader.Agent + " is stale when " + r.Writer.Agent + " commits first"
	if r.Always && r.Writer.To == r.Reader.To {
		when = "each overwrites what the other has read, and who commits second is stale"
	} else if r.Always {
		when = r.Reader.Agent + " is stale in every order"
	}
	span := ""
	if r.Reader.From != r.Reader.To {
		span = fmt.Sprintf(" and is done in superstep %d", r.Reader.To)
	}
	return fmt.Sprintf("%s reads %s in superstep %d%s; %s overwrites it in superstep %d: %s", r.Reader.Agent, r.Channel,
		r.Reader.From, span, r.Writer.Agent, r.Superstep, when)
}
