package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/policy/template"
	"github.com/hence-dev/hence/sequencer"
)

// linter looks for declarations that can be loaded and are probably not true.
type linter struct {
	p     *Policy
	cases []Case
	d     *decl
	found []Finding
}

func (l *linter) report(s Severity, p place, rule, what, fix string) {
	f := findingAt(p, rule, what, fix)
	f.Severity = s
	if l.d != nil {
		f.Tool = l.d.pattern
	}
	l.found = append(l.found, f)
}

// Lint reports what a loaded policy probably says wrong, in the order of the file. A scope that is too broad is safe,
// so at most a note; one that is too narrow, a wrong class and a compensation that cannot undo are mistakes. What more
// cases, kept elsewhere, try counts as tried, too.
func (p *Policy) Lint(more ...Case) []Finding {
	l := &linter{p: p, cases: slices.Concat(p.cases, more)}
	for _, d := range p.tools {
		l.d = d
		l.class()
		l.scopes()
		l.key()
		l.undo()
		l.eager()
		l.lookUp()
		l.option()
		l.bounds()
	}
	l.d = nil
	l.sameResource()
	l.sameArgument()
	l.unused()
	l.wires()
	sortFindings(l.found)
	return l.found
}

// scopes finds what a call names and no scope holds.
func (l *linter) scopes() {
	d := l.d
	if len(d.scopes) == 0 {
		if d.class == sequencer.ClassRead {
			l.report(Mistake, d.place, "no-scope", "it is a read without scopes: a stale answer cannot be detected",
				"say in \"scopes\" what it reads")
			return
		}
		l.report(Mistake, d.place, "no-scope", "it changes something and has no scopes: nothing keeps others away from it",
			"say in \"scopes\" what it moves, in the worst case \"type:/**\"")
		return
	}
	held := names(d.scopes)
	told := map[string]bool{}
	if d.block != nil {
		for _, b := range d.block.templates {
			if b.use == useNames {
				l.heldByScopes(b, held, told)
			}
		}
		l.insert(held)
		l.shard()
	}
	for _, a := range d.args {
		if !slices.Contains(held, a.name) && !told[a.name] && namesResource(a.name) && !l.wholeType() {
			l.report(Mistake, d.scopes[0].place, "ignored-argument",
				fmt.Sprintf("the argument %q seems to name what is moved, "+
					"and no scope is made of it", a.name), fmt.Sprintf("add {%s} to a scope, or end the scope above it", a.name))
		}
	}
	l.may()
}

// heldByScopes reports arguments that choose what the adapter moves and that no scope is made of. A scope of a whole
// type, or one without any argument, holds them all: too broad is safe.
func (l *linter) heldByScopes(b blockTemplate, held []string, told map[string]bool) {
	for _, u := range b.uses {
		name := u.Path[0]
		if name[0] == '$' || slices.Contains(held, name) || told[name] || l.wholeType() {
			continue
		}
		told[name] = true
		severity := Mistake
		if l.d.block.kind == gate.KindExec {
			severity = Note // what a program's argument is only its author knows
		}
		l.report(severity, b.place, "narrow-scope", fmt.Sprintf("%s is made of %s, and no scope is: two calls that differ "+
			"only there move different things under one name, or one thing under none", b.what, u),
			fmt.Sprintf("add {%s} to a scope, or make one scope that holds all of them", u.Path))
	}
}

// wholeType reports whether some scope has no argument at all, or a star, and so holds more than one call.
func (l *linter) wholeType() bool {
	return slices.ContainsFunc(l.d.scopes, func(s located) bool {
		return len(s.Placeholders()) == 0 || strings.Contains(s.String(), "*")
	})
}

// insert: the row that an INSERT makes is named by its values.
func (l *linter) insert(held []string) {
	s, ok := l.d.block.parsed.(*gate.SQLSpec)
	if !ok || sqlVerb(s.Statement) != "INSERT" || len(s.Params) == 0 || l.wholeType() {
		return
	}
	for _, b := range l.d.block.templates {
		for _, u := range b.uses {
			if slices.Contains(held, u.Path[0]) {
				return
			}
		}
	}
	l.report(Mistake, l.d.scopes[0].place, "narrow-scope", "no value of the new row is in its scopes",
		"name the row by its key, or the whole table")
}

// shard: what a shard's adapter writes must lie within the scopes.
func (l *linter) shard() {
	s, ok := l.d.block.parsed.(*gate.ShardSpec)
	if !ok || s.Scope == "" {
		return
	}
	t, err := template.Parse(s.Scope)
	if err != nil {
		return
	}
	names := l.d.sampleNames()
	written, err := l.p.expandScope(t, template.Values{Names: names})
	scopes, _, other := l.p.scopesFor(l.d, names)
	if err == nil && other == nil && outside([]sequencer.Scope{written}, scopes) != "" {
		l.report(Mistake, l.d.block.place, "narrow-scope",
			fmt.Sprintf("it moves %s, which lies in none of its scopes", s.Scope),
			fmt.Sprintf("add %q to \"scopes\"", s.Scope))
	}
}

