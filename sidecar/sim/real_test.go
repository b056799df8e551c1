package sim

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer/testsize"
)

// Real agents run in processes of their own, one processor each: what runs beside what is then the seed's choice more
// often than not, and a panic of an agent, which ends its process, is a finding with its seed.
const (
	workers   = 2
	workerEnv = "HENCE_SIM_WORKER" // a job
	// sweepSteps is the length of a schedule that is struck at each of its operations.
	sweepSteps = 32
	// probedFrom is how many schedules must reach every rare branch and every fault.
	probedFrom = 20_000
)

var (
	stepsFlag   = flag.Int("steps", 0, "length of the faults of TestRealSeed; 0 is the default")
	cleanFlag   = flag.Bool("clean", false, "TestRealSeed: no other faults than the strikes")
	strikesFlag = flag.String("strikes", "", "TestRealSeed: operations that are struck, such as 12:kills,40:fails")
	muteFlag    = flag.String("mute", "", "TestRealSeed: faults and wishes that are left out")
)

// job is what a worker does.
type job struct {
	First   uint64     // seed
	Step    uint64     // from one seed to the next
	N       int        // schedules; of a sweep: struck ones in all
	Seconds int        // when it begins no further one; zero: never
	Sweep   bool       // each schedule is struck at each of its operations, or at some of them
	Share   int        // of a sweep's cases the worker takes each that leaves this rest by workers
	Each    int        // of a sweep: cases per schedule; zero: all
	Skip    int        // of a sweep: cases of the first schedule that are done already
	List    []schedule // these, each a few times, and nothing else
}

