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
	"github.com/hence-dev/hence/cmd/hence/internal/costlaw"
	"github.com/hence-dev/hence/cmd/hence/internal/runtimes"
	"github.com/hence-dev/hence/topology/trace"
)

// stint is one operation of a session whose time is virtual: an agent reads a cell, generates, and commits a cell.
type stint struct {
	agent, reads, writes string  // cells; empty: none
	after                string  // the agent whose stint must be over before this one begins; empty: none
	pause                float64 // seconds until it begins then
}

// stints are a workload, with its times drawn.
func stints(workload string, chance *rand.Rand) []stint {
	switch workload {
	case "edit-review":
		return []stint{{agent: "editor", reads: "doc", writes: "doc"}, {agent: "reviewer", reads: "doc", writes: "verdict"}}
	case "plan-execute":
		return []stint{{agent: "planner", writes: "plan"},
			{agent: "executor", reads: "plan", writes: "result", after: "planner"}}
	}
	// When the ticket is amended is drawn: before it is triaged, meanwhile, or after that.
	return []stint{{agent: "reporter", writes: "ticket"}, {agent: "triager", reads: "ticket", after: "reporter"},
		{agent: "amender", writes: "ticket", pause: 3 * typical * chance.Float64()}}
}

// typical is how long a generation of 100 tokens takes in the middle, in seconds.
const typical = 2.0

// spread is how much generations of one size differ: that of the logarithm of their time, as an API's.
const spread = .3

// generation draws one call of a scripted model: 80 to 120 tokens, and a time for these.
func generation(seed uint64, stint, attempt int) (tokens int, seconds float64) {
	draw := rand.New(rand.NewPCG(seed, uint64(stint)<<32|uint64(attempt)))
	tokens = 80 + draw.IntN(41)
	return tokens, typical * float64(tokens) / 100 * math.Exp(spread*draw.NormFloat64())
}

// bill is what a session came to.
type bill struct {
	tokens, generations, aborted int
	seconds                      float64 // until its last stint was over
	busy                         float64 // sum of the times of its generations
}

// running is a stint that is on its way.
type running struct {
	stint
	place   int // among the stints
	op      *runtimes.Op
	attempt int
	at      float64 // when it begins, or when its generation ends; infinite: it waits for locks
	over    bool
}

// maxAttempts is how often a stint is tried before a session counts as stuck.
const maxAttempts = 1000

// play runs a session under a runtime: the next thing that happens is the one whose time comes first. A stint that is
// refused begins again at once and generates again; refuse says which commits are given up before the runtime is
// asked.
func play(r *runtimes.Runtime, all []stint, seed uint64, refuse func() bool) (bill, error) {
	var out bill
	ends := map[string]float64{} // by agent
	var left []*running
	for i, d := range all {
		one := &running{stint: d, place: i, at: d.pause}
		if d.after != "" {
			one.at = math.Inf(1)
		}
		left = append(left, one)
	}
	for len(left) > 0 {
		next := slices.MinFunc(left, func(a, b *running) int { return cmp.Compare(a.at, b.at) }) // the first of equals
		now := next.at
		if math.IsInf(now, 1) || next.attempt > maxAttempts {
			return out, fmt.Errorf("the %s of a session is not done after %d attempts", next.agent, next.attempt)
		}
		switch {
		case next.op == nil:
			next.begin(r)
		case refuse():
			next.op.GiveUp()
			next.op, out.aborted = nil, out.aborted+1
		default:
			if next.writes != "" {
				next.op.Write(next.writes, trace.Text(next.agent))
			}
			if next.over = next.op.Commit() == runtimes.Committed; !next.over {
				next.op, out.aborted = nil, out.aborted+1
			}
		}
		if next.over {
			ends[next.agent], out.seconds = now, now
		}
		left = slices.DeleteFunc(left, func(one *running) bool { return one.over })
		for _, one := range left {
			if end, is := ends[one.after]; is && one.op == nil && math.IsInf(one.at, 1) {
				one.at = end + one.pause
			}
			if one.op != nil && math.IsInf(one.at, 1) {
				out.generate(one, now, seed)
			}
		}
	}
	return out, nil
}

// begin asks the runtime to begin the stint.
func (d *running) begin(r *runtimes.Runtime) {
	b := runtimes.Begin{Name: fmt.Sprintf("%s-%d", d.agent, d.attempt), Agent: d.agent}
	if d.reads != "" {
		b.Reads = []string{d.reads}
	}
	d.op, d.attempt = r.Begin(b), d.attempt+1
	d.at = math.Inf(1)
}

