package agent

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"github.com/hence-dev/hence/sequencer"
)

const agentTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// untraced goes through everything that tracing adds to a transaction, with no tracer set.
func untraced(ctx context.Context, s *process, t *tx, in *sequencer.Intent) {
	s.session.loop.Run(func() { s.session.traces(ctx, t) })
	if Span(s.session, string(t.id)).IsValid() {
		panic("a span from nowhere")
	}
	ctx, appended := s.session.tracing.append(under(ctx, Span(s.session, string(t.id))), in)
	appended(1, nil)
	s.session.tracing.decided(t, &sequencer.Outcome{}, time.Time{})
	if traceOf(ctx) != "" {
		panic("a trace from nowhere")
	}
}

// newUntraced is a sidecar that is not run, with one transaction.
func newUntraced(tb testing.TB) (*process, *tx, *sequencer.Intent) {
	tb.Helper()
	s, err := assemble(setup{Agent: "a", Logger: slog.New(slog.DiscardHandler)}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	t := newTx("a.1.1", 1, 1, sequencer.Begin{}, time.Time{})
	s.session.txs[t.id] = t
	return s, t, &sequencer.Intent{}
}

// Where no tracer is set and the agent sends no traceparent, tracing allocates nothing at all.
func TestUntracedIsFree(t *testing.T) {
	s, tx, in := newUntraced(t)
	if n := testing.AllocsPerRun(100, func() { untraced(context.Background(), s, tx, in) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkUntraced is what tracing costs one request of a transaction where no tracer is set; compare it with
// BenchmarkTransaction, of which it is a part five times.
func BenchmarkUntraced(b *testing.B) {
	s, tx, in := newUntraced(b)
	for b.Loop() {
		untraced(context.Background(), s, tx, in)
	}
}

// A transaction keeps the trace that it was begun in: its later requests belong to it.
func TestTraceOfATransaction(t *testing.T) {
	s, tx, _ := newUntraced(t)
	ctx := propagation.TraceContext{}.Extract(t.Context(), propagation.MapCarrier{"traceparent": agentTrace})
	s.session.loop.Run(func() { s.session.traces(ctx, tx) })
	if got := traceOf(under(t.Context(), Span(s.session, "a.1.1"))); got != agentTrace {
		t.Errorf("a later request of the transaction: %q", got)
	}
	if s.session.tracing.tracer != nil {
		t.Error("a tracer was set")
	}
}
