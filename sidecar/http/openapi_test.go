package http

import (
	"bytes"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write openapi.json again from openapi.yaml")

// The document is valid, its JSON form is the same document, and it describes the routes that there are with their
// query parameters, no more and no fewer.
func TestOpenAPI(t *testing.T) {
	doc := described(t)
	asJSON, err := doc.JSON()
	if err != nil {
		t.Fatal(err)
	}
	if *rewrite {
		if err := os.WriteFile("openapi.json", asJSON, 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(asJSON, openAPIJSON) {
		t.Error("openapi.json is not openapi.yaml: run go test ./sidecar/http -run TestOpenAPI -rewrite")
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
