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

	"github.com/hence-dev/hence/cmd/hence/internal/bench/report"
)

func nodeDown(ctx context.Context, e *Env) (Result, error) {
	n := e.of(20, 200)
	type down struct{ accepted, alive, aliveMeant, lost, readers int }
	ours, theirs, err := besideFleets(ctx, e, []*peers{{rule: wholeStep, keeps: keepsNothing}},
		func(ctx context.Context, f Fleet) (out down, err error) {
			nodes, err := sidecars(ctx, f, 3)
			if err != nil {
				return out, err
			}
			second, err := f.Processor(ctx, "b")
			if err != nil {
				return out, err
			}
			buses := busesOf(nodes...)
			all, err := writersAt(ctx, buses)
			if err != nil {
				return out, err
			}
			// Whatever dies, it dies while all of them write.
			for _, dies := range []Part{nodes[0], second} {
				killed := make(chan error, 1)
				go func() {
					all[1].write(ctx) // some commits are made
					killed <- dies.Kill()
				}()
				err = errors.Join(each(ctx, n, all...), <-killed)
				if err != nil {
					return out, err
				}
				if dies == nodes[0] {
					if err := nodes[0].Start(ctx); err != nil {
						return out, err
					}
				}
			}
			alive := all[1:]
			out.accepted, _, _, _ = writersSum(all)
			out.alive, _, _, _ = writersSum(alive)
			out.aliveMeant = len(alive)*2*n + 2
			for _, b := range buses {
				lost, err := missingAt(ctx, b, all)
				if err != nil {
					return out, err
				}
				out.lost += lost
				out.readers++
			}
			return out, nil
		})
	if err != nil {
		return Result{}, err
	}
	return Result{
		Ours: fmt.Sprintf("at the nodes that live %s; %d accepted in all, %d of them missing at %d readers",
			of(ours.alive, ours.aliveMeant), ours.accepted, ours.lost, ours.readers),
		Baseline: fmt.Sprintf("%v, in the memory of the node that dies: %s", wholeStep, of(theirs[0].alive,
			theirs[0].aliveMeant)),
		Verdict: holds(ours.alive == ours.aliveMeant && ours.lost == 0 && theirs[0].alive < theirs[0].aliveMeant),
		Note: "a sidecar of three and a processor of two are killed, each while all three write; the broker is one, in " +
			"the process that measures, and is not"}, nil
}

func nodeAdded(ctx context.Context, e *Env) (Result, error) {
	n := e.of(20, 200)
	type added struct {
		accepted, refused, broken, lost int
		ready, level, longest           time.Duration
	}
	ours, err := onFleet(ctx, e, func(ctx context.Context, f Fleet) (out added, err error) {
		nodes, err := sidecars(ctx, f, 3)
		if err != nil {
			return out, err
		}
		all, err := writersAt(ctx, busesOf(nodes...))
		if err != nil {
			return out, err
		}
		if err := each(ctx, n, all...); err != nil {
			return out, err
		}
		end := busy(ctx, all...)
		began := time.Now()
		fourth, err := f.Sidecar(ctx)
		out.ready = time.Since(began)
		if err == nil {
			_, err = f.Processor(ctx, "a")
		}
		if err != nil {
			end()
			return out, err
		}
		err = each(ctx, n, all...)
		end()
		if err != nil {
			return out, err
		}
		began = time.Now()
		out.lost, err = missingAt(ctx, newBus(fourth.At().Bus), all)
		out.level = time.Since(began)
		out.accepted, out.refused, out.broken, out.longest = writersSum(all)
		return out, err
	})
	if err != nil {
		return Result{}, err
	}
	// A node that joins without a log to read has nothing.
	until, end := context.WithCancel(ctx)
	defer end()
	at, err := baseline(until, wholeStep)
	if err != nil {
		return Result{}, err
	}
	status, err := newBus(at).ask(ctx, http.MethodGet, "/shard/writer0", nil, nil, http.StatusOK,
		http.StatusNotFound)
	if err != nil {
		return Result{}, err
	}
	return Result{
		Ours: fmt.Sprintf("%s commits are at the new node, %d refused, %d not answered; it serves after %s s, is level "+
			"%s ms after the last; the longest commit took %s ms", of(ours.accepted-ours.lost, ours.accepted), ours.refused,
			ours.broken, digits(ours.ready.Seconds()), digits(milliseconds(ours.level)), digits(milliseconds(ours.longest))),
		Baseline: fmt.Sprintf("a node without a log to read: its shards are there: %v", status == http.StatusOK),
		Verdict: holds(ours.lost == 0 && ours.refused == 0 && ours.broken == 0 && ours.accepted >= 3*2*n &&
			status == http.StatusNotFound),
		Note: "a fourth sidecar, and a processor that takes over a part of its group's partitions, come while three " +
			"write; what a commit waits is that change of owners"}, nil
}