// generate starts the generation of a stint that could begin.
func (b *bill) generate(d *running, now float64, seed uint64) {
	if state, _ := d.op.State(); state != runtimes.Open {
		return
	}
	tokens, seconds := generation(seed, d.place, d.attempt)
	b.tokens, b.generations, b.busy = b.tokens+tokens, b.generations+1, b.busy+seconds
	d.at = now + seconds
}

// never gives no commit up.
func never() bool { return false }

// guard is a runtime that sessions are run under, with the share of commits that are given up without a reason.
type guard struct {
	kind     runtimes.Kind
	injected float64
}

// name is what reports call the guard.
func (g guard) name() string {
	return map[runtimes.Kind]string{runtimes.Vanilla: "no guard", runtimes.PessimisticWait: "locks",
		runtimes.Snapshot: "reads of writers validated", runtimes.Serializable: "all reads validated"}[g.kind]
}

// bills runs so many sessions of a workload under a guard. Sessions of one number have the same times of stints under
// each guard; with one noise they have the same generations too.
func (e *Env) bills(workload string, g guard, n int, noise string) ([]bill, error) {
	times, draws := e.chance(workload), e.chance(workload+noise)
	inject := e.chance(workload + noise + "injected")
	all := make([]bill, n)
	for i := range all {
		var err error
		all[i], err = play(e.Subject.Runtime(g.kind), stints(workload, times), draws.Uint64(), func() bool {
			return inject.Float64() < g.injected
		})
		if err != nil {
			return nil, fmt.Errorf("%s with %s: %w", workload, g.name(), err)
		}
	}
	return all, nil
}

// sessionRuns are the rows of what sessions cost under each guard, in tokens and in time.
func sessionRuns() map[string]run {
	return map[string]run{"D31": costOfSessions, "D34": locksCostTime, "D43": injectedAborts, "D45": pairedTests}
}

// ratios are what sessions cost beside the same without a guard: the mean ratios of tokens and of time, with the half
// widths of their intervals.
type ratios struct{ tokens, aroundTokens, time, aroundTime float64 }

func (r ratios) String() string {
	return fmt.Sprintf("%.2f ± %.2f and %.2f ± %.2f", r.tokens, r.aroundTokens, r.time, r.aroundTime)
}

// besideBare are the ratios of sessions in pairs.
func besideBare(with, without []bill) (r ratios) {
	var tokens, times []float64
	for i, b := range with {
		tokens = append(tokens, float64(b.tokens)/float64(without[i].tokens))
		times = append(times, b.seconds/without[i].seconds)
	}
	r.tokens, r.aroundTokens = mean(tokens)
	r.time, r.aroundTime = mean(times)
	return r
}

func costOfSessions(_ context.Context, e *Env) (Result, error) {
	const mostTokens, mostTime = 1.6, 2.3 // the paper's bounds
	n, locked := e.of(75, 2_000), map[string]ratios{}
	ok, dearest := true, ratios{}
	var words []string
	for _, kind := range []runtimes.Kind{runtimes.PessimisticWait, runtimes.Snapshot, runtimes.Serializable} {
		var each []string
		for _, w := range sessions() {
			without, err := e.bills(w, guard{kind: runtimes.Vanilla}, n, "")
			if err != nil {
				return Result{}, err
			}
			with, err := e.bills(w, guard{kind: kind}, n, "")
			if err != nil {
				return Result{}, err
			}
			r := besideBare(with, without)
			ok = ok && r.tokens+r.aroundTokens <= mostTokens && r.time+r.aroundTime <= mostTime
			dearest.tokens, dearest.time = max(dearest.tokens, r.tokens), max(dearest.time, r.time)
			if each = append(each, w+" "+r.String()); kind == runtimes.PessimisticWait {
				locked[w] = r
			}
		}
		words = append(words, guard{kind: kind}.name()+": "+strings.Join(each, ", "))
	}
	edit, plan, triage := locked["edit-review"], locked["plan-execute"], locked["triage"]
	triageAlone := triage.tokens-triage.aroundTokens > 1 && edit.tokens == 1 && plan.tokens == 1 && plan.time == 1
	return Result{
		Ours: fmt.Sprintf("at most %.2f times the tokens and %.2f times the time; with locks triage alone costs tokens: %v",
			dearest.tokens, dearest.time, triageAlone),
		Baseline: fmt.Sprintf("tokens and time of %d sessions each, beside the same without a guard: %s", n,
			strings.Join(words, "; ")),
		Verdict: holds(ok && triageAlone),
		Note: "tokens and virtual times of a scripted model, no dollars. What is refused is generated again until it is " +
			"committed, so validated reads cost a generation wherever the editor is before the reviewer, where the " +
			"paper's cost nothing: its sessions end with the refusal"}, nil
}

