package policy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/hence-dev/hence/gate/yamlfile"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// Case is one example of a policy: a call and what it must be. Absent expectations are not checked.
type Case struct {
	Tool   string
	Args   json.RawMessage
	Expect Expect
	place  place
}

// Expect is what a case says of its call.
type Expect struct {
	Class   string   // empty: not checked
	Scopes  []string // as they are written; compared in their canonical form
	May     []string
	Key     *string
	Refused string // part of the error; empty: it must not be refused

	scopes, may bool // are there, perhaps empty
}

func (r *reader) cases(n *node) []Case {
	var out []Case
	for _, item := range r.items(n, "cases", maxCases) {
		c := Case{place: item.Place, Args: json.RawMessage("{}")}
		r.fields(item, "a case",
			field{"tool", func(n *node) { c.Tool = r.text(n, "tool") }},
			field{"args", func(n *node) {
				data, err := json.Marshal(jsonNumbers(n.Plain()))
				if err != nil || n.Kind != yamlfile.Map {
					r.wrong(n, "the case's args", yamlfile.Map)
					return
				}
				c.Args = data
			}},
			field{"expect", func(n *node) { c.Expect = r.expect(n) }})
		for _, name := range []string{"tool", "expect"} {
			if item.Kind == yamlfile.Map && item.Get(name) == nil {
				r.refuse(item.Place, "missing-key", fmt.Sprintf("the case has no %q", name), "add it")
			}
		}
		out = append(out, c)
	}
	return out
}

func (r *reader) expect(n *node) Expect {
	var e Expect
	r.fields(n, "expect",
		field{"class", func(n *node) { e.Class = r.class(n).String() }},
		field{"scopes", func(n *node) { e.scopes, e.Scopes = true, r.expectScopes(n) }},
		field{"may", func(n *node) { e.may, e.May = true, r.expectScopes(n) }},
		field{"key", func(n *node) {
			if n.Kind == yamlfile.Null || n.Kind == yamlfile.Text && n.Text == "" {
				e.Key = new(string)
				return
			}
			key := r.scalar(n, "key")
			e.Key = &key
		}},
		field{"refused", func(n *node) { e.Refused = r.text(n, "refused") }})
	return e
}

func (r *reader) expectScopes(n *node) []string {
	var out []string
	for _, item := range r.items(n, "scopes", maxScopes) {
		s, err := topology.ParseScope(r.text(item, "a scope"))
		if err != nil {
			r.refuse(item.Place, "scope", fmt.Sprintf("%.80q is no scope", item.Text), reason(err))
		}
		out = append(out, string(s))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// LoadCases reads a file that holds nothing but "cases", to be run beside those of the policy.
func (p *Policy) LoadCases(data []byte, file string) ([]Case, error) {
	root, problem := parse(data)
	if problem != nil {
		return nil, &Refusal{File: file, Findings: []Finding{*problem}}
	}
	r := &reader{}
	var out []Case
	r.fields(root, "the file of cases", field{"cases", func(n *node) { out = r.cases(n) }})
	if len(r.found) > 0 {
		sortFindings(r.found)
		return nil, &Refusal{File: file, Findings: r.found}
	}
	return out, nil
}

// Cases returns the cases of the policy's own file.
func (p *Policy) Cases() []Case { return p.cases }

// Test runs cases and returns those that do not hold.
func (p *Policy) Test(cases []Case) []Finding {
	var found []Finding
	for _, c := range cases {
		for _, what := range p.broken(c) {
			f := findingAt(c.place, "case", what, "correct the declaration, or the case")
			f.Tool = c.Tool
			found = append(found, f)
		}
	}
	return found
}

func (p *Policy) broken(c Case) []string {
	t, err := p.Find(c.Tool, c.Args)
	switch {
	case c.Expect.Refused != "" && err == nil:
		return []string{fmt.Sprintf("it is not refused; expected %q", c.Expect.Refused)}
	case c.Expect.Refused != "":
		if !strings.Contains(err.Error(), c.Expect.Refused) {
			return []string{fmt.Sprintf("it is refused by %q; expected %q", err, c.Expect.Refused)}
		}
		return nil
	case err != nil:
		return []string{fmt.Sprintf("it is refused: %v", err)}
	}
	var out []string
	differ := func(what string, got, want any) {
		out = append(out, fmt.Sprintf("%s is %v; expected %v", what, got, want))
	}
	if c.Expect.Class != "" && t.Class.String() != c.Expect.Class {
		differ("the class", t.Class, c.Expect.Class)
	}
	if c.Expect.scopes && !sameScopes(t.Scopes, c.Expect.Scopes) {
		differ("scopes", t.Scopes, c.Expect.Scopes)
	}
	if c.Expect.may && !sameScopes(t.May, c.Expect.May) {
		differ("may", t.May, c.Expect.May)
	}
	if c.Expect.Key != nil && t.Key != *c.Expect.Key {
		differ("the key", fmt.Sprintf("%q", t.Key), fmt.Sprintf("%q", *c.Expect.Key))
	}
	return out
}

func sameScopes(got []sequencer.Scope, want []string) bool {
	return slices.EqualFunc(got, want, func(s sequencer.Scope, w string) bool { return string(s) == w })
}
