package http

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"go.opentelemetry.io/otel/trace"
)

const (
	agentTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	someTrace  = "0af7651916cd43dd8448eb211c80319c"
)

// newUntraced is a request of a transaction where no tracer is set.
func newUntraced() (*fake, *Face, *call, *route) {
	agent := newFake()
	f := &Face{}
	seat := &Seat{Agent: agent, Name: "a", Span: func(string) trace.SpanContext { return agent.span }}
	c := &call{agent: seat, request: httptest.NewRequest(http.MethodPost, "/v1/tx/a.1.1/seal", nil),
		params: params{{"tx", "a.1.1"}}}
	return agent, f, c, &f.table()[0]
}

// traceIn is the trace that a context belongs to; empty: none.
func traceIn(ctx context.Context) string {
	if sc := trace.SpanContextFromContext(ctx); sc.IsValid() {
		return sc.TraceID().String()
	}
	return ""
}

// Where no tracer is set and the agent sends no traceparent, tracing allocates nothing at all.
func TestUntracedIsFree(t *testing.T) {
	_, f, c, r := newUntraced()
	n := testing.AllocsPerRun(100, func() {
		_, end := f.traced(context.Background(), c, r)
		end(nil, nil)
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// What an agent sends as its traceparent goes on without a tracer; what is none does not; a request of a transaction
// belongs to the trace that the transaction was begun in.
func TestTraceparent(t *testing.T) {
	agent, f, c, r := newUntraced()
	for text, want := range map[string]string{agentTrace: someTrace, "": "", "00-zz-1-01": "",
		"00-00000000000000000000000000000000-b7ad6b7169203331-01": "", agentTrace + "\n": ""} {
		c.request.Header.Set("Traceparent", text)
		ctx, end := f.traced(t.Context(), c, r)
		if got := traceIn(ctx); got != want {
			t.Errorf("%q goes on as %q, want %q", text, got, want)
		}
		end(nil, nil)
	}
	c.request.Header.Del("Traceparent")
	agent.span = trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}})
	if ctx, _ := f.traced(t.Context(), c, r); traceIn(ctx) != agent.span.TraceID().String() {
		t.Errorf("a later request of the transaction: %q", traceIn(ctx))
	}
	c.request.Header.Set("Traceparent", agentTrace)
	if ctx, _ := f.traced(t.Context(), c, r); traceIn(ctx) != someTrace {
		t.Errorf("what the agent sends comes first: %q", traceIn(ctx))
	}
}
