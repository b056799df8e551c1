package policy

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/policy/template"
	"github.com/hence-dev/hence/sequencer"
)

// undo looks at a compensation: whether it can run, whether it can know what to restore, whether it stays within what
// the call holds.
func (l *linter) undo() {
	d := l.d
	if d.undo == nil {
		if d.class == sequencer.ClassIrreversible && !d.undoOnly {
			l.report(Note, d.place, "no-compensation", "nothing makes up for it: a retraction will list it as leaked",
				"declare a compensation, if there is one")
		}
		return
	}
	by := l.p.find(d.undo.tool)
	if d.block != nil && by.block == nil {
		l.report(Mistake, d.undoAt, "compensation-without-adapter",
			fmt.Sprintf("the compensation %q has no adapter: it could "+
				"never be made", d.undo.tool), "add its adapter")
	}
	if !by.keyed && !by.looksUp() {
		l.report(Note, by.place, "compensation-without-key",
			fmt.Sprintf("it compensates %q without a key or a look-up: after a "+
				"lost answer the effect stays unresolved", d.pattern), "add \"keyed: true\" if the sink takes a key")
	}
	l.undoForbids(by)
	l.undoKnows(by)
	l.undoScopes(by)
}

// undoForbids: a sink that takes no order to refuse a key takes a late call after its transaction's abort.
func (l *linter) undoForbids(by *decl) {
	u := l.d.undo
	if !l.d.keyed || u.forbids || u.sameKeys {
		return
	}
	what := fmt.Sprintf("the sink is not told to refuse a call that is undone by %q: one that arrives after max_time_ms "+
		"stays", u.tool)
	if !l.d.looksUp() {
		what += ", and a call of unknown outcome is not undone, as it has no look-up either"
	}
	fix := "add a \"lookup\", if the sink has one"
	if by.keyed {
		fix = "write \"forbids: true\" in the compensation if the sink refuses the key that Hence-Compensates named"
	}
	l.report(Note, l.d.undoAt, "compensation-forbids-nothing", what, fix)
}

// undoKnows: to put something back one must have kept it.
func (l *linter) undoKnows(by *decl) {
	u := l.d.undo
	kept := slices.ContainsFunc(u.uses, func(p template.Placeholder) bool { return p.Path[0] != "args" })
	if kept || l.restores(by) {
		return
	}
	if by == l.d || sameCall(by, l.d) {
		l.report(Mistake, u.argsAt, "compensation-repeats",
			fmt.Sprintf("the compensation %q does again what the call did, with "+
				"the call's own arguments", u.tool), "give it what stood there before: {saved.…} or {result.…}")
		return
	}
	if overwrites(l.d) && overwrites(by) {
		l.report(Mistake, u.argsAt, "compensation-forgets",
			"it overwrites a value and its compensation is given nothing of "+
				"what stood there before", "give it {saved.…} or {result.…}; sql keeps rows with \"save\"")
	}
}

// restores reports whether the compensating adapter is given the former content by the gate itself.
func (l *linter) restores(by *decl) bool {
	if by.block == nil {
		return false
	}
	if s, ok := by.block.parsed.(*gate.FileSpec); ok {
		return s.Op == gate.OpRestore
	}
	return slices.ContainsFunc(by.block.templates, func(b blockTemplate) bool {
		return slices.ContainsFunc(b.uses, func(p template.Placeholder) bool { return p.Path[0] == "$saved" })
	})
}

func sameCall(a, b *decl) bool {
	return a.block != nil && b.block != nil && a.block.kind == b.block.kind &&
		string(a.block.spec) == string(b.block.spec)
}

// overwrites reports whether a call replaces a value that stood there.
func overwrites(d *decl) bool {
	if d.block == nil {
		return false
	}
	switch s := d.block.parsed.(type) {
	case *gate.HTTPSpec:
		return s.Method == "PUT" || s.Method == "PATCH"
	case *gate.FileSpec:
		return s.Op == gate.OpWrite
	case *gate.SQLSpec:
		return sqlVerb(s.Statement) == "UPDATE"
	}
	return false
}

