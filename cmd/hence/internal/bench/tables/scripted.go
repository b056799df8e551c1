package tables

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/report"
	"github.com/hence-dev/hence/cmd/hence/internal/runtimes"
	"github.com/hence-dev/hence/cmd/hence/internal/scenarios"
	"github.com/hence-dev/hence/cmd/hence/internal/schedules"
	"github.com/hence-dev/hence/sequencer/anomaly"
)

// chat is agents in turn whose turns overlap by chance; slots, each reads all of these and writes its own, else each
// writes a cell of its own.
func chat(chance *rand.Rand, slots []string) scenarios.Scenario {
	const turns, agents = 9, 3
	type timed struct {
		at   float64
		step []scenarios.Step
	}
	var all []timed
	for i := range turns {
		op, agent, slot, reads := schedules.Name(i), fmt.Sprint("agent", i%agents), fmt.Sprint("message", i), []string{}
		if slots != nil {
			slot, reads = slots[i%agents], slots
		}
		from := float64(i) + chance.Float64()/2
		all = append(all, timed{from, []scenarios.Step{scenarios.Begin(op, agent, reads...)}},
			timed{from + chance.Float64()*1.5, []scenarios.Step{scenarios.Write(op, slot, scenarios.Text(op)),
				scenarios.Commit(op)}})
	}
	slices.SortStableFunc(all, func(a, b timed) int { return cmp.Compare(a.at, b.at) })
	s := scenarios.Scenario{Name: "chat"}
	for _, one := range all {
		s.Steps = append(s.Steps, one.step...)
	}
	return s
}

func cookbook(_ context.Context, e *Env) (Result, error) {
	chance, n := e.chance("cookbook"), e.of(100, 2000)
	stateless, cross, any := 0, 0, 0
	for range 5 * n {
		if r := e.run(chat(chance, nil), runtimes.Vanilla); r.Has(anomaly.A1) || r.Report.OwnOverlaps > 0 {
			stateless++
		}
	}
	for range n {
		r := e.run(chat(chance, []string{"task", "progress", "notes"}), runtimes.Vanilla)
		if r.Has(anomaly.A1) {
			cross++
		}
		if r.Has(anomaly.A1) || r.Report.OwnOverlaps > 0 {
			any++
		}
	}
	return Result{
		Ours: fmt.Sprintf("stateless tools %s; shared workspace %s between agents, %s of any agent", of(stateless, 5*n),
			of(cross, n), of(any, n)),
		Verdict: holds(stateless == 0 && cross > 0 && any >= cross)}, nil
}

// class is the decision of a reader that sorts a value into three classes.
func class(value int) int { return min(value/34, 2) }

func straddling(_ context.Context, e *Env) (Result, error) {
	chance, n := e.chance("straddling"), e.of(200, 10_000)
	changed, straddle, apart := 0, 0, 0
	for range n {
		stale, fresh := chance.IntN(100), chance.IntN(100)
		h := anomaly.NewHistory(0)
		_ = h.Add(anomaly.Op{Agent: "reporter", WriteTime: 2, HasPreds: true, ReadTime: 1,
			Writes: []anomaly.Write{{Cell: "value", Value: fmt.Sprint(fresh)}}})
		_ = h.Add(anomaly.Op{Agent: "triager", ReadTime: 1, WriteTime: 3, HasPreds: true,
			Reads: []anomaly.Read{{Cell: "value", Value: fmt.Sprint(stale)}}})
		flagged := false
		report := e.Subject.Check(h)
		for i := range report.Findings {
			flagged = flagged || report.Findings[i].Kind == anomaly.A1
		}
		if flagged != (stale != fresh) {
			apart++
		}
		if stale/34 != fresh/34 && (stale < 68 || fresh < 68) {
			straddle++
		}
		if flagged && class(stale) != class(fresh) {
			changed++
		}
	}
	return Result{Ours: percent(changed, n) + " decisions change",
		Baseline: fmt.Sprintf("%s pairs lie on two sides of a threshold; %d findings are wrong", of(straddle, n), apart),
		Verdict:  holds(changed == straddle && changed > 0 && changed < n && apart == 0)}, nil
}

// probed is how often a scripted reader decides otherwise when it is asked again with the fresh value: how it uses
// what
// it read is given as the chance that it does.
func probed(chance *rand.Rand, uses float64, n int) (changed int) {
	for range n {
		if chance.Float64() < uses {
			changed++
		}
	}
	return changed
}

