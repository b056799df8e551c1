package spans

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// post sends spans of a turn, each with its start and end in microseconds.
func post(t *testing.T, c *Collector, spans string) int {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/v1/traces",
		strings.NewReader(`{"resourceSpans":[{"scopeSpans":[{"spans":[`+spans+`]}]}]}`))
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	return w.Code
}

func span(trace, name string, start, end int, more string) string {
	return fmt.Sprintf(`{"traceId":%q,"name":%q,"startTimeUnixNano":"%d000","endTimeUnixNano":"%d000"%s}`, trace, name,
		1_000_000+start, 1_000_000+end, more)
}

// The parts of a decision are the times between the spans' ends, from whichever process they come and in any order.
func TestParts(t *testing.T) {
	c := New()
	events := `,"events":[{"name":"hence.publish","timeUnixNano":"1000450000"},` +
		`{"name":"hence.published","timeUnixNano":"1000460000"},{"name":"hence.published","timeUnixNano":"1000470000"}]`
	if code := post(t, c, span("t", "hence.fold", 430, 500, events)); code != http.StatusOK {
		t.Fatalf("answered %d", code)
	}
	post(t, c, span("t", "hence.decision", 20, 700, "")+","+span("t", "hence.append", 20, 300, "")+","+
		span("t", "POST /v1/workspaces/{workspace}/commit", 0, 750, "")+","+span("t", "other", 0, 1, ""))
	post(t, c, span("half", "hence.append", 0, 1, ""))
	want := map[string]float64{"HTTP to append": 20, "append acknowledged": 280, "append to fold": 130, "fold": 20,
		"NATS publish call": 10, "publish to follower": 240, "view to answer": 50, "whole": 750}
	for _, part := range c.Parts() {
		if len(part.Took) != 1 || part.Took[0] != want[part.Name] {
			t.Errorf("%s took %v µs, want %v", part.Name, part.Took, want[part.Name])
		}
		delete(want, part.Name)
	}
	if len(want) > 0 {
		t.Errorf("there are no parts %v", want)
	}
	if code := post(t, c, "{"); code != http.StatusBadRequest {
		t.Errorf("what is no JSON is answered %d", code)
	}
}

// One in so many requests to commit carries a sampled trace, and no other request does.
func TestSampler(t *testing.T) {
	traced := map[string]int{}
	s := &Sampler{Every: 4, RoundTripper: roundTrip(func(r *http.Request) (*http.Response, error) {
		if trace := r.Header.Get("Traceparent"); len(trace) == 55 && strings.HasSuffix(trace, "-01") {
			traced[r.URL.Path]++
		}
		return nil, nil
	})}
	for range 12 {
		for _, path := range []string{"/v1/workspaces/w/commit", "/v1/workspaces/w/reads"} {
			_, _ = s.RoundTrip(httptest.NewRequest(http.MethodPost, path, nil))
		}
	}
	if traced["/v1/workspaces/w/commit"] != 3 || len(traced) != 1 {
		t.Errorf("traced %v", traced)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
