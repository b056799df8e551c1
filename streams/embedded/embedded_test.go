package embedded_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/hence-dev/hence/streams/embedded"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestReadyInTime(t *testing.T) {
	began := time.Now()
	s, err := embedded.Start(t.Context(), embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	t.Logf("ready in %v", took)
	if took > time.Second {
		t.Errorf("ready in %v, a second is allowed", took)
	}
	write(t, s, "x")
	if s.Durable() {
		t.Error("servers without a data folder say that they are durable")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
}

func TestDataOutlivesTheServers(t *testing.T) {
	o := embedded.Options{DataDir: t.TempDir(), Sync: true}
	s, err := embedded.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	write(t, s, "x")
	if o.KafkaPort, err = embedded.Port(s.Brokers[0]); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = embedded.Start(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.Brokers...), kgo.ConsumeTopics("t"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if r := cl.PollFetches(t.Context()).Records(); len(r) != 1 || string(r[0].Value) != "x" {
		t.Errorf("Kafka has %v", r)
	}
	conn, js := dial(t, s)
	defer conn.Close()
	stream, err := js.Stream(t.Context(), "S")
	if err != nil {
		t.Fatal(err)
	}
	if m, err := stream.GetLastMsgForSubject(t.Context(), "s"); err != nil || string(m.Data) != "x" {
		t.Errorf("NATS has %v, %v", m, err)
	}
}

func TestTakenPort(t *testing.T) {
	s, err := embedded.Start(t.Context(), embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	port, err := embedded.Port(s.Brokers[0])
	if err != nil {
		t.Fatal(err)
	}
	if other, err := embedded.Start(t.Context(), embedded.Options{KafkaPort: port}); err == nil {
		t.Error("two servers on one port")
		_ = other.Close()
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := embedded.Start(ended, embedded.Options{}); err == nil {
		t.Error("started after its context ended")
	}
}

func dial(t *testing.T, s *embedded.Servers) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	conn, err := nats.Connect(s.NATS)
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return conn, js
}

func write(t *testing.T, s *embedded.Servers, value string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.Brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), 1, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: []byte(value)}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	conn, js := dial(t, s)
	defer conn.Close()
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "s", []byte(value)); err != nil {
		t.Fatal(err)
	}
}
