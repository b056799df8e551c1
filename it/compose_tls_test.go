package it

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestComposeTLS: the image serves HTTPS, and its own health check asks that way. Its brokers are away, so it is alive
// and not ready.
func TestComposeTLS(t *testing.T) {
	needCompose(t)
	files := t.TempDir()
	localhost(t, files)
	out, err := docker(commandBound, nil, "run", "-d", "--read-only", "--cap-drop=ALL", "--network=none",
		"-v", files+":/tls:ro", "-e", "HENCE_URL=https://localhost:7420", "-e", "HENCE_CA=/tls/cert.pem",
		"-e", "HENCE_TLS_CERT=/tls/cert.pem", "-e", "HENCE_TLS_KEY=/tls/key.pem", builtImages(t).hence,
		"sidecar", "--agent", "a", "--brokers", "127.0.0.1:1", "--nats", "nats://127.0.0.1:1")
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	id := strings.TrimSpace(out)
	t.Cleanup(func() { _, _ = docker(commandBound, nil, "rm", "-fv", id) })
	check := func(args ...string) (string, error) {
		return docker(commandBound, nil, append([]string{"exec", id, "hence", "healthcheck"}, args...)...)
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
	if said, err := check(); err == nil || !strings.Contains(said, "https://localhost:7420/readyz answers 503") {
		t.Errorf("the health check says %q, %v", said, err)
	}
	if said, err := check("--live", "--url", "http://localhost:7420"); err == nil {
		t.Errorf("plain HTTP is answered with %q", said)
	}
}

// localhost writes a certificate for that name, which signs itself, and its key. The image's user may read both.
func localhost(t *testing.T, dir string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	plain := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"localhost"}}
	cert, err := x509.CreateCertificate(rand.Reader, plain, plain, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: cert},
		"key.pem": {Type: "PRIVATE KEY", Bytes: key}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
