// Package reference writes the Markdown references in docs/ from the documents that machines read: the OpenAPI file,
// the AsyncAPI file and the JSON Schemas. Its test holds that they say the same.
package reference

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

//go:generate go test . -run "^TestHTTP$|^TestEvents$" -rewrite

// node is a place in a YAML or JSON document; the order of its members is the document's.
type node struct{ value any }

// member is a named node.
type member struct {
	name string
	node
}

func parse(text []byte) (node, error) {
	var v any
	if err := yaml.UnmarshalWithOptions(text, &v, yaml.UseOrderedMap()); err != nil {
		return node{}, fmt.Errorf("parse the document: %w", err)
	}
	return node{v}, nil
}

// members are those of a mapping, none of anything else.
func (n node) members() (all []member) {
	m, _ := n.value.(yaml.MapSlice)
	for _, item := range m {
		all = append(all, member{fmt.Sprint(item.Key), node{item.Value}})
	}
	return all
}

// at follows names down; a name that is missing leads to the empty node.
func (n node) at(names ...string) node {
	for _, name := range names {
		found := node{}
		for _, m := range n.members() {
			if m.name == name {
				found = m.node
			}
		}
		n = found
	}
	return n
}

func (n node) there() bool { return n.value != nil }

// text is a scalar as it is written, "" for the empty node.
func (n node) text() string {
	if n.value == nil {
		return ""
	}
	return strings.TrimSpace(fmt.Sprint(n.value))
}

func (n node) list() (all []node) {
	values, _ := n.value.([]any)
	for _, v := range values {
		all = append(all, node{v})
	}
	return all
}

func (n node) texts() (all []string) {
	for _, item := range n.list() {
		all = append(all, item.text())
	}
	return all
}

func (n node) has(text string) bool { return slices.Contains(n.texts(), text) }

// reference is the last part of a $ref, "" where there is none.
func (n node) reference() string {
	ref := n.at("$ref").text()
	return ref[strings.LastIndex(ref, "/")+1:]
}

// cell makes text fit a table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(strings.Join(strings.Fields(text), " "))
}

// row writes one line of a table.
func row(w *strings.Builder, cells ...string) {
	w.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}

func code(text string) string { return "`" + text + "`" }

func codes(all []string) string {
	quoted := make([]string, len(all))
	for i, text := range all {
		quoted[i] = code(text)
		if text == "" {
			quoted[i] = `""`
		}
	}
	return strings.Join(quoted, " ")
}

// anchor is how GitHub names a heading.
func anchor(heading string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(heading) {
		switch {
		case r == ' ' || r == '-':
			b.WriteByte('-')
		case r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			b.WriteRune(r)
		}
	}
	return b.String()
}
