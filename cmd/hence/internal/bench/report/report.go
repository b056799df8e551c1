// Package report is what a benchmark found: its shape as JSON, its tables, its plot, the goals that it is held
// against, and the comparison of two of them. It measures nothing.
package report

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// Version is that of the JSON shape. A report of another one is not compared.
const Version = 1

// Report is everything that one benchmark found.
type Report struct {
	Version  int       `json:"version"`
	Began    time.Time `json:"began"`
	Seconds  float64   `json:"seconds"` // that the whole took
	Program  string    `json:"program"` // version of the binary
	Machine  Machine   `json:"machine"`
	Servers  string    `json:"servers"` // what Kafka and NATS were
	Settings Settings  `json:"settings"`
	Figures  []Figure  `json:"figures"`
	Goals    []Goal    `json:"goals,omitempty"`
	Notes    []string  `json:"notes,omitempty"` // what could not be measured, and why
}

// Machine is where it ran.
type Machine struct {
	OS       string `json:"os"`
	CPU      string `json:"cpu"`
	Cores    int    `json:"cores"`
	MemoryMB uint64 `json:"memory_mb"`
	Go       string `json:"go"`
}

// Settings are what the benchmark was told.
type Settings struct {
	Runs     int     `json:"runs"`
	Seconds  float64 `json:"seconds"` // of each measurement
	Rate     float64 `json:"rate,omitempty"`
	Turn     string  `json:"turn"`
	Mode     string  `json:"mode"`
	Sidecars string  `json:"sidecars"`
	Postgres string  `json:"postgres,omitempty"`
}

// Key names a figure: what was looked at, under which load, of which system, and what was measured with its unit.
type Key struct {
	Subject string `json:"subject"`
	Case    string `json:"case"`
	System  string `json:"system"`
	Name    string `json:"name"`
}

// String is the key on one line.
func (k Key) String() string { return k.Subject + ": " + k.Case + ": " + k.System + ": " + k.Name }

// MoreIsBetter says how two values of the figure compare: rates and shares are to be large, all else is to be small.
func (k Key) MoreIsBetter() bool {
	return strings.HasSuffix(k.Name, "/s") || strings.HasPrefix(k.Name, "of ")
}

// Written reports whether the figure is of what went into a topic: a run without it wrote nothing there.
func (k Key) Written() bool {
	return slices.Contains([]string{RecordsCommit, BytesCommit, RecordsSecond, BytesSecond}, k.Name)
}

// Figure is one value over all runs.
type Figure struct {
	Key
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Runs   int     `json:"runs"`
	Void   int     `json:"void,omitempty"`  // runs beside these that do not count
	Noisy  bool    `json:"noisy,omitempty"` // every run was void, and these are they

	Curve string  `json:"curve,omitempty"` // what grows, where the figure is a point of a curve; "": it is none
	At    float64 `json:"at,omitempty"`    // how large that is
}

// Add notes a figure by its values, one for each run. Without values there is none.
func (r *Report) Add(k Key, values []float64, void int, noisy bool) {
	if len(values) == 0 {
		return
	}
	least, most := values[0], values[0]
	for _, v := range values {
		least, most = min(least, v), max(most, v)
	}
	r.Figures = append(r.Figures, Figure{Key: k, Median: Median(values), Min: least, Max: most, Runs: len(values),
		Void: void, Noisy: noisy})
}

// Place makes a figure that is there a point of a curve.
func (r *Report) Place(k Key, curve string, at float64) {
	for i := range r.Figures {
		if r.Figures[i].Key == k {
			r.Figures[i].Curve, r.Figures[i].At = curve, at
		}
	}
}

// Find returns a figure; ok is false when it was not measured.
func (r *Report) Find(k Key) (f Figure, ok bool) {
	for _, f := range r.Figures {
		if f.Key == k {
			return f, true
		}
	}
	return Figure{}, false
}

// Note adds a line on what could not be measured.
func (r *Report) Note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// ReadFile reads a report from a file. A report of another version of the shape is an error.
func ReadFile(path string) (*Report, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read a report: %w", err)
	}
	r := new(Report)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s is not a report of hence bench -o json: %w", path, err)
	}
	if r.Version != Version {
		return nil, fmt.Errorf("%s is a report of version %d, and this program knows %d: measure again", path,
			r.Version, Version)
	}
	return r, nil
}
