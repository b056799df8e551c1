package embedded

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The servers' own process needs no sockets; others do. Clients outlive a stop of either server.
func TestDial(t *testing.T) {
	s, err := Start(t.Context(), Options{DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	kafka, at := s.Brokers[0], strings.TrimPrefix(s.NATS, "nats://")
	for _, address := range []string{kafka, at} {
		if got := networkOf(t, s, address); got != "within" {
			t.Errorf("%s is reached over %s", address, got)
		}
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(kafka), kgo.Dialer(s.Dial), kgo.DefaultProduceTopic("t"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), 1, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	back := make(chan struct{}, 1)
	conn, err := nats.Connect(s.NATS, nats.SetCustomDialer(dialer(s.Dial)), nats.MaxReconnects(-1),
		nats.ReconnectWait(time.Millisecond), nats.ReconnectJitter(0, 0),
		nats.ReconnectHandler(func(*nats.Conn) { back <- struct{}{} }))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for range 2 {
		if err := cl.ProduceSync(t.Context(), kgo.StringRecord("x")).FirstErr(); err != nil {
			t.Error(err)
		}
		if _, err := conn.RTT(); err != nil { // it has an answer of the server
			t.Error(err)
		}
		s.StopKafka()
		s.StopNATS()
		for _, address := range []string{kafka, at} {
			if c, err := s.Dial(t.Context(), "tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("%s has stopped: %v, %v", address, c, err)
			}
		}
		if err := errors.Join(s.StartKafka(), s.StartNATS()); err != nil {
			t.Fatal(err)
		}
		select {
		case <-back:
		case <-time.After(time.Minute):
			t.Fatal("the client does not come back to NATS")
		}
		for _, address := range []string{kafka, at} {
			if got := networkOf(t, s, address); got != "within" {
				t.Errorf("%s is reached over %s after its restart", address, got)
			}
		}
	}
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if got := networkOf(t, s, other.Addr().String()); got != "tcp" {
		t.Errorf("another server is reached over %s", got)
	}
}

// A client that reads nothing does not keep NATS from its stop; what it was sent before is there, as far as it fits.
func TestStopBesideAClientThatDoesNotRead(t *testing.T) {
	s, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	deaf, err := s.Dial(t.Context(), "tcp", strings.TrimPrefix(s.NATS, "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	if _, err := deaf.Write([]byte("CONNECT {\"verbose\":false}\r\nSUB x 1\r\nPING\r\n")); err != nil {
		t.Fatal(err)
	}
	for line, lines := "", bufio.NewReader(deaf); !strings.HasPrefix(line, "PONG"); { // then it has subscribed
		if line, err = lines.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	conn, err := nats.Connect(s.NATS, nats.NoReconnect())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for range 8 {
		if err := conn.Publish("x", make([]byte, pipeBytes)); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	in := deaf.(*pipe).in
	for full := false; !full; runtime.Gosched() {
		in.mu.Lock()
		full = in.n == pipeBytes
		in.mu.Unlock()
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.StopNATS()
	}()
	select {
	case <-stopped:
	case <-time.After(8 * time.Second): // less than the server waits for a client
		t.Error("it does not stop")
		_ = deaf.Close()
		<-stopped
	}
	if got, err := io.ReadAll(deaf); err != nil || len(got) < pipeBytes {
		t.Errorf("%d bytes are left of what it was sent, %v", len(got), err)
	}
}

// networkOf is how Dial reaches an address.
func networkOf(t *testing.T, s *Servers, address string) string {
	t.Helper()
	conn, err := s.Dial(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.RemoteAddr().Network()
}

// dialer is streams.Dialer, which this package does not import.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// Dial implements nats.CustomDialer.
func (d dialer) Dial(network, address string) (net.Conn, error) {
	return d(context.Background(), network, address)
}

// The effective setting of the server, not what it was asked for.
func TestSyncIsOfBothServers(t *testing.T) {
	for _, sync := range []bool{false, true} {
		s, err := Start(t.Context(), Options{DataDir: t.TempDir(), Sync: sync})
		if err != nil {
			t.Fatal(err)
		}
		if got := s.nats.JetStreamConfig().SyncAlways; got != sync {
			t.Errorf("with Sync %t JetStream syncs each message: %t", sync, got)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
