package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"github.com/hence-dev/hence/cmd/hence/internal/show"
	"github.com/hence-dev/hence/cmd/hence/internal/strictfile"
	"github.com/hence-dev/hence/cmd/hence/internal/topologyfile"
	"github.com/hence-dev/hence/gate/yamlfile"
	"github.com/hence-dev/hence/topology"
	"github.com/hence-dev/hence/topology/lightcone"
)

// topologyCmd groups what can be said of a topology.
type topologyCmd struct {
	Check topologyCheckCmd `cmd:"" help:"Find consumers that cannot honestly read what they read."`
	Names topologyNamesCmd `cmd:"" help:"List the kinds of places that a topology file may name."`
}

// topologyCheckCmd is the configuration of "hence topology check".
type topologyCheckCmd struct {
	output
	File string `arg:"" optional:"" type:"path" help:"Topology file; without it, Hence's own topics and tables."`
	Dot  bool   `help:"Print a drawing for Graphviz instead."`
}

// Help is what "hence topology check --help" says beyond the flags.
func (c *topologyCheckCmd) Help() string {
	return `The file says which places hold data, what an observer of each may hold of it, and who reads whom. A consumer
can honestly read a producer if whatever an observer of the data may hold is something that the consumer expects.
For each one that cannot, a sentence says what is missing, where it was lost for good and what restores it; with
-o json the two messages that show it are printed too. Retentions that drop what is still needed are found as well.
docs/lightcones.md explains the file, docs/examples/topology.yaml is one.

Exit code: 0 nothing was found, 1 the file is refused, 3 something was found.`
}

// TopologyReport is what "hence topology check" prints as JSON.
type TopologyReport struct {
	File     string            `json:"file"` // empty: Hence's own
	OK       bool              `json:"ok"`
	Places   []TopologyPlace   `json:"places"`
	Findings []TopologyFinding `json:"findings"`
	Notes    []string          `json:"notes"`
}

// TopologyPlace is a place with what its data carries.
type TopologyPlace struct {
	Name        string `json:"name"`
	Line        int    `json:"line,omitempty"`
	Config      string `json:"configuration"`
	Wait        string `json:"wait"`
	Arbitration string `json:"arbitration"`
	Carries     string `json:"carries"`
	Row         int    `json:"row,omitempty"`    // of the catalogue
	Called      string `json:"called,omitempty"` // there
	Source      string `json:"source,omitempty"`
}

// TopologyFinding is something that does not hold.
type TopologyFinding struct {
	Place string         `json:"place"`
	From  string         `json:"from,omitempty"`
	Line  int            `json:"line,omitempty"`
	What  string         `json:"what"`
	Lost  string         `json:"lost,omitempty"`
	Cure  string         `json:"cure,omitempty"`
	Graph *TopologyGraph `json:"graph,omitempty"`
}

// TopologyGraph is a history that shows why something cannot be read: an observer of the data may hold the cut.
type TopologyGraph struct {
	Messages []TopologyMessage `json:"messages"` // in the producer's order
	Cut      []string          `json:"cut"`
}

// TopologyMessage is one message of it.
type TopologyMessage struct {
	Name   string            `json:"name"`
	Alike  map[string]string `json:"alike"` // messages with the same value are alike in it
	Causes []string          `json:"causes"`
}

// Run checks the file.
func (c *topologyCheckCmd) Run(s Streams) error {
	file, name, err := c.load()
	if err != nil {
		return err
	}
	checked := file.Check()
	report := topologyReport(name, file, checked)
	if c.Dot {
		_, err = io.WriteString(s.Out, file.DOT(checked))
	} else {
		err = c.print(s.Out, report, func(w io.Writer) error { return writeTopology(w, report) })
	}
	if err == nil && !report.OK {
		return errCheck
	}
	return err
}

