package tables

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/report"
	"github.com/hence-dev/hence/cmd/hence/internal/runtimes"
	"github.com/hence-dev/hence/cmd/hence/internal/scenarios"
	"github.com/hence-dev/hence/cmd/hence/internal/schedules"
	"github.com/hence-dev/hence/sequencer/anomaly"
	"github.com/hence-dev/hence/topology/trace"
)

// compared are the runtimes of the paper, and default snapshots beside those that validate every read.
func compared() []runtimes.Kind {
	return []runtimes.Kind{runtimes.Vanilla, runtimes.PessimisticDrop, runtimes.Snapshot, runtimes.Serializable,
		runtimes.Cascade, runtimes.Sequencer, runtimes.RegistryValidate}
}

// promised is what each of them excludes by the paper, in their order.
func promised() []anomaly.Point {
	return []anomaly.Point{{}, {A1: true}, {}, {A1: true}, {A1: true, A3: true}, {A6: true}, {A2: true}}
}

func matrix(_ context.Context, e *Env) (Result, error) {
	right, n := 0, 0
	var words []string
	for i, kind := range compared() {
		var got anomaly.Point
		got, n = e.fires(kind)
		got = got.Or(fired(e.run(scenarios.AllFour(), kind)))
		for _, k := range anomaly.Lattice() {
			if got.Has(k) != promised()[i].Has(k) {
				right++
			}
		}
		words = append(words, fmt.Sprintf("%s %v", kind, got))
	}
	cells := len(compared()) * len(anomaly.Lattice())
	return Result{Ours: "let through: " + strings.Join(words, ", "),
		Baseline: fmt.Sprintf("%s cells as the paper has them, each over %d schedules and a script", of(right, cells), n),
		Verdict:  holds(right == cells)}, nil
}

func holders(_ context.Context, e *Env) (Result, error) {
	states, twice, stale, without := 0, 0, 0, 0
	for s := range e.schedules() {
		for _, kind := range []runtimes.Kind{runtimes.PessimisticDrop, runtimes.Vanilla} {
			r := e.run(s.Scenario(), kind)
			both := 0
			var open [2]bool
			for _, one := range s.Events {
				switch one.What {
				case 'b':
					open[one.Of] = !strings.HasPrefix(r.Why[schedules.Name(one.Of)], "read") && began(r, one.Of)
				case 'c':
					open[one.Of] = false
				}
				states++
				if open[0] && open[1] && s.Ops[0].Reads&s.Ops[1].Reads != 0 {
					both++
				}
			}
			if kind == runtimes.Vanilla {
				without += both
				continue
			}
			twice += both
			if r.Has(anomaly.A1) {
				stale++
			}
		}
	}
	return Result{
		Ours:     fmt.Sprintf("%d of %d states have two holders of a cell; %d histories have A1", twice, states/2, stale),
		Baseline: fmt.Sprintf("without locks %d", without),
		Verdict:  holds(twice == 0 && stale == 0 && without > 0)}, nil
}

// began says whether an operation was not refused at its begin.
func began(r *scenarios.Result, i int) bool {
	at := slices.IndexFunc(r.Records, func(rec trace.Record) bool { return string(rec.Txn) == schedules.Name(i) })
	return at >= 0 && (r.Records[at].ReadValues != nil || r.Records[at].TookEffect())
}

// stale counts the histories with A1 under a runtime, of schedules that pick selects, and those of them whose reader
// writes nothing.
func (e *Env) stale(kind runtimes.Kind, pick func(schedules.Schedule) bool) (n, found, readers int) {
	for s := range e.schedules() {
		if !pick(s) {
			continue
		}
		n++
		r := e.run(s.Scenario(), kind)
		if !r.Has(anomaly.A1) {
			continue
		}
		found++
		all := true
		for i := range r.Report.Findings {
			f := &r.Report.Findings[i]
			all = all && (f.Kind != anomaly.A1 || len(r.Records[f.Records[0]].WriteSet) == 0)
		}
		if all {
			readers++
		}
	}
	return n, found, readers
}

func every(schedules.Schedule) bool { return true }

