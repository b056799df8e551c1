package tables

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/report"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/topology/pause"
)

// atomixRuns are the rows of Atomix: the same agents on Hence through its HTTP API, and on the stores and locks that
// the paper compares with, which really run.
func atomixRuns() map[string]run {
	return map[string]run{"A08": oneAtATime, "A09": disjoint, "A10": thinking, "A11": refusals, "A12": waiting,
		"A13": ablated,
		"A18": bank, "A33": stalled, "A39": late, "A42": hung}
}

// memory is a store in this process with the guards of the baselines.
type memory struct {
	mu      sync.Mutex
	values  map[string]string
	version map[string]int
	locks   map[string]*sync.Mutex
	order   []string // all values that were written
}

func newMemory() *memory {
	return &memory{values: map[string]string{}, version: map[string]int{}, locks: map[string]*sync.Mutex{}}
}

func (m *memory) lock(name string) *sync.Mutex {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.locks[name] == nil {
		m.locks[name] = new(sync.Mutex)
	}
	return m.locks[name]
}

func (m *memory) read(cells []string) (values map[string]string, versions map[string]int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	values, versions = map[string]string{}, map[string]int{}
	for _, c := range cells {
		values[c], versions[c] = m.values[c], m.version[c]
	}
	return values, versions
}

// write writes, if what was read still stands; nil versions: without looking.
func (m *memory) write(writes map[string]string, read map[string]int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for c, v := range read {
		if m.version[c] != v {
			return false
		}
	}
	for c, v := range writes {
		m.values[c] = v
		m.version[c]++
		m.order = append(m.order, v)
	}
	return true
}

// job is one piece of work: it reads cells, thinks, and decides by what it read what to write; nothing: it is done.
type job struct {
	cells  []string
	think  time.Duration
	decide func(read map[string]string) (writes map[string]string)
}

// done is what a job took.
type done struct {
	waited  time.Duration // for a lock, or beyond thinking
	refused int
	wounded int // of the refused: an older transaction took what this one held
	wrote   bool
	seq     uint64 // of the commit, on Hence
}

// way does a job.
type way func(context.Context, int, job) (done, error)

// none does it without any control.
func (m *memory) none(ctx context.Context, _ int, j job) (done, error) {
	values, _ := m.read(j.cells)
	if err := pause.Sleep(ctx, j.think); err != nil {
		return done{}, err
	}
	writes := j.decide(values)
	return done{wrote: m.write(writes, nil) && len(writes) > 0}, nil
}

// locked does it under a lock that is held from the read to the write: one for all, or one for the first cell.
func (m *memory) locked(global bool) way {
	return func(ctx context.Context, n int, j job) (done, error) {
		name := ""
		if !global {
			name = j.cells[0]
		}
		lock, began := m.lock(name), time.Now()
		lock.Lock()
		defer lock.Unlock()
		waited := time.Since(began)
		out, err := m.none(ctx, n, j)
		out.waited = waited
		return out, err
	}
}

// optimistic does it with a check of all reads at the write, and again at most so often.
func (m *memory) optimistic(tries int) way {
	return func(ctx context.Context, _ int, j job) (out done, err error) {
		for range tries {
			values, versions := m.read(j.cells)
			if err := pause.Sleep(ctx, j.think); err != nil {
				return out, err
			}
			writes := j.decide(values)
			if m.write(writes, versions) {
				out.wrote = len(writes) > 0
				return out, nil
			}
			out.refused++
		}
		return out, nil
	}
}

// seat is agents on Hence, each with a transaction for a job.
type seat struct {
	agents []*client.Client
	begin  client.BeginOptions
	update bool // reads are for update
	blind  bool // reads are not announced
}

