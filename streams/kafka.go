package streams

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"
	"github.com/lovoo/goka"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/topology"
	"github.com/hence-dev/hence/topology/pause"
)

// Bounds of our Kafka clients.
const (
	metadataMinAge   = 50 * time.Millisecond // franz-go's default makes a moved leader cost seconds
	retryBackoff     = 20 * time.Millisecond
	maxRetryBackoff  = 500 * time.Millisecond
	fetchMaxWait     = 250 * time.Millisecond
	quietFor         = time.Second // before a reader asks whether what it waits for can still come
	requestTimeout   = 10 * time.Second
	maxBatchBytes    = 1 << 20 // for topics that are not ours
	maxBufferRecords = 1 << 16
	maxBufferBytes   = 64 << 20
)

// baseOptions are those of every franz-go client here.
func (c Config) baseOptions() []kgo.Opt {
	return append(c.secured(),
		kgo.SeedBrokers(c.Brokers...),
		kgo.ClientID("hence-"+c.Instance),
		kgo.MetadataMinAge(metadataMinAge),
		kgo.DisableClientMetrics(), // else each client compresses and pushes its own to the broker
		kgo.RetryBackoffFn(backoff),
	)
}

// backoff is the pause after so many tries in a row.
func backoff(tries int) time.Duration {
	row := pause.Doubling{Least: retryBackoff, Most: maxRetryBackoff}
	return row.Nth(tries + 1)
}

// producerOptions are those of every producer: acknowledged by all in-sync replicas, idempotent, in order, placed by
// the workspace's hash, and never given up: a record that was accepted is sent until it is acknowledged, however long
// the broker is away.
func (c Config) producerOptions(linger time.Duration, codec kgo.CompressionCodec) []kgo.Opt {
	return append(c.baseOptions(),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(linger),
		kgo.ProducerBatchCompression(codec),
		kgo.ProducerBatchMaxBytesFn(c.batchBytes()),
		kgo.UnknownTopicRetries(-1), // a topic that is not known yet is no reason to drop a record
		kgo.MaxBufferedRecords(maxBufferRecords),
		kgo.MaxBufferedBytes(maxBufferBytes),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(kgo.SaramaCompatHasher(topology.HashWorkspace))),
	)
}

// batchBytes holds batches to the limit of their topic: a broker refuses a larger one whole, and after an outage the
// buffer is full of records that would make such batches.
func (c Config) batchBytes() func(string) int32 {
	limits := make(map[string]int32)
	for _, t := range c.topics() {
		limits[t.Name] = t.MaxMessageBytes
	}
	return func(topic string) int32 {
		if n, ok := limits[topic]; ok {
			return n
		}
		return maxBatchBytes
	}
}

// consumerOptions are those of a client that reads one partition from an explicit place. "The end" is never such a
// place: on a fresh topic it is found late, and what was written meanwhile is skipped.
func (c Config) consumerOptions(topic string, partition int32, from kgo.Offset) []kgo.Opt {
	return append(c.baseOptions(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: from}}),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(fetchMaxWait),
	)
}

// saramaConfig is made anew for every builder: goka's builders write into the one they are given.
func (c Config) saramaConfig(group string) *sarama.Config {
	s := sarama.NewConfig()
	s.Version = sarama.V2_4_0_0 // static membership needs 2.3
	s.ClientID = "hence-" + c.Instance
	c.secure(s)
	s.Consumer.Return.Errors = true
	s.Consumer.Offsets.Initial = sarama.OffsetOldest
	s.Consumer.Offsets.AutoCommit.Interval = 200 * time.Millisecond
	s.Consumer.MaxWaitTime = fetchMaxWait
	s.Consumer.Fetch.Default = 4 << 20
	s.Consumer.Group.InstanceId = c.instanceOf(group)
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

// topicManagerConfig lets goka create nothing: EnsureTopics does, and says what is wrong with what is there.
func topicManagerConfig(replication int) *goka.TopicManagerConfig {
	t := goka.NewTopicManagerConfig()
	t.NoCreate = true
	t.Table.Replication, t.Stream.Replication = replication, replication
	t.MismatchBehavior = goka.TMConfigMismatchBehaviorIgnore
	return t
}

// producer is goka's Producer over franz-go. It keeps the order of a key through retries and outlives a broker's
// outage, which sarama's does not. The client is shared and is closed by whoever made it.
type producer struct{ client *kgo.Client }

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
	p.client.Produce(context.Background(), r, done)
}