func writersAll(s schedules.Schedule) bool { return s.Ops[0].Writes != 0 && s.Ops[1].Writes != 0 }

func validated(_ context.Context, e *Env) (Result, error) {
	n, found, _ := e.stale(runtimes.Serializable, every)
	_, without, _ := e.stale(runtimes.Vanilla, every)
	return Result{Ours: of(found, n) + " schedules have A1", Baseline: fmt.Sprintf("without validation %d", without),
		Verdict: holds(found == 0 && without > 0)}, nil
}

func writersOnly(_ context.Context, e *Env) (Result, error) {
	n, found, _ := e.stale(runtimes.Snapshot, writersAll)
	all, through, readers := e.stale(runtimes.Snapshot, every)
	return Result{Ours: "where all write, " + of(found, n) + " schedules have A1",
		Baseline: fmt.Sprintf("of all schedules %s, and in %d of these only operations that write nothing", of(through, all),
			readers),
		Verdict: holds(found == 0 && n > 0 && through > 0 && readers == through)}, nil
}

func refined(_ context.Context, e *Env) (Result, error) {
	differ, n := 0, 0
	for _, kind := range compared() {
		for s := range e.schedules() {
			n++
			if schedules.Predict(kind, s).Differs(e.run(s.Scenario(), kind)) != "" {
				differ++
			}
		}
	}
	return Result{Ours: fmt.Sprintf("%d of %d runs of %d runtimes differ from the model", differ, n, len(compared())),
		Baseline: "a model that keeps no more of an operation than how far it is and since when",
		Verdict:  holds(differ == 0)}, nil
}

// locked enumerates how so many agents may each add one to a counter by reading and writing it.
func locked(_ context.Context, e *Env) (Result, error) {
	var words, loose []string
	ok := true
	for n := 2; n <= 4; n++ {
		runs, lost := increments(n, true)
		free, lostFree := increments(n, false)
		ok = ok && runs == factorial(n) && lost == 0 && lostFree > 0
		words, loose = append(words, fmt.Sprintf("%d agents %d", n, runs)), append(loose, of(lostFree, free))
		lockedByScripts := e.run(increment(n), runtimes.PessimisticWait)
		ok = ok && len(scenarios.TextOf(lockedByScripts.Final["counter"])) == 2*n-1 && !lockedByScripts.Has(anomaly.A1)
	}
	return Result{Ours: "executions, none of them loses: " + strings.Join(words, ", "),
		Baseline: "without the lock lose: " + strings.Join(loose, ", "), Verdict: holds(ok)}, nil
}

// increment is so many agents that begin together on a counter, and each add to it.
func increment(n int) (s scenarios.Scenario) {
	for i := range n {
		s.Steps = append(s.Steps, scenarios.Begin(schedules.Name(i), schedules.Name(i), "counter"))
	}
	for i := range n {
		s.Steps = append(s.Steps, scenarios.Write(schedules.Name(i), "counter", scenarios.Append("counter", "i")),
			scenarios.Commit(schedules.Name(i)))
	}
	return s
}

// increments counts the executions, and those that lose one.
func increments(n int, lock bool) (runs, lost int) {
	read, state := make([]int, n), make([]int, n) // 0 not begun, 1 has read, 2 done
	var step func(counter, held, done int)
	step = func(counter, held, done int) {
		if done == n {
			runs++
			if counter != n {
				lost++
			}
			return
		}
		for i := range n {
			switch {
			case state[i] == 0 && (!lock || held == 0):
				read[i], state[i] = counter, 1
				step(counter, held+1, done)
				state[i] = 0
			case state[i] == 1:
				was := read[i]
				state[i] = 2
				step(read[i]+1, held-1, done+1)
				read[i], state[i] = was, 1
			}
		}
	}
	step(0, 0, 0)
	return runs, lost
}