// TestRealSeed repeats one schedule of real agents. A seed does not always repeat: see RunReal.
func TestRealSeed(t *testing.T) {
	if os.Getenv(workerEnv) != "" {
		return
	}
	one := schedule{Seed: *seedFlag, Steps: *stepsFlag, Clean: *cleanFlag, Strikes: *strikesFlag}
	if *muteFlag != "" {
		one.Mute = strings.Split(*muteFlag, ",")
	}
	opts, err := one.options()
	if err != nil {
		t.Fatal(err)
	}
	rep, err := RunReal(t, *seedFlag, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", rep)
}

// TestRealWorker runs the schedules that its parent names.
func TestRealWorker(t *testing.T) {
	text := os.Getenv(workerEnv)
	if text == "" {
		return // it is a process of batch only
	}
	w := worker{t: t, sum: newSummary(), start: time.Now()}
	if err := json.Unmarshal([]byte(text), &w.job); err != nil {
		t.Fatal(err)
	}
	switch {
	case len(w.job.List) > 0:
		for _, one := range w.job.List {
			opts, err := one.options()
			if err != nil {
				t.Fatal(err)
			}
			for range max(1, one.Times) {
				w.run(one.Seed, opts)
			}
		}
	case w.job.Sweep:
		w.sweep()
	default:
		for i := range w.job.N {
			if w.late() {
				break
			}
			w.run(w.job.First+uint64(i)*w.job.Step, Options{Trace: true})
		}
	}
	w.tell()
}

// worker is one process of a batch.
type worker struct {
	t     *testing.T
	job   job
	sum   Summary
	start time.Time
}

func (w *worker) late() bool {
	return w.job.Seconds > 0 && time.Since(w.start) > time.Duration(w.job.Seconds)*time.Second
}

// run runs one schedule; one that breaks an invariant ends the process.
func (w *worker) run(seed uint64, opts Options) Report {
	one, err := json.Marshal(scheduleOf(seed, &opts))
	if err != nil {
		w.t.Fatal(err)
	}
	fmt.Printf("\nseed %s\n", one)
	rep, err := RunReal(w.t, seed, opts)
	w.sum.add(rep)
	if err != nil {
		var v *Violation
		if errors.As(err, &v) && len(v.Trace) > 60 {
			v.Trace = v.Trace[len(v.Trace)-60:]
		}
		fmt.Printf("\nviolation %s\n", strings.ReplaceAll(err.Error(), "\n", "\nv "))
		w.tell()
		os.Exit(3)
	}
	return rep
}

// tell hands the parent the sum.
func (w *worker) tell() {
	body, err := json.Marshal(&w.sum)
	if err != nil {
		w.t.Fatal(err)
	}
	fmt.Printf("\nsum %s\n", body)
}

// sweep strikes schedules at each of their operations in each way, or at so many of them, drawn by the seed.
func (w *worker) sweep() {
	left := w.job.N
	for seed := w.job.First; left > 0 && !w.late(); seed++ {
		base := Options{Steps: sweepSteps, Clean: true, Trace: true}
		whole := w.run(seed, base)
		if whole.Void { // hardly anything happens in it
			continue
		}
		cases := whole.Ops * int(lastHow)
		order := rand.New(rand.NewPCG(seed, 0x7377656570)).Perm(cases)
		if w.job.Each > 0 {
			order = order[:min(len(order), w.job.Each)]
		}
		for i, at := range order {
			w.sum.Base, w.sum.At = int(seed), i
			if i%workers != w.job.Share || seed == w.job.First && i < w.job.Skip {
				continue
			}
			if left--; left < 0 || w.late() {
				return
			}
			base.Strikes = []Strike{{1 + at/int(lastHow), How(1 + at%int(lastHow))}}
			w.run(seed, base)
		}
		w.sum.Base, w.sum.At = int(seed)+1, 0
		w.sum.Swept++
	}
}

// found is what a batch of real schedules came to.
type found struct {
	sum  Summary
	what string // the first violation, or how a worker ended; empty: none
	one  schedule
	most int // schedules of one worker

	base, at int // of a sweep: all before are done
}

// batch runs schedules of real agents in worker processes until one finds something.
func batch(t *testing.T, binary string, jobs []job) found {
	t.Helper()
	out := found{sum: newSummary()}
	var mu sync.Mutex
	var group sync.WaitGroup
	all, pipes := make([]*exec.Cmd, len(jobs)), make([]io.ReadCloser, len(jobs))
	for i := range jobs { // all of them first: the first that fails ends the others
		text, err := json.Marshal(jobs[i])
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(binary, "-test.run=^TestRealWorker$", "-test.timeout=24h")
		cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=400", workerEnv+"="+string(text))
		pipe, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stderr = cmd.Stdout
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all[i], pipes[i] = cmd, pipe
	}
	for i, cmd := range all {
		group.Go(func() {
			one, last := schedule{}, []string{}
			lines := bufio.NewScanner(pipes[i])
			lines.Buffer(nil, 4<<20)
			sum := newSummary()
			for lines.Scan() {
				text := lines.Text()
				switch {
				case strings.HasPrefix(text, "seed "):
					one = schedule{}
					_ = json.Unmarshal([]byte(text[5:]), &one)
					sum.Schedules++
					last = last[:0]
				case strings.HasPrefix(text, "sum "):
					sum = newSummary()
					_ = json.Unmarshal([]byte(text[4:]), &sum)
				case len(last) < 120:
					last = append(last, text)
				}
			}
			err := cmd.Wait()
			mu.Lock()
			defer mu.Unlock()
			out.sum.merge(&sum)
			if out.base == 0 || sum.Base < out.base || sum.Base == out.base && sum.At < out.at {
				out.base, out.at = sum.Base, sum.At // the worker that has come least far
			}
			out.most = max(out.most, sum.Schedules)
			if err != nil && out.what == "" {
				out.one = one
				out.what = fmt.Sprintf("%s: %v\n%s", one.command(), err, strings.Join(last, "\n"))
				for _, c := range all {
					_ = c.Process.Kill()
				}
			}
		})
	}
	group.Wait()
	return out
}

// ordinary are the jobs of n schedules, each its own seed.
func ordinary(first uint64, n, seconds int) (jobs []job) {
	for w := range workers {
		jobs = append(jobs, job{First: first + uint64(w), Step: workers, N: (n + workers - 1 - w) / workers,
			Seconds: seconds})
	}
	return jobs
}

// swept are the jobs of a sweep over n struck schedules, each of them of each worker's share.
func swept(first uint64, skip, n, each, seconds int) (jobs []job) {
	for w := range workers {
		jobs = append(jobs, job{First: first, N: (n + workers - 1 - w) / workers, Each: each, Share: w, Sweep: true,
			Skip: skip, Seconds: seconds})
	}
	return jobs
}

// TestRealSchedules runs many schedules of real agents: none may break an invariant. HENCE_SIM_SECONDS is how long
// it may take together with TestRealSweep: this one has three quarters of it.
func TestRealSchedules(t *testing.T) {
	n, seconds := *schedulesFlag, simSeconds(t)*3/4
	if seconds > 0 {
		n = 1 << 30
	}
	switch {
	case n == 0 && testsize.Small():
		n = 100
	case n == 0:
		n = 1000
	}
	start := time.Now()
	got := batch(t, os.Args[0], ordinary(*firstFlag, n, seconds))
	t.Logf("%s%.1f schedules of real agents a second", got.sum.real(),
		float64(got.sum.Schedules)/time.Since(start).Seconds())
	if got.what != "" {
		keep(t, os.Args[0], got.one, got.what)
		t.Fatal(got.what)
	}
	if missing := got.sum.missing(); got.sum.Schedules >= probedFrom && len(missing) > 0 {
		t.Errorf("no schedule of %d has reached %v", got.sum.Schedules, missing)
	}
	if got.sum.Voids*4 > got.sum.Schedules {
		t.Errorf("%d of %d schedules are void: hardly anything committed in them", got.sum.Voids, got.sum.Schedules)
	}
	testsize.Figure(t, start, "simulated schedules of real agents, every invariant held", got.sum.Schedules, 0,
		"make sim-agents")
}

// TestRealSweep strikes schedules at their operations: each fails, is done and said to have failed, or is the last of
// its process or machine; then all heals. It has a quarter of HENCE_SIM_SECONDS.
func TestRealSweep(t *testing.T) {
	n, each, seconds := *schedulesFlag, 60, simSeconds(t)/4
	if seconds > 0 {
		n, each = 1<<30, 0
	}
	switch {
	case n == 0 && testsize.Small():
		n = 60
	case n == 0:
		n = 600
	}
	start := time.Now()
	got := batch(t, os.Args[0], swept(*firstFlag, 0, n, each, seconds))
	t.Logf("%s%.1f struck schedules a second", got.sum.real(),
		float64(got.sum.Schedules)/time.Since(start).Seconds())
	if got.what != "" {
		keep(t, os.Args[0], got.one, got.what)
		t.Fatal(got.what)
	}
}

// simSeconds is HENCE_SIM_SECONDS; zero: the number of schedules counts.
func simSeconds(t *testing.T) int {
	t.Helper()
	text := os.Getenv("HENCE_SIM_SECONDS")
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
