package template

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Tree is a JSON value whose strings are templates.
type Tree struct {
	leaf   *Template
	object map[string]Tree
	list   []Tree
	other  any // numbers, booleans and null are themselves
}

// ParseTree reads the decoded JSON of a tree.
func ParseTree(v any) (Tree, error) { return parseTree(v, maxDepth) }

func parseTree(v any, depth int) (Tree, error) {
	if depth == 0 {
		return Tree{}, fmt.Errorf("%w: it nests more than %d levels deep", ErrSyntax, maxDepth)
	}
	switch v := v.(type) {
	case string:
		t, err := Parse(v)
		return Tree{leaf: &t}, err
	case map[string]any:
		out := Tree{object: make(map[string]Tree, len(v))}
		for _, name := range sortedNames(v) {
			sub, err := parseTree(v[name], depth-1)
			if err != nil {
				return Tree{}, fmt.Errorf("%s: %w", name, err)
			}
			out.object[name] = sub
		}
		return out, nil
	case []any:
		out := Tree{list: make([]Tree, 0, len(v))}
		for i, item := range v {
			sub, err := parseTree(item, depth-1)
			if err != nil {
				return Tree{}, fmt.Errorf("item %d: %w", i, err)
			}
			out.list = append(out.list, sub)
		}
		return out, nil
	}
	return Tree{other: v}, nil
}

// UnmarshalJSON reads the JSON of a tree.
func (t *Tree) UnmarshalJSON(data []byte) error {
	wrapped, err := Object(slices.Concat([]byte(`{"tree":`), data, []byte("}")))
	if err != nil {
		return err
	}
	*t, err = ParseTree(wrapped["tree"])
	return err
}

// Placeholders returns what the tree asks for, in the order of its names.
func (t Tree) Placeholders() []Placeholder {
	var out []Placeholder
	switch {
	case t.leaf != nil:
		return t.leaf.Placeholders()
	case t.object != nil:
		for _, name := range sortedNames(t.object) {
			out = append(out, t.object[name].Placeholders()...)
		}
	default:
		for _, item := range t.list {
			out = append(out, item.Placeholders()...)
		}
	}
	return out
}

// Build returns the tree with its templates replaced. A member whose optional value is absent is left out.
func (t Tree) Build(v Values) (any, error) {
	switch {
	case t.leaf != nil:
		return t.leaf.Value(v)
	case t.object != nil:
		out := make(map[string]any, len(t.object))
		for _, name := range sortedNames(t.object) {
			sub := t.object[name]
			built, err := sub.Build(v)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if built != nil || sub.leaf == nil {
				out[name] = built
			}
		}
		return out, nil
	case t.list != nil:
		out := make([]any, 0, len(t.list))
		for i, item := range t.list {
			built, err := item.Build(v)
			if err != nil {
				return nil, fmt.Errorf("item %d: %w", i, err)
			}
			out = append(out, built)
		}
		return out, nil
	}
	return t.other, nil
}

// JSON builds the tree and returns its JSON.
func (t Tree) JSON(v Values) (json.RawMessage, error) {
	built, err := t.Build(v)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(built)
	if err != nil {
		return nil, fmt.Errorf("write the value as JSON: %w", err)
	}
	return data, nil
}

func sortedNames[T any](m map[string]T) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
