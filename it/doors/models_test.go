package doors

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sidecar/client"
)

const providerKey = "sk-of-the-provider-4711"

// answersOf are what a provider's API answers, whole and streamed; the name "order 7" is cut between two events.
func answersOf(path string, stream bool) (media, body string) {
	event := func(lines ...string) string { return "data: " + strings.Join(lines, "\n\ndata: ") + "\n\n" }
	media = "application/json"
	if stream {
		media = "text/event-stream"
	}
	const message = `"id":"msg","type":"message","role":"assistant","model":"m","stop_sequence":null,` +
		`"usage":{"input_tokens":1,"output_tokens":1}`
	const chat = `"id":"c","created":1,"model":"m"`
	const response = `"id":"r","object":"response","created_at":1,"model":"m","parallel_tool_calls":true,"tools":[],` +
		`"tool_choice":"auto","status":"completed","error":null,"incomplete_details":null,"instructions":null,"metadata":{}`
	const said = `{"type":"message","id":"m","role":"assistant","status":"completed","content":[` +
		`{"type":"output_text","text":"I cancel order 7.","annotations":[]}]}`
	switch {
	case strings.HasSuffix(path, "/chat/completions") && !stream:
		body = `{` + chat + `,"object":"chat.completion","choices":[{"index":0,"finish_reason":"tool_calls","message":` +
			`{"role":"assistant","content":"I cancel order 7.","tool_calls":[{"id":"t","type":"function","function":` +
			`{"name":"cancel","arguments":"{\"order\": 12345678901234567890}"}}]}}]}`
	case strings.HasSuffix(path, "/chat/completions"):
		chunk := func(delta, end string) string {
			return `{` + chat + `,"object":"chat.completion.chunk","choices":[{"index":0,"delta":` + delta +
				`,"finish_reason":` + end + `}]}`
		}
		body = event(chunk(`{"role":"assistant","content":"I cancel or"}`, "null"), chunk(`{"content":"der 7."}`, "null"),
			chunk(`{"tool_calls":[{"index":0,"id":"t","type":"function","function":{"name":"cancel","arguments":"{\"a\""}}]}`,
				"null"), chunk(`{"tool_calls":[{"index":0,"function":{"arguments":": 1}"}}]}`, "null"),
			chunk(`{}`, `"tool_calls"`), "[DONE]")
	case strings.HasSuffix(path, "/responses") && !stream:
		body = `{` + response + `,"output":[` + said + `]}`
	case strings.HasSuffix(path, "/responses"):
		delta := func(n int, text string) string {
			return fmt.Sprintf(`{"type":"response.output_text.delta","sequence_number":%d,"item_id":"m","output_index":0,`+
				`"content_index":0,"delta":%q,"logprobs":[]}`, n, text)
		}
		body = event(`{"type":"response.created","sequence_number":0,"response":{`+response+`,"output":[]}}`,
			`{"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"type":"message","id":"m",`+
				`"role":"assistant","status":"in_progress","content":[]}}`,
			`{"type":"response.content_part.added","sequence_number":2,"item_id":"m","output_index":0,"content_index":0,`+
				`"part":{"type":"output_text","text":"","annotations":[]}}`, delta(3, "I cancel or"), delta(4, "der 7."),
			`{"type":"response.completed","sequence_number":5,"response":{`+response+`,"output":[`+said+`]}}`)
	case strings.HasSuffix(path, "/messages") && !stream:
		body = `{` + message + `,"stop_reason":"tool_use","content":[{"type":"text","text":"I cancel order 7."},` +
			`{"type":"tool_use","id":"t","name":"cancel","input":{"order":7}}]}`
	case strings.HasSuffix(path, "/messages"):
		body = event(`{"type":"message_start","message":{`+message+`,"stop_reason":null,"content":[]}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"I cancel or"}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"der 7."}}`,
			`{"type":"content_block_stop","index":0}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t","name":"cancel","input":{}}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"order\":"}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"7}"}}`,
			`{"type":"content_block_stop","index":1}`,
			`{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":2}}`,
			`{"type":"message_stop"}`)
		for _, kind := range []string{"message_start", "content_block_start", "content_block_delta", "content_block_stop",
			"message_delta", "message_stop"} { // this provider names each event in a line of its own
			body = strings.ReplaceAll(body, `data: {"type":"`+kind+`"`, "event: "+kind+"\n"+`data: {"type":"`+kind+`"`)
		}
	case strings.HasSuffix(path, ":generateContent"):
		body = `{"candidates":[{"content":{"role":"model","parts":[{"text":"I cancel order 7."}]},"finishReason":"STOP"}]}`
	case strings.HasSuffix(path, ":streamGenerateContent"):
		media = "text/event-stream"
		body = event(`{"candidates":[{"content":{"role":"model","parts":[{"text":"I cancel or"}]}}]}`,
			`{"candidates":[{"content":{"role":"model","parts":[{"text":"der 7."}]},"finishReason":"STOP"}]}`)
	}
	return media, body
}

