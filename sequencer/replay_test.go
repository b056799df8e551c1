package sequencer_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sequencer/replay"
	"github.com/hence-dev/hence/sequencer/script"
	"github.com/hence-dev/hence/sequencer/testsize"
)

func logOf(intents []*sequencer.Intent) *replay.Log {
	log := &replay.Log{Workspace: "ws"}
	for i, in := range intents {
		log.Records = append(log.Records, replay.Record{Offset: int64(i), Intent: in})
	}
	return log
}

// replaySame: a log under its own rules differs in nothing, and its chain is the same.
func replaySame(log []*sequencer.Intent) error {
	if len(log) == 0 {
		return nil
	}
	res, err := replay.Run(logOf(log), replay.Change{})
	switch {
	case err != nil:
		return err
	case res.Chain != res.NowChain:
		return fmt.Errorf("the chain is %x, and %x the second time: %s", res.Chain[:8], res.NowChain[:8], firstOf(res))
	case len(res.Differences) > 0 || len(res.Unknown) > 0 || len(res.Supposed) > 0:
		return fmt.Errorf("it differs: %s, %v, %v", firstOf(res), res.Unknown, res.Supposed)
	}
	return nil
}

func firstOf(res *replay.Result) string {
	if len(res.Differences) == 0 {
		return "no difference"
	}
	d := res.Differences[0]
	return fmt.Sprintf("%s %s at %d: %+v, now %+v", d.Tx, d.What, d.Offset, d.Then, d.Now)
}

// replayChanged: under other rules the causes hang together. The first difference is of the rule alone; each other one
// follows from one before it, and its chain of causes ends at one of the rule.
func replayChanged(log []*sequencer.Intent, change replay.Change) (*replay.Result, error) {
	res, err := replay.Run(logOf(log), change)
	if err != nil {
		return nil, err
	}
	direct := 0
	for i, d := range res.Differences {
		switch c := d.Cause; {
		case c.Of >= i || c.Of < 0 != (c.Why == replay.CauseRule):
			return res, fmt.Errorf("difference %d of %s: cause %+v", i, d.Tx, c)
		case c.Of < 0:
			direct++
		case i == 0 || res.Differences[c.First].Cause.Of >= 0:
			return res, fmt.Errorf("difference %d of %s: the first cause of %+v has one itself", i, d.Tx, c)
		}
	}
	if direct != res.Direct {
		return res, fmt.Errorf("%d are direct, not %d", direct, res.Direct)
	}
	return res, nil
}

func ptr[T any](v T) *T { return &v }

// changes are the rules that logs are decided under again.
func changes() map[string]replay.Change {
	return map[string]replay.Change{
		"observe": {Observe: ptr(true)}, "enforce": {Observe: ptr(false)},
		"L0": {Levels: ptr(sequencer.L0)}, "L1": {Levels: ptr(sequencer.L1)}, "L4": {Levels: ptr(sequencer.L4)},
		"optimistic": {Mode: ptr(sequencer.Optimistic)}, "ordered": {Mode: ptr(sequencer.Ordered)},
		"locked": {Mode: ptr(sequencer.Locked)},
		"policy": {Class: func(tool string) (replay.Treatment, bool) {
			return replay.Treatment{Class: sequencer.Class(len(tool) % 5)}, true
		}},
	}
}

// TestReplayHistories replays random logs, junk and all.
func TestReplayHistories(t *testing.T) {
	logs, differed := 200, map[string]int{}
	if testsize.Small() {
		logs = 60
	}
	if n, err := strconv.Atoi(os.Getenv("HENCE_IT_REPLAY_LOGS")); err == nil {
		logs = n
	}
	for seed := range logs {
		h := newHistory()
		h.undo = seed%4 == 0
		seen := &reached{count: map[string]int{}}
		for i := range 60 {
			h.dice = dice{uint64(seed)<<20 | uint64(i)}
			if err := h.compare(h.next(), false, seen); err != nil {
				t.Fatal(err)
			}
		}
		var log []*sequencer.Intent
		for _, r := range h.log {
			log = append(log, r.Intent)
		}
		if err := replaySame(log); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, lines(log))
		}
		for name, change := range changes() {
			res, err := replayChanged(log, change)
			if err != nil {
				t.Fatalf("seed %d, %s: %v\n%s", seed, name, err, lines(log))
			}
			differed[name] += min(1, len(res.Differences))
		}
	}
	t.Logf("of %d logs differ: %v", logs, differed)
	for name := range changes() {
		if differed[name] == 0 && name != "L4" {
			t.Errorf("%s changed nothing in %d logs", name, logs)
		}
	}
}

