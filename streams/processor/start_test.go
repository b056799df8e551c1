package processor_test

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/embedded"
	"github.com/hence-dev/hence/streams/internal/teststreams"
	"github.com/hence-dev/hence/streams/processor"
)

// freePort is a port of 127.0.0.1 that is free.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// Processors and clients may be there before Kafka and NATS are. They say what they wait for, and begin.
func TestBeforeTheServers(t *testing.T) {
	o := embedded.Options{KafkaPort: freePort(t), NATSPort: freePort(t)}
	at := func(port int) string { return (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}).String() }
	health := new(streams.Health)
	cfg := streams.Config{Brokers: []string{at(o.KafkaPort)}, NATS: "nats://" + at(o.NATSPort), Partitions: 2,
		Instance: "one", MemoryStream: true, CreateTopics: true, Health: health}
	w := &teststreams.World{T: t, Cfg: cfg}
	for part, err := range health.Ready() {
		if err == nil && part != "replicas" {
			t.Errorf("%s is well before anything has started", part)
		}
	}
	t.Cleanup(func() { // behind the processors' and the clients' ends
		if w.Servers != nil {
			if err := w.Servers.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	w.Run(cfg)
	c := w.Dial(cfg)
	v := w.Follow(c, "shop")
	joined := make(chan error, 1)
	go func() {
		_, err := c.Append(w.Context(), "shop", &sequencer.Intent{Kind: sequencer.IntentJoin, N: 1, Agent: "ann",
			Join: &sequencer.Join{ID: "j"}})
		joined <- err
	}()
	w.Until("the waits", func() bool {
		r := health.Ready()
		return r["kafka"] != nil && strings.Contains(r["kafka"].Error(), at(o.KafkaPort)) &&
			r["nats"] != nil && strings.Contains(r["nats"].Error(), at(o.NATSPort)) && r["sequencer"] != nil
	})
	var err error
	if w.Servers, err = embedded.Start(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	w.Until("all", func() bool {
		for _, err := range health.Ready() {
			if err != nil {
				return false
			}
		}
		return true
	})
	if err := <-joined; err != nil {
		t.Errorf("what was appended before the log was there: %v", err)
	}
	w.Until("its decision", func() bool { return v.Len() == 1 })
	w.Until("the client", func() bool {
		for _, err := range c.Ready(w.Context()) {
			if err != nil {
				return false
			}
		}
		return true
	})
	w.Servers.StopNATS()
	w.Until("NATS gone", func() bool { return health.Ready()["nats"] != nil })
	w.Servers.StopKafka()
	w.Until("Kafka gone", func() bool { return health.Ready()["kafka"] != nil })
}

// Topics that others create are waited for; wrong ones are not.
func TestMissingTopics(t *testing.T) {
	servers, err := embedded.Start(t.Context(), embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = servers.Close() })
	health := new(streams.Health)
	w := &teststreams.World{T: t, Servers: servers, Cfg: streams.Config{Brokers: servers.Brokers,
		NATS: servers.NATS, Partitions: 2, Instance: "one", MemoryStream: true, Health: health}}
	w.Run(w.Cfg)
	w.Until("the wait", func() bool {
		err := health.Ready()["topics"]
		return errors.Is(err, streams.ErrTopics) && strings.Contains(err.Error(), "hence topics create")
	})
	if err := streams.EnsureTopics(w.Context(), w.Cfg); err != nil {
		t.Fatal(err)
	}
	w.Until("the start", func() bool { r := health.Ready(); return r["topics"] == nil && r["sequencer"] == nil })
	wrong := w.Cfg
	wrong.Partitions, wrong.CreateTopics, wrong.Health = 4, true, new(streams.Health)
	if err := processor.Run(w.Context(), wrong); !errors.Is(err, streams.ErrTopics) {
		t.Errorf("started on topics with other partitions: %v", err)
	}
	if err := wrong.Health.Ready()["topics"]; !errors.Is(err, streams.ErrTopics) {
		t.Errorf("their health: %v", err)
	}
}
