package book

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/report"
)

// The goals that the document holds its figures against.
const (
	goalCommits = 1_000_000
	goalKills   = 100 // of each part
	goalKinds   = 20
	goalLanded  = 100 // of each kind
	goalP50     = time.Second
	goalP99     = 5 * time.Second
	goalMost    = 20 * time.Second
)

// preface says what the figures are of.
const preface = "Written by `hence torture report`." + ` Figures are of what ran and of nothing else: a goal that
is not reached says so.

The torture: agents work through sidecars of the built binary on Apache Kafka and nats-server while one thing after
another is broken. What they were told (committed, aborted, unknown) is judged by checkers that share no code with
the fold, porcupine among them; each is shown to fail on ten doctored histories. A fault is *void* where it did not
land or where nothing was under way; voids are counted and made up for.
`

// WriteMarkdown writes the document.
func (b *Book) WriteMarkdown(w io.Writer) error {
	t := b.torture()
	p := &page{w: w}
	p.line("# Trust: what was done to it, and what came out")
	p.line("")
	p.line(preface)
	if t.slices == 0 {
		p.line("There is no slice of the torture in this book.")
	} else {
		p.torture(t)
	}
	p.figures(b.figures())
	p.line("")
	p.line("## Again")
	p.line("")
	p.line("`make torture` runs one slice and adds it to the book in `BOOK` (`docs/trust`: another machine goes on")
	p.line("with it), on one broker, or three with `BROKERS=3`; run it until the goals are reached, then `make trust`.")
	p.line("Other tests add their figures where `HENCE_TRUST_BOOK` names that folder.")
	return p.err
}

// page writes lines until one fails.
type page struct {
	w   io.Writer
	err error
}

func (p *page) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