func roles(_ context.Context, e *Env) (Result, error) {
	chance, n := e.chance("roles"), e.of(200, 10_000)
	truth := []float64{1, .545, 0}
	inside := 0
	var words []string
	for i, role := range []string{anomaly.Assessor, anomaly.Consumer, anomaly.Producer} {
		m := anomaly.Estimate(anomaly.Materiality{Role: role, Changed: probed(chance, truth[i], n), Asked: n})
		if m.Low <= truth[i] && truth[i] <= m.High {
			inside++
		}
		words = append(words, role+" "+percent(m.Changed, m.Asked))
	}
	// The same rule over what the roles' findings are: an A1 of each, and nothing where nothing was overwritten.
	review := e.run(scenarios.EditReview(), runtimes.Vanilla)
	quiet := e.run(scenarios.PlanExecute(), runtimes.Vanilla)
	return Result{Ours: strings.Join(words, ", "),
			Baseline: of(inside, len(words)) + " intervals have the readers' built-in shares",
			Verdict:  holds(inside == len(words) && review.Has(anomaly.A1) && !quiet.Has(anomaly.A1)),
			Note:     "the readers are scripted: their shares are put in, and what is shown is that the estimate finds them"},
		nil
}

func material(_ context.Context, e *Env) (Result, error) {
	chance, n := e.chance("material"), e.of(143, 5_000)
	firings, changed, assessors := 0, 0, 0
	for range n {
		judges := chance.Float64() < .3
		s := scenarios.StaleRead() // the second agent writes without regard to what it read
		if judges {
			s = scenarios.EditReview()
		}
		r := e.run(s, runtimes.Vanilla)
		for i := range r.Report.Findings {
			f := &r.Report.Findings[i]
			if f.Kind != anomaly.A1 {
				continue
			}
			firings++
			reads := r.Records[f.Records[0]]
			fresh := r.Records[f.Records[1]].WriteValues[f.Cell]
			decide := func(read string) string { // an assessor's verdict is about what it read
				if judges {
					return "on " + read
				}
				return "as planned"
			}
			if decide(string(reads.ReadValues[f.Cell])) != decide(string(fresh)) {
				changed++
			}
			if judges {
				assessors++
			}
		}
	}
	return Result{Ours: percent(changed, firings) + " findings matter",
		Baseline: fmt.Sprintf("findings of assessors: %d", assessors),
		Verdict:  holds(firings == n && changed == assessors && changed > 0 && changed < firings)}, nil
}

// latency is an order of completion: that of latencies drawn for so many calls.
func latency(chance *rand.Rand, width int) []int {
	took := make([]float64, width)
	for i := range took {
		took[i] = chance.Float64()
	}
	return byStamp(took)
}

// turns counts the turns of so many calls that are reordered under a runtime.
func (e *Env) turns(name string, width, n int, kind runtimes.Kind) (reordered int) {
	chance := e.chance(name)
	for range n {
		if bad, _ := e.order(latency(chance, width), kind); bad {
			reordered++
		}
	}
	return reordered
}

func concurrent(_ context.Context, e *Env) (Result, error) {
	n := e.of(120, 5_000)
	without, with := e.turns("concurrent", 4, n, runtimes.Vanilla), e.turns("concurrent", 4, n, runtimes.Sequencer)
	return Result{Ours: percent(with, n), Baseline: "leaving on completion " + percent(without, n),
		Verdict: holds(with == 0 && without > 0), Note: "a scripted model in place of a live one, with drawn latencies"}, nil
}

func batches(_ context.Context, e *Env) (Result, error) {
	chance, n := e.chance("batches"), e.of(60, 5_000)
	var words []string
	ok := true
	for _, rate := range []float64{1, .1, 0} {
		batched, reordered, alone := 0, 0, 0
		for range n {
			batch := chance.Float64() < rate
			order := positions(3)
			if batch {
				batched++
				order = latency(chance, 3)
			}
			if bad, _ := e.order(order, runtimes.Vanilla); bad {
				if batch {
					reordered++
				} else {
					alone++
				}
			}
		}
		words = append(words, fmt.Sprintf("%d batched, %d reordered", batched, reordered))
		ok = ok && alone == 0 && (batched == 0) == (rate == 0) && (rate < 1 || reordered > 0)
	}
	return Result{Ours: fmt.Sprintf("of %d turns: %s", n, strings.Join(words, "; ")), Verdict: holds(ok),
		Note: "a scripted model that batches at given rates; the ToolNode itself needs Python packages"}, nil
}

