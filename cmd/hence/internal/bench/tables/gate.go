package tables

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/report"
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

// deaf is a connection on which each so manieth answer is lost, after the request was served.
type deaf struct {
	every int64
	asked atomic.Int64
	lost  atomic.Int64
}

// RoundTrip is part of http.RoundTripper. The request has the key of its context, if there is one.
func (d *deaf) RoundTrip(r *http.Request) (*http.Response, error) {
	if key, is := r.Context().Value(deaf{}).(string); is && r.Method == http.MethodPost {
		r = r.Clone(r.Context())
		r.Header.Set("Idempotency-Key", key)
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && d.asked.Add(1)%d.every == 0 {
		d.lost.Add(1)
		return nil, errors.Join(errors.New("the answer was lost"), resp.Body.Close())
	}
	return resp, err
}

// underOneKey is a call that is made under one key, however often its sender asks.
func underOneKey(ctx context.Context, c *client.Client, run string) error {
	under := context.WithValue(ctx, deaf{}, run)
	done, err := c.Do(under, "web.send", map[string]string{"run": run}, client.EffectOptions{})
	if err == nil {
		done.Decision, err = untilFinal(ctx, c.Tx(done.Tx))
	}
	if err == nil && done.Decision.State != api.StateCommitted {
		err = fmt.Errorf("a call is %s: %s", done.Decision.State, done.Decision.Code)
	}
	return err
}

// onceEach makes calls whose answers are lost on their way to the agent and from the sink, and which the sink is sent
// twice; then it restarts the sidecar, and the agents make half of the same requests again.
func onceEach(ctx context.Context, e *Env) (res Result, err error) {
	o, err := openOutside(ctx, "gate.yaml", likes)
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	agents, n, line := e.of(2, 4), e.of(20, 10_000), &deaf{every: 5}
	o.ledger.SetFaults(sinks.Faults{Seed: e.Seed, Lose: .1, Duplicate: .1})
	place, err := e.Ground.Open(ctx, Site{Nodes: 1, Agents: agents, Policy: o.rules, Quiet: true})
	if err != nil {
		return Result{}, err
	}
	pass := func(place Place, n int) error {
		return together(agents, func(k int) error {
			c := place.Dial[k](client.WithHTTPClient(&http.Client{Transport: line}))
			defer c.Close()
			for i := k; i < n; i += agents {
				if err := underOneKey(ctx, c, fmt.Sprint("keyed ", i)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err = pass(place, n); err == nil {
		place, err = place.Again(ctx)
	}
	if err == nil {
		err = pass(place, n/2)
	}
	if err != nil {
		return Result{}, err
	}
	for i := range n { // a program that tries again, without a key
		run, made := fmt.Sprint("bare ", i), false
		for tries := 0; !made && tries < 5; tries++ {
			made = o.web(ctx, run) == nil
		}
	}
	sent, err := o.sent()
	if err != nil {
		return Result{}, err
	}
	once, second, bare := 0, 0, 0
	for i := range n {
		switch times := sent[fmt.Sprint("keyed ", i)]; times {
		case 0:
		case 1:
			once++
		default:
			second += times - 1
		}
		bare += max(0, sent[fmt.Sprint("bare ", i)]-1)
	}
	faults := o.ledger.Injected()
	return Result{
		Ours: fmt.Sprintf("second effects %d; %s calls were made; answers lost on the way to agents %d, by the sink %d, "+
			"sent twice %d, asked again after a restart %d", second, of(once, n), line.lost.Load(), faults.Lost,
			faults.Duplicated, n/2),
		Baseline: fmt.Sprintf("without a key %d", bare),
		Verdict: holds(once == n && second == 0 && bare > 0 && line.lost.Load() > 0 && faults.Lost > 0 &&
			faults.Duplicated > 0),
		Note: "the sink takes keys; at one that takes none a call is made at most once, and is unresolved if its answer " +
			"was lost"}, nil
}

// stepCost times each of ten steps: a bare call, a call that Hence makes at once, and one that it holds.
func stepCost(ctx context.Context, e *Env) (res Result, err error) {
	const steps = 10
	o, err := openOutside(ctx, "gate.yaml", likes)
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	place, err := e.Ground.Open(ctx, Site{Nodes: 1, Agents: 1, Policy: o.rules, Quiet: true})
	if err != nil {
		return Result{}, err
	}
	var bare, atOnce, held []float64
	timed := func(into *[]float64, call func() error) error {
		began := time.Now()
		err := call()
		*into = append(*into, float64(time.Since(began).Microseconds())/1000)
		return err
	}
	for i := range e.of(5, 1_000) {
		tx, err := place.Agents[0].Begin(ctx, client.BeginOptions{})
		if err != nil {
			return Result{}, err
		}
		for k := range steps {
			run := fmt.Sprint("step ", i, " ", k)
			err := timed(&bare, func() error { return o.take(ctx, run, k) })
			if err == nil {
				err = timed(&atOnce, func() error {
					got, err := tx.Effect(ctx, "part.take", map[string]string{"run": run, "part": "wheel"},
						client.EffectOptions{})
					if err == nil && got.State != "done" {
						err = fmt.Errorf("a step is %s", got.State)
					}
					return err
				})
			}
			if err == nil {
				err = timed(&held, func() error {
					_, err := tx.Effect(ctx, "web.send", map[string]string{"run": run}, client.EffectOptions{})
					return err
				})
			}
			if err != nil {
				return Result{}, err
			}
		}
		d, err := tx.Seal(ctx)
		if err == nil {
			d, err = untilFinal(ctx, tx)
		}
		if err != nil || d.State != api.StateCommitted {
			return Result{}, errors.Join(err, fmt.Errorf("a run of steps is %s: %s", d.State, d.Code))
		}
	}
	text := func(ms []float64) string {
		slices.Sort(ms)
		return fmt.Sprintf("%s ms in the middle, %s ms at the end", digits(report.Quantile(ms, .5)),
			digits(report.Quantile(ms, .99)))
	}
	ours := fmt.Sprintf("a step made at once %s; held %s", text(atOnce), text(held))
	beside := "the bare call " + text(bare)
	added := report.Quantile(atOnce, .5) - report.Quantile(bare, .5)
	return Result{Ours: fmt.Sprintf("%s; %s ms are added in the middle", ours, digits(added)), Baseline: beside,
		Verdict: holds(added <= .0236),
		Note: "the paper's figure is a Python object in memory; here each step is a request to a sidecar, which has it in " +
			"its journal, and one that is made at once has its grant in the log, before the tool is called"}, nil
}

// payment is one that an agent makes, and the one that was asked for.
type payment struct {
	run, to string
	cents   int
	wrong   bool
}

// args are the payment as an agent sends it.
func (p payment) args() map[string]any {
	return map[string]any{"run": p.run, "to": p.to, "cents": p.cents}
}

// payments are right in one of four, and else to another account or of another amount.
func (e *Env) payments(way string) (list []payment, asked map[string]payment) {
	chance, n := e.chance("payments"), 30
	asked = map[string]payment{}
	for i := range n {
		p := payment{run: fmt.Sprintf("%s %d", way, i), to: fmt.Sprint("account ", i%7), cents: 100 + chance.IntN(10_000)}
		asked[p.run] = p
		switch p.wrong = 4*(i+1) <= 3*n; {
		case p.wrong && i%2 == 0:
			p.to += " of another"
		case p.wrong:
			p.cents++
		}
		list = append(list, p)
	}
	return list, asked
}

func hooked(ctx context.Context, e *Env) (res Result, err error) {
	dir, err := os.MkdirTemp("", "hence-tables-hook-")
	if err != nil {
		return Result{}, fmt.Errorf("make a folder for a hook: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "asked")
	if err := e.writeAsked(file); err != nil {
		return Result{}, err
	}
	_, asked := e.payments("by URL")
	o, err := openOutside(ctx, "gate.yaml", func(args map[string]any) bool {
		p := asked[fmt.Sprint(args["run"])]
		return args["to"] == p.to && args["cents"] == float64(p.cents)
	})
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	var words []string
	ok := true
	for _, way := range []struct {
		name string
		site Site
	}{
		{"without", Site{}},
		{"by URL", Site{HookURL: o.judge}},
		{"by command", Site{HookCommand: []string{"sh", "-c", judgement, "judge", file}}},
	} {
		way.site.Nodes, way.site.Agents, way.site.Policy = 1, 1, o.rules
		place, err := e.Ground.Open(ctx, way.site)
		if err != nil {
			return Result{}, err
		}
		list, _ := e.payments(way.name)
		wrong, right, gone, veto := 0, 0, 0, 0
		for _, p := range list {
			done, err := place.Agents[0].Do(ctx, "money.pay", p.args(), client.EffectOptions{})
			if err != nil {
				return Result{}, err
			}
			if done.Decision, err = untilFinal(ctx, place.Agents[0].Tx(done.Tx)); err != nil {
				return Result{}, err
			}
			if done.Decision.Code == vetoed.code() {
				veto++
			}
		}
		sent, err := o.sent()
		if err != nil {
			return Result{}, err
		}
		for _, p := range list {
			if p.wrong {
				wrong++
				gone += sent[p.run]
			} else {
				right += sent[p.run]
			}
		}
		want := 0
		if way.name == "without" {
			want = wrong
		}
		ok = ok && gone == want && right == len(list)-wrong && veto == wrong-want && wrong > 0
		words = append(words, fmt.Sprintf("%s %s, and %s right ones", way.name, of(gone, wrong), of(right, len(list)-wrong)))
	}
	return Result{Ours: "wrong payments that left: " + strings.Join(words[1:], "; "), Baseline: words[0],
		Verdict: holds(ok)}, nil
}

// writeAsked writes the payments that are asked for, by which the command judges.
func (e *Env) writeAsked(path string) error {
	_, asked := e.payments("by command")
	var lines []byte
	for _, p := range asked {
		text, err := json.Marshal(p.args())
		if err != nil {
			return fmt.Errorf("write a payment: %w", err)
		}
		lines = append(append(lines, text...), '\n')
	}
	if err := os.WriteFile(path, lines, 0o600); err != nil {
		return fmt.Errorf("write the payments of a hook: %w", err)
	}
	return nil
}

// judgement is a hook as a command: it says yes if the footprint has a line of the file, which are the arguments of
// what was asked for.
const judgement = `if grep -q -F -f "$@"; then echo '{"yes": true}'
else echo '{"yes": false, "reason": "it was not asked for"}'; fi`
