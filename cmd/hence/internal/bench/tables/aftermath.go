package tables

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/hence-dev/hence/gate/sinks"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

// taken is a part that was taken: by which transaction or run, and at which index.
type taken struct {
	tx    string
	index int
}

// standing are the parts that were taken and not given back, as the ledger has them.
func (o *outside) standing() (map[taken]bool, error) {
	all, keys := map[taken]bool{}, map[string]taken{}
	for _, e := range o.ledger.Entries() {
		said, err := e.Said()
		switch {
		case err != nil:
			return nil, fmt.Errorf("read what the ledger has: %w", err)
		case e.Path == "/take":
			at := taken{said.Tx, said.Index}
			all[at], keys[e.Key] = true, at
		case e.Compensates != "":
			delete(all, keys[e.Compensates])
		}
	}
	return all, nil
}

// refusals of a compensation, each with its status: turned down for good, for now, and because its time is over.
func refusedBy() []int {
	return []int{http.StatusBadRequest, http.StatusTooManyRequests, http.StatusForbidden}
}

// tagTrials is what trials of one rate came to.
type tagTrials struct {
	trials, aborted    int
	stand              int // parts of aborted trials that the ledger still has
	differ, silent     int // trials in which the list and the ledger differ; with a list that calls all clean
	leaked, unresolved int // tags
	saga, retried      int // runs beside it that failed, and whose reports differ from the ledger
}

// tags makes trials whose compensations fail at a rate, of which one in five fails, on Hence and beside it.
func (e *Env) tags(ctx context.Context, o *outside, place Place, rate, n int) (out tagTrials, err error) {
	var bySagas, byTries []account
	for k, status := range refusedBy() {
		share := float64(rate) / 100
		o.ledger.SetFaults(sinks.Faults{Seed: e.Seed, Undo: share, Lose: share, RefuseStatus: status})
		for i := k; i < n; i += len(refusedBy()) {
			run, fails := fmt.Sprintf("tags %d %d", rate, i), i/len(refusedBy())%5 == 0
			if err := out.trial(ctx, o, place, run, fails); err != nil {
				return out, err
			}
			saga, tries := o.beside(ctx, run, fails)
			bySagas, byTries = append(bySagas, saga), append(byTries, tries)
			out.trials++
		}
	}
	o.ledger.SetFaults(sinks.Faults{})
	stands, err := o.standing()
	out.saga, out.retried = differing(bySagas, stands), differing(byTries, stands)
	return out, err
}

// trial takes two parts in a transaction, which a failing tool may end, and holds the list of residues against the
// ledger.
func (a *tagTrials) trial(ctx context.Context, o *outside, place Place, run string, fails bool) error {
	agent := place.Agents[0]
	tx, err := agent.Begin(ctx, client.BeginOptions{})
	for _, part := range []string{"wheel", "bell"} {
		if err == nil {
			_, err = tx.Effect(ctx, "part.take", map[string]string{"run": run, "part": part}, client.EffectOptions{})
		}
	}
	if err == nil && fails {
		_, err = tx.Effect(ctx, "part.fail", map[string]string{"run": run}, client.EffectOptions{})
	}
	if p := (*client.Problem)(nil); errors.As(err, &p) {
		err = nil // a part may have been given up: the seal says how the transaction stands
	}
	var d client.Decision
	if err == nil {
		d, err = tx.Seal(ctx)
	}
	if err == nil {
		d, err = untilFinal(ctx, tx)
	}
	if err != nil {
		return err
	}
	if d.State == api.StateCommitted {
		return nil
	}
	stands, err := o.standing()
	if err != nil {
		return err
	}
	a.aborted++
	truth := 0
	for at := range stands {
		if at.tx == tx.ID() {
			truth++
		}
	}
	a.stand += truth
	if truth > 0 {
		a.silent++
	}
	list, err := residueOf(ctx, agent, tx.ID(), truth)
	if err != nil {
		return err
	}
	wrong := false
	named := 0
	for _, r := range list {
		if r.Tool != "part.take" {
			continue // the tool that failed
		}
		named++
		wrong = wrong || r.Result == "clean" || !stands[taken{r.Tx, int(r.Index)}]
		if r.Result == "leaked" {
			a.leaked++
		} else {
			a.unresolved++
		}
	}
	if wrong || named != truth {
		a.differ++
	}
	return nil
}

