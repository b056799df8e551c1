package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/hence-dev/hence/cmd/hence/internal/check"
	"github.com/hence-dev/hence/cmd/hence/internal/layers"
	"github.com/hence-dev/hence/cmd/hence/internal/runtimes"
	"github.com/hence-dev/hence/cmd/hence/internal/show"
	"github.com/hence-dev/hence/gate/yamlfile"
	"github.com/hence-dev/hence/sequencer/anomaly"
)

// maxOperations is more than a machine holds of a trace.
const maxOperations = 100_000_000

// checkCmd is the configuration of "hence check".
type checkCmd struct {
	output
	Files  []string          `arg:"" name:"file" help:"Traces: JSON lines; - is the standard input."`
	Layers bool              `name:"topology" env:"-" help:"The files are topologies: who reads and writes what, when."`
	HTML   string            `name:"html" type:"path" env:"-" placeholder:"FILE" help:"Page with both histories."`
	Window int               `env:"-" default:"0" help:"Operations to hold at once; 0: all of a file, then it is exact."`
	Limit  int               `env:"-" default:"100" help:"Findings to show of each kind and file; 0: all."`
	Role   map[string]string `env:"-" placeholder:"AGENT=ROLE" help:"What an agent does with what it reads; repeatable."`
}

// Help is what "hence check --help" says beyond the flags.
func (c *checkCmd) Help() string {
	return `A trace has one operation a line: what an agent read, when, and what it wrote, when.
docs/check.md has the fields. Each file is one history. The check finds A1, A2, A3, A4 and A6 of the published
catalogue, lost updates, write skew and every cycle of dependencies, and says for each the operations, the cell and the
times. The level is that of the history: what a file does not record makes it an interval.

--window N bounds the memory, and counts the operations that spanned a cut. Roles are ` +
		strings.Join(anomaly.Roles(), ", ") + `:
beside an A1 they give how often such a finding changed a decision.

With --topology the files are no histories but topologies: which agent reads and writes which channels in which
superstep. From that alone the check says whether A1 can happen, and why or why not, and runs each 20 times.

Exit code: 0 no anomaly is certain and no topology susceptible, 1 a file could not be read, 2 wrong flags, 3 at least
one is.`
}

// prepare refuses a role that there is not, and flags that say nothing of topologies.
func (c *checkCmd) prepare() error {
	if c.Layers && (c.HTML != "" || c.Window > 0 || len(c.Role) > 0) {
		return errors.New("--topology: --html, --window and --role are about histories, and a topology has none")
	}
	for agent, role := range c.Role {
		if !slices.Contains(anomaly.Roles(), role) {
			return fmt.Errorf("--role: %s is %q: the roles are %s", agent, role, strings.Join(anomaly.Roles(), ", "))
		}
	}
	return nil
}

// Run checks the files, one after the other. What was judged is shown, also when a later file cannot be read.
func (c *checkCmd) Run(ctx context.Context, s Streams) (err error) {
	if c.Layers {
		return c.layers(s)
	}
	var page *resultFile
	if c.HTML != "" {
		if err := c.distinct(); err != nil {
			return err
		}
		if page, err = createResult(c.HTML); err != nil {
			return err
		}
		defer func() {
			if errors.Is(err, errCheck) { // it is in the page
				err = cmp.Or(page.end(nil), err)
				return
			}
			err = page.end(err)
		}()
	}
	var results []*check.Result
	var unread error
	certain := false
	for _, path := range c.Files {
		r, err := check.Open(ctx, path, s.In, check.Options{Window: c.Window, Limit: c.Limit, Roles: c.Role})
		if err != nil {
			unread = fmt.Errorf("check %w", err)
			break
		}
		results = append(results, r)
		certain = certain || r.Certain > 0
	}
	if len(results) == 0 {
		return unread
	}
	err = c.print(s.Out, results, func(w io.Writer) error {
		for i, r := range results {
			if i > 0 {
				if err := show.Plainly(w, "\n"); err != nil {
					return err
				}
			}
			if err := r.Write(w); err != nil {
				return err
			}
		}
		return nil
	})
	if page != nil {
		err = errors.Join(err, check.WritePage(page, results))
	}
	if err = errors.Join(err, unread); err != nil || !certain {
		return err
	}
	return errCheck
}

