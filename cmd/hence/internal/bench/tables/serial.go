package tables

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/report"
	"github.com/hence-dev/hence/sequencer/anomaly"
	"github.com/hence-dev/hence/sidecar/client"
)

// deed is a committed job as its agent knows it: what it read, as the name of the deed that wrote it, and the cell
// that it wrote its own name to.
type deed struct {
	name, cell string
	read       map[string]string
	seq        uint64 // of the commit
}

// perCall does a job with a lock for each single read and write.
func (m *memory) perCall(ctx context.Context, n int, j job) (done, error) {
	read := map[string]string{}
	under := func(cell string, call func()) {
		lock := m.lock(cell)
		lock.Lock()
		defer lock.Unlock()
		call()
	}
	for _, cell := range j.cells {
		under(cell, func() {
			values, _ := m.read([]string{cell})
			read[cell] = values[cell]
		})
	}
	return m.none(ctx, n, job{think: j.think, decide: func(map[string]string) (writes map[string]string) {
		for cell, value := range j.decide(read) {
			under(cell, func() { m.write(map[string]string{cell: value}, nil) })
		}
		return nil
	}})
}

// mixed lets agents do jobs that read three of six cells and write one of these. It returns what was committed.
func mixed(ctx context.Context, run string, agents, each int, chance *rand.Rand, w way) ([]deed, error) {
	const cells, reads = 6, 3
	all := make([]deed, agents*each)
	for i := range all {
		all[i].name = fmt.Sprintf("%s-%d", run, i)
		for _, k := range chance.Perm(cells)[:reads] {
			all[i].cell = fmt.Sprintf("%s/%d", run, k)
			if all[i].read == nil {
				all[i].read = map[string]string{}
			}
			all[i].read[all[i].cell] = ""
		}
	}
	err := shared(agents, len(all), func(a, i int) error {
		one := &all[i]
		j := job{think: time.Millisecond, decide: func(read map[string]string) map[string]string {
			one.read = read // of the last attempt, which is the one that counts
			return map[string]string{one.cell: one.name}
		}}
		for cell := range one.read {
			j.cells = append(j.cells, cell)
		}
		got, err := w(ctx, a, j)
		one.seq = got.seq
		return err
	})
	return all, err
}

// inOrder sorts deeds as they were committed: as the store has them, or by their own seqs.
func inOrder(all []deed, store []string) {
	for i, name := range store {
		for k := range all {
			if all[k].name == name {
				all[k].seq = uint64(i) + 1
			}
		}
	}
	slices.SortFunc(all, func(a, b deed) int { return cmp.Compare(a.seq, b.seq) })
}

// conflicts are what a trace came to: whether the detectors find a cycle, whether one is there by the definition, and
// how many wrote over what they had not read.
type conflicts struct {
	found, there bool
	over         int
}

// conflictsOf looks for cycles in deeds, which are in the order of their commits.
func (e *Env) conflictsOf(all []deed) (c conflicts, err error) {
	at, h := map[string]int{}, anomaly.NewHistory(0)
	for i, d := range all {
		at[d.name] = i + 1
		op := anomaly.Op{Name: d.name, Agent: d.name, WriteTime: uint64(i) + 1, HasPreds: true,
			Writes: []anomaly.Write{{Cell: d.cell, Value: d.name}}}
		for cell, from := range d.read {
			if from == "" {
				from = anomaly.Null
			}
			op.Reads = append(op.Reads, anomaly.Read{Cell: cell, Value: from, Time: uint64(at[d.read[cell]]), Timed: true})
		}
		if err := h.Add(op); err != nil {
			return c, fmt.Errorf("add a deed to a history: %w", err)
		}
	}
	findings := e.Subject.Check(h).Findings
	for i := range findings {
		c.found = c.found || findings[i].Kind == anomaly.Cycle
	}
	// By the definition: a deed comes behind what it read and what it wrote over, and before what wrote over its reads.
	before := make([]map[int]bool, len(all)) // by deed: those that come before it
	for i := range before {
		before[i] = map[int]bool{}
	}
	wrote := map[string][]int{}
	for i, d := range all {
		if past := wrote[d.cell]; len(past) > 0 {
			before[i][past[len(past)-1]] = true
		}
		last := 0
		if past := wrote[d.cell]; len(past) > 0 {
			last = past[len(past)-1] + 1
		}
		if at[d.read[d.cell]] != last {
			c.over++
		}
		wrote[d.cell] = append(wrote[d.cell], i)
	}
	for i, d := range all {
		for cell, from := range d.read {
			if from != "" {
				before[i][at[from]-1] = true
			}
			for _, next := range wrote[cell] {
				if next >= at[from] && next != i {
					before[next][i] = true
					break
				}
			}
		}
	}
	c.there = circular(before)
	return c, nil
}

