package tables

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/usage"
)

// nodeRuns are the rows about nodes that are processes, which die and come.
func nodeRuns() map[string]run {
	return map[string]run{"S34": threeNodes, "S35": nodeDown, "S36": newLeader, "S37": nodeAdded, "S38": staleAfter,
		"S39": window, "S47": survivors, "S48": sessionsEnd, "C12": cutInTwo, "C27": neverComes}
}

// pace lets so many clients commit, each on a shard of its own and at the node that is next, and returns commits in a
// second, and in a second of the processes' time on a core.
func pace(ctx context.Context, name string, nodes []Part, clients, commits int) (rate, perCore float64, err error) {
	buses := busesOf(nodes...)
	var pids []int32
	for _, n := range nodes {
		pids = append(pids, n.At().PID)
	}
	for i := range clients {
		if err := buses[0].create(ctx, fmt.Sprint(name, i)); err != nil {
			return 0, 0, err
		}
		if _, err := buses[i%len(buses)].until(ctx, fmt.Sprint(name, i), "", 0); err != nil {
			return 0, 0, err
		}
	}
	before, err := usage.Of(pids...)
	if err != nil {
		return 0, 0, fmt.Errorf("look at the processes: %w", err)
	}
	began := time.Now()
	if err = together(clients, func(i int) error {
		for k := range commits {
			ok, err := buses[i%len(buses)].commit(ctx, fmt.Sprint(name, i), "", "text", uint64(k))
			if err != nil || !ok {
				return errors.Join(err, fmt.Errorf("commit %d was accepted: %v", k, ok))
			}
		}
		return nil
	}); err != nil {
		return 0, 0, err
	}
	took := time.Since(began)
	after, err := usage.Of(pids...)
	if err != nil {
		return 0, 0, fmt.Errorf("look at the processes: %w", err)
	}
	n := float64(clients * commits)
	return n / took.Seconds(), n / max(after.Since(before).Seconds(), 1e-9), nil
}

func threeNodes(ctx context.Context, e *Env) (Result, error) {
	const clients = 4
	type paces struct{ one, same, three, sameCore, threeCore float64 }
	n := e.of(30, 400)
	ours, err := onFleet(ctx, e, func(ctx context.Context, f Fleet) (out paces, err error) {
		nodes, err := sidecars(ctx, f, 3)
		if err == nil {
			_, _, err = pace(ctx, "warm", nodes, clients, n/10)
		}
		if err == nil {
			out.one, _, err = pace(ctx, "one", nodes[:1], 1, n)
		}
		if err == nil {
			out.same, out.sameCore, err = pace(ctx, "same", nodes[:1], clients, n)
		}
		if err == nil {
			out.three, out.threeCore, err = pace(ctx, "three", nodes, clients, n)
		}
		return out, err
	})
	if err != nil {
		return Result{}, err
	}
	ratio := ours.three / ours.one
	return Result{
		Ours: fmt.Sprintf("%s times: one client at one node %s commits a second, %d at three %s", digits(ratio),
			digits(ours.one), clients, digits(ours.three)),
		Baseline: fmt.Sprintf("the same %d clients at one node %s, so nodes alone make %s times; a second of the "+
			"sidecars' time on a core commits %s at one, %s at three", clients, digits(ours.same), digits(ours.three/ours.same),
			digits(ours.sameCore), digits(ours.threeCore)),
		Verdict: holds(ratio >= 1.26),
		Note: "the published measure compares one client with four, so it is one of clients; nodes share the cores of one " +
			"machine, and one log orders a workspace"}, nil
}

// kept is what is there of what was acknowledged before a kill.
type kept struct{ commits, creates, made, created int }

func (k kept) whole() bool { return k.made == k.commits && k.created == k.creates && k.commits > 0 }

func (k kept) String() string {
	return fmt.Sprintf("%s commits and %s creates", of(k.made, k.commits), of(k.created, k.creates))
}

