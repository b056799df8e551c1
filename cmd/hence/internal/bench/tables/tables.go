// Package tables holds the claims of the four papers beside what is measured here: for each claim the paper's value,
// ours, that of a baseline which is run beside it, and a verdict that the row's own rule computes from both.
//
// What the papers say is data, in the folder claims. No file of code has a figure that was measured: a text of a
// result
// is a format, and what it shows comes from the run. A row that has not run says so.
package tables

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/report"
	"github.com/hence-dev/hence/cmd/hence/internal/layers"
	"github.com/hence-dev/hence/cmd/hence/internal/runtimes"
	"github.com/hence-dev/hence/gate/adapters"
	"github.com/hence-dev/hence/gate/policy"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sequencer/anomaly"
	"github.com/hence-dev/hence/topology/lightcone"
)

// Verdict is what a row comes to.
type Verdict string

// The verdicts.
const (
	Reproduced Verdict = "reproduced"     // the claim holds here, by the row's rule
	Beaten     Verdict = "beaten"         // it holds, and ours is better than the paper's own figure
	Missed     Verdict = "not reproduced" // it was run, and does not hold here
	NotRun     Verdict = "not run"        // nothing was run in this invocation
	NotHere    Verdict = "not here"       // it cannot be had on a machine of ours
)

// Verdicts are all, in the order of reports.
func Verdicts() []Verdict { return []Verdict{Reproduced, Beaten, Missed, NotRun, NotHere} }

// What a row needs before it can run.
const (
	Nothing  = "nothing"  // it is computed
	Hence    = "hence"    // Hence on embedded servers, through its HTTP faces
	Postgres = "postgres" // a database, given with --postgres
	Redis    = "redis"    // a server, given with --redis
	Kafka    = "kafka"    // brokers and processes of their own
	None     = "none"     // it cannot be had
)

// Row is one claim of a paper.
type Row struct {
	ID    string // as the claims are numbered
	Paper string
	Claim string // in our words
	Value string // the paper's value, as text
	Needs string // several with spaces
	Waits string // why there is no run; empty: there is one
	run   run
}

// run measures a row. An error says that it could not be measured.
type run func(context.Context, *Env) (Result, error)

// Result is what a run has come to.
type Result struct {
	Verdict  Verdict
	Ours     string
	Baseline string // what was run beside it; empty: the claim has nothing to stand beside
	Note     string // what else is to be known, and where ours differs from the paper
	Plots    []report.Plot
}

// holds is the verdict of a claim that either holds or does not.
func holds(ok bool) Verdict {
	if ok {
		return Reproduced
	}
	return Missed
}

// beats is the verdict of a claim that holds, and in which ours may be better than the paper's own.
func beats(ok, better bool) Verdict {
	if ok && better {
		return Beaten
	}
	return holds(ok)
}

// Env is what rows run on.
type Env struct {
	Full    bool   // the sizes of the papers, or as near as a machine comes; else what shows the same in a second
	Seed    uint64 // of all that is drawn
	Data    string // folder of retail tasks; empty: built-in ones
	Subject Subject
	Ground  Ground // nil: rows that need Hence are not run
	Servers Servers

	came map[string]Verdict // of rows before, in this invocation
}

// of is a size: one for a look, and one for figures.
func (e *Env) of(small, full int) int {
	if e.Full {
		return full
	}
	return small
}

// chance draws for one row, the same in each invocation with the seed.
func (e *Env) chance(row string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(row))
	return rand.New(rand.NewPCG(e.Seed, h.Sum64()))
}

// Config says what to run.
type Config struct {
	Papers []string // of Papers; empty: all
	Rows   []string // ids; empty: all
	Env
	Has      []string // what rows may need beside nothing
	Commands string   // what each row's command begins with
	Say      func(format string, args ...any)
}

