// Package traffic holds agents that work through sidecars over HTTP and record what they did and were told.
package traffic

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hence-dev/hence/it/check"
	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/topology/pause"
)

// Plan is what agents do: each its transactions, one after the other, each over a few scopes of a small set.
type Plan struct {
	Transactions int // of each agent
	Scopes       int // in the set
	Reads        int // of one transaction
	Writes       int // of one transaction, among what it read
	Think        time.Duration
	Modes        []string // an agent's transactions take turns through them; empty: optimistic
	Attempts     int      // tries of one transaction before it is given up; zero: 100
	Seed         uint64
}

// Recorder gathers attempts of many agents.
type Recorder struct {
	mu       sync.Mutex
	start    time.Time
	attempts []check.Attempt
	gaveUp   int
}

// NewRecorder starts a recorder's clock.
func NewRecorder() *Recorder { return &Recorder{start: time.Now()} }

// now is never zero: zero means "not recorded".
func (r *Recorder) now() int64 { return int64(time.Since(r.start)) + 1 }

func (r *Recorder) add(a check.Attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attempts = append(r.attempts, a)
}

// Attempts are the attempts so far.
func (r *Recorder) Attempts() []check.Attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]check.Attempt(nil), r.attempts...)
}

// Figures counts the attempts by their end, and what was given up.
func (r *Recorder) Figures() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	ends := map[check.State]int{}
	for _, a := range r.attempts {
		ends[a.State]++
	}
	return fmt.Sprintf("%d attempts, %d committed, %d aborted, %d unknown, %d given up", len(r.attempts),
		ends[check.Committed], ends[check.Aborted], ends[check.Unknown], r.gaveUp)
}

// Run lets every sidecar's agent work through the plan at once and returns the first error.
func Run(ctx context.Context, sidecars []*harness.Sidecar, plan Plan, rec *Recorder) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var agents sync.WaitGroup
	for i, s := range sidecars {
		w := &worker{Sidecar: s, plan: plan, rec: rec, rng: rand.New(rand.NewPCG(plan.Seed, uint64(i)))}
		agents.Go(func() {
			if err := w.work(ctx); err != nil {
				cancel(fmt.Errorf("agent %s: %w", s.Agent, err))
			}
		})
	}
	agents.Wait()
	return context.Cause(ctx)
}

type worker struct {
	*harness.Sidecar
	plan Plan
	rec  *Recorder
	rng  *rand.Rand
}

func (w *worker) work(ctx context.Context) error {
	for n := range w.plan.Transactions {
		mode := ""
		if len(w.plan.Modes) > 0 {
			mode = w.plan.Modes[n%len(w.plan.Modes)]
		}
		scopes := Scopes(w.rng, w.plan.Scopes, w.plan.Reads)
		if err := w.settle(ctx, mode, scopes, n); err != nil {
			return err
		}
	}
	return nil
}

// ScopeName is the n-th scope of every plan, in canonical form.
func ScopeName(n int) string {
	scope, err := sequencer.ParseScope(fmt.Sprintf("shard:/counters/%03d", n))
	if err != nil {
		panic("traffic: " + err.Error())
	}
	return string(scope)
}

// Scopes draws different scopes of a set.
func Scopes(rng *rand.Rand, of, n int) []string {
	all := make([]string, 0, n)
	for _, i := range rng.Perm(of)[:min(n, of)] {
		all = append(all, ScopeName(i))
	}
	return all
}

// settle tries one transaction until it is committed or given up.
func (w *worker) settle(ctx context.Context, mode string, scopes []string, n int) error {
	most := w.plan.Attempts
	if most == 0 {
		most = 100
	}
	tx, err := w.Client.Begin(ctx, client.BeginOptions{Mode: mode})
	for try := 1; err == nil; try++ {
		start := w.rec.now()
		var d client.Decision
		if d, err = w.attempt(ctx, tx, scopes, fmt.Sprintf("%s/%d/%d", w.Agent, n, try), start); err != nil {
			break
		}
		if d.State == string(check.Committed) {
			return nil
		}
		if !d.Retryable || d.GiveUp || try == most {
			w.rec.mu.Lock()
			w.rec.gaveUp++
			w.rec.mu.Unlock()
			return nil
		}
		if err = pause.Sleep(ctx, time.Duration(d.BackoffMs)*time.Millisecond); err == nil {
			tx, err = tx.Retry(ctx)
		}
	}
	return fmt.Errorf("transaction %d: %w", n, err)
}

// attempt reads, thinks, writes and seals, and records all of it.
func (w *worker) attempt(ctx context.Context, tx *client.Tx, scopes []string, text string, start int64,
) (client.Decision, error) {
	a := check.Attempt{Agent: w.Agent, Tx: tx.ID(), State: check.Unknown, Start: start}
	defer func() { w.rec.add(a) }()
	err := w.fill(ctx, tx, &a, scopes, text)
	var d client.Decision
	if err == nil {
		d, err = tx.Seal(ctx)
	}
	if err != nil {
		if d, err = refusal(ctx, tx, err); err != nil {
			return d, err
		}
	}
	a.State, a.Seq, a.Code, a.End = check.State(d.State), d.Seq, d.Code, w.rec.now()
	return d, nil
}

// fill makes the transaction's reads and writes.
func (w *worker) fill(ctx context.Context, tx *client.Tx, a *check.Attempt, scopes []string, text string) error {
	for _, scope := range scopes {
		shard, err := tx.Read(ctx, scope)
		if err != nil {
			return err
		}
		a.Reads = append(a.Reads, check.Read{Scope: scope, Version: shard.Version, View: shard.View,
			SHA256: Hash(shard.Content)})
	}
	if err := pause.Sleep(ctx, time.Duration((0.5+w.rng.Float64())*float64(w.plan.Think))); err != nil {
		return err
	}
	for i, scope := range scopes[:min(w.plan.Writes, len(scopes))] {
		content := fmt.Appendf(nil, "%s/%d", text, i)
		if err := tx.Write(ctx, scope, content, client.WriteOptions{MediaType: "text/plain"}); err != nil {
			return err
		}
		a.Writes = append(a.Writes, check.Write{Scope: scope, SHA256: Hash(content)})
	}
	return nil
}

// refusal finds the decision behind a refused call.
func refusal(ctx context.Context, tx *client.Tx, why error) (client.Decision, error) {
	var p *client.Problem
	if !errors.As(why, &p) {
		return client.Decision{}, why
	}
	d, err := tx.Status(ctx, 10*time.Second)
	if err != nil {
		return d, errors.Join(why, err)
	}
	if d.State != string(check.Committed) && d.State != string(check.Aborted) {
		return d, fmt.Errorf("%s is %s after %w", tx.ID(), d.State, why)
	}
	return d, nil
}

// Hash is a content's SHA-256 in hexadecimal.
func Hash(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
