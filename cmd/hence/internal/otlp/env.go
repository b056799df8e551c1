package otlp

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// Settings are where spans go and how.
type Settings struct {
	URL     string
	Header  http.Header
	Timeout time.Duration
	TLS     *tls.Config
}

// defaultTimeout is that of the standard.
const defaultTimeout = 10 * time.Second

// Enabled reports whether the environment asks for spans.
func Enabled(env func(string) string) bool {
	return !strings.EqualFold(env("OTEL_SDK_DISABLED"), "true") && env("OTEL_TRACES_EXPORTER") != "none" &&
		(env("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "")
}

// FromEnv reads the standard variables: OTEL_EXPORTER_OTLP_ENDPOINT, _HEADERS, _TIMEOUT, _CERTIFICATE, _PROTOCOL, each
// also with TRACES_ before its last word.
func FromEnv(env func(string) string) (Settings, error) {
	get := func(name string) string {
		return cmp.Or(env("OTEL_EXPORTER_OTLP_TRACES_"+name), env("OTEL_EXPORTER_OTLP_"+name))
	}
	s := Settings{Timeout: defaultTimeout, Header: http.Header{}}
	var err error
	if s.URL, err = endpoint(env); err != nil {
		return s, err
	}
	if protocol := get("PROTOCOL"); protocol != "" && !strings.HasPrefix(protocol, "http/") {
		return s, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q: spans go as http/json; set that, or leave it out, "+
			"and give the collector's HTTP port, 4318", protocol)
	}
	if text := get("TIMEOUT"); text != "" {
		ms, err := strconv.Atoi(text)
		if err != nil || ms < 1 {
			return s, fmt.Errorf("OTEL_EXPORTER_OTLP_TIMEOUT is %q: give milliseconds", text)
		}
		s.Timeout = time.Duration(ms) * time.Millisecond
	}
	if s.Header, err = headers(get("HEADERS")); err != nil {
		return s, err
	}
	if file := get("CERTIFICATE"); file != "" {
		if s.TLS, err = trusting(file); err != nil {
			return s, err
		}
	}
	return s, nil
}

// endpoint is the address of the spans: the common one has the standard's path added.
func endpoint(env func(string) string) (string, error) {
	name, path := "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", ""
	if env(name) == "" {
		name, path = "OTEL_EXPORTER_OTLP_ENDPOINT", "/v1/traces"
	}
	u, err := url.Parse(env(name))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", fmt.Errorf("%s is %q: give http://host:4318 or https://host:4318", name, env(name))
	}
	return strings.TrimSuffix(u.String(), "/") + path, nil
}

// headers reads name=value pairs with commas between them, the values escaped as in a URL.
func headers(text string) (http.Header, error) {
	h := http.Header{}
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || err != nil || strings.TrimSpace(name) == "" { // the text may hold a secret: it is not repeated
			return nil, errors.New("OTEL_EXPORTER_OTLP_HEADERS is not name=value,name=value with escaped values")
		}
		h.Set(strings.TrimSpace(name), value)
	}
	return h, nil
}

// trusting is TLS that trusts the certificates of a file alone.
func trusting(file string) (*tls.Config, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %s has no certificate in PEM", file)
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}
