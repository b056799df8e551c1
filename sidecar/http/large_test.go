package http

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/sidecar/api"
)

const (
	anyBody   = 1 << 10 // what every body may have, in these tests
	mostBytes = 600 << 10
)

// A PUT of a shard may have as many bytes as the rules say, whether it says how many they are or not; no other body
// may have more than all.
func TestLargeBodies(t *testing.T) {
	f := newFaced(t)
	f.most = mostBytes
	const shard, writes = "/v1/workspaces/default/shards/x", "/v1/tx/a.1.1/writes"
	for name, c := range map[string]struct {
		path    string
		size    int
		unknown bool
		status  int
	}{
		"all a shard may have":          {shard, mostBytes, false, 201},
		"all, and no length":            {shard, mostBytes, true, 201},
		"as other bodies, no length":    {shard, anyBody, true, 201},
		"one byte over":                 {shard, mostBytes + 1, false, 413},
		"one byte over, no length":      {shard, mostBytes + 1, true, 413},
		"another route":                 {writes, anyBody + 1, false, 413},
		"another route, no length":      {writes, anyBody + 1, true, 413},
		"one more than others may have": {shard, anyBody + 1, false, 201},
	} {
		body := bytes.Repeat([]byte("0123456789"), c.size/10+1)[:c.size]
		method := http.MethodPut
		if c.path == writes {
			method = http.MethodPost
		}
		r := httptest.NewRequest(method, c.path, struct{ io.Reader }{bytes.NewReader(body)})
		if r.ContentLength = int64(c.size); c.unknown {
			r.ContentLength = -1
		}
		r.Header.Set("Authorization", "Bearer "+agentToken)
		w := httptest.NewRecorder()
		f.put = api.Put{}
		f.face.ServeHTTP(w, r)
		if w.Code != c.status || c.status == 201 && !bytes.Equal(f.put.Body, body) {
			t.Errorf("%s: %d, %d bytes of %d: %.200s", name, w.Code, len(f.put.Body), c.size, w.Body)
		}
		if text := w.Body.String(); w.Code == 413 && strings.Contains(text, "--max-content") != (c.path == shard) {
			t.Errorf("%s: %s", name, text)
		}
		if n := len(f.face.writing); n != 0 {
			t.Fatalf("%s: %d places are not free again", name, n)
		}
	}
}

// Only a few large contents are held or read at once; others wait, and are told when that takes too long. Small ones
// do not.
func TestLargePlaces(t *testing.T) {
	f := newFaced(t, func(c *told) { c.Limits.WaitMost = 20 * time.Millisecond })
	f.most = mostBytes
	f.content = api.Content{Version: 5, Size: 3, Parts: func(context.Context, func([]byte) error) error { return nil }}
	for range maxWriting {
		f.face.writing <- struct{}{}
	}
	for range maxReading {
		f.face.reading <- struct{}{}
	}
	const shard = "/v1/workspaces/default/shards/x"
	if resp, body := f.do("PUT", shard, strings.Repeat("x", anyBody+1)); resp.StatusCode != 503 ||
		!strings.Contains(body, `"busy"`) {
		t.Errorf("written: %d %s", resp.StatusCode, body)
	}
	long := strings.NewReader(strings.Repeat("x", anyBody+1))
	r := httptest.NewRequest(http.MethodPut, shard, struct{ io.Reader }{long})
	r.ContentLength = -1
	r.Header.Set("Authorization", "Bearer "+agentToken)
	w := httptest.NewRecorder()
	if f.face.ServeHTTP(w, r); w.Code != 503 || !strings.Contains(w.Body.String(), `"busy"`) {
		t.Errorf("written without a length: %d %s", w.Code, w.Body)
	}
	if resp, body := f.do("GET", shard, ""); resp.StatusCode != 503 || !strings.Contains(body, `"busy"`) {
		t.Errorf("read: %d %s", resp.StatusCode, body)
	}
	if resp, body := f.do("PUT", shard, "small"); resp.StatusCode != 201 {
		t.Errorf("a small one: %d %s", resp.StatusCode, body)
	}
}

// A large content is passed on part by part. What is lost is a problem; what is lost while it is passed on ends the
// connection, before all of Content-Length was given.
func TestLargeAnswers(t *testing.T) {
	var lost [2]error // of the look before, and of the answer
	turn := 0
	f := newFaced(t)
	f.content = api.Content{Version: 5, View: 9, MediaType: "image/png", Size: 8,
		Parts: func(_ context.Context, take func([]byte) error) error {
			turn++
			if err := take([]byte("half")); err != nil || lost[turn-1] != nil {
				return errors.Join(err, lost[turn-1])
			}
			return take([]byte("less"))
		}}
	get := func(first, second error, header ...string) (resp *http.Response, body string, broken any) {
		defer func() { broken = recover() }()
		turn, lost = 0, [2]error{first, second}
		resp, body = f.do("GET", "/v1/workspaces/default/shards/x", "", header...)
		return resp, body, nil
	}
	if resp, body, broken := get(nil, nil); resp.StatusCode != 200 || body != "halfless" || broken != nil ||
		resp.Header.Get("Content-Length") != "8" {
		t.Errorf("whole: %d %q %v", resp.StatusCode, body, broken)
	}
	gone := api.Problemf(api.CodeLog, "lost: write it again")
	if resp, body, _ := get(gone, nil); resp.StatusCode != 503 || !strings.Contains(body, "write it again") {
		t.Errorf("lost: %d %s", resp.StatusCode, body)
	}
	if _, _, broken := get(nil, gone); broken != http.ErrAbortHandler {
		t.Errorf("lost in the middle: %v", broken)
	}
	turn, lost = 0, [2]error{}
	resp, body := f.do("HEAD", "/v1/workspaces/default/shards/x", "")
	if resp.StatusCode != 200 || body != "" || resp.Header.Get("Content-Length") != "8" || turn != 1 {
		t.Errorf("HEAD: %d %q, %s bytes, read %d times", resp.StatusCode, body, resp.Header.Get("Content-Length"), turn)
	}
	turn, lost[0] = 0, gone
	if resp, _ := f.do("HEAD", "/v1/workspaces/default/shards/x", ""); resp.StatusCode != 503 {
		t.Errorf("HEAD of what is lost: %d", resp.StatusCode)
	}
	if resp, body, _ := get(gone, gone, "If-None-Match", `"5"`); resp.StatusCode != 304 || body != "" || turn != 0 {
		t.Errorf("known already: %d, read %d times", resp.StatusCode, turn)
	}
	if n := len(f.face.reading); n != 0 {
		t.Errorf("%d places are not free again", n)
	}
}
