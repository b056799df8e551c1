package topology

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/hence-dev/hence/sequencer"
)

// compileSchemas reads every embedded schema; a description is demanded of every field, at any depth.
func compileSchemas(t *testing.T) map[string]*jsonschema.Schema {
	t.Helper()
	compiled := map[string]*jsonschema.Schema{}
	names, err := fs.Glob(Schemas(), "*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		b, err := fs.ReadFile(Schemas(), name)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		describe(t, name, doc)
		c := jsonschema.NewCompiler()
		c.AssertFormat()
		if err := c.AddResource(name, doc); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if compiled[strings.TrimSuffix(name, ".json")], err = c.Compile(name); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	return compiled
}

// describe demands a description of every property and every item of an array's prefix.
func describe(t *testing.T, at string, doc any) {
	t.Helper()
	switch v := doc.(type) {
	case map[string]any:
		for key, inner := range v {
			describe(t, at+"/"+key, inner)
			if fields, ok := inner.(map[string]any); ok && key == "properties" {
				for name, field := range fields {
					described(t, at+"/"+name, field)
				}
			}
			if items, ok := inner.([]any); ok && key == "prefixItems" {
				for _, field := range items {
					described(t, at, field)
				}
			}
		}
	case []any:
		for _, inner := range v {
			describe(t, at, inner)
		}
	}
}

func described(t *testing.T, at string, field any) {
	t.Helper()
	f := field.(map[string]any)
	_, refers := f["$ref"]
	if text, _ := f["description"].(string); text == "" && !refers {
		t.Errorf("%s: the field %v has no description", at, f["title"])
	}
}

// asJSON is a MessagePack record's array as the schemas see it: bytes are base64.
func asJSON(t *testing.T, b []byte) any {
	t.Helper()
	dec := msgpack.NewDecoder(bytes.NewReader(b))
	if version, err := dec.DecodeUint64(); err != nil || version != formatVersion && version != stoppedVersion {
		t.Fatalf("version %d, %v", version, err)
	}
	v, err := dec.DecodeInterface()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(v) // bytes become base64 here
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// TestSchemasFit holds every sample of every record to its schema, and the schema to refuse a damaged one.
func TestSchemasFit(t *testing.T) {
	schemas := compileSchemas(t)
	fitted, whole := map[string]bool{}, map[string]bool{}
	for _, s := range samples(t) {
		record, _, _ := strings.Cut(s.name, "-")
		schema := schemas[record]
		if slices.Contains([]string{"closure", "snapshot", "unsettled", "cone", "rules", "live"}, record) {
			continue // answers to requests, in no topic
		}
		if schema == nil {
			t.Fatalf("no schema for %s", record)
		}
		fitted[record] = true
		var doc any
		if isMsgpack(s) {
			doc = asJSON(t, s.bytes)
			list := doc.([]any)
			if schema.MinItems == nil || schema.Validate(list[:*schema.MinItems-1]) == nil {
				t.Errorf("%s: the schema takes a record shorter than any that was ever written", s.name)
			}
			if schema.PrefixItems == nil || len(schema.PrefixItems) < len(list) {
				t.Errorf("%s: the schema has %d fields, the record %d", s.name, len(schema.PrefixItems), len(list))
			}
			whole[record] = whole[record] || len(schema.PrefixItems) == len(list)
		} else {
			whole[record] = true
			var err error
			if doc, err = jsonschema.UnmarshalJSON(bytes.NewReader(s.bytes)); err != nil {
				t.Fatal(err)
			}
		}
		if err := schema.Validate(doc); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
	}
	for record := range schemas {
		if !fitted[record] {
			t.Errorf("schema %s has no sample", record)
		} else if !whole[record] {
			t.Errorf("schema %s has no sample with all of its fields", record)
		}
	}
}

// TestDecisionMembers holds that decisions have no member that the schema does not describe.
func TestDecisionMembers(t *testing.T) {
	schema := compileSchemas(t)["decision"]
	known := func(doc map[string]any, s *jsonschema.Schema, at string) {
		for name := range doc {
			if s.Properties[name] == nil {
				t.Errorf("%s.%s is not in the schema", at, name)
			}
		}
	}
	for _, o := range append(sampleOutcomes(), sampleTold(), samplePhantom()) {
		b, err := encodeDecision(o)
		if err != nil {
			t.Fatal(err)
		}
		var doc map[string]any
		if err := json.Unmarshal(b, &doc); err != nil {
			t.Fatal(err)
		}
		known(doc, schema, "event")
		data := doc["data"].(map[string]any)
		known(data, schema.Properties["data"], "data")
		for _, list := range []string{"added", "ended", "may", "writes", "shards", "blocked_by"} {
			items, _ := data[list].([]any)
			for _, item := range items {
				known(item.(map[string]any), schema.Properties["data"].Properties[list].Items2020.Ref, list)
			}
		}
	}
	var invalid *jsonschema.ValidationError
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(`{"specversion":"1.0","id":"w/0","data":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(doc); !errors.As(err, &invalid) {
		t.Errorf("the schema takes half a decision: %v", err)
	}
}

// TestAsyncAPI holds that the document names every topic, kind, subject and schema, and that what it refers to exists.
func TestAsyncAPI(t *testing.T) {
	doc := string(AsyncAPI())
	names := []string{"asyncapi: 3.0.0", "address: " + DecisionSubjectPrefix + "{workspace}", DecisionSubjects,
		DecisionStream}
	for _, topic := range Topics(Options{Anomalies: true}) {
		names = append(names, "address: "+topic.Name)
	}
	for _, table := range tableTopics("b") {
		names = append(names, table.Name)
	}
	for _, o := range sampleOutcomes() {
		names = append(names, "name: "+DecisionType(o.Kind), "title: "+o.Kind.String())
	}
	for _, h := range DecisionHeaders(sampleOutcomes()[3], sampleTime, sampleTrace) {
		names = append(names, h.Key+": {")
	}
	names = append(names, HeaderParkedTopic, HeaderParkedPartition, HeaderParkedOffset, HeaderParkedReason)
	schemas, err := fs.Glob(Schemas(), "*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, schema := range schemas {
		names = append(names, "./schemas/"+schema)
	}
	for _, name := range names {
		if !strings.Contains(doc, name) {
			t.Errorf("asyncapi.yaml does not say %q", name)
		}
	}
	for _, piece := range strings.Split(doc, "$ref: '")[1:] {
		to, _, _ := strings.Cut(piece, "'")
		if file, ok := strings.CutPrefix(to, "./schemas/"); ok {
			if _, err := fs.Stat(Schemas(), file); err != nil {
				t.Errorf("asyncapi.yaml refers to %s: %v", to, err)
			}
		} else if !strings.Contains(doc, "\n"+strings.Repeat("  ", strings.Count(to, "/")-1)+path.Base(to)+":") {
			t.Errorf("asyncapi.yaml refers to %s, which is not there", to)
		}
	}
}

// TestDecisionReadable holds what a person sees: names, plain text content, and base64 only for what is no text.
func TestDecisionReadable(t *testing.T) {
	b, err := encodeDecision(sampleOutcomes()[4])
	if err != nil {
		t.Fatal(err)
	}
	binary := base64.StdEncoding.EncodeToString([]byte{0xff, 0, 1})
	for _, want := range []string{
		`"id":"default/47"`, `"source":"/workspaces/default"`, `"type":"dev.hence.decision.committed.v1"`,
		`"time":"2026-11-21T04:05:06.789Z"`, `"traceparent":"` + sampleTrace + `"`, `"kind":"committed"`, `"mode":"locked"`,
		`"added":[{"scope":"card:/4711","kind":"held","access":"write"}]`,
		`"content":"{\"status\":\"paid\",\"total\":12.5}"`,
		`"content_base64":"` + binary + `"`, `"would":"waiting"`, `"size_bytes":70000`,
	} {
		if !bytes.Contains(b, []byte(want)) {
			t.Errorf("the decision does not say %s:\n%s", want, b)
		}
	}
}

// TestDecisionAnyContent holds that no content makes a decision larger than twice itself, and that all of it comes
// back.
func TestDecisionAnyContent(t *testing.T) {
	for _, piece := range []string{"a", "\"", "\x00", "\n", "é", "\xff", "\u2028", "<", "\\"} {
		content := []byte(strings.Repeat(piece, 200_000/len(piece)))
		o := &sequencer.Outcome{Workspace: "w", Seq: 1, Kind: sequencer.OutcomeCommitted,
			Shards: []sequencer.ShardWrite{{Scope: "shard:/a", Content: content}}}
		b, err := encodeDecision(o)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) > 2*len(content)+1000 {
			t.Errorf("%d bytes of %q become %d", len(content), piece, len(b))
		}
		got, err := DecodeCloudEvent(b)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Shards[0].Content, content) {
			t.Errorf("content of %q came back otherwise", piece)
		}
	}
}
