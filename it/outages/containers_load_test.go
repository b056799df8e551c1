package outages

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/check"
	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/it/traffic"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/topology/pause"
)

// Bounds of an agent under faults.
const (
	boxAttempt  = 6 * time.Second // then the agent does not know what became of its transaction
	boxDeadline = 15_000          // ms; what was left open ends by then
	boxLast     = time.Minute     // for one of the last transactions
	boxScopes   = 40
	boxThink    = 15 * time.Millisecond
)

// boxAgent is a program that goes on whatever happens: what it does not know after a while is unknown, and it begins
// something new.
type boxAgent struct {
	name string
	cl   *client.Client
	rng  *rand.Rand
	n    int
	last error // why it does not know what became of its last attempt
}

// agentsOf are programs for sidecars of this process.
func agentsOf(tb testing.TB, d *harness.Deployment, sidecars []*harness.Sidecar) (all []*boxAgent) {
	tb.Helper()
	for i, s := range sidecars {
		cl := client.New(s.URL, s.Token, client.WithWorkspace(d.Workspace), client.WithTries(2))
		tb.Cleanup(cl.Close)
		all = append(all, &boxAgent{name: s.Agent, cl: cl, rng: rand.New(rand.NewPCG(31, uint64(i)))})
	}
	return all
}

// boxLoad is what agents do and were told, while faults go on.
type boxLoad struct {
	*harness.Errands
	start      time.Time
	deadlineMs int // of a transaction

	mu       sync.Mutex
	attempts []check.Attempt
	open     map[string]int64 // transactions under way, with their start
	commits  int
	moved    chan struct{}
}

func newBoxLoad() *boxLoad {
	return &boxLoad{Errands: harness.NewErrands(), start: time.Now(), deadlineMs: boxDeadline, open: map[string]int64{},
		moved: make(chan struct{})}
}

func (l *boxLoad) now() int64 { return int64(time.Since(l.start)) + 1 }

// run lets the agents work until the returned function is called, which waits for their last attempts.
func (l *boxLoad) run(ctx context.Context, agents []*boxAgent) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var working sync.WaitGroup
	for _, a := range agents {
		working.Go(func() {
			for ctx.Err() == nil {
				if l.attempt(ctx, a) != check.Unknown {
					_ = pause.Sleep(ctx, boxThink) // its end is the loop's
				} else {
					_ = pause.Sleep(ctx, 10*boxThink)
				}
			}
		})
	}
	return func() {
		cancel()
		working.Wait()
	}
}

// attempt makes one transaction and records it; its own end does not follow ctx.
func (l *boxLoad) attempt(ctx context.Context, a *boxAgent) check.State {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), boxAttempt)
	defer cancel()
	start, n := l.now(), a.n
	a.n++
	tx, err := a.cl.Begin(ctx, client.BeginOptions{Mode: harness.Orders()[n%3], DeadlineMs: l.deadlineMs})
	if err != nil {
		a.last = err
		return check.Unknown // no answer came
	}
	attempt := check.Attempt{Agent: a.name, Tx: tx.ID(), State: check.Unknown, Start: start}
	l.mu.Lock()
	l.open[tx.ID()] = start
	l.mu.Unlock()
	defer func() { l.add(attempt) }()
	var d client.Decision
	if err = l.fill(ctx, a, tx, &attempt, n); err == nil {
		d, err = tx.Seal(ctx)
	}
	if harness.ProblemCode(err) != "" { // refused: the decision says why
		d, err = tx.Status(ctx, time.Second)
	}
	if a.last = err; err == nil && (d.State == api.StateCommitted || d.State == api.StateAborted) {
		attempt.State, attempt.Seq, attempt.Code, attempt.End = check.State(d.State), d.Seq, d.Code, l.now()
	}
	return attempt.State
}

// fill reads two scopes, writes one, and in every second transaction sends something.
func (l *boxLoad) fill(ctx context.Context, a *boxAgent, tx *client.Tx, attempt *check.Attempt, n int) error {
	scopes := traffic.Scopes(a.rng, boxScopes, 2)
	for _, scope := range scopes {
		shard, err := tx.Read(ctx, scope)
		if err != nil {
			return err
		}
		attempt.Reads = append(attempt.Reads, check.Read{Scope: scope, Version: shard.Version, View: shard.View,
			SHA256: traffic.Hash(shard.Content)})
	}
	content := fmt.Appendf(nil, "%s/%d", a.name, n)
	if err := tx.Write(ctx, scopes[0], content, client.WriteOptions{MediaType: "text/plain"}); err != nil {
		return err
	}
	attempt.Writes = append(attempt.Writes, check.Write{Scope: scopes[0], SHA256: traffic.Hash(content)})
	if n%2 == 1 {
		return nil
	}
	about := harness.Task{Task: tx.ID(), Customer: fmt.Sprintf("c%d", a.rng.IntN(8))}
	_, err := l.Call(ctx, tx, []string{"card.charge", "mail.send"}[a.rng.IntN(2)], about)
	return err
}

func (l *boxLoad) add(a check.Attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, a.Tx)
	l.attempts = append(l.attempts, a)
	if a.State == check.Committed {
		l.commits++
		close(l.moved)
		l.moved = make(chan struct{})
	}
}

// reach waits for further commits.
func (l *boxLoad) reach(n int, bound time.Duration) error {
	l.mu.Lock()
	from := l.commits
	l.mu.Unlock()
	deadline := time.After(bound)
	for {
		l.mu.Lock()
		have, moved := l.commits-from, l.moved
		l.mu.Unlock()
		if have >= n {
			return nil
		}
		select {
		case <-moved:
		case <-deadline:
			return fmt.Errorf("%d of %d further transactions were committed within %v", have, n, bound)
		}
	}
}

// busy is the number of transactions under way now.
func (l *boxLoad) busy() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

func (l *boxLoad) figures() (text string, commits int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ends := map[check.State]int{}
	for _, a := range l.attempts {
		ends[a.State]++
	}
	return fmt.Sprintf("%d attempts, %d committed, %d aborted, %d unknown", len(l.attempts), ends[check.Committed],
		ends[check.Aborted], ends[check.Unknown]), ends[check.Committed]
}

// lastOnes lets every agent commit five transactions one after the other, each in bound: refusals and waits are tried
// again, trouble is not.
func (l *boxLoad) lastOnes(t *testing.T, agents []*boxAgent) {
	t.Helper()
	errs := make([]error, len(agents))
	var working sync.WaitGroup
	for i, a := range agents {
		working.Go(func() {
			for n := 0; n < 5 && errs[i] == nil; n++ {
				errs[i] = l.oneOfTheLast(t.Context(), a)
			}
		})
	}
	working.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatalf("after all is well again: %v", err)
	}
}

func (l *boxLoad) oneOfTheLast(ctx context.Context, a *boxAgent) error {
	for began := time.Now(); time.Since(began) < boxLast; {
		switch l.attempt(ctx, a) {
		case check.Committed:
			return nil
		case check.Unknown:
			// It waits, perhaps for all of an attempt: what a killed sidecar left takes its lease to be settled.
			if a.last == nil || errors.Is(a.last, context.DeadlineExceeded) {
				continue
			}
			return fmt.Errorf("%s does not know what became of a transaction: %w", a.name, a.last)
		case check.Aborted: // another agent was before it
		}
		if err := pause.Sleep(ctx, time.Duration(a.rng.IntN(50))*time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s was refused, or waited, for %v: %v", a.name, boxLast, a.last)
}
