package bench

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/report"
)

// Runs beside which the bare loop drifted do not count and are made again, up to a bound; where none counts, the
// figures are of the void ones and say so.
func TestVoid(t *testing.T) {
	for _, c := range []struct {
		name      string
		probes    []float64 // before and after each run
		runs      int
		void      int
		median    float64 // of the numbers of the runs, from 1
		noisy     bool
		allMadeOf int
	}{
		{"quiet", []float64{100, 101, 99, 100, 100, 100}, 3, 0, 2, false, 3},
		{"disturbed once", []float64{100, 50, 100, 100, 100, 100, 100, 100}, 3, 1, 3, false, 4},
		{"never quiet", []float64{1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2}, 6, 0, 3.5, true, 6},
		{"quiet too late", []float64{1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 3, 3}, 1, 5, 6, false, 6},
	} {
		b := &bench{Config: Config{Runs: 3}, out: new(report.Report)}
		made, looked := 0, 0
		err := b.rounds(t.Context(), "x", func(context.Context) (float64, error) {
			looked++
			return c.probes[looked-1], nil
		}, func(_ context.Context, r *round) error {
			made++
			r.put("s", "c", "h", "commits/s", float64(made))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		f := b.out.Figures[0]
		if made != c.allMadeOf || f.Runs != c.runs || f.Void != c.void || f.Median != c.median || f.Noisy != c.noisy {
			t.Errorf("%s: %d runs made, %+v", c.name, made, f)
		}
	}
}

// A run that fails is noted and made again; where all of them do, that is the error.
func TestFailedRuns(t *testing.T) {
	for fails, want := range map[int]int{1: 3, 5: 1, 6: 0} {
		b := &bench{Config: Config{Runs: 3}, out: new(report.Report)}
		made := 0
		err := b.rounds(t.Context(), "x", nil, func(_ context.Context, r *round) error {
			if made++; made <= fails {
				return errors.New("lost")
			}
			r.put("s", "c", "h", "commits/s", 1)
			return nil
		})
		if (err != nil) != (want == 0) || len(b.out.Notes) != 1 {
			t.Errorf("%d fail: %v, notes %q", fails, err, b.out.Notes)
		}
		if len(b.out.Figures) > 0 && b.out.Figures[0].Runs != want {
			t.Errorf("%d fail: %+v, want %d runs", fails, b.out.Figures, want)
		}
	}
}

// What another ground has measured already stays as it is.
func TestKeep(t *testing.T) {
	b := &bench{out: new(report.Report)}
	for _, v := range []float64{1, 2} {
		r := round{values: map[report.Key]float64{}}
		r.put("s", "c", "h", "n", v)
		r.put("s", "c", "h", "n", v)
		b.keep([]round{r}, 0, false)
	}
	if len(b.out.Figures) != 1 || b.out.Figures[0].Median != 1 {
		t.Errorf("%+v", b.out.Figures)
	}
}

// A run that wrote nothing into a topic counts with that; one that did not measure something does not count for it.
func TestKeepNothingWritten(t *testing.T) {
	b := &bench{out: new(report.Report)}
	var all []round
	for _, v := range []float64{0, 3, 0, 0, 5} {
		r := round{values: map[report.Key]float64{}}
		if v > 0 {
			r.put("s", "c", "hence.hashes", report.RecordsCommit, v)
			r.put("s", "c", "hence.hashes", report.BytesSecond, v)
			r.put("s", "c", "h", report.P99, v)
		}
		all = append(all, r)
	}
	b.keep(all, 0, false)
	for i, want := range []report.Figure{{Max: 5, Runs: 5}, {Max: 5, Runs: 5}, {Median: 4, Min: 3, Max: 5, Runs: 2}} {
		want.Key = b.out.Figures[i].Key
		if got := b.out.Figures[i]; got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

// A benchmark that cannot be made says what to give.
func TestValidate(t *testing.T) {
	fine := Config{Subjects: []string{report.Size}, Program: "hence", For: time.Second}
	if err := fine.Validate(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Config){
		"brokers alone":    func(c *Config) { c.Brokers = []string{"a:1"} },
		"disk of a broker": func(c *Config) { c.Brokers, c.NATS, c.Data = []string{"a:1"}, "nats://b:1", true },
		"nothing":          func(c *Config) { c.Subjects = nil },
		"all and one":      func(c *Config) { c.All = true },
		"no program":       func(c *Config) { c.Program = "" },
	} {
		c := fine
		change(&c)
		if c.Validate() == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
