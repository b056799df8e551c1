// Package otlp sends spans to an OpenTelemetry collector: OTLP over HTTP in its JSON form, which every collector takes
// on the port of OTLP/HTTP. The exporter of the OpenTelemetry project adds 3.5 MB to the binary, most of it gRPC and
// protobuf; this one adds what is below.
package otlp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/hence-dev/hence/topology/pause"
)

// Bounds of one export.
const (
	maxAnswer   = 4 << 10 // bytes of an answer that are read
	tries       = 4
	firstPause  = 250 * time.Millisecond // doubled for each further try
	maxInFlight = 1                      // the SDK exports one batch after the other
)

// Exporter sends batches of spans to one address. Make it with New.
type Exporter struct {
	url    string
	header http.Header
	client *http.Client
}

var _ sdktrace.SpanExporter = (*Exporter)(nil)

// New makes an exporter from settings; see FromEnv.
func New(s Settings) *Exporter {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: s.TLS, MaxConnsPerHost: maxInFlight}
	return &Exporter{url: s.URL, header: s.Header, client: &http.Client{Timeout: s.Timeout, Transport: transport}}
}

// ExportSpans sends a batch. What the collector does not take for good is lost; what it cannot take now is sent again
// a few times.
func (e *Exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if len(spans) == 0 {
		return nil
	}
	body, err := json.Marshal(requestOf(spans))
	if err != nil {
		return fmt.Errorf("write %d spans: %w", len(spans), err)
	}
	pauses := pause.Doubling{Least: firstPause, Most: firstPause << tries}
	for n := 1; ; n++ {
		again, err := e.post(ctx, body)
		if err == nil {
			return nil
		}
		if !again || n == tries {
			return fmt.Errorf("send %d spans to %s: %w", len(spans), e.url, err)
		}
		if end := pause.Sleep(ctx, pauses.Next()); end != nil {
			return fmt.Errorf("send %d spans to %s: %w", len(spans), e.url, errors.Join(err, end))
		}
	}
}

// post sends once; again: it may help to send it again.
func (e *Exporter) post(ctx context.Context, body []byte) (again bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	for name, values := range e.header {
		r.Header[name] = values
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := e.client.Do(r)
	if err != nil {
		return ctx.Err() == nil, err
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if resp.StatusCode/100 == 2 {
		return false, nil
	}
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		again = true
	}
	return again, fmt.Errorf("%s: %.200s", resp.Status, text)
}

// Shutdown gives the connections back.
func (e *Exporter) Shutdown(context.Context) error {
	e.client.CloseIdleConnections()
	return nil
}
