package tables

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/runtimes"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/topology/trace"
)

// deathRuns are the rows of agents that die.
func deathRuns() map[string]run { return map[string]run{"D65": deaths} }

// dieWithin lets an agent that writes two cells die before each part of its work in turn, under each runtime, and
// counts how often one of its writes is visible without the other.
func (e *Env) dieWithin() (halves, runs int) {
	for _, kind := range runtimes.Kinds() {
		for parts := range 6 {
			r := e.Subject.Runtime(kind)
			op := r.Begin(runtimes.Begin{Agent: "victim", Reads: []string{"x"}})
			for _, do := range []func(){
				func() { op.Issue("x", trace.Text("v")) }, func() { op.Issue("y", trace.Text("v")) },
				func() { op.Complete(1) }, func() { op.Complete(0) }, func() { op.Commit() },
			}[:parts] {
				do()
			}
			r.Finish()
			seen := r.Begin(runtimes.Begin{Agent: "survivor", Reads: []string{"x", "y"}}).Values()
			if runs++; (seen["x"] == trace.Null) != (seen["y"] == trace.Null) || parts == 5 && seen["x"] == trace.Null {
				halves++
			}
		}
	}
	return halves, runs
}

// dieInStore is the same over a store that takes cells one by one.
func dieInStore() (halves, runs int) {
	for parts := range 3 {
		m := newMemory()
		for _, cell := range []string{"x", "y"}[:parts] {
			m.write(map[string]string{cell: "v"}, nil)
		}
		seen, _ := m.read([]string{"x", "y"})
		if runs++; seen["x"] != seen["y"] {
			halves++
		}
	}
	return halves, runs
}

// dying is where an agent of Hence dies: before a part of its work, or while it waits for the last.
type dying uint8

const (
	beforeWrites dying = iota
	betweenWrites
	beforeSeal
	withinSeal
	withinCommit // one request that has all parts
	allDyings
)

// both is a commit that writes a text to two shards.
func both(one, two, text string) client.Commit {
	return client.Commit{Writes: []client.Write{{Scope: one, Content: []byte(text)}, {Scope: two, Content: []byte(text)}}}
}

// victim is an agent that writes two shards and dies. It returns no error of the request in which it died.
func victim(ctx context.Context, c *client.Client, at dying, one, two string, within time.Duration) error {
	// A request in which the agent dies: what it would have been answered is of no matter then.
	die := func(request func(context.Context) error) error {
		short, end := context.WithTimeout(ctx, within)
		defer end()
		if err := request(short); short.Err() == nil {
			return err
		}
		return nil
	}
	if at == withinCommit {
		return die(func(ctx context.Context) error {
			_, err := c.Commit(ctx, both(one, two, "new"))
			return err
		})
	}
	tx, err := c.Begin(ctx, client.BeginOptions{})
	for i, shard := range []string{one, two} {
		if err == nil && int(at) > i {
			err = tx.Write(ctx, shard, []byte("new"), client.WriteOptions{})
		}
	}
	if err != nil || at != withinSeal {
		return err
	}
	return die(func(ctx context.Context) error {
		_, err := tx.Seal(ctx)
		return err
	})
}

// looks says whether two shards were ever seen of which one is written and the other not, and whether both are at
// last.
func looks(ctx context.Context, c *client.Client, one, two string) (half, whole bool, err error) {
	for range 3 {
		shards, _, err := c.ReadAll(ctx, one, two)
		if err != nil {
			return half, whole, err
		}
		half = half || string(shards[0].Content) != string(shards[1].Content)
		whole = string(shards[0].Content) == "new"
	}
	return half, whole, nil
}

// dead is what became of agents that died.
type dead struct {
	runs, halves int // halves: one write was seen without the other
	early        int // committed, though the agent died before it asked for that
	late, whole  int // died in the last request, and of these committed
	after        int // others went on with the same shards
}

// bury lets one agent die, looks at what it left, and lets another go on.
func (d *dead) bury(ctx context.Context, place Place, at dying, name string, chance *rand.Rand) error {
	one, two, survivor := name+"/x", name+"/y", place.Agents[1]
	old := both(one, two, "old")
	if _, err := survivor.Commit(ctx, old); err != nil {
		return fmt.Errorf("write what the agent will change: %w", err)
	}
	within := time.Duration(1+chance.IntN(5000)) * time.Microsecond
	if err := victim(ctx, place.Agents[0], at, one, two, within); err != nil {
		return fmt.Errorf("die: %w", err)
	}
	half, whole, err := looks(ctx, survivor, one, two)
	if err != nil {
		return fmt.Errorf("look at what is left: %w", err)
	}
	d.runs++
	if half {
		d.halves++
	}
	if whole && at < withinSeal {
		d.early++
	}
	if at >= withinSeal {
		d.late++
		if whole {
			d.whole++
		}
	}
	for range 3 { // what the other had asked for may be committed only now, and refuse the first
		done, err := survivor.Commit(ctx, old)
		if p := (*client.Problem)(nil); err != nil && !errors.As(err, &p) {
			return fmt.Errorf("go on: %w", err)
		}
		if err == nil && done.Decision.State == api.StateCommitted {
			d.after++
			break
		}
	}
	return nil
}

// judge says whether no half was left, on Hence and under the runtimes, where a store without commits leaves some.
func (d *dead) judge(torn, schedules, store, ways int) Result {
	return Result{
		Ours: fmt.Sprintf("%s agents that died left a half; of those that died before the seal %d are committed, of those "+
			"in it %s, whole; others went on after %s", of(d.halves, d.runs), d.early, of(d.whole, d.late),
			of(d.after, d.runs)),
		Baseline: fmt.Sprintf("under the runtimes %s; in a store that takes cells one by one %s", of(torn, schedules),
			of(store, ways)),
		Verdict: holds(d.halves == 0 && d.early == 0 && d.runs > 0 && d.after == d.runs && torn == 0 && store > 0),
		Note: "an agent dies by never asking again, or by closing its connection within its last request, after a time " +
			"that is drawn. That a sidecar's process is killed at each point of a commit is tested in it/crash; the proof " +
			"about a poisoned lock has no counterpart"}
}

func deaths(ctx context.Context, e *Env) (Result, error) {
	var d dead
	chance := e.chance("deaths")
	for range e.of(1, 4) { // several workspaces: the dead leave transactions open, of which a sidecar takes 256
		place, err := e.Ground.Workspace(ctx, 1, 2, "")
		if err != nil {
			return Result{}, err
		}
		for i := range e.of(4, 50) {
			for at := range allDyings {
				if err := d.bury(ctx, place, at, fmt.Sprintf("shard:/deaths/%d-%d", i, at), chance); err != nil {
					return Result{}, err
				}
			}
		}
	}
	torn, schedules := e.dieWithin()
	store, ways := dieInStore()
	return d.judge(torn, schedules, store, ways), nil
}
