package tables

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hence-dev/hence/gate/policy"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

// fault is a policy with something wrong in it.
type fault struct {
	name    string
	replace []string
}

// declarationFaults are those of the paper; the first one is none.
func declarationFaults() []fault {
	return []fault{
		{"right", nil},
		{"broad", []string{"order:/{order}/notice", "order:/**", "order:/{order}/lock", "order:/**", "order:/{order}",
			"order:/**"}},
		{"narrow", []string{`["order:/{order}"]`, `["act:/{run}"]`, "order:/{order}/notice", "notice:/{run}"}},
		{"a wrong class", []string{"irreversible", "reversible", `key: "{run}/notice"`, "keyed: true",
			`["order:/{order}/notice"]`, "[\"order:/{order}/notice\"]\n    compensation: {tool: order.unlock}"}},
		{"no compensation", []string{"    compensation: {tool: order.unlock}\n", ""}},
	}
}

// said is what is known of a policy before it is run.
type said struct {
	refused      bool
	lint, fuzzed []string // rules of mistakes
}

// named says whether anything is said of a fault that the right policy is not told.
func (s said) named(right said) bool {
	more := func(a, b []string) bool {
		return slices.ContainsFunc(a, func(rule string) bool { return !slices.Contains(b, rule) })
	}
	return s.refused || more(s.lint, right.lint) || more(s.fuzzed, right.fuzzed)
}

// beforehand asks lint and fuzz.
func (e *Env) beforehand(text string) (s said, err error) {
	p, err := e.Subject.Load([]byte(text))
	if errors.Is(err, policy.ErrPolicy) {
		return said{refused: true}, nil
	}
	if err != nil {
		return s, err
	}
	for _, f := range e.Subject.Lint(p) {
		s.lint = append(s.lint, string(f.Severity)+" "+f.Rule)
	}
	_, found := p.Fuzz(e.Seed, e.of(200, 10_000))
	for _, f := range found {
		s.fuzzed = append(s.fuzzed, string(f.Severity)+" "+f.Rule)
	}
	return s, nil
}

// outcomes are what trials under one policy came to.
type outcomes struct{ violations, leaks, commits, refused int }

// bothAct lets two agents act on one order and tell its customer, both of which see it as nobody has touched it. More
// than one act on an order is a violation, and a notice of work that came to nothing a leak.
func bothAct(ctx context.Context, o *outside, place Place, name string, n int) (out outcomes, err error) {
	committed := map[string]bool{}
	for i := range n {
		order := fmt.Sprint(name, i)
		txs := make([]*client.Tx, 2)
		for k := range txs {
			if txs[k], err = place.Agents[k].Begin(ctx, client.BeginOptions{}); err != nil {
				return out, err
			}
			// What the order is kept in is read by the name that the right policy moves.
			if _, err = txs[k].AnnounceUnknown(ctx, "order:/"+order); err != nil {
				return out, err
			}
		}
		for k, tx := range txs {
			args := map[string]string{"run": fmt.Sprint(order, " ", k), "order": order}
			for _, tool := range []string{"order.act", "notice.send"} {
				if _, err = tx.Effect(ctx, tool, args, client.EffectOptions{}); err != nil {
					return out, err
				}
			}
			d, err := tx.Seal(ctx)
			if err == nil {
				d, err = untilFinal(ctx, tx)
			}
			if err != nil {
				return out, err
			}
			if committed[args["run"]] = d.State == api.StateCommitted; committed[args["run"]] {
				out.commits++
			} else {
				out.refused++
			}
		}
	}
	acts := map[string]int{}
	for _, entry := range o.ledger.Entries() {
		if order, is := strings.CutPrefix(entry.Path, "/orders/"+name); is {
			acts[order]++
		}
	}
	for _, times := range acts {
		if times > 1 {
			out.violations++
		}
	}
	sent, err := o.sent()
	for run, did := range committed {
		if !did && sent[run] > 0 {
			out.leaks++
		}
	}
	return out, err
}

func annotated(ctx context.Context, e *Env) (res Result, err error) {
	o, err := openOutside(ctx, "orders.yaml", likes)
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	n, named := e.of(3, 200), 0
	var words, told []string
	var right said
	all := map[string]outcomes{}
	for i, f := range declarationFaults() {
		text := strings.NewReplacer(f.replace...).Replace(o.rules)
		if i > 0 && text == o.rules {
			return Result{}, fmt.Errorf("the policy with %s is the right one", f.name)
		}
		before, err := e.beforehand(text)
		if err != nil {
			return Result{}, err
		}
		if i == 0 {
			right = before
		} else if before.named(right) {
			named++
			told = append(told, f.name)
		}
		if before.refused {
			words = append(words, f.name+" is refused at load")
			continue
		}
		place, err := e.Ground.Workspace(ctx, 1, 2, text)
		if err != nil {
			return Result{}, err
		}
		got, err := bothAct(ctx, o, place, fmt.Sprint("o", i, "-"), n)
		if err != nil {
			return Result{}, fmt.Errorf("under %s: %w", f.name, err)
		}
		all[f.name] = got
		words = append(words, fmt.Sprintf("%s %d and %d", f.name, got.violations, got.leaks))
	}
	broad, narrow, wrong := all["broad"], all["narrow"], all["a wrong class"]
	_, loaded := all["no compensation"]
	return Result{
			Ours: fmt.Sprintf("violations and leaks of %d: %s; lint, fuzz or the loader name %s of the faults beforehand", n,
				strings.Join(words[1:], ", "), of(named, len(declarationFaults())-1)),
			Baseline: words[0],
			Verdict: holds(all["right"] == outcomes{commits: n, refused: n} && broad.violations+broad.leaks == 0 &&
				broad.commits > 0 && narrow.violations > 0 && narrow.leaks == 0 && wrong.violations == 0 && wrong.leaks > 0 &&
				!loaded && named >= 3),
			Note: fmt.Sprintf("two agents act on each order at once, so all trials overlap; named beforehand: %s. A tool "+
				"that is to be undone and says not how is no policy here, so nothing of it can leak", strings.Join(told, ", "))},
		nil
}
