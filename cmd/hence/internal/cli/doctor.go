package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/show"
)

// doctorCmd is the configuration of "hence doctor".
type doctorCmd struct {
	servers
	topicShape
	output
	logging
	trust
	Replica   string        `enum:",a,b" default:"" help:"Whose tables: a the first group's, b the second's."`
	Workspace string        `default:"default" dev:"workspace" help:"Workspace that is looked at."`
	Agent     string        `default:"agent-1" help:"Agent whose journal is looked at."`
	DataDir   string        `type:"path" placeholder:"DIR" help:"Folder of its journal; by default in the user's cache."`
	Sidecar   string        `placeholder:"URL" dev:"url" help:"Address of a sidecar to look at, too."`
	Token     string        `placeholder:"TEXT" dev:"token" help:"That sidecar's token, to see whether it is right."`
	TokenFile string        `type:"path" placeholder:"FILE" help:"Token file to look at."`
	Listen    []string      `env:"-" placeholder:"ADDR" help:"Addresses that must be free or Hence's own."`
	Timeout   time.Duration `default:"20s" help:"How long all of it may take."`
}

// The levels of a finding.
const (
	levelOK      = "ok"
	levelNote    = "note" // worth knowing, nothing has to be done
	levelProblem = "problem"
)

// Finding is one thing that "hence doctor" looked at.
type Finding struct {
	Part  string `json:"part"`  // what was looked at: brokers, topics, journal, ...
	Level string `json:"level"` // ok, note or problem
	Says  string `json:"says"`
	Fix   string `json:"fix,omitempty"` // the command or the setting that mends it, of each problem and of some notes

	Causes []string `json:"causes,omitempty"` // what else is wrong because of it, and is mended with it

	about about
}

// Diagnosis is what "hence doctor -o json" prints.
type Diagnosis struct {
	OK       bool      `json:"ok"` // no problem was found
	Problems int       `json:"problems"`
	Findings []Finding `json:"findings"`
}

// Help is what "hence doctor --help" says beyond the flags.
func (c *doctorCmd) Help() string {
	return `It looks at the brokers, the topics (that all have the same partitions, and the settings that the guarantees
rest on), the groups of processors and their lag, gaps in the decisions, the logic of each workspace and stored names
that are not in NFC, clocks, NATS and JetStream, at the journals of an agent and their folder, and, if they are named,
at a sidecar, a token file and addresses to listen on. It changes nothing and locks nothing: a sidecar may run or start
meanwhile. Each problem comes with the command that mends it; what follows from it stands below it.

Exit code: 0 no problem; 3 there is one; 1 doctor itself could not run.`
}

// Run looks at everything and prints what it finds.
func (c *doctorCmd) Run(ctx context.Context, s Streams) error {
	if _, err := c.trust.client(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	found := &checkup{}
	dir := c.lookAtFiles(found)
	c.lookAtAddresses(ctx, found)
	c.lookAtSidecar(ctx, found)
	log, err := c.lookAtCluster(ctx, found, c.logger(s.Err))
	if err != nil {
		return err
	}
	if dir != "" {
		c.lookAtJournals(found, dir, log)
	}
	findings := found.causes()
	d := Diagnosis{Findings: findings, Problems: found.problems}
	d.OK = d.Problems == 0
	if err := c.print(s.Out, d, d.write); err != nil {
		return err
	}
	if !d.OK {
		return errCheck
	}
	return nil
}

// checkup gathers what is found.
type checkup struct {
	all      []Finding
	problems int
}

// tell notes what the problem that was found last is about.
func (f *checkup) tell(a about) { f.all[len(f.all)-1].about = a }

func (f *checkup) ok(part, format string, args ...any) {
	f.all = append(f.all, Finding{Part: part, Level: levelOK, Says: fmt.Sprintf(format, args...)})
}

func (f *checkup) note(part, format string, args ...any) {
	f.all = append(f.all, Finding{Part: part, Level: levelNote, Says: fmt.Sprintf(format, args...)})
}

// advise adds a note; fix is what one may do about it.
func (f *checkup) advise(part, fix, format string, args ...any) {
	f.all = append(f.all, Finding{Part: part, Level: levelNote, Says: fmt.Sprintf(format, args...), Fix: fix})
}

// problem adds a problem; fix is the command or the setting that mends it.
func (f *checkup) problem(part, fix, format string, args ...any) {
	f.all = append(f.all, Finding{Part: part, Level: levelProblem, Says: fmt.Sprintf(format, args...), Fix: fix})
	f.problems++
}

// write prints the diagnosis for people: what is wrong last, where it is read first.
func (d Diagnosis) write(w io.Writer) error {
	var b strings.Builder
	for _, level := range []string{levelOK, levelNote, levelProblem} {
		for _, f := range d.Findings {
			if f.Level != level {
				continue
			}
			_ = show.Plainly(&b, "%-8s %-10s %s\n", f.Level, f.Part, f.Says) // a builder takes all
			for _, caused := range f.Causes {
				_ = show.Plainly(&b, "%19s and so %s\n", "", caused)
			}
			if f.Fix != "" {
				_ = show.Plainly(&b, "%19s fix: %s\n", "", f.Fix)
			}
		}
	}
	switch d.Problems {
	case 0:
		b.WriteString("No problem was found.\n")
	case 1:
		b.WriteString("1 problem.\n")
	default:
		fmt.Fprintf(&b, "%d problems.\n", d.Problems)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
