package tables

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/runtimes"
	"github.com/hence-dev/hence/cmd/hence/internal/scenarios"
	"github.com/hence-dev/hence/sequencer/anomaly"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/topology/pause"
)

// preventionRuns are the rows that show through Hence's HTTP API what it prevents, beside what is not guarded.
func preventionRuns() map[string]run {
	return map[string]run{"D46": retracted, "D47": dependents, "D48": supervised, "D51": turned, "D52": changedTools}
}

// committed waits for a decision, and says whether it is a commit.
func committed(d client.Decision, err error) (bool, error) {
	return d.State == api.StateCommitted, err
}

// link is one transaction of a chain: it reads a shard, if there is one, and writes another.
func link(ctx context.Context, c *client.Client, from, to string) (*client.Tx, error) {
	tx, err := c.Begin(ctx, client.BeginOptions{})
	if err == nil && from != "" {
		_, err = tx.Read(ctx, from)
	}
	if err == nil {
		err = tx.Write(ctx, to, []byte("made of "+from), client.WriteOptions{})
	}
	if err != nil {
		return nil, err
	}
	if ok, err := committed(tx.Seal(ctx)); err != nil || !ok {
		return nil, errors.Join(err, errors.New("a link of a chain was not committed"))
	}
	return tx, nil
}

// retract takes a transaction back and waits until that is done. It returns how many went with it.
func retract(ctx context.Context, c *client.Client, tx string) (with int, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		got, err := c.Retract(ctx, tx, "the root of a chain", false)
		if err != nil {
			return 0, err
		}
		if got.State == api.RetractDone {
			return got.Total - 1, nil
		}
		if err := pause.Sleep(ctx, 2*time.Millisecond); err != nil {
			return 0, err
		}
	}
}

// chains are what chains of one depth came to.
type chains struct{ n, cascades, gone int }

// chained makes chains of a depth, takes the root of each back, and counts those of which something still stands.
func chained(ctx context.Context, place Place, depth, n int) (out chains, err error) {
	for i := range n {
		scope := func(k int) string { return fmt.Sprintf("shard:/chain/%d-%d-%d", depth, i, k) }
		var root *client.Tx
		for k := range depth {
			from := ""
			if k > 0 {
				from = scope(k - 1)
			}
			tx, err := link(ctx, place.Agents[k%len(place.Agents)], from, scope(k))
			if err != nil {
				return out, err
			}
			if k == 0 {
				root = tx
			}
		}
		with, err := retract(ctx, place.Agents[0], root.ID())
		if err != nil {
			return out, err
		}
		out.gone += with
		out.n++
		for k := range depth {
			left, err := place.Agents[0].Look(ctx, scope(k))
			if err != nil {
				return out, err
			}
			if left.Exists {
				out.cascades++
				break
			}
		}
	}
	return out, nil
}

// depths are those of the paper.
func depths() []int { return []int{2, 3, 5} }

// ofChains runs chains on Hence, and the same without a guard.
func (e *Env) ofChains(ctx context.Context) (ours []chains, without []int, err error) {
	place, err := e.Ground.Workspace(ctx, 1, 5, "")
	if err != nil {
		return nil, nil, err
	}
	n := e.of(5, 1_000)
	for _, depth := range depths() {
		got, err := chained(ctx, place, depth, n)
		if err != nil {
			return nil, nil, err
		}
		ours, without = append(ours, got), append(without, 0)
		for range n {
			if e.run(scenarios.Chain(depth), runtimes.Vanilla).Has(anomaly.A3) {
				without[len(without)-1]++
			}
		}
	}
	return ours, without, nil
}

func retracted(ctx context.Context, e *Env) (Result, error) {
	ours, without, err := e.ofChains(ctx)
	if err != nil {
		return Result{}, err
	}
	ok := true
	var words, others []string
	for i, one := range ours {
		ok = ok && one.cascades == 0 && one.n > 0 && without[i] == one.n
		words, others = append(words, of(one.cascades, one.n)), append(others, of(without[i], one.n))
	}
	return Result{Ours: "chains with something left: " + strings.Join(words, ", "),
		Baseline: "without a guard: " + strings.Join(others, ", "), Verdict: holds(ok),
		Note: "at depths two, three and five; the root of each is retracted, so without a guard all of them have it by " +
			"construction"}, nil
}

