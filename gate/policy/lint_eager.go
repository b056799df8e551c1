package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
)

// eager finds calls that run before the commit and look as if they should not, and those whose undoing no case shows.
func (l *linter) eager() {
	d := l.d
	if d.undoOnly || d.class.Gated() {
		return
	}
	l.leavesAtOnce()
	if d.class == sequencer.ClassRead {
		return
	}
	if d.undo == nil {
		if l.undoes() != "" { // what undoes others has nothing of its own to undo
			return
		}
		l.report(Note, d.place, "no-compensation", "it runs at once and nothing undoes it: after an abort it stands",
			"declare a compensation, or make it irreversible, so that it waits for the commit")
		return
	}
	by := l.p.find(d.undo.tool)
	tries := func(c Case) bool { return c.Expect.Refused == "" && l.p.find(c.Tool) == by && len(l.p.broken(c)) == 0 }
	if !slices.ContainsFunc(l.cases, tries) {
		l.report(Note, d.undoAt, "untried-compensation", fmt.Sprintf("it runs at once and %q has to undo it, which no case "+
			"tries", d.undo.tool), fmt.Sprintf("add a case of %q with the args that it is given", d.undo.tool))
	}
}

// leavesAtOnce finds what pays, orders or notifies before its transaction has committed.
func (l *linter) leavesAtOnce() {
	d := l.d
	writes, how := l.adapterWrites()
	_, changes := nameVerb(d.pattern)
	told := d.class == sequencer.ClassRead && (writes || how == "" && changes) || // read-that-writes says it
		d.block != nil && d.block.kind == gate.KindSMTP // eager-mail does
	word, where := l.leaves()
	switch {
	case told || word == "":
	case d.class == sequencer.ClassReversible && where == "name" && cannotBeUndone(word):
		l.report(Mistake, d.place, "eager-send", fmt.Sprintf("it is reversible, and its name says %q, which is seen at once",
			word), "declare it irreversible, so that it waits for the commit")
	default:
		fix := "declare it irreversible, so that it waits for the commit, unless the agent needs its answer to go on"
		if other := l.undoes(); other != "" { // the loader refuses an irreversible one
			fix = fmt.Sprintf("add \"undo_only: true\" if it only undoes %q; for agents declare another, irreversible", other)
		}
		l.report(Note, d.place, "eager-payment", fmt.Sprintf("it is %s and made before the commit, and its %s says %q: if "+
			"its transaction aborts and undoing it fails, it stands", d.class, where, word), fix)
	}
}

// undoes is a tool that this one is the compensation of; empty: none.
func (l *linter) undoes() string {
	for _, other := range l.p.tools {
		if other.undo != nil && other != l.d && l.p.find(other.undo.tool) == l.d {
			return other.pattern
		}
	}
	return ""
}

// The words that say that a call pays, orders or tells; the things of which it does so when it makes one; and the
// words beside which neither counts: it only looks, or takes something back.
const (
	leavingVerbs = "send notify publish pay charge refund transfer payout withdraw debit remit purchase buy checkout " +
		"deploy tweet"
	leavingThings = "payment charge refund transfer payout invoice order purchase mail email sms fax"
	makingVerbs   = "create make new submit execute place confirm capture approve issue post start run"
	quietWords    = "cancel undo revert restore reopen recall void draft preview estimate quote validate check status " +
		"note address template"
	paidScopes = "payment card charge refund transfer payout"
)

// leaves is a word that says that a call pays, orders or notifies, and where it stands; empty: none.
func (l *linter) leaves() (word, where string) {
	name := words(l.d.pattern)
	if slices.ContainsFunc(name, quiet) {
		return "", ""
	}
	makes := l.d.class != sequencer.ClassRead && len(name) == 1 || slices.ContainsFunc(name, in(makingVerbs))
	for _, w := range name {
		if in(leavingVerbs)(w) || makes && in(leavingThings)(singular(w)) {
			return w, "name"
		}
	}
	if l.d.class == sequencer.ClassRead {
		return "", "" // to look at payments is no payment
	}
	if l.d.block != nil {
		if s, ok := l.d.block.parsed.(*gate.HTTPSpec); ok && s.Method == "POST" {
			path := words(lastLiteral(s.URL))
			for _, w := range path {
				if !slices.ContainsFunc(path, quiet) && in(leavingThings+" "+leavingVerbs)(singular(w)) {
					return w, "path"
				}
			}
		}
	}
	for _, s := range l.d.scopes {
		kind, _, _ := strings.Cut(s.String(), ":")
		for _, w := range append(words(kind), words(lastLiteral(s.String()))...) {
			if in(paidScopes)(singular(w)) {
				return w, "scope"
			}
		}
	}
	return "", ""
}

// quiet reports whether a word says that a call only looks, or takes something back.
func quiet(word string) bool {
	verb, changes := nameVerb(word)
	return verb != "" && !changes || in(quietWords)(word)
}

// in reports whether a word is one of a list.
func in(list string) func(word string) bool {
	return func(word string) bool { return slices.Contains(strings.Fields(list), word) }
}

func singular(word string) string { return strings.TrimSuffix(word, "s") }

// lastLiteral is the last segment of a URL or a scope without a placeholder; the first one is the type, or the host.
func lastLiteral(text string) string {
	text, _, _ = strings.Cut(text, "?")
	_, path, _ := strings.Cut(text, ":/")
	path, inHost := strings.CutPrefix(path, "/")
	segments := strings.Split(path, "/")
	if inHost {
		segments = segments[1:]
	}
	for _, s := range slices.Backward(segments) {
		if s != "" && !strings.ContainsAny(s, "{*") {
			return s
		}
	}
	return ""
}
