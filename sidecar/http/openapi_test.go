package http

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sidecar/internal/conform"
)

// The document is valid, its JSON form is the same document, and it describes the routes that there are with their
// query parameters, no more and no fewer.
func TestOpenAPI(t *testing.T) {
	doc := described(t)
	text, err := openAPIJSON()
	if err != nil {
		t.Fatal(err)
	}
	inJSON, err := conform.Load(text)
	if err != nil {
		t.Fatal(err)
	}
	want, err := doc.JSON()
	if got, _ := inJSON.JSON(); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the document's JSON form is another document (%v)", err)
	}
	var inDocument, routed []string
	for _, o := range doc.Operations() {
		slices.Sort(o.Query)
		inDocument = append(inDocument, strings.Join(append([]string{o.Method, o.Path, o.ID}, o.Query...), " "))
	}
	for _, r := range (&Face{}).table() {
		query := strings.Fields(r.query)
		slices.Sort(query)
		path := strings.ReplaceAll(r.pattern, "...}", "}")
		routed = append(routed, strings.Join(append([]string{r.method, path, r.name}, query...), " "))
	}
	for _, line := range inDocument {
		if !slices.Contains(routed, line) {
			t.Errorf("openapi.yaml has %q, and no row of the table is so", line)
		}
	}
	for _, line := range routed {
		if !slices.Contains(inDocument, line) {
			t.Errorf("the table has %q, and openapi.yaml does not", line)
		}
	}
	if len(routed) != len(inDocument) { // also when a line is there twice
		t.Errorf("the table has %d rows, openapi.yaml %d operations", len(routed), len(inDocument))
	}
}
