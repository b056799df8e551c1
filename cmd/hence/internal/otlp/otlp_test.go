package otlp

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func lookup(env map[string]string) func(string) string {
	return func(name string) string { return env[name] }
}

// The standard variables say where spans go; what cannot be meant is refused with what to write, and no secret.
func TestFromEnv(t *testing.T) {
	const base, traces = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	for _, c := range []struct {
		env        map[string]string
		url, wrong string
	}{
		{env: map[string]string{base: "http://c:4318"}, url: "http://c:4318/v1/traces"},
		{env: map[string]string{base: "https://c:4318/x/"}, url: "https://c:4318/x/v1/traces"},
		{env: map[string]string{base: "http://c:4318", traces: "http://d:1/spans"}, url: "http://d:1/spans"},
		{env: map[string]string{base: "c:4318"}, wrong: "give http://host:4318"},
		{env: map[string]string{base: "http://c", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, wrong: "4318"},
		{env: map[string]string{base: "http://c", "OTEL_EXPORTER_OTLP_TIMEOUT": "10s"}, wrong: "give milliseconds"},
		{env: map[string]string{base: "http://c", "OTEL_EXPORTER_OTLP_HEADERS": "secret"}, wrong: "name=value"},
		{env: map[string]string{base: "http://c", "OTEL_EXPORTER_OTLP_CERTIFICATE": "/nothing"}, wrong: "CERTIFICATE"},
	} {
		s, err := FromEnv(lookup(c.env))
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%v: %v, want one with %q", c.env, err, c.wrong)
			}
			continue
		}
		if err != nil || s.URL != c.url || s.Timeout != 10*time.Second {
			t.Errorf("%v: %+v, %v", c.env, s, err)
		}
	}
	for _, c := range []struct {
		more map[string]string
		want bool
	}{{nil, true}, {map[string]string{"OTEL_SDK_DISABLED": "TRUE"}, false},
		{map[string]string{"OTEL_TRACES_EXPORTER": "none"}, false}, {map[string]string{base: ""}, false}} {
		env := map[string]string{base: "http://c"}
		maps.Copy(env, c.more)
		if Enabled(lookup(env)) != c.want {
			t.Errorf("%v: enabled is not %v", env, c.want)
		}
	}
}

// collect serves a collector that answers with the statuses in turn, then with 200, and keeps the last body.
func collect(t *testing.T, statuses ...int) (s Settings, asked *atomic.Int64, body *atomic.Pointer[[]byte]) {
	t.Helper()
	asked, body = new(atomic.Int64), new(atomic.Pointer[[]byte])
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("X-Key") != "a b" {
			t.Errorf("%v %v", err, r.Header)
		}
		body.Store(&text)
		if n := int(asked.Add(1)); n <= len(statuses) {
			w.WriteHeader(statuses[n-1])
		}
	}))
	t.Cleanup(server.Close)
	s, err := FromEnv(lookup(map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL,
		"OTEL_EXPORTER_OTLP_HEADERS": "x-key=a%20b"}))
	if err != nil {
		t.Fatal(err)
	}
	return s, asked, body
}

// export sends one trace of two spans and returns what the exporter said.
func export(t *testing.T, s Settings) (said error) {
	t.Helper()
	exporter := New(s)
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporterFunc(func(ctx context.Context,
		spans []sdktrace.ReadOnlySpan) error {
		if spans[0].Name() == "child" {
			said = exporter.ExportSpans(ctx, spans)
		}
		return nil
	})))
	ctx, parent := provider.Tracer("lib").Start(t.Context(), "parent")
	_, child := provider.Tracer("lib").Start(ctx, "child", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("s", "x"), attribute.Int64("i", 1<<60), attribute.Bool("b", true), attribute.Float64("f", .5)))
	child.SetStatus(codes.Error, "no")
	child.AddEvent("e")
	child.End()
	parent.End()
	if err := exporter.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	return said
}

type exporterFunc func(context.Context, []sdktrace.ReadOnlySpan) error

func (f exporterFunc) ExportSpans(ctx context.Context, s []sdktrace.ReadOnlySpan) error {
	return f(ctx, s)
}
func (exporterFunc) Shutdown(context.Context) error { return nil }

// A span is written as OTLP has it in JSON.
func TestExport(t *testing.T) {
	s, asked, body := collect(t)
	if err := export(t, s); err != nil || asked.Load() != 1 {
		t.Fatal(err, asked.Load())
	}
	var got request
	if err := json.Unmarshal(*body.Load(), &got); err != nil {
		t.Fatal(err)
	}
	span := got.ResourceSpans[0].ScopeSpans[0].Spans[0]
	if got.ResourceSpans[0].ScopeSpans[0].Scope.Name != "lib" || span.Name != "child" || span.Kind != 3 ||
		len(span.TraceID) != 32 || len(span.SpanID) != 16 || len(span.ParentID) != 16 || len(span.Start) != 19 ||
		span.Start > span.End || span.Status != (status{2, "no"}) || len(span.Events) != 1 || span.Flags&1 != 1 {
		t.Errorf("%s", *body.Load())
	}
	for _, text := range []string{`{"key":"s","value":{"stringValue":"x"}}`, `"intValue":"1152921504606846976"`,
		`"boolValue":true`, `"doubleValue":0.5`} {
		if !strings.Contains(string(*body.Load()), text) {
			t.Errorf("%s is not in %s", text, *body.Load())
		}
	}
}

// A collector that is busy is asked again; one that refuses is not; one that stays busy is given up.
func TestExportAgain(t *testing.T) {
	for _, c := range []struct {
		statuses []int
		asked    int64
		wrong    string
	}{{[]int{503, 429}, 3, ""}, {[]int{400}, 1, "400 Bad Request"}, {[]int{503, 503, 503, 503, 503}, 4, "503"}} {
		t.Run(c.wrong, func(t *testing.T) {
			t.Parallel()
			s, asked, _ := collect(t, c.statuses...)
			err := export(t, s)
			if asked.Load() != c.asked || (err == nil) != (c.wrong == "") ||
				err != nil && !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("asked %d times, %v", asked.Load(), err)
			}
		})
	}
}
