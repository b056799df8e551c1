package policy

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// FuzzLoad: no file makes the loader panic or run away; what it refuses has a line and a fix; what it takes the schema
// takes, can be linted, fuzzed and explained, and has the same signatures when it is read again.
func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"testdata/refused/*.yaml", "testdata/taken/*.yaml", "../../docs/examples/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatal(pattern, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	schema := compiled(f)
	f.Fuzz(func(t *testing.T, data []byte) { holds(t, schema, data) })
}

func holds(t *testing.T, schema *jsonschema.Schema, data []byte) {
	p, err := Load(data, Options{})
	if err != nil {
		refusal, ok := errors.AsType[*Refusal](err)
		if !ok || len(refusal.Findings) == 0 {
			t.Fatalf("refused by %v", err)
		}
		for _, f := range refusal.Findings {
			if f.What == "" || f.Fix == "" {
				t.Fatalf("a finding without text: %+v", f)
			}
		}
		return
	}
	if err := schemaAccepts(schema, data); err != nil {
		t.Fatalf("the loader takes it, the schema says %v", err)
	}
	p.Lint()
	p.Fuzz(1, 20)
	p.Test(p.Cases())
	_, tools := p.Catalogue()
	for _, d := range p.tools {
		if e := p.Explain(d.pattern, asJSON(d.sampleNames())); len(e.Sentences) == 0 {
			t.Fatalf("%q cannot be explained", d.pattern)
		}
	}
	again, err := Load(data, Options{})
	if err != nil {
		t.Fatalf("refused the second time: %v", err)
	}
	if _, second := again.Catalogue(); len(second) != len(tools) {
		t.Fatal("another catalogue the second time")
	} else {
		for i := range tools {
			if tools[i] != second[i] {
				t.Fatalf("%v and %v", tools[i], second[i])
			}
		}
	}
}