// onCells is agents that at once each read one of several cells, generate, and commit it.
func onCells(agents, cells int) (all []stint) {
	for i := range agents {
		cell := fmt.Sprint("cell", i%cells)
		all = append(all, stint{agent: fmt.Sprint("agent", i), reads: cell, writes: cell})
	}
	return all
}

func locksCostTime(_ context.Context, e *Env) (Result, error) {
	const agents, several = 16, 4
	n, seeds := e.of(20, 1_000), e.chance("locks cost time")
	ok := true
	var words, others []string
	for _, cells := range []int{1, 4, agents} {
		var all [3][]bill
		for range n {
			seed := seeds.Uint64()
			for i, kind := range []runtimes.Kind{runtimes.Vanilla, runtimes.PessimisticWait, runtimes.Snapshot} {
				got, err := play(e.Subject.Runtime(kind), onCells(agents, cells), seed, never)
				if err != nil {
					return Result{}, err
				}
				all[i] = append(all[i], got)
			}
		}
		locks, validated := besideBare(all[1], all[0]), besideBare(all[2], all[0])
		ok = ok && math.Abs(locks.tokens-1) <= .01 && (cells > 1 || locks.time-locks.aroundTime >= several)
		words = append(words, fmt.Sprintf("%d on a cell %v", agents/cells, locks))
		others = append(others, validated.String())
	}
	return Result{
		Ours: fmt.Sprintf("%d agents at once under locks, tokens and time beside no guard: %s", agents,
			strings.Join(words, ", ")),
		Baseline: "the same with the reads of writers validated: " + strings.Join(others, ", "),
		Verdict:  holds(ok),
		Note: "virtual times: locks let the generations of one cell run one after the other, so on one cell it is the sum " +
			"of all beside the longest. Whose reads are validated generates again at once when it is refused, which costs " +
			"tokens in place of time"}, nil
}

// injected are the guards of the paper's measurement of time: each with the share of commits that it gives up.
func injected() []guard {
	return []guard{{runtimes.PessimisticWait, .2}, {runtimes.Snapshot, .05}}
}

func injectedAborts(_ context.Context, e *Env) (Result, error) {
	const all = 2.64 // as normal, of each of six intervals that hold together with 95 %
	n := e.of(60, 2_000)
	ok, made, cells, overlapping, most := true, 0.0, 0, 0, 0.0
	var words, noise []string
	for _, w := range sessions() {
		bare, err := e.bills(w, guard{kind: runtimes.Vanilla}, n, "bare")
		if err != nil {
			return Result{}, err
		}
		least, around := mean(seconds(bare))
		noise = append(noise, fmt.Sprintf("%s %s ± %s s", w, digits(least), digits(around)))
		for _, g := range injected() {
			with, err := e.bills(w, g, n, g.name())
			if err != nil {
				return Result{}, err
			}
			without, err := e.bills(w, guard{kind: g.kind}, n, g.name())
			if err != nil {
				return Result{}, err
			}
			var aborts, generations, busy float64
			for i := range with {
				aborts += float64(with[i].aborted-without[i].aborted) / float64(n)
				generations, busy = generations+float64(without[i].generations), busy+without[i].busy
			}
			lasts := busy / generations
			var more, rest []float64 // rest: beyond aborts × generation
			for i := range with {
				more = append(more, with[i].busy-without[i].busy)
				rest = append(rest, more[i]-float64(with[i].aborted-without[i].aborted)*lasts)
			}
			got, _ := mean(more)
			beyond, half := mean(rest)
			ok, made = ok && math.Abs(beyond) <= half*all/normal, made+aborts
			time, wide := mean(seconds(with))
			if time-wide <= least+around && least-around <= time+wide {
				overlapping++
			}
			cells++
			alone, _ := mean(seconds(without))
			most = max(most, 100*(time/alone-1))
			words = append(words, fmt.Sprintf("%s, %s: %s ± %s s for %s aborts of %s s", w, g.name(), digits(got),
				digits(half), digits(aborts), digits(lasts)))
		}
	}
	return Result{
		Ours: fmt.Sprintf("generating again takes aborts × generation in all %d cells: %v; a session takes up to %s %% "+
			"longer", cells, ok, digits(most)),
		Baseline: fmt.Sprintf("without a guard %s; %s intervals of time overlap with it", strings.Join(noise, ", "),
			of(overlapping, cells)),
		Verdict: holds(ok && made > 0),
		Note: fmt.Sprintf("virtual times with the spread of an API, %d sessions in each cell; per session: %s. A "+
			"generation again is as long as a first one, which the paper's is not; the aborts are injected, they are no "+
			"conflicts", n, strings.Join(words, "; "))}, nil
}

