package sidecar

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/hence-dev/hence/gate/policy"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
)

// busDoor is a sidecar that serves clients of S-Bus, and their models.
type busDoor struct {
	*running
	stub http.HandlerFunc
	seen *http.Request
}

func openBusModels(t *testing.T, mode string, change func(*Config)) *busDoor {
	t.Helper()
	d := &busDoor{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.seen = r
		d.stub(w, r)
	}))
	t.Cleanup(server.Close)
	at := must(url.Parse(server.URL))(t)
	text := fmt.Sprintf("version: 1\nserver: models\ntools: []\nvocabulary:\n  mode: %s\n  terms:\n"+
		"    - {shard: plan, names: [the plan]}\n    - {shard: budget}\n", mode)
	c := Config{Agent: "a", Tools: must(policy.Load([]byte(text), policy.Options{}))(t),
		SBus:   SBus{Listen: "127.0.0.1:0"},
		Models: Models{APIs: map[string]*url.URL{"openai": at, "anthropic": at, "gemini": at}}}
	if change != nil {
		change(&c)
	}
	d.running = start(t, memlog.New("default").Door(), c)
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	return d
}

// send sends a request to the address of S-Bus.
func (d *busDoor) send(t *testing.T, method, path, body string, header ...string) (int, string) {
	t.Helper()
	r := must(http.NewRequestWithContext(background(t), method, d.BusURL()+path, strings.NewReader(body)))(t)
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	out := must(http.DefaultClient.Do(r))(t)
	defer out.Body.Close()
	return out.StatusCode, string(must(io.ReadAll(out.Body))(t))
}

func (d *busDoor) commit(t *testing.T, agent, key string, version int) string {
	t.Helper()
	status, body := d.send(t, "POST", "/commit", fmt.Sprintf(`{"key":%q,"expected_version":%d,"delta":"x","agent_id":%q}`,
		key, version, agent))
	var out struct{ Error string }
	if err := json.Unmarshal([]byte(body), &out); err != nil || status != 200 && out.Error == "" {
		t.Fatalf("%d %s", status, body)
	}
	return out.Error
}

