package it

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/check"
	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

// finalIn is how long a decided transaction may take to be settled.
const finalIn = time.Minute

// errands is what agents issued, and how their transactions ended, as they were told.
type errands struct {
	mu     sync.Mutex
	issued []check.Issued
	ends   map[string]client.Decision
}

func newErrands() *errands { return &errands{ends: map[string]client.Decision{}} }

// task names what an errand is about and for whom; customers are the scopes on which errands meet.
type task struct {
	Task     string `json:"task"`
	Customer string `json:"customer,omitempty"`
}

// call calls a tool in a transaction and notes it.
func (e *errands) call(ctx context.Context, tx *client.Tx, tool string, args any) (client.Receipt, error) {
	r, err := tx.Effect(ctx, tool, args, client.EffectOptions{})
	if err != nil {
		return r, fmt.Errorf("%s of %s: %w", tool, tx.ID(), err)
	}
	if r.Index != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.issued = append(e.issued, check.Issued{Tx: r.Tx, Index: int(*r.Index), Key: r.Key, Scopes: r.Scopes,
			Held: r.State == api.EffectHeld || r.State == api.EffectStaged})
	}
	return r, nil
}

// send issues a mail and a charge, which wait for the commit.
func (e *errands) send(ctx context.Context, tx *client.Tx, t task) error {
	for _, tool := range []string{"mail.send", "card.charge"} {
		r, err := e.call(ctx, tx, tool, t)
		if err != nil {
			return err
		}
		if r.State != api.EffectHeld {
			return fmt.Errorf("%s of %s is %s: want %s", tool, tx.ID(), r.State, api.EffectHeld)
		}
	}
	return nil
}

// over waits until a transaction is settled and notes how it ended.
func (e *errands) over(ctx context.Context, tx *client.Tx) (client.Decision, error) {
	ctx, cancel := context.WithTimeout(ctx, finalIn)
	defer cancel()
	for {
		d, err := tx.Status(ctx, time.Second)
		if err != nil {
			return d, fmt.Errorf("%s is not settled: %w", tx.ID(), err)
		}
		if d.Final {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.ends[d.Tx] = d
			return d, nil
		}
		if err := pauseFor(ctx, 2*time.Millisecond); err != nil {
			return d, fmt.Errorf("%s is %s and not settled: %w", tx.ID(), d.State, err)
		}
	}
}

func pauseFor(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// sealed seals a transaction, waits until it is settled, and holds that it ended with a code.
func (e *errands) sealed(ctx context.Context, tx *client.Tx, code sequencer.Code) error {
	if _, err := tx.Seal(ctx); err != nil {
		return fmt.Errorf("seal %s: %w", tx.ID(), err)
	}
	return e.ended(ctx, tx, code)
}

// ended waits until a transaction is settled and holds that it ended with a code.
func (e *errands) ended(ctx context.Context, tx *client.Tx, code sequencer.Code) error {
	d, err := e.over(ctx, tx)
	if err != nil {
		return err
	}
	want := api.StateCommitted
	if code != "" {
		want = api.StateAborted
	}
	if d.State != want || d.Code != string(code) {
		return fmt.Errorf("%s is %s %q (%s): want %s %q", tx.ID(), d.State, d.Code, d.Detail, want, code)
	}
	return nil
}

// effects is what agents issued beside what the log, the sinks and the residue topic have.
func (e *errands) effects(tb testing.TB, d *harness.Deployment, s *harness.Sidecar, sent []check.Sent) *check.Effects {
	tb.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	all := &check.Effects{Issued: slices.Clone(e.issued), Sent: sent}
	for tx, end := range e.ends {
		all.Attempts = append(all.Attempts, check.Attempt{Tx: tx, State: check.State(end.State), Seq: end.Seq})
	}
	all.Decisions = checked(decisionsOf(tb, d.Servers, d.Workspace, all.Attempts))
	list, err := s.Client.Residue(tb.Context(), client.ResidueQuery{Limit: 1000})
	if err != nil {
		tb.Fatal(err)
	}
	if list.Truncated {
		tb.Fatalf("there are more than %d residues", len(list.Items))
	}
	for _, r := range list.Items {
		all.Residue = append(all.Residue, check.Unclean{Tx: r.Tx, Index: int(r.Index), Result: r.Result})
	}
	return all
}

// share lets workers do n jobs at once and fails the test with their errors, the first few.
func share(tb testing.TB, workers, n int, do func(ctx context.Context, worker, job int) error) {
	tb.Helper()
	jobs := make(chan int, n)
	for i := range n {
		jobs <- i
	}
	close(jobs)
	var group sync.WaitGroup
	errs := make([]error, n)
	for w := range workers {
		group.Go(func() {
			for job := range jobs {
				errs[job] = do(tb.Context(), w, job)
			}
		})
	}
	group.Wait()
	shown := 0
	for _, err := range errs {
		if err == nil {
			continue
		}
		if shown++; shown > 5 {
			tb.Error("and more")
			break
		}
		tb.Error(err)
	}
}

// none fails the test with violations, the first few.
func none(tb testing.TB, found []check.Violation) {
	tb.Helper()
	for i, v := range found {
		if i == 10 {
			tb.Errorf("and %d more", len(found)-i)
			break
		}
		tb.Error(v)
	}
}

// problemCode is the code of a refused request; empty: it is no problem.
func problemCode(err error) string {
	var p *client.Problem
	if errors.As(err, &p) {
		return p.Code
	}
	return ""
}
