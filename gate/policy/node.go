package policy

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// The bounds of a policy file.
const (
	maxFileBytes = 256 << 10
	maxLineBytes = 8 << 10
	maxNesting   = 40
	maxFindings  = 30
)

type kind uint8

const (
	kindNull kind = iota
	kindText
	kindNumber
	kindBool
	kindList
	kindMap
)

func (k kind) String() string {
	return [...]string{"nothing", "text", "a number", "true or false", "a list", "a mapping"}[k]
}

// node is a YAML value with its place: what the readers need of the parser's tree and no more.
type node struct {
	place
	kind   kind
	text   string // of a scalar, as written
	value  any    // of a number or a bool
	list   []*node
	fields []pair
}

type pair struct {
	place
	name  string
	value *node
}

// get returns the value of a field, or nil.
func (n *node) get(name string) *node {
	for _, f := range n.fields {
		if f.name == name {
			return f.value
		}
	}
	return nil
}

// plain returns the node as decoded JSON.
func (n *node) plain() any {
	switch n.kind {
	case kindText:
		return n.text
	case kindNumber, kindBool:
		return n.value
	case kindList:
		out := make([]any, 0, len(n.list))
		for _, item := range n.list {
			out = append(out, item.plain())
		}
		return out
	case kindMap:
		out := make(map[string]any, len(n.fields))
		for _, f := range n.fields {
			out[f.name] = f.value.plain()
		}
		return out
	}
	return nil
}

// parse reads YAML into nodes. Anchors, tags and merges are refused: a policy says what it says where it stands.
func parse(data []byte) (root *node, problem *Finding) {
	refuse := func(p place, what, fix string) (*node, *Finding) {
		f := p.finding("yaml", what, fix)
		return nil, &f
	}
	if p, what := tooLarge(string(data)); what != "" {
		return refuse(p, what, "split the policy or shorten it")
	}
	// The parser is not ours: a panic in it is an unreadable file, not the end of the process.
	defer func() {
		if r := recover(); r != nil {
			root, problem = refuse(place{1, 1}, "the file is no YAML that can be read", "simplify it, or quote its texts")
		}
	}()
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		p, what := syntaxError(err)
		return refuse(p, what, "mend the YAML there (indentation, quotes, a missing colon)")
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
		return refuse(place{1, 1}, "the file is empty", "write at least \"version: 1\", \"server: name\" and \"tools: []\"")
	}
	root, f := convert(body, maxNesting)
	return root, f
}

// tooLarge finds what would cost a reader too much, before any parser sees it.
func tooLarge(text string) (place, string) {
	if len(text) > maxFileBytes {
		return place{}, fmt.Sprintf("the file is larger than %d KiB", maxFileBytes>>10)
	}
	depth, line := 0, 0
	for written := range strings.Lines(text) {
		line++
		if len(written) > maxLineBytes {
			return place{line, 1}, fmt.Sprintf("the line is longer than %d KiB", maxLineBytes>>10)
		}
		entry := strings.TrimLeft(written, " -?")
		if strings.Count(written[:len(written)-len(entry)], "- ")+strings.Count(written, "? ") > maxNesting {
			return place{line, 1}, "lists are nested too deep"
		}
		for i := range len(written) {
			switch written[i] {
			case '[', '{':
				depth++
			case ']', '}':
				depth = max(0, depth-1)
			}
			if depth > maxNesting {
				return place{line, i + 1}, "brackets are nested too deep"
			}
		}
	}
	return place{}, ""
}

func syntaxError(err error) (place, string) {
	e, ok := err.(yaml.Error)
	if !ok || e.GetToken() == nil || e.GetToken().Position == nil {
		return place{1, 1}, "this is no YAML"
	}
	p := e.GetToken().Position
	return place{p.Line, p.Column}, "this is no YAML: " + e.GetMessage()
}

func at(n ast.Node) place {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return place{t.Position.Line, t.Position.Column}
	}
	return place{1, 1}
}

func convert(n ast.Node, depth int) (*node, *Finding) {
	out := &node{place: at(n)}
	refuse := func(what, fix string) (*node, *Finding) {
		f := out.finding("yaml", what, fix)
		return nil, &f
	}
	if depth == 0 {
		return refuse("the file nests too deep", "flatten it")
	}
	switch v := n.(type) {
	case *ast.NullNode:
	case *ast.StringNode:
		out.kind, out.text = kindText, v.Value
	case *ast.LiteralNode:
		out.kind, out.text = kindText, v.Value.Value
	case *ast.BoolNode:
		out.kind, out.text, out.value = kindBool, v.Token.Value, v.Value
	case *ast.IntegerNode:
		out.kind, out.text, out.value = kindNumber, v.Token.Value, v.Value
	case *ast.FloatNode:
		out.kind, out.text, out.value = kindNumber, v.Token.Value, v.Value
	case *ast.SequenceNode:
		out.kind = kindList
		for _, item := range v.Values {
			sub, problem := convert(item, depth-1)
			if problem != nil {
				return nil, problem
			}
			out.list = append(out.list, sub)
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

func convertFields(out *node, values []*ast.MappingValueNode, depth int) (*node, *Finding) {
	out.kind = kindMap
	for i, v := range values {
		key, ok := v.Key.(ast.ScalarNode)
		_, anchor := v.Key.(*ast.MergeKeyNode)
		p := at(v.Key)
		if i == 0 {
			out.place = p
		}
		if !ok || anchor {
			f := p.finding("yaml", "a key must be a plain name", "write name: value")
			return nil, &f
		}
		name := key.GetToken().Value
		if out.get(name) != nil {
			f := p.finding("yaml", fmt.Sprintf("the key %.40q is there twice", name), "keep one of the two")
			return nil, &f
		}
		value, problem := convert(v.Value, depth-1)
		if problem != nil {
			return nil, problem
		}
		out.fields = append(out.fields, pair{place: p, name: name, value: value})
	}
	return out, nil
}
