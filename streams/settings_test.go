package streams

import (
	"fmt"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/lovoo/goka"
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
		MemoryStream: true}.checked()
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
	processors, err := kgo.NewClient(cfg.producerOptions(cfg.Linger, kgo.Lz4Compression())...)
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
	if got := cl.OptValue(kgo.FetchMaxWait); fmt.Sprint(got) != fmt.Sprint(fetchMaxWait) {
		t.Errorf("fetch wait is %v", got)
	}
	if got := cl.OptValue(kgo.ConsumeResetOffset); fmt.Sprint(got) != fmt.Sprint(kgo.NewOffset().AtStart()) {
		t.Errorf("reset offset is %v", got)
	}
	s := cfg.saramaConfig("hence-sequencer")
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	for setting, ok := range map[string]bool{
		"oldest offset":     s.Consumer.Offsets.Initial == sarama.OffsetOldest,
		"auto commit":       s.Consumer.Offsets.AutoCommit.Enable,
		"commit interval":   s.Consumer.Offsets.AutoCommit.Interval == 200*time.Millisecond,
		"static membership": s.Consumer.Group.InstanceId == "one-hence-sequencer" && s.Version.IsAtLeast(sarama.V2_3_0_0),
		"heartbeat":         s.Consumer.Group.Heartbeat.Interval == 500*time.Millisecond,
		"session":           s.Consumer.Group.Session.Timeout == 6*time.Second,
		"copartitioned":     s.Consumer.Group.Rebalance.GroupStrategies[0] == goka.StrictCopartitioningStrategy,
		"acks":              s.Producer.RequiredAcks == sarama.WaitForAll,
		"a copy each":       s != cfg.saramaConfig("hence-sequencer"),
	} {
		if !ok {
			t.Errorf("%s is not as it must be", setting)
		}
	}
	if tm := topicManagerConfig(3); !tm.NoCreate || tm.Table.Replication != 3 || tm.Stream.Replication != 3 {
		t.Errorf("goka's topic manager may create topics: %+v", tm)
	}
}

// Every topic's effective settings, read back from the broker.
func TestTopicSettings(t *testing.T) {
	cfg := settled(t)
	cl, err := kgo.NewClient(cfg.baseOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	admin := kadm.NewClient(cl)
	for _, want := range cfg.topics() {
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
		if want.IsTable() && (have["cleanup.policy"] != "compact" || have["retention.ms"] != "-1") {
			t.Errorf("%s is a table and would lose rows: %v", want.Name, have)
		}
		listed, err := admin.ListTopics(t.Context(), want.Name)
		if err != nil || len(listed[want.Name].Partitions) != 4 {
			t.Errorf("%s: %v, %v", want.Name, listed, err)
		}
	}
}

// VerifyTopics says what is wrong and what to run.
func TestVerifyTopics(t *testing.T) {
	cfg := settled(t)
	if problems, err := VerifyTopics(t.Context(), cfg); err != nil || len(problems) > 0 {
		t.Fatalf("fresh topics: %v, %v", problems, err)
	}
	cl, err := kgo.NewClient(cfg.baseOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	admin := kadm.NewClient(cl)
	table := topology.TableOf(topology.GroupFrontier)
	for _, name := range []string{topology.TopicScopes, topology.TopicTxs, table} {
		if _, err := admin.DeleteTopic(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := admin.CreateTopic(t.Context(), 3, 1, nil, topology.TopicScopes); err != nil {
		t.Fatal(err)
	}
	week := "604800000"
	if _, err := admin.CreateTopic(t.Context(), 4, 1, map[string]*string{"retention.ms": &week}, table); err != nil {
		t.Fatal(err)
	}
	problems, err := VerifyTopics(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]int)
	for _, p := range problems {
		if p.Fix == "" || p.What == "" {
			t.Errorf("a problem without a way out: %+v", p)
		}
		found[p.Topic]++
	}
	if found[topology.TopicTxs] != 1 || found[topology.TopicScopes] == 0 || found[table] < 2 || len(found) != 3 {
		t.Errorf("found %v", problems)
	}
	if err := Run(t.Context(), cfg); err == nil {
		t.Error("Run started on topics that lose state")
	}
}

func TestConfigIsChecked(t *testing.T) {
	ok := Config{Brokers: []string{"localhost:9092"}}
	if _, err := ok.checked(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Config){
		"no brokers":      func(c *Config) { c.Brokers = nil },
		"three":           func(c *Config) { c.Partitions = 3 },
		"too many":        func(c *Config) { c.Partitions = 1 << 20 },
		"unknown replica": func(c *Config) { c.Replica = "c" },
	} {
		bad := ok
		change(&bad)
		if _, err := bad.checked(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
