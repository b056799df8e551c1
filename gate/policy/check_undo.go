package policy

import (
	"fmt"
	"slices"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/policy/template"
	"github.com/hence-dev/hence/gate/spelling"
	"github.com/hence-dev/hence/sequencer"
)

// checkUndo holds a compensation against the tool that makes it. That tool runs at once, when its transaction is
// already decided: so its class must be one that runs at once and whose outcome the gate can settle, reversible or
// known_outcome. A read undoes nothing; a bufferable or irreversible one waits for a commit that never comes.
func (r *reader) checkUndo(p *Policy, d *decl) {
	u := d.undo
	if u == nil {
		return
	}
	by := p.find(u.tool)
	switch {
	case u.tool == "":
		return
	case isGlob(u.tool):
		r.refuse(u.toolAt, "compensation", fmt.Sprintf("the compensation %q is a glob", u.tool), "name one tool")
		return
	case by == nil:
		fix := "declare it, with the class known_outcome and \"undo_only: true\" if agents never call it"
		if near := spelling.Quoted(u.tool, sortedKeys(p.exact)); near != "" {
			fix = fmt.Sprintf("write %s, or declare it", near)
		}
		r.refuse(u.toolAt, "unknown-compensation", fmt.Sprintf("the compensation %q is not declared", u.tool), fix)
		return
	case !by.class.Eager():
		r.refuse(u.toolAt, "compensation-class", fmt.Sprintf("the compensation %q has the class %s, which does not "+
			"compensate", u.tool, compensatesNot(by.class)),
			"declare a tool of its own for it, known_outcome (or reversible) and with \"undo_only: true\", so that no agent "+
				"calls it")
		return
	case by == d && u.args == nil:
		r.refuse(u.toolAt, "compensation", "it would undo itself by the same call again",
			"give the compensation args made of {saved.…} or {result.…}, or name another tool")
		return
	}
	r.checkUndoRoots(d)
	r.checkUndoGives(d, by)
	r.checkForbids(d, by)
}

// checkForbids holds that the sink can be told which key is meant, and that it has seen the key. The adapters that
// keep the keys themselves forbid them without being told to.
func (r *reader) checkForbids(d, by *decl) {
	u := d.undo
	mute := ""
	switch {
	case !d.keyed:
		mute = "the call itself has no key"
	case !by.keyed:
		mute = fmt.Sprintf("%q has no key", u.tool)
	case by.block != nil && by.block.kind == gate.KindSMTP:
		mute = "a mail server keeps no keys"
	case by.keepsKeys() && !sameKeys(d, by):
		mute = fmt.Sprintf("%q keeps its keys elsewhere than the call's sink", u.tool)
	}
	switch {
	case mute != "" && u.forbids:
		r.refuse(u.forbidsAt, "forbids", "its compensation is said to forbid the call's key, and "+mute,
			"leave \"forbids\" out: a call that is not known to be there is then not undone")
	case mute == "" && by.keepsKeys():
		u.sameKeys = true
	}
}

// keepsKeys: its adapter sees to the keys, and not the sink.
func (d *decl) keepsKeys() bool {
	return d.block != nil && (d.block.kind == gate.KindFile || d.block.kind == gate.KindSQL)
}

// sameKeys: one adapter keeps the keys of both, in one place.
func sameKeys(d, by *decl) bool {
	if !d.keepsKeys() || !by.keepsKeys() || d.block.kind != by.block.kind {
		return false
	}
	a, ok := d.block.parsed.(*gate.SQLSpec)
	b, _ := by.block.parsed.(*gate.SQLSpec)
	return !ok || a.Database == b.Database
}

func compensatesNot(c sequencer.Class) string {
	if c.Gated() {
		return c.String() + " (it would be held)"
	}
	return c.String()
}

// checkUndoRoots holds the placeholders of a compensation's arguments to what is there when it is made.
func (r *reader) checkUndoRoots(d *decl) {
	for _, use := range d.undo.uses {
		switch use.Path[0] {
		case "result", "saved":
		case "args":
			if len(use.Path) > 1 && d.declared {
				inner := use
				inner.Path = use.Path[1:]
				r.checkUses(d, d.undo.argsAt, "the compensation", []template.Placeholder{inner}, true)
			}
		default:
			r.refuse(d.undo.argsAt, "template", fmt.Sprintf("the compensation holds %s", use),
				fmt.Sprintf("write {args.%s}, {result.%s} or {saved.%s}", use.Path, use.Path, use.Path))
		}
	}
}

// checkUndoGives finds arguments that the compensating tool needs and is not given.
func (r *reader) checkUndoGives(d, by *decl) {
	u := d.undo
	gives := u.names
	optional := func(string) bool { return false }
	if u.args == nil {
		if !d.declared {
			return // the arguments of the call, whatever they are
		}
		gives = nil
		for _, a := range d.args {
			gives = append(gives, a.name)
		}
		optional = func(name string) bool { a, _ := d.argument(name); return a.optional }
	}
	for _, need := range by.needs() {
		if !slices.Contains(gives, need) || optional(need) {
			r.refuse(u.argsAt, "missing-argument", fmt.Sprintf("the compensation %q needs the argument %q and is not "+
				"given it", u.tool, need), fmt.Sprintf("add \"%s: '{args.%s}'\" to the compensation's args", need, need))
		}
	}
	if !by.declared {
		return
	}
	for _, name := range gives {
		if _, ok := by.argument(name); !ok {
			r.refuse(u.argsAt, "compensation", fmt.Sprintf("the compensation %q is given %q, which it does not take",
				u.tool, name), "give it its own args only")
		}
	}
}

// needs returns the arguments without which a call cannot be made, sorted.
func (d *decl) needs() []string {
	var out []string
	for _, a := range d.args {
		if !a.optional {
			out = append(out, a.name)
		}
	}
	add := func(uses []template.Placeholder) {
		for _, u := range uses {
			if !u.Optional && u.Path[0][0] != '$' {
				out = append(out, u.Path[0])
			}
		}
	}
	for _, l := range slices.Concat(d.scopes, d.may) {
		add(l.Placeholders())
	}
	if d.key != nil {
		add(d.key.Placeholders())
	}
	if d.block != nil {
		for _, b := range d.block.templates {
			add(b.uses)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