// load reads the file, or takes Hence's own topology.
func (c *topologyCheckCmd) load() (file topologyfile.File, name string, err error) {
	if c.File == "" {
		file.Topology = topology.Cones(topology.Topics(topology.Options{}))
		return file, "", nil
	}
	f, err := os.Open(c.File)
	if err != nil {
		return file, "", fmt.Errorf("read the topology: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, yamlfile.MaxBytes+1))
	if err != nil {
		return file, "", fmt.Errorf("read the topology: %w", err)
	}
	name = shortPath(c.File)
	file, found := topologyfile.Read(name, text)
	if len(found) > 0 {
		return file, "", refused{"the topology file", found}
	}
	return file, name, nil
}

// refused is what is wrong with a file.
type refused struct {
	what  string
	found []strictfile.Finding
}

// Error lists it, one to a line.
func (r refused) Error() string {
	text := r.what + " is refused:"
	for _, one := range r.found {
		text += "\n" + one.String()
	}
	return text
}

func topologyReport(name string, file topologyfile.File, checked lightcone.Report) TopologyReport {
	r := TopologyReport{File: name, OK: len(checked.Findings) == 0, Places: []TopologyPlace{},
		Findings: []TopologyFinding{}, Notes: append([]string{}, checked.Notes...)}
	line := func(place string) int {
		at := slices.IndexFunc(file.Places, func(p lightcone.Place) bool { return p.Name == place })
		if at < 0 || at >= len(file.Lines) {
			return 0
		}
		return file.Lines[at]
	}
	for i, p := range file.Places {
		row, _ := lightcone.NameOf(p.Config)
		r.Places = append(r.Places, TopologyPlace{Name: p.Name, Line: line(p.Name), Config: p.Config.String(),
			Wait: p.Config.Wait.String(), Arbitration: p.Config.Arbitration.Rule.String(),
			Carries: checked.Carries[i].String(), Row: row.Number, Called: row.Name, Source: p.Source})
	}
	for _, f := range checked.Findings {
		r.Findings = append(r.Findings, TopologyFinding{Place: f.Place, From: f.From, Line: line(f.Place), What: f.What,
			Lost: f.Lost, Cure: f.Cure, Graph: topologyGraph(f.Reason)})
	}
	return r
}

func topologyGraph(why *lightcone.Refusal) *TopologyGraph {
	if why == nil {
		return nil
	}
	g := &TopologyGraph{Cut: []string{}}
	all := why.History.Messages
	for _, m := range why.History.Order {
		one := TopologyMessage{Name: all[m].Name, Alike: map[string]string{}, Causes: []string{}}
		for label, value := range all[m].Labels {
			if label != lightcone.Everything {
				one.Alike[string(label)] = value
			}
		}
		for _, c := range all[m].Causes {
			one.Causes = append(one.Causes, all[c].Name)
		}
		g.Messages = append(g.Messages, one)
	}
	for _, m := range why.Cut {
		g.Cut = append(g.Cut, all[m].Name)
	}
	return g
}

func writeTopology(w io.Writer, r TopologyReport) error {
	t := show.Table{Head: []string{"PLACE", "CONFIGURATION", "WAIT", "CARRIES", "CALLED"}}
	for _, p := range r.Places {
		t.Add(p.Name, p.Config, p.Wait, p.Carries, p.Called)
	}
	errs := []error{t.Write(w)}
	say := func(format string, args ...any) { errs = append(errs, show.Plainly(w, format, args...)) }
	where := r.File
	if where == "" {
		where = "hence"
	}
	for _, f := range r.Findings {
		at := where
		if f.Line > 0 {
			at += ":" + strconv.Itoa(f.Line)
		}
		say("%s: %s\n", at, lightcone.Finding{What: f.What, Lost: f.Lost, Cure: f.Cure})
	}
	for _, note := range r.Notes {
		say("note: %s.\n", note)
	}
	say("%s: %d places, %d findings, %d notes\n", where, len(r.Places), len(r.Findings), len(r.Notes))
	return errors.Join(errs...)
}

// topologyNamesCmd is the configuration of "hence topology names".
type topologyNamesCmd struct {
	output
}

// TopologyName is a kind of place that a topology file may name.
type TopologyName struct {
	Name        string `json:"name"`
	Config      string `json:"configuration"`
	Wait        string `json:"wait"`
	Arbitration string `json:"arbitration"`
	Source      string `json:"source"`
}

// Run lists Hence's own places, other systems, and the catalogue.
func (c *topologyNamesCmd) Run(s Streams) error {
	var names []TopologyName
	add := func(name string, config lightcone.Config, arbitration, source string) {
		names = append(names, TopologyName{name, config.String(), config.Wait.String(), arbitration, source})
	}
	for _, one := range append(topology.ConeSystems(), lightcone.Systems()...) {
		add(one.Name, one.Config, one.Config.Arbitration.Rule.String(), one.Source)
	}
	for _, row := range lightcone.Catalogue() {
		source := "row " + strconv.Itoa(row.Number)
		for _, more := range []string{row.Model, row.Example} {
			if more != "" {
				source += "; " + more
			}
		}
		add(row.Name, row.Config, "to be said", source)
	}
	return c.print(s.Out, names, func(w io.Writer) error {
		t := show.Table{Head: []string{"NAME", "CONFIGURATION", "WAIT", "ARBITRATION", "SOURCE"}}
		for _, n := range names {
			t.Add(n.Name, n.Config, n.Wait, n.Arbitration, n.Source)
		}
		return t.Write(w)
	})
}
