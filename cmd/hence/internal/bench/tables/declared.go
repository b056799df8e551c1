package tables

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strings"

	"github.com/hence-dev/hence/gate/policy"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

// wiring is the text of the ways without Hence, whose lines are counted.
//
//go:embed wiring.go
var wiring string

// lines are those of a declaration: what a call moves and how it ends, and how it is made.
type lines struct{ moves, calls int }

// declaration is the lines of each tool of a policy, and those that are needed once; what is empty or a comment does
// not count.
func declaration(text string) (once int, tools []lines) {
	calls := false
	for line := range strings.Lines(text) {
		said := strings.TrimSpace(line)
		if said == "" || strings.HasPrefix(said, "#") {
			continue
		}
		depth := len(line) - len(strings.TrimLeft(line, " "))
		if strings.HasPrefix(said, "- tool:") {
			tools = append(tools, lines{})
		}
		if len(tools) == 0 {
			once++
			continue
		}
		if depth <= 4 {
			calls = slices.ContainsFunc([]string{"http:", "smtp:", "file:"}, func(kind string) bool {
				return strings.HasPrefix(said, kind)
			})
		}
		if at := &tools[len(tools)-1]; calls {
			at.calls++
		} else {
			at.moves++
		}
	}
	return once, tools
}

// written is what declarations take.
type written struct {
	tools, undo, once int
	lines             lines
	mistakes          int
}

// each is the lines of a tool, with its share of those that undo others.
func (w written) each() float64 {
	return float64(w.lines.moves+w.lines.calls) / float64(max(1, w.tools))
}

// twenty reads the policy of twenty tools, which must load, and in which lint finds no mistake.
func (e *Env) twenty() (text string, w written, err error) {
	data, err := claims.ReadFile("claims/tools.yaml")
	if err != nil {
		return "", w, fmt.Errorf("read the policy of a row: %w", err)
	}
	p, err := e.Subject.Load(data)
	if err != nil {
		return "", w, fmt.Errorf("load the policy of twenty tools: %w", err)
	}
	for _, d := range p.Declared() {
		if w.tools++; d.UndoOnly {
			w.tools, w.undo = w.tools-1, w.undo+1
		}
	}
	for _, f := range e.Subject.Lint(p) {
		if f.Severity == policy.Mistake {
			w.mistakes++
		}
	}
	once, all := declaration(string(data))
	w.once = once
	for _, l := range all {
		w.lines.moves, w.lines.calls = w.lines.moves+l.moves, w.lines.calls+l.calls
	}
	return string(data), w, nil
}

// linesOfWay counts the lines of code of a way without Hence: those for each tool, and those that are needed once.
func linesOfWay(way string) (once int, tools []int, err error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", wiring, 0)
	if err != nil {
		return 0, nil, fmt.Errorf("read the ways without Hence: %w", err)
	}
	for _, d := range file.Decls {
		f, is := d.(*ast.FuncDecl)
		if !is || !strings.HasPrefix(f.Name.Name, way) && !(f.Recv != nil && way == "wal") {
			continue
		}
		n := set.Position(f.End()).Line - set.Position(f.Pos()).Line + 1
		if regexp.MustCompile("^" + way + "(Take|Mail|Web)$").MatchString(f.Name.Name) {
			tools = append(tools, n)
		} else {
			once += n
		}
	}
	return once, tools, nil
}

// wayLines says what the ways without Hence take.
func wayLines() (text string, err error) {
	var words []string
	for _, way := range []struct{ name, prefix string }{{"try and confirm", "tcc"}, {"lock and log", "wal"},
		{"saga", "saga"}, {"no transactions", "noTx"}} {
		once, tools, err := linesOfWay(way.prefix)
		if err != nil {
			return "", err
		}
		sum := 0
		for _, n := range tools {
			sum += n
		}
		words = append(words, fmt.Sprintf("%s %d once and %s a tool", way.name, once,
			digits(float64(sum)/float64(max(1, len(tools))))))
	}
	return strings.Join(words, "; "), nil
}

func linesToDeclare(_ context.Context, e *Env) (Result, error) {
	_, w, err := e.twenty()
	if err != nil {
		return Result{}, err
	}
	beside, err := wayLines()
	if err != nil {
		return Result{}, err
	}
	return Result{
		Ours: fmt.Sprintf("%s lines of a policy a tool and %d once, %d for %d tools; no code; mistakes by lint %d",
			digits(w.each()), w.once, w.once+w.lines.moves+w.lines.calls, w.tools, w.mistakes),
		Baseline: beside,
		Verdict:  beats(w.tools == 20 && w.each() <= 10 && w.mistakes == 0, w.each() < 17),
		Note: fmt.Sprintf("the tools of a shop, and a mail, a card, a file and a request; the %d that only undo others "+
			"are counted with them. Beside it the lines of code of the ways that rows here run, for three tools, without what "+
			"calls the tool; they give no scopes, no keys and no isolation for it", w.undo)}, nil
}

