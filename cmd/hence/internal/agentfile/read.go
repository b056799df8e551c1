package agentfile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hence-dev/hence/gate/spelling"
	"github.com/hence-dev/hence/gate/yamlfile"
)

// The parts of a file, under the names that the readers here use.
type (
	place = yamlfile.Place
	value = yamlfile.Node
)

// field is a key that is known somewhere, and what its value is for.
type field struct {
	name string
	take func(*value)
}

// reader turns values into a file and collects what is wrong.
type reader struct {
	file, dir string
	found     []Finding
}

func (r *reader) refuse(at place, what, fix string) {
	r.found = append(r.found, Finding{File: r.file, Line: at.Line, Column: at.Column, What: what, Fix: fix})
}

// parse returns nil when there is nothing that could be read further.
func (r *reader) parse(text []byte) *value {
	root, problem := yamlfile.Parse(text, yamlfile.Fixes{Large: "shorten it, or make two files of it",
		Empty: `write "version: 1" and "agents:" with a list`})
	if problem != nil {
		at := problem.Place
		if at == (place{}) {
			at = place{Line: 1, Column: 1} // a finding of this file has a line
		}
		r.refuse(at, problem.What, problem.Fix)
	}
	return root
}

// fields reads a mapping. Every key must be a known one.
func (r *reader) fields(v *value, what string, known []field) {
	if v.Kind != yamlfile.Map {
		r.wrongKind(v, what, "a mapping", "key: value")
		return
	}
	names := make([]string, len(known))
	for i, k := range known {
		names[i] = k.name
	}
	v.Each(names, func(i int, v *value) { known[i].take(v) }, func(key yamlfile.Pair) {
		r.refuse(key.Place, fmt.Sprintf("%s has no key %.40q", what, key.Name), suggest(key.Name, names))
	})
}

// suggest names the key that was probably meant, or all.
func suggest(name string, known []string) string {
	if near := spelling.Nearest(name, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	slices.Sort(known)
	return "known are " + strings.Join(known, ", ")
}

func (r *reader) wrongKind(v *value, what, want, fix string) {
	r.refuse(v.Place, fmt.Sprintf("%s is %s: it must be %s", what, v.Kind, want), "write "+fix)
}

// text is a text that is not empty.
func (r *reader) text(v *value, what string) string {
	if v.Kind == yamlfile.Text && v.Text == "" {
		r.refuse(v.Place, what+" is empty", "write one, or leave the key out")
		return ""
	}
	if v.Kind != yamlfile.Text {
		r.wrongKind(v, what, "a text", "it in quotes if it looks like something else")
		return ""
	}
	return v.Text
}

// scalar is a text, a number or a truth value, as written.
func (r *reader) scalar(v *value, what string) string {
	if v.Kind != yamlfile.Text && v.Kind != yamlfile.Number && v.Kind != yamlfile.Bool {
		r.wrongKind(v, what, "a text", `it in quotes; "" is the empty one`)
	}
	return v.Text
}

func (r *reader) flag(v *value, what string) bool {
	if v.Kind != yamlfile.Bool {
		r.wrongKind(v, what, "true or false", "true or false, without quotes")
	}
	return v.Text == "true"
}

func (r *reader) number(v *value, what string, most int) int {
	n, err := strconv.Atoi(v.Text)
	if v.Kind != yamlfile.Number || err != nil || n < 0 || n > most {
		r.refuse(v.Place, fmt.Sprintf("%s is %.40q", what, v.Text), fmt.Sprintf("write a number from 0 to %d", most))
	}
	return n
}

func (r *reader) oneOf(v *value, what string, choices ...string) string {
	if !slices.Contains(choices, v.Text) {
		r.refuse(v.Place, fmt.Sprintf("%s is %.40q", what, v.Text), "write "+strings.Join(choices, " or "))
	}
	return v.Text
}

func (r *reader) list(v *value, what string) []*value {
	if v.Kind != yamlfile.List {
		r.wrongKind(v, what, "a list", "[a, b], or a line with - for each")
	}
	return v.List
}
