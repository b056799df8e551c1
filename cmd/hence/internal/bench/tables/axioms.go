package tables

import (
	"context"
	"fmt"
	"math/bits"

	"github.com/hence-dev/hence/topology/lightcone"
	"github.com/hence-dev/hence/topology/lightcone/brute"
)

// axiomRuns are the rows of what other frameworks say of the same.
func axiomRuns() map[string]run { return map[string]run{"C25": tagBits, "C34": standardAxioms} }

// execution is an abstract execution in the terms of the standard axioms: relations as rows of bits, where bit a of
// row b says that a comes before b. The arbitration is the order of the indices, which refines what happened before.
type execution struct {
	world        brute.World
	sees, so, hb []uint8
}

// executionOf takes the edges of a world for what each event sees. Its sessions are in the order of the indices.
func executionOf(w brute.World) execution {
	x := execution{world: w, sees: make([]uint8, w.N), so: make([]uint8, w.N), hb: make([]uint8, w.N)}
	for b := range w.N {
		x.sees[b] = w.Causes[b]
		for a := range b {
			if w.Session[a] == w.Session[b] {
				x.so[b] |= 1 << a
			}
			if (x.sees[b]|x.so[b])>>a&1 == 1 {
				x.hb[b] |= 1<<a | x.hb[a]
			}
		}
	}
	return x
}

// within is a relation between events of one class alone; scope is as in brute.World.Classed.
func (x *execution) within(relation []uint8, scope int) []uint8 {
	out := make([]uint8, x.world.N)
	for b := range out {
		for a := range b {
			if x.world.Classed(scope, a, b) {
				out[b] |= relation[b] & (1 << a)
			}
		}
	}
	return out
}

// before is the arbitration.
func (x *execution) before() []uint8 {
	ar := make([]uint8, x.world.N)
	for b := range ar {
		ar[b] = 1<<b - 1
	}
	return ar
}

// holds says whether what is visible includes a relation: to the letter, or also of each event that is seen.
func (x *execution) holds(relation []uint8, letter bool) bool {
	for b := range x.sees {
		for left := x.sees[b]; left != 0 && !letter; left &= left - 1 {
			if relation[bits.TrailingZeros8(left)]&^x.sees[b] != 0 {
				return false
			}
		}
		if relation[b]&^x.sees[b] != 0 {
			return false
		}
	}
	return true
}

// visibility says of each of the four atoms whether it holds, and arbitration of each of the three.
func (x *execution) visibility(letter bool) []bool {
	return []bool{true, x.holds(x.within(x.hb, 1), letter), x.holds(x.so, letter), x.holds(x.hb, letter)}
}

func (x *execution) arbitration(letter bool) []bool {
	if letter { // that there is a total order, which there always is
		return []bool{true, true, true}
	}
	return []bool{true, x.holds(x.within(x.before(), 1), false), x.holds(x.before(), false)}
}

// single says whether what is visible is the arbitration.
func (x *execution) single() bool {
	for b, sees := range x.sees {
		if sees != 1<<b-1 {
			return false
		}
	}
	return true
}

// admits says whether each event's view, itself within, is admitted under a configuration.
func (e *Env) admits(x *execution, c lightcone.Config) bool {
	h := x.world.History()
	for m := range h.Messages {
		h.Messages[m].Causes = brute.Listed(x.hb[m])
	}
	for m := range h.Messages {
		if !e.Subject.Admits(h, append(brute.Listed(x.sees[m]), m), c) {
			return false
		}
	}
	return true
}

// filters and scopes are the values of closure and of order that the atoms map onto, in the order of the atoms.
func filters() []lightcone.Set {
	return []lightcone.Set{nil, {lightcone.Object}, {lightcone.Session}, {lightcone.Everything}}
}

func scopes() []lightcone.Label { return []lightcone.Label{"", lightcone.Object, lightcone.Everything} }

// standardAxioms lists all small executions, and holds each predicate of the standard axioms to the configuration that
// it maps onto: both have the same executions.
func standardAxioms(_ context.Context, e *Env) (Result, error) {
	executions, pairs, differ, literal := 0, 0, 0, 0
	has := map[string]string{} // by configuration: a digit for each execution
	for n := 1; n <= e.of(3, 4); n++ {
		for w := range brute.Labelled(n, false) {
			x := executionOf(w)
			executions++
			vis, ar, single := x.visibility(false), x.arbitration(false), x.single()
			visLetter, arLetter := x.visibility(true), x.arbitration(true)
			for i, closure := range filters() {
				for k, order := range scopes() {
					c := lightcone.Config{Closure: closure, Order: order}
					admitted := e.admits(&x, c)
					pairs++
					// The single order maps onto the order of all, with the closure that is beside it.
					if admitted != (vis[i] && ar[k]) || order == lightcone.Everything && admitted != (vis[i] && single) {
						differ++
					}
					if admitted != (visLetter[i] && arLetter[k]) {
						literal++
					}
					has[c.String()] += map[bool]string{true: "yes ", false: "no "}[admitted]
				}
			}
		}
	}
	predicates, onto, sets := 0, map[string]bool{}, map[string]bool{}
	closures, orders := map[string]bool{}, map[string]bool{}
	for _, closure := range filters() {
		for _, order := range scopes() {
			for _, single := range []bool{false, true} {
				c := lightcone.Config{Closure: closure, Order: order}
				if single {
					c.Order = lightcone.Everything
				}
				for _, s := range selected() {
					predicates++
					onto[c.String()+s.String()], sets[has[c.String()]+s.String()] = true, true
				}
			}
			closures[has[lightcone.Config{Closure: closure}.String()]] = true
			orders[has[lightcone.Config{Order: order}.String()]] = true
		}
	}
	return Result{
		Ours: fmt.Sprintf("%s verdicts differ, of each execution by closure and order; %d atoms of visibility and %d of "+
			"arbitration, no two with the same executions; %d predicates map onto %d configurations", of(differ, pairs),
			len(closures), len(orders), predicates, len(onto)),
		Baseline: fmt.Sprintf("relations as bits, over %d executions: to the letter %d verdicts differ; the "+
			"configurations are %d different sets", executions, literal, len(sets)),
		Verdict: holds(differ == 0 && literal > 0 && len(closures) == len(filters()) && len(orders) == len(scopes()) &&
			predicates == 120 && len(onto) == 60),
		Note: "corrected: to the letter the atoms of object and session ask only of the event itself, and arbitration " +
			"only for an order; equal they are if they also ask it of each event that is seen, as the proof reads them. The " +
			"selections map by name, k-latest has no predicate, and none speaks of waiting. Orders that respect causes " +
			"supply closure, so fewer sets than configurations are different"}, nil
}

// selected are the selections that the atoms of returned values map onto.
func selected() []lightcone.Select {
	return []lightcone.Select{lightcone.Latest, lightcone.AnyConcurrent, lightcone.Computed, lightcone.Multi,
		lightcone.Anything}
}