// A name of S-Bus whose model used a shard commits as if it had read that shard before the request left, in all three
// shapes; a suffix is part of the shard, the headers stay here, and who is not named has a log, too.
func TestBusModels(t *testing.T) {
	shapes := []struct{ path, request, answer string }{
		{"/v1/chat/completions?x=1", `{"messages":[{"content":"look at %s"}]}`,
			`{"choices":[{"message":{"content":"%s"}}]}`},
		{"/v1/messages?x=1", `{"system":"look at %s","messages":[]}`, `{"content":[{"type":"text","text":"%s"}]}`},
		{"/v1beta/models/g:generateContent?x=1", `{"contents":[{"parts":[{"text":"%s"}]}]}`,
			`{"candidates":[{"content":{"parts":[{"text":"%s"}]}}]}`},
		{"/v1/models/g:generateContent?x=1", `{"contents":[{"parts":[{"text":"%s"}]}]}`,
			`{"candidates":[{"content":{"parts":[{"text":"%s"}]}}]}`},
	}
	for i, c := range []struct {
		mode, agent, suffix string
		prompt, answer      string
		moves               string // while the model thinks
		want                string
	}{
		{"enforce", "ann", "", "the plan", "The Plan is old", "plan", "CrossShardStale"},
		{"enforce", "ann", "_t1", "the plan", "the plan is old", "plan_t1", "CrossShardStale"},
		{"enforce", "ann", "_t1", "the plan", "the plan is old", "plan", ""},
		{"enforce", "ann", "", "the plan", "no words", "plan", ""},
		{"enforce", "ann", "", "nothing", "the budget", "budget", "CrossShardStale"},
		{"enforce", "", "", "the plan", "the plan", "plan", "CrossShardStale"},
		{"observe", "ann", "", "the plan", "the plan", "plan", ""},
	} {
		d := openBusModels(t, c.mode, nil)
		for _, key := range []string{"plan", "plan_t1", "budget"} {
			if status, body := d.send(t, "POST", "/shard", `{"key":"`+key+`","content":"0","goal_tag":""}`); status != 201 {
				t.Fatalf("%d %s", status, body)
			}
		}
		for k, shape := range shapes {
			note := fmt.Sprint("note", k)
			d.send(t, "POST", "/shard", `{"key":"`+note+`","content":"0","goal_tag":""}`)
			name := c.agent
			if name == "" {
				name = "unknown-agent"
			}
			d.send(t, "POST", "/session", fmt.Sprintf(`{"agent_id":%q}`, name))
			answer := fmt.Sprintf(shape.answer, c.answer)
			d.stub = func(w http.ResponseWriter, _ *http.Request) {
				if got := d.commit(t, "other", c.moves, k); got != "" {
					t.Errorf("%d: the shard does not move: %s", i, got)
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, answer)
			}
			headers := []string{"X-SBus-Session-Id", "s", "Authorization", "Bearer sk"}
			if c.agent != "" {
				headers = append(headers, "X-SBus-Agent-Id", c.agent)
			}
			if c.suffix != "" {
				headers = append(headers, "X-SBus-Shard-Suffix", c.suffix)
			}
			status, body := d.send(t, "POST", shape.path, fmt.Sprintf(shape.request, c.prompt), headers...)
			if status != 200 || body != answer {
				t.Fatalf("%d %s: %d %s", i, shape.path, status, body)
			}
			want, _, _ := strings.Cut(shape.path, "?")
			if d.seen.URL.Path != want || d.seen.URL.RawQuery != "x=1" || d.seen.Header.Get("Authorization") != "Bearer sk" {
				t.Errorf("%d: upstream got %s %v", i, d.seen.URL, d.seen.Header)
			}
			for header := range d.seen.Header {
				if strings.HasPrefix(strings.ToLower(header), "x-sbus-") {
					t.Errorf("%d: upstream got %s", i, header)
				}
			}
			if got := d.commit(t, name, note, 0); got != c.want {
				t.Errorf("%d %s: the commit is refused with %q, wanted %q", i, shape.path, got, c.want)
			}
		}
	}
}

// The other addresses are S-Bus's as ever, pages of browsers ask no model, and where no model is served none is.
func TestBusModelsBeside(t *testing.T) {
	d := openBusModels(t, "enforce", nil)
	d.stub = func(http.ResponseWriter, *http.Request) { t.Error("a page has asked a model") }
	if status, body := d.send(t, "PUT", "/health", ""); status != 200 || body != "ok" {
		t.Errorf("/health: %d %q", status, body)
	}
	if status, _ := d.send(t, "GET", "/stats", ""); status != 200 {
		t.Errorf("/stats: %d", status)
	}
	if status, _ := d.send(t, "POST", "/v1/unknown", "{}"); status != 404 {
		t.Errorf("/v1/unknown: %d", status)
	}
	if status, body := d.send(t, "POST", "/v1/messages", "{}", "Origin", "https://evil.example"); status != 403 {
		t.Errorf("a page: %d %s", status, body)
	}
	long := strings.Repeat("a", 300)
	if status, _ := d.send(t, "POST", "/v1/messages", "{}", "X-SBus-Agent-Id", long); status != 400 {
		t.Errorf("a long name: %d", status)
	}
	none := openBusModels(t, "enforce", func(c *Config) { c.Models = Models{} })
	if status, _ := none.send(t, "POST", "/v1/messages", "{}"); status != 404 {
		t.Errorf("no model is served: %d", status)
	}
}

// No page of a browser gets at the address that asks for no token, under whatever name it leads here.
func TestBusFromHere(t *testing.T) {
	for _, change := range []func(*Config){nil, func(c *Config) { c.Models = Models{} }} {
		d := openBusModels(t, "enforce", change)
		for _, c := range []struct {
			host, origin string
			status       int
		}{{"", "", 200}, {"localhost:7000", "", 200}, {"[::1]:7000", "", 200}, {"127.0.0.2", "", 200},
			{"evil.example:7000", "", 403}, {"10.0.0.1", "", 403}, {"", "http://127.0.0.1:7000", 403},
			{"localhost.evil.example", "", 403}} {
			r := must(http.NewRequestWithContext(background(t), "GET", d.BusURL()+"/shards", nil))(t)
			if r.Host = c.host; c.origin != "" {
				r.Header.Set("Origin", c.origin)
			}
			out := must(http.DefaultClient.Do(r))(t)
			_ = out.Body.Close()
			if out.StatusCode != c.status {
				t.Errorf("host %q, origin %q: %d, wanted %d", c.host, c.origin, out.StatusCode, c.status)
			}
		}
	}
}