// Outcome is a row as it came out.
type Outcome struct {
	ID       string        `json:"id"`
	Paper    string        `json:"paper"`
	Claim    string        `json:"claim"`
	Value    string        `json:"paper_value"`
	Needs    string        `json:"needs"`
	Ours     string        `json:"ours"`
	Baseline string        `json:"baseline"`
	Verdict  Verdict       `json:"verdict"`
	Note     string        `json:"note"`
	Command  string        `json:"command"`
	Seconds  float64       `json:"seconds"`
	Plots    []report.Plot `json:"plots,omitempty"`
}

// Report is what an invocation came to.
type Report struct {
	Began   time.Time `json:"began"`
	Program string    `json:"program"`
	Machine string    `json:"machine"`
	Size    string    `json:"size"`
	Seed    uint64    `json:"seed"`
	Seconds float64   `json:"seconds"`
	Rows    []Outcome `json:"rows"`
}

// Count is how many rows have a verdict.
func (r *Report) Count(v Verdict) (n int) {
	for i := range r.Rows {
		if r.Rows[i].Verdict == v {
			n++
		}
	}
	return n
}

// Size is the word for how much is run.
func (e *Env) Size() string {
	if e.Full {
		return "full"
	}
	return "small"
}

// Run runs the rows that were asked for, one after the other. A row that could not be measured is in the report with
// its reason, and in the error.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	rows, err := pick(cfg.Papers, cfg.Rows)
	if err != nil {
		return nil, err
	}
	out := &Report{Began: time.Now(), Size: cfg.Size(), Seed: cfg.Seed}
	var failed error
	cfg.came = map[string]Verdict{}
	for i, row := range rows {
		o := Outcome{ID: row.ID, Paper: row.Paper, Claim: row.Claim, Value: row.Value, Needs: row.Needs,
			Verdict: NotRun, Note: row.Waits, Command: cfg.Commands + " --row " + row.ID}
		switch {
		case row.Needs == None:
			o.Verdict, o.Command = NotHere, ""
		case row.run == nil:
			o.Note, o.Command = "it waits for "+row.Waits, ""
		case len(missing(row.Needs, cfg.Has)) > 0:
			o.Note = strings.Join(missing(row.Needs, cfg.Has), ", and ")
		case ctx.Err() != nil:
			o.Note = "it was interrupted before"
		default:
			cfg.Say("%s, %d of %d: %s", row.ID, i+1, len(rows), row.Claim)
			if err := o.measure(ctx, row, &cfg.Env); err != nil {
				failed = errors.Join(failed, fmt.Errorf("run %s: %w", row.ID, err))
			}
			cfg.came[row.ID] = o.Verdict
		}
		out.Rows = append(out.Rows, o)
	}
	out.Seconds = time.Since(out.Began).Seconds()
	if ctx.Err() != nil {
		return out, context.Cause(ctx)
	}
	return out, failed
}

// measure runs a row.
func (o *Outcome) measure(ctx context.Context, row Row, env *Env) error {
	began := time.Now()
	got, err := row.run(ctx, env)
	o.Seconds = time.Since(began).Seconds()
	if err != nil {
		o.Note = "it could not be measured: " + strings.ReplaceAll(err.Error(), "\n", "; ") // a row is one line
		return err
	}
	o.Ours, o.Baseline, o.Verdict, o.Note, o.Plots = got.Ours, got.Baseline, got.Verdict, got.Note, got.Plots
	return nil
}

// missing says what to give so that a row can run.
func missing(needs string, has []string) (words []string) {
	for need := range strings.FieldsSeq(needs) {
		switch {
		case need == Nothing || slices.Contains(has, need):
		case need == Hence:
			words = append(words, "only what is computed was run")
		case need == Postgres:
			words = append(words, "give a database with --postgres")
		case need == Redis:
			words = append(words, "give a Redis server with --redis")
		default:
			words = append(words, "it waits for "+need)
		}
	}
	return words
}