// moved is what commits on moved reads came to after a kill of the node that had given them.
type moved struct{ n, again, elsewhere, declared int }

// afterKill lets names read at one node, kills it, moves what they read at another, and commits by half of the names
// at the node once it runs again, by the others at the other node.
func afterKill(ctx context.Context, f Fleet, kills, names int) (out moved, err error) {
	nodes, err := sidecars(ctx, f, 2)
	if err != nil {
		return out, err
	}
	buses := busesOf(nodes...)
	for k := range kills {
		key := func(what string, i int) string { return fmt.Sprint(what, "-", k, "-", i) }
		for i := range names {
			if err := buses[1].create(ctx, key("a", i), key("b", i), key("c", i), key("d", i)); err != nil {
				return out, err
			}
			if _, err := buses[0].until(ctx, key("a", i), key("reader", i), 0); err != nil {
				return out, err
			}
		}
		if err := nodes[0].Kill(); err != nil {
			return out, err
		}
		for i := range names {
			if ok, err := buses[1].commit(ctx, key("a", i), key("other", i), "moved", 0); err != nil || !ok {
				return out, errors.Join(err, errors.New("the other name's commit was refused"))
			}
		}
		if err := nodes[0].Start(ctx); err != nil {
			return out, err
		}
		for i := range names {
			out.n++
			if _, err := buses[0].until(ctx, key("a", i), "", 1); err != nil {
				return out, err
			}
			for _, one := range []struct {
				at    *bus
				key   string
				reads []readSet
				count *int
			}{{buses[0], key("b", i), nil, &out.again}, {buses[1], key("c", i), nil, &out.elsewhere},
				{buses[1], key("d", i), []readSet{{key("a", i), 0}}, &out.declared}} {
				ok, err := one.at.commit(ctx, one.key, key("reader", i), "on what has moved", 0, one.reads...)
				if err != nil {
					return out, err
				}
				if !ok {
					*one.count++
				}
			}
		}
	}
	return out, nil
}

func staleAfter(ctx context.Context, e *Env) (Result, error) {
	ours, theirs, err := besideFleets(ctx, e, []*peers{{rule: wholeStep}, {rule: wholeStep, lag: -1}},
		func(ctx context.Context, f Fleet) (moved, error) { return afterKill(ctx, f, e.of(1, 30), 10) })
	if err != nil {
		return Result{}, err
	}
	return Result{
		Ours: fmt.Sprintf("refused at the node that runs again %s; at another one by its own log %s, by read_set %s",
			of(ours.again, ours.n), of(ours.elsewhere, ours.n), of(ours.declared, ours.n)),
		Baseline: fmt.Sprintf("a log of reads that is copied %s and %s; one that is not %s and %s", of(theirs[0].again,
			theirs[0].n), of(theirs[0].elsewhere, theirs[0].n), of(theirs[1].again, theirs[1].n), of(theirs[1].elsewhere,
			theirs[1].n)),
		Verdict: holds(ours.again == ours.n && ours.elsewhere == ours.n && ours.declared == ours.n && ours.n > 0 &&
			theirs[0].again == theirs[0].n && theirs[1].again == 0 && theirs[1].elsewhere == 0),
		Note: "what a name has read is in the journal of the node that gave it: there it is refused, after a kill too. " +
			"Elsewhere the name has a log of its own, which is empty until it reads there, so a client that moves must " +
			"read again or say its read_set"}, nil
}

