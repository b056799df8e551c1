package http

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/hence-dev/hence/sidecar/api"
)

// Traced is the context of a request: part of the agent's trace, or of the one that its transaction has begun. end is
// told what was answered.
func (f *Face) Traced(ctx context.Context, c *Call, r *Route) (_ context.Context, end func(*Reply, error)) {
	if c.Request.Header.Get("Traceparent") != "" {
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(c.Request.Header))
	} else if sc := f.spanOf(c); sc.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, sc)
	}
	if f.Tracer == nil {
		return ctx, endNothing
	}
	ctx, span := f.Tracer.Start(ctx, r.Method+" "+r.Pattern, trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attribute.String("http.request.method", r.Method), attribute.String("http.route", r.Pattern),
			attribute.String("hence.workspace", f.Name), attribute.String("hence.agent", c.Agent.Name)))
	if id := c.Params["tx"]; id != "" {
		span.SetAttributes(attribute.String("hence.tx", id))
	}
	return ctx, func(out *Reply, err error) {
		if err != nil {
			p := api.AsProblem(err)
			span.SetAttributes(attribute.String("error.type", p.Code), attribute.Int("http.response.status_code", p.Status))
		} else {
			span.SetAttributes(attribute.Int("http.response.status_code", out.Status))
		}
		span.End()
	}
}

func endNothing(*Reply, error) {}

// spanOf is the span that the work of the transaction belongs to that a request names; not valid: none.
func (f *Face) spanOf(c *Call) trace.SpanContext {
	if c.Agent.Span == nil || c.Params["tx"] == "" {
		return trace.SpanContext{}
	}
	return c.Agent.Span(c.Params["tx"])
}