// seconds are the times of sessions.
func seconds(all []bill) (times []float64) {
	for _, b := range all {
		times = append(times, b.seconds)
	}
	return times
}

// tokenTest is one of the tests in pairs.
type tokenTest struct {
	name        string
	differences []float64
	refused     int
	vanilla     float64 // mean tokens without a guard
}

// cellsOfTokens are the tests of tokens: two guards by three workloads, in pairs of one seed with generations of their
// own.
func (e *Env) cellsOfTokens(n int) (all []tokenTest, err error) {
	for _, w := range sessions() {
		bare, err := e.bills(w, guard{kind: runtimes.Vanilla}, n, "bare")
		if err != nil {
			return nil, err
		}
		for _, g := range injected() {
			g.injected = 0
			with, err := e.bills(w, g, n, "with"+g.name())
			if err != nil {
				return nil, err
			}
			one := tokenTest{name: g.name() + " in " + w}
			for i, b := range with {
				one.differences = append(one.differences, float64(b.tokens-bare[i].tokens))
				one.vanilla += float64(bare[i].tokens) / float64(n)
				one.refused += b.aborted
			}
			all = append(all, one)
		}
	}
	return all, nil
}

func pairedTests(_ context.Context, e *Env) (Result, error) {
	const level, margin = .05, .1
	n := e.of(60, 300)
	cells, err := e.cellsOfTokens(n)
	if err != nil {
		return Result{}, err
	}
	var chances []float64
	for _, c := range cells {
		chances = append(chances, differs(c.differences))
	}
	found := holm(chances, level)
	var words []string
	right, differing, nulls, named := 0, 0, 0, 0
	for i, c := range cells {
		same := equivalent(c.differences, margin*c.vanilla) <= level
		m, half := mean(c.differences)
		words = append(words, fmt.Sprintf("%s: %s ± %s tokens, p %s, least that is found %s", c.name, digits(m),
			digits(half), digits(chances[i]), digits(detectable(c.differences))))
		if chances[i] <= level {
			named++
		}
		if found[i] {
			differing++
		}
		if same {
			nulls++
		}
		if c.refused > 0 && found[i] && !same || c.refused == 0 && !found[i] && same {
			right++
		}
	}
	slices.SortFunc(words, cmp.Compare)
	return Result{
		Ours: fmt.Sprintf("of %d tests %d differences after Holm's correction and %d equivalent at ±%s %%; as what was "+
			"refused says: %s", len(cells), differing, nulls, digits(100*margin), of(right, len(cells))),
		Baseline: fmt.Sprintf("without the correction %d differences", named),
		Verdict:  holds(right == len(cells) && differing > 0 && nulls > 0),
		Note: fmt.Sprintf("%d pairs each, exact tests of signed ranks: %s", n, strings.Join(words, "; ")) +
			". The paper's two differences are of aborts that were injected, ours of what the guards refuse"}, nil
}

// paired are sessions of all shapes on Hence, each beside the same one without guards. Wrong are those that are not
// what the law is about: where a commit was refused the unguarded session has an A1, and else it has none; and Hence
// refuses what a runtime that validates every read refuses, whose sessions have none.
func (e *Env) paired(ctx context.Context) (all []costlaw.Point, wrong int, err error) {
	most := 0
	for _, s := range costlaw.Shapes() {
		most = max(most, s.Agents)
	}
	place, err := e.Ground.Workspace(ctx, 1, most, "")
	if err != nil {
		return nil, 0, err
	}
	return measured(ctx, e.of(2, 20), func(s costlaw.Shape, seed uint64) costlaw.Store {
		return costlaw.NewHence(place.Agents, fmt.Sprintf("price/w%d-c%d-s%d", s.Agents, s.Cells, seed))
	}, costlaw.Own)
}

