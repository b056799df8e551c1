package tables

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/hence-dev/hence/sidecar/client"
)

// Ground starts what rows need that run Hence itself.
type Ground interface {
	// Workspace serves a new workspace at so many nodes, each for so many agents, with the tools of a policy, if it is
	// not empty.
	Workspace(ctx context.Context, nodes, agents int, policy string) (Place, error)
	// Open is Workspace with all that there is to say.
	Open(context.Context, Site) (Place, error)
}

// Site says how a workspace is to be served. A hook is a URL or a command; neither: there is none.
type Site struct {
	Nodes, Agents int
	Policy        string
	HookURL       string
	HookCommand   []string
	// Models are the addresses of models' APIs by their providers' names; empty: none is served.
	Models       map[string]string
	ExtractorURL string // finds names in texts to and from models; empty: the policy's vocabulary alone does
	Quiet        bool   // calls are made to fail: what sidecars say of that is dropped
}

// Place is where a workspace is served.
type Place struct {
	Agents []*client.Client // those of the first node first
	Buses  []string         // by node: where clients of S-Bus are served
	Metric []string         // by node: where its metrics are
	// Dial makes further clients, each of the agent of that place in Agents.
	Dial []func(...client.Option) *client.Client
	// Again ends the sidecars and starts others on their journals; clients of the former ones are of no use then.
	Again func(context.Context) (Place, error)
}

// busRuns are the rows of S-Bus, by its own wire: on Hence, and on stores that decide otherwise.
func busRuns() map[string]run {
	runs := map[string]run{
		"S02": staleRefused, "S03": injections, "S05": allOrOne, "S06": divergent, "S10": naiveRefresh, "S15": oneShard,
		"S16": scaling, "S19": budgets, "S22": frozen, "S25": dedicated, "S26": single, "S28": caseStudy,
		"S29": vanishing, "S30": overNodes, "S31": inTurns, "S33": oneWinner, "S44": phenomena, "S45": bothOfTwo,
		"S46": commitCost, "S51": guarantees,
	}
	maps.Copy(runs, serverRuns())
	maps.Copy(runs, conflictRuns())
	maps.Copy(runs, paceRuns())
	maps.Copy(runs, modelRuns())
	return runs
}

// hence starts a workspace and returns clients of its S-Bus, by node.
func (e *Env) hence(ctx context.Context, nodes int) (all []*bus, err error) {
	place, err := e.Ground.Workspace(ctx, nodes, 1, "")
	if err != nil {
		return nil, err
	}
	for _, at := range place.Buses {
		all = append(all, newBus(at))
	}
	return all, nil
}

// beside runs a measurement on Hence, and on stores.
func beside[T any](ctx context.Context, e *Env, rules []rule, measure func(context.Context, *bus) (T, error)) (ours T,
	theirs []T, err error,
) {
	own, err := e.hence(ctx, 1)
	if err != nil {
		return ours, nil, err
	}
	if ours, err = measure(ctx, own[0]); err != nil {
		return ours, nil, fmt.Errorf("on Hence: %w", err)
	}
	for _, r := range rules {
		b, _, end, err := e.store(ctx, r)
		if err == nil {
			var got T
			if got, err = measure(ctx, b); err == nil {
				theirs = append(theirs, got)
			}
			end()
		}
		if err != nil {
			return ours, nil, fmt.Errorf("where %v: %w", r, err)
		}
	}
	return ours, theirs, nil
}