func dependents(ctx context.Context, e *Env) (Result, error) {
	ours, _, err := e.ofChains(ctx)
	if err != nil {
		return Result{}, err
	}
	ok := true
	var words, expected []string
	for i, one := range ours {
		want := (depths()[i] - 1) * one.n
		ok = ok && one.gone == want && want > 0
		words, expected = append(words, fmt.Sprint(one.gone)), append(expected, fmt.Sprint(want))
	}
	return Result{Ours: "taken back with their roots: " + strings.Join(words, ", "),
		Baseline: "rest on them: " + strings.Join(expected, ", "), Verdict: holds(ok)}, nil
}

func supervised(ctx context.Context, e *Env) (Result, error) {
	place, err := e.Ground.Workspace(ctx, 1, 3, "")
	if err != nil {
		return Result{}, err
	}
	n, chance := e.of(10, 200), e.chance("supervised")
	var words []string
	ok, plain, back := true, 0, 0
	for i, rate := range []float64{0, .155, .445} {
		taken, left, alive := 0, 0, 0
		for k := range n {
			plan, result := fmt.Sprintf("shard:/plan/%d-%d", i, k), fmt.Sprintf("shard:/result/%d-%d", i, k)
			tx, err := link(ctx, place.Agents[0], "", plan)
			if err == nil {
				_, err = link(ctx, place.Agents[1], plan, result)
			}
			if err != nil {
				return Result{}, err
			}
			bad := chance.Float64() < rate || rate > .4 && k == 0
			if bad {
				taken++
				if _, err := retract(ctx, place.Agents[2], tx.ID()); err != nil {
					return Result{}, err
				}
				if e.run(scenarios.PhantomWrite(), runtimes.Vanilla).Has(anomaly.A3) {
					plain++
				}
			}
			got, err := place.Agents[2].Look(ctx, result)
			if err != nil {
				return Result{}, err
			}
			if got.Exists {
				alive++
			}
			if got.Exists && bad {
				left++
			}
		}
		back += taken
		ok = ok && left == 0 && alive == n-taken
		words = append(words, fmt.Sprintf("%d of %d retracted, %d executors stand", taken, n, alive))
	}
	return Result{Ours: strings.Join(words, "; "), Baseline: "without a guard " + of(plain,
		back) + " executors of a retracted plan stand",
		Verdict: holds(ok && back > 0 && plain == back),
		Note:    "a scripted supervisor that retracts at the paper's rates"}, nil
}

// sink is a server of effects that remembers in which order they came.
type sink struct {
	mu   sync.Mutex
	came map[string][]string
}

// ServeHTTP takes one effect.
func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in map[string]any
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	run := fmt.Sprint(in["run"])
	s.came[run] = append(s.came[run], fmt.Sprint(in["k"]))
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte("{}"))
}

// inOrder says whether the effects of a run came as they were issued, and whether all are there.
func (s *sink) inOrder(run string, width int) (ordered, whole bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ordered = true
	for i, k := range s.came[run] {
		ordered = ordered && k == fmt.Sprint(i)
	}
	return ordered, len(s.came[run]) == width
}

// shuffled is an order that is not the one of issue.
func shuffled(chance *rand.Rand, width int) []int {
	for {
		if order := chance.Perm(width); !slices.IsSorted(order) {
			return order
		}
	}
}

// turn makes parallel calls of one planned turn, which come in an order of their own, and waits until all have left.
func turn(ctx context.Context, c *client.Client, tool string, order []int, args func(k int) any) error {
	tx, err := c.Begin(ctx, client.BeginOptions{})
	if err != nil {
		return err
	}
	var calls []string
	for i := range order {
		calls = append(calls, fmt.Sprint("call", i))
	}
	if _, err := tx.Plan(ctx, calls...); err != nil {
		return err
	}
	err = together(len(order), func(i int) error {
		k := order[i]
		if err := pause.Sleep(ctx, time.Duration(i)*time.Millisecond); err != nil {
			return err
		}
		_, err := tx.Effect(ctx, tool, args(k), client.EffectOptions{Call: calls[k]})
		return err
	})
	if err != nil {
		return err
	}
	d, err := tx.Seal(ctx)
	for err == nil && !d.Final {
		if err = ctx.Err(); err == nil {
			d, err = tx.Status(ctx, time.Second)
		}
	}
	if err == nil && d.State != api.StateCommitted {
		err = fmt.Errorf("a turn is %s: %s", d.State, d.Code)
	}
	return err
}

