package sequencer_test

import (
	"errors"
	"maps"
	"os"
	"strconv"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	records "github.com/hence-dev/hence/sequencer/hostile"
	"github.com/hence-dev/hence/sequencer/testsize"
)

// sameCounters holds that what a fold counts as it goes is what one that is restored from its state counts.
func sameCounters(t *testing.T, f *sequencer.Fold, seed uint64, step int) {
	t.Helper()
	g, err := sequencer.Restore(f.State())
	if err != nil {
		t.Fatalf("seed %d after %d: %v", seed, step, err)
	}
	if live, restored := f.Counters(), g.Counters(); !maps.Equal(live, restored) {
		t.Fatalf("seed %d, logic %d, after %d:\n live     %v\n restored %v", seed, f.State().Rules.Logic, step, live,
			restored)
	}
}

// historySeeds is how many histories are tried: more where HENCE_HOSTILE asks for more hostile records of each kind.
func historySeeds(t *testing.T, usual uint64) uint64 {
	t.Helper()
	text := os.Getenv("HENCE_HOSTILE")
	switch {
	case text == "" && testsize.Small():
		return usual / 8
	case text == "":
		return usual
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		t.Fatalf("HENCE_HOSTILE: %v", err)
	}
	return max(usual, n/500)
}

// TestCountersFollowTheState: along histories as sidecars make them, after every step.
func TestCountersFollowTheState(t *testing.T) {
	for seed := range historySeeds(t, 40) {
		h := newHistory()
		h.undo = seed%2 == 1
		words := dice{seed * 7919}
		seen := &reached{count: map[string]int{}}
		f := sequencer.New("ws")
		for i := range 400 {
			words.n(2)
			h.dice = dice{words.state}
			in := h.next()
			if err := h.compare(in, false, seen); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if _, err := f.Step(int64(i), in); err != nil {
				t.Fatal(err)
			}
			sameCounters(t, f, seed, i)
		}
	}
}

// TestCountersSurviveHostileRecords: and along histories in which every other record is mutated, under every logic.
func TestCountersSurviveHostileRecords(t *testing.T) {
	for seed := range historySeeds(t, 24) {
		kinds := records.Kinds()
		for logic := uint32(1); logic <= sequencer.Logic; logic++ {
			w, f, at := records.NewWorld(seed, logic), sequencer.New("ws"), 0
			apply := func(in *sequencer.Intent) {
				step, err := f.Step(int64(at), in)
				if err != nil && !errors.Is(err, sequencer.ErrUnknownLogic) {
					t.Fatal(err)
				}
				for i := range step.Outcomes {
					w.See(&step.Outcomes[i])
				}
				if next, has := f.NextTick(); has {
					w.Ticks(next)
				}
				sameCounters(t, f, seed, at)
				at++
			}
			for _, in := range w.Founding() {
				apply(in)
			}
			for range 200 {
				apply(w.Any())
				apply(w.Twist(w.Draw(kinds[(at/2)%len(kinds)])))
			}
		}
	}
}