// outlives lets clients create and commit until so many of each are acknowledged, kills parts while they go on, starts
// them again, the last one first, since a sidecar waits for its processor, and counts what is there then. Where the
// clients' own node dies, serves, it starts only when they have ended: none may go on with it as if nothing was.
func outlives(ctx context.Context, b *bus, name string, enough int, serves bool, dies ...Part) (out kept, err error) {
	const clients = 4
	writers := make([]*writer, clients)
	created := make([][]string, clients)
	for i := range clients {
		writers[i] = &writer{bus: b, key: fmt.Sprint(name, "-", i)}
		if err := b.create(ctx, writers[i].key); err != nil {
			return out, err
		}
	}
	ended := make(chan struct{})
	reached := make(chan struct{}, clients)
	var busy sync.WaitGroup
	for i, w := range writers {
		busy.Go(func() {
			for n := 0; w.broken == 0; n++ {
				if n == (enough+clients-1)/clients {
					reached <- struct{}{}
				}
				select {
				case <-ended:
					return
				default:
				}
				if key := fmt.Sprint(w.key, "-only-", n); b.create(ctx, key) == nil {
					created[i] = append(created[i], key)
				}
				w.write(ctx)
			}
		})
	}
	for range clients {
		<-reached
	}
	for _, p := range dies {
		err = errors.Join(err, p.Kill())
	}
	close(ended)
	if serves {
		busy.Wait()
	}
	for _, p := range slices.Backward(dies) {
		err = errors.Join(err, p.Start(ctx))
	}
	busy.Wait()
	if err != nil {
		return out, err
	}
	for i, w := range writers {
		var now shown
		if _, err := b.ask(ctx, http.MethodGet, "/shard/"+w.key, nil, &now, http.StatusOK, http.StatusNotFound); err != nil {
			return out, err
		}
		out.commits, out.made = out.commits+w.accepted, out.made+w.found(now)
		for _, key := range created[i] {
			status, err := b.ask(ctx, http.MethodGet, "/shard/"+key, nil, nil, http.StatusOK, http.StatusNotFound)
			if err != nil {
				return out, err
			}
			if out.creates++; status == http.StatusOK {
				out.created++
			}
		}
	}
	return out, nil
}

func survivors(ctx context.Context, e *Env) (Result, error) {
	n := e.of(12, 1_000)
	whole := func(folder bool) func(context.Context, Fleet) (kept, error) {
		return func(ctx context.Context, f Fleet) (out kept, err error) {
			all, err := f.Whole(ctx, folder)
			if err != nil {
				return out, err
			}
			return outlives(ctx, busesOf(all)[0], "whole", n, true, all)
		}
	}
	said := []struct {
		dies string
		lost bool // is what is said of it
	}{{"a sidecar", false}, {"the only processor", false}, {"both", false}, {"all, servers too, with a folder", false},
		{"all, in memory", true}}
	seen, err := onFleet(ctx, e, func(ctx context.Context, f Fleet) (all []kept, err error) {
		processor, err := f.Processor(ctx, "a")
		if err != nil {
			return nil, err
		}
		side, err := f.Sidecar(ctx)
		if err != nil {
			return nil, err
		}
		for i, die := range [][]Part{{side}, {processor}, {side, processor}} {
			got, err := outlives(ctx, busesOf(side)[0], fmt.Sprint("kill", i), n, die[0] == side, die...)
			if err != nil {
				return nil, fmt.Errorf("kill %s: %w", said[i].dies, err)
			}
			all = append(all, got)
		}
		for _, folder := range []bool{true, false} {
			got, err := whole(folder)(ctx, f)
			if err != nil {
				return nil, fmt.Errorf("kill all: %w", err)
			}
			all = append(all, got)
		}
		return all, nil
	})
	if err != nil {
		return Result{}, err
	}
	var theirs []kept
	for _, keeps := range []int{keepsNothing, keepsCommits} {
		p := &peers{rule: wholeStep, keeps: keeps}
		got, err := whole(false)(ctx, p)
		if err = errors.Join(err, p.Close()); err != nil {
			return Result{}, fmt.Errorf("on a store: %w", err)
		}
		theirs = append(theirs, got)
	}
	ok := theirs[0].made+theirs[0].created == 0 && theirs[1].made == theirs[1].commits &&
		theirs[1].created < theirs[1].creates
	var words []string
	for i, s := range said {
		ok = ok && (seen[i].whole() || s.lost && seen[i].made+seen[i].created == 0 && seen[i].commits > 0)
		say := "said to stay"
		if s.lost {
			say = "said to be lost"
		}
		words = append(words, fmt.Sprintf("%s dies, %s: %v", s.dies, say, seen[i]))
	}
	return Result{Ours: strings.Join(words, "; "),
		Baseline: fmt.Sprintf("in memory: %v; a log of commits: %v", theirs[0], theirs[1]),
		Verdict:  holds(ok),
		Note: "there of what was acknowledged, after a kill of a process under load; a loss of power is another matter. " +
			"What is said is in docs/guarantees.md and docs/operating.md"}, nil
}

