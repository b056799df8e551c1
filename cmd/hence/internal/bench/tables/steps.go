package tables

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/retail"
	"github.com/hence-dev/hence/gate/sinks"
	"github.com/hence-dev/hence/sidecar/client"
)

// faulty is one class of faults, alone.
type faulty struct {
	name string
	at   func(rate float64) sinks.Faults
	most time.Duration // an answer is waited for so long
	undo bool          // its errands are given up when all calls are made, so that they are taken back
}

func (e *Env) classes() []faulty {
	return []faulty{
		{"refused", func(r float64) sinks.Faults { return sinks.Faults{Seed: e.Seed, Refuse: r} }, answerTime, false},
		{"lost", func(r float64) sinks.Faults { return sinks.Faults{Seed: e.Seed, Lose: r} }, answerTime, false},
		{"not undone", func(r float64) sinks.Faults { return sinks.Faults{Seed: e.Seed, Undo: r} }, answerTime, true},
		{"twice", func(r float64) sinks.Faults { return sinks.Faults{Seed: e.Seed, Duplicate: r} }, answerTime, false},
		{"late", func(r float64) sinks.Faults {
			return sinks.Faults{Seed: e.Seed, Late: r, Delay: lateTime * 3 / 2}
		}, lateTime, false},
	}
}

// fiveCalls are errands of five calls that act: four notes and a confirmation.
func fiveCalls(set *retail.Dataset, n int, stops bool) (all []errand, err error) {
	const noted = 4
	order, err := json.Marshal(set.ContendedOrder())
	if err != nil {
		return nil, fmt.Errorf("write an order's name: %w", err)
	}
	var task retail.Task
	for i := range noted {
		task.Actions = append(task.Actions, retail.Action{Name: "annotate_order",
			Arguments: fmt.Appendf(nil, `{"order_id": %s, "text": "note %d"}`, order, i)})
	}
	w, err := errandOf(set, task)
	w.stops = stops
	for range n {
		all = append(all, w)
	}
	return all, err
}

func fiveSteps(ctx context.Context, e *Env) (Result, error) {
	set, _, err := e.errands(1)
	if err != nil {
		return Result{}, err
	}
	const low, high = .02, .3
	rates := []float64{high}
	if e.Full {
		rates = []float64{low, .1, high}
	}
	n, wide := e.of(2, 100), 2*lanes
	var words []string
	whole, honest, once, reported := true, true, true, 0
	for _, c := range e.classes() {
		all, err := fiveCalls(set, n, c.undo)
		if err != nil {
			return Result{}, err
		}
		var parts []string
		for _, rate := range rates {
			t, err := e.onHence(ctx, set, all, c.at(rate), shopPace{tries: shopTries, most: c.most}, wide)
			if err != nil {
				return Result{}, fmt.Errorf("%s: %w", c.name, err)
			}
			parts = append(parts, digits(100*float64(t.cleans)/float64(n)))
			honest = honest && t.unreported == 0 && (t.idle == 0 && c.undo || t.committed > 0)
			reported += t.reported
			once = once && t.twice == 0
			whole = whole && (c.undo || t.successes == n)
		}
		words = append(words, c.name+" "+strings.Join(parts, "/"))
	}
	keyless := []kind{sagaKind(), replayKind(), occKind(), noTxKind()}
	var theirs []string
	few, fall := e.of(16, 200), true
	doubled := e.classes()[3]
	all, err := fiveCalls(set, few, false)
	if err != nil {
		return Result{}, err
	}
	for i, k := range append(keyless, keysKind()) {
		var shares []float64
		for _, rate := range []float64{low, high} {
			t, err := e.besideHence(ctx, set, all, k, doubled.at(rate), paceOf(shopTries))
			if err != nil {
				return Result{}, fmt.Errorf("%s: %w", k.name, err)
			}
			shares = append(shares, 100*float64(t.cleans)/float64(few))
		}
		fall = fall && (i == len(keyless) || shares[1] < shares[0])
		theirs = append(theirs, fmt.Sprintf("%s %s to %s", k.name, digits(shares[0]), digits(shares[1])))
	}
	return Result{Ours: "% clean: " + strings.Join(words, ", "),
		Baseline: "% clean where calls come twice, at the lowest and the highest rate: " + strings.Join(theirs, ", "),
		Verdict:  beats(honest && once && fall && (reported > 0 || !e.Full), whole),
		Note: fmt.Sprintf("each fault really happens at the shop, at a rate of up to %s of calls; where compensations fail "+
			"the errand is given up after its calls, and %d effects that stay are all on the list of residue, and nothing "+
			"else is. Whether a call twice is one effect the shop decides, by its key: so a way with keys does not fall "+
			"either, as it does in the paper's model", digits(high), reported)}, nil
}

// wrong is a fault that an agent makes.
type wrong struct {
	name, tool string
	args       func(room string) map[string]any
}

func mistakes(order string) []wrong {
	return []wrong{
		{"unknown tool", "annotate_orders", func(string) map[string]any {
			return map[string]any{"order_id": order, "text": "note"}
		}},
		{"argument missing", "annotate_order", func(string) map[string]any { return map[string]any{"order_id": order} }},
		{"argument of another kind", "annotate_order", func(string) map[string]any {
			return map[string]any{"order_id": order, "text": 1}
		}},
		{"outside of what it may", toolConfirm, func(string) map[string]any { return map[string]any{"room": "another"} }},
	}
}

