package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/otlp"
)

// collector is what spans are sent to.
type collector struct {
	*httptest.Server
	changed chan struct{}

	mu    sync.Mutex
	spans []collected
}

// collected is one span, as far as a test looks at it.
type collected struct {
	TraceID string `json:"traceId"`
	SpanID  string `json:"spanId"`
	Parent  string `json:"parentSpanId"`
	Name    string `json:"name"`
}

func startCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{changed: make(chan struct{}, 1)}
	c.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var in struct {
			ResourceSpans []struct {
				ScopeSpans []struct{ Spans []collected }
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, resource := range in.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				c.spans = append(c.spans, scope.Spans...)
			}
		}
		select {
		case c.changed <- struct{}{}:
		default:
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// of waits until spans with all names are there in a trace, and returns the trace's.
func (c *collector) of(t *testing.T, trace string, names ...string) []collected {
	t.Helper()
	late := time.After(20 * time.Second)
	for {
		c.mu.Lock()
		var found []collected
		for _, s := range c.spans {
			if s.TraceID == trace {
				found = append(found, s)
			}
		}
		c.mu.Unlock()
		missing := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
			return slices.ContainsFunc(found, func(s collected) bool { return s.Name == name })
		})
		if len(missing) == 0 {
			return found
		}
		select {
		case <-c.changed:
		case <-late:
			t.Fatalf("the trace has %+v; missing are %v", found, missing)
		}
	}
}

const orderPolicy = `version: 1
server: shop
hosts: ["%[1]s"]
tools:
  - tool: order.ship
    class: irreversible
    args: [id]
    scopes: ["order:/{id}"]
    key: "ship/{id}"
    http: {method: POST, url: "http://%[1]s/ship/{id}"}
`

// TestOneTrace: one trace goes from the agent's request over append, fold and decision to the sink, which is called
// after the request; the decision names it, and so does the sink's request.
func TestOneTrace(t *testing.T) {
	const trace = "0af7651916cd43dd8448eb211c80319c"
	got := make(chan string, 1)
	sink := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got <- r.Header.Get("Traceparent")
	}))
	t.Cleanup(sink.Close)
	c := startCollector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	text := fmt.Sprintf(orderPolicy, strings.TrimPrefix(sink.URL, "http://"))
	if err := os.WriteFile(policy, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	dev := startDev(t, "--policy", policy)
	post := func(path, body, traceparent string) (out struct{ Tx string }) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, dev.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+dev.Token)
		r.Header.Set("Traceparent", traceparent)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer http.DefaultClient.CloseIdleConnections()
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err == nil {
			err = json.Unmarshal(answer, &out)
		}
		if err != nil || resp.StatusCode/100 != 2 {
			t.Fatalf("%s: %s %s %v", path, resp.Status, answer, err)
		}
		return out
	}
	// The agent names its trace once; what follows in the transaction belongs to it.
	tx := post("/v1/workspaces/default/tx", "{}", "00-"+trace+"-b7ad6b7169203331-01").Tx
	post("/v1/tx/"+tx+"/writes", `{"scope":"shard:/orders/7","content":"shipped"}`, "")
	post("/v1/tx/"+tx+"/effects", `{"tool":"order.ship","args":{"id":"7"}}`, "")
	post("/v1/tx/"+tx+"/seal?wait_ms=20000", "{}", "")
	select {
	case at := <-got:
		if !strings.HasPrefix(at, "00-"+trace+"-") {
			t.Errorf("the sink was given the traceparent %q", at)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the sink was not called")
	}
	spans := c.of(t, trace, "POST /v1/workspaces/{workspace}/tx", "POST /v1/tx/{tx}/writes", "POST /v1/tx/{tx}/effects",
		"POST /v1/tx/{tx}/seal", "hence.append", "hence.fold", "hence.decision", "hence.call order.ship")
	known := map[string]bool{"b7ad6b7169203331": true}
	for _, s := range spans {
		known[s.SpanID] = true
	}
	for _, s := range spans {
		if !known[s.Parent] {
			t.Errorf("%s has the parent %q, which is no span of the trace", s.Name, s.Parent)
		}
	}
	t.Logf("%d spans in one trace", len(spans))
}

// TestNoTelemetry: where no collector is named nothing is begun, and one that cannot be meant is refused.
func TestNoTelemetry(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "")
	none, err := otlp.Start("x", "", nil)
	if err != nil || none != (otlp.Telemetry{}) || none.Tracer("x") != nil {
		t.Errorf("%+v %v", none, err)
	}
	none.Stop(nil)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318")
	code, _, errs := hence(t, "dev", "--random-ports")
	if code != ExitFailed || !strings.Contains(errs, "OTEL_EXPORTER_OTLP_ENDPOINT") {
		t.Errorf("exit code %d, %s", code, errs)
	}
}
