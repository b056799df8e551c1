package policy

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

func compiled(tb testing.TB) *jsonschema.Schema {
	tb.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		tb.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("policy.json", doc); err != nil {
		tb.Fatal(err)
	}
	s, err := c.Compile("policy.json")
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// schemaAccepts says what the schema says of a YAML text.
func schemaAccepts(s *jsonschema.Schema, text []byte) error {
	var v any
	if err := yaml.Unmarshal(text, &v); err != nil {
		return err
	}
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return err
	}
	return s.Validate(doc)
}

func TestSchemaIsPublished(t *testing.T) {
	published, err := os.ReadFile("../../docs/policy.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(published, Schema()) {
		t.Fatal("docs/policy.schema.json differs from gate/policy/policy.schema.json: copy it")
	}
}

// TestSchemaAgrees: what the loader takes the schema takes; of what the loader refuses the schema refuses what is
// wrong in form, which is listed here. The rest (templates, references, globs) only the loader can see.
func TestSchemaAgrees(t *testing.T) {
	s := compiled(t)
	taken, err := filepath.Glob("../../docs/examples/*policy*.yaml")
	more, _ := filepath.Glob("testdata/taken/*.yaml")
	if err != nil || len(taken) == 0 || len(more) < 3 {
		t.Fatalf("%d examples, %d files, %v", len(taken), len(more), err)
	}
	for _, file := range append(taken, more...) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Load(data, Options{})
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		for _, f := range p.Test(p.Cases()) {
			t.Error(f.Text(file))
		}
		if err := schemaAccepts(s, data); err != nil {
			t.Errorf("%s: the loader takes it, the schema says %v", file, err)
		}
	}
	for _, name := range []string{
		"args", "args-typed", "cases", "class", "file-paths", "missing-keys", "no-class", "not-a-mapping",
		"out-of-range", "server-name",
		"secrets-inline", "types", "unknown-key", "unknown-key-top", "unknown-keys-nested", "version", "wrong-types",
		"mail",
		"mail-server", "empty", "exec-shell", "shard", "vocabulary",
	} {
		data, err := os.ReadFile("testdata/refused/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		if err := schemaAccepts(s, data); err == nil {
			t.Errorf("%s: the schema takes what is wrong in form", name)
		}
	}
}
