package tables

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hence-dev/hence/cmd/hence/internal/costlaw"
	"github.com/hence-dev/hence/cmd/hence/internal/runtimes"
)

// TestLawFalls holds the rules of the rows that Hence is measured for: they say yes to a runtime that spends a refused
// generation again and nothing else, and no to one that refuses nothing or everything, or does all again.
func TestLawFalls(t *testing.T) {
	for _, c := range []struct {
		name string
		kind runtimes.Kind
		redo costlaw.Redo
		want bool
	}{
		{"own again", runtimes.Serializable, costlaw.Own, true},
		{"nothing refused", runtimes.Vanilla, costlaw.Own, false},
		{"everything again", runtimes.Serializable, costlaw.Everything, false},
	} {
		all, wrong, err := measured(t.Context(), 2, func(costlaw.Shape, uint64) costlaw.Store {
			return costlaw.NewRuntime(c.kind)
		}, c.redo)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range []Result{law(all, wrong), crossing(all, wrong)} {
			if (r.Verdict != Missed) != c.want {
				t.Errorf("%s: %+v", c.name, r)
			}
		}
		if c.want {
			for _, r := range []Result{law(all, 1), crossing(all, 1)} {
				if r.Verdict != Missed {
					t.Errorf("a session is wrong, and %+v", r)
				}
			}
		}
	}
}

// TestTopologiesAreTheExamples holds that the topologies in the program are the files that people see.
func TestTopologiesAreTheExamples(t *testing.T) {
	all, err := layeredTopologies()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../../../../../docs/examples/layers/*.yaml")
	if err != nil || len(files) != len(all) {
		t.Fatalf("%d files, %d in the program; %v", len(files), len(all), err)
	}
	for i, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if name := strings.TrimSuffix(filepath.Base(path), ".yaml"); all[i].name != name || all[i].text != string(text) {
			t.Errorf("claims/layers.txt and %s differ", path)
		}
	}
}
