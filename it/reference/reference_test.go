package reference_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hence-dev/hence/it/reference"
)

var rewrite = flag.Bool("rewrite", false, "write the references in docs/ again")

func file(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", path))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// compare holds that a reference in docs/ says what its document says.
func compare(t *testing.T, path, want string) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(filepath.Join("..", "..", path), []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if string(file(t, path)) != want {
		t.Errorf("%s is not what its document says: run go generate ./it/reference", path)
	}
}

func TestHTTP(t *testing.T) {
	const source = "sidecar/http/openapi.yaml"
	text := file(t, source)
	got, err := reference.HTTP(source, text)
	if err != nil {
		t.Fatal(err)
	}
	compare(t, "docs/http.md", got)
	routes := strings.Count(string(text), "operationId:")
	if sections := strings.Count(got, "\n### GET ") + strings.Count(got, "\n### POST ") +
		strings.Count(got, "\n### PUT ") + strings.Count(got, "\n### DELETE "); sections != routes {
		t.Errorf("%d routes are written, the document has %d", sections, routes)
	}
	wholeLinks(t, got)
}

func TestEvents(t *testing.T) {
	const source = "topology/asyncapi.yaml"
	got, err := reference.Events(source, file(t, source), func(path string) ([]byte, error) {
		return os.ReadFile(filepath.Join("..", "..", "topology", path))
	})
	if err != nil {
		t.Fatal(err)
	}
	compare(t, "docs/events.md", got)
	for _, want := range []string{
		"### `hence.decisions`", "`ce_id`", "| `data.seq` |", "### residue.json", "`committed`",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the reference does not have %q", want)
		}
	}
	wholeLinks(t, got)
}

// wholeLinks holds that a link inside a reference leads to a heading of it.
func wholeLinks(t *testing.T, text string) {
	t.Helper()
	headings := map[string]bool{}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			headings[strings.ToLower(strings.TrimSpace(strings.TrimLeft(line, "#")))] = true
		}
	}
	for _, part := range strings.Split(text, "](#")[1:] {
		name, _, _ := strings.Cut(part, ")")
		if !headings[strings.ReplaceAll(name, "-", " ")] {
			t.Errorf("a link leads to #%s, which is no heading", name)
		}
	}
}

// A member that is added, and a description that is changed, show in the reference.
func TestHTTPFollowsTheDocument(t *testing.T) {
	const doc = "info: {description: D}\ntags: [{name: a, description: A}]\npaths:\n  /x:\n    get:\n      tags: [a]\n" +
		"      summary: S\n      parameters: [{name: p, in: query, schema: {type: integer, maximum: 5}, description: P}]\n" +
		"      responses: {'200': {description: R, content: {application/json: {schema: {$ref: '#/c/s/T'}}}}}\n" +
		"components:\n  schemas:\n    T:\n      type: object\n      required: [m]\n" +
		"      properties: {m: {type: array, items: {type: object, properties: {n: {type: string}}}}}\n"
	got, err := reference.HTTP("f", []byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"### GET `/x`", "S.", "| `p` | query | integer | P; to 5 |", "| 200 | R | [T](#t) |",
		"| `m` | list of object | yes |  |", "| `m[].n` | string |  |  |",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in:\n%s", want, got)
		}
	}
	if _, err := reference.HTTP("f", []byte("a: [")); err == nil {
		t.Error("what is no YAML passes")
	}
}
