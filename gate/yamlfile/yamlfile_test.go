package yamlfile

import (
	"reflect"
	"strings"
	"testing"
)

// TestParse holds what is read, with its places, and in which order the fields are.
func TestParse(t *testing.T) {
	root, problem := Parse([]byte("b: [1, x, true]\na: {c: }\nwrong: 1.5\n"), Fixes{})
	if problem != nil {
		t.Fatal(problem)
	}
	var read, unknown []string
	root.Each([]string{"a", "b"}, func(i int, v *Node) { read = append(read, []string{"a", "b"}[i]+" "+v.Kind.String()) },
		func(key Pair) { unknown = append(unknown, key.Name) })
	if want := []string{"b a list", "a a mapping"}; !reflect.DeepEqual(read, want) || len(unknown) != 1 {
		t.Errorf("read %q, unknown %q", read, unknown)
	}
	want := map[string]any{"b": []any{uint64(1), "x", true}, "a": map[string]any{"c": nil}, "wrong": 1.5}
	if got := root.Plain(); !reflect.DeepEqual(got, want) {
		t.Errorf("plain %#v", got)
	}
	if c := root.Get("a").Fields[0]; c.Place != (Place{2, 5}) || root.Get("none") != nil {
		t.Errorf("c stands at %+v", c.Place)
	}
}

// TestRefused holds what no reader sees, each with its place.
func TestRefused(t *testing.T) {
	for text, want := range map[string]Problem{
		"":                                  {Place{1, 1}, "the file is empty", "write it"},
		strings.Repeat("#", MaxBytes+1):     {Place{}, "the file is larger than 256 KiB", "cut it"},
		strings.Repeat("#", maxLineBytes+1): {Place{1, 1}, "the line is longer than 8 KiB", "cut it"},
		"a: 1\n" + strings.Repeat("[", 50):  {Place{2, 41}, "brackets are nested too deep", "cut it"},
		"a: 1\n" + strings.Repeat("- ", 50): {Place{2, 1}, "lists are nested too deep", "cut it"},
		"a: 1\n---\nb: 2":                   {Place{3, 2}, "a second document starts here", "write one document to a file"},
		"a: &x 1": {Place{1, 4}, "anchors, aliases, tags and special numbers have no meaning here",
			"write the value itself"},
		"<<: {a: 1}": {Place{1, 1}, "a key must be a plain name", "write name: value"},
	} {
		_, got := Parse([]byte(text), Fixes{Large: "cut it", Empty: "write it"})
		if got == nil || *got != want {
			t.Errorf("%.40q: %+v, want %+v", text, got, want)
		}
	}
	if _, got := Parse([]byte("a: 1\na: 2"), Fixes{}); got == nil || got.Line != 2 {
		t.Errorf("a key twice: %+v", got)
	}
}
