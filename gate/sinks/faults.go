// Package sinks holds services that take effects, for demonstrations and tests: a mail server and an HTTP service with
// a ledger. Both keep everything that they ever did, so that what happened can be counted.
//
// Guarantees: a record is in the list before its sender is answered, none is ever changed or removed, and every fault
// that is injected is counted. They are real listeners on loopback, and no doubles of the gate's own code.
package sinks

import (
	"math/rand/v2"
	"sync"
	"time"
)

// Faults says how often a sink misbehaves, each as a probability from 0 to 1. The same seed draws the same faults for
// the same sequence of requests.
type Faults struct {
	Seed         uint64
	Refuse       float64       // F1: an error before anything happens, which the sender cannot tell from F2
	Lose         float64       // F2: it acts, and the connection ends before the answer
	Undo         float64       // F3: a compensation fails, having done nothing
	Duplicate    float64       // F4: the request is delivered twice
	Late         float64       // F5: it acts only after Delay
	Delay        time.Duration // of F5; longer than its sender waits
	RefuseStatus int           // of F1 and F3; 503 when zero
	Burst        int           // how many requests in a row a drawn fault meets; zero: one
}

// Evenly is every fault with the same probability.
func Evenly(p float64, seed uint64, delay time.Duration) Faults {
	return Faults{Seed: seed, Refuse: p, Lose: p, Undo: p, Duplicate: p, Late: p, Delay: delay}
}

// Injected counts the faults that happened.
type Injected struct {
	Refused    int `json:"refused"`    // F1
	Lost       int `json:"lost"`       // F2
	UndoFailed int `json:"undoFailed"` // F3
	Duplicated int `json:"duplicated"` // F4
	Late       int `json:"late"`       // F5
}

// drawn are the faults of one request.
type drawn struct{ refuse, lose, undo, duplicate, late bool }

// dice draws faults.
type dice struct {
	mu     sync.Mutex
	faults Faults
	random *rand.Rand
	count  Injected
	burst  drawn // what meets the next requests, too
	left   int   // of them
}

func newDice(f Faults) *dice {
	return &dice{faults: f, random: rand.New(rand.NewPCG(f.Seed, 0x5eed))}
}

// draw takes five numbers for each request, whatever its faults, so that one probability does not shift the others. Of
// faults that exclude each other the first in the order F1, F3, F5, F2 stays.
func (d *dice) draw(undoes bool) drawn {
	d.mu.Lock()
	defer d.mu.Unlock()
	var n [5]float64
	for i := range n {
		n[i] = d.random.Float64()
	}
	f := drawn{refuse: n[0] < d.faults.Refuse && !undoes, undo: n[1] < d.faults.Undo && undoes}
	if !f.refuse && !f.undo {
		f.late = n[2] < d.faults.Late
		f.lose = n[3] < d.faults.Lose && !f.late
		f.duplicate = n[4] < d.faults.Duplicate
	}
	switch {
	case d.left > 0:
		f, d.left = d.burst, d.left-1
	case f != drawn{} && d.faults.Burst > 1:
		d.burst, d.left = f, d.faults.Burst-1
	}
	for _, c := range []struct {
		happened bool
		count    *int
	}{
		{f.refuse, &d.count.Refused}, {f.lose, &d.count.Lost}, {f.undo, &d.count.UndoFailed},
		{f.duplicate, &d.count.Duplicated}, {f.late, &d.count.Late},
	} {
		if c.happened {
			*c.count++
		}
	}
	return f
}

func (d *dice) injected() Injected {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.count
}

func (d *dice) set(f Faults) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults, d.left = f, 0
	d.random = rand.New(rand.NewPCG(f.Seed, 0x5eed))
}
