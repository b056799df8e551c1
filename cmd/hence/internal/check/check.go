// Package check reads traces and says which anomalies they contain: for people, for programs, and as a page.
package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/hence-dev/hence/sequencer/anomaly"
	"github.com/hence-dev/hence/topology/trace"
)

// Options are what is checked, and how much of it is shown.
type Options struct {
	Window int               // operations that are held at once; 0: all of a file
	Limit  int               // findings shown of each kind and file; 0: all
	Roles  map[string]string // by agent: what it does with what it reads; of an agent without one its records may say it
}

// Result is what a file contains.
type Result struct {
	File         string      `json:"file"`
	Excerpt      string      `json:"excerpt,omitempty"` // the operation around which the file was cut out of a longer one
	Operations   int         `json:"operations"`
	Aborted      int         `json:"aborted"`
	Agents       int         `json:"agents"`
	Cells        int         `json:"cells"`
	Level        Level       `json:"level"`
	Serializable bool        `json:"serializable"`
	Certain      int         `json:"certain"`
	Possible     int         `json:"possible"`
	Kinds        []Count     `json:"kinds"`
	Findings     []Finding   `json:"findings"`
	Undecided    []Undecided `json:"undecided"`

	OwnOverlaps int            `json:"own_overlaps"` // what would be A1 but that one agent did both
	Windows     int            `json:"windows"`
	Spanning    int            `json:"spanning"`          // operations that began before the cut in front of their window
	RecordBytes uint64         `json:"record_bytes"`      // of memory, at most, for each operation
	CellBytes   uint64         `json:"cell_bytes"`        // the same for its cells, values and dependencies
	Unknown     map[string]int `json:"unknown_fields"`    // of the lines, by name
	Missing     int            `json:"missing_positions"` // reads and writes without a recorded value
}

// Level is what the history leaves of the chain L0 to L4 and of the sixteen points. Least and Most differ where
// something is possible or undecided.
type Level struct {
	Least      int    `json:"least"`
	Most       int    `json:"most"`
	PointLeast string `json:"point_least"`
	PointMost  string `json:"point_most"`
}

// Count is how often a kind was found.
type Count struct {
	Kind     string `json:"kind"`
	Title    string `json:"title"`
	Certain  int    `json:"certain"`
	Possible int    `json:"possible"`
	LeftOut  int    `json:"left_out"` // of these, not among the findings
}

// Finding is one anomaly.
type Finding struct {
	Kind        string               `json:"kind"`
	Certain     bool                 `json:"certain"`
	Records     []anomaly.Who        `json:"records"`
	Cell        string               `json:"cell,omitempty"`
	OtherCell   string               `json:"other_cell,omitempty"`
	Count       int                  `json:"count"`
	Class       string               `json:"class,omitempty"`
	Sentence    string               `json:"sentence"`
	Materiality *anomaly.Materiality `json:"materiality,omitempty"`

	recorded, serial []anomaly.Step
}

// Undecided is what the file cannot show.
type Undecided struct {
	Kind  string `json:"kind"`
	Count int    `json:"count"`
	Why   string `json:"why"`
}

// checker reads one file.
type checker struct {
	Options
	result      *Result
	roles       map[string]string
	least, most anomaly.Point
	counts      map[anomaly.Kind]*Count
	undecided   map[Undecided]int
}

// Read checks one trace. It returns an error, which names the line, for what is no trace.
func Read(ctx context.Context, name string, from io.Reader, o Options) (*Result, error) {
	all := anomaly.Point{A1: true, A2: true, A3: true, A6: true}
	c := &checker{Options: o, roles: maps.Clone(o.Roles), least: all, most: all, counts: map[anomaly.Kind]*Count{},
		undecided: map[Undecided]int{}, result: &Result{File: name, Serializable: true, Findings: []Finding{},
			Undecided: []Undecided{}, Unknown: map[string]int{}}}
	if c.roles == nil {
		c.roles = map[string]string{}
	}
	for _, kind := range anomaly.Kinds() {
		c.counts[kind] = &Count{Kind: kind.String(), Title: kind.Title()}
	}
	if err := c.read(ctx, trace.NewReader(from)); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return c.finish(), nil
}

// Open is Read of a file; "-" is what in has.
func Open(ctx context.Context, path string, in io.Reader, o Options) (*Result, error) {
	if path == "-" {
		return Read(ctx, "standard input", in, o)
	}
	file, err := os.Open(path)
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		err = failed.Err
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if is, err := file.Stat(); err == nil && is.IsDir() {
		return nil, errors.Join(fmt.Errorf("%s: it is a folder: name the files in it", path), file.Close())
	}
	result, err := Read(ctx, path, file, o)
	return result, errors.Join(err, file.Close())
}