// pick are the rows of papers, or those that are named.
func pick(papers, ids []string) (rows []Row, err error) {
	for _, row := range Rows() {
		if len(papers) > 0 && !slices.Contains(papers, row.Paper) ||
			len(ids) > 0 && !slices.ContainsFunc(ids, func(id string) bool { return strings.EqualFold(id, row.ID) }) {
			continue
		}
		rows = append(rows, row)
	}
	for _, id := range ids {
		if !slices.ContainsFunc(rows, func(r Row) bool { return strings.EqualFold(id, r.ID) }) {
			return nil, fmt.Errorf("there is no row %s here: a row is one of those that hence bench tables prints", id)
		}
	}
	return rows, nil
}

//go:embed claims
var claims embed.FS

// Papers are the papers, in the order of reports.
func Papers() []string { return []string{"light-cone", "detector", "s-bus", "atomix"} }

// Rows are all claims of the papers, in their order, with what runs them.
func Rows() (rows []Row) {
	all := map[string]run{}
	for _, runs := range []map[string]run{coneRuns(), axiomRuns(), detectorRuns(), preventionRuns(), sessionRuns(),
		placedRuns(), deathRuns(), busRuns(), nodeRuns(), atomixRuns(), branchRuns(), errandRuns(), gateRuns()} {
		maps.Copy(all, runs)
	}
	for _, paper := range Papers() {
		text, err := claims.ReadFile("claims/" + paper + ".txt")
		if err != nil {
			panic("tables: the claims of " + paper + " are not in the program: " + err.Error())
		}
		for line := range strings.Lines(string(text)) {
			field := append(strings.Split(strings.TrimSpace(line), " | "), "")
			row := Row{ID: field[0], Paper: paper, Needs: field[1], Claim: field[2], Value: field[3], Waits: field[4]}
			row.run = all[row.ID]
			if row.run == nil && row.Waits == "" {
				row.Waits = "a program that runs it"
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// Subject is what pure rows hold to the claims. Tests put a broken one in its place, and see the verdict fall.
type Subject struct {
	Readable   func(lightcone.Scheme, lightcone.Level, lightcone.Config) *lightcone.Refusal
	Merge      func(h lightcone.History, a, b lightcone.View, target lightcone.Config, clean bool) lightcone.Merged
	Admits     func(lightcone.History, []int, lightcone.Config) bool
	Scars      func(lightcone.History) []lightcone.Pair
	Carried    func(lightcone.Config, []lightcone.Hop) ([]lightcone.Level, []lightcone.Fall)
	Provenance func(lightcone.History, int, lightcone.Config) []int
	Totals     func(lightcone.History, lightcone.Stack) *lightcone.Pair
	Crossed    func(messages int, committed ...[]int) []int
	Detects    func(lightcone.Keeps) bool
	Holds      func(lightcone.Config) bool
	Short      func(lightcone.Retention) string
	Catalogue  func() []lightcone.Row
	AtMost     func(a, b lightcone.Select) bool
	Wait       func(uncertainty, distance time.Duration) time.Duration
	Inversion  func(uncertainty, distance time.Duration) float64
	Needed     func(distance time.Duration, edges, risk float64) float64
	Normal     func(deviation, distance time.Duration) float64
	Topology   func(lightcone.Topology) lightcone.Report

	Check    func(*anomaly.History) *anomaly.Report
	Runtime  func(...runtimes.Kind) *runtimes.Runtime
	Classify func(layers.Topology) layers.Verdict

	Load     func([]byte) (*policy.Policy, error)
	Lint     func(*policy.Policy) []policy.Finding
	Overlaps func(a, b sequencer.Scope) bool
}

// Ours is what Hence has.
func Ours() Subject {
	var scheme lightcone.Scheme
	return Subject{
		Readable: lightcone.Scheme.Readable, Merge: lightcone.History.Merge, Admits: lightcone.History.Admits,
		Scars: lightcone.History.Scars, Carried: scheme.Carried, Provenance: lightcone.History.Provenance,
		Totals: lightcone.History.Totals, Crossed: lightcone.Contradiction, Detects: lightcone.Keeps.Detects,
		Holds: lightcone.Config.HoldsForks, Short: lightcone.Retention.Short, Catalogue: lightcone.Catalogue,
		AtMost: lightcone.Select.AtMost, Wait: lightcone.CommitWait, Inversion: lightcone.Inversion,
		Needed: lightcone.Uncertainty, Normal: lightcone.InversionNormal, Topology: lightcone.Topology.Check,
		Check: (*anomaly.History).Check, Runtime: runtimes.New,
		Classify: layers.Topology.Classify,
		Load: func(text []byte) (*policy.Policy, error) {
			return policy.Load(text, policy.Options{Build: adapters.Build})
		},
		Lint:     func(p *policy.Policy) []policy.Finding { return p.Lint() },
		Overlaps: sequencer.Scope.Overlaps,
	}
}

// normal is the 97.5 % quantile of the normal distribution, and power its 80 % quantile.
const (
	normal = 1.96
	power  = .8416
)

// of is a share as it is printed: k of n.
func of(k, n int) string { return fmt.Sprintf("%d of %d", k, n) }

// percent is a share with its exact interval of 95 %.
func percent(k, n int) string {
	if n == 0 {
		return "none"
	}
	low, high := anomaly.ClopperPearson(k, n)
	return fmt.Sprintf("%d of %d (%s %%, %s to %s)", k, n, digits(100*float64(k)/float64(n)), digits(100*low),
		digits(100*high))
}

// covers says whether the exact interval of 95 % has a share.
func covers(k, n int, share float64) bool {
	low, high := anomaly.ClopperPearson(k, n)
	return n > 0 && low <= share && share <= high
}

// digits are three of a number.
func digits(v float64) string {
	if v == 0 || math.Abs(v) >= 100 {
		return strconv.FormatFloat(math.Round(v), 'f', -1, 64)
	}
	places := 2 - int(math.Floor(math.Log10(math.Abs(v))))
	if places > 6 {
		return strconv.FormatFloat(v, 'e', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', places, 64)
}

// fit is a straight line through points, by least squares: where it starts, its slope, and the half widths of their
// intervals of 95 % by the normal distribution.
func fit(x, y []float64) (start, slope, aroundStart, aroundSlope float64) {
	n := float64(len(x))
	var meanX, meanY, xx, xy float64
	for i := range x {
		meanX, meanY = meanX+x[i]/n, meanY+y[i]/n
	}
	for i := range x {
		xx += (x[i] - meanX) * (x[i] - meanX)
		xy += (x[i] - meanX) * (y[i] - meanY)
	}
	slope = xy / xx
	start = meanY - slope*meanX
	rest := 0.0
	for i := range x {
		d := y[i] - start - slope*x[i]
		rest += d * d
	}
	spread := math.Sqrt(rest / max(1, n-2))
	return start, slope, normal * spread * math.Sqrt(1/n+meanX*meanX/xx), normal * spread / math.Sqrt(xx)
}

// fisher is the two-sided exact test of two shares.
func fisher(a, of, b, from int) (p float64) {
	choose := func(n, k int) float64 {
		whole, _ := math.Lgamma(float64(n + 1))
		part, _ := math.Lgamma(float64(k + 1))
		rest, _ := math.Lgamma(float64(n - k + 1))
		return whole - part - rest
	}
	sum := a + b
	chance := func(k int) float64 { return math.Exp(choose(of, k) + choose(from, sum-k) - choose(of+from, sum)) }
	const rounding = 1e-9
	for k := max(0, sum-from); k <= min(of, sum); k++ {
		if chance(k) <= chance(a)*(1+rounding) {
			p += chance(k)
		}
	}
	return min(1, p)
}
