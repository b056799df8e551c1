package processor

import (
	"context"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"github.com/lovoo/goka"
	"github.com/rcrowley/go-metrics"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"

	"github.com/hence-dev/hence/streams"
)

// uncounted is a registry for sarama, which counts each request in a dozen histograms that nothing reads: that would
// take a twentieth of the processors' time.
type uncounted struct{ metrics.Registry }

// GetOrRegister implements metrics.Registry: sarama gives a function that makes what it wants to count with.
func (r uncounted) GetOrRegister(name string, made any) any {
	switch made.(type) {
	case func() metrics.Histogram:
		return metrics.NilHistogram{}
	case func() metrics.Meter:
		return metrics.NilMeter{}
	case func() metrics.Counter:
		return metrics.NilCounter{}
	}
	return r.Registry.GetOrRegister(name, made)
}

// saramaConfig is made for every builder: goka's builders write into the one they are given.
func saramaConfig(c streams.Config, group string) *sarama.Config {
	s := sarama.NewConfig()
	s.MetricRegistry = uncounted{metrics.NewRegistry()}
	s.Version = sarama.V2_4_0_0 // static membership needs 2.3
	s.ClientID = "hence-" + c.Instance
	secure(c, s)
	if c.Dial != nil {
		s.Net.Proxy.Enable, s.Net.Proxy.Dialer = true, c.Dial
	}
	s.Consumer.Return.Errors = true
	s.Consumer.Offsets.Initial = sarama.OffsetOldest
	s.Consumer.Offsets.AutoCommit.Interval = 200 * time.Millisecond
	s.Consumer.MaxWaitTime = streams.FetchMaxWait
	s.Consumer.Fetch.Default = 4 << 20
	// Static: a process that restarts within the session timeout finds its partitions again, and nothing moves.
	s.Consumer.Group.InstanceId = instanceOf(c, group)
	s.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	s.Consumer.Group.Session.Timeout = 6 * time.Second
	s.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{goka.StrictCopartitioningStrategy}
	s.Metadata.Retry.Max = 20
	s.Metadata.Retry.Backoff = 100 * time.Millisecond
	// Nothing of ours produces with sarama; the settings are safe all the same.
	s.Producer.RequiredAcks = sarama.WaitForAll
	s.Producer.Return.Successes = true
	s.Producer.Return.Errors = true
	s.Producer.Flush.Frequency, s.Producer.Flush.Bytes = 0, 0
	s.Producer.Compression = sarama.CompressionNone
	return s
}

// fetchBytes are how many bytes a broker collects for a derived table, unless streams.Config.FetchWait is over before.
// Each answer costs broker and processor as much as some ten records do, and rows rest for longer than that anyway.
const fetchBytes = 64 << 10

// groupConfig is saramaConfig for the consumer group of a processor.
func (b *base) groupConfig() *sarama.Config {
	s := saramaConfig(b.cfg, b.group)
	if b.patient && b.cfg.FetchWait > 0 {
		s.Consumer.Fetch.Min, s.Consumer.MaxWaitTime = fetchBytes, b.cfg.FetchWait
	}
	return s
}

// topicManagerConfig lets goka create nothing: EnsureTopics does, and says what is wrong with what is there.
func topicManagerConfig(replication int) *goka.TopicManagerConfig {
	t := goka.NewTopicManagerConfig()
	t.NoCreate = true
	t.Table.Replication, t.Stream.Replication = replication, replication
	t.MismatchBehavior = goka.TMConfigMismatchBehaviorIgnore
	return t
}

// producer is goka's Producer over franz-go. It keeps the order of a key through retries and outlives a broker's
// outage, which sarama's does not. The client is shared and is closed by its maker.
type producer struct {
	client *kgo.Client
	table  string                                        // of the processor that it is given to; empty: of none
	logged func(partition int32, offset int64, size int) // told of each record of it that Kafka has
}

// Emit implements goka.Producer.
func (p producer) Emit(topic, key string, value []byte) *goka.Promise {
	return p.EmitWithHeaders(topic, key, value, nil)
}

// EmitWithHeaders implements goka.Producer.
func (p producer) EmitWithHeaders(topic, key string, value []byte, headers goka.Headers) *goka.Promise {
	promise, finish := goka.NewPromiseWithFinisher()
	r := &kgo.Record{Topic: topic, Key: []byte(key), Value: value}
	for k, v := range headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: k, Value: v})
	}
	p.send(r, func(r *kgo.Record, err error) {
		finish(&sarama.ProducerMessage{Topic: topic, Partition: r.Partition, Offset: r.Offset}, err)
	})
	return promise
}

