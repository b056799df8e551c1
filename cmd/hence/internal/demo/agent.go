package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/retail"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/topology/pause"
)

// Bounds of an agent's patience.
const (
	maxAttempts = 200             // tries of one task
	patience    = 3 * time.Minute // without an answer from the sidecar
	meetBound   = 250 * time.Millisecond
	minBackoff  = 50 * time.Millisecond // before a task is taken up again
	maxBackoff  = 2 * time.Second
)

// agent does tasks one after the other, each as a transaction: read, think, write, seal.
type agent struct {
	name    string
	store   *client.Client
	rng     *rand.Rand
	run     *run
	meeting *meeting // set for the two agents that always want the same order
	plans   bool     // its calls come as planned turns
	turns   int      // of these, for the first time
}

// work settles the tasks in order. An error means that the run cannot go on, not that a task was refused.
func (a *agent) work(ctx context.Context, tasks []int) error {
	if a.meeting != nil {
		defer a.meeting.leave()
	}
	for _, task := range tasks {
		if a.run.stopped() {
			return nil
		}
		if err := a.settle(ctx, task); err != nil {
			return fmt.Errorf("agent %s, task %d: %w", a.name, task, err)
		}
	}
	return nil
}

// settle tries a task until it is committed or given up.
func (a *agent) settle(ctx context.Context, task int) error {
	var previous *client.Tx
	for n := 1; n <= maxAttempts; n++ {
		tx, err := a.open(ctx, previous)
		if err != nil {
			return err
		}
		at := &Attempt{Agent: a.name, Task: task, N: n, Tx: tx.ID()}
		next, err := a.try(ctx, tx, at)
		if err != nil {
			return err
		}
		a.run.ended(at)
		if at.committed() {
			return a.step(ctx)
		}
		if a.run.stopped() { // it is refused, and no next attempt follows
			return nil
		}
		if next.giveUp {
			break
		}
		previous = nil
		if next.successor {
			previous = tx
		}
		if err := pause.Until(ctx, next.backoff, a.run.cfg.Stop); err != nil {
			return err
		}
	}
	a.run.progress.gaveUp.Add(1)
	return nil
}

// further says how to go on after an attempt that did not commit.
type further struct {
	successor bool // open the next transaction as this one's successor; else afresh
	giveUp    bool
	backoff   time.Duration
}

// open begins a transaction; a successor's when there was one before that can have one.
func (a *agent) open(ctx context.Context, previous *client.Tx) (*client.Tx, error) {
	var tx *client.Tx
	err := repeat(ctx, func() (err error) {
		if previous != nil {
			if tx, err = previous.Retry(ctx); !sessionLost(err) {
				return err
			}
			previous = nil
		}
		tx, err = a.store.Begin(ctx, client.BeginOptions{Mode: a.run.cfg.Order, Observe: a.run.cfg.Observe})
		return err
	}, func(err error) bool { return transient(err) || sessionLost(err) }) // said once, so that the agent reads again
	if err != nil {
		return nil, fmt.Errorf("begin a transaction: %w", err)
	}
	return tx, nil
}

// try makes one attempt at a task and fills in its record.
func (a *agent) try(ctx context.Context, tx *client.Tx, at *Attempt) (further, error) {
	return a.finish(ctx, tx, at, a.readThinkWrite(ctx, tx, at))
}

// finish seals an attempt whose writes are in, or says what comes after one whose reads or writes failed with err.
func (a *agent) finish(ctx context.Context, tx *client.Tx, at *Attempt, err error) (further, error) {
	if err == nil {
		return a.seal(ctx, tx, at)
	}
	if errors.Is(err, errToolFailed) {
		return a.toolFailed(ctx, tx, at)
	}
	if ctx.Err() != nil {
		return further{}, ctx.Err()
	}
	if p, ok := errors.AsType[*client.Problem](err); ok && !sessionLost(err) && !transient(err) {
		return a.refused(ctx, tx, at, p)
	}
	if !transient(err) && !sessionLost(err) {
		return further{}, err
	}
	at.End = EndInterrupted // nothing was sealed: whatever the sidecar still knows of it ends by itself
	return further{backoff: minBackoff}, nil
}

