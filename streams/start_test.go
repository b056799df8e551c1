package streams_test

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/embedded"
	"github.com/hence-dev/hence/topology"
)

// freePort is a port of 127.0.0.1 that nobody listens on.
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
	w := &world{t: t, cfg: cfg}
	for part, err := range health.Ready() {
		if err == nil && part != "replicas" {
			t.Errorf("%s is well before anything has started", part)
		}
	}
	t.Cleanup(func() { // behind the processors' and the clients' ends
		if w.servers != nil {
			if err := w.servers.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	w.run(cfg)
	c := w.dial(cfg)
	v := w.follow(c, "shop")
	joined := make(chan error, 1)
	go func() {
		_, err := c.Append(w.context(), "shop", &sequencer.Intent{Kind: sequencer.IntentJoin, N: 1, Agent: "ann",
			Join: &sequencer.Join{ID: "j"}})
		joined <- err
	}()
	w.until("the waits", func() bool {
		r := health.Ready()
		return r["kafka"] != nil && strings.Contains(r["kafka"].Error(), at(o.KafkaPort)) &&
			r["nats"] != nil && strings.Contains(r["nats"].Error(), at(o.NATSPort)) && r["sequencer"] != nil
	})
	var err error
	if w.servers, err = embedded.Start(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	w.until("all", func() bool {
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
	w.until("its decision", func() bool { return v.len() == 1 })
	w.until("the client", func() bool {
		for _, err := range c.Ready(w.context()) {
			if err != nil {
				return false
			}
		}
		return true
	})
	w.servers.StopNATS()
	w.until("NATS gone", func() bool { return health.Ready()["nats"] != nil })
	w.servers.StopKafka()
	w.until("Kafka gone", func() bool { return health.Ready()["kafka"] != nil })
}

// Topics that others create are waited for; wrong ones are not.
func TestMissingTopics(t *testing.T) {
	servers, err := embedded.Start(t.Context(), embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = servers.Close() })
	health := new(streams.Health)
	w := &world{t: t, servers: servers, cfg: streams.Config{Brokers: servers.Brokers, NATS: servers.NATS, Partitions: 2,
		Instance: "one", MemoryStream: true, Health: health}}
	w.run(w.cfg)
	w.until("the wait", func() bool {
		err := health.Ready()["topics"]
		return errors.Is(err, streams.ErrTopics) && strings.Contains(err.Error(), "hence topics create")
	})
	if err := streams.EnsureTopics(w.context(), w.cfg); err != nil {
		t.Fatal(err)
	}
	w.until("the start", func() bool { r := health.Ready(); return r["topics"] == nil && r["sequencer"] == nil })
	wrong := w.cfg
	wrong.Partitions, wrong.CreateTopics, wrong.Health = 4, true, new(streams.Health)
	if err := streams.Run(w.context(), wrong); !errors.Is(err, streams.ErrTopics) {
		t.Errorf("started on topics with other partitions: %v", err)
	}
	if err := wrong.Health.Ready()["topics"]; !errors.Is(err, streams.ErrTopics) {
		t.Errorf("their health: %v", err)
	}
}

// A cluster may ask for more acknowledgements than a client that does not know its size.
func TestStricterTopics(t *testing.T) {
	w := newWorld(t)
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.cfg.Brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	set := func(n string) []streams.Problem {
		if _, err := kadm.NewClient(cl).AlterTopicConfigs(t.Context(),
			[]kadm.AlterConfig{{Name: "min.insync.replicas", Value: &n}}, topology.TopicIntents); err != nil {
			t.Fatal(err)
		}
		problems, err := streams.VerifyTopics(t.Context(), w.cfg)
		if err != nil {
			t.Fatal(err)
		}
		return problems
	}
	if p := set("2"); len(p) > 0 {
		t.Errorf("stricter than asked for: %v", p)
	}
	if p := set("0"); len(p) != 1 {
		t.Errorf("weaker than asked for: %v", p)
	}
}
