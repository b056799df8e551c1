package streams_test

import (
	"context"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/internal/teststreams"
	"github.com/hence-dev/hence/topology"
)

// The trace of a caller goes with its intent to the fold and with the decision to Kafka and NATS, also when another's
// record leads to the decision; chain and states do not know it.
func TestTraceGoesWithTheDecision(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	defer func() { _ = provider.Shutdown(context.Background()) }()
	w := teststreams.New(t, func(c *streams.Config) { c.Tracer = provider.Tracer("test") })
	conn, err := nats.Connect(w.Cfg.NATS)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	pushed, err := conn.SubscribeSync(topology.DecisionSubject("shop"))
	if err != nil {
		t.Fatal(err)
	}
	w.Run(w.Cfg)
	c := w.Dial(w.Cfg)
	v := w.Follow(c, "shop")
	ann, bob := w.Join(c, v, "shop", "ann"), w.Join(c, v, "shop", "bob")
	ann.Touched("a1", "db:/1")
	want := sequencer.Intent{Kind: sequencer.IntentTouch, Tx: "b1", N: 1, Agent: "bob", Incarnation: bob.Incarnation,
		Base: bob.Incarnation, Begin: &sequencer.Begin{},
		Touch: &sequencer.Touch{Wants: []sequencer.Want{{Scope: "db:/1", Access: sequencer.WriteAccess}}}}
	ctx, span := provider.Tracer("test").Start(w.Context(), "the agent's call")
	if _, err := c.Append(ctx, "shop", &want); err != nil {
		t.Fatal(err)
	}
	span.End()
	settle(ann, "a1") // without a trace: it is what b1 waits for
	granted := func(o *sequencer.Outcome) bool { return o.Tx == "b1" && o.Kind == sequencer.OutcomeGranted }
	w.Until("the grant", func() bool {
		for _, o := range v.All() {
			if granted(&o) {
				return true
			}
		}
		return false
	})
	id := span.SpanContext().TraceID()
	w.Complete(v, "shop")
	tracedInKafka(w, id.String())
	tracedOnNATS(w, pushed, id.String())
	folded := 0
	for _, s := range spans.Ended() {
		if s.Name() == "hence.fold" {
			folded++
			if s.SpanContext().TraceID() != id || s.Parent().SpanID() != span.SpanContext().SpanID() ||
				s.SpanKind() != trace.SpanKindConsumer {
				t.Errorf("a span of another trace: %+v", s)
			}
		}
	}
	if folded != 1 {
		t.Errorf("%d records were folded under a span, want 1", folded)
	}
}

// tracedInKafka holds that the decisions about b1, and only those, have a trace.
func tracedInKafka(w *teststreams.World, id string) {
	w.T.Helper()
	for _, r := range w.Records(topology.TopicDecisions) {
		e, err := topology.ReadCloudEvent(r.Value)
		if err != nil {
			w.T.Fatal(err)
		}
		header := ""
		for _, h := range r.Headers {
			if h.Key == "traceparent" {
				header = string(h.Value)
			}
		}
		if has := strings.Contains(e.Traceparent, id); has != (e.Outcome.Tx == "b1") || header != e.Traceparent {
			w.T.Errorf("decision %d of %s has the trace %q and the header %q", e.Outcome.Seq, e.Outcome.Tx, e.Traceparent,
				header)
		}
	}
}

// tracedOnNATS holds the same for what the subject has brought.
func tracedOnNATS(w *teststreams.World, pushed *nats.Subscription, id string) {
	w.T.Helper()
	for tx := ""; tx != "b1"; {
		m, err := pushed.NextMsgWithContext(w.Context())
		if err != nil {
			w.T.Fatal(err)
		}
		tx = m.Header.Get("Hence-Tx")
		if m.Header.Get("Hence-Intent-Ms") == "" {
			w.T.Errorf("on NATS %s does not say when its intent was appended: %v", tx, m.Header)
		}
		if has := strings.Contains(m.Header.Get("traceparent"), id); has != (tx == "b1") {
			w.T.Errorf("on NATS %s has %v", tx, m.Header)
		}
	}
}
