package sim

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// dice is where one actor has its choices from: what an actor does, also one that is dead, moves no other's.
type dice struct {
	b   *bubble
	mu  sync.Mutex
	rng *rand.Rand
}

// newDice makes the next actor's. Who is made when is a choice of those that are there already.
func (b *bubble) newDice() *dice {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.actors++
	return &dice{b: b, rng: rand.New(rand.NewPCG(b.r.seed, b.actors))}
}

func (d *dice) n(limit int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rng.IntN(limit)
}

// chance throws for a fault of a kind, as often as the schedule has it now, and counts it.
func (d *dice) chance(kind hit, p func(*faults) float64) bool {
	if !d.wish(p) {
		return false
	}
	d.landed(kind)
	return true
}

// landed counts a fault.
func (d *dice) landed(kind hit) {
	d.b.mu.Lock()
	defer d.b.mu.Unlock()
	d.b.r.hit(kind)
}

// wish throws for what an agent may want, as often as the schedule has it now.
func (d *dice) wish(p func(*faults) float64) bool {
	d.b.mu.Lock()
	limit := p(&d.b.fault)
	d.b.mu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	return limit > 0 && d.rng.Float64() < limit
}

// weighed draws one of several by their weights.
func (d *dice) weighed(weights ...float64) int {
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	d.mu.Lock()
	at := d.rng.Float64() * sum
	d.mu.Unlock()
	for i, w := range weights {
		if at -= w; at < 0 {
			return i
		}
	}
	return len(weights) - 1
}

// some is a time of up to most, to the nanosecond: no two ends of it fall together.
func (d *dice) some(most time.Duration) time.Duration { return 1 + time.Duration(d.n(int(most))) }

// slow is the time that a message takes. It reports false when ctx ended first.
func (d *dice) slow(ctx context.Context) bool {
	d.b.mu.Lock()
	most := d.b.fault.slow
	d.b.mu.Unlock()
	return d.b.sleep(ctx, d.some(most))
}
