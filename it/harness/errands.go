package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/check"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/topology/pause"
)

// FinalIn is how long a decided transaction may take to be settled.
const FinalIn = time.Minute

// Errands is what agents issued, and how their transactions ended, as they were told.
type Errands struct {
	mu     sync.Mutex
	Issued []check.Issued
	Ends   map[string]client.Decision
}

// NewErrands has none yet.
func NewErrands() *Errands { return &Errands{Ends: map[string]client.Decision{}} }

// Task names what an errand is about and for whom; customers are the scopes on which errands meet.
type Task struct {
	Task     string `json:"task"`
	Customer string `json:"customer,omitempty"`
}

// Call calls a tool in a transaction and notes it.
func (e *Errands) Call(ctx context.Context, tx *client.Tx, tool string, args any) (client.Receipt, error) {
	r, err := tx.Effect(ctx, tool, args, client.EffectOptions{})
	if err != nil {
		return r, fmt.Errorf("%s of %s: %w", tool, tx.ID(), err)
	}
	if r.Index != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.Issued = append(e.Issued, check.Issued{Tx: r.Tx, Index: int(*r.Index), Key: r.Key, Scopes: r.Scopes,
			Held: r.State == api.EffectHeld || r.State == api.EffectStaged})
	}
	return r, nil
}

// Send issues a mail and a charge, which wait for the commit.
func (e *Errands) Send(ctx context.Context, tx *client.Tx, t Task) error {
	for _, tool := range []string{"mail.send", "card.charge"} {
		r, err := e.Call(ctx, tx, tool, t)
		if err != nil {
			return err
		}
		if r.State != api.EffectHeld {
			return fmt.Errorf("%s of %s is %s: want %s", tool, tx.ID(), r.State, api.EffectHeld)
		}
	}
	return nil
}

// Over waits until a transaction is settled and notes how it ended.
func (e *Errands) Over(ctx context.Context, tx *client.Tx) (client.Decision, error) {
	ctx, cancel := context.WithTimeout(ctx, FinalIn)
	defer cancel()
	for {
		d, err := tx.Status(ctx, time.Second)
		if err != nil {
			return d, fmt.Errorf("%s is not settled: %w", tx.ID(), err)
		}
		if d.Final {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.Ends[d.Tx] = d
			return d, nil
		}
		if err := pause.Sleep(ctx, 2*time.Millisecond); err != nil {
			return d, fmt.Errorf("%s is %s and not settled: %w", tx.ID(), d.State, err)
		}
	}
}

// Sealed seals a transaction, waits until it is settled, and holds that it ended with a code.
func (e *Errands) Sealed(ctx context.Context, tx *client.Tx, code sequencer.Code) error {
	if _, err := tx.Seal(ctx); err != nil {
		return fmt.Errorf("seal %s: %w", tx.ID(), err)
	}
	return e.Ended(ctx, tx, code)
}

// Ended waits until a transaction is settled and holds that it ended with a code.
func (e *Errands) Ended(ctx context.Context, tx *client.Tx, code sequencer.Code) error {
	d, err := e.Over(ctx, tx)
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

// Effects is what agents issued beside what the log, the sinks and the residue topic have.
func (e *Errands) Effects(tb testing.TB, d *Deployment, s *Sidecar, sent []check.Sent) *check.Effects {
	tb.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	all := &check.Effects{Issued: slices.Clone(e.Issued), Sent: sent}
	for tx, end := range e.Ends {
		all.Attempts = append(all.Attempts, check.Attempt{Tx: tx, State: check.State(end.State), Seq: end.Seq})
	}
	all.Decisions = Checked(DecisionsOf(tb, d.Servers, d.Workspace, all.Attempts))
	all.Residue = Residue(tb, s.Client)
	return all
}

// Residue is all residue of a workspace, as a sidecar lists it and the checkers read it.
func Residue(tb testing.TB, c *client.Client) (all []check.Unclean) {
	tb.Helper()
	list, err := c.Residue(tb.Context(), client.ResidueQuery{Limit: 1000})
	if err != nil {
		tb.Fatal(err)
	}
	if list.Truncated {
		tb.Fatalf("there are more than %d residues", len(list.Items))
	}
	for _, r := range list.Items {
		all = append(all, check.Unclean{Tx: r.Tx, Index: int(r.Index), Result: r.Result})
	}
	return all
}

// Share lets workers do n jobs at once and fails the test with their errors, the first few.
func Share(tb testing.TB, workers, n int, do func(ctx context.Context, worker, job int) error) {
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

// NoViolations fails the test with violations, the first few.
func NoViolations(tb testing.TB, found []check.Violation) {
	tb.Helper()
	for i, v := range found {
		if i == 10 {
			tb.Errorf("and %d more", len(found)-i)
			break
		}
		tb.Error(v)
	}
}

// ProblemCode is the code of a refused request; empty: it is no problem.
func ProblemCode(err error) string {
	var p *client.Problem
	if errors.As(err, &p) {
		return p.Code
	}
	return ""
}
