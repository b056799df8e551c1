package otlp

import (
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// The shapes of OTLP as JSON: 64-bit numbers are texts, ids are hexadecimal.
type (
	request struct {
		ResourceSpans []resourceSpans `json:"resourceSpans"`
	}
	resourceSpans struct {
		Resource   resource     `json:"resource"`
		ScopeSpans []scopeSpans `json:"scopeSpans"`
	}
	resource struct {
		Attributes []keyValue `json:"attributes"`
	}
	scopeSpans struct {
		Scope scope  `json:"scope"`
		Spans []span `json:"spans"`
	}
	scope struct {
		Name    string `json:"name"`
		Version string `json:"version,omitempty"`
	}
	span struct {
		TraceID    string     `json:"traceId"`
		SpanID     string     `json:"spanId"`
		ParentID   string     `json:"parentSpanId,omitempty"`
		Flags      uint32     `json:"flags"`
		Name       string     `json:"name"`
		Kind       int        `json:"kind"`
		Start      string     `json:"startTimeUnixNano"`
		End        string     `json:"endTimeUnixNano"`
		Attributes []keyValue `json:"attributes,omitempty"`
		Events     []event    `json:"events,omitempty"`
		Status     status     `json:"status"`
	}
	event struct {
		At         string     `json:"timeUnixNano"`
		Name       string     `json:"name"`
		Attributes []keyValue `json:"attributes,omitempty"`
	}
	status struct {
		Code    int    `json:"code,omitempty"`
		Message string `json:"message,omitempty"`
	}
	keyValue struct {
		Key   string `json:"key"`
		Value value  `json:"value"`
	}
	value struct {
		Text  *string  `json:"stringValue,omitempty"`
		Bool  *bool    `json:"boolValue,omitempty"`
		Int   *string  `json:"intValue,omitempty"`
		Float *float64 `json:"doubleValue,omitempty"`
	}
)

// The numbers of the wire's enumerations.
const (
	statusOK    = 1
	statusError = 2
)

// requestOf gathers spans by the library that made them. All are of one process, so of one resource.
func requestOf(spans []sdktrace.ReadOnlySpan) request {
	all := resourceSpans{Resource: resource{attributes(spans[0].Resource().Attributes())}}
	place := map[scope]int{}
	for _, s := range spans {
		by := scope{s.InstrumentationScope().Name, s.InstrumentationScope().Version}
		i, known := place[by]
		if !known {
			i = len(all.ScopeSpans)
			place[by] = i
			all.ScopeSpans = append(all.ScopeSpans, scopeSpans{Scope: by})
		}
		all.ScopeSpans[i].Spans = append(all.ScopeSpans[i].Spans, spanOf(s))
	}
	return request{[]resourceSpans{all}}
}

func spanOf(s sdktrace.ReadOnlySpan) span {
	sc := s.SpanContext()
	out := span{TraceID: sc.TraceID().String(), SpanID: sc.SpanID().String(), Flags: uint32(sc.TraceFlags()),
		Name: s.Name(), Kind: kindOf(s.SpanKind()), Start: nanos(s.StartTime()), End: nanos(s.EndTime()),
		Attributes: attributes(s.Attributes())}
	if s.Parent().HasSpanID() {
		out.ParentID = s.Parent().SpanID().String()
	}
	for _, e := range s.Events() {
		out.Events = append(out.Events, event{nanos(e.Time), e.Name, attributes(e.Attributes)})
	}
	switch s.Status().Code {
	case codes.Ok:
		out.Status.Code = statusOK
	case codes.Error:
		out.Status = status{statusError, s.Status().Description}
	}
	return out
}

// kindOf is the wire's number of a kind.
func kindOf(k trace.SpanKind) int {
	switch k {
	case trace.SpanKindServer:
		return 2
	case trace.SpanKindClient:
		return 3
	case trace.SpanKindProducer:
		return 4
	case trace.SpanKindConsumer:
		return 5
	}
	return 1
}

func nanos(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }

func attributes(list []attribute.KeyValue) []keyValue {
	out := make([]keyValue, 0, len(list))
	for _, a := range list {
		out = append(out, keyValue{string(a.Key), valueOf(a.Value)})
	}
	return out
}

// valueOf writes a value; lists become one text.
func valueOf(v attribute.Value) value {
	switch v.Type() {
	case attribute.BOOL:
		b := v.AsBool()
		return value{Bool: &b}
	case attribute.INT64:
		n := strconv.FormatInt(v.AsInt64(), 10)
		return value{Int: &n}
	case attribute.FLOAT64:
		f := v.AsFloat64()
		return value{Float: &f}
	}
	text := v.String()
	return value{Text: &text}
}
