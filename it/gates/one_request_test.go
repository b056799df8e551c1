package gates

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

// addOne adds one to a counter. The decision is aborted where it has to be done again, on what is there then.
type addOne func(ctx context.Context, c *client.Client, counter string) (client.Decision, error)

// TestOneRequest: read-modify-writes by one read of many scopes and one commit, from two sidecars that share their
// counters. None is lost. The CPU of a turn is printed beside that of one in four requests; the aim is half.
func TestOneRequest(t *testing.T) {
	n := harness.Number(t, "HENCE_IT_ONE_REQUEST", 300)
	d := harness.Deploy(t, harness.Start(t))
	cars := d.Sidecars(t, 2)
	var shared []string
	for i := range 4 {
		shared = append(shared, fmt.Sprintf("shard:/shared/%d", i))
	}
	last, again, err := turns(t.Context(), cars, n, inOne, func(worker int) string { return shared[worker/2] })
	if err != nil {
		t.Fatal(err)
	}
	sum, view := 0, uint64(0)
	for view < last { // the last commit may have been the other sidecar's
		all, at, err := cars[0].Client.ReadAll(t.Context(), shared...)
		if err != nil {
			t.Fatal(err)
		}
		sum, view = 0, at
		for i := range all {
			v, _ := strconv.Atoi(string(all[i].Content))
			sum += v
		}
	}
	if sum != n {
		t.Fatalf("%d turns, and the counters say %d", n, sum)
	}
	t.Logf("%d turns of one read and one commit, two sidecars on four counters: none lost, %d tried again", n, again)
	own := func(worker int) string { return fmt.Sprintf("shard:/own/%d", worker) }
	cost := map[string]time.Duration{}
	for name, do := range map[string]addOne{"one": inOne, "four": inFour} {
		before := cpu(t)
		if _, _, err := turns(t.Context(), cars, n, do, own); err != nil {
			t.Fatal(err)
		}
		cost[name] = (cpu(t) - before) / time.Duration(n)
	}
	t.Logf("CPU of a turn, of sidecars, clients, processor and log together: a read and a commit %v, four requests "+
		"%v: %.2f times", cost["one"], cost["four"], float64(cost["one"])/float64(cost["four"]))
}

// turns makes n turns, by four workers on each sidecar. It returns the seq of the last commit, and how many had to
// be made again.
func turns(ctx context.Context, cars []*harness.Sidecar, n int, do addOne,
	counter func(worker int) string) (last uint64, again int, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	var workers sync.WaitGroup
	left := n
	take := func() bool {
		mu.Lock()
		defer mu.Unlock()
		left--
		return left >= 0
	}
	for worker := range 4 * len(cars) {
		c := cars[worker%len(cars)].Client.Session(fmt.Sprint(worker))
		workers.Go(func() {
			for take() {
				for done := false; !done; {
					d, err := do(ctx, c, counter(worker))
					if err != nil {
						cancel(err)
						return
					}
					mu.Lock()
					if done = d.State == api.StateCommitted; done {
						last = max(last, d.Seq)
					} else {
						again++
					}
					mu.Unlock()
				}
			}
		})
	}
	workers.Wait()
	return last, again, context.Cause(ctx)
}

// inOne is a turn of one read and one commit.
func inOne(ctx context.Context, c *client.Client, counter string) (client.Decision, error) {
	got, _, err := c.ReadAll(ctx, counter)
	if err != nil {
		return client.Decision{}, err
	}
	done, err := c.Commit(ctx, client.Commit{Reads: []client.SeenAt{got[0].At()},
		Writes: []client.Write{{Scope: counter, Content: more(got[0].Content)}}})
	var p *client.Problem
	if errors.As(err, &p) && p.Code == "stale_read" {
		return client.Decision{State: api.StateAborted}, nil
	}
	return ended(ctx, c, done.Decision, err)
}

// inFour is a turn of begin, read, write and seal.
func inFour(ctx context.Context, c *client.Client, counter string) (client.Decision, error) {
	tx, err := c.Begin(ctx, client.BeginOptions{})
	if err != nil {
		return client.Decision{}, err
	}
	got, err := tx.Read(ctx, counter)
	if err == nil {
		err = tx.Write(ctx, counter, more(got.Content), client.WriteOptions{})
	}
	if err != nil {
		return client.Decision{}, err
	}
	d, err := tx.Seal(ctx)
	return ended(ctx, c, d, err)
}

// ended is how a transaction ended whose decision did not come in time.
func ended(ctx context.Context, c *client.Client, d client.Decision, err error) (client.Decision, error) {
	var u *client.Undecided
	if errors.As(err, &u) {
		return c.Tx(u.Tx).Ended(ctx)
	}
	return d, err
}

func more(content []byte) []byte {
	v, _ := strconv.Atoi(string(content))
	return strconv.AppendInt(nil, int64(v+1), 10)
}

// cpu is what this process has used so far.
func cpu(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
