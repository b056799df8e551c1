package sim

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// keptFolder has the schedules that have failed, shrunk. Each found a defect, which is mended: it may not fail again.
// A change of what schedules draw makes another schedule of it.
const keptFolder = "testdata/seeds"

// shrinkTime bounds how long a failing schedule is made smaller.
const shrinkTime = 90 * time.Second

// schedule is one schedule by all that makes it: as a worker says which it runs, and as one is kept that has failed.
type schedule struct {
	Seed    uint64   `json:"seed"`
	Steps   int      `json:"steps,omitempty"`
	Clean   bool     `json:"clean,omitempty"`
	Strikes string   `json:"strikes,omitempty"`
	Mute    []string `json:"mute,omitempty"`
	What    string   `json:"what,omitempty"`  // that it found
	Times   int      `json:"times,omitempty"` // that it is run; a schedule does not always repeat
}

func scheduleOf(seed uint64, o *Options) schedule {
	return schedule{Seed: seed, Steps: o.Steps, Clean: o.Clean, Strikes: joined(o.Strikes), Mute: o.Mute}
}

func (k *schedule) options() (Options, error) {
	strikes, err := ParseStrikes(k.Strikes)
	return Options{Steps: k.Steps, Clean: k.Clean, Strikes: strikes, Mute: k.Mute, Trace: true}, err
}

func (k *schedule) command() string {
	opts, err := k.options()
	if err != nil {
		return err.Error()
	}
	return opts.command(k.Seed)
}

// TestRealKept runs what has failed once.
func TestRealKept(t *testing.T) {
	paths, err := filepath.Glob(keptFolder + "/*.json")
	if err != nil {
		t.Fatal(err)
	}
	var list []schedule
	for _, path := range paths {
		body, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var one schedule
		if err := json.Unmarshal(body, &one); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		list = append(list, one)
	}
	if len(list) == 0 {
		return
	}
	if got := batch(t, os.Args[0], []job{{List: list}}); got.what != "" {
		t.Fatal(got.what)
	}
}

// keep makes a failing schedule smaller, and puts it where TestRealKept runs it.
func keep(t *testing.T, binary string, failed schedule, what string) {
	t.Helper()
	small := shrink(failed, func(s schedule) bool {
		s.Times = 4
		return batch(t, binary, []job{{List: []schedule{s}}}).what != ""
	})
	_, what, _ = strings.Cut(what, "violation sim: ")
	small.What, small.Times = strings.SplitN(what, "\n", 2)[0], 4
	body, err := json.MarshalIndent(small, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(keptFolder, fmt.Sprintf("%d.json", small.Seed))
	if err := os.MkdirAll(keptFolder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(body, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("kept in %s; repeat it: %s", path, small.command())
}

// shrink leaves out of a failing schedule what it fails without: its end, faults and wishes, strikes. One that does
// not fail again stays as it is.
func shrink(s schedule, fails func(schedule) bool) schedule {
	end := time.Now().Add(shrinkTime)
	better := func(change func(*schedule)) bool {
		next := s
		next.Mute = slices.Clone(s.Mute)
		change(&next)
		if time.Now().After(end) || !fails(next) {
			return false
		}
		s = next
		return true
	}
	if !better(func(*schedule) {}) {
		return s
	}
	for _, steps := range []int{8, 16, 32, 64} {
		if (s.Steps == 0 || steps < s.Steps) && better(func(n *schedule) { n.Steps = steps }) {
			break
		}
	}
	if strikes := strings.Split(s.Strikes, ","); len(strikes) > 1 {
		for _, one := range strikes {
			better(func(n *schedule) { n.Strikes = one })
		}
	}
	knobs := Knobs()
	for size := 16; size > 0; size /= 4 {
		for group := range slices.Chunk(knobs, size) {
			left := slices.DeleteFunc(slices.Clone(group), func(k string) bool { return slices.Contains(s.Mute, k) })
			if len(left) > 0 {
				better(func(n *schedule) { n.Mute = append(n.Mute, left...) })
			}
		}
	}
	return s
}

// TestShrink: what a schedule does not need to fail is left out, what it needs stays.
func TestShrink(t *testing.T) {
	got := shrink(schedule{Seed: 7, Strikes: "3:kills,9:fails"}, func(s schedule) bool {
		return (s.Steps == 0 || s.Steps >= 16) && strings.Contains(s.Strikes, "9:fails") && !slices.Contains(s.Mute, "late")
	})
	if got.Steps != 16 || got.Strikes != "9:fails" || len(got.Mute) != len(Knobs())-1 ||
		slices.Contains(got.Mute, "late") {
		t.Errorf("shrunk to %+v", got)
	}
	strikes, err := ParseStrikes("3:kills,9:starts_elsewhere")
	if err != nil || joined(strikes) != "3:kills,9:starts_elsewhere" {
		t.Errorf("%v, %v", strikes, err)
	}
	if _, err := ParseStrikes("3:sings"); err == nil {
		t.Error("there is no such way to strike")
	}
}