// held is what sessions whose time is up came to, and what a process had in memory after each wave of them.
type held struct {
	whole, partly, n int // refused, of names all or a part of whose reads had expired
	fresh            int // accepted, of names that read again
	memory           []float64
}

// waves opens sessions of new names, lets the first reads of some expire and all reads of others, and commits.
func waves(ctx context.Context, b *bus, pid int32, count, names int, ttl time.Duration) (out held, err error) {
	if err := b.create(ctx, "first", "second"); err != nil {
		return out, err
	}
	for wave := range count {
		name := func(kind string, i int) string { return fmt.Sprint(kind, "-", wave, "-", i) }
		key := func(i int) string { return fmt.Sprint("target-", wave, "-", i%8) }
		for i := range 8 {
			if err := b.create(ctx, key(i)); err != nil {
				return out, err
			}
		}
		read := func(key, kind string) error {
			return together(8, func(worker int) error {
				for i := worker; i < names; i += 8 {
					if _, err := b.get(ctx, key, name(kind, i)); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err := errors.Join(read("first", "whole"), read("first", "partly")); err != nil {
			return out, err
		}
		expired := time.NewTimer(ttl)
		select {
		case <-expired.C:
		case <-ctx.Done():
			return out, context.Cause(ctx)
		}
		if err := read("second", "partly"); err != nil {
			return out, err
		}
		for i := range names {
			for kind, count := range map[string]*int{"whole": &out.whole, "partly": &out.partly} {
				now, err := b.get(ctx, key(i), "")
				if err != nil {
					return out, err
				}
				ok, err := b.commit(ctx, key(i), name(kind, i), "text", now.Version)
				if err != nil {
					return out, err
				}
				if !ok {
					*count++
				}
			}
			out.n++
		}
		if _, err := b.get(ctx, "first", name("whole", 0)); err != nil {
			return out, err
		}
		now, err := b.get(ctx, key(0), "")
		if err != nil {
			return out, err
		}
		ok, err := b.commit(ctx, key(0), name("whole", 0), "text", now.Version)
		if err != nil {
			return out, err
		}
		if ok {
			out.fresh++
		}
		if pid != 0 {
			bytes, err := usage.Memory(pid)
			if err != nil {
				return out, fmt.Errorf("look at the memory: %w", err)
			}
			out.memory = append(out.memory, float64(bytes)/(1<<20))
		}
	}
	return out, nil
}

func sessionsEnd(ctx context.Context, e *Env) (Result, error) {
	const ttl = time.Second
	count, names := e.of(2, 5), e.of(20, 1_000)
	ours, theirs, err := besideFleets(ctx, e, []*peers{{rule: wholeStep}}, func(ctx context.Context, f Fleet) (held,
		error) {
		nodes, err := sidecars(ctx, f, 1, "--sbus-session-ttl", ttl.String())
		if err != nil {
			return held{}, err
		}
		return waves(ctx, busesOf(nodes...)[0], nodes[0].At().PID, count, names, ttl)
	})
	if err != nil {
		return Result{}, err
	}
	if len(ours.memory) == 0 {
		return Result{}, errors.New("the node is no process")
	}
	first, last := ours.memory[0], ours.memory[count-1]
	return Result{
		Ours: fmt.Sprintf("refused of names whose reads have expired %s, of those of whom some have %s; read again %s "+
			"accepted; memory after the first and the last of %d times %d names: %s and %s MiB", of(ours.whole, ours.n),
			of(ours.partly, ours.n), of(ours.fresh, count), count, 2*names, digits(first), digits(last)),
		Baseline: fmt.Sprintf("a store whose sessions do not end: %s and %s", of(theirs[0].whole, ours.n),
			of(theirs[0].partly, ours.n)),
		Verdict: holds(ours.whole == ours.n && ours.partly == ours.n && ours.fresh == count && theirs[0].whole == 0 &&
			last < first*1.5),
		Note: "resident memory of the sidecar's process. Of a name whose log has ended is kept that it has, for at most a " +
			"hundred thousand names; the published server lets those of whose reads only some have expired pass"}, nil
}
