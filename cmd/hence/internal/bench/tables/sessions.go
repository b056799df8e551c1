package tables

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

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
