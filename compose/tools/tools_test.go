package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// post sends a body under a key and returns status and answer.
func post(t *testing.T, h http.Handler, path, key, compensates, token, body string) (int, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
	compensates, only, _ := strings.Cut(compensates, " ")
	for name, value := range map[string]string{"Idempotency-Key": key, "Hence-Compensates": compensates,
		"Hence-Forbid-Only": only,
		"Authorization":     token} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func reopened[T any](t *testing.T, dir, name string, bound int) *journal[T] {
	t.Helper()
	j, err := openJournal[T](dir, name, bound)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(j.close)
	return j
}

// TestLedgerKeys does each key once, also over a restart.
func TestLedgerKeys(t *testing.T) {
	dir := t.TempDir()
	for i, c := range []struct {
		key, compensates, token, body string
		want                          int
	}{
		{"a", "", "", `{"cents":1}`, 401},
		{"a", "", "Bearer no", `{"cents":1}`, 401},
		{"", "", "Bearer yes", `{"cents":1}`, 400},
		{"a", "", "Bearer yes", `{"cents"`, 400},
		{"a", "", "Bearer yes", `{"cents":1}`, 201},
		{"a", "", "Bearer yes", `{ "cents": 1 }`, 200},
		{"a", "", "Bearer yes", `{"cents":2}`, 422},
		{"a-undo", "a", "Bearer yes", `{"cents":1}`, 201},
		{"a", "", "Bearer yes", `{"cents":1}`, 410},
		{"b-undo", "b only", "Bearer yes", `{}`, 201}, // b never came
		{"b", "", "Bearer yes", `{}`, 410},            // and may not come late
	} {
		l := newLedger(reopened[charge](t, dir, "ledger", 100), "yes") // each on what the former one kept
		if got, answer := post(t, l, "/charges/1", c.key, c.compensates, c.token, c.body); got != c.want {
			t.Errorf("request %d (%+v): %d %s, want %d", i, c, got, answer, c.want)
		}
	}
	kept := reopened[charge](t, dir, "ledger", 100).records
	if len(kept) != 3 {
		t.Fatalf("%d charges are kept, want 3", len(kept))
	}
	if kept[1].Nothing || !kept[2].Nothing {
		t.Errorf("a was refunded, and b had nothing to refund: %+v", kept[1:])
	}
}

// TestFilesPutBack writes, overwrites and puts back.
func TestFilesPutBack(t *testing.T) {
	dir := t.TempDir()
	f := newFiles(reopened[change](t, dir, "files", 100))
	for i, c := range []struct {
		key, body string
		status    int
		former    string
	}{
		{"1", `{"text":"old"}`, 201, "null"},
		{"2", `{"text":"new"}`, 201, `"old"`},
		{"2", `{"text":"new"}`, 200, `"old"`},
		{"2", `{"text":"else"}`, 422, ""},
		{"3", `{"text":"old"}`, 201, `"new"`},
		{"4", `{"text":null}`, 201, `"old"`},
		{"5", `{"text":7}`, 400, ""},
	} {
		got, answer := post(t, f, "/files/a", c.key, "", "", c.body)
		var kept struct{ Former json.RawMessage }
		_ = json.Unmarshal([]byte(answer), &kept)
		if got != c.status || c.former != "" && string(kept.Former) != c.former {
			t.Errorf("change %d (%+v): %d %s", i, c, got, answer)
		}
		if i == 2 {
			f = newFiles(reopened[change](t, dir, "files", 100))
		}
	}
}

// TestJournalBound forgets the oldest records, drops a torn line, and says when it cannot write.
func TestJournalBound(t *testing.T) {
	dir := t.TempDir()
	j := reopened[int](t, dir, "n", 2)
	forgot := 0
	for i := range 9 {
		dropped, err := j.add(i)
		if err != nil {
			t.Fatal(err)
		}
		if dropped {
			forgot++
		}
	}
	if forgot == 0 || len(j.records) > 4 || j.records[len(j.records)-1] != 8 {
		t.Errorf("of 9 records with a bound of 2 it keeps %v, having forgotten %d times", j.records, forgot)
	}
	path := filepath.Join(dir, "n.jsonl")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, `{"torn`...), 0o600); err != nil {
		t.Fatal(err)
	}
	if again := reopened[int](t, dir, "n", 2); again.records[len(again.records)-1] != 8 {
		t.Errorf("after a torn line it keeps %v", again.records)
	}
	if _, err := openJournal[int](filepath.Join(dir, "missing"), "n", 2); err == nil ||
		!strings.Contains(err.Error(), "writable") {
		t.Errorf("a folder that is not there: %v", err)
	}
}

// TestShelf orders each key once.
func TestShelf(t *testing.T) {
	server := httptest.NewServer(newShelf())
	defer server.Close()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil).Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: server.URL, DisableStandaloneSSE: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	for _, c := range []struct {
		tool, key string
		count     int
		want      string
	}{{"look", "", 0, "10 mugs"}, {"order", "a", 5, "ordered 5 mugs"}, {"order", "a", 5, "ordered 5 mugs"},
		{"order", "b", 0, "count is 0: order 1 to 1000"}, {"look", "", 0, "15 mugs"}} {
		out, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: c.tool, Meta: mcp.Meta{"hence/key": c.key},
			Arguments: map[string]any{"item": "mugs", "count": c.count}})
		if err != nil {
			t.Fatal(err)
		}
		if text := out.Content[0].(*mcp.TextContent).Text; text != c.want {
			t.Errorf("%s %q: %q, want %q", c.tool, c.key, text, c.want)
		}
	}
}
