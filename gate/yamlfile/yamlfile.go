// Package yamlfile reads the YAML that people write for Hence: one document of plain values, each with its place. What
// could be read in two ways is refused: anchors, tags, merges, a key that is there twice. So is what would cost a
// reader too much.
package yamlfile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// MaxBytes bounds a file.
const MaxBytes = 256 << 10

// The other bounds.
const (
	maxLineBytes = 8 << 10
	maxNesting   = 40
)

// Kind is what a value is.
type Kind uint8

// The kinds.
const (
	Null Kind = iota
	Text
	Number
	Bool
	List
	Map
)

// String is the kind as it is said to people.
func (k Kind) String() string {
	return [...]string{"nothing", "text", "a number", "true or false", "a list", "a mapping"}[k]
}

// Place is a position in a file, 1-based; the zero Place is the file as a whole.
type Place struct{ Line, Column int }

// Node is a YAML value with its place: what the readers need of the parser's tree and no more.
type Node struct {
	Place
	Kind   Kind
	Text   string // of a scalar, as written
	Value  any    // of a number or a bool
	List   []*Node
	Fields []Pair // of a mapping, in the order of the file; each name once
}

// Pair is a key of a mapping and its value. The place is the key's.
type Pair struct {
	Place
	Name  string
	Value *Node
}

// Each reads the fields of a mapping in the order of the file: read is given the index of a known key, and unknown is
// told of each other one.
func (n *Node) Each(known []string, read func(i int, value *Node), unknown func(key Pair)) {
	for _, f := range n.Fields {
		if i := slices.Index(known, f.Name); i >= 0 {
			read(i, f.Value)
		} else {
			unknown(f)
		}
	}
}

// Problem is why a text cannot be read at all, and what to do.
type Problem struct {
	Place
	What, Fix string
}

// Fixes is what to do about a file of some kind that is too large, and about one that is empty.
type Fixes struct{ Large, Empty string }

// Get returns the value of a field, or nil.
func (n *Node) Get(name string) *Node {
	for _, f := range n.Fields {
		if f.Name == name {
			return f.Value
		}
	}
	return nil
}

// Plain returns the node as decoded JSON.
func (n *Node) Plain() any {
	switch n.Kind {
	case Text:
		return n.Text
	case Number, Bool:
		return n.Value
	case List:
		out := make([]any, 0, len(n.List))
		for _, item := range n.List {
			out = append(out, item.Plain())
		}
		return out
	case Map:
		out := make(map[string]any, len(n.Fields))
		for _, f := range n.Fields {
			out[f.Name] = f.Value.Plain()
		}
		return out
	}
	return nil
}

// Parse reads a text.
func Parse(data []byte, fixes Fixes) (root *Node, problem *Problem) {
	refuse := func(p Place, what, fix string) (*Node, *Problem) { return nil, &Problem{p, what, fix} }
	if p, what := tooLarge(string(data)); what != "" {
		return refuse(p, what, fixes.Large)
	}
	// The parser is not ours: a panic in it is an unreadable file, not the end of the process.
	defer func() {
		if r := recover(); r != nil {
			root, problem = refuse(Place{1, 1}, "the file is no YAML that can be read", "simplify it, or quote its texts")
		}
	}()
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		p, what := syntaxError(err)
		return refuse(p, what, "correct the YAML there (indentation, quotes, a missing colon)")
	}
	var body ast.Node
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if body != nil {
			return refuse(at(doc.Body), "a second document starts here", "write one document to a file")
		}
		body = doc.Body
	}
	if body == nil {
		return refuse(Place{1, 1}, "the file is empty", fixes.Empty)
	}
	return convert(body, maxNesting)
}

// tooLarge finds what would cost a reader too much, before any parser sees it.
func tooLarge(text string) (Place, string) {
	if len(text) > MaxBytes {
		return Place{}, fmt.Sprintf("the file is larger than %d KiB", MaxBytes>>10)
	}
	depth, line := 0, 0
	for written := range strings.Lines(text) {
		line++
		if len(written) > maxLineBytes {
			return Place{line, 1}, fmt.Sprintf("the line is longer than %d KiB", maxLineBytes>>10)
		}
		entry := strings.TrimLeft(written, " -?")
		if strings.Count(written[:len(written)-len(entry)], "- ")+strings.Count(written, "? ") > maxNesting {
			return Place{line, 1}, "lists are nested too deep"
		}
		for i := range len(written) {
			switch written[i] {
			case '[', '{':
				depth++
			case ']', '}':
				depth = max(0, depth-1)
			}
			if depth > maxNesting {
				return Place{line, i + 1}, "brackets are nested too deep"
			}
		}
	}
	return Place{}, ""
}

func syntaxError(err error) (Place, string) {
	e, ok := err.(yaml.Error)
	if !ok || e.GetToken() == nil || e.GetToken().Position == nil {
		return Place{1, 1}, "this is no YAML"
	}
	p := e.GetToken().Position
	return Place{p.Line, p.Column}, "this is no YAML: " + e.GetMessage()
}

func at(n ast.Node) Place {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return Place{t.Position.Line, t.Position.Column}
	}
	return Place{1, 1}
}

func convert(n ast.Node, depth int) (*Node, *Problem) {
	out := &Node{Place: at(n)}
	refuse := func(what, fix string) (*Node, *Problem) { return nil, &Problem{out.Place, what, fix} }
	if depth == 0 {
		return refuse("the file nests too deep", "flatten it")
	}
	switch v := n.(type) {
	case *ast.NullNode:
	case *ast.StringNode:
		out.Kind, out.Text = Text, v.Value
	case *ast.LiteralNode:
		out.Kind, out.Text = Text, v.Value.Value
	case *ast.BoolNode:
		out.Kind, out.Text, out.Value = Bool, v.Token.Value, v.Value
	case *ast.IntegerNode:
		out.Kind, out.Text, out.Value = Number, v.Token.Value, v.Value
	case *ast.FloatNode:
		out.Kind, out.Text, out.Value = Number, v.Token.Value, v.Value
	case *ast.SequenceNode:
		out.Kind = List
		for _, item := range v.Values {
			sub, problem := convert(item, depth-1)
			if problem != nil {
				return nil, problem
			}
			out.List = append(out.List, sub)
		}
	case *ast.MappingNode:
		return convertFields(out, v.Values, depth)
	case *ast.MappingValueNode:
		return convertFields(out, []*ast.MappingValueNode{v}, depth)
	default:
		return refuse("anchors, aliases, tags and special numbers have no meaning here", "write the value itself")
	}
	return out, nil
}

func convertFields(out *Node, values []*ast.MappingValueNode, depth int) (*Node, *Problem) {
	out.Kind = Map
	for i, v := range values {
		key, ok := v.Key.(ast.ScalarNode)
		_, anchor := v.Key.(*ast.MergeKeyNode)
		p := at(v.Key)
		if i == 0 {
			out.Place = p
		}
		if !ok || anchor {
			return nil, &Problem{p, "a key must be a plain name", "write name: value"}
		}
		name := key.GetToken().Value
		if out.Get(name) != nil {
			return nil, &Problem{p, fmt.Sprintf("the key %.40q is there twice", name), "keep one of the two"}
		}
		value, problem := convert(v.Value, depth-1)
		if problem != nil {
			return nil, problem
		}
		out.Fields = append(out.Fields, Pair{Place: p, Name: name, Value: value})
	}
	return out, nil
}