// do does a job until it is committed.
func (s seat) do(ctx context.Context, n int, j job) (out done, err error) {
	began, thought := time.Now(), time.Duration(0)
	for ; ; out.refused++ {
		tx, err := s.agents[n%len(s.agents)].Begin(ctx, s.begin)
		values := map[string]string{}
		for _, cell := range j.cells {
			if err == nil {
				values[cell], err = s.read(ctx, tx, n, cell)
			}
		}
		if err == nil {
			err = pause.Sleep(ctx, j.think)
			thought += j.think
		}
		writes := map[string]string{}
		if err == nil {
			writes = j.decide(values)
		}
		for cell, value := range writes {
			if err == nil {
				err = tx.Write(ctx, scope(cell), []byte(value), client.WriteOptions{})
			}
		}
		var d client.Decision
		if err == nil {
			d, err = tx.Seal(ctx)
		}
		p := (*client.Problem)(nil)
		if errors.As(err, &p) {
			d.Code = p.Code
		}
		if d.Code == string(sequencer.CodeWounded) {
			out.wounded++
		}
		if p != nil && (p.Retryable || p.Code == string(sequencer.CodeStaleRead)) ||
			err == nil && d.State != api.StateCommitted && d.Retryable {
			continue
		}
		if err == nil && d.State != api.StateCommitted {
			err = fmt.Errorf("a job is %s: %s", d.State, d.Code)
		}
		out.waited, out.wrote, out.seq = time.Since(began)-thought, len(writes) > 0, d.Seq
		return out, err
	}
}

func (s seat) read(ctx context.Context, tx *client.Tx, n int, cell string) (string, error) {
	var got client.Shard
	var err error
	switch {
	case s.blind:
		got, err = s.agents[n%len(s.agents)].Look(ctx, scope(cell))
	case s.update:
		got, err = tx.ReadForUpdate(ctx, scope(cell))
	default:
		got, err = tx.Read(ctx, scope(cell))
	}
	return string(got.Content), err
}

func scope(cell string) string { return "shard:/" + cell }

// sum is what rounds of jobs came to.
type sum struct {
	rounds, extra, refused, broken int
	wounded                        int // of the refused
	waited                         time.Duration
}

// wait is milliseconds a job.
func (s sum) wait(jobs int) string {
	return digits(float64(s.waited.Microseconds()) / 1000 / float64(max(1, jobs*s.rounds)))
}

// onOneOrder lets agents cancel one order or change its address, all at once, in rounds. Each acts only on an order
// that is untouched, so more than one action is a violation.
func onOneOrder(ctx context.Context, run string, agents, rounds int, think time.Duration, w way) (out sum, err error) {
	for k := range rounds {
		status, address := fmt.Sprintf("%s/%d/status", run, k), fmt.Sprintf("%s/%d/address", run, k)
		acted := 0
		var mu sync.Mutex
		err := together(agents, func(i int) error {
			got, err := w(ctx, i, job{cells: []string{status, address}, think: think,
				decide: func(read map[string]string) map[string]string {
					if read[status] != "" || read[address] != "" {
						return nil
					}
					if i%2 == 0 {
						return map[string]string{status: fmt.Sprint("cancelled by ", i)}
					}
					return map[string]string{address: fmt.Sprint("changed by ", i)}
				}})
			mu.Lock()
			defer mu.Unlock()
			out.refused, out.waited = out.refused+got.refused, out.waited+got.waited
			out.wounded += got.wounded
			if got.wrote {
				acted++
			}
			return err
		})
		if err != nil {
			return out, err
		}
		out.rounds++
		out.extra += acted - 1
		if acted != 1 {
			out.broken++
		}
	}
	return out, nil
}

// seats are the ways of Hence for so many agents.
func (e *Env) seats(ctx context.Context, agents int, all ...seat) ([]way, error) {
	place, err := e.Ground.Workspace(ctx, 1, agents, "")
	if err != nil {
		return nil, err
	}
	var ways []way
	for _, s := range all {
		s.agents = place.Agents
		ways = append(ways, s.do)
	}
	return ways, nil
}

// thought is how long agents think in a row: less for a look.
func (e *Env) thought(full time.Duration) time.Duration {
	if e.Full {
		return full
	}
	return 20 * time.Millisecond
}

// onOrder runs the workload on Hence in two modes, and on the baselines.
func (e *Env) onOrder(ctx context.Context, agents, rounds int, think time.Duration) (ours, theirs []sum, err error) {
	ways, err := e.seats(ctx, agents, seat{}, seat{begin: client.BeginOptions{Mode: "locked"}, update: true})
	if err != nil {
		return nil, nil, err
	}
	for i, w := range ways {
		got, err := onOneOrder(ctx, fmt.Sprint("orders-", i), agents, rounds, think, w)
		if err != nil {
			return nil, nil, err
		}
		ours = append(ours, got)
	}
	m := newMemory()
	for i, w := range []way{m.none, m.locked(true), m.optimistic(1), m.optimistic(100)} {
		got, err := onOneOrder(ctx, fmt.Sprint("orders-", i), agents, rounds, think, w)
		if err != nil {
			return nil, nil, err
		}
		theirs = append(theirs, got)
	}
	return ours, theirs, nil
}