// windows is what commits came to of names whose read was answered as their node was killed.
type windows struct{ answered, accepted int }

// atOnce kills a node at the first answers of reads, while others are under way.
func atOnce(ctx context.Context, f Fleet, kills, names int) (out windows, err error) {
	nodes, err := sidecars(ctx, f, 2)
	if err != nil {
		return out, err
	}
	buses := busesOf(nodes...)
	for k := range kills {
		key := func(what string, i int) string { return fmt.Sprint(what, "-", k, "-", i) }
		for i := range names {
			if err := buses[1].create(ctx, key("a", i), key("b", i)); err != nil {
				return out, err
			}
			if _, err := buses[0].until(ctx, key("b", i), "", 0); err != nil {
				return out, err
			}
		}
		given := make([]bool, names)
		var reads sync.WaitGroup
		first := make(chan struct{}, names)
		for i := range names {
			reads.Go(func() {
				_, err := buses[0].get(ctx, key("a", i), key("reader", i)) // one that is not answered is not counted
				given[i] = err == nil
				first <- struct{}{}
			})
		}
		for range 1 + k%names {
			<-first
		}
		err := nodes[0].Kill()
		reads.Wait()
		if err != nil {
			return out, err
		}
		if err := nodes[0].Start(ctx); err != nil {
			return out, err
		}
		for i, was := range given {
			if !was {
				continue
			}
			if ok, err := buses[1].commit(ctx, key("a", i), key("other", i), "moved", 0); err != nil || !ok {
				return out, errors.Join(err, errors.New("the other name's commit was refused"))
			}
			if _, err := buses[0].until(ctx, key("a", i), "", 1); err != nil {
				return out, err
			}
			ok, err := buses[0].commit(ctx, key("b", i), key("reader", i), "on what has moved", 0)
			if err != nil {
				return out, err
			}
			out.answered++
			if ok {
				out.accepted++
			}
		}
	}
	return out, nil
}

func window(ctx context.Context, e *Env) (Result, error) {
	ours, theirs, err := besideFleets(ctx, e, []*peers{{rule: wholeStep, lag: 5 * time.Millisecond}},
		func(ctx context.Context, f Fleet) (windows, error) { return atOnce(ctx, f, e.of(2, 60), 8) })
	if err != nil {
		return Result{}, err
	}
	return Result{
		Ours: fmt.Sprintf("stale commits that are accepted after a kill at the answer: %s", of(ours.accepted,
			ours.answered)),
		Baseline: fmt.Sprintf("reads that are copied some milliseconds after the answer: %s", of(theirs[0].accepted,
			theirs[0].answered)),
		Verdict: beats(ours.accepted == 0 && ours.answered > 0 && theirs[0].accepted > 0, true),
		Note: "the journal has a read before it is answered, so there is no window for a kill of the process; commits are " +
			"made at the node that runs again. The failpoints between journal and answer are in ./it/crash, with the build " +
			"tag failpoints"}, nil
}

// mostBroken is how many commits of a writer may get no answer.
const mostBroken = 100

// gap is how many milliseconds the longest commit takes while something dies.
func gap(ctx context.Context, w *writer, dies func() error) (float64, error) {
	w.longest = 0
	done := make(chan error, 1)
	go func() { done <- dies() }()
	for after := 0; after < 5; {
		if w.broken > mostBroken {
			return 0, errors.New("commits do not go on")
		}
		before := w.accepted
		w.write(ctx)
		select {
		case err := <-done:
			if err != nil {
				return 0, err
			}
			done <- nil
			after += w.accepted - before
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		default:
		}
	}
	return milliseconds(w.longest), nil
}

