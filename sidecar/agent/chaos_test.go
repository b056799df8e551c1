package agent

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
	"github.com/hence-dev/hence/sidecar/view"
)

var seed = flag.Uint64("seed", 1, "of TestChaos")

// Agents count in shards while their connections are lost, held back and cut, answers of appends get lost, and leases
// end. Every count that an agent was told of is there, no other is, and every agent gets done.
func TestChaos(t *testing.T) {
	const agents, counts, shards = 4, 25, 2
	log := newLog()
	ctx, cancel := context.WithTimeout(context.Background(), 2*testWait)
	defer cancel()
	doors := make([]*memlog.Door, agents)
	rigs := make([]*rig, agents)
	for i := range agents {
		doors[i] = log.Door()
		rigs[i] = start(t, fmt.Sprintf("agent%d", i), doors[i])
	}
	working, done := context.WithCancel(ctx)
	var nemesis, group sync.WaitGroup
	nemesis.Go(func() { torment(working, t, log, doors) })
	told := make([][shards]int, agents)
	for i, r := range rigs {
		group.Go(func() {
			random := rand.New(rand.NewPCG(*seed, uint64(i)))
			for range counts {
				shard := random.IntN(shards)
				mode := []string{"optimistic", "ordered", "locked"}[random.IntN(3)]
				if err := count(ctx, r.client, fmt.Sprintf("shard:/counter/%d", shard), mode); err != nil {
					t.Errorf("agent %d: %v", i, err)
					return
				}
				told[i][shard]++
			}
		})
	}
	group.Wait()
	done()
	nemesis.Wait()
	for shard := range shards {
		want := 0
		for i := range agents {
			want += told[i][shard]
		}
		scope := fmt.Sprintf("shard:/counter/%d", shard)
		if err := rigs[0].view.Reach(ctx, log.Seq()); err != nil { // what was read before it got there proves nothing
			t.Fatal(err)
		}
		got := must(rigs[0].client.Get(ctx, scope))(t)
		if string(got.Content) != strconv.Itoa(want) {
			t.Errorf("seed %d: %s is %s, the agents were told of %d", *seed, scope, got.Content, want)
		}
	}
	t.Logf("seed %d: %d decisions, %d commits", *seed, log.Seq(), len(committed(log)))
}

// count adds one to a counter, once: it is done when a commit was told.
func count(ctx context.Context, c *client.Client, scope, mode string) error {
	tx, err := begin(ctx, c, mode)
	for err == nil {
		var d client.Decision
		if d, err = increment(ctx, tx, scope); err == nil && d.State == api.StateCommitted {
			return nil
		}
		var p *client.Problem
		if err != nil && !errors.As(err, &p) {
			return err
		}
		if tx, err = again(ctx, c, tx, mode); err == nil && tx == nil {
			return nil // it had committed
		}
	}
	return err
}

// again is the next attempt; nil when the one before turns out to be committed.
func again(ctx context.Context, c *client.Client, tx *client.Tx, mode string) (*client.Tx, error) {
	var p *client.Problem
	next, err := tx.Retry(ctx)
	if errors.As(err, &p) && p.Code == api.CodeNotAborted { // the seal is not decided, or was not taken
		if err = tx.Abort(ctx, "to be sure"); err == nil {
			next, err = tx.Retry(ctx)
		}
	}
	switch {
	case errors.As(err, &p) && p.Code == api.CodeAlreadyCommitted:
		return nil, nil
	case errors.As(err, &p) && (p.Retryable || p.Code == api.CodeGaveUp):
		return begin(ctx, c, mode)
	}
	return next, err
}

// begin opens a transaction, however often the session is lost meanwhile.
func begin(ctx context.Context, c *client.Client, mode string) (*client.Tx, error) {
	for {
		tx, err := c.Begin(ctx, client.BeginOptions{Mode: mode})
		var p *client.Problem
		if err == nil || ctx.Err() != nil || !errors.As(err, &p) || !p.Retryable {
			return tx, err
		}
	}
}

func increment(ctx context.Context, tx *client.Tx, scope string) (client.Decision, error) {
	got, err := tx.Read(ctx, scope)
	if err != nil {
		return client.Decision{}, err
	}
	n, _ := strconv.Atoi(string(got.Content))
	if err := tx.Write(ctx, scope, fmt.Append(nil, n+1), client.WriteOptions{}); err != nil {
		return client.Decision{}, err
	}
	return tx.Seal(ctx)
}

// torment injects one fault after the other, each after the log has moved on a little.
func torment(ctx context.Context, t *testing.T, log *memlog.Log, doors []*memlog.Door) {
	random := rand.New(rand.NewPCG(*seed, 99))
	for ctx.Err() == nil {
		door := doors[random.IntN(len(doors))]
		switch random.IntN(6) {
		case 0:
			door.Hold()
		case 1:
			door.Drop()
		case 2:
			door.FailAppends(1 + random.IntN(3))
		case 3:
			door.LoseAnswers(1 + random.IntN(3))
		case 4:
			door.Silence(random.IntN(2) == 0)
		case 5:
			if err := log.Tick(1 + random.IntN(30)); err != nil {
				t.Error(err)
			}
		}
		next := log.Seq() + sequencer.Seq(1+random.IntN(12))
		short, cancel := context.WithTimeout(ctx, view.PauseLeast)
		err := log.Until(short, func() bool { return log.Seq() >= next })
		cancel()
		door.Release()
		if err != nil { // nothing moves: heal, and go on when it does
			heal(doors)
			next = log.Seq() + 1
			_ = log.Until(ctx, func() bool { return log.Seq() >= next })
		}
	}
	heal(doors)
}

func heal(doors []*memlog.Door) {
	for _, door := range doors {
		door.Silence(false)
		door.FailAppends(0)
		door.LoseAnswers(0)
	}
}
