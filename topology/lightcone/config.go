// Package lightcone says which consumer can honestly read which producer. What an observer may hold of a system's
// messages is a configuration: how it is closed over causes (C), how forks are ordered (O), how long it waits (R) and
// what it selects (F). The paper "Light Cone Consistency" (arXiv 2605.09114) defines these and proves what follows
// from them; this package decides it: readability and its classes, merging of two views, what a pipeline of copies
// keeps, scars of an order, the bounds of clocks and of retention. Everything here is a pure function.
package lightcone

import (
	"fmt"
	"time"
)

// Wait is how long an answer may be deferred, in the configuration's unit.
type Wait uint8

// The waits.
const (
	Absent  Wait = iota // no bound and no promise: best effort, possibly never
	Finite              // until a condition holds
	Bounded             // at most so much
	NoWait              // not at all
)

// String is the wait's name.
func (w Wait) String() string { return [...]string{"absent", "finite", "bounded", "none"}[w] }

// Unit is what a wait is counted in.
type Unit uint8

// The units.
const (
	Time     Unit = iota // wall time
	Messages             // messages
	Versions             // versions
	Position             // positions in the order
)

// String is the unit's name.
func (u Unit) String() string { return [...]string{"time", "messages", "versions", "position"}[u] }

// Select is what an answer reports of the state at the time of the answer. It decides nothing about readability.
type Select uint8

// The selections.
const (
	Latest        Select = iota // the greatest write in the order
	KLatest                     // one of the k greatest
	AnyConcurrent               // any write concurrent with the read, or before it
	Anything                    // any value
	Computed                    // a function of the state: a merge, a sum
	Multi                       // all concurrent writes
)

// String is the selection's name.
func (s Select) String() string {
	return [...]string{"latest", "k-latest", "any-concurrent", "anything", "computed", "multi"}[s]
}

// Waits are all waits.
func Waits() []Wait { return []Wait{Absent, Finite, Bounded, NoWait} }

// Units are all units.
func Units() []Unit { return []Unit{Time, Messages, Versions, Position} }

// Selects are all selections.
func Selects() []Select { return []Select{Latest, KLatest, AnyConcurrent, Anything, Computed, Multi} }

// AtMost is the declared order of selections by how much they may report: latest is the strictest, and computed and
// any-concurrent cannot be compared.
func (s Select) AtMost(t Select) bool {
	one := []Select{Latest, KLatest, AnyConcurrent, Anything}
	two := []Select{Latest, Computed, Multi}
	return before(one, s, t) || before(two, s, t)
}

func before[T comparable](chain []T, a, b T) bool {
	for i, x := range chain {
		if x == a {
			for _, y := range chain[i:] {
				if y == b {
					return true
				}
			}
		}
	}
	return false
}

// Rule is where an order comes from.
type Rule uint8

// The rules.
const (
	Unknown Rule = iota // nothing says that the order respects causes
	Clock               // timestamps: causal while Uncertainty is small enough
	Causal              // the order never puts an effect before its cause
)

// String is the rule's name.
func (r Rule) String() string { return [...]string{"none", "clock", "causal"}[r] }

// Arbitration is whether an order respects causes, which no other part of a configuration says.
type Arbitration struct {
	Rule        Rule
	Uncertainty time.Duration // of a clock: how far it is off at most, either way
	Distance    time.Duration // of a clock: the shortest time in which a cause reaches another node
}

// Causal says whether a cause never comes after its effect.
func (a Arbitration) Causal() bool {
	return a.Rule == Causal || a.Rule == Clock && ClockOrders(a.Uncertainty, a.Distance)
}

// Config is what observers of one place may hold of its messages.
type Config struct {
	Closure     Set   // who sees a message has seen its causes that are alike in one of these
	Order       Label // who sees one has seen those before it that are alike in it; empty: there is no order
	Wait        Wait
	Unit        Unit
	Select      Select
	Arbitration Arbitration
	Confluent   bool // the order of a class is a function of its messages alone
	Serializer  bool // a second system beside it orders by real time: together they are linearizable, alone it is not
}

// Orders is the order as a set of labels.
func (c Config) Orders() Set {
	if c.Order == "" {
		return nil
	}
	return Set{c.Order}
}

// String is closure and order, as in "(explicit, object(key))".
func (c Config) String() string { return Level{c.Closure, c.Orders()}.String() }

// Level is what data carries: which causes of it are there, and within which messages it is ordered. A configuration
// has one; what a pipeline has left is one too.
type Level struct {
	Closure Set
	Order   Set
}

// String is closure and order, as in "(explicit, all)".
func (l Level) String() string {
	return fmt.Sprintf("(%s, %s)", closureText(l.Closure), orderText(l.Order))
}

func closureText(s Set) string {
	switch {
	case len(s) == 0:
		return "none"
	case s.Has(Everything):
		return "explicit"
	}
	return s.String()
}

func orderText(s Set) string {
	switch {
	case len(s) == 0:
		return "trivial"
	case s.Has(Everything):
		return "all"
	}
	return s.String()
}

// Level is what data written under the configuration carries. An order that respects causes supplies closure that the
// filter does not ask for; one that does not supplies none.
func (s Scheme) Level(c Config) Level {
	l := Level{Closure: s.Join(c.Closure, nil), Order: c.Orders()}
	if c.Arbitration.Causal() {
		l.Closure = s.Join(l.Closure, l.Order)
	}
	return l
}