func cascades(_ context.Context, e *Env) (Result, error) {
	n, broken, orphans, without := 0, 0, 0, 0
	for s := range e.schedules() {
		n++
		r := e.run(s.Scenario(), runtimes.Cascade)
		if r.Has(anomaly.A3) || r.Has(anomaly.A1) {
			broken++
		}
		if !newest(r.Records) {
			orphans++ // a standing read without a standing producer
		}
		if e.run(s.Scenario(), runtimes.Vanilla).Has(anomaly.A3) {
			without++
		}
	}
	return Result{
		Ours: fmt.Sprintf("%d of %d histories have A3 or A1; in %d a read that stands has no producer that does",
			broken, n, orphans),
		Baseline: fmt.Sprintf("without the guard %d have A3", without),
		Verdict:  holds(broken == 0 && without > 0 && orphans == 0)}, nil
}

// permutations are all orders of so many, as lists.
func permutations(n int) (all [][]int) {
	var grow func(left []int, order []int)
	grow = func(left, order []int) {
		if len(left) == 0 {
			all = append(all, slices.Clone(order))
		}
		for i := range left {
			grow(slices.Delete(slices.Clone(left), i, i+1), append(order, left[i]))
		}
	}
	grow(positions(n), nil)
	return all
}

// order runs effects that complete in an order, and says whether they left in that of issue, all of them.
func (e *Env) order(order []int, kind runtimes.Kind) (reordered, whole bool) {
	r := e.run(scenarios.Effects(order), kind)
	return r.Has(anomaly.A6), len(r.Records) == 1 && len(r.Records[0].CO) == len(order)
}

func sequenced(_ context.Context, e *Env) (Result, error) {
	n, reordered, partial, without, orders := 0, 0, 0, 0, 0
	run := func(order []int) {
		n++
		bad, whole := e.order(order, runtimes.Sequencer)
		if bad {
			reordered++
		}
		if !whole {
			partial++
		}
		if bad, _ := e.order(order, runtimes.Vanilla); bad {
			without++
		}
		if !slices.IsSorted(order) {
			orders++
		}
	}
	for width := 1; width <= e.of(4, 7); width++ {
		for _, order := range permutations(width) {
			run(order)
		}
	}
	chance := e.chance("sequenced")
	for width := 8; width <= 16; width++ {
		for range e.of(2, 100) {
			run(chance.Perm(width))
		}
	}
	return Result{
		Ours:     fmt.Sprintf("%d of %d schedules reordered, %d not whole", reordered, n, partial),
		Baseline: fmt.Sprintf("leaving on completion: %d reordered, of %d that complete in another order", without, orders),
		Verdict:  holds(reordered == 0 && partial == 0 && without == orders && orders > 0)}, nil
}

func registries(_ context.Context, e *Env) (Result, error) {
	var fired [3]int
	n, refused, gone := 0, 0, 0
	for _, tools := range []int{2, 4, 16} {
		for planned := range tools {
			for _, changed := range []bool{false, true} {
				n++
				s := scenarios.ToolGone(tools, planned, changed)
				for i, kind := range []runtimes.Kind{runtimes.RegistryValidate, runtimes.RegistryPinned, runtimes.Vanilla} {
					r := e.run(s, kind)
					if r.Has(anomaly.A2) {
						fired[i]++
					}
					switch kind {
					case runtimes.RegistryValidate:
						refused += r.Counts.Aborted
					case runtimes.RegistryPinned:
						gone += r.Counts.Gone
					}
				}
			}
		}
	}
	return Result{
		Ours: fmt.Sprintf("validated %d with A2, %d refused; pinned %d with A2, %d calls to a tool that is gone",
			fired[0], refused, fired[1], gone),
		Baseline: "resolved at the call: " + of(fired[2], n) + " with A2",
		Verdict:  holds(fired[0] == 0 && fired[1] == 0 && fired[2] == n && refused == n && gone == n)}, nil
}

