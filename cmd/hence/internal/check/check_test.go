package check

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write what is printed into testdata")

// TestScripts checks each trace of testdata, and the one of the documents, and compares what is printed, and the page.
func TestScripts(t *testing.T) {
	traces, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(traces) == 0 {
		t.Fatalf("%d traces, %v", len(traces), err)
	}
	for _, path := range append(traces, filepath.Join("..", "..", "..", "..", "docs", "examples", "history.jsonl")) {
		name := strings.TrimSuffix(filepath.Base(path), ".jsonl")
		window := 0
		if strings.HasPrefix(name, "window") {
			window = 2
		}
		result, err := Open(t.Context(), path, nil, Options{Window: window})
		if err != nil {
			t.Error(err)
			continue
		}
		result.File = filepath.Base(path)
		var out bytes.Buffer
		if err := result.Write(&out); err != nil {
			t.Fatal(err)
		}
		out.WriteString("\n")
		if err := WritePage(&out, []*Result{result}); err != nil {
			t.Fatal(err)
		}
		text := regexp.MustCompile(`(?s)<style>.*</style>|memory: [^\n]*`).ReplaceAllString(out.String(), "")
		golden := filepath.Join("testdata", name+".txt")
		if *rewrite {
			if err := os.WriteFile(golden, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(golden)
		if err != nil || string(want) != text {
			t.Errorf("%s: %v\n%s\nwant\n%s", path, err, text, want)
		}
	}
}

func read(t *testing.T, text string, o Options) *Result {
	t.Helper()
	r, err := Read(t.Context(), "f", strings.NewReader(text), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// stale is a history of n overtaken reads of one cell.
func stale(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"agent":"r","read_set":["c"],"read_values":{"c":%d},"read_time":%d,`+
			`"write_set":[],"write_time":%d}`+"\n", 2*i, 3*i, 3*i+3)
		fmt.Fprintf(&b, `{"agent":"w","read_set":[],"read_time":%d,"write_set":["c"],`+
			`"write_values":{"c":%d},"write_time":%d}`+"\n", 3*i, 2*i+2, 3*i+1)
	}
	return b.String()
}

// TestLimit: counts are whole, however few findings are shown.
func TestLimit(t *testing.T) {
	r := read(t, stale(5), Options{Limit: 2})
	if len(r.Findings) != 3 || r.Kinds[0].Certain != 5 || r.Kinds[0].LeftOut != 3 || r.Certain != 5 {
		t.Errorf("%d findings, %+v", len(r.Findings), r.Kinds[0])
	}
	if r = read(t, stale(5), Options{}); len(r.Findings) != 6 || r.Kinds[0].LeftOut != 0 {
		t.Errorf("%d findings, %+v", len(r.Findings), r.Kinds[0])
	}
}

// TestWindow: a cut hides what spans it and says so; what lies within a window is found.
func TestWindow(t *testing.T) {
	whole, cut := read(t, stale(5), Options{}), read(t, stale(5), Options{Window: 2})
	if whole.Windows != 1 || whole.Spanning != 0 || cut.Windows != 5 || cut.Kinds[0].Certain != 5 || cut.Cells != 1 ||
		cut.Agents != 2 || cut.Operations != 10 {
		t.Errorf("whole %+v\ncut %+v", whole, cut)
	}
	cut = read(t, stale(5), Options{Window: 1}) // each reader in another window than its writer
	if cut.Kinds[0].Certain != 0 || cut.Spanning != 5 || cut.Windows != 10 {
		t.Errorf("cut between readers and writers: %+v", cut)
	}
	if whole.Possible != 1 || cut.Possible != 1 || len(cut.Undecided) == 0 {
		t.Errorf("residue: %d and %d, undecided %v: after a cut nothing says who wrote a value", whole.Possible,
			cut.Possible, cut.Undecided)
	}
}

// TestCutOpensLevel: what a cut can hide is not excluded; the same without it is.
func TestCutOpensLevel(t *testing.T) {
	op := func(name, more string) string {
		return `{"txn":"` + name + `","agent":"a","read_set":[],"write_set":[],"planned_tool":null,` + more + "}\n"
	}
	reader, writer, _ := strings.Cut(stale(1), "\n")
	for name, c := range map[string]struct {
		text        string
		window      int
		least, most string
	}{
		"a reader after the cut": {writer + reader, 1, "{A3}", "{A1,A2,A3,A6}"},
		"a writer after the cut": {reader + "\n" + writer, 1, "{A3}", "{A1,A2,A3,A6}"},
		"a predecessor before the cut": {op("p", `"read_time":0,"write_time":0,"aborted":true,"preds":[]`) +
			op("q", `"read_time":1,"write_time":2,"preds":["p"]`), 1, "{A1,A2,A6}", "{A1,A2,A3,A6}"},
		"a predecessor after the cut": {op("q", `"read_time":1,"write_time":2,"preds":["p"]`) +
			op("p", `"read_time":3,"write_time":0,"aborted":true,"preds":[]`), 1, "{A1,A2,A6}", "{A1,A2,A3,A6}"},
		"nothing spans the cut": {op("p", `"read_time":1,"write_time":2,"preds":[]`) +
			op("q", `"read_time":2,"write_time":3,"preds":[]`), 1, "{A1,A2,A3,A6}", "{A1,A2,A3,A6}"},
		"forgotten in a whole file": {op("q", `"read_time":1,"write_time":2,"preds":["p"]`), 0, "{A1,A2,A3,A6}",
			"{A1,A2,A3,A6}"},
	} {
		text := strings.ReplaceAll(c.text, `"agent":"r"`, `"agent":"r","preds":[],"planned_tool":null`)
		r := read(t, text, Options{Window: c.window})
		if r.Level.PointLeast != c.least || r.Level.PointMost != c.most || r.SerializableKnown() != (c.window == 0) {
			t.Errorf("%s: %+v, want %s to %s; undecided %+v", name, r.Level, c.least, c.most, r.Undecided)
		}
	}
}

// TestExcerpt: what a part of a history does not show is not excluded of the whole; what it shows stays.
func TestExcerpt(t *testing.T) {
	clean := `{"agent":"a","read_set":[],"read_time":0,"write_set":["c"],"write_time":1}`
	for _, text := range []string{stale(1), clean} {
		cut := strings.ReplaceAll(text, `"agent"`, `"excerpt":"tx-1","agent"`)
		whole, part := read(t, text, Options{}), read(t, cut, Options{})
		var out strings.Builder
		err := errors.Join(part.Write(&out), WritePage(&out, []*Result{part}))
		if err != nil || strings.Count(out.String(), "n excerpt: it has tx-1 and what met it") != 2 {
			t.Errorf("%v: it does not say what it is: %s", err, out.String())
		}
		if part.Excerpt != "tx-1" || part.Certain != whole.Certain || part.Level.PointLeast != "{}" ||
			part.Level.PointMost != whole.Level.PointMost || part.SerializableKnown() || len(part.Unknown) > 0 {
			t.Errorf("the part %+v\nof %+v", part, whole)
		}
	}
}

// TestSerializableKnown: no cycle is a verdict only where every dependency is known.
func TestSerializableKnown(t *testing.T) {
	const blank = `{"agent":"w","read_set":[],"read_time":0,"write_set":["c"],"write_time":1}` + "\n" +
		`{"agent":"r","read_set":["c"],"read_time":1,"write_set":[],"write_time":2}` + "\n"
	for text, want := range map[string]bool{stale(1): true, blank: false} {
		r := read(t, text, Options{})
		said, err := json.Marshal(r)
		if err != nil || !strings.Contains(string(said), fmt.Sprintf(`"serializable_known":%t`, want)) || !r.Serializable {
			t.Errorf("%v: %s, want known %t", err, said, want)
		}
		if !want && !strings.Contains(r.serial(), "no cycle among what is known; 1 read undecided") {
			t.Errorf("it says %q", r.serial())
		}
	}
}

// TestRoles: the flag wins over what the records say; without a role nothing is estimated.
func TestRoles(t *testing.T) {
	said := strings.Replace(stale(1), `"agent":"r"`, `"agent":"r","role":"consumer","other":1`, 1)
	for _, c := range []struct {
		text string
		role map[string]string
		want string
	}{{stale(1), nil, ""}, {stale(1), map[string]string{"r": "producer"}, "producer"}, {said, nil, "consumer"},
		{said, map[string]string{"r": "assessor"}, "assessor"}, {stale(1), map[string]string{"w": "producer"}, ""}} {
		r := read(t, c.text, Options{Roles: c.role})
		got := ""
		if m := r.Findings[0].Materiality; m != nil {
			got = m.Role
		}
		if got != c.want || !r.Findings[0].Certain {
			t.Errorf("with %v: %q, want %q", c.role, got, c.want)
		}
	}
	if r := read(t, said, Options{}); r.Unknown["other"] != 1 || r.Unknown["role"] != 0 {
		t.Errorf("fields that no detector knows: %v", r.Unknown)
	}
}

func TestJSON(t *testing.T) {
	text, err := json.Marshal(read(t, stale(1), Options{}))
	for _, want := range []string{`"level":{"least":0,"most":0,"point_least":"{}","point_most":"{A2,A3,A6}"}`,
		`"serializable":true`, `"kind":"A1","certain":true,"records":[{"line":1,"agent":"r","read_time":0,"write_time":3}`} {
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%v: no %s in\n%s", err, want, text)
		}
	}
}

func TestReadErrors(t *testing.T) {
	record := `{"txn":1,"agent":"a","read_set":[],"read_time":0,"write_set":[],"write_time":0}` + "\n"
	for text, want := range map[string]string{
		"":              "f: it has no records",
		"x":             "f: line 1: a record is a JSON object",
		"{}":            "f: line 1: the record has no agent",
		record + record: "f: line 2: two operations are called 1",
	} {
		if _, err := Read(t.Context(), "f", strings.NewReader(text), Options{}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%.20s: %v, want %s", text, err, want)
		}
	}
	if _, err := Open(t.Context(), "nowhere", nil, Options{}); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("no file: %v", err)
	}
	if r, err := Open(t.Context(), "-", strings.NewReader(stale(1)), Options{}); err != nil || r.Operations != 2 {
		t.Errorf("the standard input: %v", err)
	}
}

// Who is interrupted reads no further.
func TestInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	if _, err := Read(ctx, "trace", strings.NewReader(stale(5)), Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("an interrupted check ends with %v", err)
	}
}
