package streams

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/streams/embedded"
	"github.com/hence-dev/hence/topology"
)

func settled(t *testing.T) Config {
	t.Helper()
	servers, err := embedded.Start(t.Context(), embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := servers.Close(); err != nil {
			t.Error(err)
		}
	})
	cfg, err := Config{Brokers: servers.Brokers, NATS: servers.NATS, Partitions: 4, Instance: "one",
		MemoryStream: true}.Checked()
	if err != nil {
		t.Fatal(err)
	}
	if err := EnsureTopics(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// Every producer's effective settings, read back from the client that uses them.
func TestProducerSettings(t *testing.T) {
	cfg := settled(t)
	c, err := Dial(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	processors, err := kgo.NewClient(cfg.ProducerOptions(cfg.Linger, kgo.Lz4Compression())...)
	if err != nil {
		t.Fatal(err)
	}
	defer processors.Close()
	for name, p := range map[string]struct {
		cl     *kgo.Client
		linger time.Duration
		codec  kgo.CompressionCodec
	}{
		"intents":    {c.log, 0, kgo.NoCompression()},
		"events":     {c.events, 0, kgo.Lz4Compression()},
		"processors": {processors, 5 * time.Millisecond, kgo.Lz4Compression()},
	} {
		for setting, want := range map[string][2]any{
			"acks":         {p.cl.OptValue(kgo.RequiredAcks), kgo.AllISRAcks()},
			"idempotence":  {p.cl.OptValue(kgo.DisableIdempotentWrite), false},
			"linger":       {p.cl.OptValue(kgo.ProducerLinger), p.linger},
			"codec":        {p.cl.OptValue(kgo.ProducerBatchCompression), []kgo.CompressionCodec{p.codec}},
			"metadata age": {p.cl.OptValue(kgo.MetadataMinAge), 50 * time.Millisecond},
			"retries":      {p.cl.OptValue(kgo.RecordDeliveryTimeout), time.Duration(0)},
			"buffer":       {p.cl.OptValue(kgo.MaxBufferedRecords), int64(maxBufferRecords)},
		} {
			if fmt.Sprint(want[0]) != fmt.Sprint(want[1]) {
				t.Errorf("%s: %s is %v, want %v", name, setting, want[0], want[1])
			}
		}
		backoff := p.cl.OptValue(kgo.RetryBackoffFn).(func(int) time.Duration)
		if backoff(0) != 20*time.Millisecond || backoff(100) != maxRetryBackoff {
			t.Errorf("%s: retries after %v and %v", name, backoff(0), backoff(100))
		}
		place := p.cl.OptValue(kgo.RecordPartitioner).(kgo.Partitioner).ForTopic("t")
		for _, key := range []string{"shop", "shop|tx-1", "bank|shard:/a|b", "mill"} {
			if got := place.Partition(&kgo.Record{Key: []byte(key)}, 4); int32(got) != topology.PartitionOf(key, 4) {
				t.Errorf("%s: %q goes to %d, want %d", name, key, got, topology.PartitionOf(key, 4))
			}
		}
	}
}

// Every consumer's effective settings.
func TestConsumerSettings(t *testing.T) {
	cfg := settled(t)
	cl, err := kgo.NewClient(cfg.consumerOptions("t", 0, kgo.NewOffset().At(0))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if got := cl.OptValue(kgo.FetchMaxWait); fmt.Sprint(got) != fmt.Sprint(FetchMaxWait) {
		t.Errorf("fetch wait is %v", got)
	}
	if got := cl.OptValue(kgo.ConsumeResetOffset); fmt.Sprint(got) != fmt.Sprint(kgo.NewOffset().AtStart()) {
		t.Errorf("reset offset is %v", got)
	}
}

// Each client connects with the Dial that it is given; sarama's is in the settings of the processors.
func TestDialIsUsed(t *testing.T) {
	cfg := settled(t)
	var mu sync.Mutex
	dialled := make(map[string]bool)
	cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		dialled[address] = true
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	c, err := Dial(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := EndOffset(t.Context(), c.log, topology.TopicIntents, 0); err != nil {
		t.Fatal(err)
	}
	if err := c.nats.FlushTimeout(time.Minute); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, address := range []string{cfg.Brokers[0], strings.TrimPrefix(cfg.NATS, "nats://")} {
		if !dialled[address] {
			t.Errorf("%s was reached another way", address)
		}
	}
}

// Every topic's effective settings, read back from the broker.
func TestTopicSettings(t *testing.T) {
	cfg := settled(t)
	cl, err := kgo.NewClient(cfg.BaseOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	admin := kadm.NewClient(cl)
	for _, want := range cfg.Topics() {
		described, err := admin.DescribeTopicConfigs(t.Context(), want.Name)
		if err != nil {
			t.Fatal(err)
		}
		have := make(map[string]string)
		for _, c := range described[0].Configs {
			have[c.Key] = c.MaybeValue()
		}
		for _, k := range []string{
			"cleanup.policy", "retention.ms", "segment.bytes", "max.message.bytes", "min.insync.replicas",
		} {
			if have[k] != want.Config()[k] {
				t.Errorf("%s: %s is %q, want %q", want.Name, k, have[k], want.Config()[k])
			}
		}
		if want.IsTable() && (have["cleanup.policy"] != "compact,delete" || have["retention.ms"] != "-1" ||
			have["retention.bytes"] != "-1") {
			t.Errorf("%s is a table and would lose rows: %v", want.Name, have)
		}
		listed, err := admin.ListTopics(t.Context(), want.Name)
		if err != nil || len(listed[want.Name].Partitions) != 4 {
			t.Errorf("%s: %v, %v", want.Name, listed, err)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	ok := Config{Brokers: []string{"localhost:9092"}}
	if _, err := ok.Checked(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Config){
		"no brokers":      func(c *Config) { c.Brokers = nil },
		"three":           func(c *Config) { c.Partitions = 3 },
		"too many":        func(c *Config) { c.Partitions = 1 << 20 },
		"unknown replica": func(c *Config) { c.Replica = "c" },
		"TLS by Dial": func(c *Config) {
			c.Kafka.TLS, c.Dial = true, func(context.Context, string, string) (net.Conn, error) { return nil, nil }
		},
	} {
		bad := ok
		change(&bad)
		if _, err := bad.Checked(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