// measured are the pairs of any store.
func measured(ctx context.Context, seeds int, open func(costlaw.Shape, uint64) costlaw.Store, redo costlaw.Redo,
) (all []costlaw.Point, wrong int, err error) {
	all, err = costlaw.Measure(ctx, costlaw.Shapes(), seeds, redo,
		func(s costlaw.Shape, seed uint64) (costlaw.Store, error) { return open(s, seed), nil })
	if err != nil {
		return nil, 0, fmt.Errorf("measure sessions in pairs: %w", err)
	}
	for _, p := range all {
		bare, model := costlaw.NewRuntime(runtimes.Vanilla), costlaw.NewRuntime(runtimes.Serializable)
		if _, err := costlaw.Run(ctx, bare, p.Shape, p.Seed, costlaw.Own); err != nil {
			return nil, 0, fmt.Errorf("run without guards: %w", err)
		}
		spent, err := costlaw.Run(ctx, model, p.Shape, p.Seed, costlaw.Own)
		if err != nil {
			return nil, 0, fmt.Errorf("run with validated reads: %w", err)
		}
		refused := float64(spent.Aborted) / float64(spent.Operations)
		if bare.Stale() != (p.Aborts > 0) || model.Stale() || refused != p.Aborts {
			wrong++
		}
	}
	return all, wrong, nil
}

// within says whether an interval has a value.
func within(low, value, high float64) bool { return low <= value && value <= high }

// lawful says whether a fit is overhead = aborts: one generation is spent again for each refusal, and nothing else.
func lawful(f costlaw.Fit) bool {
	return within(f.InterceptLow, 0, f.InterceptHigh) && within(f.SlopeLow, 1, f.SlopeHigh)
}

// sweep are the points of one cell, or of several.
func sweep(all []costlaw.Point, one bool) (part []costlaw.Point) {
	for _, p := range all {
		if (p.Cells == 1) == one {
			part = append(part, p)
		}
	}
	return part
}

// law judges points: one line for all of them, and for each sweep the same.
func law(all []costlaw.Point, wrong int) Result {
	fit := costlaw.Fitted(all)
	agents, cells := costlaw.Fitted(sweep(all, true)), costlaw.Fitted(sweep(all, false))
	oneLine := agents.SlopeLow <= cells.SlopeHigh && cells.SlopeLow <= agents.SlopeHigh
	x, y := make([]float64, len(all)), make([]float64, len(all))
	for i, p := range all {
		x[i], y[i] = p.Aborts, p.Overhead
	}
	return Result{
		Ours: fmt.Sprintf("%.1f %% (%.1f to %.1f) + %.0f %% (%.0f to %.0f) · a, R² %.3f, over %d pairs",
			100*fit.Intercept, 100*fit.InterceptLow, 100*fit.InterceptHigh, 100*fit.Slope, 100*fit.SlopeLow,
			100*fit.SlopeHigh, fit.R2, fit.Points),
		Baseline: fmt.Sprintf("slope by agents %.0f %%, by cells %.0f %%; %d sessions are not as a runtime's that "+
			"validates reads", 100*agents.Slope, 100*cells.Slope, wrong),
		Verdict: holds(wrong == 0 && lawful(fit) && oneLine),
		Note: "generations of a scripted reader, of one size before and after a refusal: so the slope is one, and the " +
			"paper's is more by what a second prompt is longer",
		Plots: []report.Plot{{Title: "overhead by rate of aborts", Lines: []report.Line{{Name: "pairs", X: x, Y: y}}}}}
}

func costLaw(ctx context.Context, e *Env) (Result, error) {
	all, wrong, err := e.paired(ctx)
	if err != nil {
		return Result{}, err
	}
	return law(all, wrong), nil
}