func composed(_ context.Context, e *Env) (Result, error) {
	all, n := e.fires(atLevel(4)...)
	right := 0
	var words []string
	for i, kinds := range [][]runtimes.Kind{
		{runtimes.Sequencer, runtimes.RegistryValidate},
		{runtimes.Serializable, runtimes.Sequencer, runtimes.RegistryValidate},
		{runtimes.Cascade, runtimes.RegistryValidate}, {runtimes.Cascade, runtimes.Sequencer},
	} {
		got := fired(e.run(scenarios.AllFour(), kinds...))
		want := []anomaly.Point{{A1: true, A3: true}, {A3: true}, {A6: true}, {A2: true}}[i]
		if got == want {
			right++
		}
		words = append(words, got.String())
	}
	whole := fired(e.run(scenarios.AllFour(), atLevel(4)...))
	return Result{
		Ours: fmt.Sprintf("together they let %v through, over %d schedules and a script", all.Or(whole), n),
		Baseline: "without reads and cascades, without cascades, without the sequencer, without the registry: " +
			strings.Join(words, ", "),
		Verdict: holds(all.Or(whole) == anomaly.Point{} && right == len(words))}, nil
}

// copies reads one cell of a primary and of a copy, each at a version, and returns what the detectors say.
func (e *Env) copies(primary, secondary [2]string) *anomaly.Report {
	h := anomaly.NewHistory(0)
	for i, one := range [][2]string{primary, secondary} {
		_ = h.Add(anomaly.Op{Agent: fmt.Sprint("agent", i), ReadTime: 1, WriteTime: uint64(i + 2), HasPreds: true,
			Reads: []anomaly.Read{{Cell: "c", Value: one[1], Version: one[0], Replica: []string{"primary", "secondary"}[i]}}})
	}
	return e.Subject.Check(h)
}

func split(_ context.Context, e *Env) (Result, error) {
	chance, runs := e.chance("split"), e.of(500, 20_000)
	kinds := func(r *anomaly.Report) (lag, fork bool) {
		for i := range r.Findings {
			lag = lag || r.Findings[i].Kind == anomaly.A4
			fork = fork || r.Findings[i].Kind == anomaly.A4v
		}
		return lag, fork
	}
	var lagged, forked, lagFork, wrong int
	for range runs {
		at, behind := chance.IntN(20)+1, chance.IntN(3)
		value := func(version int) string { return fmt.Sprint("v", version) }
		primary := [2]string{fmt.Sprint(at), value(at)}
		old := max(0, at-behind)
		lag, fork := kinds(e.copies(primary, [2]string{fmt.Sprint(old), value(old)}))
		if lag != (old != at) {
			wrong++
		}
		if lag {
			lagged++
		}
		if fork {
			lagFork++
		}
		lag, fork = kinds(e.copies(primary, [2]string{fmt.Sprint(at), "other"}))
		if fork && lag {
			forked++
		}
	}
	return Result{
		Ours: fmt.Sprintf("a lagging copy: %d A4, %d at one version; %d judged wrongly; a forked copy: %s at one version",
			lagged, lagFork, wrong, of(forked, runs)),
		Verdict: holds(lagged > 0 && lagged < runs && lagFork == 0 && wrong == 0 && forked == runs)}, nil
}

func channels(_ context.Context, e *Env) (Result, error) {
	chance, runs := e.chance("channels"), e.of(500, 20_000)
	var lost, last, accepted, refused, blind int
	for range runs {
		writers := 2 + chance.IntN(3)
		block := e.run(scenarios.SharedBlock(writers, 1), runtimes.Vanilla)
		last += writers - len(strings.Fields(scenarios.TextOf(block.Final["block"])))
		var s scenarios.Scenario // each appends a cell of its own, which is what a reducer does
		for i := range writers {
			op := schedules.Name(i)
			s.Steps = append(s.Steps, scenarios.Begin(op, op), scenarios.Write(op, fmt.Sprint("channel#", i),
				scenarios.Text(op)))
		}
		for _, i := range chance.Perm(writers) {
			s.Steps = append(s.Steps, scenarios.Commit(schedules.Name(i)))
		}
		lost += writers - len(e.run(s, runtimes.Vanilla).Final)
		head := e.run(scenarios.SharedBlock(writers, 1), runtimes.Serializable)
		accepted, refused = accepted+head.Counts.Committed, refused+head.Counts.Aborted
		blind += block.Counts.Committed - 1
	}
	return Result{
		Ours: fmt.Sprintf("added one behind the other: %d lost; checked against the head: %d accepted, %d refused", lost,
			accepted, refused),
		Baseline: fmt.Sprintf("the last writer wins: %d lost; blind to versions, %d more accepted", last, blind),
		Verdict:  holds(lost == 0 && accepted == runs && refused == blind && last == blind && last > 0)}, nil
}

