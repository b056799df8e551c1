package cli

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// privateAuthority writes the files of an unknown authority, and of a certificate of this host by it.
func privateAuthority(t *testing.T) (ca, cert, key string) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	var keys [2]*ecdsa.PrivateKey
	var ders [2][]byte
	soon := time.Now().Add(time.Hour)
	root := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: soon, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), NotAfter: soon, DNSNames: []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	for n, c := range []*x509.Certificate{root, leaf} {
		var err error
		if keys[n], err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			t.Fatal(err)
		}
		if ders[n], err = x509.CreateCertificate(rand.Reader, c, root, &keys[n].PublicKey, keys[0]); err != nil {
			t.Fatal(err)
		}
	}
	secret, err := x509.MarshalPKCS8PrivateKey(keys[1])
	if err != nil {
		t.Fatal(err)
	}
	return write("ca.pem", "CERTIFICATE", ders[0]), write("cert.pem", "CERTIFICATE", ders[1]),
		write("key.pem", "PRIVATE KEY", secret)
}

// startTLSSidecar runs "hence sidecar" with a certificate, and returns its address.
func startTLSSidecar(t *testing.T, dev Dev, token, cert, key string) string {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	out, w := io.Pipe()
	ended := make(chan int, 1)
	args := []string{"sidecar", "--listen", "127.0.0.1:0", "--agent", "tls", "--token", token, "--tls-cert", cert,
		"--tls-key", key, "--brokers", strings.Join(dev.Brokers, ","), "--nats", dev.NATS, "--data-dir", t.TempDir(),
		"-o", "json"}
	var errs strings.Builder
	go func() {
		ended <- Main(ctx, args, Streams{In: strings.NewReader(""), Out: w, Err: &errs})
		_ = w.Close()
	}()
	t.Cleanup(func() {
		stop()
		if code := <-ended; code != ExitOK {
			t.Errorf("hence sidecar ends with exit code %d: %s", code, errs.String())
		}
	})
	var ready struct{ Address string }
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &ready)
	}
	if err != nil || !strings.HasPrefix(ready.Address, "https://") {
		t.Fatalf("it says %q: %v", line, err)
	}
	return ready.Address
}

// TestCA asks a sidecar whose certificate a private authority signed: only who is told of that authority believes it.
func TestCA(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	ca, cert, key := privateAuthority(t)
	const token = "a-token-of-sixteen-or-more"
	dev := startDev(t)
	base := startTLSSidecar(t, dev, token, cert, key)
	for _, args := range [][]string{
		{"healthcheck", "--url", base},
		{"rules", "get", "--url", base, "--token", token},
		{"residue", "ls", "--url", base, "--token", token},
	} {
		if code, _, errs := hence(t, args...); code != ExitFailed || !strings.Contains(errs, "--ca (HENCE_CA)") {
			t.Errorf("%v: exit code %d, %s", args, code, errs)
		}
		if code, _, errs := hence(t, append(args, "--ca", ca)...); code != ExitOK {
			t.Errorf("%v --ca: exit code %d, %s", args, code, errs)
		}
		none, empty := ca+"x", key // a key is no certificate
		for _, file := range []string{none, empty} {
			if code, _, errs := hence(t, append(args, "--ca", file)...); code == ExitOK || !strings.Contains(errs, "--ca: ") {
				t.Errorf("%v --ca %s: exit code %d, %s", args, file, code, errs)
			}
		}
	}
	if code, _, errs := hence(t, "explain", "a.1.1", "--url", base, "--token", token, "--ca", ca); code != ExitFailed ||
		!strings.Contains(errs, "a.1.1") || strings.Contains(errs, "x509") {
		t.Errorf("explain: exit code %d, %s", code, errs)
	}
	args := []string{"--brokers", strings.Join(dev.Brokers, ","), "--nats", dev.NATS, "--sidecar", base, "--token", token,
		"--listen", strings.TrimPrefix(base, "https://")}
	_, d := diagnose(t, args...)
	holds(t, d, "sidecar", "problem", "cannot be trusted", "--ca FILE")
	_, d = diagnose(t, append(args, "--ca", ca)...)
	holds(t, d, "token", "ok", "accepts the token", "")
	holds(t, d, "ports", "ok", "is taken by a process of Hence", "")

	at, err := url.Parse(base) // and as the image's health check is told
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HENCE_URL", "https://localhost:"+at.Port())
	t.Setenv("HENCE_CA", ca)
	if code, _, errs := hence(t, "healthcheck"); code != ExitOK {
		t.Errorf("by the environment: exit code %d, %s", code, errs)
	}
}
