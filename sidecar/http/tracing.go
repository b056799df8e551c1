package http

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/hence-dev/hence/sidecar/api"
)

// traced is the context of a request: part of the agent's trace, or of the one that its transaction has begun. end is
// told what was answered.
func (f *Face) traced(ctx context.Context, c *call, r *route) (_ context.Context, end func(*reply, error)) {
	if c.request.Header.Get("Traceparent") != "" {
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(c.request.Header))
	} else if sc := f.spanOf(c); sc.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, sc)
	}
	if f.Tracer == nil {
		return ctx, endNothing
	}
	ctx, span := f.Tracer.Start(ctx, r.method+" "+r.pattern, trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attribute.String("http.request.method", r.method), attribute.String("http.route", r.pattern),
			attribute.String("hence.workspace", f.Name), attribute.String("hence.agent", c.agent.Name)))
	if id := c.params.get("tx"); id != "" {
		span.SetAttributes(attribute.String("hence.tx", id))
	}
	return ctx, func(out *reply, err error) {
		if err != nil {
			p := api.AsProblem(err)
			span.SetAttributes(attribute.String("error.type", p.Code), attribute.Int("http.response.status_code", p.Status))
		} else {
			span.SetAttributes(attribute.Int("http.response.status_code", out.status))
		}
		span.End()
	}
}

func endNothing(*reply, error) {}

// spanOf is the span that the work of the transaction belongs to that a request names; not valid: none.
func (f *Face) spanOf(c *call) trace.SpanContext {
	if c.agent.Span == nil || c.params.get("tx") == "" {
		return trace.SpanContext{}
	}
	return c.agent.Span(c.params.get("tx"))
}