// Close implements goka.Producer.
func (p producer) Close() error { return nil }

// send appends a record; done runs on the client's own goroutine and must not wait.
func (p producer) send(r *kgo.Record, done func(*kgo.Record, error)) {
	p.client.Produce(context.Background(), r, p.counted(r, done))
}

// trySend is for a done itself: where send would wait for space, it fails.
func (p producer) trySend(r *kgo.Record, done func(*kgo.Record, error)) {
	p.client.TryProduce(context.Background(), r, p.counted(r, done))
}

func (p producer) counted(r *kgo.Record, done func(*kgo.Record, error)) func(*kgo.Record, error) {
	if r.Topic != p.table {
		return done
	}
	return func(r *kgo.Record, err error) {
		if err == nil {
			p.logged(r.Partition, r.Offset, len(r.Key)+len(r.Value))
		}
		done(r, err)
	}
}

// rawCodec hands bytes through: goka stops a processor at a record that its codec cannot read, we park it.
type rawCodec struct{}

// Encode implements goka.Codec.
func (rawCodec) Encode(v any) ([]byte, error) {
	b, ok := v.([]byte)
	if !ok {
		return nil, fmt.Errorf("a %T where bytes belong", v)
	}
	return b, nil
}

// Decode implements goka.Codec.
func (rawCodec) Decode(b []byte) (any, error) { return b, nil }

// bytesOf is a callback's message: nil for a record without a value.
func bytesOf(msg any) []byte {
	b, _ := msg.([]byte)
	return b
}

// quietGoka keeps goka's lines for the debug level.
func quietGoka(cfg streams.Config) goka.Logger { return log.New(debugWriter{cfg}, "", 0) }

type debugWriter struct{ cfg streams.Config }

func (w debugWriter) Write(p []byte) (int, error) {
	w.cfg.Logger.Debug("goka", "line", strings.TrimSpace(string(p)))
	return len(p), nil
}

// secure protects sarama's connections as those of franz-go are; sarama has a way of its own for each login.
func secure(c streams.Config, to *sarama.Config) {
	tls, m, password := c.KafkaLogin()
	if tls != nil {
		to.Net.TLS.Enable, to.Net.TLS.Config = true, tls
	}
	if m == nil {
		return
	}
	login := &to.Net.SASL
	login.Enable, login.Handshake, login.Version, login.User = true, true, sarama.SASLHandshakeV1, c.Kafka.User
	login.Password = password
	login.Mechanism = sarama.SASLMechanism(m.Name())
	if m.Name() != sarama.SASLTypePlaintext {
		login.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &scramSession{mechanism: m} }
	}
}

// scramSession lets sarama log in with franz-go's SCRAM.
type scramSession struct {
	mechanism sasl.Mechanism
	session   sasl.Session
	first     []byte
	done      bool
}

// Begin implements sarama.SCRAMClient; user and password are the mechanism's own.
func (s *scramSession) Begin(_, _, _ string) (err error) {
	s.session, s.first, err = s.mechanism.Authenticate(context.Background(), "")
	return err
}

// Step implements sarama.SCRAMClient; the first challenge is empty.
func (s *scramSession) Step(challenge string) (string, error) {
	if first := s.first; first != nil {
		s.first = nil
		return string(first), nil
	}
	done, answer, err := s.session.Challenge([]byte(challenge))
	s.done = done
	return string(answer), err
}

// Done implements sarama.SCRAMClient.
func (s *scramSession) Done() bool { return s.done }

// leaveIn bounds the farewell: without it the group only waits for the session timeout.
const leaveIn = 2 * time.Second

// leave takes this process's static member out of a group. A static member that just stops keeps its partitions until
// its session times out, so that a restart finds them again; a member that is told to end may not come back, and its
// workspaces would stand still for those seconds.
func leave(ctx context.Context, c streams.Config, out producer, group string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveIn)
	defer cancel()
	member := kadm.LeaveGroup(group).InstanceIDs(instanceOf(c, group)).Reason("told to end")
	if _, err := kadm.NewClient(out.client).LeaveGroup(ctx, member); err != nil {
		// Not an error: the others wait for the session timeout, as after a crash.
		c.Logger.Warn("failed to leave the consumer group: its other members wait for the session timeout",
			"group", group, "error", err)
	}
}

// instanceOf is this process's name among the members of a group.
func instanceOf(c streams.Config, group string) string { return c.Instance + "-" + group }
