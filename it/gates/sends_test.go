package gates

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hence-dev/hence/it/check"
	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar"
	"github.com/hence-dev/hence/sidecar/client"
)

// vetoing is a hook that says no to what names a task called "vetoed…".
func vetoing(tb testing.TB) sidecar.Hook {
	tb.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || strings.Contains(string(body), `"vetoed`) {
			_, _ = io.WriteString(w, `{"yes": false, "reason": "not this one"}`) // an agent that is gone does not care
			return
		}
		_, _ = io.WriteString(w, `{"yes": true}`)
	}))
	tb.Cleanup(server.Close)
	return sidecar.Hook{URL: server.URL}
}

// mistake is a way in which a transaction that holds a mail and a charge does not come to its commit.
type mistake struct {
	name string
	make func(ctx context.Context, e *harness.Errands, s, other *harness.Sidecar, t harness.Task) error
}

func mistakes() []mistake {
	return []mistake{
		{"tool failed", failedTool}, {"lost branch", lostBranch}, {"stale read", staleRead}, {"vetoed", vetoed},
		{"timed out", timedOut},
	}
}

// failedTool calls a tool whose sink acts and never answers: its outcome is unknown.
func failedTool(ctx context.Context, e *harness.Errands, s, _ *harness.Sidecar, t harness.Task) error {
	tx, err := s.Client.Begin(ctx, client.BeginOptions{})
	if err != nil {
		return err
	}
	if err := e.Send(ctx, tx, t); err != nil {
		return err
	}
	if _, err := tx.Effect(ctx, "row.fail", harness.Task{Task: t.Task}, client.EffectOptions{}); err == nil {
		return fmt.Errorf("a tool that does not answer was called without an error in %s", tx.ID())
	}
	return e.Ended(ctx, tx, sequencer.CodeToolFailed)
}

// lostBranch sends in one branch and chooses the other.
func lostBranch(ctx context.Context, e *harness.Errands, s, _ *harness.Sidecar, t harness.Task) error {
	group, err := s.Client.Speculate(ctx, 2, client.BeginOptions{})
	if err != nil {
		return err
	}
	loser, winner := group.Branches()[0], group.Branches()[1]
	if err := e.Send(ctx, loser, t); err != nil {
		return err
	}
	if _, err := group.Select(ctx, winner); err != nil {
		return err
	}
	if err := e.Sealed(ctx, winner, ""); err != nil {
		return err
	}
	return e.Sealed(ctx, loser, sequencer.CodeLostBranch)
}

// staleRead reads what another agent then overwrites.
func staleRead(ctx context.Context, e *harness.Errands, s, other *harness.Sidecar, t harness.Task) error {
	tx, err := s.Client.Begin(ctx, client.BeginOptions{})
	if err != nil {
		return err
	}
	scope := "shard:/stale/" + t.Task
	if _, err := tx.Read(ctx, scope); err != nil {
		return err
	}
	if err := e.Send(ctx, tx, t); err != nil {
		return err
	}
	between, err := other.Client.Begin(ctx, client.BeginOptions{})
	if err != nil {
		return err
	}
	if err := between.Write(ctx, scope, []byte("1"), client.WriteOptions{}); err != nil {
		return err
	}
	if err := e.Sealed(ctx, between, ""); err != nil {
		return err
	}
	return e.Sealed(ctx, tx, sequencer.CodeStaleRead)
}

// vetoed is refused by the hook.
func vetoed(ctx context.Context, e *harness.Errands, s, _ *harness.Sidecar, t harness.Task) error {
	tx, err := s.Client.Begin(ctx, client.BeginOptions{})
	if err != nil {
		return err
	}
	t.Task = "vetoed-" + t.Task
	if err := e.Send(ctx, tx, t); err != nil {
		return err
	}
	return e.Sealed(ctx, tx, sequencer.CodeVetoed)
}

// timedOut lets its deadline pass.
func timedOut(ctx context.Context, e *harness.Errands, s, _ *harness.Sidecar, t harness.Task) error {
	mode := []string{"optimistic", "ordered", "locked"}[len(t.Task)%3]
	tx, err := s.Client.Begin(ctx, client.BeginOptions{Mode: mode, DeadlineMs: 500})
	if err != nil {
		return err
	}
	if err := e.Send(ctx, tx, t); err != nil && harness.ProblemCode(err) != string(sequencer.CodeDeadline) {
		return err
	}
	return e.Ended(ctx, tx, sequencer.CodeDeadline)
}

// TestIrreversibleSends lets transactions that hold a mail and a charge end in five ways that are no commit, beside
// others that commit: nothing of the former leaves, all of the latter arrives, once.
func TestIrreversibleSends(t *testing.T) {
	const workers = 4
	bad := harness.Number(t, "HENCE_IT_SENDS", harness.OnReal(20, harness.Sample(20)))
	kinds := mistakes()
	good := bad * len(kinds)
	d, shop, e := harness.Deploy(t, harness.Start(t)), harness.OpenShop(t), harness.NewErrands()
	sidecars := d.SidecarsWith(t, workers, sidecar.Config{Tools: shop.Tools(t), Hook: vetoing(t)})
	other := d.Sidecar(t, "other")
	harness.Share(t, 2*workers, bad*len(kinds)+good, func(ctx context.Context, worker, job int) error {
		s := sidecars[worker%workers]
		about := harness.Task{Task: fmt.Sprintf("t%d", job), Customer: fmt.Sprintf("c%d", job%10)}
		if job%2 == 0 {
			tx, err := s.Client.Begin(ctx, client.BeginOptions{})
			if err == nil {
				err = e.Send(ctx, tx, about)
			}
			if err == nil {
				err = e.Sealed(ctx, tx, "")
			}
			if err != nil {
				err = fmt.Errorf("valid task %d: %w", job, err)
			}
			return err
		}
		kind := kinds[job/2%len(kinds)]
		if err := kind.make(ctx, e, s, other, about); err != nil {
			return fmt.Errorf("%s, task %d: %w", kind.name, job, err)
		}
		return nil
	})
	mails, _ := shop.Mails(t)
	charges := shop.Charges(t)
	found := e.Effects(t, d, sidecars[0], append(mails[:len(mails):len(mails)], charges...))
	harness.NoViolations(t, found.Leaks())
	harness.NoViolations(t, found.Duplicates())
	harness.NoViolations(t, found.Lost())
	t.Logf("%d sources of aborts x %d invalid sends: %d leaked; of %d valid ones %d have their mail, %d their charge",
		len(kinds), bad, len(found.Leaks()), good, len(mails), len(charges))
	if len(mails) != good || len(charges) != good {
		t.Errorf("%d mails and %d charges: want %d of each", len(mails), len(charges), good)
	}
	ends := map[string]int{}
	for _, end := range e.Ends {
		ends[end.State+" "+end.Code]++
	}
	t.Logf("the transactions ended: %v; calls issued: %d", ends, len(found.Issued))
	counts(t, found, 2*good)
}

// counts holds that so many held effects belong to committed transactions: a test that issued none would find nothing.
func counts(t *testing.T, found *check.Effects, want int) {
	t.Helper()
	committed := map[string]bool{}
	for _, d := range found.Decisions {
		if d.Kind == string(check.Committed) {
			committed[d.Tx] = true
		}
	}
	n := 0
	for _, i := range found.Issued {
		if i.Held && committed[i.Tx] {
			n++
		}
	}
	if n != want {
		t.Errorf("%d held effects of committed transactions were issued: want %d", n, want)
	}
}