// circular says whether something comes, over others, before itself: whether some stay when all that nothing comes
// before are taken away again and again.
func circular(before []map[int]bool) bool {
	left := map[int]bool{}
	for i := range before {
		left[i] = true
	}
	for more := true; more; {
		more = false
		for i := range before {
			free := left[i]
			for k := range before[i] {
				free = free && (k == i || !left[k])
			}
			if free {
				delete(left, i)
				more = true
			}
		}
	}
	return len(left) > 0
}

// traced is what traces of one way of working came to.
type traced struct{ traces, deeds, cyclic, apart, over int }

func (t *traced) add(c conflicts, deeds int) {
	t.traces, t.deeds, t.over = t.traces+1, t.deeds+deeds, t.over+c.over
	if c.there {
		t.cyclic++
	}
	if c.found != c.there {
		t.apart++
	}
}

func cyclic(ctx context.Context, e *Env) (Result, error) {
	const agents = 4
	n, each := e.of(3, 100), e.of(5, 25)
	ways, err := e.seats(ctx, agents, seat{})
	if err != nil {
		return Result{}, err
	}
	m := newMemory()
	ways = append(ways, m.none, m.perCall)
	var all [3]traced
	for i, w := range ways {
		for k := range n {
			m.order = nil
			deeds, err := mixed(ctx, fmt.Sprintf("trace-%d-%d", i, k), agents, each, e.chance(fmt.Sprint("trace", k)), w)
			if err != nil {
				return Result{}, err
			}
			inOrder(deeds, m.order)
			c, err := e.conflictsOf(deeds)
			if err != nil {
				return Result{}, err
			}
			all[i].add(c, len(deeds))
		}
	}
	ours, apart := all[0], all[0].apart+all[1].apart+all[2].apart
	return Result{
		Ours: fmt.Sprintf("%s traces have a cycle, of %d transactions; %d wrote over what they had not read",
			percent(ours.cyclic, ours.traces), ours.deeds, ours.over),
		Baseline: fmt.Sprintf("no control %s, %d wrote over; a lock for each call %s, %d wrote over",
			of(all[1].cyclic, n), all[1].over, of(all[2].cyclic, n), all[2].over),
		Verdict: holds(ours.cyclic == 0 && ours.over == 0 && ours.deeds > 0 && apart == 0 && all[1].cyclic > 0 &&
			all[2].cyclic > 0),
		Note: fmt.Sprintf("each trace is judged by the detectors of hence check and by the definition, over what the "+
			"agents know: they differ on %d. Only what was committed counts", apart)}, nil
}

// overlap is jobs of eight agents on thirty-two cells: a quarter of them is everybody's, the others are three each. A
// share of the jobs goes to the former. Each adds one to a cell.
type overlap struct {
	rate    float64 // jobs a second
	refused int
	lost    int // additions that are not in the sums
}

const (
	sharers   = 8
	hotCells  = 8
	ownCells  = 3
	allShares = 4 // in quarters
)