// agentFaults lets an agent make each kind of mistake at its steps, and the clean call after it.
func agentFaults(ctx context.Context, e *Env) (Result, error) {
	set, _, err := e.errands(1)
	if err != nil {
		return Result{}, err
	}
	s, err := openShop(set, sinks.Faults{})
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	g, err := e.gatedAt(ctx, s, paceOf(1), lanes, client.BeginOptions{})
	if err != nil {
		return Result{}, err
	}
	runs, steps := e.of(4, 100), e.of(4, 15)
	order := set.ContendedOrder()
	kinds := mistakes(order)
	refused, tried, right := make([]int, len(kinds)), make([]int, len(kinds)), make([]int, runs)
	err = together(min(lanes, runs), func(lane int) error {
		for r := lane; r < runs; r += lanes {
			for step := range steps {
				if step%2 == 0 {
					k := (step/2 + r) % len(kinds)
					no, err := g.mistake(ctx, lane, s, fmt.Sprint("run-", r), step, kinds[k])
					if err != nil {
						return err
					}
					s.mu.Lock()
					tried[k]++
					if no {
						refused[k]++
					}
					s.mu.Unlock()
				}
				yes, err := g.oneCall(ctx, lane, fmt.Sprint("run-", r), step, order)
				if err != nil {
					return err
				}
				if yes {
					right[r]++
				}
			}
		}
		return nil
	})
	if err != nil {
		return Result{}, err
	}
	var words []string
	ok, done := true, 0
	for i, k := range kinds {
		ok = ok && refused[i] == tried[i] && tried[i] > 0
		words = append(words, k.name+" "+of(refused[i], tried[i]))
	}
	for r := range runs {
		if right[r] == steps && s.order(fmt.Sprint("run-", r), order).LastNote() == steps {
			done++
		}
	}
	ours := len(s.Entries())
	reached, effects, wholes, err := s.bareMistakes(ctx, kinds, runs, steps, order)
	if err != nil {
		return Result{}, err
	}
	return Result{
		Ours: fmt.Sprintf("refused before anything runs: %s; runs that are right after the clean call %s",
			strings.Join(words, ", "), percent(done, runs)),
		Baseline: fmt.Sprintf("bare calls without a further try: %d mistakes reach the shop, %d take effect, %s runs are "+
			"right", reached, effects, of(wholes, runs)),
		Verdict: holds(ok && done == runs && ours == runs*steps && wholes < runs),
		Note: fmt.Sprintf("every other of %d steps begins with a mistake: a name that no declaration serves, arguments "+
			"that are none of the policy's, and a confirmation to a customer whom the transaction has not claimed, which is "+
			"held and dropped at the seal. The shop's own record has %d calls for as many clean ones", steps, ours)}, err
}

// claimed is what an agent of a room may do.
func claimed(room string) client.BeginOptions {
	return client.BeginOptions{Mode: "ordered", May: []client.Want{{Scope: "shop:/" + room + "/**", Access: "write"},
		{Scope: "mail:/" + room + "/**", Access: "write"}}}
}

// mistake makes a wrong call in a transaction of its own: whether it was refused, and the shop has heard nothing.
func (g *gatedShop) mistake(ctx context.Context, lane int, s *shop, room string, step int, m wrong) (bool, error) {
	tx, err := g.place.Agents[lane].Begin(ctx, claimed(room))
	if err != nil {
		return false, fmt.Errorf("begin a mistake: %w", err)
	}
	body := map[string]any{"room": room, "who": "agent", "step": step}
	for name, value := range m.args(room) {
		body[name] = value
	}
	_, err = tx.Effect(ctx, m.tool, body, client.EffectOptions{})
	if p := (*client.Problem)(nil); errors.As(err, &p) {
		return true, g.abort(ctx, tx)
	}
	if err != nil {
		return false, fmt.Errorf("make a mistake: %w", err)
	}
	ok, err := committed(tx.Seal(ctx))
	if p := (*client.Problem)(nil); errors.As(err, &p) {
		ok, err = false, nil
	}
	return !ok, err
}

// oneCall notes something in a transaction of its own.
func (g *gatedShop) oneCall(ctx context.Context, lane int, room string, step int, order string) (bool, error) {
	tx, err := g.place.Agents[lane].Begin(ctx, claimed(room))
	if err != nil {
		return false, fmt.Errorf("begin a step: %w", err)
	}
	_, err = tx.Effect(ctx, "annotate_order", map[string]any{"room": room, "who": "agent", "step": step,
		"order_id": order, "text": fmt.Sprint("note ", step)}, client.EffectOptions{})
	if err != nil {
		return false, fmt.Errorf("make a step: %w", err)
	}
	return committed(tx.Seal(ctx))
}

// bareMistakes makes the same mistakes at the shop itself: a step that begins with one is lost.
func (s *shop) bareMistakes(ctx context.Context, kinds []wrong, runs, steps int, order string) (reached, effects,
	wholes int, err error) {
	b := bareAt(s)
	for r := range runs {
		room, right := fmt.Sprint("bare-", r), 0
		for step := range steps {
			body := map[string]any{"room": room, "who": "agent", "step": step, "order_id": order, "text": "note"}
			if step%2 > 0 {
				if _, err := b.post(ctx, "annotate_order", body, answerTime, "", ""); err != nil {
					return 0, 0, 0, err
				}
				right++
				continue
			}
			m, before := kinds[(step/2+r)%len(kinds)], len(s.Entries())
			body = map[string]any{"room": room, "who": "agent", "step": step}
			for name, value := range m.args(room) {
				body[name] = value
			}
			a, err := b.post(ctx, m.tool, body, answerTime, "", "")
			if err != nil {
				return 0, 0, 0, err
			}
			reached += len(s.Entries()) - before
			if !a.Refused {
				effects++
			}
		}
		if right == steps {
			wholes++
		}
	}
	return reached, effects, wholes, nil
}
