package policy

import (
	"fmt"
	"strings"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/spelling"
)

// sameArgument finds an argument that stands in differently spelt types: order:/{order_id} and orders:/{order_id}.
func (l *linter) sameArgument() {
	type seen struct {
		kind string
		d    *decl
	}
	first := map[string]seen{}
	for _, d := range l.p.tools {
		for _, s := range d.scopes {
			kind, _, _ := strings.Cut(strings.ToLower(s.String()), ":")
			for _, u := range s.Placeholders() {
				before, ok := first[u.Path.String()]
				if !ok {
					first[u.Path.String()] = seen{kind, d}
					continue
				}
				if before.kind != kind && spelling.Distance(before.kind, kind) <= 2 && min(len(before.kind), len(kind)) > 3 {
					l.d = d
					l.report(Mistake, s.place, "two-names", fmt.Sprintf("%s is of the type %q here and of %q in %q (line %d)",
						u, kind, before.kind, before.d.pattern, before.d.Line), "write one type for one resource")
				}
			}
		}
	}
	l.d = nil
}

// unused finds what is declared and never used: often a sign that something else is misspelt.
func (l *linter) unused() {
	hosts, databases, secrets := map[string]bool{}, map[string]bool{}, map[string]bool{}
	files, mail := false, false
	for _, d := range l.p.tools {
		if d.block == nil {
			continue
		}
		switch s := d.block.parsed.(type) {
		case *gate.HTTPSpec:
			if u, problem := literalURL(s.URL); problem == "" {
				hosts[urlHost(u)] = true
			}
			if s.LookUp != nil {
				if u, problem := literalURL(s.LookUp.URL); problem == "" {
					hosts[urlHost(u)] = true
				}
			}
		case *gate.SQLSpec:
			databases[s.Database] = true
		case *gate.FileSpec:
			files = true
		case *gate.SMTPSpec:
			mail = true
		}
		for _, b := range d.block.templates {
			for _, u := range b.uses {
				if u.Path[0] == "$secret" && len(u.Path) == 2 {
					secrets[u.Path[1]] = true
				}
			}
		}
	}
	for _, name := range sortedKeys(l.p.env.Databases) {
		secrets[l.p.env.Databases[name].DSNSecret] = true
		l.note(!databases[name], "the database", name)
	}
	if l.p.env.Mail != nil {
		secrets[l.p.env.Mail.PasswordSecret] = true
		l.note(!mail, "the mail server", l.p.env.Mail.Server)
	}
	for _, host := range l.p.env.Hosts {
		l.note(!hosts[host], "the host", host)
	}
	for _, name := range sortedKeys(l.p.secrets) {
		l.note(!secrets[name], "the secret", name)
	}
	if l.p.env.Root != "" {
		l.note(!files, "the root of files", "")
	}
}

func (l *linter) note(unused bool, what, name string) {
	if unused {
		l.report(Note, place{}, "unused",
			strings.TrimSpace(fmt.Sprintf("%s %s is declared and no tool uses it", what, name)),
			"remove it, or check the tools")
	}
}
