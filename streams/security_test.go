package streams_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"maps"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/internal/teststreams"
)

// authority signs certificates for one test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string // its certificate, PEM
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, pool: x509.NewCertPool()}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true}
	der := a.sign(template, template, nil)
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pool.AddCert(a.cert)
	a.file = a.write("ca.pem", "CERTIFICATE", der)
	return a
}

// sign makes a key, the authority's own when it has none, and a certificate for it.
func (a *authority) sign(template, parent *x509.Certificate, keep func(*ecdsa.PrivateKey)) []byte {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	if keep != nil {
		keep(key)
	}
	if a.key == nil {
		a.key = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return der
}

// issue writes the files of a certificate for 127.0.0.1.
func (a *authority) issue(name string) (certFile, keyFile string) {
	a.t.Helper()
	var keyDER []byte
	der := a.sign(&x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}, a.cert,
		func(key *ecdsa.PrivateKey) {
			var err error
			if keyDER, err = x509.MarshalPKCS8PrivateKey(key); err != nil {
				a.t.Fatal(err)
			}
		})
	return a.write(name+".pem", "CERTIFICATE", der), a.write(name+".key", "PRIVATE KEY", keyDER)
}

func (a *authority) write(name, kind string, der []byte) string {
	a.t.Helper()
	return teststreams.SecretFile(a.t, name, string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
}

// serverTLS asks clients for a certificate of the same authority.
func (a *authority) serverTLS() *tls.Config {
	a.t.Helper()
	cert, key := a.issue("server")
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		a.t.Fatal(err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, ClientCAs: a.pool,
		ClientAuth: tls.RequireAndVerifyClientCert}
}

// clientTLS has a certificate of the authority's.
func (a *authority) clientTLS() *tls.Config {
	a.t.Helper()
	c := a.serverTLS()
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: c.Certificates, RootCAs: a.pool}
}

// guarded starts a Kafka and a NATS that want TLS, a certificate and a login, and returns what lets a client in.
func guarded(t *testing.T, method string) (w *teststreams.World, a *authority) {
	t.Helper()
	a = newAuthority(t)
	kafka, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.TLS(a.serverTLS()), kfake.EnableSASL(),
		kfake.Superuser(strings.ToUpper(method), "hence", "open sesame"),
		kfake.GroupMinSessionTimeout(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kafka.Close)
	ns := teststreams.StartNATS(t, &server.Options{TLSConfig: a.serverTLS(), TLSVerify: true, TLSTimeout: 5,
		Username: "hence", Password: "rosebud"})
	cert, key := a.issue("client")
	w = &teststreams.World{T: t, Cfg: streams.Config{Brokers: kafka.ListenAddrs(), NATS: ns.ClientURL(), Partitions: 2,
		Instance: "one", MemoryStream: true, CreateTopics: true, Health: new(streams.Health),
		Kafka: streams.Security{CA: a.file, Cert: cert, Key: key, SASL: method, User: "hence",
			PasswordFile: teststreams.SecretFile(t, "kafka", "open sesame\n")},
		NATSAuth: streams.NATSAuth{CA: a.file, Cert: cert, Key: key, User: "hence",
			PasswordFile: teststreams.SecretFile(t, "nats", "rosebud\n")}}}
	return w, a
}

// Everything works over TLS with a login of each kind, through franz-go, sarama and NATS alike.
func TestGuardedServers(t *testing.T) {
	for _, method := range []string{"plain", "scram-sha-256", "scram-sha-512"} {
		t.Run(method, func(t *testing.T) {
			w, _ := guarded(t, method)
			w.Run(w.Cfg)
			c := w.Dial(w.Cfg)
			v := w.Follow(c, "shop")
			ann := w.Join(c, v, "shop", "ann")
			w.Decided(v, ann.Write("x", "1"))
			w.Well(w.Cfg.Health)
			w.Until("NATS delivers", func() bool {
				w.Decided(v, ann.Write("x", "2"))
				return v.By(streams.WayNATS) > 0
			})
		})
	}
}