// readThinkWrite does the task over what the transaction reads, hands its writes to the transaction, all or none, and
// calls the tools that follow from them.
func (a *agent) readThinkWrite(ctx context.Context, tx *client.Tx, at *Attempt) error {
	result, err := a.run.domain.Run(a.run.tasks[at.Task], &txReader{ctx, tx, at})
	if err != nil {
		return err
	}
	if a.meeting != nil && at.N == 1 {
		a.meeting.meet(ctx, meetBound)
	}
	if err := pause.Until(ctx, a.think(), a.run.cfg.Stop); err != nil {
		return err
	}
	if err := a.writeAll(ctx, tx, at, result.WriteKeys(), result.Writes); err != nil || len(result.Writes) == 0 {
		return err
	}
	if err := a.act(ctx, tx, at); err != nil {
		return err
	}
	return a.step(ctx)
}

// step is the pause of a watched agent before its next step, so that people can see them one by one.
func (a *agent) step(ctx context.Context) error {
	if !a.run.cfg.Watch {
		return nil
	}
	return pause.Until(ctx, a.think()/3, a.run.cfg.Stop)
}

// writeAll hands contents to the transaction, in the order of scopes.
func (a *agent) writeAll(ctx context.Context, tx *client.Tx, at *Attempt, scopes []string,
	contents map[string][]byte) error {
	for _, scope := range scopes {
		content := contents[scope]
		err := insistProblem(ctx, func() error {
			return tx.Write(ctx, scope, content, client.WriteOptions{MediaType: jsonType})
		})
		if err != nil {
			return fmt.Errorf("write %s: %w", scope, err)
		}
		at.Writes = append(at.Writes, WriteRecord{Scope: scope, SHA256: contentHash(content), Bytes: len(content)})
	}
	return nil
}

// think is how long the agent takes between its reads and its writes.
func (a *agent) think() time.Duration {
	return time.Duration((0.5 + a.rng.Float64()) * float64(a.run.cfg.Think))
}

// seal asks for the decision and waits for it.
func (a *agent) seal(ctx context.Context, tx *client.Tx, at *Attempt) (further, error) {
	at.Sealed = true
	var decision client.Decision
	start := time.Now()
	err := insistProblem(ctx, func() (err error) {
		decision, err = tx.Seal(ctx)
		return err
	})
	if err == nil && decided(decision) {
		at.WaitNS = time.Since(start)
		return a.told(at, decision), nil
	}
	if ctx.Err() != nil {
		return further{}, ctx.Err()
	}
	if refused, ok := errors.AsType[*client.Problem](err); ok && !sessionLost(err) {
		return a.refused(ctx, tx, at, refused)
	}
	return a.resolve(ctx, tx, at)
}

func decided(d client.Decision) bool { return d.State == EndCommitted || d.State == EndAborted }

// told writes a decision into the record. A tool that failed may do better next time; the errand begins afresh.
func (a *agent) told(at *Attempt, d client.Decision) further {
	at.End, at.Code, at.Seq, at.Would = d.State, d.Code, d.Seq, d.Would
	if d.Code == "tool_failed" || d.Code == "aborted_by_agent" {
		return further{backoff: minBackoff}
	}
	return further{successor: d.Retryable, giveUp: d.GiveUp || !d.Retryable, backoff: backoff(d.BackoffMs)}
}

// txReader is the store of a task: it reads through the transaction and records what it was given.
type txReader struct {
	ctx context.Context
	tx  *client.Tx
	at  *Attempt
}

var _ retail.Store = (*txReader)(nil)

// Read reads one shard.
func (r *txReader) Read(scope string) ([]byte, bool, error) {
	var shard client.Shard
	err := insistProblem(r.ctx, func() (err error) {
		shard, err = r.tx.Read(r.ctx, scope)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	r.at.Reads = append(r.at.Reads, ReadRecord{
		Scope: scope, Exists: shard.Exists, Version: shard.Version, View: shard.View,
		SHA256: contentHash(shard.Content), Bytes: len(shard.Content),
	})
	return shard.Content, shard.Exists, nil
}
