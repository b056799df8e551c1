package tables

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/hence-dev/hence/cmd/hence/internal/runtimes"
	"github.com/hence-dev/hence/cmd/hence/internal/scenarios"
	"github.com/hence-dev/hence/cmd/hence/internal/schedules"
	"github.com/hence-dev/hence/sequencer/anomaly"
	"github.com/hence-dev/hence/sequencer/anomaly/brute"
	"github.com/hence-dev/hence/topology/trace"
)

// detectorRuns are the rows of the detectors: the smallest histories, the lattice, and what each runtime excludes.
func detectorRuns() map[string]run {
	return map[string]run{
		"D1": smallestA1, "D2": smallestA2, "D3": residue, "D4": smallestA6, "D5": levels, "D6": lattice,
		"D7": insufficient, "D8": lowerBound, "D9": exact, "D10": embedded, "D13": matrix, "D14": holders,
		"D15": validated, "D16": writersOnly, "D17": refined, "D18": locked, "D19": cascades, "D20": sequenced,
		"D21": registries, "D22": composed, "D23": split, "D24": channels, "D25": unguarded, "D26": underLocks,
		"D27": underSnapshots, "D28": workloads, "D29": guards, "D30": readers,
		"D32": costLaw, "D33": priceUnder, "D37": layerVerdicts, "D38": layerRuns, "D35": cookbook, "D39": straddling,
		"D40": roles, "D41": material, "D53": concurrent, "D54": batches, "D55": latencies, "D56": widths,
		"D57": transcript, "D58": sequencedTurns, "D59": deerFlow, "D60": reducers, "D62": lostAppends,
		"D64": coverage,
	}
}

// search plays all scripts of moves, shorter ones first, and returns the steps of the first whose history has what is
// looked for, with how many states were seen. A move of a script names what it needs; those that cannot follow are
// not tried.
func (e *Env) search(most int, next func(played []string) []string, steps func(move string) []scenarios.Step,
	first []scenarios.Step, found func(*scenarios.Result) bool,
) (script []string, states int) {
	layer := [][]string{nil}
	for range most + 1 {
		var longer [][]string
		for _, played := range layer {
			states++
			s := scenarios.Scenario{Steps: slices.Clone(first)}
			for _, m := range played {
				s.Steps = append(s.Steps, steps(m)...)
			}
			if found(e.run(s, runtimes.Vanilla)) {
				return played, states
			}
			for _, m := range next(played) {
				longer = append(longer, append(slices.Clone(played), m))
			}
		}
		layer = longer
	}
	return nil, states
}

// twoAgents are the moves of two agents over one cell: each begins, with a read or without, and commits, with a write
// or without.
func twoAgents(played []string) (moves []string) {
	for _, agent := range []string{"i", "j"} {
		began := slices.Contains(played, agent+" reads") || slices.Contains(played, agent+" begins")
		ended := slices.Contains(played, agent+" writes") || slices.Contains(played, agent+" ends")
		switch {
		case !began:
			moves = append(moves, agent+" reads", agent+" begins")
		case !ended:
			moves = append(moves, agent+" writes", agent+" ends")
		}
	}
	return moves
}

func twoAgentsSteps(move string) []scenarios.Step {
	agent, what, _ := strings.Cut(move, " ")
	switch what {
	case "reads":
		return []scenarios.Step{scenarios.Begin(agent, agent, "c")}
	case "begins":
		return []scenarios.Step{scenarios.Begin(agent, agent)}
	case "writes":
		return []scenarios.Step{scenarios.Write(agent, "c", scenarios.Text("v")), scenarios.Commit(agent)}
	}
	return []scenarios.Step{scenarios.Commit(agent)}
}

// witness is the result of a search for a smallest history.
func witness(script []string, states, want int) Result {
	return Result{Ours: fmt.Sprintf("%d states: %s", len(script)+1, strings.Join(script, ", ")),
		Baseline: fmt.Sprintf("%d states were looked at, shorter histories first", states),
		Verdict:  holds(script != nil && len(script)+1 == want)}
}

func smallestA1(_ context.Context, e *Env) (Result, error) {
	script, states := e.search(4, twoAgents, twoAgentsSteps, nil, has(anomaly.A1))
	return witness(script, states, 5), nil
}

func has(k anomaly.Kind) func(*scenarios.Result) bool {
	return func(r *scenarios.Result) bool { return r.Has(k) }
}

