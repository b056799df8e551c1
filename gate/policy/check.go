package policy

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/policy/template"
	"github.com/hence-dev/hence/gate/spelling"
	"github.com/hence-dev/hence/sequencer"
)

// check holds the declarations against each other and against what they may name.
func (r *reader) check(p *Policy) {
	r.checkNames(p)
	for _, d := range p.tools {
		if !isGlob(d.pattern) {
			p.exact[d.pattern] = d
		}
	}
	for _, d := range p.tools {
		r.tool = d.pattern
		if !r.checkShard(d) {
			r.checkClass(d)
			r.checkKey(d)
		}
		r.checkTemplates(d)
		r.checkBlock(p, d)
	}
	for _, d := range p.tools {
		r.tool = d.pattern
		r.checkUndo(p, d)
	}
	r.tool = ""
	r.checkSecrets(p)
}

// checkNames: an exact name wins over a glob that matches it too; nothing else may be matched twice.
func (r *reader) checkNames(p *Policy) {
	for i, d := range p.tools {
		r.tool = d.pattern
		for _, e := range p.tools[:i] {
			switch {
			case d.pattern == e.pattern:
				r.refuse(d.place, "declared-twice", fmt.Sprintf("it is declared in line %d too", e.Line), "keep one of the two")
			case isGlob(d.pattern) && isGlob(e.pattern) && overlap(d.pattern, e.pattern):
				what := fmt.Sprintf("%q and %q (line %d) match the same names", d.pattern, e.pattern, e.Line)
				r.refuse(d.place, "overlapping-globs", what,
					"narrow one of them, or name those tools one by one: an exact name wins over a glob")
			}
		}
	}
	r.tool = ""
}

func (r *reader) checkClass(d *decl) {
	switch {
	case d.class == sequencer.ClassReversible && d.undo == nil:
		r.refuse(d.place, "no-compensation", "it is reversible, and nothing says how it is undone",
			"make it irreversible or bufferable, so that it waits for the commit; or add \"compensation\", if something "+
				"surely undoes it")
	case d.class == sequencer.ClassRead && d.undo != nil:
		r.refuse(d.undoAt, "compensation", "it is a read, and a read has nothing to undo", "remove the compensation")
	case d.cost > 0 && d.class != sequencer.ClassReversible:
		r.refuse(d.place, "cost", fmt.Sprintf("cost is what undoing costs, and the class is %s", d.class),
			"remove it")
	case d.looksUp() && !d.keyed && d.key == nil:
		r.refuse(d.block.place, "lookup-without-key", "it has a look-up and no key: a look-up that cannot tell two calls "+
			"apart proves nothing, so it is never asked", d.lookupFix())
	case d.class == sequencer.ClassKnownOutcome && !d.keyed:
		r.refuse(d.place, "no-key", "its outcome is to be known, and it has no key under which it could be repeated or "+
			"looked up", "add \"keyed: true\" if the sink takes a key, or make it irreversible")
	case d.approve && !d.class.Gated():
		r.refuse(d.approveAt, "approve", fmt.Sprintf("it needs approval, and the class is %s: the call is made before "+
			"anybody could agree", d.class), "make it irreversible or bufferable, so that it waits for the commit")
	case d.class == sequencer.ClassRead && len(d.may) > 0:
		r.refuse(d.may[0].place, "may", "it is a read, and may is for what is touched", "move the entry to \"scopes\"")
	}
}

func (d *decl) lookupFix() string {
	switch {
	case d.class == sequencer.ClassRead:
		return "leave the look-up out: a read is simply read again"
	case d.class.Gated():
		return "add \"key\" if the sink takes one, and ask for {$key}; or leave the look-up out"
	}
	return "add \"keyed: true\" if the sink takes a key, and ask for {$key}; or leave the look-up out"
}

// looksUp reports whether the adapter can ask what became of a call.
func (d *decl) looksUp() bool {
	if d.block == nil {
		return false
	}
	switch s := d.block.parsed.(type) {
	case *gate.HTTPSpec:
		return s.LookUp != nil
	case *gate.ExecSpec:
		return s.LookUp != nil
	case *gate.SQLSpec:
		return s.LookUp != nil
	}
	return false
}

func (r *reader) checkKey(d *decl) {
	switch {
	case d.key != nil && d.class.Eager():
		r.refuse(d.key.place, "key", fmt.Sprintf("a business key for the class %s: after a compensation the sink would "+
			"skip the retry", d.class), "write \"keyed: true\": the key is then made of transaction and index")
	case d.class == sequencer.ClassRead && (d.key != nil || d.keyed):
		r.refuse(d.place, "key", "it is a read, and a read needs no key", "remove \"key\" and \"keyed\"")
	case d.keyed && d.key == nil && d.class.Gated():
		r.refuse(d.keyedAt, "key", fmt.Sprintf("the class %s is sent under a business key, the same in every attempt, "+
			"and none is given", d.class), "write \"key: template\" in place of \"keyed\"")
	case d.key != nil:
		d.keyed = true
	}
	if d.keyLife > 0 && !d.keyed {
		r.refuse(d.keyLifeAt, "key", "it says how long the sink knows a key, and gives it none",
			"write \"keyed: true\" or \"key: template\", or remove \"key_life_ms\"")
	}
}