// torture writes what all slices came to, then each kind of fault.
func (p *page) torture(t *sum) {
	p.line("Slices: %d, of %s in all (%d of them with three brokers, %d beside another one on the same machine), "+
		"from %s to %s; commit %s; %s.", t.slices, time.Duration(t.Seconds*float64(time.Second)).Round(time.Second),
		t.clusters, t.beside, t.from.Format(time.DateOnly), t.to.Format(time.DateOnly), strings.Join(t.commits, ", "),
		strings.Join(t.machines, "; "))
	p.line("")
	p.line("## Figures")
	p.line("")
	p.line("| what | measured | goal |")
	p.line("| --- | --- | --- |")
	var crashes, all, beside []float64
	kinds, whole, landed, kills := 0, 0, 0, map[string]int{}
	for _, f := range t.faults {
		all, beside = append(all, f.alone...), append(beside, f.beside...)
		landed += f.landed
		if f.crash {
			crashes = append(crashes, f.alone...)
			kills[f.name] = f.landed
		}
		if f.landed > 0 {
			kinds++
		}
		if f.landed >= goalLanded {
			whole++
		}
	}
	slices.Sort(crashes)
	slices.Sort(all)
	slices.Sort(beside)
	p.cells("acknowledged commits lost", fmt.Sprintf("%s of %s", thousands(t.Lost), thousands(t.Committed)),
		met(t.Lost == 0 && t.Committed >= goalCommits,
			"0 of "+thousands(goalCommits)))
	p.cells("kinds of fault that landed", fmt.Sprintf("%d, of which %d have landed %d times and more; %s in all",
		kinds, whole, goalLanded, thousands(landed)),
		met(whole >= goalKinds, fmt.Sprintf("%d kinds, %d each", goalKinds, goalLanded)))
	deaths := 0
	for _, n := range t.points {
		deaths += n
	}
	p.cells("failpoints at which sidecars died", fmt.Sprintf("%d, %s times in all", len(t.points), thousands(deaths)), "")
	least := 0
	for i, f := range t.faults {
		if f.crash && (i == 0 || f.landed < least) {
			least = f.landed
		}
	}
	p.cells("kills of each part", fmt.Sprintf("%d and more", least), met(least >= goalKills, fmt.Sprint(goalKills)))
	for _, of := range []struct {
		what string
		ms   []float64
	}{{"recovery after a kill", crashes}, {"recovery after any fault", all}} {
		p50, p99, most := took(of.ms, 0.5), took(of.ms, 0.99), took(of.ms, 1)
		p.cells(of.what+", p50 / p99 / most", fmt.Sprintf("%v / %v / %v", p50, p99, most),
			met(len(of.ms) > 0 && p50 < goalP50 && p99 < goalP99 && most < goalMost,
				fmt.Sprintf("%v / %v / %v", goalP50, goalP99, goalMost)))
	}
	if len(beside) > 0 {
		p.cells("the same of slices beside another one", fmt.Sprintf("%v / %v / %v", took(beside, 0.5), took(beside, 0.99),
			took(beside, 1)), "")
	}
	p.cells("transactions checked for cycles, order and overtaken reads", thousands(t.Attempts), "")
	p.cells("of them unknown to their agents",
		fmt.Sprintf("%s; of these the log has decided %s, the others never got there", thousands(t.Unknown),
			thousands(t.Resolved)), "all resolved")
	p.cells("operations that porcupine put in order", thousands(t.Linearizable), "")
	p.cells("decisions folded again to the same chain and state", thousands(t.Decisions), "")
	p.cells("seqs at which views of sidecars were compared with the log", thousands(t.Views), "all equal")
	p.cells("state hashes that both replicas published", thousands(t.Hashes), "all equal")
	p.cells("tool calls issued, at their sinks, residues", fmt.Sprintf("%s, %s, %s", thousands(t.Effects),
		thousands(t.Sent), thousands(t.Residues)), "none twice, none without its commit, none missing")
	p.cells("violations", t.Violations, "0")
	p.line("")
	p.line("Recovery is counted from when the broken thing was well again (a killed sidecar or processor: from when it")
	p.line("was started again) until *every* agent has had a transaction committed that it began after that.")
	p.line("")
	p.line("## Faults")
	p.line("")
	p.line("| fault | landed | void | recovery p50 | p99 | most |")
	p.line("| --- | --- | --- | --- | --- | --- |")
	for _, f := range t.faults {
		if f.landed == 0 && f.leftOut != "" {
			p.cells(f.name, "could not be injected here: "+f.leftOut, "", "", "", "")
			continue
		}
		cells := []any{f.name, f.landed, f.voids}
		recovery := slices.Sorted(slices.Values(slices.Concat(f.alone, f.beside)))
		for _, q := range []float64{0.5, 0.99, 1} {
			if len(recovery) == 0 {
				cells = append(cells, "–")
				continue
			}
			cells = append(cells, took(recovery, q))
		}
		p.cells(cells...)
	}
}

func (p *page) cells(cells ...any) {
	text := ""
	for _, c := range cells {
		text += fmt.Sprintf(" %v |", c)
	}
	p.line("|%s", text)
}

// met says beside a goal whether it is reached.
func met(yes bool, goal string) string {
	if yes {
		return goal + ": met"
	}
	return goal + ": not reached"
}

// figures writes the numbers of other tests.
func (p *page) figures(all []*figure) {
	if len(all) == 0 {
		return
	}
	p.line("")
	p.line("## Other tests")
	p.line("")
	p.line("| what | measured | runs | they took | the last one | command |")
	p.line("| --- | --- | --- | --- | --- | --- |")
	for _, f := range all {
		measured := thousands(f.n)
		if f.of > 0 {
			measured += " of " + thousands(f.of)
		}
		last := fmt.Sprintf("%s, commit %s", f.last.At.Format(time.DateOnly), f.last.Commit)
		p.cells(f.name, measured, f.runs, time.Duration(f.seconds)*time.Second, last, "`"+f.command+"`")
	}
}

// thousands is a number with commas.
func thousands(n int) string { return report.Number(float64(n)) }

// took is a quantile of ascending milliseconds.
func took(ms []float64, q float64) time.Duration {
	return time.Duration(report.Quantile(ms, q)) * time.Millisecond
}
