package order

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sidecar/client"
)

// skewWorkers pairs are under way at once, each over two scopes of its own.
const skewWorkers = 32

// TestWriteSkew lets pairs of transactions, from two sidecars, both read x and y before either seals, and each write
// one of them. Both committing is write skew; none committing is needless.
func TestWriteSkew(t *testing.T) {
	pairs := harness.Number(t, "HENCE_IT_PAIRS", harness.OnReal(8_000, harness.Sample(2_000)))
	d := harness.Deploy(t, harness.Start(t))
	a, b := d.Sidecar(t, "agent-a"), d.Sidecar(t, "agent-b")
	var both, one, none, next atomic.Int64
	start := time.Now()
	ctx, fail := context.WithCancelCause(t.Context())
	defer fail(nil)
	var workers sync.WaitGroup
	for w := range skewWorkers {
		workers.Go(func() {
			for int(next.Add(1)) <= pairs && ctx.Err() == nil {
				committed, err := skewPair(ctx, a, b, w)
				switch {
				case err != nil:
					fail(err)
				case committed == 2:
					both.Add(1)
				case committed == 1:
					one.Add(1)
				default:
					none.Add(1)
				}
			}
		})
	}
	workers.Wait()
	if err := context.Cause(ctx); err != nil {
		t.Fatalf("after %d pairs: %v", both.Load()+one.Load()+none.Load(), err)
	}
	t.Logf("of %d pairs both committed %d times, one %d times, none %d times; %.0f pairs/s", pairs, both.Load(),
		one.Load(), none.Load(), float64(pairs)/time.Since(start).Seconds())
	if both.Load() != 0 {
		t.Errorf("write skew: both of a pair committed %d times", both.Load())
	}
	if int(one.Load())*100 < pairs*99 {
		t.Errorf("exactly one of a pair committed in %d of %d: want at least 99 %%", one.Load(), pairs)
	}
}

// skewPair is one pair; it returns how many of the two committed.
func skewPair(ctx context.Context, a, b *harness.Sidecar, worker int) (committed int, err error) {
	x, y := fmt.Sprintf("shard:/skew/%d/x", worker), fmt.Sprintf("shard:/skew/%d/y", worker)
	var txs [2]*client.Tx
	err = together(2, func(i int) (err error) {
		s, write := a, x
		if i == 1 {
			s, write = b, y
		}
		if txs[i], err = s.Client.Begin(ctx, client.BeginOptions{}); err != nil {
			return err
		}
		for _, scope := range []string{x, y} {
			if _, err := txs[i].Read(ctx, scope); err != nil {
				return err
			}
		}
		return txs[i].Write(ctx, write, []byte(txs[i].ID()), client.WriteOptions{MediaType: "text/plain"})
	})
	if err != nil {
		return 0, err
	}
	var decisions [2]client.Decision
	err = together(2, func(i int) (err error) {
		decisions[i], err = txs[i].Seal(ctx)
		return err
	})
	for _, d := range decisions {
		switch d.State {
		case "committed":
			committed++
		case "aborted":
		default:
			err = errors.Join(err, fmt.Errorf("%s is %q", d.Tx, d.State))
		}
	}
	return committed, err
}

// together calls do for 0 to n-1 at once and returns their errors.
func together(n int, do func(int) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = do(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}
