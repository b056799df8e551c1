package trace_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hence-dev/hence/topology/trace"
)

func readAll(text string) (all []trace.Record, err error) {
	reader := trace.NewReader(strings.NewReader(text))
	for {
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, record)
	}
}

func readOne(t *testing.T, text string) trace.Record {
	t.Helper()
	all, err := readAll(text)
	if err != nil || len(all) != 1 {
		t.Fatalf("%s: %d records, %v", text, len(all), err)
	}
	return all[0]
}

func written(t *testing.T, records ...trace.Record) string {
	t.Helper()
	var out bytes.Buffer
	w := trace.NewWriter(&out)
	for _, record := range records {
		if err := w.Write(record); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

const (
	opRecord = `{"agent":"a1","read_set":["c"],"read_values":{"c":null},"read_time":0,"write_set":["c"],` +
		`"write_values":{"c":"v1"},"write_time":1,"planned_tool":null,"tools_used":[],"tools_visible_at_read":["t"],` +
		`"io":[["c","v1"]],"co":[["c","v1"]]}`
	provRecord = `{"txn":7,"agent":"a1","read_set":["c"],"read_values":{"c":1},"read_time":3,"write_set":[],` +
		`"write_values":{},"write_time":4,"preds":[3,"x"],"aborted":false}`
)

// TestPublishedForms: both published forms, and what only Hence has, come back byte for byte, so that an absent field
// stays absent and an empty one empty.
func TestPublishedForms(t *testing.T) {
	ours := `{"agent":"a","read_set":["c"],"read_time":0,"read_times":{"c":1},"write_set":[],` +
		`"write_time":1,"tools_visible_at_write":[],` +
		`"tool_signatures_at_read":{"t":"s"},"tool_signatures_at_write":{},"replica":{"c":"r"},"version":{"c":3},` +
		`"role":"assessor","x":{"b":1}}`
	for _, line := range []string{opRecord, provRecord, ours} {
		record := readOne(t, line+"\n")
		if got := written(t, record); got != line+"\n" {
			t.Errorf("read and written again:\n%s%s", got, line)
		}
		if again := readOne(t, written(t, record)); !reflect.DeepEqual(again, record) {
			t.Errorf("read, written and read:\n%+v\n%+v", again, record)
		}
	}
}

// TestAbsentIsNotEmpty: each optional field says whether the line had it.
func TestAbsentIsNotEmpty(t *testing.T) {
	absent := readOne(t, `{"agent":"a","read_set":[],"read_time":0,"write_set":[],"write_time":0}`)
	empty := readOne(t, `{"agent":"a","read_set":[],"read_values":{},"read_time":0,"read_times":{},"write_set":[],`+
		`"write_values":{},`+
		`"write_time":0,"planned_tool":null,"tools_used":[],"tools_visible_at_read":[],"tools_visible_at_write":[],`+
		`"tool_signatures_at_read":{},"tool_signatures_at_write":{},"io":[],"co":[],"preds":[],"aborted":false,`+
		`"replica":{},"version":{},"txn":"t","excerpt":"t","other":1}`)
	from, to := reflect.ValueOf(absent), reflect.ValueOf(empty)
	for i := range from.NumField() {
		name := from.Type().Field(i).Name
		switch name {
		case "Agent", "ReadSet", "ReadTime", "WriteSet", "WriteTime": // never absent
		default:
			if !from.Field(i).IsZero() || to.Field(i).IsZero() {
				t.Errorf("%s: %v where the field is absent, %v where it is empty", name, from.Field(i), to.Field(i))
			}
		}
	}
	aborted := readOne(t, strings.Replace(provRecord, "false", "true", 1))
	if !empty.TookEffect() || !absent.TookEffect() || aborted.TookEffect() {
		t.Error("an operation takes effect unless its record says aborted")
	}
	if got := written(t, trace.Record{Agent: "a"}); !strings.Contains(got, `"read_set":[]`) {
		t.Errorf("a record without reads is written without read_set: %s", got)
	}
}

func TestPerCellScalar(t *testing.T) {
	r := readOne(t, `{"replica":"r1","version":2,"agent":"a","read_set":["x","y"],"read_time":0,"write_set":[],`+
		`"write_time":0}`)
	if len(r.Replica) != 2 || r.Replica["y"] != "r1" || len(r.Version) != 2 || r.Version["x"] != "2" {
		t.Errorf("one replica and version for all cells: %v %v", r.Replica, r.Version)
	}
}

func TestValues(t *testing.T) {
	for _, c := range []struct{ a, b string }{
		{`null`, `"NULL"`}, {`1`, `1.0`}, {`1`, `1e0`}, {`1`, `0.01E2`}, {`-0`, `0`}, {`0.0`, `0`}, {`100`, `1e2`},
		{`"a/b"`, `"a\/b"`}, {`"é"`, `"\u00e9"`}, {`{"a":1,"b":[2]}`, ` { "b" : [ 2.0 ] , "a" : 1 } `},
		{`"\u003c"`, `"<"`}, {`-1.50`, `-15e-1`},
	} {
		a, errA := trace.Of([]byte(c.a))
		b, errB := trace.Of([]byte(c.b))
		if a != b || errA != nil || errB != nil {
			t.Errorf("%s is %s (%v), %s is %s (%v)", c.a, a, errA, c.b, b, errB)
		}
		if !json.Valid([]byte(a)) {
			t.Errorf("%s is spelled %s, which is not JSON", c.a, a)
		}
	}
	seen := map[trace.Value]string{}
	for _, text := range []string{`null`, `""`, `"null"`, `0`, `"0"`, `false`, `{}`, `[]`, `[null]`, `9007199254740993`,
		`9007199254740992`, `1e400`, `1e401`, `-1`, `1`, `10`, `0.1`, `"a"`, `"A"`, `{"a":null}`} {
		value, err := trace.Of([]byte(text))
		if other, has := seen[value]; has || err != nil {
			t.Errorf("%s and %s are both %s (%v)", text, other, value, err)
		}
		seen[value] = text
	}
	if trace.Text("NULL") != trace.Null || trace.Text("a<b") != `"a<b"` {
		t.Error("Text makes another value than reading does")
	}
	if _, err := trace.Of([]byte("{")); err == nil {
		t.Error("Of takes what is not JSON")
	}
}

// TestErrors: each error names the line, and says what is wrong in it.
func TestErrors(t *testing.T) {
	good := `{"agent":"a","read_set":[],"read_time":0,"write_set":[],"write_time":0}`
	with := func(old, replacement string) string { return strings.Replace(good, old, replacement, 1) }
	for _, c := range []struct{ line, want string }{
		{`{"agent":`, "line 3: not JSON"},
		{`{"agent":`, "cut off"},
		{good + good, "line 3: not JSON"},
		{`[` + good + `]`, "jq -c"},
		{`"a"`, `line 3: a record is a JSON object, not "a"`},
		{`{}`, "line 3: the record has no agent, no read_set, no read_time, no write_set, no write_time"},
		{with(`"write_set":[]`, `"write_set":null`), "the record has no write_set"},
		{with(`"agent":"a"`, `"agent":""`), "line 3: agent is empty"},
		{with(`"agent":"a"`, `"agent":7`), "line 3: agent is a text, not 7"},
		{with(`"read_set":[]`, `"read_set":"c"`), `line 3: read_set is a list of texts, not "c"`},
		{with(`"read_time":0`, `"read_time":-1`), "line 3: read_time is a whole number ≥ 0, not -1"},
		{with(`"read_time":0`, `"read_time":0.5`), "line 3: read_time is a whole number ≥ 0, not 0.5"},
		{with(`{`, `{"io":[["c"]],`), `line 3: io: an effect is [cell, value], not ["c"]`},
		{with(`{`, `{"io":7,`), "line 3: io is a list of [cell, value], not 7"},
		{with(`{`, `{"co":[[1,2]],`), "the cell of an effect is a text, not 1"},
		{with(`{`, `{"planned_tool":1,`), "planned_tool is a text or null, not 1"},
		{with(`{`, `{"preds":[1.5],`), "the name of an operation is a text or a whole number, not 1.5"},
		{with(`{`, `{"aborted":"no",`), `aborted is true or false, not "no"`},
		{with(`{`, `{"read_values":[],`), "read_values is an object of values by cell, not []"},
		{with(`{`, `{"replica":[],`), "it is one text, or an object by cell, not []"},
		{`{"agent":"` + strings.Repeat("a", trace.MaxLineBytes) + `"}`, "line 3: it has 16777229 bytes"},
	} {
		reader := trace.NewReader(strings.NewReader("\ufeff" + good + "\r\n\n" + c.line + "\n" + good))
		first, err := reader.Read()
		if err != nil || first.Agent != "a" {
			t.Fatalf("the line before: %v", err)
		}
		if _, err = reader.Read(); err == nil || !strings.Contains(err.Error(), c.want) || reader.Line() != 3 {
			t.Errorf("%.60s gives %v, want %s", c.line, err, c.want)
		}
		if _, err = reader.Read(); err != nil {
			t.Errorf("the line after %.60s: %v", c.line, err)
		}
		if _, err = reader.Read(); !errors.Is(err, io.EOF) {
			t.Errorf("after the last line: %v", err)
		}
	}
	reader := trace.NewReader(io.MultiReader(strings.NewReader(good+"\n"), failing{}))
	if _, err := reader.Read(); err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Read(); !errors.Is(err, errFails) || !strings.Contains(err.Error(), "after line 1") {
		t.Errorf("a file that cannot be read further gives %v", err)
	}
}

var errFails = errors.New("it fails")

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errFails }

func TestWriterRefuses(t *testing.T) {
	for _, c := range []struct {
		record trace.Record
		want   string
	}{
		{trace.Record{}, "record 1: it has no agent"},
		{trace.Record{Agent: "a", ReadValues: map[string]trace.Value{"c": ""}}, "a value without content"},
		{trace.Record{Agent: "a", Extra: map[string]json.RawMessage{"preds": []byte("[]")}}, "the extra field preds"},
		{trace.Record{Agent: "a", Extra: map[string]json.RawMessage{"x": []byte("[")}}, "the extra field x is not JSON"},
	} {
		var out bytes.Buffer
		w := trace.NewWriter(&out)
		err := w.Write(c.record)
		if flushed := w.Flush(); err == nil || !strings.Contains(err.Error(), c.want) || flushed != nil || out.Len() > 0 {
			t.Errorf("%v, %v and %d bytes; want %s", err, flushed, out.Len(), c.want)
		}
	}
}

// TestLongLine: a line longer than the buffer is read whole.
func TestLongLine(t *testing.T) {
	cell := strings.Repeat("c", 1<<20)
	r := readOne(t, written(t, trace.Record{Agent: "a", ReadSet: []string{cell}, ReadTime: 4}))
	if r.ReadSet[0] != cell || r.ReadTime != 4 {
		t.Errorf("a long line is read as %d bytes", len(r.ReadSet[0]))
	}
}

// TestSpellings: a record is the same whatever spaces, escapes and orders its line has.
func TestSpellings(t *testing.T) {
	plain := `{"agent":"é","read_set":["a","b"],"read_values":{"a":[1,{"x":"}"}],"b":-2.5},"read_time":1,` +
		`"write_set":["c\u0022]"],"write_values":{"c\"]":"\\"},"write_time":2,"io":[["c\"]","\\"],["d",{}]],` +
		`"co":[],"x":[1, "]"]}`
	strange := ` { "x" : [1, "]"] , "co" : [ ] , "io" : [ [ "c\u0022]" , "\u005c" ] , [ "\u0064" , { } ] ] ,` +
		` "\u0061gent" : "\u00e9" , "write_time" : 9 , "write_time" : 2 , "write_values" : { "c\u0022]" : "\\" } , ` +
		`"write_set" : [ "c\"]" ] , "read_time" : 1 , "read_values" : { "b" : -25e-1 , "a" : [ 1.0 , { "x" : "}" } ] } , ` +
		`"read_set" : [ "a" , "\u0062" ] } `
	one, other := readOne(t, plain), readOne(t, strange)
	if !reflect.DeepEqual(one, other) || one.WriteSet[0] != `c"]` || one.IO[1].Value != "{}" || one.WriteTime != 2 {
		t.Errorf("%+v\n%+v", one, other)
	}
}

// What is no text is not shown as it is.
func TestBinary(t *testing.T) {
	for text, want := range map[string]string{"\x1f\x8b\x08": "zcat", "\xfe\x00\xff": `\xfe\x00\xff`} {
		_, err := trace.NewReader(strings.NewReader(text)).Read()
		if err == nil || !strings.Contains(err.Error(), want) || !utf8.ValidString(err.Error()) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