// crossing judges where the overhead is a given share: by the fit, and by each shape's mean.
func crossing(all []costlaw.Point, wrong int) Result {
	const share, low = .15, .13 // low is the lower end of the paper's interval
	fit := costlaw.Fitted(all)
	at := (share - fit.Intercept) / fit.Slope
	apart, shapes := 0, costlaw.Shapes()
	least, of := costlaw.Point{Aborts: 1, Overhead: 1}, 0
	for _, shape := range shapes {
		var mean costlaw.Point
		n := 0.0
		for _, p := range all {
			if p.Shape == shape {
				mean.Aborts, mean.Overhead, n = mean.Aborts+p.Aborts, mean.Overhead+p.Overhead, n+1
			}
		}
		mean.Aborts, mean.Overhead = mean.Aborts/n, mean.Overhead/n
		if (mean.Aborts < at) != (mean.Overhead < share) {
			apart++
		}
		if mean.Aborts < at {
			of++
		}
		if mean.Aborts < least.Aborts {
			least = mean
		}
	}
	return Result{
		Ours: fmt.Sprintf("under %.0f %% up to %.3f; lowest rate %.3f, overhead %.1f %%", 100*share, at, least.Aborts,
			100*least.Overhead),
		Baseline: fmt.Sprintf("%d of %d shapes lie below, %d on another side than the fit says", of, len(shapes), apart),
		Verdict:  holds(wrong == 0 && apart == 0 && at >= low),
		Note:     "a prompt after a refusal is as long as before, which the paper's is not"}
}

func priceUnder(ctx context.Context, e *Env) (Result, error) {
	all, wrong, err := e.paired(ctx)
	if err != nil {
		return Result{}, err
	}
	return crossing(all, wrong), nil
}

// mean is the mean of values, with the half width of its interval of 95 % by the normal distribution.
func mean(values []float64) (m, around float64) {
	n := float64(len(values))
	for _, v := range values {
		m += v
	}
	m /= n // at the end, so that the mean of equal ones is just that
	return m, normal * deviation(values, m) / math.Sqrt(n)
}

// deviation is the standard deviation of a sample with a mean.
func deviation(values []float64, mean float64) float64 {
	rest := 0.0
	for _, v := range values {
		rest += (v - mean) * (v - mean)
	}
	return math.Sqrt(rest / max(1, float64(len(values))-1))
}

// detectable is the smallest mean difference that a test of such pairs finds with a chance of 80 %.
func detectable(differences []float64) float64 {
	_, around := mean(differences)
	return (normal + power) / normal * around
}

// signedRank is the exact test of Wilcoxon over paired differences: the chance, were signs drawn by a coin, that the
// ranks of the positive ones sum to as much as they do or more (above), and to as little or less. Differences of zero
// are left out, equal ones share their rank.
func signedRank(differences []float64) (above, below float64) {
	d := slices.DeleteFunc(slices.Clone(differences), func(v float64) bool { return v == 0 })
	slices.SortFunc(d, func(a, b float64) int { return cmp.Compare(math.Abs(a), math.Abs(b)) })
	most, sum := len(d)*(len(d)+1), 0 // ranks count twice, so that shared ones are whole
	chance := make([]float64, most+1) // of each sum
	chance[0] = 1
	for from := 0; from < len(d); {
		to := from
		for to < len(d) && math.Abs(d[to]) == math.Abs(d[from]) {
			to++
		}
		rank := from + 1 + to
		for _, v := range d[from:to] {
			if v > 0 {
				sum += rank
			}
			for s := most; s >= 0; s-- {
				chance[s] /= 2
				if s >= rank {
					chance[s] += chance[s-rank] / 2
				}
			}
		}
		from = to
	}
	for s, p := range chance {
		if s >= sum {
			above += p
		}
		if s <= sum {
			below += p
		}
	}
	return min(1, above), min(1, below)
}

// differs is the two-sided chance of paired differences that are none.
func differs(differences []float64) float64 {
	above, below := signedRank(differences)
	return min(1, 2*min(above, below))
}

// equivalent is the chance of two one-sided tests that the differences lie beyond a margin on either side.
func equivalent(differences []float64, margin float64) float64 {
	higher, lower := slices.Clone(differences), slices.Clone(differences)
	for i := range differences {
		higher[i] += margin
		lower[i] -= margin
	}
	above, _ := signedRank(higher)
	_, below := signedRank(lower)
	return max(above, below)
}

// holm says which of several tests hold at a level for all of them together: the least chance is held to the level
// shared by all, the next to that shared by one less, until one fails.
func holm(chances []float64, level float64) []bool {
	order := positions(len(chances))
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(chances[a], chances[b]) })
	found := make([]bool, len(chances))
	for i, at := range order {
		if chances[at] > level/float64(len(chances)-i) {
			break
		}
		found[at] = true
	}
	return found
}
