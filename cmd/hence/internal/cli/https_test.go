package cli

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

// pemFiles writes a certificate and its key.
func pemFiles(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	plain := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, plain, plain, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der},
		key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// TestHTTPSFlags: both files or neither; what cannot be read says which flags it was.
func TestHTTPSFlags(t *testing.T) {
	cert, key := pemFiles(t)
	if c, err := (https{}).load(); c != nil || err != nil {
		t.Errorf("no flags: %v %v", c, err)
	}
	if c, err := (https{TLSCert: cert, TLSKey: key}).load(); err != nil || len(c.Certificates) != 1 {
		t.Errorf("both flags: %v", err)
	}
	code, _, errs := hence(t, "sidecar", "--tls-cert", cert)
	if code != ExitUsage || !strings.Contains(errs, "go together") {
		t.Errorf("one of two: exit code %d, %s", code, errs)
	}
	for want, args := range map[string][]string{
		"--tls-key": {"--tls-cert", cert, "--tls-key", cert},
		"no such":   {"--tls-cert", cert, "--tls-key", key + "x"},
	} {
		code, _, errs := hence(t, append([]string{"sidecar", "--data-dir", t.TempDir()}, args...)...)
		if code != ExitFailed || !strings.Contains(errs, want) {
			t.Errorf("%v: exit code %d, %s", args, code, errs)
		}
	}
}