// traces draws so many of the seven scenarios and runs them under a runtime.
func (e *Env) traces(kind runtimes.Kind) (drawn map[string]int, found map[anomaly.Kind]int, dropped, aborted, n int) {
	chance := e.chance("traces")
	drawn, found = map[string]int{}, map[anomaly.Kind]int{}
	n = 700
	all := scenarios.Seven()
	for range n {
		s := all[chance.IntN(len(all))]
		drawn[s.Name]++
		r := e.run(s, kind)
		for _, k := range anomaly.Lattice() {
			if r.Has(k) {
				found[k]++
			}
		}
		dropped, aborted = dropped+r.Counts.Dropped, aborted+r.Counts.Aborted
	}
	return drawn, found, dropped, aborted, n
}

func unguarded(_ context.Context, e *Env) (Result, error) {
	drawn, found, dropped, aborted, n := e.traces(runtimes.Vanilla)
	ok := dropped+aborted == 0
	var words, draws []string
	for _, k := range anomaly.Lattice() {
		name := script(k).Name
		ok = ok && found[k] == drawn[name] && found[k] > 0
		words, draws = append(words, fmt.Sprintf("%v %d", k, found[k])), append(draws, fmt.Sprintf("%s %d", name,
			drawn[name]))
	}
	return Result{Ours: fmt.Sprintf("of %d traces: %s; %d aborts", n, strings.Join(words, ", "), aborted),
		Baseline: "drawn: " + strings.Join(draws, ", "), Verdict: holds(ok),
		Note: "each finding is a draw of its scenario; the paper's shares fit draws of five scenarios, not of seven"}, nil
}

func underLocks(_ context.Context, e *Env) (Result, error) {
	drawn, found, dropped, _, n := e.traces(runtimes.PessimisticDrop)
	_, waiting, _, _, _ := e.traces(runtimes.PessimisticWait)
	conflicts := drawn[scenarios.StaleRead().Name] + drawn[scenarios.FanOutMerge().Name]
	return Result{
		Ours: fmt.Sprintf("of %d traces: A1 %d, A2 %d, dropped %d; where begins wait A1 %d", n, found[anomaly.A1],
			found[anomaly.A2], dropped, waiting[anomaly.A1]),
		Baseline: fmt.Sprintf("drawn: %d with a conflict of locks, %d whose tool goes", conflicts,
			drawn[scenarios.ToolRemoved().Name]),
		Verdict: holds(found[anomaly.A1] == 0 && waiting[anomaly.A1] == 0 && dropped == conflicts &&
			found[anomaly.A2] == drawn[scenarios.ToolRemoved().Name]),
		Note: "no lock is on the registry, so A2 stays; the paper has none, and no stated rule gives that"}, nil
}

func underSnapshots(_ context.Context, e *Env) (Result, error) {
	drawn, found, _, aborted, n := e.traces(runtimes.Snapshot)
	_, strict, _, strictly, _ := e.traces(runtimes.Serializable)
	overlaps, gone := drawn[scenarios.StaleRead().Name], drawn[scenarios.ToolRemoved().Name]
	return Result{
		Ours: fmt.Sprintf("of %d traces: A1 %d, A2 %d, %d aborts; with all reads validated %d and %d aborts", n,
			found[anomaly.A1], found[anomaly.A2], aborted, strict[anomaly.A1], strictly),
		Baseline: fmt.Sprintf("drawn: %d overlaps, %d whose tool goes", overlaps, gone),
		Verdict: holds(found[anomaly.A1] == 0 && strict[anomaly.A1] == 0 && aborted == overlaps && strictly == overlaps &&
			found[anomaly.A2] == gone && overlaps > 0)}, nil
}

