package compose

import (
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/harness"
)

// TestComposeTLS: the image serves HTTPS, and its own health check asks that way. Its brokers are away, so it is alive
// and not ready.
func TestComposeTLS(t *testing.T) {
	harness.NeedCompose(t)
	files := t.TempDir()
	localhost(t, files)
	out, err := harness.Docker(harness.CommandBound, nil, "run", "-d", "--read-only", "--cap-drop=ALL", "--network=none",
		"-v", files+":/tls:ro", "-e", "HENCE_URL=https://127.0.0.1:7420", "-e", "HENCE_CA=/tls/cert.pem",
		"-e", "HENCE_TLS_CERT=/tls/cert.pem", "-e", "HENCE_TLS_KEY=/tls/key.pem", harness.BuiltImages(t).Hence,
		"sidecar", "--agent", "a", "--brokers", "127.0.0.1:1", "--nats", "nats://127.0.0.1:1")
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	id := strings.TrimSpace(out)
	t.Cleanup(func() { _, _ = harness.Docker(harness.CommandBound, nil, "rm", "-fv", id) })
	check := func(args ...string) (string, error) {
		return harness.Docker(harness.CommandBound, nil, append([]string{"exec", id, "hence", "healthcheck"}, args...)...)
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for said, err := check("--live"); err != nil; said, err = check("--live") {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatalf("it is not alive: %s", said)
		}
	}
	if said, err := check(); err == nil || !strings.Contains(said, "https://127.0.0.1:7420/readyz answers 503") {
		t.Errorf("the health check says %q, %v", said, err)
	}
	if said, err := check("--live", "--url", "http://127.0.0.1:7420"); err == nil {
		t.Errorf("plain HTTP is answered with %q", said)
	}
}

// localhost writes the certificate of the test server of the standard library, which signs itself, and its key. The
// image's user may read both.
func localhost(t *testing.T, dir string) {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	pair := server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: pair.Certificate[0]},
		"key.pem": {Type: "PRIVATE KEY", Bytes: key}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// statusOf asks for a page and returns the status.
func statusOf(t *testing.T, url, token string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}
