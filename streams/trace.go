package streams

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/hence-dev/hence/topology"
)

// traceparentBytes is the length of one of version 00; what is longer is not passed on.
const traceparentBytes = 55

// TraceOf is the traceparent of a context's span; empty: it has none.
func TraceOf(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier[topology.HeaderTrace]
}

// withTrace puts a traceparent into a record's headers, if there is one.
func withTrace(r *kgo.Record, traceparent string) *kgo.Record {
	if traceparent != "" && len(traceparent) <= traceparentBytes {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: topology.HeaderTrace, Value: []byte(traceparent)})
	}
	return r
}

// TraceIn is the traceparent of a record's headers; empty: they have none.
func TraceIn(h map[string][]byte) string {
	if v := h[topology.HeaderTrace]; len(v) == traceparentBytes {
		return string(v)
	}
	return ""
}