func linesOfAdapters(_ context.Context, e *Env) (Result, error) {
	_, w, err := e.twenty()
	if err != nil {
		return Result{}, err
	}
	beside, err := wayLines()
	if err != nil {
		return Result{}, err
	}
	sum := w.lines.moves + w.lines.calls
	const paper = 331
	return Result{Ours: fmt.Sprintf("%d lines for %d tools, %s each: %d say what a call moves and how it ends, %d how "+
		"it is made", sum, w.tools, digits(w.each()), w.lines.moves, w.lines.calls),
		Baseline: beside, Verdict: beats(w.tools == 20 && w.mistakes == 0 && sum <= paper, sum < paper),
		Note: "lines of a declaration beside lines of Python: an adapter of Hence needs none"}, nil
}

// misclassify declares an irreversible tool as if it could be undone, by what undoes nothing.
func misclassify(text, nothing, tool string) string {
	at := strings.Index(text, "- tool: "+tool+"\n")
	if at < 0 {
		return text
	}
	head, body, rest := text[:at], text[at:], ""
	if end := strings.Index(body, "\n\n"); end >= 0 {
		body, rest = body[:end], body[end:]
	}
	body = regexp.MustCompile(`\n    key: .*`).ReplaceAllString(body, "")
	const undone = "class: reversible\n    compensation: {tool: nothing}"
	body = strings.Replace(body, "class: irreversible", undone, 1)
	if !strings.Contains(body, "smtp:") {
		body = strings.Replace(body, "class: reversible", "class: reversible\n    keyed: true", 1)
	}
	for _, name := range []string{"args", "scopes"} {
		list := regexp.MustCompile(`\n    ` + name + `: (\[.*\])`).FindStringSubmatch(body)
		if list != nil {
			nothing = strings.Replace(nothing, "{{"+name+"}}", list[1], 1)
		}
	}
	return head + body + rest + nothing
}

// worst is the rule of what is said of a tool now and was not said before: of a mistake, if there is one.
func worst(before, now []policy.Finding, tool string) (rule string) {
	var at policy.Severity
	for _, f := range now {
		same := func(o policy.Finding) bool { return o.Tool == f.Tool && o.Rule == f.Rule && o.Severity == f.Severity }
		if f.Tool == tool && !slices.ContainsFunc(before, same) && at != policy.Mistake {
			rule, at = f.Rule, f.Severity
		}
	}
	return rule
}

func wrongClass(_ context.Context, e *Env) (Result, error) {
	text, _, err := e.twenty()
	if err != nil {
		return Result{}, err
	}
	nothing, err := claims.ReadFile("claims/nothing.yaml")
	if err != nil {
		return Result{}, fmt.Errorf("read what undoes nothing: %w", err)
	}
	right, err := e.Subject.Load([]byte(text))
	if err != nil {
		return Result{}, fmt.Errorf("load the right policy: %w", err)
	}
	before := e.Subject.Lint(right)
	var named, silent []string
	for _, d := range right.Declared() {
		if d.Class != sequencer.ClassIrreversible {
			continue
		}
		p, err := e.Subject.Load([]byte(misclassify(text, string(nothing), d.Name)))
		if err != nil {
			return Result{}, fmt.Errorf("load the policy with a wrong class of %s: %w", d.Name, err)
		}
		if rule := worst(before, e.Subject.Lint(p), d.Name); strings.HasPrefix(rule, "eager-") {
			named = append(named, d.Name+" ("+rule+")")
		} else {
			silent = append(silent, d.Name)
		}
	}
	n := len(named) + len(silent)
	return Result{
		Ours:     "its class is doubted by lint: " + of(len(named), n),
		Baseline: "without lint the policy is taken: " + of(n, n),
		Verdict:  holds(n > 0 && len(silent) == 0),
		Note: fmt.Sprintf("each irreversible tool of twenty, one after the other, is declared as reversible with an "+
			"undoing of its arguments and scopes that does nothing. Lint goes by the adapter and by words of names, so it "+
			"doubts %s; of %s it says only that no case tries the undoing. What such a class leaks is in A19",
			listing(named), listing(silent))}, nil
}

// listing are names, or none.
func listing(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

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

// bothAct lets two agents act on one order and tell its customer. Both see the order untouched. More than one act on
// an order is a violation, and a notice of work that came to nothing a leak.
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
