package tables

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/hence-dev/hence/gate/policy"
	"github.com/hence-dev/hence/sequencer"
)

// naming is a case: two calls that name one resource, or do not.
type naming struct {
	together bool
	differs  string // why the paper says otherwise than Hence does: adapter, design; both: it does not
	a, b     string // a tool and its arguments
}

// namings are the cases of the row, half of which are together.
func namings() (all []naming, err error) {
	text, err := claims.ReadFile("claims/names.txt")
	if err != nil {
		return nil, fmt.Errorf("read the names of a row: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		field := strings.Split(strings.TrimSpace(line), " | ")
		if len(field) != 4 {
			return nil, fmt.Errorf("a case of names has %d fields: %s", len(field), line)
		}
		all = append(all, naming{field[0] == "together", field[1], field[2], field[3]})
	}
	return all, nil
}

// scopesOf is what a call moves.
func scopesOf(p *policy.Policy, call string) ([]sequencer.Scope, error) {
	tool, args, _ := strings.Cut(call, " ")
	found, err := p.Find(tool, json.RawMessage(args))
	if err != nil {
		return nil, fmt.Errorf("find the scopes of %s: %w", call, err)
	}
	return found.Scopes, nil
}

// judged are cases under one way to name things: those that are together and kept apart, those that are apart and
// taken for one, and those that do not differ from the paper although Hence is to.
type judged struct{ missed, false, other int }

// judge holds cases against what is said of them, and says which come out otherwise than the paper has them.
func judge(p *policy.Policy, cases []naming, meet func(a, b sequencer.Scope) bool) (out judged, differ []string,
	err error) {
	for _, c := range cases {
		a, err := scopesOf(p, c.a)
		if err != nil {
			return out, nil, err
		}
		b, err := scopesOf(p, c.b)
		if err != nil {
			return out, nil, err
		}
		met := slices.ContainsFunc(a, func(x sequencer.Scope) bool {
			return slices.ContainsFunc(b, func(y sequencer.Scope) bool { return meet(x, y) })
		})
		switch {
		case c.differs != "both" && met != c.together:
			differ = append(differ, fmt.Sprintf("%s and %s (%s)", c.a, c.b, c.differs))
		case c.differs != "both":
			out.other++
		case c.together && !met:
			out.missed++
		case !c.together && met:
			out.false++
		}
	}
	return out, differ, nil
}

// unfilteredNames is a policy without filters, and without what says how things are spelled.
func unfilteredNames(text string) string {
	text = regexp.MustCompile(`\|[a-z]+}`).ReplaceAllString(text, "}")
	return regexp.MustCompile(`(?m)^types:\n(  .*\n)+`).ReplaceAllString(text, "")
}

func oneName(_ context.Context, e *Env) (Result, error) {
	cases, err := namings()
	if err != nil {
		return Result{}, err
	}
	text, err := claims.ReadFile("claims/names.yaml")
	if err != nil {
		return Result{}, fmt.Errorf("read the policy of a row: %w", err)
	}
	p, err := e.Subject.Load(text)
	if err != nil {
		return Result{}, fmt.Errorf("load the policy of names: %w", err)
	}
	naive, err := e.Subject.Load([]byte(unfilteredNames(string(text))))
	if err != nil {
		return Result{}, fmt.Errorf("load the policy without filters: %w", err)
	}
	together, apart := 0, 0
	for _, c := range cases {
		switch {
		case c.differs != "both":
		case c.together:
			together++
		default:
			apart++
		}
	}
	own, differ, err := judge(p, cases, e.Subject.Overlaps)
	if err != nil {
		return Result{}, err
	}
	plain, _, err := judge(naive, cases, sequencer.Scope.Overlaps)
	if err != nil {
		return Result{}, err
	}
	equal, _, err := judge(p, cases, func(a, b sequencer.Scope) bool { return a == b })
	if err != nil {
		return Result{}, err
	}
	global, _, err := judge(p, cases, func(_, _ sequencer.Scope) bool { return true })
	if err != nil {
		return Result{}, err
	}
	rewrites, found := p.Fuzz(e.Seed, e.of(500, 10_000))
	_, loose := naive.Fuzz(e.Seed, e.of(500, 10_000))
	return Result{
		Ours: fmt.Sprintf("missed %s, false %s; of %d rewritten names the fuzzer finds %d that are kept apart; %d cases "+
			"differ by design", of(own.missed, together), of(own.false, apart), rewrites, len(found),
			len(differ)),
		Baseline: fmt.Sprintf("without filters missed %d, false %d, and the fuzzer finds %d declarations; equal names only "+
			"missed %d; one scope for all false %d", plain.missed, plain.false, len(loose), equal.missed, global.false),
		Verdict: holds(own == judged{} && len(differ) == 4 && len(cases) == 56 && len(found) == 0 && plain.missed > 0 &&
			len(loose) > 0 && equal.missed > 0 && global.false == apart && global.missed == 0),
		Note: "the cases are ours, as the paper's are not printed in it. By design: " + strings.Join(differ, "; ")}, nil
}
