package retail

import (
	"os"
	"path/filepath"
	"testing"
)

// realDir returns the folder of the tau-retail data: HENCE_TEST_DATA, or ../shared/tau-retail beside the
// repository. Without it a CI run fails; another run leaves the test out and says how to get it.
func realDir(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("HENCE_TEST_DATA")
	if dir == "" {
		dir = filepath.Join(repositoryRoot(t), "..", "shared", "tau-retail")
	}
	_, err := os.Stat(filepath.Join(dir, "users.json"))
	if err == nil {
		return dir
	}
	const how = "real retail data is missing: put the tau-retail files (users.json, orders.json, products.json, " +
		"tasks-*.json, expected-test.json) there, or name their folder in HENCE_TEST_DATA: %v"
	if os.Getenv("CI") == "true" {
		t.Fatalf(how, err)
	}
	t.Skipf(how, err)
	return ""
}

func repositoryRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the test's folder")
		}
		dir = parent
	}
}

func load(t *testing.T, split string) *Dataset {
	t.Helper()
	d, err := Load(realDir(t), split)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestRealTasksAlone runs each task of the test split over fresh data and compares all that it leaves.
func TestRealTasksAlone(t *testing.T) {
	d := load(t, "test")
	if len(d.Tasks) != 115 || len(d.Expected) != 115 {
		t.Fatalf("%d tasks and %d expected results, want 115 of each", len(d.Tasks), len(d.Expected))
	}
	initial, domain := Memory(d.Initial()), d.Domain()
	before, refused, matched := initial.Hash(), 0, 0
	for i, task := range d.Tasks {
		if d.Expected[i].ID != task.ID {
			t.Fatalf("position %d: task %d, expected result of %d", i, task.ID, d.Expected[i].ID)
		}
		result := mustRun(t, domain, task, initial)
		refused += len(result.Errors)
		if err := d.Expected[i].Check(result); err != nil {
			t.Error(err)
			continue
		}
		matched++
	}
	if after := initial.Hash(); after != before {
		t.Error("running tasks changed the state that they were run over")
	}
	if refused != 24 {
		t.Errorf("%d calls were refused, want 24", refused)
	}
	t.Logf("%d of %d tasks leave what is expected", matched, len(d.Tasks))
}

// TestRealSplits runs the tasks of every split, alone and in a row: no faults, and the refusals that are pinned
// here. Those of the train split are all of gift cards that cannot pay.
func TestRealSplits(t *testing.T) {
	for _, split := range []struct {
		name           string
		tasks, refused int
	}{{"test", 115, 24}, {"dev", 20, 0}, {"train", 500, 20}} {
		t.Run(split.name, func(t *testing.T) {
			d := load(t, split.name)
			if len(d.Tasks) != split.tasks {
				t.Fatalf("%d tasks, want %d", len(d.Tasks), split.tasks)
			}
			initial, domain, refused := Memory(d.Initial()), d.Domain(), 0
			for _, task := range d.Tasks {
				refused += len(mustRun(t, domain, task, initial).Errors)
			}
			if refused != split.refused {
				t.Errorf("%d calls were refused, want %d", refused, split.refused)
			}
			replayTwice(t, d)
		})
	}
}
