package tables

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/report"
	"github.com/hence-dev/hence/gate/sinks"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

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
// twice; then it starts the sidecar anew, and the agents make half of the same requests again.
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
