package tables

import (
	"context"
	_ "embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strings"

	"github.com/hence-dev/hence/gate/policy"
	"github.com/hence-dev/hence/sequencer"
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