func smallestA2(_ context.Context, e *Env) (Result, error) {
	moves := []string{"plans", "removes", "removes the other", "commits"}
	script, states := e.search(3, func(played []string) (next []string) {
		for _, m := range moves {
			if !slices.Contains(played, m) && (m != "commits" || slices.Contains(played, "plans")) {
				next = append(next, m)
			}
		}
		return next
	}, func(move string) []scenarios.Step {
		switch move {
		case "plans":
			return []scenarios.Step{scenarios.Begin("i", "i").Planning("t")}
		case "removes":
			return []scenarios.Step{scenarios.Remove("t")}
		case "removes the other":
			return []scenarios.Step{scenarios.Remove("u")}
		}
		return []scenarios.Step{scenarios.Commit("i")}
	}, []scenarios.Step{scenarios.Register("t", "v"), scenarios.Register("u", "v")}, has(anomaly.A2))
	return witness(script, states, 4), nil
}

func smallestA6(_ context.Context, e *Env) (Result, error) {
	script, states := e.search(2, func(played []string) []string {
		if len(played) == 0 {
			return []string{"begins"}
		}
		return []string{"commits in order", "commits in the other order"}
	}, func(move string) []scenarios.Step {
		if move == "begins" {
			return []scenarios.Step{scenarios.Begin("i", "i")}
		}
		all := []scenarios.Step{scenarios.Issue("i", "x", scenarios.Text("v")), scenarios.Issue("i", "y",
			scenarios.Text("v"))}
		if move == "commits in the other order" {
			all = append(all, scenarios.Complete("i", 1))
		}
		return append(all, scenarios.Commit("i"))
	}, nil, has(anomaly.A6))
	return witness(script, states, 3), nil
}

// newest says whether each value that a standing operation read is the latest standing write that was visible then.
func newest(records []trace.Record) bool {
	for i := range records {
		r := &records[i]
		for _, cell := range r.ReadSet {
			if !r.TookEffect() {
				continue
			}
			value, at := trace.Null, uint64(0)
			for j := range records {
				w := &records[j]
				if w.TookEffect() && slices.Contains(w.WriteSet, cell) && w.WriteTime <= r.ReadTime && w.WriteTime >= at {
					value, at = w.WriteValues[cell], w.WriteTime
				}
			}
			if r.ReadValues[cell] != value {
				return false
			}
		}
	}
	return true
}

func insufficient(_ context.Context, e *Env) (Result, error) {
	script, states := e.search(4, twoAgents, twoAgentsSteps, nil, func(r *scenarios.Result) bool {
		return r.Has(anomaly.A1) && newest(r.Records)
	})
	out := witness(script, states, 5)
	out.Note = "the number of states is that of our moves; the paper's model has others"
	return out, nil
}

func residue(_ context.Context, e *Env) (Result, error) {
	cascade := e.run(scenarios.PhantomWrite(), runtimes.Vanilla)
	flat := slices.Clone(cascade.Records)
	for i := range flat {
		flat[i].Preds = nil
	}
	benign := e.run(scenarios.PhantomClaim(), runtimes.Vanilla)
	possible := func(r *anomaly.Report) bool {
		return slices.ContainsFunc(r.Findings, func(f anomaly.Finding) bool { return f.Kind == anomaly.A3 && !f.Certain })
	}
	one, two := possible(e.judge(flat)), possible(benign.Report)
	return Result{
		Ours: fmt.Sprintf("A3 on the cascade: %v, on the serial history: %v; residue on both: %v", cascade.Has(anomaly.A3),
			benign.Has(anomaly.A3), one && two),
		Verdict: holds(cascade.Has(anomaly.A3) && !benign.Has(anomaly.A3) && one && two && len(cascade.Records) == 2)}, nil
}

// atLevel are the kinds of the runtime of a level.
func atLevel(n int) []runtimes.Kind {
	return [][]runtimes.Kind{{runtimes.Vanilla}, {runtimes.Serializable}, {runtimes.Cascade},
		{runtimes.Cascade, runtimes.Sequencer}, {runtimes.Cascade, runtimes.Sequencer, runtimes.RegistryValidate}}[n]
}

