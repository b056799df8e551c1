package sbus_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/sidecar"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
)

// met makes a shard at version 1 of which a merge by regions is not possible: both sides go on with one line.
func met(t *testing.T, n *node) {
	t.Helper()
	n.want(t, "POST", "/shard", `{"key":"x","content":"a\nb\n"}`, 201, shard("x", 0, "a\nb\n", "", 0, 0, 0))
	n.want(t, "POST", "/commit", additive(0, "b\n", "A", false), 200, `{"new_version":1,"shard_id":"x"}`)
}

// A hook is asked where regions do not merge, with the base, both contents and the key; a content is committed on top
// of what is there, and all else leaves the commit refused as it was.
func TestBusMergeHookURL(t *testing.T) {
	release := make(chan struct{})
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter)
		merged bool
	}{
		"content": {func(w http.ResponseWriter) { _, _ = io.WriteString(w, `{"content":"b\nmine\n"}`) }, true},
		"null":    {func(w http.ResponseWriter) { _, _ = io.WriteString(w, `{"content":null}`) }, false},
		"nothing": {func(w http.ResponseWriter) { _, _ = io.WriteString(w, `{}`) }, false},
		"no JSON": {func(w http.ResponseWriter) { _, _ = io.WriteString(w, `b`) }, false},
		"status":  {func(w http.ResponseWriter) { w.WriteHeader(500); _, _ = io.WriteString(w, `{"content":"c"}`) }, false},
		"too large": {func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, `{"content":"`+strings.Repeat("c", 2<<20)+`"}`)
		}, false},
		"silent": {func(http.ResponseWriter) { <-release }, false},
	} {
		t.Run(name, func(t *testing.T) {
			asked := make(chan map[string]string, 8)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var in map[string]string
				if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
					t.Error(err)
				}
				asked <- in
				c.answer(w)
			}))
			defer server.Close()
			n := start(t, memlog.New("default"), func(c *sidecar.Config) {
				c.SBus.Merge, c.SBus.MergeHook = true, sidecar.Hook{URL: server.URL}
				if name == "silent" {
					c.SBus.MergeHook.Timeout = 50 * time.Millisecond
				}
			})
			met(t, n)
			n.want(t, "POST", "/commit", additive(0, "a\nb\nmine\n", "B", false), 409, refusal("VersionMismatch"))
			if len(asked) > 0 {
				t.Error("the hook is asked of a commit that does not say that it only adds")
			}
			status, answer := 409, refusal("VersionMismatch")
			if c.merged {
				status, answer = 200, `{"new_version":2,"shard_id":"x","merged":true}`
			}
			n.want(t, "POST", "/commit", additive(0, "a\nb\nmine\n", "B", true), status, answer)
			if name == "silent" {
				close(release)
			}
			var seen map[string]string
			select {
			case seen = <-asked:
			case <-time.After(10 * time.Second):
			}
			if seen["key"] != "x" || seen["base"] != "a\nb\n" || seen["theirs"] != "b\n" || seen["ours"] != "a\nb\nmine\n" {
				t.Errorf("the hook saw %q", seen)
			}
			if _, body := n.ask(t, "GET", "/shard/x", ""); strings.Contains(body, `"content":"b\nmine\n"`) != c.merged {
				t.Errorf("GET /shard/x: %s", body)
			}
		})
	}
}

// A program is asked on its standard input; one that fails leaves the commit refused.
func TestBusMergeHookCommand(t *testing.T) {
	for script, want := range map[string]int{
		`cat >/dev/null; printf '{"content":"by program"}'`: 200,
		`cat >/dev/null; printf '{"content":"c"}'; exit 3`:  409,
		`head -c 3000000 /dev/zero`:                         409,
	} {
		path := filepath.Join(t.TempDir(), "merge")
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		n := start(t, memlog.New("default"), func(c *sidecar.Config) {
			c.SBus.MergeHook = sidecar.Hook{Command: []string{path}}
		})
		met(t, n)
		if code, body := n.ask(t, "POST", "/commit", additive(0, "a\nb\nmine\n", "B", true)); code != want {
			t.Errorf("%s: %d %s, want %d", script, code, body, want)
		}
		if _, body := n.ask(t, "GET", "/shard/x", ""); strings.Contains(body, "by program") != (want == 200) {
			t.Errorf("%s: %s", script, body)
		}
	}
}

// A merge hook that cannot be asked is refused before anything listens.
func TestBusMergeHookIsChecked(t *testing.T) {
	bad := sidecar.Config{Agent: "a", DataDir: t.TempDir(), SBus: sidecar.SBus{Listen: "127.0.0.1:0",
		MergeHook: sidecar.Hook{URL: "http://h", Command: []string{"true"}}}}
	if _, err := sidecar.New(bad, memlog.New("default").Door()); err == nil || !strings.Contains(err.Error(), "merge") {
		t.Errorf("a hook with a URL and a command is taken: %v", err)
	}
}
