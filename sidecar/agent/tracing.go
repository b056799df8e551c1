package agent

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
)

// tracing begins spans. Without a tracer it begins none, and only hands on what the agent sent: the W3C traceparent of
// a request goes into the events, into the records of the log and to the sinks either way.
type tracing struct{ tracer trace.Tracer }

// under is a context in a span that may have ended; an invalid one changes nothing.
func under(ctx context.Context, sc trace.SpanContext) context.Context {
	if !sc.IsValid() {
		return ctx
	}
	return trace.ContextWithRemoteSpanContext(ctx, sc)
}

// traceOf is the W3C traceparent of a context's span; empty: it has none.
func traceOf(ctx context.Context) string {
	sc := trace.SpanContextFromContext(ctx)
	if !sc.IsValid() {
		return ""
	}
	return fmt.Sprintf("00-%s-%s-%s", sc.TraceID(), sc.SpanID(), sc.TraceFlags()&trace.FlagsSampled)
}

// append is the context in which an intent is appended. An intent that belongs to no trace begins none.
func (g tracing) append(ctx context.Context, in *sequencer.Intent) (_ context.Context, end func(int64, error)) {
	if g.tracer == nil || !trace.SpanContextFromContext(ctx).IsValid() {
		return ctx, func(int64, error) {}
	}
	ctx, span := g.tracer.Start(ctx, "hence.append", trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(
		attribute.String("hence.intent", in.Kind.String()), attribute.String("hence.tx", string(in.Tx))))
	return ctx, func(offset int64, err error) {
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		} else {
			span.SetAttributes(attribute.Int64("messaging.kafka.offset", offset))
		}
		span.End()
	}
}

// decided is a span from the append of a transaction's seal to its decision in the view.
func (g tracing) decided(t *tx, o *sequencer.Outcome, now time.Time) {
	if g.tracer == nil || !t.trace.IsValid() {
		return
	}
	start := t.sentAt
	if start.IsZero() {
		start = now
	}
	_, span := g.tracer.Start(under(context.Background(), t.trace), "hence.decision", trace.WithTimestamp(start),
		trace.WithAttributes(attribute.String("hence.tx", string(t.id)), attribute.Int64("hence.seq", int64(o.Seq)),
			attribute.String("hence.kind", o.Kind.String())))
	if o.Code != "" {
		span.SetAttributes(attribute.String("hence.code", string(o.Code)))
	}
	span.End(trace.WithTimestamp(now))
}

// tracedAdapter makes a span of each call that leaves for a sink, under the span that the call was issued in.
type tracedAdapter struct {
	gate.Adapter
	tracing tracing
}

// Call is part of gate.Adapter.
func (a tracedAdapter) Call(ctx context.Context, c gate.Call) (gate.Answer, error) {
	return a.span(ctx, "hence.call ", c, a.Adapter.Call)
}

// LookUp is part of gate.Adapter.
func (a tracedAdapter) LookUp(ctx context.Context, c gate.Call) (gate.Answer, error) {
	return a.span(ctx, "hence.lookup ", c, a.Adapter.LookUp)
}

func (a tracedAdapter) span(ctx context.Context, what string, c gate.Call,
	call func(context.Context, gate.Call) (gate.Answer, error)) (gate.Answer, error) {
	parent := propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": c.Traceparent})
	ctx, span := a.tracing.tracer.Start(parent, what+c.Tool, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("hence.tx", string(c.Tx)), attribute.Int("hence.effect", int(c.Index)),
			attribute.Bool("hence.compensation", c.Compensates != "")))
	defer span.End()
	c.Traceparent = traceOf(ctx)
	answer, err := call(ctx, c)
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	} else {
		span.SetAttributes(attribute.Bool("hence.refused", answer.Refused), attribute.Bool("hence.absent", answer.Absent))
	}
	return answer, err
}