// TestReplayScripts decides the logs of scripts again. Their directives are run and new, as in TestScripts, and
//
//	replay mode=enforce order=locked level=L1 class=(pay,reversible)
//
// which prints what differs and why, what is supposed and what is not known.
func TestReplayScripts(t *testing.T) {
	datadriven.Walk(t, "replay/testdata", func(t *testing.T, path string) {
		if filepath.Ext(path) != ".txt" { // what the fuzzer kept is beside them
			return
		}
		m := newMachine()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "new":
				m = newMachine()
				return "ok"
			case "replay":
				if err := replaySame(m.log); err != nil {
					t.Error(err)
				}
				res, err := replayChanged(m.log, changeOf(t, d))
				if err != nil {
					d.Fatalf(t, "%v", err)
				}
				return showReplay(res)
			}
			return directive(t, m, d)
		})
	})
}

func changeOf(t *testing.T, d *datadriven.TestData) (c replay.Change) {
	for _, arg := range d.CmdArgs {
		switch v := arg.Vals[0]; arg.Key {
		case "mode":
			c.Observe = ptr(v == "observe")
		case "order":
			c.Mode = ptr(map[string]sequencer.Mode{"optimistic": sequencer.Optimistic, "ordered": sequencer.Ordered,
				"locked": sequencer.Locked}[v])
		case "level":
			c.Levels = ptr(map[string]sequencer.Levels{"L0": sequencer.L0, "L1": sequencer.L1, "L2": sequencer.L2,
				"L4": sequencer.L4}[v])
		case "class":
			tool, class := v, arg.Vals[1]
			c.Class = func(name string) (replay.Treatment, bool) {
				for k := range sequencer.Class(5) {
					if k.String() == class {
						return replay.Treatment{Class: k, Approve: len(arg.Vals) > 2}, name == tool
					}
				}
				d.Fatalf(t, "class %s", class)
				return replay.Treatment{}, false
			}
		default:
			d.Fatalf(t, "unknown change %s", arg.Key)
		}
	}
	return c
}

func showReplay(res *replay.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "committed %d, now %d; aborted %d, now %d; undecided %d, now %d\n", res.Then.Committed,
		res.Now.Committed, res.Then.Aborted, res.Now.Aborted, res.Then.Undecided, res.Now.Undecided)
	for _, would := range []map[sequencer.Code]int{res.Then.Would, res.Now.Would} {
		if len(would) > 0 {
			fmt.Fprintf(&b, "would: %v\n", would)
		}
	}
	for i, d := range res.Differences {
		fmt.Fprintf(&b, "%d @%d %s %s: %s, now %s: %s", i+1, d.Offset, d.Tx, d.What, showFate(d.Then), showFate(d.Now),
			d.Cause.Why)
		if d.Cause.Of >= 0 {
			fmt.Fprintf(&b, " %s, of %d, first %d", d.Cause.Tx, d.Cause.Of+1, d.Cause.First+1)
		}
		b.WriteByte('\n')
	}
	for _, what := range slices.Sorted(maps.Keys(res.Supposed)) {
		fmt.Fprintf(&b, "supposed %d: %s\n", res.Supposed[what], what)
	}
	for _, u := range res.Unknown {
		fmt.Fprintf(&b, "not known of %s: %s\n", u.Tx, strings.Join(u.What, "; "))
	}
	if len(res.Agents) > 0 {
		fmt.Fprintf(&b, "went on: %s\n", strings.Join(res.Agents, " "))
	}
	return b.String()
}

func showFate(f replay.Fate) string {
	out := f.Kind
	if f.Seq > 0 {
		out += fmt.Sprintf("@%d", f.Seq)
	}
	if f.Code != "" {
		out += " " + string(f.Code)
	}
	if f.Would != "" {
		out += " would=" + string(f.Would)
	}
	if f.By != "" {
		out += " by " + string(f.By)
	}
	for _, id := range f.Behind {
		out += " behind " + string(id)
	}
	return out
}

func lines(log []*sequencer.Intent) (out string) {
	for i, in := range log {
		out += fmt.Sprintf("%d %s\n", i, script.Format(in))
	}
	return out
}