func oneAtATime(ctx context.Context, e *Env) (Result, error) {
	const agents = 4
	ours, theirs, err := e.onOrder(ctx, agents, e.of(3, 100), e.thought(75*time.Millisecond))
	if err != nil {
		return Result{}, err
	}
	return Result{
		Ours: fmt.Sprintf("optimistic %d violations in %d rounds, %d refused; locked %d, %d refused, %s ms wait",
			ours[0].extra, ours[0].rounds, ours[0].refused, ours[1].extra, ours[1].refused, ours[1].wait(agents)),
		Baseline: fmt.Sprintf("no control %d; one lock %d, %s ms wait; optimistic store %d, %d refused", theirs[0].extra,
			theirs[1].extra, theirs[1].wait(agents), theirs[3].extra, theirs[3].refused),
		Verdict: holds(ours[0].extra == 0 && ours[1].extra == 0 && ours[0].rounds > 0 && theirs[0].extra > 0 &&
			theirs[1].extra == 0 && theirs[3].extra == 0),
		Note: "neither wait nor refusals at full overlap cannot be: the paper's pair comes from a lock that its " +
			"figures do not " +
			"count, so both are printed"}, nil
}

// byAgents runs the workload with four and with eight agents that think long. Say tells of each whether it is as it
// should be, and a word of ours and of the baselines.
func (e *Env) byAgents(ctx context.Context, say func(agents, rounds int, ours, theirs []sum) (bool, string, string)) (
	ok bool, words, others []string, err error,
) {
	ok = true
	for _, agents := range []int{4, 8} {
		rounds := e.of(2, 30)
		ours, theirs, err := e.onOrder(ctx, agents, rounds, e.thought(700*time.Millisecond))
		if err != nil {
			return false, nil, nil, err
		}
		right, word, other := say(agents, rounds, ours, theirs)
		ok, words, others = ok && right, append(words, word), append(others, other)
	}
	return ok, words, others, nil
}

func thinking(ctx context.Context, e *Env) (Result, error) {
	ok, words, others, err := e.byAgents(ctx, func(agents, rounds int, ours, theirs []sum) (bool, string, string) {
		extra := ours[0].extra + ours[1].extra
		return extra == 0 && theirs[0].extra == rounds*(agents-1), fmt.Sprintf("%d agents %d", agents, extra),
			fmt.Sprintf("%d agents %s a run", agents, digits(float64(theirs[0].extra)/float64(rounds)))
	})
	return Result{Ours: "violations: " + strings.Join(words, ", "), Baseline: "no control: " + strings.Join(others, ", "),
		Verdict: holds(ok)}, err
}

func refusals(ctx context.Context, e *Env) (Result, error) {
	refused, wounded := 0, 0
	ok, words, others, err := e.byAgents(ctx, func(agents, rounds int, ours, theirs []sum) (bool, string, string) {
		refused, wounded = refused+ours[1].refused, wounded+ours[1].wounded
		rate := func(s sum) string { return digits(float64(s.refused) / float64(rounds)) }
		return theirs[2].refused == rounds*(agents-1) && ours[1].refused == 0 && ours[0].extra == 0,
			fmt.Sprintf("%d agents: optimistic %s, locked %s", agents, rate(ours[0]), rate(ours[1])),
			fmt.Sprintf("%d agents %s", agents, rate(theirs[2]))
	})
	return Result{Ours: "refused a run: " + strings.Join(words, "; "),
		Baseline: "a store that rejects: " + strings.Join(others, ", "),
		Verdict:  holds(ok),
		Note: fmt.Sprintf("locked, an agent waits for what an older transaction holds; a younger one that holds it lets go "+
			"and begins again, so that none waits for ever: %s refusals are that. Where agents begin together, that happens "+
			"at the start of a run, or not", of(wounded, refused))}, err
}

// apart lets agents work on orders of their own, all at once, in rounds.
func apart(ctx context.Context, run string, agents, rounds int, think time.Duration, w way) (out sum, err error) {
	for k := range rounds {
		var mu sync.Mutex
		err := together(agents, func(i int) error {
			cell := fmt.Sprintf("%s/%d/%d", run, i, k)
			got, err := w(ctx, i, job{cells: []string{cell}, think: think, decide: func(map[string]string) map[string]string {
				return map[string]string{cell: "written"}
			}})
			mu.Lock()
			defer mu.Unlock()
			out.refused, out.waited = out.refused+got.refused, out.waited+got.waited
			if !got.wrote {
				out.broken++
			}
			return err
		})
		if err != nil {
			return out, err
		}
		out.rounds++
	}
	return out, nil
}

