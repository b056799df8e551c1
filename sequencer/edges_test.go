package sequencer_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sequencer"
)

// step feeds a fold one intent.
func step(t *testing.T, f *sequencer.Fold, in *sequencer.Intent) []sequencer.Outcome {
	t.Helper()
	out, err := f.Step(int64(f.Seq()), in)
	if err != nil {
		t.Fatal(err)
	}
	return out.Outcomes
}

// joined is a fold of a logic with one live sidecar.
func joined(t *testing.T, logic uint32) *sequencer.Fold {
	t.Helper()
	f := sequencer.New("ws")
	step(t, f, &sequencer.Intent{Kind: sequencer.IntentJoin, Agent: "a1",
		Join: &sequencer.Join{ID: "j1", Logic: logic}})
	return f
}

// TestRulesAtTheirBounds holds that rules are taken at the last value that a bound allows, and refused behind it.
func TestRulesAtTheirBounds(t *testing.T) {
	type rules = sequencer.Rules
	for name, c := range map[string]struct{ last, over func(*rules) }{
		"horizon seqs":    {func(r *rules) { r.HorizonSeqs = 1 << 16 }, func(r *rules) { r.HorizonSeqs = 1<<16 + 1 }},
		"cap":             {func(r *rules) { r.CapSeqs = 1 << 16 }, func(r *rules) { r.CapSeqs = 1<<16 + 1 }},
		"no cap":          {func(r *rules) { r.CapSeqs = 1 }, func(r *rules) { r.CapSeqs = 0 }},
		"lease":           {func(r *rules) { r.LeaseTicks = 10 }, func(r *rules) { r.LeaseTicks = 9 }},
		"deadline":        {func(r *rules) { r.DeadlineTicks = 1 }, func(r *rules) { r.DeadlineTicks = 0 }},
		"bound":           {func(r *rules) { r.BoundTicks = 1 }, func(r *rules) { r.BoundTicks = 0 }},
		"verdict":         {func(r *rules) { r.VerdictTicks = 1 }, func(r *rules) { r.VerdictTicks = 0 }},
		"open":            {func(r *rules) { r.MaxOpen = 4096 }, func(r *rules) { r.MaxOpen = 4097 }},
		"none open":       {func(r *rules) { r.MaxOpen = 1 }, func(r *rules) { r.MaxOpen = 0 }},
		"scopes":          {func(r *rules) { r.MaxScopes = 512 }, func(r *rules) { r.MaxScopes = 513 }},
		"no scopes":       {func(r *rules) { r.MaxScopes = 1 }, func(r *rules) { r.MaxScopes = 0 }},
		"bytes":           {func(r *rules) { r.MaxBytes = 128 << 10 }, func(r *rules) { r.MaxBytes = 128<<10 + 1 }},
		"no bytes":        {func(r *rules) { r.MaxBytes = 1 }, func(r *rules) { r.MaxBytes = 0 }},
		"inline":          {func(r *rules) { r.MaxInline = 128 << 10 }, func(r *rules) { r.MaxInline = 128<<10 + 1 }},
		"kept":            {func(r *rules) { r.MaxKept = 384 << 10 }, func(r *rules) { r.MaxKept = 384<<10 - 1 }},
		"horizon commits": {func(r *rules) { r.HorizonCommits = 1 << 16 }, func(r *rules) { r.HorizonCommits = 1<<16 + 1 }},
		"horizon ticks":   {func(r *rules) { r.HorizonTicks = 126144000 }, func(r *rules) { r.HorizonTicks = 126144001 }},
		"approval":        {func(r *rules) { r.ApprovalTicks = 126144000 }, func(r *rules) { r.ApprovalTicks = 126144001 }},
		"content":         {func(r *rules) { r.MaxContent = 16 << 20 }, func(r *rules) { r.MaxContent = 16<<20 + 1 }},
		// 1 MiB less 32 KiB and five quarters of what is kept by default, by 160 bytes.
		"state": {func(r *rules) { r.MaxSidecars = 1228 }, func(r *rules) { r.MaxSidecars = 1229 }},
	} {
		for over, change := range map[bool]func(*rules){false: c.last, true: c.over} {
			f := joined(t, sequencer.Logic)
			r := sequencer.DefaultRules()
			r.Version, r.Logic = 1, sequencer.Logic
			change(&r)
			out := step(t, f, &sequencer.Intent{Kind: sequencer.IntentRules, Agent: "a1", Rules: &r})
			if len(out) != 1 || (out[0].Kind == sequencer.OutcomeRefused) != over {
				t.Errorf("%s, over the bound: %v: %+v", name, over, out)
			}
		}
	}
}

// TestRulesOfOlderLogics holds that what a logic does not have stays out of the rules, and is there from it on.
func TestRulesOfOlderLogics(t *testing.T) {
	for logic := uint32(1); logic <= sequencer.Logic; logic++ {
		r := joined(t, logic).State().Rules
		since3, since4 := logic >= 3, logic >= 4
		if (r.MaxSidecars > 0) != since3 || (r.HorizonCommits > 0) != since3 || (r.HorizonTicks > 0) != since3 ||
			(r.ApprovalTicks > 0) != since4 {
			t.Errorf("logic %d: %+v", logic, r)
		}
	}
}