// leaders are gaps in milliseconds, sorted: of kills beside a second group, of a kill of the only processor that is
// started again, and of kills after which another member of the group takes over.
type leaders struct {
	calm, two, again, over []float64
	lost                   int
}

func newLeaders(ctx context.Context, f Fleet, kills, takeovers int) (out leaders, err error) {
	first, err := f.Processor(ctx, "a")
	if err != nil {
		return out, err
	}
	node, err := f.Sidecar(ctx)
	if err != nil {
		return out, err
	}
	all, err := writersAt(ctx, busesOf(node))
	if err != nil {
		return out, err
	}
	w := all[0]
	note := func(to *[]float64, dies func() error) {
		if err == nil {
			var one float64
			one, err = gap(ctx, w, dies)
			*to = append(*to, one)
			slices.Sort(*to)
		}
	}
	err = each(ctx, 20, w) // connections stand
	for range (kills + 1) / 2 {
		note(&out.again, func() error {
			if err := first.Kill(); err != nil {
				return err
			}
			return first.Start(ctx)
		})
	}
	if err != nil {
		return out, err
	}
	second, err := f.Processor(ctx, "b")
	if err != nil {
		return out, err
	}
	for range kills {
		for _, p := range []Part{first, second} {
			note(&out.calm, func() error { return nil })
			note(&out.two, p.Kill)
			if err == nil {
				err = p.Start(ctx)
			}
			if err == nil {
				err = each(ctx, 200, w) // it has caught up when the next one dies
			}
		}
	}
	if err != nil {
		return out, err
	}
	if takeovers > 0 {
		if err := second.Kill(); err != nil {
			return out, err
		}
		if second, err = f.Processor(ctx, "a"); err != nil {
			return out, err
		}
	}
	for range takeovers { // one of the two has the workspace
		var both []float64
		for _, p := range []Part{first, second} {
			note(&both, p.Kill)
			if err == nil {
				err = p.Start(ctx)
			}
		}
		if err != nil {
			return out, err
		}
		out.over = append(out.over, slices.Max(both))
		slices.Sort(out.over)
	}
	if err == nil {
		out.lost, err = missingAt(ctx, w.bus, all)
	}
	return out, err
}

func newLeader(ctx context.Context, e *Env) (Result, error) {
	const paper, bound = 1952, 50 // milliseconds: of the claim, and what two groups are to stay below
	got, err := onFleet(ctx, e, func(ctx context.Context, f Fleet) (leaders, error) {
		return newLeaders(ctx, f, e.of(1, 15), e.of(0, 3))
	})
	if err != nil {
		return Result{}, err
	}
	text := func(gaps []float64) string {
		var at []string
		for _, share := range []float64{.5, .99} {
			at = append(at, digits(report.Quantile(gaps, share)))
		}
		return fmt.Sprintf("%s ms, at most %s ms in %d kills", strings.Join(at, " and "), digits(slices.Max(gaps)),
			len(gaps))
	}
	note := ""
	if len(got.over) > 0 {
		note = ". Where another member of the one group takes over: " + text(got.over)
	}
	worst := slices.Max(got.two)
	return Result{
		Ours: fmt.Sprintf("two groups, the longest commit in the middle and of a hundred: %s; without a kill at most "+
			"%s ms; %d accepted commits lost", text(got.two), digits(slices.Max(got.calm)), got.lost),
		Baseline: "one group, its processor starts again: " + text(got.again),
		Verdict:  beats(got.lost == 0 && worst < paper, worst < bound),
		Note: "here the processor that owns a workspace's partition decides, so its kill stands for that of a leader; " +
			"with two groups none is elected, the other one has decided the same; one that has just come back may not " +
			"have caught up when the other dies. The broker is one and is not killed: what its own election takes is " +
			"Kafka's" + note}, nil
}