func levels(_ context.Context, e *Env) (Result, error) {
	// A row for each level: which of A1, A2, A3, A6 it admits.
	want := []anomaly.Point{{A1: true, A2: true, A3: true, A6: true}, {A2: true, A3: true, A6: true},
		{A2: true, A6: true}, {A2: true}, {}}
	right, n := 0, 0
	var words []string
	for level, admits := range want {
		var got anomaly.Point
		got, n = e.fires(atLevel(level)...)
		got = got.Or(fired(e.run(scenarios.AllFour(), atLevel(level)...)))
		for _, k := range anomaly.Lattice() {
			if got.Has(k) == admits.Has(k) {
				right++
			}
		}
		words = append(words, fmt.Sprintf("L%d %v", level, got))
	}
	return Result{Ours: "admitted: " + strings.Join(words, ", "),
		Baseline: fmt.Sprintf("%s cells, each over %d schedules", of(right, len(want)*len(anomaly.Lattice())), n),
		Verdict:  holds(right == len(want)*len(anomaly.Lattice()))}, nil
}

// script is the scenario of one of the four.
func script(k anomaly.Kind) scenarios.Scenario {
	switch k {
	case anomaly.A1:
		return scenarios.StaleRead()
	case anomaly.A2:
		return scenarios.ToolRemoved()
	case anomaly.A3:
		return scenarios.PhantomWrite()
	}
	return scenarios.EffectReorder()
}

func lattice(_ context.Context, e *Env) (Result, error) {
	witnesses, realised, built, covers, named := 0, 0, 0, 0, 0
	chain := map[int]bool{}
	const all = 1<<4 - 1
	for set := range all + 1 {
		var s scenarios.Scenario
		var kinds []runtimes.Kind
		var point anomaly.Point
		for i, k := range anomaly.Lattice() {
			if set>>i&1 == 0 {
				s.Steps = append(s.Steps, script(k).Steps...)
				continue
			}
			point = point.Or(onePoint(k))
			kinds = append(kinds, []runtimes.Kind{runtimes.Serializable, runtimes.RegistryValidate, runtimes.Cascade,
				runtimes.Sequencer}[i])
		}
		if _, most := e.run(s, runtimes.Vanilla).Report.Points(); most == point {
			witnesses++
		}
		if !point.A3 || point.A1 { // our cascade validates reads, too
			built++
			_, most := e.run(scenarios.AllFour(), kinds...).Report.Points()
			if most == point {
				realised++
			}
		}
		for i := range anomaly.Lattice() {
			if set>>i&1 == 0 {
				covers++
			}
		}
		if point == levelPoint(point.Level()) {
			named++
			chain[point.Level()] = true
		}
	}
	return Result{
		Ours: fmt.Sprintf("%d points with a history that has the others; %d covers, %d chains, %d unnamed", witnesses,
			covers,
			factorial(len(anomaly.Lattice())), all+1-named),
		Baseline: fmt.Sprintf("runtimes composed for %d points leave exactly the complement in %d", built, realised),
		Verdict: holds(witnesses == all+1 && covers == 32 && factorial(len(anomaly.Lattice())) == 24 && all+1-named == 11 &&
			realised == built && len(chain) == 5)}, nil
}

func onePoint(k anomaly.Kind) anomaly.Point {
	return anomaly.Point{A1: k == anomaly.A1, A2: k == anomaly.A2, A3: k == anomaly.A3, A6: k == anomaly.A6}
}

// levelPoint is the point of a level of the chain.
func levelPoint(n int) anomaly.Point {
	return anomaly.Point{A1: n >= 1, A3: n >= 2, A6: n >= 3, A2: n >= 4}
}

func factorial(n int) int {
	if n < 2 {
		return 1
	}
	return n * factorial(n-1)
}

// lockedInEffect says whether no other agent wrote what an operation had read before it wrote, or wrote the same.
func lockedInEffect(records []trace.Record, i int) bool {
	r := &records[i]
	for _, cell := range r.ReadSet {
		for j := range records {
			w := &records[j]
			if w.TookEffect() && w.Agent != r.Agent && slices.Contains(w.WriteSet, cell) && r.ReadTime < w.WriteTime &&
				w.WriteTime < r.WriteTime && w.WriteValues[cell] != r.ReadValues[cell] {
				return false
			}
		}
	}
	return true
}

func lowerBound(_ context.Context, e *Env) (Result, error) {
	histories, free, violated, unlocked := 0, 0, 0, 0
	for s := range e.schedules() {
		r := e.run(s.Scenario(), runtimes.Vanilla)
		histories++
		all := true
		for i := range r.Records {
			all = all && (!r.Records[i].TookEffect() || lockedInEffect(r.Records, i))
		}
		switch {
		case !r.Has(anomaly.A1):
			free++
			if !all {
				violated++
			}
		case !all:
			unlocked++
		}
	}
	return Result{
		Ours:     fmt.Sprintf("%d of %d histories without A1 have an operation that was not", violated, free),
		Baseline: fmt.Sprintf("%d with A1, and all of these have one", unlocked),
		Verdict:  holds(violated == 0 && free > 0 && unlocked == histories-free && unlocked > 0)}, nil
}