// checkTemplates refuses placeholders that no call could fill.
func (r *reader) checkTemplates(d *decl) {
	for _, l := range d.scopes {
		r.checkUses(d, l.place, "a scope", l.Placeholders(), false)
	}
	for _, l := range d.may {
		r.checkUses(d, l.place, "may", l.Placeholders(), false)
	}
	if d.key != nil {
		r.checkUses(d, d.key.place, "the key", d.key.Placeholders(), false)
	}
	if d.block == nil {
		return
	}
	for _, b := range d.block.templates {
		for _, u := range b.uses {
			if u.Path[0] == "$secret" && b.use != useSecret {
				r.refuse(b.place, "secret", b.what+" holds a secret",
					"send it in a header, the environment or the standard input")
			}
		}
		r.checkUses(d, b.place, b.what, b.uses, true)
	}
}

func (r *reader) checkUses(d *decl, p place, what string, uses []template.Placeholder, inBlock bool) {
	for _, u := range uses {
		name := u.Path[0]
		if name[0] == '$' {
			known := name == "$key" || name == "$tx" || name == "$index" || name == "$saved" || name == "$secret"
			switch {
			case !inBlock:
				r.refuse(p, "template", fmt.Sprintf("%s holds %s", what, u), "use the call's arguments only: "+
					"what is moved must be known before the call")
			case !known:
				r.refuse(p, "template", fmt.Sprintf("%s holds %s", what, u),
					"use $key, $tx, $index, $saved.NAME or $secret.NAME")
			}
			continue
		}
		if !d.declared {
			continue
		}
		a, ok := d.argument(name)
		switch {
		case !ok:
			r.refuse(p, "missing-argument", fmt.Sprintf("%s is made of %s, which is not among the tool's args", what, u),
				d.argumentFix(name))
		case a.optional && !u.Optional:
			fix := fmt.Sprintf("require %q in args", name)
			if inBlock {
				fix += fmt.Sprintf(", or write {%s?}", u.Path)
			}
			r.refuse(p, "missing-argument", fmt.Sprintf("%s is made of %s, which a call may leave out", what, u), fix)
		}
	}
}

func (d *decl) argumentFix(name string) string {
	var names []string
	for _, a := range d.args {
		names = append(names, a.name)
	}
	if near := spelling.Nearest(name, names); near != "" {
		return fmt.Sprintf("write {%s}, or add %q to args", near, name)
	}
	return fmt.Sprintf("add %q to args", name)
}

// checkBlock holds an adapter to what the policy declares.
func (r *reader) checkBlock(p *Policy, d *decl) {
	if d.block == nil {
		return
	}
	b := d.block
	switch s := b.parsed.(type) {
	case *gate.HTTPSpec:
		urls := []string{s.URL}
		if s.LookUp != nil {
			urls = append(urls, s.LookUp.URL)
		}
		for _, text := range urls {
			if u, problem := literalURL(text); problem == "" {
				r.checkHost(p, b.place, u)
			}
		}
	case *gate.SMTPSpec:
		if p.env.Mail == nil {
			r.refuse(b.place, "mail", "it sends mail, and the policy names no mail server",
				"add \"mail: {server: host:port, from: name@host}\"")
		}
	case *gate.FileSpec:
		if p.env.Root == "" {
			r.refuse(b.place, "root", "it touches files, and the policy names no root", "add \"files: {root: directory}\"")
		}
	case *gate.SQLSpec:
		if _, ok := p.env.Databases[s.Database]; !ok {
			r.refuse(b.place, "database", fmt.Sprintf("the database %.40q is not declared", s.Database),
				"add it under \"databases\"")
		}
	}
}

func (r *reader) checkHost(p *Policy, at place, u *url.URL) {
	if host := urlHost(u); !slices.Contains(p.env.Hosts, host) {
		r.refuse(at, "host", fmt.Sprintf("it calls %s, which is not among the hosts", host),
			fmt.Sprintf("add %q to \"hosts\", if it may be called", host))
	}
}

// userOf is the first tool that uses the mail server or a database; empty: none does, and nothing needs its secret.
func (p *Policy) userOf(what string) string {
	for _, d := range p.tools {
		if d.block == nil {
			continue
		}
		sql, _ := d.block.parsed.(*gate.SQLSpec)
		if what == "mail" && d.block.kind == gate.KindSMTP || sql != nil && what == "database "+sql.Database {
			return d.pattern
		}
	}
	return ""
}

// checkSecrets finds references to secrets that are not declared.
func (r *reader) checkSecrets(p *Policy) {
	need := func(at place, what, name string) {
		p.uses = append(p.uses, secretUse{at, cmp.Or(r.tool, p.userOf(what)), what, name})
		if _, ok := p.secrets[name]; !ok && name != "" {
			fix := "add it under \"secrets\" as {file: path} or {env: VARIABLE}"
			if near := spelling.Nearest(name, sortedKeys(p.secrets)); near != "" {
				fix = fmt.Sprintf("write %q, or %s", near, fix)
			}
			r.refuse(at, "secret", fmt.Sprintf("%s names the secret %.40q, which is not declared", what, name), fix)
		}
	}
	if p.env.Mail != nil {
		need(r.mailAt, "mail", p.env.Mail.PasswordSecret)
	}
	for _, name := range sortedKeys(p.env.Databases) {
		need(r.databasesAt, "database "+name, p.env.Databases[name].DSNSecret)
	}
	for _, d := range p.tools {
		if d.block == nil {
			continue
		}
		r.tool = d.pattern
		for _, b := range d.block.templates {
			for _, u := range b.uses {
				if u.Path[0] != "$secret" {
					continue
				}
				if len(u.Path) != 2 {
					r.refuse(b.place, "secret", fmt.Sprintf("%s holds %s", b.what, u), "write {$secret.NAME}")
					continue
				}
				need(b.place, b.what, u.Path[1])
			}
		}
	}
	r.tool = ""
}
