package gates

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hence-dev/hence/gate/sinks"
	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

// branch names a branch of a round for the sinks: what they hold of it says whether it won.
func branch(round, at int, wins bool) string {
	end := "lost"
	if wins {
		end = "won"
	}
	return fmt.Sprintf("%d-%d-%s", round, at, end)
}

// TestResidue opens groups of branches, each of which moves a buffer, a file, a row and a mailbox, and chooses one:
// nothing of the others is left in any sink.
func TestResidue(t *testing.T) {
	const agents = 4
	rounds := harness.Number(t, "HENCE_IT_RESIDUE", harness.OnReal(10, harness.Sample(10)))
	servers := harness.Start(t)
	for _, width := range []int{2, 4, 8, 16} {
		t.Run(fmt.Sprintf("%d_branches", width), func(t *testing.T) {
			d, shop, e := harness.Deploy(t, servers), harness.OpenShop(t), harness.NewErrands()
			sidecars := shop.Sidecars(t, d, agents)
			harness.Share(t, agents, rounds, func(ctx context.Context, worker, round int) error {
				mode := harness.Orders()[round%3]
				g, err := sidecars[worker].Client.Speculate(ctx, width, client.BeginOptions{Mode: mode})
				if err != nil {
					return err
				}
				return speculate(ctx, e, g, round, round%width)
			})
			won, lost := held(t, shop)
			t.Logf("%d rounds of %d branches x 4 sinks: %v of winners, %v of losers are left behind", rounds, width, won, lost)
			for _, sink := range []string{"buffer", "file", "row", "mailbox"} {
				if won[sink] != rounds || lost[sink] != 0 {
					t.Errorf("%s: %d of winners and %d of losers: want %d and 0", sink, won[sink], lost[sink], rounds)
				}
			}
			if found := e.Effects(t, d, sidecars[0], nil); len(found.Residue) > 0 {
				t.Errorf("residue although nothing failed: %v", found.Residue)
			}
		})
	}
}

// speculate lets every branch of a group work, and one of them win.
func speculate(ctx context.Context, e *harness.Errands, g *client.Group, round, winner int) error {
	branches := g.Branches()
	errs := make([]error, len(branches))
	var group sync.WaitGroup
	for i, tx := range branches {
		group.Go(func() { errs[i] = everySink(ctx, e, tx, branch(round, i, i == winner)) })
	}
	group.Wait()
	for i, err := range errs {
		if err != nil {
			return fmt.Errorf("round %d, branch %d: %w", round, i, err)
		}
	}
	if _, err := g.Select(ctx, branches[winner]); err != nil {
		return fmt.Errorf("round %d: choose a branch: %w", round, err)
	}
	if err := e.Sealed(ctx, branches[winner], ""); err != nil {
		return fmt.Errorf("round %d, the winner: %w", round, err)
	}
	for i, tx := range branches {
		if i == winner {
			continue
		}
		if err := e.Ended(ctx, tx, sequencer.CodeLostBranch); err != nil {
			return fmt.Errorf("round %d, branch %d: %w", round, i, err)
		}
	}
	return nil
}

// everySink moves a buffer, a file, a row and a mailbox.
func everySink(ctx context.Context, e *harness.Errands, tx *client.Tx, name string) error {
	for _, c := range []struct {
		tool, state string
		args        any
	}{
		{"note.post", api.EffectStaged, harness.Task{Task: name}},
		{"file.write", api.EffectDone, map[string]string{"path": "branches/" + name, "content": tx.ID()}},
		{"row.add", api.EffectDone, harness.Task{Task: name}},
		{"mail.send", api.EffectHeld, harness.Task{Task: name, Customer: name}},
	} {
		r, err := e.Call(ctx, tx, c.tool, c.args)
		if err == nil && r.State != c.state {
			err = fmt.Errorf("%s of %s is %s: want %s", c.tool, tx.ID(), r.State, c.state)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// held counts what the sinks hold of winners and of losers.
func held(t *testing.T, shop *harness.Shop) (won, lost map[string]int) {
	t.Helper()
	won, lost = map[string]int{}, map[string]int{}
	count := func(sink, name string) {
		if strings.HasSuffix(name, "-won") {
			won[sink]++
		} else {
			lost[sink]++
		}
	}
	for _, d := range shop.Did(t) {
		if d.Path == "/note" {
			count("buffer", d.Task)
		}
	}
	for _, name := range shop.Files(t, "branches") {
		count("file", name)
	}
	for _, row := range shop.Standing(t) {
		count("row", row.Task)
	}
	_, tasks := shop.Mails(t)
	for _, name := range tasks {
		count("mailbox", name)
	}
	return won, lost
}

// TestResidueIsTrue lets compensations fail: what the residue says of each row is what the sink holds.
func TestResidueIsTrue(t *testing.T) {
	const agents = 4
	n := harness.Number(t, "HENCE_IT_RESIDUE_TAGS", harness.OnReal(60, harness.Sample(60)))
	d, shop, e := harness.Deploy(t, harness.Start(t)), harness.OpenShop(t), harness.NewErrands()
	shop.Attempts, shop.MaxTime = 1, time.Second
	sidecars := shop.Sidecars(t, d, agents)
	part, failed := 0, 0
	// Of a dozen calls one at least is put to the test, in all but one of 2,000 runs.
	for _, p := range []float64{0.3, 0.6} {
		for _, status := range []int{422, 503} { // the sink says no, or says nothing that tells
			shop.Ledger.SetFaults(sinks.Faults{Seed: uint64(status), Undo: p, RefuseStatus: status})
			before := shop.Ledger.Injected().UndoFailed
			harness.Share(t, agents, n/4, func(ctx context.Context, worker, job int) error {
				name := fmt.Sprintf("part%d-%d", part, job)
				tx, err := sidecars[worker].Client.Begin(ctx, client.BeginOptions{Mode: harness.Orders()[job%3]})
				if err == nil {
					err = everySink(ctx, e, tx, name)
				}
				if err == nil {
					err = tx.Abort(ctx, "changed its mind")
				}
				if err == nil {
					err = e.Ended(ctx, tx, sequencer.CodeAbortedByAgent)
				}
				return err
			})
			part++
			failed += shop.Ledger.Injected().UndoFailed - before
		}
	}
	tags := map[string]string{}
	for _, r := range e.Effects(t, d, sidecars[0], nil).Residue {
		tags[fmt.Sprintf("%s/%d", r.Tx, r.Index)] = r.Result
	}
	match, kinds := 0, map[string]int{}
	rows := shop.Standing(t)
	for _, did := range shop.Did(t) {
		if did.Path != "/add" {
			continue
		}
		_, stands := rows[did.Key]
		of, _, _ := strings.Cut(did.Key, "@") // transaction and index
		tag := tags[of]
		delete(tags, of)
		kinds[fmt.Sprintf("%s, stands %v", tag, stands)]++
		if stands == (tag == "leaked" || tag == "unresolved") {
			match++
			continue
		}
		t.Errorf("the row of %s stands: %v, and the residue says %q", did.Key, stands, tag)
	}
	t.Logf("tags match the truth in %d of %d; %d compensations failed; by tag: %v", match, n/4*4, failed, kinds)
	if match != n/4*4 || len(tags) > 0 {
		t.Errorf("want %d; residue of what is no row: %v", n/4*4, tags)
	}
	if failed == 0 {
		t.Error("no compensation failed: nothing was put to the test")
	}
	if left := shop.Files(t, "branches"); len(left) > 0 {
		t.Errorf("%d files are left behind", len(left))
	}
}
