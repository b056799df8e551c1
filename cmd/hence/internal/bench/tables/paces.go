package tables

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/report"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/topology/pause"
)

// paceRuns are the rows of how often agents try, and when.
func paceRuns() map[string]run {
	return map[string]run{"S20": tries, "S32": overhead, "S40": oneConnection, "S49": crowdedTries, "S50": ages}
}

// paced lets agents write one shard, each thinking for a drawn time between each read and its commit, as one that asks
// a model does: so whether a try is refused does not depend on the try before.
func paced(ctx context.Context, e *Env, b *bus, run string, agents, each int, think time.Duration) (out contest,
	err error,
) {
	if err := b.create(ctx, run); err != nil {
		return out, err
	}
	var mu sync.Mutex
	err = together(agents, func(i int) error {
		name := fmt.Sprint(run, "-", i)
		chance := e.chance(name)
		for range each {
			for try := 1; ; try++ {
				seen, err := b.get(ctx, run, "")
				if err == nil {
					err = pause.Sleep(ctx, time.Duration(chance.ExpFloat64()*float64(think)))
				}
				if err != nil {
					return err
				}
				done, err := b.commit(ctx, run, name, seen.Content+" x", seen.Version)
				if err != nil {
					return err
				}
				mu.Lock()
				out.count(done, try)
				mu.Unlock()
				if done {
					break
				}
			}
		}
		return nil
	})
	last, failed := b.get(ctx, run, "")
	out.survive, out.final = len(strings.Fields(last.Content))-1, int(last.Version)
	return out, errors.Join(err, failed)
}

// count counts a try.
func (c *contest) count(done bool, try int) {
	if !done {
		c.refused++
		return
	}
	c.commits++
	c.tries = append(c.tries, try)
}

// misfit is how far the share of commits made within so many tries is from the law that each try is refused alike;
// sure is what chance alone does to so many commits, in 95 of 100 cases at most.
func (c contest) misfit(plot *report.Plot, name string) (worst, sure float64) {
	const most = 20
	lines := []report.Line{{Name: name}, {Name: name + ", law"}}
	for k := 1; k <= most; k++ {
		within := 0
		for _, t := range c.tries {
			if t <= k {
				within++
			}
		}
		share, law := float64(within)/float64(max(1, len(c.tries))), 1-math.Pow(c.scr(), float64(k))
		worst = max(worst, math.Abs(share-law))
		for i, y := range []float64{share, law} {
			lines[i].X, lines[i].Y = append(lines[i].X, float64(k)), append(lines[i].Y, y)
		}
	}
	plot.Lines = append(plot.Lines, lines...)
	return worst, math.Sqrt(math.Log(2/.05) / 2 / float64(max(1, len(c.tries))))
}

func tries(ctx context.Context, e *Env) (Result, error) {
	const near, think = .015, 15 * time.Millisecond
	sizes := []int{4, 8, 16}
	all, at := e.of(64, 2_400), e.of(64, 800) // commits of those that think, and of those that do not
	plot := report.Plot{Title: "commits made within so many tries"}
	own, err := e.hence(ctx, 1)
	if err != nil {
		return Result{}, err
	}
	ok := true
	var words []string
	for _, agents := range sizes {
		got, err := paced(ctx, e, own[0], fmt.Sprint("paced", agents), agents, all/agents, think)
		if err != nil {
			return Result{}, err
		}
		worst, sure := got.misfit(&plot, fmt.Sprint(agents, " agents that think"))
		ok = ok && got.whole() && worst <= near+sure
		words = append(words, fmt.Sprintf("%d agents %s refused, %s points (%s by chance)", agents, digits(got.scr()),
			digits(100*worst), digits(100*sure)))
	}
	const agents = 8
	ours, theirs, err := beside(ctx, e, []rule{wholeStep}, func(ctx context.Context, b *bus) (contest, error) {
		return contend(ctx, b, "tries", agents, at/agents, 1_000, false, false)
	})
	if err != nil {
		return Result{}, err
	}
	here, _ := ours.misfit(&plot, "again at once")
	there, _ := theirs[0].misfit(&plot, "again at once, one lock over all")
	first, granted, err := e.granted(ctx, agents, at/agents)
	if err != nil {
		return Result{}, err
	}
	return Result{Ours: fmt.Sprintf("farthest from the law with agents that think: %s; those that try again at once %s; "+
			"locked, %s at the first try", strings.Join(words, ", "), digits(100*here), of(first, granted)),
			Baseline: fmt.Sprintf("%v, again at once: %s points", wholeStep, digits(100*there)),
			Verdict:  holds(ok && ours.whole()), Plots: []report.Plot{plot},
			Note: "the law is that of tries that do not depend on the try before, as of agents that ask a model in between; " +
				"the more commits, the less is chance. Those that try again at once do depend on it, on any store: who has just " +
				"committed reads first, and the others stand in line. In mode locked a younger transaction lets go of what an " +
				"older one asks for, and begins again"},
		nil
}

// granted lets agents write one cell, each in transactions that are granted it before they read.
func (e *Env) granted(ctx context.Context, agents, each int) (first, n int, err error) {
	ways, err := e.seats(ctx, agents, seat{begin: client.BeginOptions{Mode: "locked"}, update: true})
	if err != nil {
		return 0, 0, err
	}
	var mu sync.Mutex
	err = together(agents, func(i int) error {
		for range each {
			got, err := ways[0](ctx, i, job{cells: []string{"granted"}, decide: func(read map[string]string) map[string]string {
				return map[string]string{"granted": fmt.Sprint("after ", len(read["granted"]))}
			}})
			if err != nil {
				return err
			}
			mu.Lock()
			if n++; got.refused == 0 {
				first++
			}
			mu.Unlock()
		}
		return nil
	})
	return first, n, err
}

