package baselines

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

// Hence lets each agent work through a sidecar of its own: orders are shards, and a confirmation is a tool call
// that waits for the commit. The world's history is drawn from what the agents were told and what the sink has:
// versions are seqs of the log, so commit order is the order of the history.
type Hence struct {
	World  *World
	Agents []*client.Client
	Tool   string // that confirms; it takes the argument "task" and is held until the commit
	// Sent lists what the sink has, by the transaction and the business key of each call, in its order.
	Sent func() []Arrival

	mu      sync.Mutex
	records []*record
}

// Arrival is one confirmation as the sink has it.
type Arrival struct{ Tx, Key string }

// record is one attempt as its agent knows it.
type record struct {
	tx    string
	reads []Op
	write string
	end   client.Decision
}

// Name is how the table calls it.
func (*Hence) Name() string { return "Hence" }

// Do does one task. An agent that dies leaves its transaction where it is: open, or sealed without having heard of the
// decision. Its next life asks for it, and takes the task up again unless that was committed.
func (b *Hence) Do(ctx context.Context, agent int, t Task) error {
	c := b.Agents[agent]
	tx, err := c.Begin(ctx, client.BeginOptions{})
	for n := 1; err == nil && n <= maxTries; n++ {
		var d client.Decision
		if d, err = b.attempt(ctx, tx, t, n == 1); err != nil {
			break
		}
		if d.State == api.StateCommitted || t.Fault == FaultTool && d.Code == codeAborted {
			return nil
		}
		if d.Code != codeAborted {
			b.World.Refused()
		}
		think(ctx, time.Duration(d.BackoffMs)*time.Millisecond)
		b.World.Waited(time.Duration(d.BackoffMs) * time.Millisecond)
		tx, err = tx.Retry(ctx)
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("refused %d times", maxTries)
}

// codeAborted is the code of what an agent has aborted itself.
const codeAborted = "aborted_by_agent"

// attempt makes one try and returns how it ended.
func (b *Hence) attempt(ctx context.Context, tx *client.Tx, t Task, first bool) (client.Decision, error) {
	r := &record{tx: tx.ID(), write: t.Write}
	b.mu.Lock()
	b.records = append(b.records, r)
	b.mu.Unlock()
	err := b.fill(ctx, tx, t, r)
	dies := t.Fault == FaultCrash && first
	switch {
	case err != nil:
	case t.Fault == FaultTool, dies && len(t.Name)%2 == 0:
		err = tx.Abort(ctx, "the last tool failed, or the agent's former life did not come to its end")
	case dies:
		gone, cancel := context.WithTimeout(ctx, time.Millisecond)
		_, _ = tx.Seal(gone) // its sealer is gone before the answer; the next life asks
		cancel()
		fallthrough
	default:
		_, err = tx.Seal(ctx)
	}
	if p := (*client.Problem)(nil); err != nil && !errors.As(err, &p) {
		return r.end, err
	}
	d, err := tx.Status(ctx, 0)
	for err == nil && !d.Final {
		think(ctx, time.Millisecond)
		d, err = tx.Status(ctx, time.Second)
	}
	if err != nil {
		return d, fmt.Errorf("ask for %s: %w", tx.ID(), err)
	}
	r.end = d
	b.World.Waited(time.Duration(d.WaitedMs) * time.Millisecond)
	return d, ctx.Err()
}

// fill reads, thinks, writes and issues the confirmation.
func (b *Hence) fill(ctx context.Context, tx *client.Tx, t Task, r *record) error {
	values := map[string]int{}
	for _, s := range t.Reads {
		shard, err := tx.Read(ctx, s)
		if err != nil {
			return err
		}
		if shard.Exists {
			if values[s], err = strconv.Atoi(string(shard.Content)); err != nil {
				return fmt.Errorf("what %s holds: %w", s, err)
			}
		}
		r.reads = append(r.reads, Op{Kind: OpRead, Attempt: r.tx, Scope: s, Version: int(shard.Version)})
	}
	think(ctx, t.Think)
	err := tx.Write(ctx, t.Write, []byte(strconv.Itoa(sum(values))), client.WriteOptions{})
	if err != nil {
		return err
	}
	_, err = tx.Effect(ctx, b.Tool, map[string]string{"task": t.Name, "customer": t.Name}, client.EffectOptions{})
	return err
}

// Finish draws the world's history. A shard whose version is not that of its last committed writer has a value that
// no other one may have written.
func (b *Hence) Finish(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	slices.SortStableFunc(b.records, func(x, y *record) int { return cmp.Compare(x.end.Seq, y.end.Seq) })
	last := map[string]uint64{}
	for _, r := range b.records {
		for _, op := range r.reads {
			b.World.note(op)
		}
		if r.end.State != api.StateCommitted {
			b.World.Ended(r.tx, false)
			continue
		}
		last[r.write] = r.end.Seq
		b.World.note(Op{Kind: OpWrite, Attempt: r.tx, Scope: r.write, Version: int(r.end.Seq)})
		b.World.Ended(r.tx, true)
	}
	for _, a := range b.Sent() {
		b.World.Send(a.Tx, a.Key)
	}
	for scope, seq := range last {
		shard, err := b.Agents[0].Get(ctx, scope)
		if err != nil {
			return fmt.Errorf("read %s at the end: %w", scope, err)
		}
		if shard.Version != seq {
			b.World.Write("nobody", scope, 0)
		}
	}
	return nil
}