func turned(ctx context.Context, e *Env) (Result, error) {
	until, end := context.WithCancel(ctx)
	defer end()
	s := &sink{came: map[string][]string{}}
	at, err := serve(until, s)
	if err != nil {
		return Result{}, err
	}
	u, err := url.Parse(at)
	if err != nil {
		return Result{}, fmt.Errorf("read the sink's address: %w", err)
	}
	rules, err := claims.ReadFile("claims/turn.yaml")
	if err != nil {
		return Result{}, fmt.Errorf("read the policy of the turn: %w", err)
	}
	place, err := e.Ground.Workspace(ctx, 1, 1, strings.ReplaceAll(string(rules), "{{sink}}", u.Host))
	if err != nil {
		return Result{}, err
	}
	n, chance := e.of(3, 1_000), e.chance("turned")
	var words, others []string
	ok := true
	for _, width := range []int{2, 3, 4, 5, 8, 16} {
		bad, partial, direct := 0, 0, 0
		for i := range n {
			order := shuffled(chance, width)
			run := fmt.Sprintf("ours-%d-%d", width, i)
			err := turn(ctx, place.Agents[0], "log.add", order, func(k int) any {
				return map[string]string{"run": run, "k": fmt.Sprint(k)}
			})
			if err != nil {
				return Result{}, err
			}
			ordered, whole := s.inOrder(run, width)
			if !ordered {
				bad++
			}
			if !whole {
				partial++
			}
			run = fmt.Sprintf("direct-%d-%d", width, i)
			for _, k := range order { // as they complete
				body := strings.NewReader(fmt.Sprintf(`{"run":%q,"k":%d}`, run, k))
				resp, err := http.Post(at+"/add", "application/json", body)
				if err != nil {
					return Result{}, fmt.Errorf("call the sink: %w", err)
				}
				resp.Body.Close()
			}
			if ordered, whole := s.inOrder(run, width); !ordered && whole {
				direct++
			}
		}
		ok = ok && bad == 0 && partial == 0 && direct == n
		words, others = append(words, of(bad, n)), append(others, of(direct, n))
	}
	return Result{Ours: "turns reordered: " + strings.Join(words, ", "),
		Baseline: "leaving on completion: " + strings.Join(others, ", "),
		Verdict:  holds(ok),
		Note: "at widths two, three, four, five, eight and sixteen, each call in an order that is not the one of " +
			"issue, so " +
			"without a guard all are reordered by construction; D56 has the rate without that"}, nil
}

func changedTools(ctx context.Context, e *Env) (Result, error) {
	place, err := e.Ground.Workspace(ctx, 1, 2, "")
	if err != nil {
		return Result{}, err
	}
	n := e.of(5, 1_000)
	owner, planner := place.Agents[0], place.Agents[1]
	var words, others []string
	ok := true
	for _, size := range []int{2, 4, 16} {
		server := fmt.Sprint("server", size)
		for k := range size {
			if _, err := owner.PutTool(ctx, server, fmt.Sprint("tool", k), "first"); err != nil {
				return Result{}, err
			}
		}
		through := [2]int{}
		for i := range n {
			tool := fmt.Sprint("tool", i%size)
			for k, level := range []string{"", "L3"} {
				now := fmt.Sprintf("signature %d %d", i, k)
				if _, err := owner.PutTool(ctx, server, tool, now); err != nil {
					return Result{}, err
				}
				tx, err := planner.Begin(ctx, client.BeginOptions{Levels: level})
				if err != nil {
					return Result{}, err
				}
				if _, err := owner.PutTool(ctx, server, tool, now+" changed"); err != nil {
					return Result{}, err
				}
				scope := fmt.Sprintf("shard:/plans/%d", size)
				if err := tx.Write(ctx, scope, []byte(tool), client.WriteOptions{}); err != nil {
					return Result{}, err
				}
				done, err := committed(tx.SealPinned(ctx, []client.Pin{{Server: server, Name: tool, Signature: now}}))
				if p := (*client.Problem)(nil); errors.As(err, &p) && p.Code == "phantom_tool" {
					err = nil
				}
				if err != nil {
					return Result{}, err
				}
				if done {
					through[k]++
				}
			}
		}
		ok = ok && through[0] == 0 && through[1] == n
		words, others = append(words, of(through[0], n)), append(others, of(through[1], n))
	}
	return Result{Ours: "committed on a tool that had changed: " + strings.Join(words, ", "),
		Baseline: "at the level without this check: " + strings.Join(others, ", "), Verdict: holds(ok),
		Note: "with registries of two, four and sixteen tools; the planned one always changes"}, nil
}
