// Package strictfile reads the values of a YAML file that people write for a command. It is strict: a key that is not
// known, or a value of the wrong kind, is a finding with its line and what to do.
package strictfile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hence-dev/hence/gate/spelling"
	"github.com/hence-dev/hence/gate/yamlfile"
)

// The parts of a file.
type (
	Place = yamlfile.Place
	Value = yamlfile.Node
)

// maxFindings bounds how much is said of one file.
const maxFindings = 30

// Field is a key that is known somewhere, and what its value is for.
type Field struct {
	Name string
	Take func(*Value)
}

// Finding is one thing that is wrong.
type Finding struct {
	File   string `json:"file"`
	Line   int    `json:"line"` // 1-based
	Column int    `json:"column"`
	What   string `json:"what"`
	Fix    string `json:"fix"`
}

// String is the finding on one line.
func (f Finding) String() string {
	return fmt.Sprintf("%s:%d:%d: %s: %s", f.File, f.Line, f.Column, f.What, f.Fix)
}

// Reader collects what is wrong with a file's values.
type Reader struct {
	File  string
	Found []Finding
}

// Refuse notes what is wrong at a place, and what to do.
func (r *Reader) Refuse(at Place, what, fix string) {
	r.Found = append(r.Found, Finding{File: r.File, Line: at.Line, Column: at.Column, What: what, Fix: fix})
}

// Parse returns nil when there is nothing that could be read further. Empty is what to do about an empty file.
func (r *Reader) Parse(text []byte, empty string) *Value {
	root, problem := yamlfile.Parse(text, yamlfile.Fixes{Large: "shorten it, or make two files of it", Empty: empty})
	if problem != nil {
		at := problem.Place
		if at == (Place{}) {
			at = Place{Line: 1, Column: 1} // a finding of this file has a line
		}
		r.Refuse(at, problem.What, problem.Fix)
	}
	return root
}

// Document reads the top of a file: its version, the key that the file is for, with what to write where it is missing,
// and the others.
func (r *Reader) Document(root *Value, needed, fix string, known ...Field) {
	r.Fields(root, "the file", append(known, Field{"version", func(v *Value) {
		if v.Text != "1" {
			r.Refuse(v.Place, fmt.Sprintf("version %.20q is not known here", v.Text), `write "version: 1"`)
		}
	}}))
	for _, required := range []struct{ name, fix string }{
		{"version", `write "version: 1" in the first line`},
		{needed, fix},
	} {
		if root.Kind == yamlfile.Map && root.Get(required.name) == nil {
			r.Refuse(Place{Line: 1, Column: 1}, fmt.Sprintf("the key %q is missing", required.name), required.fix)
		}
	}
}

// Fields reads a mapping. Every key must be a known one.
func (r *Reader) Fields(v *Value, what string, known []Field) {
	if v.Kind != yamlfile.Map {
		r.WrongKind(v, what, "a mapping", "key: value")
		return
	}
	names := make([]string, len(known))
	for i, k := range known {
		names[i] = k.Name
	}
	v.Each(names, func(i int, v *Value) { known[i].Take(v) }, func(key yamlfile.Pair) {
		r.Refuse(key.Place, fmt.Sprintf("%s has no key %.40q", what, key.Name), suggest(key.Name, names))
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

// WrongKind notes that a value is none of the kind that is needed.
func (r *Reader) WrongKind(v *Value, what, want, fix string) {
	r.Refuse(v.Place, fmt.Sprintf("%s is %s: it must be %s", what, v.Kind, want), "write "+fix)
}

// Text is a text that is not empty.
func (r *Reader) Text(v *Value, what string) string {
	if v.Kind == yamlfile.Text && v.Text == "" {
		r.Refuse(v.Place, what+" is empty", "write one, or leave the key out")
		return ""
	}
	if v.Kind != yamlfile.Text {
		r.WrongKind(v, what, "a text", "it in quotes if it looks like something else")
		return ""
	}
	return v.Text
}

// Scalar is a text, a number or a truth value, as written.
func (r *Reader) Scalar(v *Value, what string) string {
	if v.Kind != yamlfile.Text && v.Kind != yamlfile.Number && v.Kind != yamlfile.Bool {
		r.WrongKind(v, what, "a text", `it in quotes; "" is the empty one`)
	}
	return v.Text
}

// Flag is true or false.
func (r *Reader) Flag(v *Value, what string) bool {
	if v.Kind != yamlfile.Bool {
		r.WrongKind(v, what, "true or false", "true or false, without quotes")
	}
	return v.Text == "true"
}

// Number is a whole one from 0 to most.
func (r *Reader) Number(v *Value, what string, most int) int {
	n, err := strconv.Atoi(v.Text)
	if v.Kind != yamlfile.Number || err != nil || n < 0 || n > most {
		r.Refuse(v.Place, fmt.Sprintf("%s is %.40q", what, v.Text), fmt.Sprintf("write a number from 0 to %d", most))
	}
	return n
}

// OneOf is one of several words.
func (r *Reader) OneOf(v *Value, what string, choices ...string) string {
	if !slices.Contains(choices, v.Text) {
		r.Refuse(v.Place, fmt.Sprintf("%s is %.40q", what, v.Text), "write "+strings.Join(choices, " or "))
	}
	return v.Text
}

// List is the items of a list.
func (r *Reader) List(v *Value, what string) []*Value {
	if v.Kind != yamlfile.List {
		r.WrongKind(v, what, "a list", "[a, b], or a line with - for each")
	}
	return v.List
}

// Sorted are the first findings by line.
func (r *Reader) Sorted() []Finding {
	slices.SortStableFunc(r.Found, func(a, b Finding) int { return a.Line - b.Line })
	return r.Found[:min(len(r.Found), maxFindings)]
}
