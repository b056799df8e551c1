package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Answers of a sidecar, each a status and a body.
const (
	saysOpen      = `200 {"tx":"a.1.1","state":"open"}`
	saysSealed    = `200 {"tx":"a.1.1","state":"sealed"}`
	saysCommitted = `200 {"tx":"a.1.1","state":"committed","seq":7}`
	saysWaiting   = `409 {"code":"touch_waiting","status":409,"retryable":true}`
	saysNoToken   = `401 {"code":"unauthorized","status":401}`
	saysLost      = `410 {"code":"session_lost","status":410,"retryable":true}`
	saysStale     = `409 {"code":"stale_read","status":409,"decision":{"state":"aborted","code":"stale_read"}}`
)

// attempted makes one attempt against a sidecar that answers each question in turn, the last answer again and again.
// The agent is told to end when it asks for end.
func attempted(t *testing.T, answers map[string][]string, end string) (trail, state string, err error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		what := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
		if r.Method == http.MethodGet && what == "a.1.1" {
			what = "status"
		}
		said := map[string]string{"tx": saysOpen, "effects": `200 {"state":"held"}`, "seal": saysCommitted}[what]
		mu.Lock()
		asked = append(asked, what)
		if list := answers[what]; len(list) > 0 {
			said, answers[what] = list[0], list[min(1, len(list)-1):]
		}
		mu.Unlock()
		if what == end {
			cancel()
		}
		code, body, _ := strings.Cut(said, " ")
		status, err := strconv.Atoi(code)
		if err != nil {
			status, body = 200, "{}"
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	defer server.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("a-token"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HENCE_TOKEN_FILE", token)
	t.Setenv("HENCE_URL", server.URL)
	a := &agent{name: "a"}
	if err := a.connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer a.hence.Close()
	decision, _, err := a.attempt(ctx, a.hence.Tx("a.1.1"), order{id: "1", shelf: "1", item: catalogue()[0]})
	mu.Lock()
	defer mu.Unlock()
	return strings.Join(asked, " "), decision.State, err
}

// The agent asks how a sealed transaction ended until it is known, and leaves none open.
func TestAttempt(t *testing.T) {
	const acts = "reads writes writes effects effects effects"
	for _, test := range []struct {
		name    string
		answers map[string][]string
		end     string
		trail   string
		state   string
		failed  string
	}{
		{name: "committed", trail: acts + " seal", state: "committed"},
		{name: "refused", answers: map[string][]string{"seal": {saysStale}}, trail: acts + " seal", state: "aborted"},
		{name: "an error after the seal", answers: map[string][]string{"seal": {saysNoToken},
			"status": {saysNoToken, saysSealed, saysCommitted}}, trail: acts + " seal status status status",
			state: "committed"},
		{name: "lost and committed", answers: map[string][]string{"seal": {saysLost}, "status": {saysLost},
			"closure": {`200 {"rows":[{"status":"settled","seq":7}]}`}}, trail: acts + " seal status closure",
			state: "committed"},
		{name: "the seal is not taken", answers: map[string][]string{"seal": {saysWaiting}, "status": {saysOpen}},
			trail: acts + " seal status abort", state: "open", failed: "not accepted"},
		{name: "a call that waits", answers: map[string][]string{"effects": {saysWaiting}},
			trail: "reads writes writes effects abort", failed: "touch_waiting"},
		{name: "a call that failed", answers: map[string][]string{"effects": {`200 {"state":"failed"}`}},
			trail: "reads writes writes effects abort", failed: "label.write"},
		{name: "told to end", end: "effects", trail: "reads writes writes effects abort", failed: "canceled"},
		{name: "told to end when it is sealed", end: "seal", answers: map[string][]string{"seal": {saysSealed}},
			trail: acts + " seal", failed: "canceled"},
	} {
		t.Run(test.name, func(t *testing.T) {
			trail, state, err := attempted(t, test.answers, test.end)
			if trail != test.trail || err == nil && test.failed == "" && state != test.state ||
				(err != nil) != (test.failed != "") || err != nil && !strings.Contains(err.Error(), test.failed) {
				t.Errorf("%s, %v; it asked %s\n  wanted %s", state, err, trail, test.trail)
			}
		})
	}
}
