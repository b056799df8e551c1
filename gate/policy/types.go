package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hence-dev/hence/gate/yamlfile"
	"github.com/hence-dev/hence/topology"
)

// The spellings: ways in which two different texts name one resource.
const (
	spellCase    = "case"    // upper and lower case are the same
	spellUnicode = "unicode" // composed and decomposed characters are the same
	spellMail    = "mail"    // addresses: case, a tag after a plus, a display name
	spellPath    = "path"    // paths: dots, doubled and trailing slashes
	spellHost    = "host"    // host and port: case, a final dot, the scheme's own port
	spellURL     = "url"     // host and path together
)

func spellings() []string {
	return []string{spellCase, spellUnicode, spellMail, spellPath, spellHost, spellURL}
}

// naming says how resources of one scope type may be named. It is what the alias fuzzer rewrites by.
type naming struct {
	place
	spellings []string
	aliases   [][]string // groups of names of one resource; scopes are made with the first one
}

// canonical returns the name that stands for all its aliases.
func (t naming) canonical(name string) string {
	for _, group := range t.aliases {
		if slices.Contains(group, name) {
			return group[0]
		}
	}
	return name
}

// defaultTypes are the types whose names have spellings of their own wherever they are used.
func defaultTypes() map[string]naming {
	return map[string]naming{
		"mail": {spellings: []string{spellMail}}, "mailbox": {spellings: []string{spellMail}},
		"file": {spellings: []string{spellPath}}, "dir": {spellings: []string{spellPath}},
		"url": {spellings: []string{spellURL}}, "host": {spellings: []string{spellHost}},
	}
}

func (r *reader) types(n *node, out map[string]naming) {
	if n.Kind != yamlfile.Map {
		r.wrong(n, "types", yamlfile.Map)
		return
	}
	for _, f := range n.Fields {
		t := naming{place: f.Place}
		r.fields(f.Value, "type "+f.Name,
			field{"spellings", func(n *node) {
				for _, item := range r.items(n, "spellings", maxList) {
					s := r.text(item, "a spelling")
					if s != "" && !slices.Contains(spellings(), s) {
						r.refuse(item.Place, "spelling", fmt.Sprintf("%.40q is no spelling", s),
							"use "+strings.Join(spellings(), ", "))
					}
					t.spellings = append(t.spellings, s)
				}
			}},
			field{"aliases", func(n *node) {
				for _, group := range r.items(n, "aliases", maxList) {
					t.aliases = append(t.aliases, r.aliasGroup(group, t.aliases))
				}
			}})
		if strings.ToLower(f.Name) != f.Name {
			r.refuse(f.Place, "type", fmt.Sprintf("type %.40q has capitals", f.Name), "types are lower case")
		}
		out[f.Name] = t
	}
}

func (r *reader) aliasGroup(n *node, before [][]string) []string {
	group := r.texts(n, "a group of aliases", maxList)
	for i := range group {
		group[i] = topology.NormalName(group[i]) // values are compared in it
	}
	if len(group) < 2 {
		r.refuse(n.Place, "alias", "a group of aliases has less than two names", "write [name, other name]")
	}
	for _, name := range group {
		if slices.ContainsFunc(before, func(g []string) bool { return slices.Contains(g, name) }) {
			r.refuse(n.Place, "alias", fmt.Sprintf("%.40q is in two groups of aliases", name), "join the groups")
		}
	}
	return group
}