// account is what a way without Hence says of a run: which parts are left, and whether it has failed.
type account struct {
	run    string
	left   []int
	failed bool
}

// beside does the same as a saga, and as a program that only tries again.
func (o *outside) beside(ctx context.Context, run string, fails bool) (bySaga, byTries account) {
	end := func(ctx context.Context) error {
		if !fails {
			return nil
		}
		_, err := o.post(ctx, o.broken+"/fail", nil)
		return err
	}
	w := work{out: o, run: run + " saga"}
	ended := false
	left, _ := sagaOf(ctx, []step{sagaTake(w, 0), sagaTake(w, 1), {do: end}, {do: func(context.Context) error {
		ended = true
		return nil
	}}})
	bySaga = account{w.run, left, !ended}
	w.run = run + " again"
	byTries = account{run: w.run}
	for _, do := range []func(context.Context) error{sagaTake(w, 0).do, sagaTake(w, 1).do, end} {
		const tries = 3
		made := false
		for n := 0; !made && n < tries; n++ {
			made = do(ctx) == nil
		}
		if byTries.failed = !made; !made {
			break // it has nothing to say of what it has done before
		}
	}
	return bySaga, byTries
}

// differing counts the failed runs of which the ledger has other parts than what was said.
func differing(said []account, stands map[taken]bool) (n int) {
	has := map[string][]int{}
	for at := range stands {
		has[at.tx] = append(has[at.tx], at.index)
	}
	for _, r := range said {
		slices.Sort(has[r.run])
		slices.Sort(r.left)
		if r.failed && !slices.Equal(has[r.run], r.left) {
			n++
		}
	}
	return n
}

func tagged(ctx context.Context, e *Env) (res Result, err error) {
	o, err := openOutside(ctx, "gate.yaml", likes)
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	place, err := e.Ground.Open(ctx, Site{Nodes: 1, Agents: 1, Policy: o.rules, Quiet: true})
	if err != nil {
		return Result{}, err
	}
	rates := []int{80}
	if e.Full {
		rates = []int{0, 10, 30}
	}
	var sum tagTrials
	for _, rate := range rates {
		got, err := e.tags(ctx, o, place, rate, e.of(15, 600))
		if err != nil {
			return Result{}, err
		}
		sum.trials, sum.aborted, sum.stand = sum.trials+got.trials, sum.aborted+got.aborted, sum.stand+got.stand
		sum.differ, sum.silent = sum.differ+got.differ, sum.silent+got.silent
		sum.leaked, sum.unresolved = sum.leaked+got.leaked, sum.unresolved+got.unresolved
		sum.saga, sum.retried = sum.saga+got.saga, sum.retried+got.retried
	}
	return Result{
		Ours: fmt.Sprintf("lists that differ from the ledger %s; %d trials aborted, of which %d parts stand, %d tagged as "+
			"leaked and %d as unresolved", of(sum.differ, sum.trials), sum.aborted, sum.stand, sum.leaked, sum.unresolved),
		Baseline: fmt.Sprintf("a list that calls all clean %d, a saga %d, tries alone %d", sum.silent, sum.saga,
			sum.retried),
		Verdict: holds(sum.differ == 0 && sum.silent > 0 && sum.retried > 0),
		Note: fmt.Sprintf("compensations fail in %v of a hundred; one trial in five fails after it has taken two parts. A "+
			"third each is refused for good, for now, and because its time is over, and answers are lost at the same "+
			"rate. What is unresolved counts as named, if it stands. The saga reports what it was refused, and is wrong "+
			"where an answer was lost", rates)}, nil
}

// residueOf is what the list has of a transaction; where something is known to stand, once it is there.
func residueOf(ctx context.Context, c *client.Client, tx string, stands int) ([]client.Residue, error) {
	if stands > 0 {
		return listed(ctx, c, tx)
	}
	list, err := c.Residue(ctx, client.ResidueQuery{Limit: 100})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(r client.Residue) bool { return r.Tx != tx }), nil
}