// together runs so many at once.
func together(n int, f func(i int) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = f(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// fresh is what trials of moved and of fresh reads came to.
type fresh struct{ refused, accepted, n int }

// trials reads a and b, lets another name move a, and commits b; then reads again and commits.
func trials(ctx context.Context, writer, reader *bus, n int, declared bool) (out fresh, err error) {
	for i := range n {
		a, b := fmt.Sprintf("%v-a%d", declared, i), fmt.Sprintf("%v-b%d", declared, i)
		if err := writer.create(ctx, a, b); err != nil {
			return out, err
		}
		reads := fmt.Sprintf("%v-reader%d", declared, i)
		name := reads
		if declared {
			name = ""
		}
		for try := range 2 {
			seen, err := reader.until(ctx, a, name, uint64(try))
			if err != nil {
				return out, err
			}
			target, err := reader.until(ctx, b, name, 0)
			if err != nil {
				return out, err
			}
			if try == 0 {
				if ok, err := writer.commit(ctx, a, "other", "moved", seen.Version); err != nil || !ok {
					return out, errors.Join(err, errors.New("the other name's commit was refused"))
				}
			}
			var list []readSet
			if declared {
				list = []readSet{{a, seen.Version}}
			}
			done, err := reader.commit(ctx, b, reads, "done", target.Version, list...)
			switch {
			case err != nil:
				return out, err
			case try == 0 && !done:
				out.refused++
			case try == 1 && done:
				out.accepted++
			}
		}
		out.n++
	}
	return out, nil
}

// until reads a shard until its version is at least one: another node may not have it yet.
func (b *bus) until(ctx context.Context, key, agent string, version uint64) (out shown, err error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	path := "/shard/" + key
	if agent != "" {
		path += "?agent_id=" + agent
	}
	for {
		status, err := b.ask(ctx, http.MethodGet, path, nil, &out, http.StatusOK, http.StatusNotFound)
		if err != nil || status == http.StatusOK && out.Version >= version {
			return out, err
		}
	}
}

func staleRefused(ctx context.Context, e *Env) (Result, error) {
	n := e.of(15, 1_000)
	ours, theirs, err := beside(ctx, e, []rule{ownVersion, wholeStep}, func(ctx context.Context, b *bus) (all [2]fresh,
		err error) {
		if all[0], err = trials(ctx, b, b, n, false); err == nil {
			all[1], err = trials(ctx, b, b, n, true)
		}
		return all, err
	})
	if err != nil {
		return Result{}, err
	}
	ok := true
	for _, f := range ours {
		ok = ok && f.refused == n && f.accepted == n
	}
	return Result{
		Ours: fmt.Sprintf("by the log %s refused and %s accepted, by read_set %s and %s", of(ours[0].refused, n),
			of(ours[0].accepted, n), of(ours[1].refused, n), of(ours[1].accepted, n)),
		Baseline: fmt.Sprintf("%v: %s refused; %v: %s", ownVersion, of(theirs[0][0].refused, n), wholeStep,
			of(theirs[1][0].refused, n)),
		Verdict: holds(ok && theirs[0][0].refused == 0 && theirs[1][0].refused == n)}, nil
}

func injections(ctx context.Context, e *Env) (Result, error) {
	type injected struct{ tries, corrupt, made int }
	each := e.of(6, 200)
	ours, theirs, err := beside(ctx, e, []rule{ownVersion, wholeStep}, func(ctx context.Context, b *bus) (injected,
		error) {
		var out injected
		var mu sync.Mutex
		for _, agents := range []int{4, 8} {
			err := together(agents, func(i int) error {
				name := fmt.Sprintf("n%d-%d-", agents, i)
				a, x, c := name+"a", name+"x", name+"c"
				if err := b.create(ctx, a, x, c); err != nil {
					return err
				}
				for k := 0; k < each; {
					seen, err := b.get(ctx, a, name)
					if err != nil {
						return err
					}
					if _, err = b.get(ctx, x, name); err != nil {
						return err
					}
					inject := k%2 == 0
					if inject {
						if ok, err := b.commit(ctx, a, "injector", "moved", seen.Version); err != nil || !ok {
							return errors.Join(err, errors.New("an injection was refused"))
						}
					}
					target, err := b.get(ctx, c, "")
					if err != nil {
						return err
					}
					done, err := b.commit(ctx, c, name, "done", target.Version)
					if err != nil {
						return err
					}
					mu.Lock()
					if inject {
						out.tries++
					}
					if done && inject {
						out.corrupt++
					}
					if done {
						out.made++
					}
					mu.Unlock()
					k++
				}
				return nil
			})
			if err != nil {
				return out, err
			}
		}
		return out, nil
	})
	if err != nil {
		return Result{}, err
	}
	return Result{Ours: fmt.Sprintf("%s injections led to a corrupt commit, %d commits", of(ours.corrupt, ours.tries),
		ours.made),
		Baseline: fmt.Sprintf("%v: %s; %v: %s", ownVersion, of(theirs[0].corrupt, theirs[0].tries), wholeStep,
			of(theirs[1].corrupt, theirs[1].tries)),
		Verdict: holds(ours.corrupt == 0 && ours.made > 0 && 2*theirs[0].corrupt > theirs[0].tries &&
			theirs[1].corrupt == 0)}, nil
}

// setORI turns the check of siblings on or off.
func (b *bus) setORI(ctx context.Context, on bool) error {
	_, err := b.ask(ctx, http.MethodPost, "/admin/config", map[string]bool{"ori_enabled": on}, nil, http.StatusOK)
	return err
}

func divergent(ctx context.Context, e *Env) (Result, error) {
	const agents, steps = 4, 4
	type found struct{ stale, commits, refused int }
	trial := func(ctx context.Context, b *bus, run string) (out found, err error) {
		key := func(i int) string { return fmt.Sprint(run, "-", i) }
		version := make([]uint64, agents)
		seen := make([][]uint64, agents)
		for i := range agents {
			if err := b.create(ctx, key(i)); err != nil {
				return out, err
			}
		}
		read := func(i int) error {
			seen[i] = make([]uint64, agents)
			for k := range agents {
				got, err := b.get(ctx, key(k), key(i))
				if err != nil {
					return err
				}
				seen[i][k] = got.Version
			}
			return nil
		}
		for i := range agents {
			if err := read(i); err != nil {
				return out, err
			}
		}
		for step := range steps {
			for i := range agents {
				for {
					done, err := b.commit(ctx, key(i), key(i), fmt.Sprint("step ", step), version[i])
					if err != nil {
						return out, err
					}
					if done { // judged by the record: what it had read, and what was current
						version[i]++
						out.commits++
						seen[i][i] = version[i]
						if !slices.Equal(seen[i], version) {
							out.stale++
						}
						break
					}
					out.refused++
					if err := read(i); err != nil {
						return out, err
					}
				}
			}
		}
		return out, nil
	}
	var sums [2]found
	n := e.of(3, 80)
	own, err := e.hence(ctx, 1)
	if err != nil {
		return Result{}, err
	}
	for i, on := range []bool{true, false} {
		if err := own[0].setORI(ctx, on); err != nil {
			return Result{}, err
		}
		for k := range n {
			got, err := trial(ctx, own[0], fmt.Sprint("run", i, "-", k))
			if err != nil {
				return Result{}, err
			}
			sums[i].stale, sums[i].commits = sums[i].stale+got.stale, sums[i].commits+got.commits
			sums[i].refused += got.refused
		}
	}
	return Result{
		Ours: fmt.Sprintf("on: %s divergent, %d refused", of(sums[0].stale, sums[0].commits), sums[0].refused),
		Baseline: fmt.Sprintf("off: %s divergent (%s %%)", of(sums[1].stale, sums[1].commits),
			digits(100*float64(sums[1].stale)/float64(max(1, sums[1].commits)))),
		Verdict: holds(sums[0].stale == 0 && sums[0].refused > 0 && sums[0].commits > 0 &&
			100*sums[1].stale >= 85*sums[1].commits)}, nil
}

func naiveRefresh(ctx context.Context, e *Env) (Result, error) {
	n := e.of(10, 30)
	own, err := e.hence(ctx, 1)
	if err != nil {
		return Result{}, err
	}
	b := own[0]
	// A dependent text cites the version of the name that it was written for. It is stale where that was not current.
	dependent := func(run string, refresh, anew bool) (stale bool, err error) {
		if err := b.create(ctx, run+"-name", run+"-text"); err != nil {
			return false, err
		}
		seen, err := b.get(ctx, run+"-name", run)
		if err != nil {
			return false, err
		}
		cites := seen.Version
		if ok, err := b.commit(ctx, run+"-name", "other", "renamed", seen.Version); err != nil || !ok {
			return false, errors.Join(err, errors.New("the renaming was refused"))
		}
		for {
			if refresh { // the log is brought up to date, and the text is sent as it was
				if seen, err = b.get(ctx, run+"-name", run); err != nil {
					return false, err
				}
			}
			done, err := b.commit(ctx, run+"-text", run, fmt.Sprint("cites ", cites), 0)
			if err != nil {
				return false, err
			}
			if done {
				return cites != 1, nil
			}
			if seen, err = b.get(ctx, run+"-name", run); err != nil {
				return false, err
			}
			if anew {
				cites = seen.Version
			}
		}
	}
	var stale [4]int
	for i := range stale {
		if err := b.setORI(ctx, i != 0); err != nil {
			return Result{}, err
		}
		for k := range n {
			bad, err := dependent(fmt.Sprint("run", i, "-", k), i == 1, i == 3)
			if err != nil {
				return Result{}, err
			}
			if bad {
				stale[i]++
			}
		}
	}
	return Result{Ours: "written anew on refusal: " + of(stale[3], n) + " stale texts",
		Baseline: fmt.Sprintf("off %s, refreshed before the commit %s, sent again on refusal %s", of(stale[0], n),
			of(stale[1], n),
			of(stale[2], n)),
		Verdict: holds(stale[3] == 0 && stale[0] == n && stale[1] == n && stale[2] == n),
		Note: "a check of versions cannot see that a text was not thought anew: the client must write it anew, or a proxy " +
			"must register what it used"}, nil
}

func frozen(ctx context.Context, e *Env) (Result, error) {
	n := e.of(15, 500)
	own, err := e.hence(ctx, 1)
	if err != nil {
		return Result{}, err
	}
	b := own[0]
	var accepted [2]int
	for i, declared := range []bool{false, true} {
		for k := range n {
			context, target := fmt.Sprint("context", i, "-", k), fmt.Sprint("target", i, "-", k)
			if err := b.create(ctx, context, target); err != nil {
				return Result{}, err
			}
			seen, err := b.get(ctx, context, "") // once, at the start, outside every log
			if err != nil {
				return Result{}, err
			}
			if ok, err := b.commit(ctx, context, "other", "moved", seen.Version); err != nil || !ok {
				return Result{}, errors.Join(err, errors.New("the other name's commit was refused"))
			}
			var reads []readSet
			if declared {
				reads = []readSet{{context, seen.Version}}
			}
			done, err := b.commit(ctx, target, fmt.Sprint("frozen", k), "on what was", 0, reads...)
			if err != nil {
				return Result{}, err
			}
			if done {
				accepted[i]++
			}
		}
	}
	return Result{Ours: "where the read is declared, as a proxy does: " + of(accepted[1], n) + " accepted",
		Baseline: "where the context is in no log: " + of(accepted[0], n) + " accepted",
		Verdict:  holds(accepted[0] == n && accepted[1] == 0)}, nil
}

func caseStudy(ctx context.Context, e *Env) (Result, error) {
	const agents, steps = 4, 15
	own, err := e.hence(ctx, 1)
	if err != nil {
		return Result{}, err
	}
	b := own[0]
	study := func(run string, parallel bool) (commits, refused int, even bool, err error) {
		var keys []string
		for i := range agents {
			keys = append(keys, fmt.Sprint(run, "-", i))
		}
		if err := b.create(ctx, keys...); err != nil {
			return 0, 0, false, err
		}
		var mu sync.Mutex
		one := func(i int) error {
			for {
				var reads []readSet
				var own uint64
				for k, key := range keys {
					got, err := b.get(ctx, key, "")
					if err != nil {
						return err
					}
					if k == i {
						own = got.Version
					} else {
						reads = append(reads, readSet{key, got.Version})
					}
				}
				done, err := b.commit(ctx, keys[i], keys[i], "work", own, reads...)
				if err != nil {
					return err
				}
				mu.Lock()
				if done {
					commits++
				} else {
					refused++
				}
				mu.Unlock()
				if done {
					return nil
				}
			}
		}
		if parallel {
			err = together(agents, func(i int) error {
				for range steps {
					if err := one(i); err != nil {
						return err
					}
				}
				return nil
			})
		} else {
			for k := range agents * steps {
				if err == nil {
					err = one(k % agents)
				}
			}
		}
		even = true
		for _, key := range keys {
			got, failed := b.get(ctx, key, "")
			err = errors.Join(err, failed)
			even = even && got.Version == steps
		}
		return commits, refused, even, err
	}
	commits, refused, even, err := study("turns", false)
	if err != nil {
		return Result{}, err
	}
	both, again, evenly, err := study("parallel", true)
	return Result{Ours: fmt.Sprintf("in turns %d commits, %d refused; in parallel %d commits, %d refused", commits,
		refused, both, again),
		Verdict: holds(commits == agents*steps && refused == 0 && even && both == agents*steps && again > 0 && evenly),
		Note:    "no refusal in turns is the shape of the case; in parallel there are some, and all commits are made"}, err
}

func vanishing(ctx context.Context, e *Env) (Result, error) {
	n := e.of(5, 20)
	type lost struct{ runs, writes int }
	ours, theirs, err := beside(ctx, e, []rule{lastWriter}, func(ctx context.Context, b *bus) (out lost, err error) {
		for k := range n {
			got, err := contend(ctx, b, fmt.Sprint("run", k), 4, 5, 100, false, true)
			if err != nil {
				return out, err
			}
			if !got.whole() {
				out.runs++
			}
			out.writes += got.commits - got.survive
		}
		return out, nil
	})
	if err != nil {
		return Result{}, err
	}
	return Result{Ours: of(ours.runs, n) + " runs lose a write", Baseline: fmt.Sprintf("%v: %s, %d writes", lastWriter,
		of(theirs[0].runs, n),
		theirs[0].writes), Verdict: holds(ours.runs == 0 && theirs[0].runs == n)}, nil
}

func overNodes(ctx context.Context, e *Env) (Result, error) {
	n := e.of(10, 200)
	nodes, err := e.hence(ctx, 3)
	if err != nil {
		return Result{}, err
	}
	got, err := trials(ctx, nodes[0], nodes[1], n, false)
	if err != nil {
		return Result{}, err
	}
	return Result{Ours: fmt.Sprintf("a sibling moved at another node: %s refused, %s accepted after a fresh read",
		of(got.refused, n),
		of(got.accepted, n)), Verdict: holds(got.refused == n && got.accepted == n),
		Note: "the published script checks the own key only, which a version check alone refuses; this reads a sibling"}, nil
}

func inTurns(ctx context.Context, e *Env) (Result, error) {
	steps := e.of(60, 2_000)
	nodes, err := e.hence(ctx, 3)
	if err != nil {
		return Result{}, err
	}
	if err := nodes[0].create(ctx, "turns"); err != nil {
		return Result{}, err
	}
	commits, refusals := 0, 0
	for k := range steps {
		at := nodes[k%len(nodes)]
		seen, err := at.until(ctx, "turns", fmt.Sprint("agent", k%4), uint64(k))
		if err != nil {
			return Result{}, err
		}
		done, err := at.commit(ctx, "turns", fmt.Sprint("agent", k%4), fmt.Sprint("step ", k), seen.Version)
		if err != nil {
			return Result{}, err
		}
		if !done { // the next agent would wait for its version
			refusals++
			break
		}
		commits++
	}
	return Result{Ours: fmt.Sprintf("%s commits over three nodes, %d refused", of(commits, steps), refusals),
		Verdict: holds(commits == steps && refusals == 0)}, nil
}

func oneWinner(ctx context.Context, e *Env) (Result, error) {
	n := e.of(15, 20_000)
	nodes, err := e.hence(ctx, 2)
	if err != nil {
		return Result{}, err
	}
	race := func(one, two *bus) (right int, err error) {
		for k := range n {
			key := fmt.Sprint("race", k)
			if err := one.create(ctx, key); err != nil {
				return 0, err
			}
			if _, err := two.until(ctx, key, "", 0); err != nil {
				return 0, err
			}
			var won [2]bool
			err := together(2, func(i int) (err error) {
				won[i], err = []*bus{one, two}[i].commit(ctx, key, fmt.Sprint("agent", i), "mine", 0)
				return err
			})
			if err != nil {
				return 0, err
			}
			if won[0] != won[1] {
				right++
			}
		}
		return right, nil
	}
	ours, err := race(nodes[0], nodes[1])
	if err != nil {
		return Result{}, err
	}
	until, end := context.WithCancel(ctx)
	defer end()
	at, err := baseline(until, lastWriter)
	if err != nil {
		return Result{}, err
	}
	theirs, err := race(newBus(at), newBus(at))
	return Result{Ours: "exactly one in " + of(ours, n), Baseline: fmt.Sprintf("%v: exactly one in %s", lastWriter,
		of(theirs, n)),
		Verdict: holds(ours == n && theirs == 0)}, err
}

func phenomena(ctx context.Context, e *Env) (Result, error) {
	// Each history lets two commits through, or refuses one of them: which one does not matter.
	histories := map[string]func(context.Context, *bus) (bool, error){
		"lost update": func(ctx context.Context, b *bus) (bool, error) { return pair(ctx, b, "u", "u", "u", false) },
		"write skew":  func(ctx context.Context, b *bus) (bool, error) { return pair(ctx, b, "s", "sx", "sy", false) },
		"write skew over a declared read": func(ctx context.Context, b *bus) (bool, error) {
			return pair(ctx, b, "d", "dx", "dy", true)
		},
		"stale sibling": func(ctx context.Context, b *bus) (bool, error) {
			got, err := trials(ctx, b, b, 1, false)
			return got.refused == 1, err
		},
	}
	rules := []rule{lastWriter, ownVersion, wholeStep}
	prevented := make([]int, 1+len(rules))
	for _, history := range histories {
		ours, theirs, err := beside(ctx, e, rules, history)
		if err != nil {
			return Result{}, err
		}
		for i, yes := range append([]bool{ours}, theirs...) {
			if yes {
				prevented[i]++
			}
		}
	}
	n := len(histories)
	return Result{Ours: of(prevented[0], n) + " prevented: lost update, write skew by log and by declared reads, " +
		"stale sibling",
		Baseline: fmt.Sprintf("%v %s, %v %s, %v %s", rules[0], of(prevented[1], n), rules[1], of(prevented[2], n), rules[2],
			of(prevented[3], n)),
		Verdict: holds(prevented[0] == n && prevented[1] == 0 && prevented[2] == 1)}, nil
}

// pair is two names that read the same, and write the one and the other; it says whether one was refused.
func pair(ctx context.Context, b *bus, run, x, y string, declared bool) (prevented bool, err error) {
	keys := slices.Compact([]string{x, y})
	if err := b.create(ctx, keys...); err != nil {
		return false, err
	}
	names := []string{run + "-one", run + "-two"}
	for _, name := range names {
		if declared {
			break
		}
		for _, key := range keys {
			if _, err := b.get(ctx, key, name); err != nil {
				return false, err
			}
		}
	}
	done := 0
	for i, key := range []string{x, y} {
		var reads []readSet
		if other := []string{y, x}[i]; declared && other != key {
			reads = []readSet{{other, 0}}
		}
		ok, err := b.commit(ctx, key, names[i], "mine", 0, reads...)
		if err != nil {
			return false, err
		}
		if ok {
			done++
		}
	}
	return done == 1, nil
}

func guarantees(ctx context.Context, e *Env) (Result, error) {
	n := e.of(40, 10_000)
	own, err := e.hence(ctx, 1)
	if err != nil {
		return Result{}, err
	}
	b := own[0]
	if err := b.create(ctx, "session", "follows"); err != nil {
		return Result{}, err
	}
	own1, monotone, follows := 0, 0, 0
	last, wrote := uint64(0), uint64(0)
	for k := range n {
		name := fmt.Sprint("agent", k%2)
		seen, err := b.get(ctx, "session", name)
		if err != nil {
			return Result{}, err
		}
		if seen.Version < wrote {
			own1++
		}
		if seen.Version < last {
			monotone++
		}
		last = seen.Version
		done, err := b.commit(ctx, "session", name, fmt.Sprint("text ", k), seen.Version)
		if err != nil {
			return Result{}, err
		}
		if done {
			wrote = seen.Version + 1
		}
		// What rests on a read is not accepted before what it read.
		other, err := b.get(ctx, "session", name)
		if err != nil {
			return Result{}, err
		}
		if other.Version < wrote {
			follows++
		}
	}
	return Result{Ours: fmt.Sprintf("of %d sequences: own writes missed %d, reads that went back %d, writes before "+
		"what they follow %d",
		n, own1, monotone, follows), Verdict: holds(own1 == 0 && monotone == 0 && follows == 0 && wrote == uint64(n)),
		Note: "one node; over several nodes the log's order is the same"}, nil
}