// within95 is how many tries 95 of 100 commits took at most, and how many the law says.
func (c contest) within95() (took, law int) {
	const share = .95
	all := slices.Sorted(slices.Values(c.tries))
	if took = 1; len(all) > 0 {
		took = all[int(math.Ceil(share*float64(len(all))))-1]
	}
	if law = 1; c.scr() > 0 {
		law = max(1, int(math.Ceil(math.Log(1-share)/math.Log(c.scr()))))
	}
	return took, law
}

func crowdedTries(ctx context.Context, e *Env) (Result, error) {
	rounds := e.of(6, 400)
	sizes := []int{2, 4, 8}
	ours, theirs, err := beside(ctx, e, []rule{wholeStep}, func(ctx context.Context, b *bus) (all []contest, err error) {
		var whole contest
		for _, agents := range sizes {
			var sum contest
			for k := range rounds {
				got, err := contend(ctx, b, fmt.Sprintf("burst%d-%d", agents, k), agents, 1, 1_000, false, false)
				if err != nil {
					return nil, err
				}
				sum.add(got)
			}
			whole.add(sum)
			all = append(all, sum)
		}
		return append(all, whole), nil
	})
	if err != nil {
		return Result{}, err
	}
	text := func(all []contest) string {
		var words []string
		for i, c := range all {
			took, law := c.within95()
			name := "all together"
			if i < len(sizes) {
				name = fmt.Sprint("bursts of ", sizes[i])
			}
			words = append(words, fmt.Sprintf("%s %d tries where the law has %d", name, took, law))
		}
		return strings.Join(words, ", ")
	}
	ok, law := true, true
	for _, c := range ours {
		took, expected := c.within95()
		ok, law = ok && c.whole() && took <= 2*expected, law && took <= expected
	}
	return Result{Ours: text(ours), Baseline: fmt.Sprintf("%v: %s", wholeStep, text(theirs[0])), Verdict: beats(ok, law),
		Note: "tries within which ninety-five of a hundred commits are made, and those that the law has for the share " +
			"that was refused. Twice as many are to be enough; it is beaten where the law's own are. In a burst each round " +
			"of tries has a winner, so no agent tries much more often than there are agents"}, nil
}

// add adds what another contest came to.
func (c *contest) add(other contest) {
	c.commits, c.refused = c.commits+other.commits, c.refused+other.refused
	c.survive, c.final = c.survive+other.survive, c.final+other.final
	c.tries = append(c.tries, other.tries...)
}

func overhead(ctx context.Context, e *Env) (Result, error) {
	const answer, most = 5 * time.Second, .1 // what a model takes, and the share of it in percent
	n := e.of(40, 2_000)
	nodes, err := e.hence(ctx, 2)
	if err != nil {
		return Result{}, err
	}
	ours, err := steps(ctx, nodes[0], nodes[0], "same", n)
	if err != nil {
		return Result{}, err
	}
	other, err := steps(ctx, nodes[1], nodes[0], "other", n)
	if err != nil {
		return Result{}, err
	}
	b, _, end, err := e.store(ctx, wholeStep)
	if err != nil {
		return Result{}, err
	}
	defer end()
	theirs, err := steps(ctx, b, b, "same", n)
	ok := true
	text := func(where string, s [2][]float64) string {
		var words []string
		for i, name := range []string{"one key ", "two keys "} {
			p50, p99 := report.Quantile(s[i], .5), report.Quantile(s[i], .99)
			share := 100 * p50 / milliseconds(answer)
			ok = ok && share <= most
			words = append(words, fmt.Sprintf("%s%s ms, %s at the end (%s %%)", name, digits(p50), digits(p99), digits(share)))
		}
		return where + ": " + strings.Join(words, ", ")
	}
	result := Result{Ours: text("written at the same node", ours) + "; " + text("at another one", other)}
	result.Verdict = holds(ok)
	result.Baseline = text(fmt.Sprint(wholeStep, ", in memory"), theirs)
	result.Note = fmt.Sprintf("a read of each key and a commit, which is durable, beside a model's answer of %v; at "+
		"another node it begins when the other one's commit is answered, and so has the time until that is seen", answer)
	return result, err
}

// steps are the times in ms of steps of an agent, in order: read a shard that another one has just written, and commit
// it; and the same with a read of a second one.
func steps(ctx context.Context, b, writer *bus, run string, n int) (ms [2][]float64, err error) {
	for two := range ms {
		key, second := fmt.Sprint(run, "-first-", two), fmt.Sprint(run, "-second-", two)
		if err := writer.create(ctx, key, second); err != nil {
			return ms, err
		}
		for k := range n {
			version := uint64(2 * k)
			if done, err := writer.commit(ctx, key, "other", "moved", version); err != nil || !done {
				return ms, errors.Join(err, fmt.Errorf("the other one's commit at %d is refused", version))
			}
			began := time.Now()
			seen, err := b.until(ctx, key, "agent", version+1)
			if err == nil && two == 1 {
				_, err = b.until(ctx, second, "agent", 0)
			}
			if err != nil {
				return ms, err
			}
			done, err := b.commit(ctx, key, "agent", "work", seen.Version)
			if err != nil || !done {
				return ms, errors.Join(err, errors.New("a fresh commit is refused"))
			}
			ms[two] = append(ms[two], milliseconds(time.Since(began)))
			if _, err := writer.until(ctx, key, "", version+2); err != nil {
				return ms, err
			}
		}
		slices.Sort(ms[two])
	}
	return ms, nil
}
