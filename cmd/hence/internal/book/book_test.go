package book

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const sample = `{"kind":"torture","at":"2026-11-02T10:00:00Z","commit":"aaa","machine":"m","seconds":100,` +
	`"brokers":3,"crashes":["kill NATS"],` +
	`"faults":{"kill NATS":{"landed":2,"void":1,"recovery_ms":[900,100]},"cut":{"landed":1,"recovery_ms":[6000]}},` +
	`"left_out":{"disk":"no namespace"},"points":{"join.after":2},"attempts":12,"committed":700000,` +
	`"unknown":3,"resolved":2,"lost":0}
{"kind":"torture","at":"2026-11-01T10:00:00Z","commit":"bbb","machine":"m","seconds":50,` +
	`"brokers":1,"crashes":["kill NATS"],` +
	`"faults":{"kill NATS":{"landed":98,"recovery_ms":[200]}},"committed":400000,"violations":1}
{"kind":"figure","at":"2026-11-03T10:00:00Z","commit":"ccc","seconds":60,` +
	`"name":"mutants","n":95,"of":100,"command":"make mutants"}
{"kind":"figure","at":"2026-11-04T10:00:00Z","commit":"ddd","seconds":5,` +
	`"name":"mutants","n":104,"of":105,"command":"make mutants"}
{"kind":"figure","at":"2026-11-03T10:00:00Z","commit":"ccc","seconds":3,"name":"kills","n":7,"command":"make kills"}
{"kind":"figure","at":"2026-11-04T10:00:00Z","commit":"ddd","seconds":4,"name":"kills","n":5,"command":"make kills"}
`

// read is the document of a book with one file.
func read(t *testing.T, text string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.jsonl"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := Read(dir)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	err = b.WriteMarkdown(&out)
	return out.String(), err
}

// says holds that a document has some texts.
func says(t *testing.T, document string, texts ...string) {
	t.Helper()
	for _, want := range texts {
		if !strings.Contains(document, want) {
			t.Errorf("the document has no %q", want)
		}
	}
	if t.Failed() {
		t.Log(document)
	}
}

// The document adds slices and figures up, in the order of their times, and says of each goal whether it is reached.
// The part of a whole is that of the last run.
func TestDocument(t *testing.T) {
	text, err := read(t, sample)
	if err != nil {
		t.Fatal(err)
	}
	says(t, text,
		"Slices: 2, of 2m30s in all (1 of them with three brokers, 0 beside another one on the same machine), "+
			"from 2026-11-01 to 2026-11-02; commit aaa, bbb; m.",
		"| acknowledged commits lost | 0 of 1,100,000 | 0 of 1,000,000: met |",
		"| kinds of fault that landed | 2, of which 1 have landed 100 times and more; 101 in all | 20 kinds, 100 each: not",
		"| kills of each part | 100 and more | 100: met |",
		"| recovery after a kill, p50 / p99 / most | 200ms / 900ms / 900ms | 1s / 5s / 20s: met |",
		"| recovery after any fault, p50 / p99 / most | 200ms / 6s / 6s | 1s / 5s / 20s: not reached |",
		"| of them unknown to their agents | 3; of these the log has decided 2",
		"| violations | 1 | 0 |",
		"| failpoints at which sidecars died | 1, 2 times in all |",
		"| kill NATS | 100 | 1 | 200ms | 900ms | 900ms |",
		"| disk | could not be injected here: no namespace |",
		"| mutants | 104 of 105 | 2 | 1m5s | 2026-11-04, commit ddd | `make mutants` |",
		"| kills | 12 | 2 | 7s | 2026-11-04, commit ddd | `make kills` |",
	)
}

// What slices recovered in beside each other on one machine is told apart.
func TestDocumentBeside(t *testing.T) {
	slice := func(at, machine, ms string) string {
		return `{"kind":"torture","at":"2026-11-01T` + at + `Z","commit":"aaa","machine":"` + machine +
			`","seconds":100,"brokers":1,"crashes":["kill NATS"],"faults":{"kill NATS":{"landed":1,"recovery_ms":[` + ms +
			`]}}}` + "\n"
	}
	text, err := read(t, slice("10:00:00", "m", "100")+slice("10:01:40", "m", "7000")+slice("10:03:19", "m", "8000")+
		slice("10:00:30", "other", "200"))
	if err != nil {
		t.Fatal(err)
	}
	says(t, text,
		"2 beside another one on the same machine",
		"| recovery after a kill, p50 / p99 / most | 100ms / 200ms / 200ms |",
		"| the same of slices beside another one | 7s / 8s / 8s |",
		"| kill NATS | 4 | 0 | 200ms | 8s | 8s |",
	)
}

// A book that this version cannot read whole is refused: a figure left out would look like a goal that is not reached.
func TestBookRefused(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"{", "a.jsonl, line 1: "},
		{sample + `{"kind":"other","at":"2026-11-03T10:00:00Z"}`, `line 7: kind "other"`},
		{`{"kind":"torture"}`, "line 1: kind"},
	} {
		if _, err := read(t, c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.30s: %v, want %q", c.text, err, c.want)
		}
	}
	if _, err := Read(t.TempDir()); err == nil || !strings.Contains(err.Error(), "HENCE_TRUST_BOOK") {
		t.Errorf("an empty folder: %v", err)
	}
}
