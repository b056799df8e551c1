// Package book reads what long tests have put down of what they came to, and writes the document docs/trust.md.
package book

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The kinds of lines.
const (
	kindTorture = "torture" // one slice of it/torture
	kindFigure  = "figure"  // one number of another test
)

// maxLine bounds a line of a book, in bytes.
const maxLine = 16 << 20

// line is one entry of a book: what every kind has, then what one kind has. it/torture and sequencer/testsize write
// them.
type line struct {
	Kind    string    `json:"kind"`
	At      time.Time `json:"at"`
	Commit  string    `json:"commit"`
	Machine string    `json:"machine"`
	Seconds float64   `json:"seconds"`

	// A slice of the torture.
	Seed         uint64             `json:"seed"`
	Brokers      int                `json:"brokers"`
	Faults       map[string]strikes `json:"faults"`
	Crashes      []string           `json:"crashes"`
	LeftOut      map[string]string  `json:"left_out"`
	Points       map[string]int     `json:"points"`
	Attempts     int                `json:"attempts"`
	Committed    int                `json:"committed"`
	Aborted      int                `json:"aborted"`
	Unknown      int                `json:"unknown"`
	Resolved     int                `json:"resolved"`
	Decisions    int                `json:"decisions"`
	Effects      int                `json:"effects"`
	Sent         int                `json:"sent"`
	Residues     int                `json:"residues"`
	Linearizable int                `json:"linearizable"`
	Views        int                `json:"views"`
	Hashes       int                `json:"hashes"`
	Lost         int                `json:"lost"`
	Violations   int                `json:"violations"`

	// A figure.
	Name    string `json:"name"`
	N       int    `json:"n"`
	Of      int    `json:"of"` // zero: of nothing
	Command string `json:"command"`
}

// strikes is what became of one kind of fault in one slice.
type strikes struct {
	Landed     int       `json:"landed"`
	Void       int       `json:"void"`
	RecoveryMs []float64 `json:"recovery_ms"`
}

// Book is what a folder's files say, in the order of their times.
type Book struct{ lines []line }

// Read reads every file *.jsonl of a folder.
func Read(dir string) (*Book, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s has no file *.jsonl: tests write them where HENCE_TRUST_BOOK names a folder", dir)
	}
	b := &Book{}
	for _, path := range paths {
		if err := b.file(path); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(b.lines, func(x, y line) int { return x.At.Compare(y.At) })
	return b, nil
}

func (b *Book) file(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		l := line{}
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return fmt.Errorf("%s, line %d: %w", path, n, err)
		}
		if l.Kind != kindTorture && l.Kind != kindFigure || l.At.IsZero() {
			return fmt.Errorf("%s, line %d: kind %q at %v is none of this version", path, n, l.Kind, l.At)
		}
		b.lines = append(b.lines, l)
	}
	if err := lines.Err(); err != nil {
		return errors.Join(fmt.Errorf("read %s", path), err)
	}
	return nil
}

// fault is what became of one kind of fault in all slices.
type fault struct {
	name          string
	crash         bool
	landed, voids int
	alone, beside []float64 // milliseconds of recoveries, where a slice had the machine to itself and where not
	leftOut       string    // why it could not be injected, where it never was
}

// sum is all slices of the torture together.
type sum struct {
	line
	slices, clusters int
	beside           int // slices that had not the machine to themselves
	faults           []*fault
	points           map[string]int // failpoints at which sidecars died
	commits          []string       // of the repository
	machines         []string
	from, to         time.Time
}

// hadCompany reports whether another slice ran on the machine while one did: what it recovered in says little then.
func (b *Book) hadCompany(of *line) bool {
	return slices.ContainsFunc(b.lines, func(l line) bool {
		return l.Kind == kindTorture && l.Machine == of.Machine && !l.At.Equal(of.At) && l.At.Before(of.end()) &&
			of.At.Before(l.end())
	})
}

func (l *line) end() time.Time { return l.At.Add(time.Duration(l.Seconds * float64(time.Second))) }

// torture adds up the slices.
func (b *Book) torture() *sum {
	all, byName := &sum{points: map[string]int{}}, map[string]*fault{}
	find := func(name string) *fault {
		if byName[name] == nil {
			byName[name] = &fault{name: name}
		}
		return byName[name]
	}
	for _, l := range b.lines {
		if l.Kind != kindTorture {
			continue
		}
		if all.slices++; all.from.IsZero() {
			all.from = l.At
		}
		all.to = l.end()
		if l.Brokers > 1 {
			all.clusters++
		}
		all.add(&l)
		beside := b.hadCompany(&l)
		if beside {
			all.beside++
		}
		for name, s := range l.Faults {
			f := find(name)
			f.landed, f.voids = f.landed+s.Landed, f.voids+s.Void
			if beside {
				f.beside = append(f.beside, s.RecoveryMs...)
			} else {
				f.alone = append(f.alone, s.RecoveryMs...)
			}
		}
		for _, name := range l.Crashes {
			find(name).crash = true
		}
		for name, why := range l.LeftOut {
			find(name).leftOut = why
		}
		for name, n := range l.Points {
			all.points[name] += n
		}
		all.commits, all.machines = append(all.commits, l.Commit), append(all.machines, l.Machine)
	}
	for _, list := range []*[]string{&all.commits, &all.machines} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	for _, name := range slices.SortedFunc(maps.Keys(byName), func(x, y string) int {
		if a, b := byName[x].crash, byName[y].crash; a != b {
			return map[bool]int{true: -1, false: 1}[a]
		}
		return strings.Compare(x, y)
	}) {
		all.faults = append(all.faults, byName[name])
	}
	return all
}

func (s *sum) add(l *line) {
	s.Seconds += l.Seconds
	for _, n := range [][2]*int{
		{&s.Attempts, &l.Attempts}, {&s.Committed, &l.Committed}, {&s.Aborted, &l.Aborted}, {&s.Unknown, &l.Unknown},
		{&s.Resolved, &l.Resolved}, {&s.Decisions, &l.Decisions}, {&s.Effects, &l.Effects}, {&s.Sent, &l.Sent},
		{&s.Residues, &l.Residues}, {&s.Linearizable, &l.Linearizable}, {&s.Views, &l.Views}, {&s.Hashes, &l.Hashes},
		{&s.Lost, &l.Lost}, {&s.Violations, &l.Violations},
	} {
		*n[0] += *n[1]
	}
}

// figure is one number of another test, over all its runs; the part of a whole is that of the last run.
type figure struct {
	name    string
	n, of   int
	runs    int
	seconds float64
	command string
	last    line
}

// figures puts the numbers of other tests together, in the order of their names.
func (b *Book) figures() (all []*figure) {
	byName := map[string]*figure{}
	for _, l := range b.lines {
		if l.Kind != kindFigure {
			continue
		}
		f := byName[l.Name]
		if f == nil {
			f = &figure{name: l.Name}
			byName[l.Name], all = f, append(all, f)
		}
		f.runs, f.seconds, f.command, f.last = f.runs+1, f.seconds+l.Seconds, l.Command, l
		if l.Of > 0 { // the same things again: how many of them hold is what the last run says
			f.n, f.of = l.N, l.Of
		} else {
			f.n += l.N
		}
	}
	slices.SortFunc(all, func(x, y *figure) int { return strings.Compare(x.name, y.name) })
	return all
}
