package agent

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	face "github.com/hence-dev/hence/sidecar/http"
)

const agentTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// untraced goes through everything that tracing adds to a transaction's requests, with no tracer set.
func untraced(s *process, c *face.Call, r *face.Route, t *tx, in *sequencer.Intent) {
	ctx, end := s.face.Traced(context.Background(), c, r)
	s.session.loop.Run(func() { s.session.traces(ctx, t) })
	ctx, appended := s.session.tracing.append(under(ctx, s.session.Span(string(t.id))), in)
	appended(1, nil)
	s.session.tracing.decided(t, &sequencer.Outcome{}, time.Time{})
	if traceOf(ctx) != "" {
		panic("a trace from nowhere")
	}
	end(nil, nil)
}

// newUntraced is a sidecar that is not run, with one transaction.
func newUntraced(tb testing.TB) (*process, *face.Call, *face.Route, *tx, *sequencer.Intent) {
	tb.Helper()
	s, err := assemble(setup{Agent: "a", Logger: slog.New(slog.DiscardHandler)}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	t := newTx("a.1.1", 1, 1, sequencer.Begin{}, time.Time{})
	s.session.txs[t.id], s.face = t, &face.Face{Config: face.Config{Agent: s.session}}
	c := &face.Call{Agent: s.session, Request: httptest.NewRequest(http.MethodPost, "/v1/tx/a.1.1/seal", nil),
		Params: map[string]string{"tx": "a.1.1"}}
	return s, c, &s.face.Table()[0], t, &sequencer.Intent{}
}

// Where no tracer is set and the agent sends no traceparent, tracing allocates nothing at all.
func TestUntracedIsFree(t *testing.T) {
	s, c, r, tx, in := newUntraced(t)
	if n := testing.AllocsPerRun(100, func() { untraced(s, c, r, tx, in) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkUntraced is what tracing costs one request of a transaction where no tracer is set; compare it with
// BenchmarkTransaction, of which it is a part five times.
func BenchmarkUntraced(b *testing.B) {
	s, c, r, tx, in := newUntraced(b)
	for b.Loop() {
		untraced(s, c, r, tx, in)
	}
}

// What an agent sends as its traceparent goes on without a tracer; what is none does not; a transaction keeps the
// trace that it was begun in.
func TestTraceparent(t *testing.T) {
	s, c, r, tx, _ := newUntraced(t)
	for text, want := range map[string]string{agentTrace: agentTrace, "": "", "00-zz-1-01": "",
		"00-00000000000000000000000000000000-b7ad6b7169203331-01": "", agentTrace + "\n": ""} {
		c.Request.Header.Set("Traceparent", text)
		ctx, end := s.face.Traced(t.Context(), c, r)
		if got := traceOf(ctx); got != want {
			t.Errorf("%q goes on as %q, want %q", text, got, want)
		}
		end(nil, nil)
	}
	c.Request.Header.Set("Traceparent", agentTrace)
	ctx, _ := s.face.Traced(t.Context(), c, r)
	s.session.loop.Run(func() { s.session.traces(ctx, tx) })
	c.Request.Header.Del("Traceparent")
	if ctx, _ = s.face.Traced(t.Context(), c, r); traceOf(ctx) != agentTrace {
		t.Errorf("a later request of the transaction: %q", traceOf(ctx))
	}
	if s.session.tracing.tracer != nil {
		t.Error("a tracer was set")
	}
}