// Who may not come in is told why, and keeps trying.
func TestGuardedServersRefuse(t *testing.T) {
	w, _ := guarded(t, "scram-sha-256")
	stranger := newAuthority(t)
	guess := teststreams.SecretFile(t, "wrong", "guess")
	for _, x := range []struct {
		name, part, says string
		change           func(*streams.Config)
	}{
		{"plaintext", "kafka", "--kafka-tls", func(c *streams.Config) { c.Kafka = streams.Security{} }},
		{"wrong password", "kafka", "--kafka-password-file", func(c *streams.Config) { c.Kafka.PasswordFile = guess }},
		{"wrong way", "kafka", "--kafka-", func(c *streams.Config) { c.Kafka.SASL = "plain" }},
		{"untrusted broker", "kafka", "--kafka-ca", func(c *streams.Config) { c.Kafka.CA = stranger.file }},
		{"other name", "kafka", "--kafka-server-name", func(c *streams.Config) { c.Kafka.ServerName = "kafka.example" }},
		{"NATS: plaintext", "nats", "certificate", func(c *streams.Config) { c.NATSAuth = streams.NATSAuth{} }},
		{"NATS: no login", "nats", "uthorization", func(c *streams.Config) {
			c.NATSAuth.User, c.NATSAuth.PasswordFile = "", ""
		}},
		{"NATS: untrusted", "nats", "certificate", func(c *streams.Config) { c.NATSAuth.CA = stranger.file }},
		{"NATS: no certificate", "nats", "certificate", func(c *streams.Config) {
			c.NATSAuth.Cert, c.NATSAuth.Key = "", ""
		}},
		{"NATS: wrong password", "nats", "uthorization", func(c *streams.Config) { c.NATSAuth.PasswordFile = guess }},
	} {
		t.Run(x.name, func(t *testing.T) {
			cfg := w.Cfg
			x.change(&cfg)
			c, err := streams.Dial(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			w := &teststreams.World{T: t}
			said := ""
			w.Until("the reason", func() bool {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				err := c.Ready(ctx)[x.part]
				if err != nil {
					said = err.Error()
				}
				return strings.Contains(said, x.says)
			})
			t.Log(said)
		})
	}
}

// A fixed secret is taken without a restart.
func TestCorrectedPassword(t *testing.T) {
	w, _ := guarded(t, "plain")
	right := w.Cfg
	w.Cfg.Kafka.PasswordFile = teststreams.SecretFile(t, "kafka", "guess")
	w.Cfg.NATSAuth.PasswordFile = teststreams.SecretFile(t, "nats", "guess")
	w.Run(w.Cfg)
	for part, says := range map[string]string{"kafka": "--kafka-password-file", "nats": "uthorization"} {
		said := map[string]bool{} // a try that a busy machine made too slow says something else
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("%s said %q", part, slices.Collect(maps.Keys(said)))
			}
		})
		w.Until("the refusal by "+part, func() bool {
			err := w.Cfg.Health.Ready()[part]
			if err == nil {
				return false
			}
			said[err.Error()] = true
			return strings.Contains(err.Error(), says)
		})
	}
	for from, to := range map[string]string{right.Kafka.PasswordFile: w.Cfg.Kafka.PasswordFile,
		right.NATSAuth.PasswordFile: w.Cfg.NATSAuth.PasswordFile} {
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	w.Well(w.Cfg.Health)
}

// What cannot work is an error at once, that names the flag.
func TestSecurityIsChecked(t *testing.T) {
	a := newAuthority(t)
	cert, key := a.issue("client")
	empty, full := teststreams.SecretFile(t, "empty", "\n"), teststreams.SecretFile(t, "full", "x")
	missing := filepath.Join(t.TempDir(), "missing")
	for says, change := range map[string]func(*streams.Config){
		"--kafka-ca: open":             func(c *streams.Config) { c.Kafka.CA = missing },
		"no certificate in PEM":        func(c *streams.Config) { c.Kafka.CA = full },
		"--kafka-cert and --kafka-key": func(c *streams.Config) { c.Kafka.Cert = cert },
		"--kafka-sasl is":              func(c *streams.Config) { c.Kafka.SASL = "kerberos" },
		"needs --kafka-user":           func(c *streams.Config) { c.Kafka.SASL = "plain" },
		"give --kafka-sasl":            func(c *streams.Config) { c.Kafka.User = "hence" },
		"is empty": func(c *streams.Config) {
			c.Kafka.SASL, c.Kafka.User, c.Kafka.PasswordFile = "plain", "hence", empty
		},
		"--nats-ca":                     func(c *streams.Config) { c.NATSAuth.CA = missing },
		"--nats-cert and --nats-key":    func(c *streams.Config) { c.NATSAuth.Key = key },
		"--nats-creds":                  func(c *streams.Config) { c.NATSAuth.Creds = missing },
		"--nats-user and --nats-passwo": func(c *streams.Config) { c.NATSAuth.User = "hence" },
		"--nats-token-file":             func(c *streams.Config) { c.NATSAuth.TokenFile = empty },
	} {
		cfg := streams.Config{Brokers: []string{"127.0.0.1:1"}, NATS: "nats://127.0.0.1:1", Instance: "one"}
		change(&cfg)
		c, err := streams.Dial(t.Context(), cfg)
		if err == nil {
			c.Close()
		}
		if !errors.Is(err, streams.ErrConfig) || !strings.Contains(err.Error(), says) {
			t.Errorf("want %q, got: %v", says, err)
		}
	}
}
