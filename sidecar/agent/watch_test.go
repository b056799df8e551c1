package agent

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

// watch opens a stream of the sidecar's decisions.
func watch(t *testing.T, r *rig, query string) *http.Response {
	t.Helper()
	url := r.URL() + "/v1/workspaces/default/decisions" + query
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+r.Token())
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	resp := must(transport.RoundTrip(q))(t)
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// commit writes a shard in a transaction of its own.
func commit(t *testing.T, r *rig, content string) client.Decision {
	t.Helper()
	tx := must(r.client.Begin(background(t), client.BeginOptions{}))(t)
	if err := tx.Write(background(t), "shard:/x", []byte(content), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	return must(tx.Seal(background(t)))(t)
}

// upTo reads a stream until it has a text, which ends a line or begins the last one.
func upTo(t *testing.T, r *bufio.Reader, want string) string {
	t.Helper()
	for text := ""; ; {
		line, err := r.ReadString('\n')
		if text += line; strings.Contains(text, want) {
			return text
		}
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
	}
}

// A stream of a sidecar has what is decided from now on, or from a seq on; other workspaces and the future are
// refused; a stop of the sidecar ends it with a word, and at once.
func TestWatch(t *testing.T) {
	r := start(t, "a", newLog().Door())
	first := commit(t, r, "1")
	live := bufio.NewReader(watch(t, r, "").Body)
	upTo(t, live, fmt.Sprintf(": decisions after seq %d\n", first.Seq))
	second := commit(t, r, "2")
	from := bufio.NewReader(watch(t, r, "?after=0&kind=committed").Body)
	want := fmt.Sprintf("id: %d\nevent: committed\ndata: {", second.Seq)
	if text := upTo(t, live, want); strings.Contains(text, fmt.Sprintf("id: %d\n", first.Seq)) {
		t.Errorf("a live stream begins with what was before: %s", text)
	}
	if text := upTo(t, from, want); !strings.Contains(text, fmt.Sprintf("id: %d\nevent: committed\n", first.Seq)) ||
		strings.Contains(text, "event: joined") {
		t.Errorf("commits from the first on: %s", text)
	}
	for query, status := range map[string]int{"?after=1000": 400, "?kind=blue": 400} {
		if resp := watch(t, r, query); resp.StatusCode != status {
			t.Errorf("%s: %d", query, resp.StatusCode)
		}
	}
	resp, p := ask(t, http.MethodGet, r.URL()+"/v1/workspaces/other/decisions", "Bearer "+r.Token(), "")
	if resp.StatusCode != http.StatusNotFound || p.Code != api.CodeUnknownWorkspace {
		t.Errorf("another workspace: %d %+v", resp.StatusCode, p)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(live); err != nil || !strings.Contains(string(rest), ": this server is stopping") {
		t.Errorf("the end: %q %v", rest, err)
	}
}
