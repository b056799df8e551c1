package sidecar

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hence-dev/hence/gate/policy"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
)

const wordPolicy = `version: 1
server: models
vocabulary:
  mode: %s
  terms:
    - {shard: orders/*, names: ["order *"]}
    - {shard: accounts/main, names: [main account]}
tools: []
`

// modelDoor is a sidecar whose models are a stub.
type modelDoor struct {
	*running
	dir  string
	stub http.HandlerFunc
	seen *http.Request
}

func openModels(t *testing.T, mode string) *modelDoor {
	t.Helper()
	d := &modelDoor{dir: t.TempDir()}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.seen = r
		d.stub(w, r)
	}))
	t.Cleanup(server.Close)
	at := must(url.Parse(server.URL))(t)
	tools := must(policy.Load(fmt.Appendf(nil, wordPolicy, mode), policy.Options{}))(t)
	d.running = start(t, memlog.New("default").Door(), Config{Agent: "a", Tools: tools, DataDir: d.dir,
		Models: Models{APIs: map[string]*url.URL{"openai": at, "anthropic": at, "gemini": at}}})
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	return d
}

const modelKey = "sk-of-the-provider-4711"

// ask sends a request to a model and returns the body of the answer.
func (d *modelDoor) ask(t *testing.T, provider, path, body string) (int, string) {
	t.Helper()
	r := must(http.NewRequestWithContext(background(t), "POST", d.ModelURL(provider)+path, strings.NewReader(body)))(t)
	r.Header.Set("Authorization", "Bearer "+modelKey)
	r.Header.Set("Content-Type", "application/json")
	out := must(http.DefaultClient.Do(r))(t)
	defer out.Body.Close()
	return out.StatusCode, string(must(io.ReadAll(out.Body))(t))
}

