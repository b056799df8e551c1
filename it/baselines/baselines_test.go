package baselines

import (
	"slices"
	"testing"
)

// Each way is weak where it is known to be weak, and nowhere else: a table in which all rows look alike would count
// nothing.
func TestWeaknesses(t *testing.T) {
	load := MakeWorkload(1, 8, 20, 4)
	want := map[string]struct{ leaks, duplicates, violations, waits, rejects bool }{
		"no transactions":       {leaks: true, violations: true},
		"lock per call":         {leaks: true, violations: true, waits: true},
		"lock per workflow":     {leaks: true, violations: true, waits: true},
		"optimistic store":      {leaks: true, rejects: true},
		"saga":                  {leaks: true, duplicates: true, violations: true},
		"try-confirm-cancel":    {violations: true, waits: true, rejects: true},
		"one lock and a log":    {leaks: true, duplicates: true, waits: true},
		"checkpoint and replay": {leaks: true, duplicates: true, violations: true},
	}
	for i := range Ways(NewWorld(nil)) {
		world := NewWorld(load.Orders)
		row, err := Run(t.Context(), load, world, Ways(world)[i])
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", row)
		w, known := want[row.Name]
		if !known {
			t.Fatalf("no expectation for %q", row.Name)
		}
		for what, pair := range map[string]struct {
			got  int
			want bool
		}{
			"leaks": {row.Leaks, w.leaks}, "duplicates": {row.Duplicates, w.duplicates},
			"violations": {row.Violations, w.violations}, "rejections": {row.Rejections, w.rejects},
			"wait": {int(row.Wait), w.waits},
		} {
			if pair.got > 0 != pair.want {
				t.Errorf("%s: %s is %d, which is not what it is known for", row.Name, what, pair.got)
			}
		}
		if row.Committed == 0 || row.Committed > row.Tasks {
			t.Errorf("%s: %d of %d committed", row.Name, row.Committed, row.Tasks)
		}
	}
}

func TestCountByHand(t *testing.T) {
	w := NewWorld([]string{"x", "y"})
	w.Read("a", "x")
	w.Write("b", "x", 5)
	w.Ended("b", true)
	w.Send("a", "k")
	w.Ended("a", true) // on a read that b overtook
	w.Read("c", "y")
	w.Write("d", "y", 7)
	w.Read("c", "y") // dirty: d fails
	w.Send("d", "m")
	w.Ended("d", false) // its value stands, its mail has left
	w.Ended("c", true)
	w.Send("c", "k") // once more
	row := Count("by hand", 4, w, 0)
	if row.Leaks != 1 || row.Duplicates != 1 || row.Violations != 3 || row.Committed != 3 {
		t.Errorf("counted %+v", row)
	}
	if !slices.ContainsFunc(w.History(), func(op Op) bool { return op.Kind == OpSend }) {
		t.Error("the history shows no send")
	}
}