func disjoint(ctx context.Context, e *Env) (Result, error) {
	think, rounds := e.thought(75*time.Millisecond), e.of(2, 20)
	var words, others []string
	ok, before := true, time.Duration(0)
	for _, agents := range []int{2, 4, 8} {
		ways, err := e.seats(ctx, agents, seat{})
		if err != nil {
			return Result{}, err
		}
		ours, err := apart(ctx, "own", agents, rounds, think, ways[0])
		if err != nil {
			return Result{}, err
		}
		m := newMemory()
		global, err := apart(ctx, "own", agents, rounds, think, m.locked(true))
		if err != nil {
			return Result{}, err
		}
		named, err := apart(ctx, "named", agents, rounds, think, m.locked(false))
		if err != nil {
			return Result{}, err
		}
		ok = ok && ours.refused == 0 && ours.broken == 0 && global.waited > before && named.waited < global.waited/4
		before = global.waited
		words = append(words, fmt.Sprintf("%d agents %s ms", agents, ours.wait(agents)))
		others = append(others, fmt.Sprintf("%d agents %s and %s ms", agents, global.wait(agents), named.wait(agents)))
	}
	return Result{Ours: "no refusal; beyond thinking, all requests of a job: " + strings.Join(words, ", "),
			Baseline: "waits for one lock, and for one each: " + strings.Join(others, ", "), Verdict: holds(ok),
			Note: "ours is durable and goes through HTTP: what it takes beyond thinking is its requests, not waits for others"},
		nil
}

func waiting(ctx context.Context, e *Env) (Result, error) {
	think := e.thought(50 * time.Millisecond)
	sizes := []int{2, 4, 8, 16}
	if e.Full {
		sizes = []int{2, 4, 8, 32, 64, 128}
	}
	var x, y, z []float64
	for _, agents := range sizes {
		ways, err := e.seats(ctx, agents, seat{})
		if err != nil {
			return Result{}, err
		}
		ours, err := apart(ctx, "own", agents, 1, think, ways[0])
		if err != nil {
			return Result{}, err
		}
		m := newMemory()
		global, err := apart(ctx, "own", agents, 1, think, m.locked(true))
		if err != nil {
			return Result{}, err
		}
		each := func(s sum) float64 { return float64(s.waited.Microseconds()) / 1000 / float64(agents) }
		x, y, z = append(x, float64(agents)), append(y, each(global)), append(z, each(ours))
	}
	_, slope, _, around := fit(x, y)
	last := len(sizes) - 1
	return Result{
		Ours: fmt.Sprintf("beyond thinking %s ms with the fewest, %s ms with the most agents", digits(z[0]),
			digits(z[last])),
		Baseline: fmt.Sprintf("one lock: %s to %s ms, %s ± %s ms for each agent more", digits(y[0]), digits(y[last]),
			digits(slope), digits(around)),
		Verdict: holds(slope > 0 && around < slope/4 && z[last] < y[last]),
		Note:    "all agents are in one sidecar of one process, which shares the machine's cores with them",
		Plots: []report.Plot{{Title: "milliseconds beyond thinking by agents on shards of their own",
			Lines: []report.Line{{Name: "one lock", X: x, Y: y}, {Name: "Hence", X: x, Y: z}}}}}, nil
}

func ablated(ctx context.Context, e *Env) (Result, error) {
	const agents = 4
	rounds, think := e.of(3, 50), e.thought(75*time.Millisecond)
	ways, err := e.seats(ctx, agents, seat{}, seat{blind: true}, seat{begin: client.BeginOptions{Levels: "L0"}})
	if err != nil {
		return Result{}, err
	}
	var all []sum
	for i, w := range ways {
		got, err := onOneOrder(ctx, fmt.Sprint("ablated-", i), agents, rounds, think, w)
		if err != nil {
			return Result{}, err
		}
		all = append(all, got)
	}
	return Result{Ours: fmt.Sprintf("whole: %s rounds with a violation", of(all[0].broken, rounds)),
		Baseline: fmt.Sprintf("reads that are not announced: %s; no refusal of stale reads: %s", of(all[1].broken, rounds),
			of(all[2].broken, rounds)),
		Verdict: holds(all[0].broken == 0 && all[1].broken == rounds && all[2].broken == rounds),
		Note:    "taken out by configuration, on Hence itself; one frontier for all is the lock of A12"}, nil
}

