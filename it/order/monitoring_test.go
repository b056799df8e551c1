package order

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/hence-dev/hence/it/harness"
)

// TestMonitoring reads hence.decisions of a demo run as any consumer could: it knows a broker's address, the topic's
// name and the published schema files, and validates every record.
func TestMonitoring(t *testing.T) {
	servers := harness.Start(t)
	report, code := harness.Demo(t, harness.Binary(t), servers, harness.DemoBound, "--seed", "7")
	if code != 0 {
		t.Fatalf("the demo ended with %d: %v", code, report.Holds())
	}
	schema := publishedSchema(t)
	kinds := map[string]int{}
	records := harness.ReadTopic(t, servers.Brokers, "hence.decisions", report.Workspace)
	for _, r := range records {
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(r.Value))
		if err != nil {
			t.Fatalf("offset %d is no JSON: %v", r.Offset, err)
		}
		if err := schema.Validate(value); err != nil {
			t.Errorf("offset %d: %v\n%s", r.Offset, err, r.Value)
		}
		kind := fmt.Sprint(value.(map[string]any)["type"])
		kinds[strings.TrimSuffix(strings.TrimPrefix(kind, "dev.hence.decision."), ".v1")]++
		for _, h := range r.Headers {
			if h.Key == "ce_type" && string(h.Value) != kind {
				t.Errorf("offset %d: its header says %s, its body %s", r.Offset, h.Value, kind)
			}
		}
	}
	if kinds["committed"] < report.Committed {
		t.Errorf("%d committed decisions, the demo has %d", kinds["committed"], report.Committed)
	}
	t.Logf("%d records validate: %v", len(records), kinds)
	damaged := map[string]any{"specversion": "1.0", "id": "w/1", "type": "dev.hence.decision.committed.v1"}
	if schema.Validate(damaged) == nil {
		t.Error("a record without source and data validates: the schema says nothing")
	}
}

// publishedSchema compiles the schema of a record of hence.decisions from its file.
func publishedSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	folder := filepath.Join(harness.Root(t), "topology", "schemas")
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no schema in %s: %v", folder, err)
	}
	for _, path := range files {
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(io.Reader(file))
		file.Close()
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		id, _ := doc.(map[string]any)["$id"].(string)
		if err := compiler.AddResource(id, doc); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	schema, err := compiler.Compile("urn:hence:schema:decision:v1")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}