// put writes a shard in a conversation of its own, as another agent would.
func (d *modelDoor) put(t *testing.T, scope, content string) {
	t.Helper()
	other := client.New(d.URL(), d.Token(), client.WithSession("other"))
	defer other.Close()
	if _, err := other.Put(background(t), scope, []byte(content), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// commit writes a shard in the conversation that the models answered, and returns the refusal's code.
func (d *modelDoor) commit(t *testing.T) string {
	t.Helper()
	return must(d.client.Put(background(t), "notes/a", []byte("x"), client.WriteOptions{}))(t).Code
}

// What an answer uses is as old as its request, whatever moves meanwhile; what it does not use binds nothing, and
// under observe nothing does.
func TestModelsAnswerBinds(t *testing.T) {
	const says = `{"choices":[{"message":{"content":"I cancel %s."},"finish_reason":"stop"}]}`
	for _, c := range []struct {
		mode, uses string
		moved      string
		refused    bool
	}{
		{"enforce", "order 7", "orders/7", true},
		{"enforce", "ORDERS/7", "orders/7", true},
		{"enforce", "order 8", "orders/8", true}, // the request did not name it
		{"enforce", "order 77", "orders/7", false},
		{"enforce", "nothing", "orders/7", false},
		{"enforce", "order 7", "orders/8", false},
		{"observe", "order 7", "orders/7", false},
	} {
		t.Run(c.mode+" "+c.uses+" "+c.moved, func(t *testing.T) {
			d := openModels(t, c.mode)
			d.put(t, "orders/7", "seven")
			d.put(t, "orders/8", "eight")
			d.stub = func(w http.ResponseWriter, _ *http.Request) {
				d.put(t, c.moved, "moved")
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, says, c.uses)
			}
			status, body := d.ask(t, "openai", "/v1/chat/completions",
				`{"messages":[{"role":"user","content":"look after order 7 and the main account"}]}`)
			if status != 200 || body != fmt.Sprintf(says, c.uses) {
				t.Fatalf("%d %s", status, body)
			}
			if code := d.commit(t); (code == "stale_read") != c.refused || !c.refused && code != "" {
				t.Fatalf("the commit has the code %q", code)
			}
			if code := d.commit(t); code != "" { // the reads of the refused one went with it
				t.Fatalf("the second commit has the code %q", code)
			}
		})
	}
}

// An answer binds, too, where its request has no body, as that for a background response, or one that is no JSON.
func TestModelsAnswerBindsWithoutBody(t *testing.T) {
	for _, c := range []struct{ method, path, body string }{
		{"GET", "/v1/responses/resp_1", ""},
		{"POST", "/v1/audio/transcriptions", "--x--"},
	} {
		d := openModels(t, "enforce")
		d.put(t, "orders/7", "seven")
		d.stub = func(w http.ResponseWriter, _ *http.Request) {
			d.put(t, "orders/7", "moved")
			_, _ = io.WriteString(w, `{"output":[{"content":[{"type":"output_text","text":"I cancel order 7."}]}]}`)
		}
		r := must(http.NewRequestWithContext(background(t), c.method, d.ModelURL("openai")+c.path,
			strings.NewReader(c.body)))(t)
		if status, text := answered(t, r); status != 200 {
			t.Fatalf("%s: %d %s", c.path, status, text)
		}
		if code := d.commit(t); code != "stale_read" {
			t.Errorf("%s %s: the commit has the code %q", c.method, c.path, code)
		}
	}
}

// 1,000 requests of three shapes: each mention is in the journal when the request arrives, the bodies are unchanged,
// and no file has the provider's key.
func TestModelsAreRecordedFirst(t *testing.T) {
	d := openModels(t, "enforce")
	d.put(t, "orders/7", "seven")
	late, bodies := 0, ""
	d.stub = func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies = string(body)
		number := r.Header.Get("X-Number")
		if got := fmt.Sprintf("mention/%s", number); !inFiles(t, d.dir, got) {
			late++
		}
		if r.Header.Get("Hence-Session") != "" || r.Header.Get("Authorization") != "Bearer "+modelKey {
			t.Errorf("headers: %v", r.Header)
		}
		_, _ = io.WriteString(w, `{}`)
	}
	shapes := []struct{ provider, path, body string }{
		{"openai", "/v1/chat/completions?x=1", `{"messages":[{"content":"order 7"}]}`},
		{"anthropic", "/v1/messages", `{"messages":[{"content":[{"type":"tool_result","content":"orders/7"}]}]}`},
		{"gemini", "/v1beta/models/g:generateContent", `{"contents":[{"parts":[{"text":"order 7"}]}]}`},
	}
	n := 1000
	if testing.Short() {
		n = 30
	}
	for i := range n {
		s := shapes[i%len(shapes)]
		r := must(http.NewRequestWithContext(background(t), "POST", d.ModelURL(s.provider)+s.path,
			strings.NewReader(s.body)))(t)
		r.Header.Set("Authorization", "Bearer "+modelKey)
		r.Header.Set("Hence-Session", fmt.Sprintf("talk-%d", i))
		r.Header.Set("X-Number", fmt.Sprintf("1-%d", i+1))
		out := must(http.DefaultClient.Do(r))(t)
		_, _ = io.Copy(io.Discard, out.Body)
		_ = out.Body.Close()
		want, _, _ := strings.Cut(s.path, "?")
		if out.StatusCode != 200 || bodies != s.body || d.seen.URL.Path != want {
			t.Fatalf("%d: status %d, path %s, body %s", i, out.StatusCode, d.seen.URL.Path, bodies)
		}
	}
	if late > 0 {
		t.Fatalf("%d of %d requests left before their mentions were recorded", late, n)
	}
	if inFiles(t, d.dir, modelKey) {
		t.Fatal("a file has the provider's key")
	}
}

// inFiles reports whether a file below a folder has a text.
func inFiles(t *testing.T, dir, text string) (found bool) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		found = found || bytes.Contains(data, []byte(text))
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return found
}

