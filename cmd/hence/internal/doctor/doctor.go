// Package doctor looks at what a sidecar needs: the cluster, this machine's files and addresses, other processes. It
// says what is wrong, what follows from it, and what to do. It changes nothing and locks nothing.
package doctor

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/hence-dev/hence/cmd/hence/internal/show"
	"github.com/hence-dev/hence/streams"
)

// Patient is what is looked at.
type Patient struct {
	Cluster   streams.Config
	Workspace string
	Agent     string       // whose journal is looked at
	DataDir   string       // of its journal; "": below the user's cache
	Sidecar   string       // URL of one to look at, too; "": none
	Token     string       // to see whether that sidecar takes it; "": none is tried
	TokenFile string       // to look at, and read instead of Token; "": none
	Listen    []string     // addresses that must be free or Hence's own, host:port
	HTTP      *http.Client // asks other processes

	Key ed25519.PrivateKey // to see whether that sidecar takes its signature; nil: none is tried
}

// The levels of a finding.
const (
	levelOK      = "ok"
	levelNote    = "note" // worth knowing, nothing has to be done
	levelProblem = "problem"
)

// Finding is one thing that was looked at.
type Finding struct {
	Part  string `json:"part"`  // what was looked at: brokers, topics, journal, ...
	Level string `json:"level"` // ok, note or problem
	Says  string `json:"says"`
	Fix   string `json:"fix,omitempty"` // the command or the setting that fixes it, of each problem and of some notes

	Causes []string `json:"causes,omitempty"` // what else is wrong because of it, and is fixed with it

	about about
}

// Diagnosis is what "hence doctor -o json" prints.
type Diagnosis struct {
	OK       bool      `json:"ok"` // no problem was found
	Problems int       `json:"problems"`
	Findings []Finding `json:"findings"`
}

// Examine looks at everything. An error says that it could not; what it finds wrong is none.
func Examine(ctx context.Context, p Patient) (Diagnosis, error) {
	found := &checkup{}
	dir := p.lookAtFiles(found)
	p.lookAtAddresses(ctx, found)
	p.lookAtSidecar(ctx, found)
	log, err := p.lookAtCluster(ctx, found)
	if err != nil {
		return Diagnosis{}, err
	}
	if dir != "" {
		p.lookAtJournals(found, dir, log)
	}
	d := Diagnosis{Findings: found.causes(), Problems: found.problems}
	d.OK = d.Problems == 0
	return d, nil
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

// problem adds a problem; fix is the command or the setting that fixes it.
func (f *checkup) problem(part, fix, format string, args ...any) {
	f.all = append(f.all, Finding{Part: part, Level: levelProblem, Says: fmt.Sprintf(format, args...), Fix: fix})
	f.problems++
}

// Write prints the diagnosis for people: what is wrong last, where it is read first.
func (d Diagnosis) Write(w io.Writer) error {
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