// distinct refuses to put the page in the place of a trace.
func (c *checkCmd) distinct() error {
	page, err := os.Stat(c.HTML)
	if err != nil {
		return nil
	}
	for _, path := range c.Files {
		if trace, err := os.Stat(path); err == nil && os.SameFile(page, trace) {
			return misused(fmt.Errorf("--html: %s is one of the traces: name another file", c.HTML))
		}
	}
	return nil
}

// confirmRuns is how often a topology is run to see whether its verdict holds.
const confirmRuns = 20

// LayersReport is what "hence check --topology" prints of a file as JSON.
type LayersReport struct {
	File        string       `json:"file"`
	Susceptible bool         `json:"susceptible"`
	Operations  int          `json:"operations"`
	Risks       []LayersRisk `json:"risks"`
	LeftOut     int          `json:"left_out"` // risks beyond the limit
	Held        []string     `json:"held"`     // why other channels are no risk
	Runs        int          `json:"runs"`
	Fired       int          `json:"fired"` // runs without a guard that had A1
}

// LayersRisk is a way to a stale generation.
type LayersRisk struct {
	Line      int    `json:"line"` // of the reader
	Reader    string `json:"reader"`
	Writer    string `json:"writer"`
	Channel   string `json:"channel"`
	Superstep int    `json:"superstep"`
	Always    bool   `json:"always"` // in every order of commits
	Sentence  string `json:"sentence"`
}

// layers judges topologies in place of traces.
func (c *checkCmd) layers(s Streams) error {
	reports, susceptible := []LayersReport{}, false
	for _, path := range c.Files {
		topology, err := readLayers(path, s.In)
		if err != nil {
			return err
		}
		report := layersReport(path, topology, c.Limit)
		reports = append(reports, report)
		susceptible = susceptible || report.Susceptible
	}
	err := c.print(s.Out, reports, func(w io.Writer) error { return writeLayers(w, reports) })
	if err != nil || !susceptible {
		return err
	}
	return errCheck
}

func readLayers(path string, in io.Reader) (t layers.Topology, err error) {
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return t, fmt.Errorf("read the topology: %w", err)
		}
		defer file.Close()
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, yamlfile.MaxBytes+1))
	if err != nil {
		return t, fmt.Errorf("read the topology: %w", err)
	}
	t, found := layers.Read(path, text)
	if len(found) > 0 {
		return t, refused{"the topology", found}
	}
	return t, nil
}

func layersReport(path string, t layers.Topology, limit int) LayersReport {
	v := t.Classify()
	r := LayersReport{File: path, Susceptible: v.Susceptible(), Operations: len(t.Operations), Risks: []LayersRisk{},
		Held: append([]string{}, v.Held...), Runs: confirmRuns, Fired: t.Confirm(confirmRuns, runtimes.Vanilla)}
	for i, risk := range v.Risks {
		if limit > 0 && i >= limit {
			r.LeftOut = len(v.Risks) - limit
			break
		}
		r.Risks = append(r.Risks, LayersRisk{Line: risk.Reader.Line, Reader: risk.Reader.Agent, Writer: risk.Writer.Agent,
			Channel: risk.Channel, Superstep: risk.Superstep, Always: risk.Always, Sentence: risk.String()})
	}
	return r
}

func writeLayers(w io.Writer, reports []LayersReport) error {
	t := show.Table{Head: []string{"TOPOLOGY", "A1", "IN RUNS"}}
	for _, r := range reports {
		verdict := "immune"
		if r.Susceptible {
			verdict = "susceptible"
		}
		t.Add(r.File, verdict, fmt.Sprintf("%d of %d", r.Fired, r.Runs))
	}
	if err := t.Write(w); err != nil {
		return err
	}
	for _, r := range reports {
		if err := show.Plainly(w, "\n%s\n", r.File); err != nil {
			return err
		}
		for _, risk := range r.Risks {
			if err := show.Plainly(w, "  line %d: %s.\n", risk.Line, risk.Sentence); err != nil {
				return err
			}
		}
		if r.LeftOut > 0 {
			if err := show.Plainly(w, "  %d more; --limit 0 shows all.\n", r.LeftOut); err != nil {
				return err
			}
		}
		for _, held := range r.Held {
			if err := show.Plainly(w, "  no risk: %s.\n", held); err != nil {
				return err
			}
		}
	}
	return nil
}
