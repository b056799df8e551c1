package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/hence-dev/hence/cmd/hence/internal/layers"
	"github.com/hence-dev/hence/cmd/hence/internal/runtimes"
	"github.com/hence-dev/hence/cmd/hence/internal/show"
	"github.com/hence-dev/hence/gate/yamlfile"
)

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