func (e *Env) overlapped(ctx context.Context, run string, n, quarters int, think time.Duration, w way) (o overlap,
	err error) {
	var cells []string
	for i := range hotCells {
		cells = append(cells, fmt.Sprintf("%s/hot/%d", run, i))
	}
	for i := range sharers * ownCells {
		cells = append(cells, fmt.Sprintf("%s/own/%d", run, i))
	}
	chance := e.chance(fmt.Sprint("overlap", quarters))
	picks := make([]string, n)
	for i := range picks {
		if chance.IntN(allShares) < quarters {
			picks[i] = cells[chance.IntN(hotCells)]
		} else {
			picks[i] = cells[hotCells+i%sharers*ownCells+chance.IntN(ownCells)]
		}
	}
	var mu sync.Mutex
	began := time.Now()
	err = shared(sharers, n, func(a, i int) error {
		cell := picks[i]
		add := func(read map[string]string) map[string]string {
			return map[string]string{cell: strconv.Itoa(atoi(read[cell]) + 1)}
		}
		got, err := w(ctx, a, job{cells: []string{cell}, think: think, decide: add})
		mu.Lock()
		defer mu.Unlock()
		o.refused += got.refused
		return err
	})
	o.rate = float64(n) / time.Since(began).Seconds()
	if err != nil {
		return o, err
	}
	sum := 0
	_, err = w(ctx, 0, job{cells: cells, decide: func(read map[string]string) map[string]string {
		sum = 0
		for _, cell := range cells {
			sum += atoi(read[cell])
		}
		return nil
	}})
	o.lost = n - sum
	return o, err
}

func overlapping(ctx context.Context, e *Env) (Result, error) {
	const noise = 1.1 // of rates that are to fall
	ways, err := e.seats(ctx, sharers, seat{}, seat{begin: client.BeginOptions{Mode: "locked"}, update: true})
	if err != nil {
		return Result{}, err
	}
	quarters := []int{0, 4}
	if e.Full {
		quarters = []int{0, 1, 2, 3, 4}
	}
	n, seeds, think := e.of(24, 400), e.of(1, 2), 75*time.Millisecond
	m := newMemory()
	names := []string{"optimistic", "locked", "one lock", "no control"}
	ways = append(ways, m.locked(true), m.none)
	lines := make([]report.Line, len(ways))
	var refused, lost [4]int
	for _, q := range quarters {
		for i, w := range ways {
			jobs := n
			if names[i] == "one lock" {
				jobs /= sharers // it does one at a time, whatever they touch
			}
			rate := 0.0
			for k := range seeds {
				o, err := e.overlapped(ctx, fmt.Sprintf("overlap-%d-%d-%d", i, q, k), jobs, q, think, w)
				if err != nil {
					return Result{}, err
				}
				rate += o.rate / float64(seeds)
				lost[i] += o.lost
				if q == allShares {
					refused[i] += o.refused
				}
			}
			lines[i].Name = names[i]
			lines[i].X, lines[i].Y = append(lines[i].X, float64(q)/allShares), append(lines[i].Y, rate)
		}
	}
	ok, last := true, len(quarters)-1
	over := func(way, i int) float64 { return lines[way].Y[i] / lines[2].Y[i] }
	var words, locked, bare []string
	for i := range quarters {
		ok = ok && (i == 0 || over(0, i) <= noise*over(0, i-1))
		words, locked = append(words, digits(over(0, i))), append(locked, digits(over(1, i)))
		bare = append(bare, digits(over(3, i)))
	}
	ok = ok && over(0, 0) >= 3 && over(0, last) < over(0, 0) && over(0, last) >= 1
	return Result{
		Ours: fmt.Sprintf("times the rate of one lock: optimistic %s, locked %s; at full overlap %s and %s refused a "+
			"transaction; %d and %d additions lost", strings.Join(words, ", "), strings.Join(locked, ", "),
			digits(float64(refused[0])/float64(n*seeds)), digits(float64(refused[1])/float64(n*seeds)), lost[0], lost[1]),
		Baseline: fmt.Sprintf("one lock %s a second, %d lost; no control %s times, %d lost", digits(lines[2].Y[last]),
			lost[2], strings.Join(bare, ", "), lost[3]),
		Verdict: holds(ok && lost[0] == 0 && lost[1] == 0 && lost[2] == 0 && lost[3] > 0),
		Note: "overlap is the share of jobs that go to cells of all agents, the others to cells of an agent's own. The " +
			"lock is in memory and is held while its agent thinks; ours goes through HTTP to a log that keeps it",
		Plots: []report.Plot{{Title: "transactions a second by overlap", Lines: lines}}}, nil
}
