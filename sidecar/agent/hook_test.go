package agent

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

// sealHooked seals a transaction with a read, a held call and a write under a hook.
func sealHooked(t *testing.T, hook Hook, size int) client.Decision {
	t.Helper()
	log, world := newLog(), newSink()
	a := start(t, "a", log.Door(), withTools(world), func(c *setup) { c.Hook = hook })
	ctx := background(t)
	tx := open(ctx, t, a, client.BeginOptions{})
	must(tx.Read(ctx, "shard:/x"))(t)
	must(tx.Effect(ctx, "mail", at{At: "b", Key: "k"}, client.EffectOptions{}))(t)
	if err := tx.Write(ctx, "shard:/y", []byte(strings.Repeat("y", size)), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	d := must(tx.Seal(ctx))(t)
	a.final(ctx, t, tx.ID())
	if sent := len(world.world()); sent > 0 != (d.State == api.StateCommitted) {
		t.Errorf("%s, and %d calls were made", d.State, sent)
	}
	return d
}

// The hook's URL sees the whole footprint; only a plain no is a veto, all else is no verdict.
func TestHookURL(t *testing.T) {
	var seen hooked
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"yes":true}`)
	}))
	defer elsewhere.Close()
	release := make(chan struct{})
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter)
		reason string // of the veto; empty: it commits
	}{
		"yes": {func(w http.ResponseWriter) { _, _ = io.WriteString(w, `{"yes":true}`) }, ""},
		"no": {func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, `{"yes":false,"reason":"too dear"}`)
		}, "too dear"},
		"status": {func(w http.ResponseWriter) { w.WriteHeader(500) }, "status 500"},
		"redirect": {func(w http.ResponseWriter) {
			w.Header().Set("Location", elsewhere.URL)
			w.WriteHeader(307)
		}, "status 307"},
		"no JSON": {func(w http.ResponseWriter) { _, _ = io.WriteString(w, `yes`) }, "its answer is not"},
		"no yes":  {func(w http.ResponseWriter) { _, _ = io.WriteString(w, `{}`) }, "its answer is not"},
		"too large": {func(w http.ResponseWriter) { _, _ = w.Write(make([]byte, maxHookAnswer+1)) },
			"more than 16384 bytes"},
		"silent": {func(http.ResponseWriter) { <-release }, "no answer within"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if err := json.NewDecoder(r.Body).Decode(&seen); err != nil {
					t.Error(err)
				}
				c.answer(w)
			}))
			hook := Hook{URL: server.URL, Timeout: 10 * time.Second}
			if name == "silent" {
				hook.Timeout = 50 * time.Millisecond
			}
			d := sealHooked(t, hook, 10)
			if name == "silent" {
				close(release)
			}
			server.Close()
			checkVerdict(t, d, c.reason, name == "no")
		})
	}
	if len(seen.Reads) != 1 || len(seen.Effects) != 1 || string(seen.Effects[0].Args) == "" || len(seen.Writes) != 1 ||
		seen.Writes[0].Content == nil || len(seen.Writes[0].SHA256) != 64 || len(seen.Footprint) != 64 {
		t.Errorf("the hook saw %+v", seen)
	}
}

func checkVerdict(t *testing.T, d client.Decision, reason string, no bool) {
	t.Helper()
	code := sequencer.CodeHookUnavailable
	if no {
		code = sequencer.CodeVetoed
	}
	switch {
	case reason == "" && d.State != api.StateCommitted:
		t.Errorf("decided: %+v", d)
	case reason != "" && (d.Code != string(code) || d.Retryable == no || !strings.Contains(d.Detail, reason)):
		t.Errorf("decided: %+v, want %s: %s", d, code, reason)
	}
}

// A command is asked on its standard input. No shell reads its arguments, it has none of the sidecar's secrets, and it
// is killed with its children at the bound.
func TestHookCommand(t *testing.T) {
	t.Setenv("HENCE_TOKEN", "secret")
	dir := t.TempDir()
	program := func(text string) []string {
		path := filepath.Join(dir, "hook")
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		return []string{path, "$(touch " + filepath.Join(dir, "made") + ")"}
	}
	for name, c := range map[string]struct{ script, reason string }{
		"yes":       {`cat >/dev/null; echo '{"yes":true}'`, ""},
		"no":        {`echo '{"yes":false,"reason":"'"token: $HENCE_TOKEN"'"}'`, "token: "},
		"status":    {`exit 3`, "status 3"},
		"nothing":   {`true`, "its answer is not"},
		"too large": {`head -c 20000 /dev/zero`, "more than 16384 bytes"},
		"slow":      {`sleep 60 & wait`, "no answer within"},
	} {
		t.Run(name, func(t *testing.T) {
			hook := Hook{Command: program(c.script), Timeout: 10 * time.Second}
			if name == "slow" {
				hook.Timeout = 100 * time.Millisecond
			}
			begun := time.Now()
			d := sealHooked(t, hook, 6<<10) // by reference
			checkVerdict(t, d, c.reason, name == "no")
			if strings.Contains(d.Detail, "secret") {
				t.Error("the command was given the token")
			}
			if took := time.Since(begun); took > 15*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(dir, "made")); err == nil {
		t.Error("a shell has read the arguments")
	}
	checkVerdict(t, sealHooked(t, Hook{Command: []string{filepath.Join(dir, "none")}}, 1), "it cannot be run", false)
	checkVerdict(t, sealHooked(t, Hook{URL: "http://127.0.0.1:1"}, 1), "it cannot be reached", false)
}

// What docs/hook.md shows is what is sent, to the last key.
func TestHookPage(t *testing.T) {
	page, err := os.ReadFile(filepath.FromSlash("../../docs/hook.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```json\n")
	example, _, _ := strings.Cut(rest, "```")
	var seen hooked
	if err := json.Unmarshal([]byte(example), &seen); err != nil {
		t.Fatal(err)
	}
	sent, err := json.Marshal(seen)
	if err != nil {
		t.Fatal(err)
	}
	var shown bytes.Buffer
	if err := json.Compact(&shown, []byte(example)); err != nil || shown.String() != string(sent) {
		t.Errorf("the page shows (%v)\n%s\nand sent would be\n%s", err, &shown, sent)
	}
}

// A hook that cannot work is refused at the start.
func TestHookConfig(t *testing.T) {
	for want, h := range map[string]Hook{
		"one of them":  {URL: "http://x", Command: []string{"y"}},
		"is not one":   {URL: "ftp://x"},
		"is empty":     {Command: []string{""}},
		"give at most": {URL: "http://x", Timeout: time.Hour},
	} {
		_, err := assemble(setup{Agent: "a", Hook: h}, newLog().Door())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", h, err, want)
		}
	}
}