// transfers moves money between two accounts, many at once, and counts how often the sum was another at the end.
func transfers(ctx context.Context, run string, n int, chance *rand.Rand, w way) (wrong, refused int, err error) {
	one, two := run+"/one", run+"/two"
	const start = 100
	if _, err := w(ctx, 0, job{cells: []string{one, two}, decide: func(map[string]string) map[string]string {
		return map[string]string{one: strconv.Itoa(start), two: strconv.Itoa(start)}
	}}); err != nil {
		return 0, 0, err
	}
	amounts := make([]int, n)
	for i := range amounts {
		amounts[i] = 1 + chance.IntN(5)
	}
	var mu sync.Mutex
	err = together(n, func(i int) error {
		got, err := w(ctx, i, job{cells: []string{one, two}, think: time.Millisecond,
			decide: func(read map[string]string) map[string]string {
				a, b := atoi(read[one]), atoi(read[two])
				if amount := amounts[i]; i%2 == 0 && a >= amount {
					return map[string]string{one: strconv.Itoa(a - amount), two: strconv.Itoa(b + amount)}
				} else if i%2 == 1 && b >= amount {
					return map[string]string{one: strconv.Itoa(a + amount), two: strconv.Itoa(b - amount)}
				}
				return nil
			}})
		mu.Lock()
		defer mu.Unlock()
		refused += got.refused
		return err
	})
	if err != nil {
		return 0, refused, err
	}
	// Each transfer is a move of the sum: what is in one account must be what the moves that were made leave there, and
	// where two moves rested on one state one of them is gone.
	if _, err = w(ctx, 0, job{cells: []string{one, two}, decide: func(read map[string]string) map[string]string {
		a, b, want := atoi(read[one]), atoi(read[two]), start
		for i, amount := range amounts {
			if i%2 == 0 {
				want -= amount
			} else {
				want += amount
			}
		}
		if a+b != 2*start || a < 0 || b < 0 || a != want {
			wrong++
		}
		return nil
	}}); err != nil {
		return 0, refused, err
	}
	return wrong, refused, nil
}

func atoi(text string) int {
	n, _ := strconv.Atoi(text) // what is not there is nothing
	return n
}

func bank(ctx context.Context, e *Env) (Result, error) {
	const agents = 4
	n, runs := e.of(8, 32), e.of(2, 20)
	ways, err := e.seats(ctx, agents, seat{begin: client.BeginOptions{Mode: "locked"}, update: true}, seat{})
	if err != nil {
		return Result{}, err
	}
	m := newMemory()
	ways = append(ways, m.none, m.locked(true), m.optimistic(1_000))
	var wrong, refused [5]int
	for i, w := range ways {
		for k := range runs {
			bad, no, err := transfers(ctx, fmt.Sprintf("bank-%d-%d", i, k), n, e.chance(fmt.Sprint("bank", k)), w)
			if err != nil {
				return Result{}, err
			}
			wrong[i], refused[i] = wrong[i]+bad, refused[i]+no
		}
	}
	return Result{
		Ours: fmt.Sprintf("locked %s runs with a wrong balance, %d refused; optimistic %s, %d refused", of(wrong[0], runs),
			refused[0],
			of(wrong[1], runs), refused[1]),
		Baseline: fmt.Sprintf("no control %s; one lock %s; optimistic store %s, %d refused", of(wrong[2], runs),
			of(wrong[3], runs),
			of(wrong[4], runs), refused[4]),
		Verdict: holds(wrong[0] == 0 && wrong[1] == 0 && wrong[2] > 0 && wrong[3] == 0 && wrong[4] == 0)}, nil
}

// behind lets an older transaction in mode ordered hang with a claim, and a younger one want what it has claimed. It
// returns how long the younger one took, and whether it was committed.
func behind(ctx context.Context, place Place, cell string, bound time.Duration) (took time.Duration, ok bool,
	err error) {
	want := []client.Want{{Scope: scope(cell), Access: "write"}}
	_, err = place.Agents[0].Begin(ctx, client.BeginOptions{Mode: "ordered", May: want,
		DeadlineMs: int(bound.Milliseconds())})
	if err != nil {
		return 0, false, err
	}
	began := time.Now()
	tx, err := place.Agents[1].Begin(ctx, client.BeginOptions{Mode: "ordered", May: want})
	if err == nil {
		err = tx.Write(ctx, scope(cell), []byte("after"), client.WriteOptions{})
	}
	if err == nil {
		ok, err = committed(tx.Seal(ctx))
	}
	return time.Since(began), ok, err
}

