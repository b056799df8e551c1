package sim

import (
	"bufio"
	"errors"
	"fmt"
	"io"
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
	workerEnv = "HENCE_SIM_WORKER" // first seed, distance, number of schedules, seconds
)

// TestRealSeed repeats one schedule of real agents. A seed does not always repeat: see RunReal.
func TestRealSeed(t *testing.T) {
	if os.Getenv(workerEnv) != "" {
		return
	}
	rep, err := RunReal(t, *seedFlag, Options{Trace: true})
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
	var first, step, seconds uint64
	var n int
	if _, err := fmt.Sscan(text, &first, &step, &n, &seconds); err != nil {
		t.Fatal(err)
	}
	sum, start := newSummary(), time.Now()
	for i := range n {
		if seconds > 0 && time.Since(start) > time.Duration(seconds)*time.Second {
			break
		}
		seed := first + uint64(i)*step
		fmt.Printf("\nseed %d\n", seed)
		rep, err := RunReal(t, seed, Options{Trace: true})
		sum.add(rep)
		if err != nil {
			var v *Violation
			if errors.As(err, &v) && len(v.Trace) > 60 {
				v.Trace = v.Trace[len(v.Trace)-60:]
			}
			fmt.Printf("\nviolation %s\n", strings.ReplaceAll(err.Error(), "\n", "\nv "))
			os.Exit(3)
		}
	}
	fmt.Printf("\nsum %d %d %d %d %d %d\n", sum.Schedules, sum.Voids, sum.Steps, sum.Records, sum.Commits, sum.Faults)
}

// found is what a batch of real schedules came to.
type found struct {
	sum  Summary
	what string // the first violation, or how a worker ended; empty: none
}

// batch runs schedules of real agents in worker processes until one finds something.
func batch(t *testing.T, binary string, first uint64, n, seconds int) found {
	t.Helper()
	out := found{sum: newSummary()}
	var mu sync.Mutex
	var group sync.WaitGroup
	var all [workers]*exec.Cmd
	var pipes [workers]io.ReadCloser
	for w := range workers { // all of them first: the first that fails ends the others
		cmd := exec.Command(binary, "-test.run=^TestRealWorker$", "-test.timeout=24h")
		cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=400", fmt.Sprintf("%s=%d %d %d %d", workerEnv,
			first+uint64(w), workers, (n+workers-1-w)/workers, seconds))
		pipe, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stderr = cmd.Stdout
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all[w], pipes[w] = cmd, pipe
	}
	for w, cmd := range all {
		group.Go(func() {
			seed, last := "", []string{}
			lines := bufio.NewScanner(pipes[w])
			lines.Buffer(nil, 1<<20)
			sum := newSummary()
			for lines.Scan() {
				text := lines.Text()
				switch {
				case strings.HasPrefix(text, "seed "):
					seed = text[5:]
					sum.Schedules++
					last = last[:0]
				case strings.HasPrefix(text, "sum "):
					_, _ = fmt.Sscan(text[4:], &sum.Schedules, &sum.Voids, &sum.Steps, &sum.Records, &sum.Commits, &sum.Faults)
				case len(last) < 100:
					last = append(last, text)
				}
			}
			err := cmd.Wait()
			mu.Lock()
			defer mu.Unlock()
			out.sum.Schedules += sum.Schedules
			out.sum.Voids += sum.Voids
			out.sum.Steps += sum.Steps
			out.sum.Records += sum.Records
			out.sum.Commits += sum.Commits
			out.sum.Faults += sum.Faults
			if err != nil && out.what == "" {
				out.what = fmt.Sprintf("seed %s: %v\n%s", seed, err, strings.Join(last, "\n"))
				for _, c := range all {
					_ = c.Process.Kill()
				}
			}
		})
	}
	group.Wait()
	return out
}

// TestRealSchedules runs many schedules of real agents: none may break an invariant. HENCE_SIM_SECONDS is how long.
func TestRealSchedules(t *testing.T) {
	n, seconds := *schedulesFlag, simSeconds(t)
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
	got := batch(t, os.Args[0], *firstFlag, n, seconds)
	t.Logf("%s%.0f schedules of real agents a second", &got.sum,
		float64(got.sum.Schedules)/time.Since(start).Seconds())
	if got.what != "" {
		t.Fatal(got.what)
	}
	if got.sum.Voids*4 > got.sum.Schedules {
		t.Errorf("%d of %d schedules are void: hardly anything committed in them", got.sum.Voids, got.sum.Schedules)
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
