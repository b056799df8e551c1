package tables

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/topology/pause"
)

// onProcesses starts services, and sidecars with their tools as processes, until the context ends.
func (e *Env) onProcesses(ctx context.Context, nodes, agents int) (s *services, place Place, sides []Side, err error) {
	ground, has := e.Ground.(Sidecars)
	if !has {
		return nil, place, nil, errors.New("this ground starts no processes")
	}
	if s, err = openServices(ctx); err != nil {
		return nil, place, nil, err
	}
	rules, err := s.policy()
	if err == nil {
		place, sides, err = ground.Sidecars(ctx, nodes, agents, rules)
	}
	if err != nil {
		s.close()
	}
	return s, place, sides, err
}

// point is where a process is killed.
type point uint8

// The points, around the record of a call and the call itself.
const (
	beforeRecord point = iota // the call is asked for, and the process has not read that
	afterRecord               // the call has come to the service, which has done nothing yet
	afterEffect               // the service has done it, and does not answer
	afterMark                 // the process has noted the answer
	points
)

// String names the point.
func (p point) String() string {
	return [points]string{"before the record", "after the record", "after the effect", "after the mark"}[p]
}

// killing is one sidecar process that is killed, and its agents, each with a tool of its own.
type killing struct {
	*services
	side   Side
	agents []*client.Client
	tools  []string
}

// fates are what became of calls.
type fates struct{ n, twice, lost, listed, unlisted int }

func (f *fates) add(o fates) {
	f.n, f.twice, f.lost, f.listed = f.n+o.n, f.twice+o.twice, f.lost+o.lost, f.listed+o.listed
	f.unlisted += o.unlisted
}

// starting says whether a sidecar has not come up yet: nothing is known then, and it is to be asked again.
func starting(err error) bool {
	var p *client.Problem
	return errors.As(err, &p) && p.Status == http.StatusServiceUnavailable
}

// task makes a call until a transaction with it is committed, and is over. The first try makes it as the caller says.
func (k *killing) task(ctx context.Context, agent int, name string, first func(effect func() error) error,
) (tx *client.Tx, err error) {
	for try := 0; ; try++ {
		tx, err = k.agents[agent].Begin(ctx, client.BeginOptions{})
		for starting(err) && ctx.Err() == nil {
			tx, err = k.agents[agent].Begin(ctx, client.BeginOptions{})
		}
		if err != nil {
			return nil, err
		}
		effect := func() error {
			_, err := tx.Effect(ctx, k.tools[agent], map[string]string{"name": name}, client.EffectOptions{})
			return err
		}
		if try == 0 {
			err = first(effect)
		} else {
			err = effect()
		}
		var d client.Decision
		if err == nil {
			d, err = tx.Seal(ctx)
		}
		for err != nil && ctx.Err() == nil { // what is known of it is asked for, until something is
			d, err = tx.Ended(ctx)
			if p := (*client.Problem)(nil); errors.As(err, &p) && !starting(err) {
				d, err = client.Decision{}, nil // it did not commit
			}
		}
		if err != nil {
			return nil, err
		}
		if d.State == api.StateCommitted {
			_, err = untilFinal(ctx, tx)
			return tx, err
		}
	}
}