func stalled(ctx context.Context, e *Env) (Result, error) {
	place, err := e.Ground.Workspace(ctx, 1, 2, "")
	if err != nil {
		return Result{}, err
	}
	through, n, most := 0, e.of(2, 20), time.Duration(0)
	for i := range n {
		took, ok, err := behind(ctx, place, fmt.Sprintf("stalls/%d", i), time.Second)
		if err != nil {
			return Result{}, err
		}
		if most = max(most, took); ok {
			through++
		}
	}
	return Result{Ours: fmt.Sprintf("%s get past one that stalled, the last after %s s", of(through, n),
		digits(most.Seconds())),
		Verdict: beats(through == n && most < 10*time.Second, true),
		Note: "each ends at the stalled one's deadline, of a second; an early advance of a frontier is no part of any " +
			"API, and go test ./sequencer/explore catches the mutant of the fold that skips the check"}, nil
}

func hung(ctx context.Context, e *Env) (Result, error) {
	const agents = 8
	place, err := e.Ground.Workspace(ctx, 1, agents, "")
	if err != nil {
		return Result{}, err
	}
	want := []client.Want{{Scope: scope("hung"), Access: "write"}}
	tx, err := place.Agents[0].Begin(ctx, client.BeginOptions{})
	if err == nil {
		_, err = tx.Touch(ctx, want, client.TouchOptions{}) // and then nothing more is heard of it
	}
	if err != nil {
		return Result{}, err
	}
	ended, most := 0, time.Duration(0)
	var mu sync.Mutex
	err = together(agents-1, func(i int) error {
		long := 20 * time.Second
		began := time.Now()
		tx, err := place.Agents[1+i].Begin(ctx, client.BeginOptions{})
		if err != nil {
			return err
		}
		got, err := tx.Touch(ctx, want, client.TouchOptions{Wait: &long, Bound: time.Second})
		if p := (*client.Problem)(nil); errors.As(err, &p) {
			err = nil
		}
		mu.Lock()
		defer mu.Unlock()
		most = max(most, time.Since(began))
		if got.State != api.TouchWaiting {
			ended++
		}
		return err
	})
	return Result{Ours: fmt.Sprintf("waits that ended at their own bound %s, the last after %s s", of(ended, agents-1),
		digits(most.Seconds())),
		Verdict: holds(ended == agents-1 && most < 10*time.Second),
		Note: "the bound is a second; the hung agent's own grant ends with its deadline or lease and, since it may " +
			"have acted, " +
			"two minutes that it has to say what it did"}, err
}

func late(ctx context.Context, e *Env) (Result, error) {
	place, err := e.Ground.Workspace(ctx, 1, 1, "")
	if err != nil {
		return Result{}, err
	}
	n, c := e.of(10, 250), place.Agents[0]
	refused, tried, footprint := 0, 0, 0
	for i := range n {
		cell := fmt.Sprintf("late/%d", i)
		tx, err := link(ctx, c, "", scope(cell))
		if err != nil {
			return Result{}, err
		}
		for _, add := range []func() error{
			func() error { _, err := tx.Read(ctx, scope(cell)); return err },
			func() error { return tx.Write(ctx, scope(cell+"/more"), []byte("late"), client.WriteOptions{}) },
			func() error {
				_, err := tx.Touch(ctx, []client.Want{{Scope: scope(cell), Access: "write"}}, client.TouchOptions{})
				return err
			},
			func() error { _, err := tx.Effect(ctx, "log.add", nil, client.EffectOptions{}); return err },
		} {
			tried++
			if p := (*client.Problem)(nil); errors.As(add(), &p) {
				refused++
			}
		}
		more, err := c.Look(ctx, scope(cell+"/more"))
		if err != nil {
			return Result{}, err
		}
		if more.Exists {
			footprint++
		}
	}
	return Result{Ours: fmt.Sprintf("%s late reads, writes, touches and calls are refused; %d took effect", of(refused,
		tried), footprint),
		Verdict: holds(refused == tried && footprint == 0 && tried > 0)}, nil
}
