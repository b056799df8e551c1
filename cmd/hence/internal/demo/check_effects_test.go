package demo

import (
	"testing"
	"time"
)

func arrival(tool, tx string, index int, key string) Arrival {
	return Arrival{Tool: tool, Tx: tx, Index: index, Key: key}
}

// Each kind of finding is found in a small run, and a clean one has none.
func TestCheckEffects(t *testing.T) {
	effects := []EffectRecord{{Index: 0, Tool: toolReserve, Key: "r"}, {Index: 1, Tool: toolCharge, Key: "charge/1"},
		{Index: 2, Tool: toolMail}}
	attempts := []*Attempt{{Tx: "a", Effects: effects}, {Tx: "b", Effects: effects}}
	log := map[string]logged{"a": {committed: true}, "b": {}}
	clean := []Arrival{arrival(toolReserve, "a", 0, "a/0"), arrival(toolCharge, "a", 1, "charge/1"),
		arrival(toolMail, "a", 2, ""),
		arrival(toolReserve, "b", 0, "b/0"), arrival(toolRelease, "b", 0, "b/0/undo")}
	for name, c := range map[string]struct {
		arrived                      []Arrival
		left                         []Uncleaned
		leaks, twice, absent, undone int
	}{
		"clean":    {arrived: clean},
		"leak":     {arrived: append(clean[:5:5], arrival(toolMail, "b", 2, "")), leaks: 1},
		"same key": {arrived: append(clean[:5:5], arrival(toolCharge, "a", 1, "charge/1")), twice: 1},
		"no key":   {arrived: append(clean[:5:5], arrival(toolMail, "a", 2, "")), twice: 1},
		"absent":   {arrived: append(clean[:1:1], clean[3:]...), absent: 2},
		"named": {arrived: append(clean[:2:2], clean[3:]...),
			left: []Uncleaned{{Tx: "a", Index: 2, Class: "irreversible"}}},
		"not undone": {arrived: clean[:4], undone: 1},
	} {
		f := checkEffects(attempts, log, c.arrived, c.left)
		if len(f.leaks) != c.leaks || len(f.duplicates) != c.twice || len(f.absent) != c.absent ||
			len(f.standing) != c.undone {
			t.Errorf("%s: found %+v", name, f)
		}
		if len(c.left) != f.residue["irreversible"] {
			t.Errorf("%s: residue is %v", name, f.residue)
		}
	}
}

// A planned turn is held against its plan: the order of its calls, and that nothing comes of one that was not made.
func TestCheckPlans(t *testing.T) {
	const reserve, charge, mail = toolReserve, toolCharge, toolMail
	turn := &Attempt{Tx: "a", Planned: []PlannedRecord{{Index: 0, Tool: reserve, End: plannedPassed},
		{Index: 1, Tool: reserve, End: plannedMade}, {Index: 2, Tool: charge, End: plannedMade},
		{Index: 3, Tool: mail, End: plannedMade}}, Effects: []EffectRecord{{Index: 4, Tool: reserve}, // made again
		{Index: 1, Tool: reserve}, {Index: 2, Tool: charge}, {Index: 3, Tool: mail}}}
	never := *turn
	never.Planned = append([]PlannedRecord{{Index: 0, Tool: reserve, End: plannedNever}}, turn.Planned[1:]...)
	unplanned := *turn
	unplanned.Planned = nil
	log := map[string]logged{"a": {committed: true}}
	for name, c := range map[string]struct {
		turn  *Attempt
		order []int // indexes, as the sinks took them
		want  int
	}{
		"as planned":             {turn, []int{1, 4, 2, 3}, 0},
		"held ones by their own": {turn, []int{2, 1, 3, 4}, 0},
		"held out of order":      {turn, []int{1, 4, 3, 2}, 1},
		"eager out of order":     {turn, []int{4, 1, 2, 3}, 1},
		"the late one arrived":   {turn, []int{0, 1, 4, 2, 3}, 1},
		"what never came did":    {&never, []int{1, 4, 2, 3, 0}, 1},
		"never, and all is well": {&never, []int{1, 4, 2, 3}, 0},
		"without a plan":         {&unplanned, []int{4, 1, 3, 2}, 0},
	} {
		tools := []string{reserve, reserve, charge, mail, reserve}
		var arrived []Arrival
		for i, index := range c.order {
			a := arrival(tools[index], "a", index, "")
			a.At = time.Unix(int64(i+1), 0)
			// Its repetition and what undoes it say nothing of its order.
			again, undone := a, a
			again.At, undone.At, undone.Tool = time.Unix(100, 0), time.Unix(0, 0), toolRelease
			arrived = append(arrived, undone, a, again)
		}
		if f := checkEffects([]*Attempt{c.turn}, log, arrived, nil); len(f.againstPlan) != c.want {
			t.Errorf("%s: %+v, want %d", name, f.againstPlan, c.want)
		}
	}
}
