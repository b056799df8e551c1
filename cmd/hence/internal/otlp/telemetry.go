package otlp

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	sdkresource "go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// lastExport is how long a process that ends still tries to send the spans that it has.
const lastExport = 3 * time.Second

// Telemetry sends spans to a collector when OTEL_EXPORTER_OTLP_ENDPOINT names one. Otherwise it is nothing: no
// provider, no goroutine.
type Telemetry struct{ provider *sdktrace.TracerProvider }

// Start reads the standard variables. Service is the name under which the spans of this version of the program are
// shown, unless OTEL_SERVICE_NAME gives another one.
func Start(service, version string, log *slog.Logger) (Telemetry, error) {
	if !Enabled(os.Getenv) {
		return Telemetry{}, nil
	}
	settings, err := FromEnv(os.Getenv)
	if err != nil {
		return Telemetry{}, err
	}
	about, err := sdkresource.New(context.Background(), sdkresource.WithAttributes(
		attribute.String("service.name", service), attribute.String("service.version", version)),
		sdkresource.WithFromEnv(), sdkresource.WithTelemetrySDK())
	if err != nil {
		return Telemetry{}, fmt.Errorf("read OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(New(settings)), sdktrace.WithResource(about))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("failed to export spans", "error", err) }))
	otel.SetTracerProvider(provider)
	return Telemetry{provider}, nil
}

// Tracer begins the spans of a part of the process; nil: there are none.
func (t Telemetry) Tracer(name string) trace.Tracer {
	if t.provider == nil {
		return nil
	}
	return t.provider.Tracer(name)
}

// Stop sends what is left.
func (t Telemetry) Stop(log *slog.Logger) {
	if t.provider == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastExport)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		log.Warn("failed to export the last spans", "error", err)
	}
}
