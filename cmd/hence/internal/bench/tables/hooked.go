package tables

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/hence-dev/hence/sidecar/client"
)

// payment is one that an agent makes, and the one that was asked for.
type payment struct {
	run, to string
	cents   int
	wrong   bool
}

// args are the payment as an agent sends it.
func (p payment) args() map[string]any {
	return map[string]any{"run": p.run, "to": p.to, "cents": p.cents}
}

// payments are right in one of four, and else to somebody else or of another amount.
func (e *Env) payments(way string) (list []payment, asked map[string]payment) {
	chance, n := e.chance("payments"), 30
	asked = map[string]payment{}
	for i := range n {
		p := payment{run: fmt.Sprintf("%s %d", way, i), to: fmt.Sprint("account ", i%7), cents: 100 + chance.IntN(10_000)}
		asked[p.run] = p
		switch p.wrong = 4*(i+1) <= 3*n; {
		case p.wrong && i%2 == 0:
			p.to += " of another"
		case p.wrong:
			p.cents++
		}
		list = append(list, p)
	}
	return list, asked
}

func hooked(ctx context.Context, e *Env) (res Result, err error) {
	dir, err := os.MkdirTemp("", "hence-tables-hook-")
	if err != nil {
		return Result{}, fmt.Errorf("make a folder for a hook: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "asked")
	if err := e.writeAsked(file); err != nil {
		return Result{}, err
	}
	_, asked := e.payments("by URL")
	o, err := openOutside(ctx, "gate.yaml", func(args map[string]any) bool {
		p := asked[fmt.Sprint(args["run"])]
		return args["to"] == p.to && args["cents"] == float64(p.cents)
	})
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	var words []string
	ok := true
	for _, way := range []struct {
		name string
		site Site
	}{
		{"without", Site{}},
		{"by URL", Site{HookURL: o.judge}},
		{"by command", Site{HookCommand: []string{"sh", "-c", judgement, "judge", file}}},
	} {
		way.site.Nodes, way.site.Agents, way.site.Policy = 1, 1, o.rules
		place, err := e.Ground.Open(ctx, way.site)
		if err != nil {
			return Result{}, err
		}
		list, _ := e.payments(way.name)
		wrong, right, gone, veto := 0, 0, 0, 0
		for _, p := range list {
			done, err := place.Agents[0].Do(ctx, "money.pay", p.args(), client.EffectOptions{})
			if err != nil {
				return Result{}, err
			}
			if done.Decision, err = untilFinal(ctx, place.Agents[0].Tx(done.Tx)); err != nil {
				return Result{}, err
			}
			if done.Decision.Code == vetoed.code() {
				veto++
			}
		}
		sent, err := o.sent()
		if err != nil {
			return Result{}, err
		}
		for _, p := range list {
			if p.wrong {
				wrong++
				gone += sent[p.run]
			} else {
				right += sent[p.run]
			}
		}
		want := 0
		if way.name == "without" {
			want = wrong
		}
		ok = ok && gone == want && right == len(list)-wrong && veto == wrong-want && wrong > 0
		words = append(words, fmt.Sprintf("%s %s, and %s right ones", way.name, of(gone, wrong), of(right, len(list)-wrong)))
	}
	return Result{Ours: "wrong payments that left: " + strings.Join(words[1:], "; "), Baseline: words[0],
		Verdict: holds(ok)}, nil
}

// writeAsked writes the payments that are asked for, by which the command judges.
func (e *Env) writeAsked(path string) error {
	_, asked := e.payments("by command")
	var lines []byte
	for _, p := range asked {
		text, err := json.Marshal(p.args())
		if err != nil {
			return fmt.Errorf("write a payment: %w", err)
		}
		lines = append(append(lines, text...), '\n')
	}
	if err := os.WriteFile(path, lines, 0o600); err != nil {
		return fmt.Errorf("write the payments of a hook: %w", err)
	}
	return nil
}

// judgement is a hook as a command: it says yes if the footprint has a line of the file, which are the arguments of
// what was asked for.
const judgement = `if grep -q -F -f "$@"; then echo '{"yes": true}'
else echo '{"yes": false, "reason": "it was not asked for"}'; fi`
