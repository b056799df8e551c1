package policy

import (
	"fmt"
	"strings"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/policy/template"
	"github.com/hence-dev/hence/gate/spelling"
	"github.com/hence-dev/hence/gate/yamlfile"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// classes are the effect classes, the safest for a call that was taken for one of them first: it leaves after the
// commit, or is undone on abort, or stands, or counts as no change.
func classes() []sequencer.Class {
	return []sequencer.Class{sequencer.ClassIrreversible, sequencer.ClassBufferable, sequencer.ClassReversible,
		sequencer.ClassKnownOutcome, sequencer.ClassRead}
}

// decl reads one entry of "tools".
func (r *reader) decl(n *node, maxTime time.Duration, retry gate.Retry) *decl {
	d := &decl{place: n.Place, maxTime: maxTime, retry: retry, retryAt: n.Place}
	if name := n.Get("tool"); name != nil && name.Kind == yamlfile.Text && checkName(name.Text) == nil {
		r.tool = name.Text
	}
	defer func() { r.tool = "" }()
	known := []field{
		{"tool", func(n *node) { d.pattern = r.pattern(n) }},
		{"description", func(n *node) { d.about = r.text(n, "description") }},
		{"class", func(n *node) { d.class = r.class(n) }},
		{"cost", func(n *node) { d.cost = uint32(r.number(n, "cost", 1, 1_000_000)) }},
		{"args", func(n *node) { d.declared, d.args = true, r.args(n) }},
		{"scopes", func(n *node) { d.scopes = r.scopes(n, "scopes") }},
		{"may", func(n *node) { d.may = r.scopes(n, "may") }},
		{"key", func(n *node) { d.key = &located{n.Place, r.template(n, "key")} }},
		{"keyed", func(n *node) { d.keyed, d.keyedAt = r.flag(n, "keyed"), n.Place }},
		{"key_life_ms", func(n *node) { d.keyLife, d.keyLifeAt = r.milliseconds(n, "key_life_ms", maxKeyLifeMs), n.Place }},
		{"undo_only", func(n *node) { d.undoOnly = r.flag(n, "undo_only") }},
		{"approve", func(n *node) { d.approve, d.approveAt = r.approve(n), n.Place }},
		{"compensation", func(n *node) { d.undo, d.undoAt = r.undo(n), n.Place }},
		{"retry", func(n *node) { d.retry, d.retryAt = r.retry(n, retry), n.Place }},
		{"max_time_ms", func(n *node) { d.maxTime = r.milliseconds(n, "max_time_ms", maxTimeMs) }},
	}
	for _, kind := range kinds() {
		known = append(known, field{kind, func(n *node) {
			if d.block != nil {
				r.refuse(n.Place, "two-adapters", "it has two adapters, "+d.block.kind+" and "+kind, "keep one of them")
				return
			}
			d.block = r.block(kind, n)
		}})
	}
	r.fields(n, "a tool", known...)
	if n.Kind == yamlfile.Map && n.Get("tool") == nil {
		r.refuse(n.Place, "missing-key", "the tool has no \"tool\"", "add it")
	}
	if n.Kind == yamlfile.Map && n.Get("class") == nil {
		r.unclassed(d)
	}
	return d
}

// unclassed is a declaration that says no class. What is not known to be safe waits for the commit, under one scope,
// so that the calls of one declaration keep their order.
func (r *reader) unclassed(d *decl) {
	if r.strict { // it was forgotten, and a guess would not be its author's
		r.refuse(d.place, "missing-key", "the tool has no \"class\"",
			"add it, or write \"strict: false\" at the top: what has no class is irreversible then")
		return
	}
	d.class, d.unclassed = sequencer.ClassIrreversible, true
	if len(d.scopes) > 0 {
		return
	}
	if scope, err := template.Parse("tool:/" + topology.EscapeSegment(d.pattern)); err == nil {
		d.scopes = []located{{d.place, scope}}
	}
}

func (r *reader) approve(n *node) bool {
	const required = "required"
	text := r.text(n, "approve")
	if text != "" && text != required {
		r.refuse(n.Place, "approve", fmt.Sprintf("%.40q does not say whether an approval is required", text),
			"write \"approve: required\", or leave it out")
	}
	return text == required
}

func (r *reader) pattern(n *node) string {
	name := topology.NormalName(r.text(n, "tool"))
	if err := checkName(name); name != "" && err != nil {
		r.refuse(n.Place, "tool", err.Error(), "write the name as agents call it")
	}
	return name
}

func (r *reader) class(n *node) sequencer.Class {
	text := r.text(n, "class")
	for _, c := range classes() {
		if text == c.String() {
			return c
		}
	}
	if text != "" {
		r.refuse(n.Place, "class", fmt.Sprintf("%.40q is no effect class", text), classFix(text))
	}
	return sequencer.ClassIrreversible
}

// classFix says which class a misspelt one probably is. Taken for a less safe one a call would run that should have
// waited, so of those that are as near, or one letter farther, it is the safest.
func classFix(text string) string {
	near := nearClasses(text)
	when := func(c sequencer.Class) string {
		if c.Gated() {
			return "it waits for the commit"
		}
		return "it runs at once"
	}
	switch len(near) {
	case 0:
		var names []string
		for _, c := range classes() {
			names = append(names, c.String())
		}
		return "use one of " + strings.Join(names, ", ")
	case 1:
		return fmt.Sprintf("write %q", near[0])
	}
	return fmt.Sprintf("write %q (%s), unless %q (%s) is meant", near[0], when(near[0]), near[1], when(near[1]))
}

// nearClasses are the classes that a misspelt one may be, up to one letter farther than the nearest, the safest first.
func nearClasses(text string) (near []sequencer.Class) {
	text = strings.ToLower(text[:min(len(text), spelling.MaxName)])
	most := max(1, len(text)/3)
	for _, c := range classes() {
		most = min(most, spelling.Distance(text, c.String())+1)
	}
	for _, c := range classes() {
		if spelling.Distance(text, c.String()) <= most {
			near = append(near, c)
		}
	}
	return near
}

func (r *reader) args(n *node) []argument {
	if n.Kind == yamlfile.Map {
		return r.typedArgs(n)
	}
	var out []argument
	for _, item := range r.items(n, "args", maxList) {
		name, optional := strings.CutSuffix(r.text(item, "an argument"), "?")
		r.argumentName(item.Place, name, "use letters, digits, '_' and '-', and a '?' at the end of an optional one")
		for _, a := range out {
			if a.name == name {
				r.refuse(item.Place, "argument", fmt.Sprintf("the argument %.40q is there twice", name), "keep one of the two")
			}
		}
		out = append(out, argument{name: name, optional: optional})
	}
	return out
}

// wellFormed reports whether a template can name an argument.
func wellFormed(name string) bool {
	t, err := template.Parse("{" + name + "}")
	return err == nil && len(t.Placeholders()) == 1 && t.Placeholders()[0].Path.String() == name &&
		!strings.ContainsAny(name, ".$?|")
}

func (r *reader) scopes(n *node, what string) []located {
	var out []located
	for _, item := range r.items(n, what, maxScopes) {
		t := r.template(item, "an entry of "+what)
		if t.String() == "" {
			continue
		}
		if problem, fix := checkScope(t); problem != "" {
			r.refuse(item.Place, "scope", problem, fix)
			continue
		}
		out = append(out, located{item.Place, t})
	}
	return out
}

func (r *reader) undo(n *node) *undo {
	u := &undo{place: n.Place, toolAt: n.Place, argsAt: n.Place}
	if n.Kind == yamlfile.Text {
		u.tool = topology.NormalName(r.text(n, "compensation"))
		return u
	}
	r.fields(n, "compensation",
		field{"tool", func(n *node) { u.tool, u.toolAt = topology.NormalName(r.text(n, "tool")), n.Place }},
		field{"args", func(n *node) {
			u.argsAt = n.Place
			if n.Kind != yamlfile.Map {
				r.wrong(n, "the compensation's args", yamlfile.Map)
				return
			}
			tree, ok := r.tree(n, "the compensation's args")
			if !ok {
				return
			}
			u.args, u.uses, u.written = &tree, tree.Placeholders(), n.Plain()
			for _, f := range n.Fields {
				u.names = append(u.names, f.Name)
			}
		}},
		field{"forbids", func(n *node) { u.forbids, u.forbidsAt = r.flag(n, "forbids"), n.Place }})
	if n.Kind == yamlfile.Map && n.Get("tool") == nil {
		r.refuse(n.Place, "missing-key", "the compensation names no tool", "write \"tool: name\"")
	}
	return u
}

func (r *reader) tree(n *node, what string) (template.Tree, bool) {
	tree, err := template.ParseTree(jsonNumbers(n.Plain()))
	if err != nil {
		r.refuse(n.Place, "template", what+" hold no template", err.Error())
		return tree, false
	}
	return tree, true
}