func (c *checker) read(ctx context.Context, lines *trace.Reader) error {
	h := anomaly.NewHistory(0)
	agents, cells := map[string]bool{}, map[string]bool{}
	for {
		record, err := lines.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		c.extra(&record)
		if record.Excerpt != "" {
			c.result.Excerpt = string(record.Excerpt)
		}
		if err := h.Add(record.Op(lines.Line())); err != nil {
			return fmt.Errorf("line %d: %w", lines.Line(), err)
		}
		if c.Window > 0 { // else the history itself counts them
			agents[record.Agent] = true
			for _, cell := range slices.Concat(record.ReadSet, record.WriteSet) {
				cells[cell] = true
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if h.Len() == c.Window {
			if err := c.judge(ctx, h); err != nil {
				return err
			}
			h = anomaly.NewHistory(h.Latest())
		}
	}
	if h.Len() > 0 || c.result.Windows == 0 {
		if err := c.judge(ctx, h); err != nil {
			return err
		}
	}
	if c.Window > 0 {
		c.result.Agents, c.result.Cells = len(agents), len(cells)
	}
	if c.result.Operations == 0 {
		return errors.New("it has no records")
	}
	return nil
}

// extra counts the fields that no detector knows. One of them is understood here: role, which says what an agent does
// with what it reads.
func (c *checker) extra(record *trace.Record) {
	for name, value := range record.Extra {
		var role string
		if name == "role" && json.Unmarshal(value, &role) == nil && slices.Contains(anomaly.Roles(), role) {
			if c.roles[record.Agent] == "" {
				c.roles[record.Agent] = role
			}
			continue
		}
		c.result.Unknown[name]++
	}
}

// judge is window until the context ends: a large history takes many seconds. What is under way then goes on to its
// end, and its result is not used.
func (c *checker) judge(ctx context.Context, h *anomaly.History) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.window(h)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// window takes what one history contains into the result.
func (c *checker) window(h *anomaly.History) {
	report := h.Check()
	r := c.result
	r.Windows++
	r.Operations += report.Ops
	r.Aborted += report.Aborted
	r.Agents, r.Cells = report.Agents, report.Cells
	r.OwnOverlaps += report.OwnOverlaps
	r.Spanning += report.Spanning
	r.Missing += report.Missing
	each := uint64(max(report.Ops, 1))
	r.RecordBytes = max(r.RecordBytes, report.RecordBytes/each)
	r.CellBytes = max(r.CellBytes, report.CellBytes/each)
	r.Serializable = r.Serializable && report.Serializable()
	least, most := report.Points()
	c.least, c.most = c.least.And(least), c.most.And(most)
	for _, u := range report.Undecided {
		c.undecided[Undecided{Kind: u.Kind.String(), Why: u.Why}] += u.Count
	}
	for i := range report.Findings {
		c.finding(h, report, &report.Findings[i])
	}
}

func (c *checker) finding(h *anomaly.History, report *anomaly.Report, f *anomaly.Finding) {
	count := c.counts[f.Kind]
	if f.Certain {
		count.Certain++
		c.result.Certain++
	} else {
		count.Possible++
		c.result.Possible++
	}
	if c.Limit > 0 && count.Certain+count.Possible > c.Limit {
		count.LeftOut++
		return
	}
	shown := Finding{Kind: f.Kind.String(), Certain: f.Certain, Cell: f.Cell, OtherCell: f.Cell2, Count: f.Count,
		Class: f.Class(), Sentence: h.Sentence(f)}
	for _, record := range f.Records {
		shown.Records = append(shown.Records, h.Who(record))
	}
	if f.Kind == anomaly.A1 {
		if m, known := anomaly.MaterialityOf(c.roles[shown.Records[0].Agent]); known {
			shown.Materiality = &m
		}
	}
	shown.recorded, shown.serial = report.Steps(f)
	c.result.Findings = append(c.result.Findings, shown)
}

func (c *checker) finish() *Result {
	r := c.result
	if r.Excerpt != "" { // what was left out may have any of them
		c.least = anomaly.Point{}
	}
	r.Level = Level{Least: c.least.Level(), Most: c.most.Level(), PointLeast: c.least.String(),
		PointMost: c.most.String()}
	for _, kind := range anomaly.Kinds() {
		r.Kinds = append(r.Kinds, *c.counts[kind])
	}
	for u, n := range c.undecided {
		u.Count = n
		r.Undecided = append(r.Undecided, u)
	}
	slices.SortStableFunc(r.Undecided, func(a, b Undecided) int {
		if a.Kind != b.Kind {
			return slices.IndexFunc(r.Kinds, func(k Count) bool { return k.Kind == a.Kind }) -
				slices.IndexFunc(r.Kinds, func(k Count) bool { return k.Kind == b.Kind })
		}
		return b.Count - a.Count
	})
	return r
}