// provider is a stub of all three APIs. meanwhile runs while it thinks.
func provider(t *testing.T, meanwhile func()) (url string, requests func() int) {
	t.Helper()
	var mu sync.Mutex
	n := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !strings.Contains(fmt.Sprint(r.Header), providerKey) || !strings.Contains(string(body), "what of order 7?") {
			t.Errorf("%s: %v %s", r.URL, r.Header, body)
		}
		mu.Lock()
		n++
		mu.Unlock()
		meanwhile()
		media, answer := answersOf(r.URL.Path, strings.Contains(strings.ReplaceAll(string(body), " ", ""), `"stream":true`))
		w.Header().Set("Content-Type", media)
		for _, bit := range strings.SplitAfter(answer, "\n\n") {
			_, _ = io.WriteString(w, bit)
			_ = http.NewResponseController(w).Flush()
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, func() int { mu.Lock(); defer mu.Unlock(); return n }
}

// The SDKs of three providers get through Hence what they get without it, whole and streamed, and each answer that
// uses a shard that has moved since its request refuses the commit that follows from it.
func TestModelSDKs(t *testing.T) {
	c := install(t)
	job := func(openai, anthropic, gemini string) string {
		return written(t, "", map[string]string{"openai": openai, "anthropic": anthropic, "gemini": gemini})
	}
	at, _ := provider(t, func() {})
	bare := string(run(t, "", c.models, "clients/models.py", job(at+"/v1", at, at)))
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	text := "version: 1\nserver: shop\nvocabulary:\n  mode: enforce\n  terms:\n" +
		"    - {shard: orders/*, names: [\"order *\"]}\ntools: []\n"
	if err := os.WriteFile(policy, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var move func()
	at, requests := provider(t, func() { move() })
	data := t.TempDir()
	_, line := harness.SpawnServing(t, time.Minute, harness.Binary(t), "dev", "--random-ports", "--output", "json",
		"--token", token, "--policy", policy, "--data-dir", data, "--llm", "openai="+at, "--llm", "anthropic="+at,
		"--llm", "gemini="+at)
	var said struct {
		URL    string   `json:"url"`
		Models []string `json:"models"`
	}
	if err := json.Unmarshal(line, &said); err != nil || len(said.Models) != 3 {
		t.Fatalf("hence dev says %q (%v)", line, err)
	}
	where := map[string]string{}
	for _, one := range said.Models {
		name, url, _ := strings.Cut(one, "=")
		where[name] = url
	}
	mine := client.New(said.URL, token)
	other := client.New(said.URL, token, client.WithSession("other"))
	refused := 0
	commit := func(ctx context.Context) {
		d, err := mine.Put(ctx, "shard:/notes/1", []byte("x"), client.WriteOptions{})
		if err != nil {
			t.Error(err)
		} else if d.Code == "stale_read" {
			refused++
		}
	}
	move = func() { // what the answer before has used is held against the next commit
		commit(context.Background())
		if _, err := other.Put(context.Background(), "shard:/orders/7", []byte("x"), client.WriteOptions{}); err != nil {
			t.Error(err)
		}
	}
	move()
	ours := string(run(t, "", c.models, "clients/models.py", job(where["OPENAI_BASE_URL"], where["ANTHROPIC_BASE_URL"],
		where["GOOGLE_GEMINI_BASE_URL"])))
	commit(t.Context())
	if ours != bare {
		t.Errorf("through Hence\n%s\nbare\n%s", ours, bare)
	}
	if n := requests(); n != 8 || refused != n {
		t.Errorf("%d requests, and %d commits that follow from them were refused", n, refused)
	}
	t.Logf("%d answers are equal, %d commits were refused\n%s", requests(), refused, ours)
}
