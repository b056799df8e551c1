package replay_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sequencer/replay"
)

// spoil edits a log as bytes say, four for each edit: what, where, and two numbers.
func spoil(log []*sequencer.Intent, edits []byte) []*sequencer.Intent {
	log = slices.Clone(log)
	for ; len(edits) >= 4 && len(log) > 1; edits = edits[4:] {
		at, from, n := int(edits[1])%len(log), int(edits[2])%len(log), edits[3]
		if log[at] == nil {
			continue
		}
		in := *log[at]
		switch edits[0] % 12 {
		case 0:
			log = slices.Delete(log, at, at+1)
			continue
		case 1:
			log[at] = nil
			continue
		case 2:
			log = slices.Insert(log, at, log[from])
			continue
		case 3:
			log[at], log[from] = log[from], log[at]
			continue
		case 4:
			in.N = uint32(n)
		case 5:
			in.Base = sequencer.Seq(n)
		case 6:
			in.Incarnation = sequencer.Seq(n)
		case 7:
			if other := log[from]; other != nil {
				in.Tx = other.Tx
			}
		case 8:
			in.Kind, in.Abort = sequencer.IntentAbort, &sequencer.Abort{Seq: sequencer.Seq(n)}
		case 9:
			in.Kind, in.Settle = sequencer.IntentSettle, &sequencer.Settle{NoneElse: n%2 == 0}
		case 10:
			in.Kind = []sequencer.IntentKind{sequencer.IntentAdopt, sequencer.IntentRetract}[n%2]
		case 11:
			in = sequencer.Intent{Kind: sequencer.IntentTick, Tick: &sequencer.TickMark{N: uint64(n), Weight: 40}}
		}
		log[at] = &in
	}
	return log
}

// changeOf draws a change; zero is none.
func changeOf(n byte) (c replay.Change) {
	observe, levels, mode := n%2 == 0, sequencer.Levels(n>>1)&sequencer.L4, sequencer.Mode(n>>5)%3
	switch n % 5 {
	case 1:
		c.Observe = &observe
	case 2:
		c.Levels = &levels
	case 3:
		c.Mode = &mode
	case 4:
		c.Observe, c.Levels, c.Mode = &observe, &levels, &mode
		c.Class = func(tool string) (replay.Treatment, bool) {
			return replay.Treatment{Class: sequencer.Class(n % 5), Approve: n > 128}, tool == "set" || n > 64
		}
	}
	return c
}

// FuzzRun draws a log of a seed, spoils it, and decides it again. Under its own rules nothing differs. Under others it
// ends, and each cause stands before what follows from it.
func FuzzRun(f *testing.F) {
	d := dice(17)
	for seed := range uint64(64) {
		edits := make([]byte, 4*d.n(12))
		for i := range edits {
			edits[i] = byte(d.n(256))
		}
		f.Add(seed, byte(d.n(256)), edits)
	}
	f.Fuzz(func(t *testing.T, seed uint64, change byte, edits []byte) {
		w := newWatched(t, seed%1000, seed%2 == 0)
		for range 40 {
			w.move(t)
		}
		var intents []*sequencer.Intent
		for _, r := range w.log.Records {
			intents = append(intents, r.Intent)
		}
		log := &replay.Log{Workspace: "ws"}
		for i, in := range spoil(intents, edits[:min(len(edits), 200)]) {
			log.Records = append(log.Records, replay.Record{Offset: int64(i), Intent: in})
		}
		same, err := replay.Run(log, replay.Change{})
		if errors.Is(err, replay.ErrOtherLogic) || errors.Is(err, replay.ErrNotWhole) {
			return
		}
		if err != nil || len(same.Differences) > 0 || same.Chain != same.NowChain || len(same.Supposed) > 0 {
			t.Fatalf("under its own rules: %v, %+v", err, same)
		}
		res, err := replay.Run(log, changeOf(change))
		if err != nil {
			t.Fatal(err)
		}
		for i, d := range res.Differences {
			if d.Cause.Of >= i || i == 0 && d.Cause.Of >= 0 {
				t.Fatalf("difference %d: %+v", i, d)
			}
		}
	})
}

// TestWeakerLevel: under a weaker level an observing log differs only in what it says it would be. What is said is
// what that level looks for, or of no level.
func TestWeakerLevel(t *testing.T) {
	fewer := 0
	for seed := range logs() / 4 {
		w := newWatched(t, seed, false)
		for range 60 {
			w.move(t)
		}
		for _, levels := range []sequencer.Levels{sequencer.L0, sequencer.L2 &^ sequencer.A1} {
			res, err := replay.Run(&w.log, replay.Change{Levels: &levels})
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			then, now := res.Then, res.Now
			if fewer += len(then.Would) - len(now.Would); now.Would[sequencer.CodeStaleRead] > 0 {
				t.Errorf("seed %d, %v: it would be %v", seed, levels, now.Would)
			}
			then.Would, now.Would = nil, nil
			if len(res.Differences) > 0 || !reflect.DeepEqual(then, now) || len(res.Supposed) > 0 {
				t.Errorf("seed %d, %v: %+v, now %+v: %+v", seed, levels, then, now, res.Differences)
			}
		}
	}
	if fewer <= 0 {
		t.Error("no log says less under a weaker level")
	}
}