// told are the certain findings of the four, and lost updates, as both sides can say them.
func told(report *anomaly.Report) (all []string) {
	for i := range report.Findings {
		f := &report.Findings[i]
		if f.Certain && (f.Kind == anomaly.A1 || f.Kind == anomaly.A6) {
			all = append(all, fmt.Sprint(f.Kind, " ", f.Records[0]+1))
		}
		if f.Kind == anomaly.A3 && f.Certain {
			all = append(all, fmt.Sprint("A3 ", f.Records[0]+1))
		}
		if f.Kind == anomaly.A3 && !f.Certain {
			all = append(all, fmt.Sprint("residue ", f.Records[0]+1))
		}
		if f.Kind == anomaly.A2 && f.Certain {
			all = append(all, fmt.Sprint("A2 ", f.Records[0]+1))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// toldByBrute is the same of the brute force.
func toldByBrute(a brute.Answer) (all []string) {
	for _, f := range a.Findings {
		first, _, _ := strings.Cut(f.Records, ",")
		switch name := ""; {
		case f.Sure == brute.Certain:
			switch f.Class {
			case brute.Stale:
				name = "A1"
			case brute.Phantom, brute.PhantomSignature:
				name = "A2"
			case brute.Cascade, brute.CascadeFar:
				name = "A3"
			case brute.Reordering:
				name = "A6"
			}
			if name != "" {
				all = append(all, name+" "+first)
			}
		case f.Class == brute.Residue && f.Sure == brute.Possible:
			all = append(all, "residue "+first)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func exact(_ context.Context, e *Env) (Result, error) {
	differ, bounded, drawn, found := 0, 0, e.of(400, 100_000), 0
	compare := func(records []trace.Record) {
		got := told(e.judge(records))
		found += len(got)
		if !slices.Equal(got, toldByBrute(brute.Judge(records))) {
			differ++
		}
	}
	for s := range e.schedules() {
		bounded++
		compare(e.run(s.Scenario(), runtimes.Vanilla).Records)
	}
	for i := range drawn {
		compare(brute.Random(e.Seed + uint64(i)))
	}
	return Result{
		Ours: fmt.Sprintf("%d differences in %d bounded and %d drawn histories", differ, bounded, drawn),
		Baseline: fmt.Sprintf("loops over all records, pairs and triples: %d findings of the four and of the residue "+
			"in them",
			found),
		Verdict: holds(differ == 0 && found > 0)}, nil
}

func embedded(_ context.Context, e *Env) (Result, error) {
	chance, runs, changed, found := e.chance("embedded"), e.of(200, 20_000), 0, 0
	for i := range runs {
		records := brute.Random(e.Seed + uint64(i))
		before := count(e.judge(records))
		more := slices.Clone(records)
		for k := range 3 { // idle agents on cells of their own
			at := records[chance.IntN(len(records))].WriteTime
			cell := fmt.Sprint("idle", k)
			more = append(more, trace.Record{Agent: fmt.Sprint("idler", k), ReadSet: []string{}, WriteSet: []string{cell},
				WriteValues: map[string]trace.Value{cell: trace.Text("v")}, ReadTime: at, WriteTime: at + 1})
		}
		after := count(e.judge(more))
		found += before
		if before != after {
			changed++
		}
	}
	return Result{Ours: fmt.Sprintf("%d of %d histories have other findings with idle agents, cells and slots", changed,
		runs),
		Baseline: fmt.Sprintf("%d findings without them", found),
		Verdict:  holds(changed == 0 && found > 0)}, nil
}

// count is how many findings are certain.
func count(r *anomaly.Report) (n int) {
	for i := range r.Findings {
		if r.Findings[i].Certain {
			n++
		}
	}
	return n
}

// placedRuns are the rows of where systems stand among the points.
func placedRuns() map[string]run { return map[string]run{"D63": placements} }

// system is one that the paper places, or a configuration of it, by what its description says that it guards.
type system struct {
	name   string
	guards []runtimes.Kind
	named  *anomaly.Point // where the paper's text puts it; nil: the text counts it without a name
}

// systems are five placements. What Atomix has in its weaker configurations is what its ablations leave.
func systems() []system {
	return []system{
		{"CodeCRDT", []runtimes.Kind{runtimes.Vanilla}, &anomaly.Point{}},
		{"SagaLLM", []runtimes.Kind{runtimes.Provenance}, &anomaly.Point{A3: true}},
		{"Atomix", []runtimes.Kind{runtimes.Serializable, runtimes.Provenance, runtimes.Sequencer},
			&anomaly.Point{A1: true, A3: true, A6: true}},
		{"Atomix without refusal of stale reads", []runtimes.Kind{runtimes.Provenance, runtimes.Sequencer}, nil},
		{"Atomix without scopes of reads", []runtimes.Kind{runtimes.Sequencer}, nil},
	}
}

// stands is the point at which a runtime of guards stands: what none of the scenarios shows under it.
func (e *Env) stands(kinds ...runtimes.Kind) anomaly.Point {
	at := complement(anomaly.Point{})
	for _, s := range append(scenarios.All(), scenarios.AllFour()) {
		at = at.And(complement(fired(e.run(s, kinds...))))
	}
	return at
}

// complement has the anomalies that a point has not.
func complement(p anomaly.Point) anomaly.Point {
	return anomaly.Point{A1: !p.A1, A2: !p.A2, A3: !p.A3, A6: !p.A6}
}

func placements(_ context.Context, e *Env) (Result, error) {
	ok, chain := true, 0
	var words []string
	var points []anomaly.Point
	for _, s := range systems() {
		passes := complement(anomaly.Point{})
		for _, kind := range s.guards {
			passes = passes.And(complement(kind.Excludes()))
		}
		at := e.stands(s.guards...)
		word := fmt.Sprintf("%s %v", s.name, at)
		if at == levelPoint(at.Level()) {
			chain, word = chain+1, word+fmt.Sprintf(" = L%d", at.Level())
		}
		ok = ok && at == complement(passes) && (s.named == nil || at == *s.named) && !slices.Contains(points, at) &&
			at.Level() < 4
		words, points = append(words, word), append(points, at)
	}
	strict := e.stands(runtimes.Provenance, runtimes.Saga)
	return Result{
		Ours: strings.Join(words, ", "),
		Baseline: fmt.Sprintf("%d points that differ, %d on the chain; with steps strictly in turn SagaLLM would "+
			"stand at %v", len(points), chain, strict),
		Verdict: holds(ok && chain == 2),
		Note: "none of these systems is run: each is a runtime of the guards that its description names, over all " +
			"scenarios, and the point is what none of them shows. The paper names three points and counts five; the other " +
			"two are ours, by the ablations of Atomix. A CRDT's convergence is no point of these"}, nil
}

// schedules are all that two operations of two agents can do to two cells, or some of them.
func (e *Env) schedules() iter.Seq[schedules.Schedule] {
	return func(yield func(schedules.Schedule) bool) {
		n, step := 0, e.of(67, 1)
		for s := range schedules.All(2, false) {
			if n++; n%step == 0 && !yield(s) {
				return
			}
		}
	}
}

// run runs steps under a runtime of kinds, and judges the history with the detectors that are the subject.
func (e *Env) run(s scenarios.Scenario, kinds ...runtimes.Kind) *scenarios.Result {
	r := scenarios.Run(s, e.Subject.Runtime(kinds...), scenarios.Options{})
	r.Report = e.judge(r.Records)
	return r
}

// judge is what the detectors find in a history.
func (e *Env) judge(records []trace.Record) *anomaly.Report {
	h := anomaly.NewHistory(0)
	for i := range records {
		if err := h.Add(records[i].Op(i + 1)); err != nil {
			panic("tables: " + err.Error()) // two operations of one name
		}
	}
	return e.Subject.Check(h)
}

// fires are those of the four that some schedule has under a runtime, and how many schedules were run.
func (e *Env) fires(kinds ...runtimes.Kind) (point anomaly.Point, n int) {
	for s := range e.schedules() {
		n++
		point = point.Or(fired(e.run(s.Scenario(), kinds...)))
	}
	return point, n
}

// fired are those of the four that a run has.
func fired(r *scenarios.Result) anomaly.Point {
	return anomaly.Point{A1: r.Has(anomaly.A1), A2: r.Has(anomaly.A2), A3: r.Has(anomaly.A3), A6: r.Has(anomaly.A6)}
}