// undoScopes: the grant of a call holds its scopes until it is settled. A compensation that moves more moves what
// others may hold.
func (l *linter) undoScopes(by *decl) {
	d := l.d
	if len(by.scopes) == 0 || len(d.scopes) == 0 {
		return
	}
	names := d.sampleNames()
	answer := map[string]any{}
	given := map[string]any{"args": names, "result": answer, "saved": answer}
	for _, use := range d.undo.uses {
		if use.Path[0] != "args" {
			put(given, use.Path, "v-of-"+use.Path[0])
		}
	}
	built := any(names)
	if d.undo.args != nil {
		var err error
		if built, err = d.undo.args.Build(template.Values{Names: given}); err != nil {
			return // an argument that the sample does not have
		}
	}
	args, ok := built.(map[string]any)
	if !ok {
		return
	}
	moved, _, err := l.p.scopesFor(by, args)
	held, may, other := l.p.scopesFor(d, names)
	if err != nil || other != nil {
		return
	}
	if len(may) > 0 {
		held = may
	}
	if s := outside(moved, held); s != "" {
		l.report(Mistake, d.undoAt, "compensation-beyond",
			fmt.Sprintf("the compensation %q moves %s, and the call holds only %v",
				by.pattern, s, held), "widen the call's scopes, or give it a \"may\" that holds both")
	}
}

// sameResource finds two tools that move the same thing under names that never meet.
func (l *linter) sameResource() {
	for i, a := range l.p.tools {
		ra := a.resource()
		for _, b := range l.p.tools[:i] {
			if ra == "" || ra != b.resource() || len(a.scopes) == 0 || len(b.scopes) == 0 || l.bothRead(a, b) {
				continue
			}
			shared := b.sampleNames()
			for name, value := range a.sampleNames() {
				shared[name] = value
			}
			sa, _, err := l.p.scopesFor(a, shared)
			sb, _, other := l.p.scopesFor(b, shared)
			if err != nil || other != nil || meet(sa, sb) {
				continue
			}
			l.d = a
			l.report(Mistake, a.scopes[0].place, "two-names",
				fmt.Sprintf("it and %q (line %d) move %s, and their scopes %v and "+
					"%v never meet", b.pattern, b.Line, ra, sa, sb), "name one resource by one scope in both")
		}
	}
	l.d = nil
}

func (l *linter) bothRead(a, b *decl) bool {
	return a.class == sequencer.ClassRead && b.class == sequencer.ClassRead
}

func meet(a, b []sequencer.Scope) bool {
	return slices.ContainsFunc(a, func(s sequencer.Scope) bool {
		return slices.ContainsFunc(b, func(o sequencer.Scope) bool { return s.Overlaps(o) })
	})
}

// resource is the adapter's own name of what a call moves, with placeholders by position: equal ones are one thing.
// Two arguments of different names may be one thing too, but nothing here can tell.
func (d *decl) resource() string {
	if d.block == nil {
		return ""
	}
	switch s := d.block.parsed.(type) {
	case *gate.HTTPSpec:
		u, problem := literalURL(s.URL)
		t, err := template.Parse(s.URL)
		if problem != "" || err != nil || len(t.Placeholders()) == 0 {
			return ""
		}
		return urlHost(u) + upToPlaceholder(u, t)
	case *gate.FileSpec:
		if strings.Contains(s.Path, "{") {
			return "the file " + unfiltered(s.Path)
		}
	case *gate.ShardSpec:
		if strings.Contains(s.Scope, "{") {
			return "the shard " + unfiltered(s.Scope)
		}
	case *gate.SQLSpec:
		if table := sqlTable(s.Statement); table != "" {
			return "a row of the table " + s.Database + "." + table
		}
	}
	return ""
}

// upToPlaceholder is a URL's path up to and with the first argument: /orders/{order_id} of /orders/{order_id}/cancel.
func upToPlaceholder(u *url.URL, t template.Template) string {
	first := t.Parts()[0].Literal
	_, after, _ := strings.Cut(first, "://")
	if i := strings.IndexByte(after, '/'); i >= 0 {
		return after[i:] + "{" + t.Placeholders()[0].Path.String() + "}"
	}
	return u.Path
}

func unfiltered(text string) string {
	t, err := template.Parse(text)
	if err != nil {
		return text
	}
	var out strings.Builder
	for _, part := range t.Parts() {
		if part.Placeholder != nil {
			out.WriteString("{" + part.Placeholder.Path.String() + "}")
		} else {
			out.WriteString(part.Literal)
		}
	}
	return out.String()
}

// sqlTable is the table that a statement changes or reads first.
func sqlTable(statement string) string {
	fields := strings.Fields(strings.ToLower(statement))
	for i, f := range fields {
		if (f == "update" || f == "from" || f == "into") && i+1 < len(fields) {
			return strings.Trim(fields[i+1], `"(),;`)
		}
	}
	return ""
}
