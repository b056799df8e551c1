package outages

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/harness"
)

// nemesis is one kind of fault: what begins it, what ends it, and how to see that it landed.
type nemesis struct {
	name       string
	begin, end func(*harness.Box) error
	landed     func(*harness.Box) (bool, error)
}

func nemeses() []nemesis {
	return []nemesis{
		{"kill", (*harness.Box).Kill, (*harness.Box).Start, func(b *harness.Box) (bool, error) {
			running, _, err := b.Running()
			return !running, err
		}},
		{"pause", (*harness.Box).Pause, (*harness.Box).Unpause, func(b *harness.Box) (bool, error) {
			_, paused, err := b.Running()
			return paused, err
		}},
		{"disconnect", (*harness.Box).Disconnect, (*harness.Box).Connect, func(b *harness.Box) (bool, error) {
			connected, err := b.Connected()
			return !connected, err
		}},
	}
}

// fault is one that landed.
type fault struct {
	kind, part string
	lasted     time.Duration
	open       int           // transactions under way when it began
	on         time.Duration // from its end until transactions were committed again
}

// plague lets each nemesis strike n times, in turns over all containers.
func (l *boxLab) plague(t *testing.T, n int) error {
	t.Helper()
	rng := rand.New(rand.NewPCG(23, uint64(n)))
	targets := slices.Concat(l.groups...)
	rng.Shuffle(len(targets), func(i, j int) { targets[i], targets[j] = targets[j], targets[i] })
	next := 0
	for round := range n {
		for _, kind := range nemeses() {
			f, err := l.strike(kind, targets[next%len(targets)], rng)
			for again := 0; err == nil && f == nil && again < 3; again++ { // a void one is made up for
				l.voids++
				f, err = l.strike(kind, targets[next%len(targets)], rng)
			}
			next++
			if err != nil {
				return fmt.Errorf("round %d: %w", round+1, err)
			}
			if f == nil {
				return fmt.Errorf("round %d: a %s did not land in four tries", round+1, kind.name)
			}
			l.faults = append(l.faults, *f)
			t.Logf("round %d: %s of %s for %v with %d transactions under way; they went on after %v", round+1, f.kind, f.part,
				f.lasted.Round(time.Millisecond), f.open, f.on.Round(time.Millisecond))
		}
	}
	return nil
}

// strike makes one fault and waits until transactions are committed again; nil: it was void.
func (l *boxLab) strike(kind nemesis, b *harness.Box, rng *rand.Rand) (*fault, error) {
	f := &fault{kind: kind.name, part: b.Alias, open: l.load.busy()}
	start := time.Now()
	if err := kind.begin(b); err != nil {
		return nil, err
	}
	landed, err := kind.landed(b)
	// From a hiccup to longer than a session of a consumer group.
	lasts := time.After(time.Duration(200+rng.IntN(1500))*time.Millisecond + time.Duration(rng.IntN(4)/3)*6*time.Second)
	<-lasts
	healed := time.Now()
	f.lasted = healed.Sub(start)
	if err = errors.Join(err, kind.end(b)); err == nil {
		err = b.Serving()
	}
	if err != nil {
		return nil, fmt.Errorf("%s of %s: %w", kind.name, b.Alias, err)
	}
	if err := l.load.reach(10, boxAgain); err != nil {
		return nil, fmt.Errorf("after a %s of %s for %v: %w", kind.name, b.Alias, f.lasted, err)
	}
	f.on = time.Since(healed)
	if !landed || f.open == 0 {
		return nil, nil
	}
	return f, nil
}