// A stream arrives piece by piece, as it is sent, and unchanged.
func TestModelsStream(t *testing.T) {
	d := openModels(t, "enforce")
	d.put(t, "orders/7", "seven")
	next := make(chan struct{})
	var once sync.Once
	t.Cleanup(func() { once.Do(func() { close(next) }) })
	first := `data: {"choices":[{"index":0,"delta":{"content":"the or"}}]}` + "\n\n"
	rest := `data: {"choices":[{"index":0,"delta":{"content":"der 7"},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
	d.stub = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, first)
		_ = http.NewResponseController(w).Flush()
		select {
		case <-next:
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, rest)
	}
	r := must(http.NewRequestWithContext(background(t), "POST", d.ModelURL("openai")+"/v1/chat/completions",
		strings.NewReader(`{"messages":[]}`)))(t)
	out := must(http.DefaultClient.Do(r))(t)
	defer out.Body.Close()
	got := make([]byte, len(first))
	if _, err := io.ReadFull(out.Body, got); err != nil || string(got) != first {
		t.Fatalf("%s %v", got, err)
	}
	d.put(t, "orders/7", "moved")
	once.Do(func() { close(next) })
	if got := must(io.ReadAll(out.Body))(t); string(got) != rest {
		t.Fatalf("%s", got)
	}
	if code := d.commit(t); code != "stale_read" {
		t.Fatalf("a name that came in two pieces: the commit has the code %q", code)
	}
}

// A stop lets an answer that is under way come to its end.
func TestModelsStop(t *testing.T) {
	d := openModels(t, "observe")
	arrived, stopped := make(chan struct{}), make(chan error, 1)
	waits := false
	d.stub = func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-d.drain.Done() // the stop has begun
		waits = d.busy()
		_, _ = io.WriteString(w, `{"whole":true}`)
	}
	go func() {
		<-arrived
		stopped <- d.stop()
	}()
	if status, body := d.ask(t, "openai", "/v1/chat/completions", `{}`); status != 200 || body != `{"whole":true}` {
		t.Errorf("%d %s", status, body)
	}
	if err := <-stopped; err != nil || !waits {
		t.Errorf("the stop waits for the answer: %t (%v)", waits, err)
	}
}

// Who has no key of an agent, and what a page sends, does not get through.
func TestModelsRefuse(t *testing.T) {
	d := openModels(t, "observe")
	reached := false
	d.stub = func(http.ResponseWriter, *http.Request) { reached = true }
	good := d.ModelURL("anthropic")
	for _, c := range []struct {
		url, origin string
		status      int
		says        string
	}{
		{d.URL() + "/llm/wrong/anthropic/v1/messages", "", 401, "has no key"},
		{d.URL() + "/llm/" + d.Token() + "/anthropic/v1/messages", "", 401, "has no key"},
		{good + "/v1/messages", "https://evil.example", 403, "a page"},
		{strings.Replace(good, "anthropic", "other", 1) + "/v1", "", 404, "--llm"},
	} {
		r := must(http.NewRequestWithContext(background(t), "POST", c.url, strings.NewReader(`{}`)))(t)
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		out := must(http.DefaultClient.Do(r))(t)
		body := must(io.ReadAll(out.Body))(t)
		_ = out.Body.Close()
		if out.StatusCode != c.status || !strings.Contains(string(body), c.says) || reached {
			t.Errorf("%s: %d %s", c.url, out.StatusCode, body)
		}
	}
}

// TestModelsStranger: who has no key, and sends slowly, is held to the listener's bounds; who has one takes its time.
func TestModelsStranger(t *testing.T) {
	d := openModels(t, "observe")
	d.stub = func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"whole":true}`) }
	const bound = 300 * time.Millisecond
	s := httptest.NewUnstartedServer(d.handler())
	s.Config.ReadTimeout = bound
	s.Start()
	t.Cleanup(s.Close)
	good := strings.TrimPrefix(d.ModelURL("openai"), d.URL())
	for path, served := range map[string]bool{"/llm/wrong/openai": false, good: true} {
		c := must(net.Dial("tcp", s.Listener.Addr().String()))(t)
		defer c.Close()
		fmt.Fprintf(c, "POST %s/v1/x HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{", path)
		if served { // its second half comes late
			<-time.After(2 * bound)
			_, _ = io.WriteString(c, "}")
		}
		_ = c.SetReadDeadline(time.Now().Add(3 * time.Second)) // of the test
		answer, err := io.ReadAll(c)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the connection is held open", path)
		}
		if served != strings.Contains(string(answer), `{"whole":true}`) {
			t.Errorf("%s: %q %v", path, answer, err)
		}
	}
}