// kill lets each agent make a call, kills their process while all of these are at a point, and says what became of
// them.
func (k *killing) kill(ctx context.Context, run string, at point) (all []fates, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var here, later sync.WaitGroup // all calls are at the point; what was begun there is over
	here.Add(len(k.agents))
	var failed error
	shoot := sync.OnceFunc(func() { // by the first one that is there
		if here.Wait(); at != beforeRecord {
			failed = k.side.Signal(syscall.SIGKILL)
			return
		}
		failed = k.side.Signal(syscall.SIGSTOP) // it reads nothing more
		later.Go(func() {
			const onItsWay = 20 * time.Millisecond
			failed = errors.Join(failed, pause.Sleep(ctx, onItsWay), k.side.Signal(syscall.SIGKILL))
		})
	})
	there := func() {
		here.Done()
		shoot()
	}
	txs := make([]*client.Tx, len(k.agents))
	name := func(agent int) string { return fmt.Sprint(run, "-", agent) }
	err = together(len(k.agents), func(i int) (err error) {
		var once sync.Once
		k.breakAt(name(i), func(after bool) (breaks bool) {
			if at == afterRecord && !after || at == afterEffect && after {
				once.Do(func() {
					breaks = true
					there()
				})
			}
			return breaks
		})
		txs[i], err = k.task(ctx, i, name(i), func(effect func() error) error {
			if at == beforeRecord {
				there()
			}
			return effect()
		})
		if at == afterMark && err == nil {
			there()
		}
		return err
	})
	later.Wait()
	if err = errors.Join(err, failed); err == nil {
		err = k.side.Back(ctx)
	}
	for i, tx := range txs {
		if err == nil {
			_, err = untilFinal(ctx, tx)
		}
		if err != nil {
			return nil, fmt.Errorf("a process that is killed %v: %w", at, err)
		}
		f, err := k.fate(ctx, i, tx, name(i))
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}

// fate is what became of a call of a transaction.
func (k *killing) fate(ctx context.Context, agent int, tx *client.Tx, name string) (f fates, err error) {
	const recent = 64 // the newest come first
	list, err := k.agents[agent].Residue(ctx, client.ResidueQuery{Limit: recent})
	if err != nil {
		return f, err
	}
	listed := false
	for _, r := range list.Items {
		listed = listed || r.Tx == tx.ID() && r.Result == "unresolved"
	}
	happened := len(k.values(name))
	f.n = 1
	if listed {
		f.listed++
	}
	if happened > 1 {
		f.twice++
	}
	if happened == 0 {
		f.lost++
		if !listed {
			f.unlisted++
		}
	}
	return f, nil
}

// logged is an agent without Hence that notes in a log of its own that it begins a call, and that it is done. It ends
// at a point, and what reads the log afterwards makes calls again that have begun, or leaves them.
func (s *services) logged(ctx context.Context, key, name string, at point, repeats bool) (fates, error) {
	var log []string
	var failed error
	put := func() error { return s.post(ctx, "put", key, entry{Name: name, Value: "sent"}) }
	var working sync.WaitGroup
	working.Go(func() {
		for i, step := range []func() error{
			func() error {
				log = append(log, "begun")
				return nil
			}, put,
			func() error {
				log = append(log, "done")
				return nil
			},
		} {
			if point(i) == at {
				runtime.Goexit()
			}
			if failed = step(); failed != nil {
				return
			}
		}
	})
	working.Wait()
	if failed == nil && repeats && len(log) == 1 {
		failed = put()
	}
	f := fates{n: 1}
	if came := len(s.values(name)); came > 1 {
		f.twice++
	} else if came == 0 {
		f.lost++
	}
	return f, failed
}

func killed(ctx context.Context, e *Env) (Result, error) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	n := e.of(1, 50)
	tools := []string{"row.pay", "row.send"} // with a key, and without
	s, place, processes, err := e.onProcesses(ctx, 1, len(tools))
	if err != nil {
		return Result{}, err
	}
	defer s.close()
	var all [2][points]fates
	k := &killing{s, processes[0], place.Agents, tools}
	for at := range points {
		for j := range n {
			got, err := k.kill(ctx, fmt.Sprintf("killed-%d-%d", at, j), at)
			if err != nil {
				return Result{}, err
			}
			for i, f := range got {
				all[i][at].add(f)
			}
		}
	}
	var repeats, leaves [points]fates
	for at := range points {
		for j := range n {
			for i, into := range []*fates{&repeats[at], &leaves[at]} {
				f, err := s.logged(ctx, "", fmt.Sprintf("logged-%d-%d-%d", i, at, j), at, i == 0)
				if err != nil {
					return Result{}, err
				}
				into.add(f)
			}
		}
	}
	ok := true
	var words [2][]string
	for i := range all {
		for at, f := range all[i] {
			begun := i == 1 && (point(at) == afterRecord || point(at) == afterEffect)
			ok = ok && f.n == n && f.twice == 0 && f.unlisted == 0 && (f.listed == n) == begun &&
				(begun || f.lost+f.listed == 0)
			words[i] = append(words[i], fmt.Sprintf("%d, %d, %d", f.lost, f.twice, f.listed))
		}
	}
	ok = ok && leaves[afterRecord].lost == n && repeats[afterEffect].twice == n
	return Result{
		Ours: fmt.Sprintf("not there, twice, unresolved of %d at each point: with a key %s; without one %s", n,
			strings.Join(words[0], "; "), strings.Join(words[1], "; ")),
		Baseline: fmt.Sprintf("a log of its own without a key: calls again lose %s and make %s twice, left alone lose %s",
			counts(repeats, func(f fates) int { return f.lost }), counts(repeats, func(f fates) int { return f.twice }),
			counts(leaves, func(f fates) int { return f.lost })),
		Verdict: holds(ok),
		Note: fmt.Sprintf("the points: %v, %v, %v, %v. A process is killed with SIGKILL before it has read the request, "+
			"while its service has the call in hand, or when it is over, and is started again on its journal. Its agent asks "+
			"again for what it did not commit, and what cannot be known is on the list of residues. The baseline's agent is "+
			"ended at the same points within this process",
			beforeRecord, afterRecord, afterEffect, afterMark)}, nil
}

// counts are one figure at each point.
func counts(all [points]fates, figure func(fates) int) string {
	var words []string
	for _, f := range all {
		words = append(words, fmt.Sprint(figure(f)))
	}
	return strings.Join(words, ", ")
}