func latencies(_ context.Context, e *Env) (Result, error) {
	chance, n, same := e.chance("latencies"), e.of(200, 10_000), 0
	for range n {
		order := latency(chance, 5)
		r := e.run(scenarios.Effects(order), runtimes.Vanilla)
		right := len(r.Records) == 1
		for k, effect := range r.Records[0].CO {
			right = right && effect.Cell == r.Records[0].IO[order[k]].Cell
		}
		if right && r.Has(anomaly.A6) == !slices.IsSorted(order) {
			same++
		}
	}
	equal, _ := e.order(positions(5), runtimes.Vanilla)
	return Result{Ours: fmt.Sprintf("%s turns happen in the order of their latencies; with equal ones reordered: %v",
		of(same, n), equal),
		Verdict: holds(same == n && !equal)}, nil
}

func widths(_ context.Context, e *Env) (Result, error) {
	n, ok := e.of(400, 10_000), true
	var x, y, z []float64
	var words []string
	for width := 2; width <= 6; width++ {
		k := e.turns(fmt.Sprint("width", width), width, n, runtimes.Vanilla)
		law := 1 - 1/float64(factorial(width))
		share := float64(k) / float64(n)
		ok = ok && math.Abs(share-law) <= 4*math.Sqrt(law*(1-law)/float64(n))
		x, y, z = append(x, float64(width)), append(y, share), append(z, law)
		if width == 2 || width == 5 {
			words = append(words, fmt.Sprintf("%d calls %s", width, percent(k, n)))
		}
	}
	return Result{Ours: strings.Join(words, ", "), Baseline: fmt.Sprintf("by counting orders %s and %s", digits(z[0]),
		digits(z[3])),
		Verdict: holds(ok),
		Plots: []report.Plot{{Title: "share of reordered turns by calls", Lines: []report.Line{{Name: "run", X: x, Y: y},
			{Name: "by counting", X: x, Y: z}}}}}, nil
}

func transcript(_ context.Context, e *Env) (Result, error) {
	chance, n := e.chance("transcript"), e.of(100, 5_000)
	kept, reordered := 0, 0
	for range n {
		order := latency(chance, 5)
		results := make([]int, len(order)) // by the place of the call, whenever it is done
		for _, k := range order {
			results[k] = k
		}
		if slices.IsSorted(results) {
			kept++
		}
		if bad, _ := e.order(order, runtimes.Vanilla); bad {
			reordered++
		}
	}
	return Result{Ours: fmt.Sprintf("the list is in order in %s turns, and effects are not in %d", of(kept, n),
		reordered),
		Verdict: holds(kept == n && reordered > 0)}, nil
}

func sequencedTurns(_ context.Context, e *Env) (Result, error) {
	n := e.of(100, 5_000)
	with, without := e.turns("sequenced", 3, n, runtimes.Sequencer), e.turns("sequenced", 3, n, runtimes.Vanilla)
	return Result{Ours: percent(with, n), Baseline: "the same turns without it " + percent(without, n),
		Verdict: holds(with == 0 && without > 0)}, nil
}

func deerFlow(_ context.Context, e *Env) (Result, error) {
	left := func(r *scenarios.Result, cell string) int {
		return len(strings.FieldsFunc(scenarios.TextOf(r.Final[cell]), func(c rune) bool { return c == ',' }))
	}
	last := e.run(scenarios.DeerFlow(), runtimes.Vanilla)
	reduced := e.run(scenarios.DeerFlowReducer(), runtimes.Vanilla)
	named := last.Has(anomaly.NullOverwrite)
	return Result{Ours: fmt.Sprintf("a null overwrite is named: %v; through the reducer %d todos stay", named,
		left(reduced, "todos#"+fmt.Sprint(1))),
		Baseline: fmt.Sprintf("the last writer wins: %d stay", left(last, "todos")),
		Verdict: holds(named && left(last, "todos") == 0 && left(reduced, "todos#"+fmt.Sprint(1)) == 2 &&
			!reduced.Has(anomaly.NullOverwrite))}, nil
}

