package demo

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
)

// decisionLog is what the decision log says of each transaction, up to a seq that grows while it is followed.
type decisionLog struct {
	mu     sync.Mutex
	byTx   map[string]logged
	seq    uint64
	moved  chan struct{} // closed and replaced when seq moves
	failed error
}

func newDecisionLog() *decisionLog {
	return &decisionLog{byTx: map[string]logged{}, moved: make(chan struct{})}
}

// follow reads the workspace's decisions from its first until the context ends.
func (l *decisionLog) follow(ctx context.Context, c *streams.Client, workspace string) {
	err := c.Follow(ctx, workspace, 0, l.apply)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = fmt.Errorf("follow the decisions: %w", err)
	close(l.moved)
	l.moved = make(chan struct{})
}

func (l *decisionLog) apply(out *sequencer.Outcome, _ streams.Way) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	tx := string(out.Tx)
	if out.Kind == sequencer.OutcomeCommitted || out.Kind == sequencer.OutcomeAborted {
		if before, ok := l.byTx[tx]; ok {
			return fmt.Errorf("transaction %s is decided twice, at seq %d and %d", tx, before.seq, out.Seq)
		}
		l.byTx[tx] = logged{
			committed: out.Kind == sequencer.OutcomeCommitted, code: string(out.Code), seq: uint64(out.Seq),
			final: out.Final,
		}
	}
	if d, ok := l.byTx[tx]; ok && out.Final {
		d.final = true
		l.byTx[tx] = d
	}
	l.seq = uint64(out.Seq)
	close(l.moved)
	l.moved = make(chan struct{})
	return nil
}

// upTo waits until every decision up to seq is there.
func (l *decisionLog) upTo(ctx context.Context, seq uint64) error {
	return l.until(ctx, func() error {
		if l.seq < seq {
			return fmt.Errorf("the decision log ends at seq %d, want %d", l.seq, seq)
		}
		return nil
	})
}

// settled waits until every transaction that is decided is settled, too.
func (l *decisionLog) settled(ctx context.Context) error {
	return l.until(ctx, func() error {
		open := 0
		for _, d := range l.byTx {
			if !d.final {
				open++
			}
		}
		if open > 0 {
			return fmt.Errorf("%d decided transactions are not settled", open)
		}
		return nil
	})
}

// until waits until what is known of the log is enough; enough is called under the lock.
func (l *decisionLog) until(ctx context.Context, enough func() error) error {
	for {
		l.mu.Lock()
		missing, moved, failed := enough(), l.moved, l.failed
		l.mu.Unlock()
		if missing == nil {
			return nil
		}
		if failed != nil {
			return failed
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", missing, context.Cause(ctx))
		}
	}
}

func (l *decisionLog) of(tx string) (logged, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d, ok := l.byTx[tx]
	return d, ok
}

// snapshot returns everything known so far. The map is the caller's.
func (l *decisionLog) snapshot() map[string]logged {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make(map[string]logged, len(l.byTx))
	for tx, d := range l.byTx {
		all[tx] = d
	}
	return all
}

var errNoEnd = errors.New("the decision log could not be read to its end")
