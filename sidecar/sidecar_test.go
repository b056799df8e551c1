package sidecar

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hence-dev/hence/gate/upstream/mcptest"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/agent"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
)

func TestMain(m *testing.M) {
	mcptest.Main()
	goleak.VerifyTestMain(m)
}

// running is a sidecar that runs until the test ends, or until it is stopped.
type running struct {
	*Sidecar
	client *client.Client
	stop   func() error
}

// start runs a sidecar over a log in memory and waits until it is ready.
func start(t *testing.T, log agent.Log, c Config) *running {
	t.Helper()
	if c.Logger = slog.New(slog.NewTextHandler(t.Output(), nil)); c.DataDir == "" {
		c.DataDir = t.TempDir()
	}
	s := must(New(c, log))(t)
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{Sidecar: s, client: client.New(s.URL(), s.Token(), client.WithHTTPClient(&http.Client{}))}
	ended := make(chan struct{})
	var failed error
	go func() {
		defer close(ended)
		failed = s.Run(ctx)
	}()
	r.stop = func() error {
		cancel()
		<-ended
		r.client.Close()
		return failed
	}
	t.Cleanup(func() { _ = r.stop() })
	select {
	case <-s.Ready():
	case <-ended:
		t.Fatalf("the sidecar ended: %v", failed)
	case <-background(t).Done():
		t.Fatal("the sidecar is not ready")
	}
	return r
}

