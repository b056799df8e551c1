package cli

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/hence-dev/hence/cmd/hence/internal/otlp"
)

// lastExport is how long a process that ends still tries to send the spans that it has.
const lastExport = 3 * time.Second

// telemetry sends spans to a collector when OTEL_EXPORTER_OTLP_ENDPOINT names one. Otherwise it is nothing: no
// provider, no goroutine.
type telemetry struct{ provider *sdktrace.TracerProvider }

// startTelemetry reads the standard variables. Service is the name under which spans are shown, unless
// OTEL_SERVICE_NAME gives another one.
func startTelemetry(service string, log *slog.Logger) (telemetry, error) {
	if !otlp.Enabled(os.Getenv) {
		return telemetry{}, nil
	}
	settings, err := otlp.FromEnv(os.Getenv)
	if err != nil {
		return telemetry{}, err
	}
	about, err := resource.New(context.Background(), resource.WithAttributes(attribute.String("service.name", service),
		attribute.String("service.version", binaryVersion())), resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil {
		return telemetry{}, fmt.Errorf("read OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(otlp.New(settings)), sdktrace.WithResource(about))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("spans are lost", "error", err) }))
	otel.SetTracerProvider(provider)
	return telemetry{provider}, nil
}

// tracer begins the spans of a part of the process; nil: there are none.
func (t telemetry) tracer(name string) trace.Tracer {
	if t.provider == nil {
		return nil
	}
	return t.provider.Tracer(name)
}

// stop sends what is left.
func (t telemetry) stop(log *slog.Logger) {
	if t.provider == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastExport)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		log.Warn("the last spans are lost", "error", err)
	}
}
