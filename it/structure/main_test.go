package main

import "testing"

// TestCircles holds how many files of a package reach each other. A file of an agent names what stands below it: one
// can be read after the other, and a new circle is mostly a declaration that stands in the wrong file.
func TestCircles(t *testing.T) {
	most := map[string]int{
		"github.com/hence-dev/hence/sidecar/agent":        0,
		"github.com/hence-dev/hence/sidecar/agent/settle": 10,
	}
	all, err := list("../..", []string{"./sidecar/agent/..."})
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, p := range all {
		bound, ours := most[p.ImportPath]
		if p.DepOnly || !ours {
			continue
		}
		seen++
		m, err := measure(p, all, nil)
		if err != nil {
			t.Fatal(err)
		}
		if m.circle > bound {
			t.Errorf("%s: %d files reach each other, at most %d may: move what ties them (go run ./it/structure)",
				p.ImportPath, m.circle, bound)
		}
		if len(p.GoFiles) > 40 || m.fields > 25 {
			t.Errorf("%s: %d files, and %s has %d fields; at most 40 and 25", p.ImportPath, len(p.GoFiles), m.hub, m.fields)
		}
	}
	if seen != len(most) {
		t.Errorf("%d packages were measured, want %d", seen, len(most))
	}
}