// trySend is for a done itself: where send would wait for room, it fails.
func (p producer) trySend(r *kgo.Record, done func(*kgo.Record, error)) {
	p.client.TryProduce(context.Background(), r, done)
}

// endOffset is where the next record of a partition will go; all before it is acknowledged by the in-sync replicas.
func endOffset(ctx context.Context, cl *kgo.Client, topic string, partition int32) (int64, error) {
	return listOffset(ctx, "end", kadm.NewClient(cl).ListEndOffsets, topic, partition)
}

// startOffset is the first offset that a partition still has.
func startOffset(ctx context.Context, cl *kgo.Client, topic string, partition int32) (int64, error) {
	return listOffset(ctx, "start", kadm.NewClient(cl).ListStartOffsets, topic, partition)
}

func listOffset(ctx context.Context, what string,
	list func(context.Context, ...string) (kadm.ListedOffsets, error), topic string, partition int32,
) (int64, error) {
	listed, err := list(ctx, topic)
	if err != nil {
		return 0, fmt.Errorf("%s of %s/%d: %w", what, topic, partition, err)
	}
	o, ok := listed.Lookup(topic, partition)
	if !ok {
		return 0, fmt.Errorf("%s of %s/%d: %w", what, topic, partition, kerr.UnknownTopicOrPartition)
	}
	if o.Err != nil {
		return 0, fmt.Errorf("%s of %s/%d: %w", what, topic, partition, o.Err)
	}
	if o.Offset < 0 {
		return 0, fmt.Errorf("%s of %s/%d: the broker does not say", what, topic, partition)
	}
	return o.Offset, nil
}

// errStop ends a read early without an error.
var errStop = errors.New("stop reading")

// readRange calls f for each record of a partition from one offset up to another, as far as the broker still has them.
func (c Config) readRange(ctx context.Context, topic string, partition int32, from, to int64,
	f func(*kgo.Record) error,
) error {
	if from >= to {
		return nil
	}
	cl, err := kgo.NewClient(c.consumerOptions(topic, partition, kgo.NewOffset().At(from))...)
	if err != nil {
		return fmt.Errorf("read %s/%d: %w", topic, partition, err)
	}
	defer cl.Close()
	for tries := 0; ; {
		pollCtx, cancel := context.WithTimeout(ctx, quietFor)
		fetches := cl.PollFetches(pollCtx)
		cancel()
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("read %s/%d: %w", topic, partition, err)
		}
		if errors.Is(fetches.Err0(), context.DeadlineExceeded) { // nothing came: is there anything left to come?
			start, err := startOffset(ctx, cl, topic, partition)
			if err == nil && start >= to {
				return nil
			}
			continue
		}
		done, err := takeFetches(fetches, topic, partition, to, f)
		if done || err != nil {
			return err
		}
		if tries++; fetches.Err0() == nil {
			tries = 0
			continue
		}
		_ = pause.Sleep(ctx, backoff(tries)) // the error may pass; the next poll says when ctx has ended
	}
}

// takeFetches calls f for the records before an offset; done says that there are no more of them.
func takeFetches(fetches kgo.Fetches, topic string, partition int32, to int64, f func(*kgo.Record) error,
) (done bool, err error) {
	for _, e := range fetches.Errors() {
		if !kerr.IsRetriable(e.Err) {
			return true, fmt.Errorf("read %s/%d: %w", topic, partition, e.Err)
		}
	}
	for it := fetches.RecordIter(); !it.Done(); {
		r := it.Next()
		if r.Offset >= to {
			return true, nil
		}
		if err := f(r); errors.Is(err, errStop) {
			return true, nil
		} else if err != nil {
			return true, err
		}
		if r.Offset == to-1 {
			return true, nil
		}
	}
	return false, nil
}
