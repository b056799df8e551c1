package agentfile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/hence-dev/hence/gate/spelling"
)

type kind uint8

const (
	null kind = iota
	text
	number
	boolean
	sequence
	mapping
)

func (k kind) String() string {
	return [...]string{"nothing", "text", "a number", "true or false", "a list", "a mapping"}[k]
}

type place struct{ line, column int }

// value is a YAML value with its place.
type value struct {
	at     place
	kind   kind
	text   string // of a scalar, as written
	list   []*value
	fields []entry
}

type entry struct {
	at    place
	name  string
	value *value
}

func (v *value) get(name string) *value {
	for _, f := range v.fields {
		if f.name == name {
			return f.value
		}
	}
	return nil
}

// reader turns values into a file and collects what is wrong.
type reader struct {
	file, dir string
	found     []Finding
}

func (r *reader) refuse(at place, what, fix string) {
	r.found = append(r.found, Finding{File: r.file, Line: at.line, Column: at.column, What: what, Fix: fix})
}

// parse returns nil when there is nothing that could be read further.
func (r *reader) parse(text []byte) (root *value) {
	if len(text) > maxFileBytes {
		r.refuse(place{1, 1}, fmt.Sprintf("the file has %d bytes", len(text)), fmt.Sprintf("at most %d", maxFileBytes))
		return nil
	}
	// The parser is not ours: a panic in it is an unreadable file, not the end of the process.
	defer func() {
		if p := recover(); p != nil {
			r.refuse(place{1, 1}, "the file is no YAML that can be read", "simplify it, or quote its texts")
			root = nil
		}
	}()
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		at, what := place{1, 1}, err.Error()
		if e, ok := err.(yaml.Error); ok && e.GetToken() != nil && e.GetToken().Position != nil {
			at, what = place{e.GetToken().Position.Line, e.GetToken().Position.Column}, e.GetMessage()
		}
		r.refuse(at, "this is no YAML: "+what, "mend it there (indentation, quotes, a missing colon)")
		return nil
	}
	var body ast.Node
	for _, doc := range file.Docs {
		if doc.Body != nil && body != nil {
			r.refuse(placeOf(doc.Body), "a second document starts here", "write one document to a file")
			return nil
		}
		if doc.Body != nil {
			body = doc.Body
		}
	}
	if body == nil {
		r.refuse(place{1, 1}, "the file is empty", `write "version: 1" and "agents:" with a list`)
		return nil
	}
	return r.convert(body)
}

func placeOf(n ast.Node) place {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return place{t.Position.Line, t.Position.Column}
	}
	return place{1, 1}
}

func (r *reader) convert(n ast.Node) *value {
	v := &value{at: placeOf(n)}
	switch n := n.(type) {
	case *ast.NullNode:
	case *ast.StringNode:
		v.kind, v.text = text, n.Value
	case *ast.LiteralNode:
		v.kind, v.text = text, n.Value.Value
	case *ast.BoolNode:
		v.kind, v.text = boolean, n.Token.Value
	case *ast.IntegerNode:
		v.kind, v.text = number, n.Token.Value
	case *ast.FloatNode:
		v.kind, v.text = number, n.Token.Value
	case *ast.SequenceNode:
		v.kind = sequence
		for _, item := range n.Values {
			v.list = append(v.list, r.convert(item))
		}
	case *ast.MappingNode:
		r.convertFields(v, n.Values)
	case *ast.MappingValueNode:
		r.convertFields(v, []*ast.MappingValueNode{n})
	default:
		r.refuse(v.at, "anchors, aliases and tags have no meaning here", "write the value itself")
	}
	return v
}

func (r *reader) convertFields(v *value, fields []*ast.MappingValueNode) {
	v.kind = mapping
	for i, f := range fields {
		at := placeOf(f.Key)
		if i == 0 {
			v.at = at
		}
		key, ok := f.Key.(ast.ScalarNode)
		if _, merge := f.Key.(*ast.MergeKeyNode); !ok || merge {
			r.refuse(at, "a key must be a plain name", "write name: value")
			continue
		}
		v.fields = append(v.fields, entry{at, key.GetToken().Value, r.convert(f.Value)}) // once: the parser sees to that
	}
}

// field is a key that is known somewhere, and what its value is for.
type field struct {
	name string
	take func(*value)
}

// fields reads a mapping. Every key must be a known one.
func (r *reader) fields(v *value, what string, known []field) {
	if v.kind != mapping {
		r.wrongKind(v, what, "a mapping", "key: value")
		return
	}
	names := make([]string, len(known))
	for i, k := range known {
		names[i] = k.name
	}
	for _, f := range v.fields {
		if !slices.Contains(names, f.name) {
			r.refuse(f.at, fmt.Sprintf("%s has no key %.40q", what, f.name), suggest(f.name, names))
		}
	}
	for _, k := range known { // in this order, so that what is shared is there before it is used
		if given := v.get(k.name); given != nil {
			k.take(given)
		}
	}
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
	r.refuse(v.at, fmt.Sprintf("%s is %s: it must be %s", what, v.kind, want), "write "+fix)
}

// text is a text that is not empty.
func (r *reader) text(v *value, what string) string {
	if v.kind == text && v.text == "" {
		r.refuse(v.at, what+" is empty", "write one, or leave the key out")
		return ""
	}
	if v.kind != text {
		r.wrongKind(v, what, "a text", "it in quotes if it looks like something else")
		return ""
	}
	return v.text
}

// scalar is a text, a number or a truth value, as written.
func (r *reader) scalar(v *value, what string) string {
	if v.kind != text && v.kind != number && v.kind != boolean {
		r.wrongKind(v, what, "a text", `it in quotes; "" is the empty one`)
	}
	return v.text
}

func (r *reader) flag(v *value, what string) bool {
	if v.kind != boolean {
		r.wrongKind(v, what, "true or false", "true or false, without quotes")
	}
	return v.text == "true"
}

func (r *reader) number(v *value, what string, most int) int {
	n, err := strconv.Atoi(v.text)
	if v.kind != number || err != nil || n < 0 || n > most {
		r.refuse(v.at, fmt.Sprintf("%s is %.40q", what, v.text), fmt.Sprintf("write a number from 0 to %d", most))
	}
	return n
}

func (r *reader) oneOf(v *value, what string, choices ...string) string {
	if !slices.Contains(choices, v.text) {
		r.refuse(v.at, fmt.Sprintf("%s is %.40q", what, v.text), "write "+strings.Join(choices, " or "))
	}
	return v.text
}

func (r *reader) list(v *value, what string) []*value {
	if v.kind != sequence {
		r.wrongKind(v, what, "a list", "[a, b], or a line with - for each")
	}
	return v.list
}