// TestUnknownLogicIsNotRestored holds that a state of a logic that is not implemented here restores no fold, and no
// replica.
func TestUnknownLogicIsNotRestored(t *testing.T) {
	for logic, fine := range map[uint32]bool{0: false, 1: true, sequencer.Logic: true, sequencer.Logic + 1: false} {
		st := sequencer.New("ws").State()
		st.Rules.Logic = logic
		_, err := sequencer.Restore(st)
		if (err == nil) != fine || !fine && !errors.Is(err, sequencer.ErrUnknownLogic) {
			t.Errorf("logic %d: %v", logic, err)
		}
		r, err := sequencer.RestoreReplica(sequencer.ReplicaState{State: st, Offset: -1})
		if (err == nil) != fine || fine != (r != nil) {
			t.Errorf("replica of logic %d: %v, %v", logic, r, err)
		}
	}
}

// TestTicksAreDue holds when time must go on: by a tick while something is undecided, by eight while only leases run.
func TestTicksAreDue(t *testing.T) {
	f := sequencer.New("ws")
	if mark, due := f.NextTick(); due {
		t.Errorf("nothing is there, and %+v is due", mark)
	}
	f = joined(t, sequencer.Logic)
	if mark, due := f.NextTick(); !due || mark.N != 1 || mark.Weight != 8 {
		t.Errorf("a lease runs: %+v, %v", mark, due)
	}
	step(t, f, &sequencer.Intent{Kind: sequencer.IntentBegin, Agent: "a1", Incarnation: f.Seq(), Base: f.Seq(), Tx: "T1",
		N: 1, Begin: &sequencer.Begin{}})
	if mark, due := f.NextTick(); !due || mark.N != 1 || mark.Weight != 1 {
		t.Errorf("a transaction is open: %+v, %v", mark, due)
	}
}

// TestUndoLeftOf holds of which transactions there is something left to undo, and how much of it.
func TestUndoLeftOf(t *testing.T) {
	m := newMachine()
	run := func(lines ...string) {
		t.Helper()
		for _, line := range lines {
			if _, err := m.run(line); err != nil {
				t.Fatal(err)
			}
		}
	}
	run("join a1 logic=4", "rules commits=2 undo=100", `T1 seal a1 shard=shard:/s;text="1"`, "T2 begin a1")
	if left, is := m.fold.UndoLeft("T1"); !is || left.Commits != 2 || left.Ticks != 101 || left.Made != 1 ||
		left.Kept == 0 || left.Bytes == 0 {
		t.Errorf("of the newest: %v, %+v", is, left)
	}
	for _, id := range []sequencer.TxID{"nobody", "T2"} {
		if left, is := m.fold.UndoLeft(id); is {
			t.Errorf("of %s: %+v", id, left)
		}
	}
	run("ticks 5", `T3 seal a1 shard=shard:/t;text="3"`)
	if left, is := m.fold.UndoLeft("T1"); !is || left.Commits != 1 || left.Ticks != 96 || left.Made != 2 {
		t.Errorf("of the one before: %v, %+v", is, left)
	}
	run("T3 retract", `T4 seal a1 shard=shard:/u;text="4"`, `T5 seal a1 shard=shard:/u;text="5"`)
	for _, id := range []sequencer.TxID{"T1", "T3"} {
		if left, is := m.fold.UndoLeft(id); is {
			t.Errorf("of %s, which is behind the horizon or taken back: %+v", id, left)
		}
	}
	old := newMachine()
	for _, line := range []string{"join a1 logic=2", `T1 seal a1 shard=shard:/s;text="1"`} {
		if _, err := old.run(line); err != nil {
			t.Fatal(err)
		}
	}
	if left, is := old.fold.UndoLeft("T1"); is {
		t.Errorf("under logic 2: %+v", left)
	}
}

// TestScopesAtTheirBounds holds that a scope is taken at the last value that a bound allows, and not behind it, and
// which letters are whose.
func TestScopesAtTheirBounds(t *testing.T) {
	longest := "doc:/" + strings.Repeat("a", sequencer.MaxScopeBytes-len("doc:/"))
	deepest := "doc:" + strings.Repeat("/a", sequencer.MaxScopeSegments)
	for text, fine := range map[string]bool{
		longest: true, longest + "a": false, "DOC" + longest[3:]: true, "DOC" + longest[3:] + "a": false,
		"DOC:/./" + longest[5:]: false, deepest: true, deepest + "/a": false,
		"a:/x": true, "z:/x": true, "aAZ:/x": true, "Z:/x": true, "`:/x": false, "{:/x": false, "a~:/x": false,
		"doc:/A": true, "doc:/Z": true, "doc:/%41": true, "doc:/%7f": true, "doc:/%80": false, "doc:/%C3%A9": true,
	} {
		got, err := sequencer.ParseScope(text)
		if (err == nil) != fine {
			t.Errorf("%.40q of %d bytes: %q, %v", text, len(text), got, err)
		}
	}
	for text, want := range map[string]sequencer.Scope{"AZ:/x": "az:/x", "doc:/%4f%5A": "doc:/OZ",
		"doc:/%c3%a9": "doc:/%C3%A9", "doc:/%2f": "doc:/%2F", "doc:/%AF": ""} {
		if got, _ := sequencer.ParseScope(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