// session is a workload with its times drawn: the steps in the order in which they happen.
func session(workload string, chance *rand.Rand, overlap float64) scenarios.Scenario {
	switch workload {
	case "edit-review":
		return scenarios.EditReview()
	case "plan-execute":
		return scenarios.PlanExecute()
	}
	// The reporter amends the ticket at some time; the triager has read it and thinks for a part of the session.
	amends := chance.Float64() < overlap
	whole := scenarios.Triage()
	if amends {
		return whole
	}
	n := len(whole.Steps)
	// The triager commits before the ticket is amended.
	return scenarios.Scenario{Name: whole.Name, Steps: slices.Concat(whole.Steps[:4], whole.Steps[n-1:],
		whole.Steps[4:n-1])}
}

func sessions() []string { return []string{"edit-review", "plan-execute", "triage"} }

// rate is how many of so many sessions have A1 under a runtime.
func (e *Env) rate(workload string, kind runtimes.Kind, overlap float64) (found, n int) {
	chance := e.chance(workload)
	n = e.of(100, 1000)
	for range n {
		if e.run(session(workload, chance, overlap), kind).Has(anomaly.A1) {
			found++
		}
	}
	return found, n
}

func workloads(_ context.Context, e *Env) (Result, error) {
	var found [3]int
	n := 0
	for i, w := range sessions() {
		found[i], n = e.rate(w, runtimes.Vanilla, .35)
	}
	var x, y []float64
	monotone := true
	for _, overlap := range []float64{0, .25, .5, .75, 1} {
		k, all := e.rate(sessions()[2], runtimes.Vanilla, overlap)
		x, y = append(x, overlap), append(y, float64(k)/float64(all))
		monotone = monotone && (len(y) < 2 || y[len(y)-1] >= y[len(y)-2])
	}
	return Result{
		Ours: fmt.Sprintf("edit-review %s, plan-execute %s, triage %s", of(found[0], n), of(found[1], n), percent(found[2],
			n)),
		Verdict: holds(found[0] == n && found[1] == 0 && found[2] > 0 && found[2] < n && monotone && y[0] == 0 &&
			y[len(y)-1] == 1),
		Note: "how often a ticket is amended while it is triaged is given to the run, so its rate is no finding; that the " +
			"rate of A1 follows it is",
		Plots: []report.Plot{{Title: "share of triage sessions with A1 by the share that overlaps",
			Lines: []report.Line{{Name: "without a guard", X: x, Y: y}}}}}, nil
}

func guards(_ context.Context, e *Env) (Result, error) {
	var words []string
	ok := true
	for _, kind := range []runtimes.Kind{runtimes.Vanilla, runtimes.PessimisticDrop, runtimes.Snapshot,
		runtimes.Serializable} {
		var found [3]int
		for i, w := range sessions() {
			found[i], _ = e.rate(w, kind, .35)
		}
		words = append(words, fmt.Sprintf("%s %d/%d/%d", kind, found[0], found[1], found[2]))
		switch kind {
		case runtimes.Vanilla:
			ok = ok && found[0] > 0 && found[2] > 0
		case runtimes.Snapshot:
			ok = ok && found[0] == 0 && found[1] == 0 && found[2] > 0
		default:
			ok = ok && found == [3]int{}
		}
	}
	return Result{Ours: strings.Join(words[1:], "; "), Baseline: words[0], Verdict: holds(ok)}, nil
}

func readers(_ context.Context, e *Env) (Result, error) {
	chance, found, empty, strict := e.chance("readers"), 0, 0, 0
	n := e.of(100, 1000)
	for range n {
		s := session("triage", chance, .35)
		r := e.run(s, runtimes.Snapshot)
		for i := range r.Report.Findings {
			if f := &r.Report.Findings[i]; f.Kind == anomaly.A1 {
				found++
				if len(r.Records[f.Records[0]].WriteSet) == 0 {
					empty++
				}
			}
		}
		if e.run(s, runtimes.Serializable).Has(anomaly.A1) {
			strict++
		}
	}
	return Result{Ours: fmt.Sprintf("with all reads validated %s have A1", of(strict, n)),
		Baseline: fmt.Sprintf("with those of writers validated %d findings, %d of operations that write nothing", found,
			empty),
		Verdict: holds(found > 0 && empty == found && strict == 0)}, nil
}
