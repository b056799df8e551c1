package demo

import "testing"

// Each kind of finding is found in a small run, and a clean one has none.
func TestCheckEffects(t *testing.T) {
	effects := []EffectRecord{{Index: 0, Tool: toolReserve, Key: "r"}, {Index: 1, Tool: toolCharge, Key: "charge/1"},
		{Index: 2, Tool: toolMail}}
	attempts := []*Attempt{{Tx: "a", Effects: effects}, {Tx: "b", Effects: effects}}
	log := map[string]logged{"a": {committed: true}, "b": {}}
	clean := []Arrival{{toolReserve, "a", 0, "a/0"}, {toolCharge, "a", 1, "charge/1"}, {toolMail, "a", 2, ""},
		{toolReserve, "b", 0, "b/0"}, {toolRelease, "b", 0, "b/0/undo"}}
	for name, c := range map[string]struct {
		arrived                      []Arrival
		left                         []Uncleaned
		leaks, twice, absent, undone int
	}{
		"clean":    {arrived: clean},
		"leak":     {arrived: append(clean[:5:5], Arrival{toolMail, "b", 2, ""}), leaks: 1},
		"same key": {arrived: append(clean[:5:5], Arrival{toolCharge, "a", 1, "charge/1"}), twice: 1},
		"no key":   {arrived: append(clean[:5:5], Arrival{toolMail, "a", 2, ""}), twice: 1},
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