func (l *linter) may() {
	d := l.d
	scopes, may, err := l.p.scopesFor(d, d.sampleNames())
	if err != nil {
		l.report(Mistake, d.scopes[0].place, "sample", fmt.Sprintf("its scopes cannot be made of sample values: %v", err),
			"check the templates")
		return
	}
	if s := outside(scopes, may); s != "" {
		l.report(Mistake, d.may[0].place, "may", fmt.Sprintf("a call moves %s, which lies in none of may %v: it would be "+
			"refused", s, may), "widen \"may\" until it holds every scope")
	}
	for _, name := range names(d.may) {
		if !slices.Contains(names(d.scopes), name) {
			l.report(Note, d.may[0].place, "may", fmt.Sprintf("may depends on {%s}, which no scope does", name),
				"end it above: it is claimed before the arguments are known")
		}
	}
}

// key finds keys that let a sink skip a call that is another one.
func (l *linter) key() {
	d := l.d
	if d.class == sequencer.ClassIrreversible && d.key == nil {
		l.report(Note, d.place, "no-key",
			"it is irreversible and has no key: a call of unknown outcome stays unresolved, it "+
				"is never repeated", "add \"key\" if the sink takes one")
		return
	}
	if d.key == nil {
		return
	}
	of, held := names([]located{*d.key}), names(d.scopes)
	switch {
	case len(of) == 0:
		l.report(Mistake, d.key.place, "constant-key",
			"the key is the same for every call: the sink would take the first and "+
				"skip all others", "make it of the arguments that tell two calls apart")
	case len(held) > 0 && !slices.ContainsFunc(held, func(n string) bool { return slices.Contains(of, n) }):
		l.report(Mistake, d.key.place, "key-of-other-things",
			fmt.Sprintf("the key is made of %v and the scopes of %v: two calls "+
				"on different things can have one key", of, held), "make it of the arguments of the scopes")
	case l.keySkips(of) != "":
		l.report(Note, d.key.place, "key-lacks-argument", fmt.Sprintf("the scopes are made of {%s} and the key is not",
			l.keySkips(of)), "add it, unless one such call per key is meant")
	}
}

func (l *linter) keySkips(of []string) string {
	for _, name := range names(l.d.scopes) {
		if !slices.Contains(of, name) {
			return name
		}
	}
	return ""
}

// lookUp finds look-ups whose answer is the same for two calls. A program has the key in its environment, and a
// database in the adapter's own table.
func (l *linter) lookUp() {
	d := l.d
	if !d.looksUp() || d.block.kind != gate.KindHTTP {
		return
	}
	for _, b := range d.block.templates {
		if b.what != "http.lookup.url" && b.what != "http.headers" {
			continue
		}
		for _, u := range b.uses {
			if u.Path[0] == "$key" || u.Path[0] == "$tx" {
				return
			}
		}
	}
	l.report(Mistake, d.block.place, "lookup-of-any-call", "its look-up does not say which call is meant: one that "+
		"another attempt made looks like this one", "make it of {$key}")
}

// option finds arguments that a program may take for options.
func (l *linter) option() {
	if l.d.block == nil {
		return
	}
	s, ok := l.d.block.parsed.(*gate.ExecSpec)
	if !ok {
		return
	}
	for _, name := range starting(s) {
		if slices.Contains(s.Options, name) {
			l.report(Note, l.d.block.place, "option", fmt.Sprintf("the argument %q may be any option of %s, also one that "+
				"writes a file or runs a program", name, s.Argv[0]), "write the options themselves into argv")
		} else {
			l.report(Note, l.d.block.place, "option", fmt.Sprintf("a call whose %q begins with '-' is not made: the program "+
				"could take it for an option", name), "write \"--\" before it in argv, if the program knows that")
		}
	}
}

// bounds finds times and retries that cannot do what they say.
func (l *linter) bounds() {
	d := l.d
	if d.maxTime > time.Minute {
		l.report(Note, d.place, "max-time", fmt.Sprintf("a call may take %v: its scopes stay taken that long, and agents' "+
			"clients give up earlier", d.maxTime), "split the work, or let the tool start it and look it up")
	}
	if d.class.Gated() && !d.keyed && d.retryAt != d.place && d.retry.Attempts > 1 {
		l.report(Note, d.retryAt, "retry", "it has no key: a call that may have arrived is not tried again", "add \"key\" "+
			"if the sink takes one")
	}
}

// wires finds secrets that would cross a network in the clear.
func (l *linter) wires() {
	if m := l.p.env.Mail; m != nil && m.TLS == "none" && m.PasswordSecret != "" && !isLoopback(m.Server) {
		l.report(Mistake, place{}, "clear-text",
			"the mail server is given a password without TLS", "write \"tls: starttls\"")
	}
	for _, d := range l.p.tools {
		if d.block == nil {
			continue
		}
		s, ok := d.block.parsed.(*gate.HTTPSpec)
		if !ok || !strings.HasPrefix(s.URL, "http://") {
			continue
		}
		u, problem := literalURL(s.URL)
		if problem != "" || isLoopback(urlHost(u)) {
			continue
		}
		for _, b := range d.block.templates {
			if slices.ContainsFunc(b.uses, func(u template.Placeholder) bool { return u.Path[0] == "$secret" }) {
				l.d = d
				l.report(Mistake, b.place, "clear-text", "it sends a secret over http", "write https")
			}
		}
	}
	l.d = nil
}

func isLoopback(hostPort string) bool {
	return strings.HasPrefix(hostPort, "127.") || strings.HasPrefix(hostPort, "localhost:") ||
		strings.HasPrefix(hostPort, "[::1]:")
}