// node is an agent of a superstep.
type node struct{ reads, writes []string }

// superstep runs nodes together: all read before any writes. Two writers of a channel without a reducer fail it;
// through a reducer each write is one more piece of the channel.
func superstep(nodes []node, reducer bool) (s scenarios.Scenario, failed bool) {
	writers := map[string]int{}
	for i, n := range nodes {
		s.Steps = append(s.Steps, scenarios.Begin(schedules.Name(i), schedules.Name(i), n.reads...))
	}
	for i, n := range nodes {
		for _, channel := range n.writes {
			writers[channel]++
			if reducer {
				channel += fmt.Sprint("#", writers[channel])
			} else if writers[channel] > 1 {
				return s, true
			}
			s.Steps = append(s.Steps, scenarios.Write(schedules.Name(i), channel, scenarios.Text(schedules.Name(i))))
		}
		s.Steps = append(s.Steps, scenarios.Commit(schedules.Name(i)))
	}
	return s, false
}

func reducers(_ context.Context, e *Env) (Result, error) {
	two := []node{{writes: []string{"k"}}, {writes: []string{"k"}}}
	summary := []node{{writes: []string{"k"}}, {reads: []string{"k"}, writes: []string{"summary"}}}
	_, failed := superstep(two, false)
	silent, stopped := superstep(summary, false)
	stale := e.run(silent, runtimes.Vanilla).Has(anomaly.A1)
	both, failedReduced := superstep(two, true)
	kept := len(e.run(both, runtimes.Vanilla).Final)
	reduced, _ := superstep(summary, true)
	fresh := !e.run(reduced, runtimes.Vanilla).Has(anomaly.A1)
	return Result{
		Ours: fmt.Sprintf("the stale summary is named: %v; with a reducer %d writes stay, and no A1: %v", stale, kept,
			fresh),
		Baseline: fmt.Sprintf("without a reducer two writers fail: %v, a stale reader does not: %v", failed, !stopped),
		Verdict:  holds(failed && !stopped && stale && !failedReduced && kept == 2 && fresh),
		Note:     "a channel of our own; a read through a reducer is of the pieces that were there"}, nil
}

func lostAppends(_ context.Context, e *Env) (Result, error) {
	const writers, rounds = 4, 6
	s := scenarios.SharedBlock(writers, rounds)
	there := func(r *scenarios.Result) int { return len(strings.Fields(scenarios.TextOf(r.Final["block"]))) }
	lost := writers*rounds - there(e.run(s, runtimes.Vanilla))
	kept, retried := 0, 0
	for range rounds { // each round's losers try again, one after the other
		r := scenarios.Run(scenarios.SharedBlock(writers, 1), e.Subject.Runtime(runtimes.Serializable),
			scenarios.Options{Retry: true})
		kept, retried = kept+there(r), retried+r.Counts.Aborted
	}
	named := e.run(s, runtimes.Vanilla).Has(anomaly.LostUpdate)
	return Result{Ours: fmt.Sprintf("reads validated and losers again: %s there, %d tries again", of(kept,
		writers*rounds), retried),
		Baseline: fmt.Sprintf("the last writer wins: %s lost; named as a lost update: %v", of(lost, writers*rounds), named),
		Verdict:  holds(kept == writers*rounds && lost == 18 && named)}, nil
}

func coverage(_ context.Context, e *Env) (Result, error) {
	chance, n, ok := e.chance("coverage"), e.of(100, 10_000), true
	const asked = 100
	var words []string
	for _, truth := range []float64{.1, .5, .9} {
		inside, near := 0, 0
		for range n {
			k := probed(chance, truth, asked)
			if covers(k, asked, truth) {
				inside++
			}
			if math.Abs(float64(k)/asked-truth) <= .1 {
				near++
			}
		}
		share := float64(inside) / float64(n)
		ok = ok && share >= .95-4*math.Sqrt(.05*.95/float64(n))
		words = append(words, digits(100*share)+" %")
	}
	quiet := e.run(scenarios.Pipeline(), runtimes.Vanilla)
	return Result{Ours: "the interval has the truth in " + strings.Join(words, ", "),
		Baseline: fmt.Sprintf("of %d estimates each, from a hundred answers", n),
		Verdict:  holds(ok && count(quiet.Report) == 0)}, nil
}