// A page's GET of an image has no Origin. It is refused all the same, and makes no read that a commit is held against.
func TestBusFromOtherSites(t *testing.T) {
	d := openBusModels(t, "enforce", nil)
	for _, key := range []string{"plan", "note"} {
		d.send(t, "POST", "/shard", `{"key":"`+key+`","content":"0","goal_tag":""}`)
	}
	d.send(t, "POST", "/session", `{"agent_id":"ann"}`)
	for site, want := range map[string]int{"cross-site": 403, "same-site": 403, "none": 200, "same-origin": 200} {
		name := "ann"
		if want == 200 {
			name = "bob"
		}
		status, body := d.send(t, "GET", "/shard/plan?agent_id="+name, "", "Sec-Fetch-Site", site, "Sec-Fetch-Mode",
			"no-cors", "Sec-Fetch-Dest", "image", "Referer", "https://evil.example/")
		if status != want || want == 403 && !strings.Contains(body, "page of another site") {
			t.Errorf("%s: %d %s, wanted %d", site, status, body, want)
		}
	}
	d.commit(t, "other", "plan", 0)
	if got := d.commit(t, "ann", "note", 0); got != "" {
		t.Errorf("ann's commit after the page's request: %s", got)
	}
}

// What an extractor names counts as what the vocabulary finds. Without its word enforce lets nothing through, and
// observe all.
func TestExtractor(t *testing.T) {
	for _, c := range []struct {
		name, mode, says string
		finds            map[string]string // by side: the answer
		status           int
		want             string
	}{
		{"in the answer", "enforce", "the document", map[string]string{"answer": `{"shards":["plan"]}`}, 200,
			"CrossShardStale"},
		{"in the request alone", "enforce", "x", map[string]string{"request": `{"shards":["plan"]}`}, 200, ""},
		{"observed", "observe", "the document", map[string]string{"answer": `{"shards":["plan"]}`}, 200, ""},
		{"no answer", "enforce", "x", map[string]string{"request": `nonsense`}, 503, ""},
		{"no answer, observed", "observe", "x", map[string]string{"request": `nonsense`}, 200, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked := map[string]string{}
			finder := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var in struct {
					Side  string
					Texts []string
				}
				data, _ := io.ReadAll(r.Body)
				_ = json.Unmarshal(data, &in)
				asked[in.Side] = strings.Join(in.Texts, "|")
				out := c.finds[in.Side]
				if out == "" {
					out = `{"shards":[]}`
				}
				_, _ = io.WriteString(w, out)
			}))
			defer finder.Close()
			d := openBusModels(t, c.mode, func(c *Config) { c.Models.Extractor = Hook{URL: finder.URL} })
			for _, key := range []string{"plan", "note"} {
				d.send(t, "POST", "/shard", `{"key":"`+key+`","content":"0","goal_tag":""}`)
			}
			d.send(t, "POST", "/session", `{"agent_id":"ann"}`)
			stream := fmt.Sprintf("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\ndata: [DONE]\n\n", c.says)
			d.stub = func(w http.ResponseWriter, _ *http.Request) {
				d.commit(t, "other", "plan", 0)
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, stream)
			}
			status, body := d.send(t, "POST", "/v1/chat/completions", `{"messages":[{"content":"look"}]}`,
				"X-SBus-Agent-Id", "ann")
			if status != c.status || status == 200 && body != stream || asked["request"] != "look" {
				t.Fatalf("%d %s, asked %v", status, body, asked)
			}
			if status == 200 && c.finds["request"] != "nonsense" && asked["answer"] != c.says {
				t.Errorf("it was asked about %q", asked["answer"])
			}
			if got := d.commit(t, "ann", "note", 0); got != c.want {
				t.Errorf("the commit is refused with %q, wanted %q", got, c.want)
			}
		})
	}
}