func background(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// must fails the test on an error and passes the value on.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// The configuration is checked before anything is opened.
func TestConfig(t *testing.T) {
	for want, c := range map[string]Config{
		"agent":                        {},
		`"A"`:                          {Agent: "A"},
		`"a|b"`:                        {Agent: "a|b"},
		strings.Repeat("a", 64):        {Agent: strings.Repeat("a", 64)},
		`"w.x"`:                        {Agent: "a", Workspace: "w.x"},
		"the token has 5":              {Agent: "a", Token: "short"},
		"the token has a character":    {Agent: "a", Token: "long enough but spaces"},
		"the operator's token has 5":   {Agent: "a", OperatorToken: "short"},
		"the operator's token has a c": {Agent: "a", OperatorToken: "long enough but spaces"},
		"listen for the agent":         {Agent: "a", Listen: "nowhere"},
		"a URL and a command":          {Agent: "a", Hook: Hook{URL: "http://x/", Command: []string{"y"}}},
		"the hook's URL is not one":    {Agent: "a", Hook: Hook{URL: "x"}},
		"the hook's time":              {Agent: "a", Hook: Hook{URL: "http://x/", Timeout: time.Hour}},
		"TLS without a certificate":    {Agent: "a", TLS: &tls.Config{}},
	} {
		s, err := New(c, memlog.New("default").Door())
		if err == nil {
			t.Errorf("%+v was taken", c)
			_ = s.Close()
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%+v is refused with %q, which does not say %q", c, err, want)
		}
	}
}

// A sidecar that is not run gives its listener back. One that is told no token makes one up, another each time.
func TestNotRun(t *testing.T) {
	log := memlog.New("default")
	s := must(New(Config{Agent: "a"}, log.Door()))(t)
	other := must(New(Config{Agent: "a"}, log.Door()))(t)
	if len(s.Token()) < leastToken || s.Token() == other.Token() {
		t.Errorf("the tokens %q and %q", s.Token(), other.Token())
	}
	for _, one := range []*Sidecar{s, other} {
		if err := one.Close(); err != nil {
			t.Fatal(err)
		}
	}
	l := must(net.Listen("tcp", s.Addr()))(t)
	_ = l.Close()
}

// A shard is put through one sidecar, read and written in a transaction of another one's agent, and read there again;
// each of them counts its own. The operator's token changes the rules.
func TestSmoke(t *testing.T) {
	log, ctx := memlog.New("default"), background(t)
	const operator = "the-operator's-own-token"
	a, b := start(t, log.Door(), Config{Agent: "a", OperatorToken: operator}), start(t, log.Door(), Config{Agent: "b"})
	d := must(a.client.Put(ctx, "shard:/x", []byte("one"), client.WriteOptions{}))(t)
	if err := b.view.Reach(ctx, sequencer.Seq(d.Seq)); err != nil {
		t.Fatal(err)
	}
	tx := must(b.client.Begin(ctx, client.BeginOptions{}))(t)
	got := must(tx.Read(ctx, "shard:/x"))(t)
	if string(got.Content) != "one" {
		t.Fatalf("read %+v", got)
	}
	if err := tx.Write(ctx, "shard:/x", []byte("two"), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if d = must(tx.Seal(ctx))(t); d.State != api.StateCommitted {
		t.Fatalf("seal: %+v", d)
	}
	if err := a.view.Reach(ctx, sequencer.Seq(d.Seq)); err != nil {
		t.Fatal(err)
	}
	if got = must(a.client.Get(ctx, "shard:/x"))(t); string(got.Content) != "two" {
		t.Errorf("the first one reads %+v", got)
	}
	if a, b := a.Counters(), b.Counters(); a.Committed != 1 || b.Committed != 1 || a.Refused+b.Refused != 0 {
		t.Errorf("counted are %+v and %+v", a, b)
	}
	if a.Refused() != nil || a.Displaced() != 0 {
		t.Errorf("refused %v, displaced %d", a.Refused(), a.Displaced())
	}
	person := client.New(a.URL(), operator)
	defer person.Close()
	observe := true
	rules := must(person.Rules(ctx))(t)
	if got := must(person.SetRules(ctx, rules.Version, client.RulesChange{Observe: &observe}))(t); !got.Observe {
		t.Errorf("the operator's change: %+v", got)
	}
}

// A farewell aborts what the agent has left open and leaves nothing.
func TestFarewell(t *testing.T) {
	log, ctx := memlog.New("default"), background(t)
	a := start(t, log.Door(), Config{Agent: "a", Order: sequencer.Ordered})
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	if left := a.Farewell(ctx); left != 0 {
		t.Errorf("%d are left", left)
	}
	last := log.Outcomes()[log.Seq()-1]
	if last.Kind != sequencer.OutcomeAborted || string(last.Tx) != tx.ID() || last.Code != sequencer.CodeAbortedByAgent {
		t.Errorf("the last decision is %+v", last)
	}
	if got := a.Counters(); got.Committed != 0 || got.Refused != 0 {
		t.Errorf("counted are %+v", got)
	}
}

// A stop takes as long as Limits.StopWait allows, whatever still waits: here a seal whose decision does not come. The
// next start on the same folder asks the log what became of it.
func TestStopWithin(t *testing.T) {
	log, ctx, dir := memlog.New("default"), background(t), t.TempDir()
	door := log.Door()
	c := Config{Agent: "a", DataDir: dir, Limits: Limits{StopWait: 300 * time.Millisecond}}
	a := start(t, door, c)
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	if err := tx.Write(ctx, "shard:/x", []byte("1"), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	door.Hold()
	at := log.Seq()
	sealed := make(chan struct{})
	go func() {
		defer close(sealed)
		_, _ = tx.Seal(ctx)
	}()
	if err := log.Until(ctx, func() bool { return log.Seq() > at }); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took > 3*time.Second {
		t.Errorf("the stop took %v", took)
	}
	<-sealed
	again := start(t, log.Door(), c)
	if d := must(again.client.Tx(tx.ID()).Status(ctx, 10*time.Second))(t); d.State != api.StateCommitted {
		t.Errorf("after the next start: %+v", d)
	}
}

// certificate makes one for 127.0.0.1, and the pool that trusts it.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	plain := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der := must(x509.CreateCertificate(rand.Reader, plain, plain, &key.PublicKey, key))(t)
	pool := x509.NewCertPool()
	pool.AddCert(must(x509.ParseCertificate(der))(t))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// With TLS on, plain HTTP is refused, and a client that does not trust the certificate has no connection.
func TestTLS(t *testing.T) {
	cert, pool := certificate(t)
	r := start(t, memlog.New("default").Door(), Config{Agent: "a",
		TLS: &tls.Config{Certificates: []tls.Certificate{cert}}})
	trusting := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	defer trusting.CloseIdleConnections()
	resp := must((&http.Client{Transport: trusting}).Get(r.URL() + "/healthz"))(t)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(r.URL(), "https://") || resp.TLS == nil {
		t.Errorf("%s: %d", r.URL(), resp.StatusCode)
	}
	other := &http.Transport{}
	defer other.CloseIdleConnections()
	if _, err := (&http.Client{Transport: other}).Get(r.URL() + "/healthz"); err == nil {
		t.Error("a certificate that no one vouches for was trusted")
	}
	plain := must((&http.Client{Transport: other}).Get("http://" + r.Addr() + "/healthz"))(t)
	text := must(io.ReadAll(plain.Body))(t)
	_ = plain.Body.Close()
	if plain.StatusCode != http.StatusBadRequest || !strings.Contains(string(text), "HTTP request to an HTTPS server") {
		t.Errorf("plain HTTP: %d %s", plain.StatusCode, text)
	}
}

// Each of the two listeners has a TLS configuration of its own: a server that begins to serve writes to its one, which
// the race detector sees where both have the same.
func TestTwoListenersWithTLS(t *testing.T) {
	cert, pool := certificate(t)
	r := start(t, memlog.New("default").Door(), Config{Agent: "a", SBus: SBus{Listen: "127.0.0.1:0"},
		TLS: &tls.Config{Certificates: []tls.Certificate{cert}}})
	trusting := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	defer trusting.CloseIdleConnections()
	for _, url := range []string{r.URL() + "/healthz", r.BusURL() + "/shards"} {
		resp := must((&http.Client{Transport: trusting}).Get(url))(t)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK || resp.TLS == nil {
			t.Errorf("%s: %d", url, resp.StatusCode)
		}
	}
}

// A stream goes over HTTP/2 as well, as curl and browsers speak it where there is TLS.
func TestWatchHTTP2(t *testing.T) {
	cert, pool := certificate(t)
	r := start(t, memlog.New("default").Door(), Config{Agent: "a",
		TLS: &tls.Config{Certificates: []tls.Certificate{cert}}})
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	q := must(http.NewRequestWithContext(t.Context(), http.MethodGet, r.URL()+"/v1/workspaces/default/decisions?after=0",
		nil))(t)
	q.Header.Set("Authorization", "Bearer "+r.Token())
	resp := must(transport.RoundTrip(q))(t)
	defer resp.Body.Close()
	if resp.ProtoMajor != 2 || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %s", resp.Proto, resp.Status)
	}
	lines := bufio.NewReader(resp.Body)
	for text := ""; !strings.Contains(text, "id: 1\nevent: joined\ndata: {"); {
		line, err := lines.ReadString('\n')
		if text += line; err != nil {
			t.Fatalf("%q: %v", text, err)
		}
	}
}