// References and tokens are counted as docs/metrics.md says, in each shape, whole and streamed.
func TestModelFigures(t *testing.T) {
	d := openBusModels(t, "observe", nil)
	for _, key := range []string{"plan", "budget"} {
		d.send(t, "POST", "/shard", `{"key":"`+key+`","content":"0","goal_tag":""}`)
	}
	answers := []struct{ path, kind, body string }{
		{"/v1/chat/completions", "application/json",
			`{"choices":[{"message":{"content":"the plan"}}],"usage":{"prompt_tokens":100,"completion_tokens":7}}`},
		{"/v1/chat/completions", "text/event-stream",
			"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"the plan\"},\"finish_reason\":\"stop\"}]}\n\n" +
				"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":7}}\n\ndata: [DONE]\n\n"},
		{"/v1/responses", "text/event-stream",
			"data: {\"type\":\"response.output_text.delta\",\"delta\":\"the plan\"}\n\ndata: {\"type\":" +
				"\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":100,\"output_tokens\":7}}}\n\n"},
		{"/v1/messages", "text/event-stream",
			"data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":90,\"cache_read_input_tokens\":10," +
				"\"output_tokens\":1}}}\n\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":" +
				"\"text_delta\",\"text\":\"the plan\"}}\n\n" +
				"data: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":7}}\n\n" +
				"data: {\"type\":\"message_stop\"}\n\n"},
		{"/v1beta/models/g:generateContent", "application/json",
			`{"candidates":[{"content":{"parts":[{"text":"the plan"}]}}],` +
				`"usageMetadata":{"promptTokenCount":100,"candidatesTokenCount":5,"thoughtsTokenCount":2}}`},
	}
	for _, a := range answers {
		d.stub = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", a.kind)
			_, _ = io.WriteString(w, a.body)
		}
		status, body := d.send(t, "POST", a.path, `{"messages":[{"content":"the plan and the budget"}]}`)
		if status != 200 || body != a.body {
			t.Fatalf("%s: %d %s", a.path, status, body)
		}
	}
	var out bytes.Buffer
	r := must(http.NewRequestWithContext(background(t), "GET", d.URL()+"/metrics", nil))(t)
	got := must(http.DefaultClient.Do(r))(t)
	_, _ = io.Copy(&out, got.Body)
	_ = got.Body.Close()
	for _, want := range []string{
		`hence_sidecar_model_references_total{kind="request",provider="openai"} 3`,
		`hence_sidecar_model_references_total{kind="request",provider="anthropic"} 1`,
		`hence_sidecar_model_references_total{kind="request",provider="gemini"} 1`,
		`hence_sidecar_model_tokens_total{kind="input",provider="openai"} 300`,
		`hence_sidecar_model_tokens_total{kind="output",provider="openai"} 21`,
		`hence_sidecar_model_tokens_total{kind="input",provider="anthropic"} 100`,
		`hence_sidecar_model_tokens_total{kind="output",provider="anthropic"} 7`,
		`hence_sidecar_model_tokens_total{kind="output",provider="gemini"} 7`,
	} {
		if !strings.Contains(out.String(), want+"\n") {
			t.Errorf("not served: %s", want)
		}
	}
	if t.Failed() {
		for line := range strings.Lines(out.String()) {
			if strings.Contains(line, "_model_") {
				t.Log(line)
			}
		}
	}
}

// A name that is not UTF-8 is one that no commit can give: a read would be recorded for nobody.
func TestBusModelsNames(t *testing.T) {
	d := openBusModels(t, "enforce", nil)
	d.stub = func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }
	for header, want := range map[string]int{"\xe9": 400, "\u00e9": 200} {
		for _, name := range []string{"X-SBus-Agent-Id", "X-SBus-Shard-Suffix"} {
			status, body := d.send(t, "POST", "/v1/chat/completions", `{"messages":[]}`, name, header)
			if status != want {
				t.Errorf("%s: %q: %d %s, want %d", name, header, status, body, want)
			}
		}
	}
}
