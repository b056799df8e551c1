package streams

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hence-dev/hence/topology"
	"github.com/hence-dev/hence/topology/pause"
)

// Bounds of our Kafka clients.
const (
	metadataMinAge   = 50 * time.Millisecond // franz-go's default makes a moved leader cost seconds
	retryBackoff     = 20 * time.Millisecond
	maxRetryBackoff  = 500 * time.Millisecond
	FetchMaxWait     = 250 * time.Millisecond
	quietFor         = time.Second // before a reader asks whether what it waits for can still come
	RequestTimeout   = 10 * time.Second
	maxBatchBytes    = 1 << 20 // for topics that are not ours
	maxBufferRecords = 1 << 16
	maxBufferBytes   = 64 << 20
)

// BaseOptions are those of every franz-go client here.
func (c Config) BaseOptions() []kgo.Opt {
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

// ProducerOptions are those of every producer: acknowledged by all in-sync replicas, idempotent, in order, placed by
// the workspace's hash, and never given up: a record that was accepted is sent until it is acknowledged, however long
// the broker is away.
func (c Config) ProducerOptions(linger time.Duration, codec kgo.CompressionCodec) []kgo.Opt {
	return append(append(c.BaseOptions(), compressed(codec)...),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(linger),
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
	for _, t := range c.Topics() {
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
	return append(c.BaseOptions(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: from}}),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(FetchMaxWait),
	)
}

// Places in a partition that a broker is asked for, as the protocol has them; any other one is a time, in ms.
const (
	placeEnd   = -1
	placeStart = -2
)

// EndOffset is where the next record of a partition will go; all before it is acknowledged by the in-sync replicas.
func EndOffset(ctx context.Context, cl *kgo.Client, topic string, partition int32) (int64, error) {
	return knownOffset(ctx, "end", placeEnd, cl, topic, partition)
}

// StartOffset is the first offset that a partition still has.
func StartOffset(ctx context.Context, cl *kgo.Client, topic string, partition int32) (int64, error) {
	return knownOffset(ctx, "start", placeStart, cl, topic, partition)
}

// offsetAfter is the offset of the first record that is not older than a time; the end when there is none.
func offsetAfter(ctx context.Context, ms int64, cl *kgo.Client, topic string, partition int32) (int64, error) {
	at, err := listOffset(ctx, ms, cl, topic, partition)
	if err != nil {
		return 0, fmt.Errorf("offset of a time in %s/%d: %w", topic, partition, err)
	}
	if at < 0 {
		return EndOffset(ctx, cl, topic, partition)
	}
	return at, nil
}

func knownOffset(ctx context.Context, what string, place int64, cl *kgo.Client, topic string, partition int32,
) (int64, error) {
	at, err := listOffset(ctx, place, cl, topic, partition)
	if err == nil && at < 0 {
		err = errors.New("the broker does not say")
	}
	if err != nil {
		return 0, fmt.Errorf("%s of %s/%d: %w", what, topic, partition, err)
	}
	return at, nil
}

// listOffset asks for one partition. kadm asks for all of the topic's, from all of their leaders, which would cost
// brokers that for each idle follower every few seconds.
func listOffset(ctx context.Context, place int64, cl *kgo.Client, topic string, partition int32) (int64, error) {
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp = partition, place
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID, req.Topics = -1, append(req.Topics, t)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return 0, err
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if t.Topic == topic && p.Partition == partition {
				return p.Offset, kerr.ErrorForCode(p.ErrorCode)
			}
		}
	}
	return 0, kerr.UnknownTopicOrPartition
}

// ErrStop ends a read early without an error.
var ErrStop = errors.New("stop reading")

// ReadRange calls f for each record of a partition from one offset up to another, as far as the broker still has them.
func (c Config) ReadRange(ctx context.Context, topic string, partition int32, from, to int64,
	f func(*kgo.Record) error,
) error {
	if from >= to {
		return nil
	}
	r, err := c.Reader(topic, partition, from)
	if err != nil {
		return err
	}
	defer r.Close()
	return r.To(ctx, to, f)
}

// Reader reads one partition from a place on, each time as far as it is told. One goroutine uses it, and closes it.
type Reader struct {
	cl        *kgo.Client
	topic     string
	partition int32
	next      int64         // what lies before it was read
	ahead     []*kgo.Record // fetched and not read
}

// Reader begins to read a partition at an offset, or at its start where that lies behind it.
func (c Config) Reader(topic string, partition int32, from int64) (*Reader, error) {
	cl, err := kgo.NewClient(c.consumerOptions(topic, partition, kgo.NewOffset().At(from))...)
	if err != nil {
		return nil, fmt.Errorf("read %s/%d: %w", topic, partition, err)
	}
	return &Reader{cl: cl, topic: topic, partition: partition, next: from}, nil
}

// Close ends the reading.
func (r *Reader) Close() { r.cl.Close() }

// To calls f for the records before an offset that were not read yet, in order. It waits until they are there, for as
// long as ctx lasts. f may return ErrStop to end it without an error.
func (r *Reader) To(ctx context.Context, to int64, f func(*kgo.Record) error) error {
	for tries := 0; ; {
		if done, err := r.take(to, f); done || err != nil {
			return err
		}
		pollCtx, cancel := context.WithTimeout(ctx, quietFor)
		fetches := r.cl.PollFetches(pollCtx)
		cancel()
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("read %s/%d: %w", r.topic, r.partition, err)
		}
		if errors.Is(fetches.Err0(), context.DeadlineExceeded) { // nothing came: is there anything left to come?
			start, err := StartOffset(ctx, r.cl, r.topic, r.partition)
			if err == nil && start >= to {
				return nil
			}
			continue
		}
		for _, e := range fetches.Errors() {
			if !kerr.IsRetriable(e.Err) {
				return fmt.Errorf("read %s/%d: %w", r.topic, r.partition, e.Err)
			}
		}
		r.ahead = append(r.ahead, fetches.Records()...)
		if tries++; fetches.Err0() == nil {
			tries = 0
			continue
		}
		_ = pause.Sleep(ctx, backoff(tries)) // the error may pass; the next poll says when ctx has ended
	}
}

// take calls f for the fetched records before an offset; done says that there are no more of them.
func (r *Reader) take(to int64, f func(*kgo.Record) error) (done bool, err error) {
	for r.next < to && len(r.ahead) > 0 && r.ahead[0].Offset < to {
		rec := r.ahead[0]
		r.ahead[0] = nil // its whole batch stays in memory else
		r.ahead, r.next = r.ahead[1:], rec.Offset+1
		if err := f(rec); errors.Is(err, ErrStop) {
			return true, nil
		} else if err != nil {
			return true, err
		}
	}
	return r.next >= to || len(r.ahead) > 0, nil
}

// stillFrom holds that a partition still has all from an offset on that was read of it: a read whose records are
// deleted under it passes over them, and says nothing.
func (c *Client) stillFrom(ctx context.Context, topic string, partition int32, from int64) error {
	start, err := StartOffset(ctx, c.log, topic, partition)
	if err == nil && start > from {
		err = fmt.Errorf("records were deleted while they were read from offset %d on: %s/%d begins at offset %d now", from,
			topic, partition, start)
	}
	return err
}

// KafkaAway explains why no broker could be used, where the client's error does not say what to do about it.
func (c Config) KafkaAway(err error) error {
	where := strings.Join(c.Brokers, ",")
	hint := ""
	var first *kgo.ErrFirstReadEOF
	switch { // some brokers close the connection instead of saying that a login is wrong
	case errors.Is(err, kerr.SaslAuthenticationFailed), c.Kafka.SASL != "" && errors.Is(err, io.EOF):
		hint = ": the login was refused: look at --kafka-user and --kafka-password-file"
	case errors.Is(err, kerr.UnsupportedSaslMechanism):
		hint = ": the broker does not know this login: look at --kafka-sasl"
	case strings.Contains(err.Error(), "tls alert record"):
		hint = ": it speaks TLS: give --kafka-tls, or --kafka-ca"
	case errors.As(err, &first):
		hint = ": it closes the connection at once: does it want TLS (--kafka-tls) or a login (--kafka-sasl)?"
	case strings.Contains(err.Error(), "x509:"):
		hint = ": its certificate is not trusted: look at --kafka-ca and --kafka-server-name"
	case strings.Contains(err.Error(), "first record does not look like a TLS handshake"):
		hint = ": it does not speak TLS: leave --kafka-tls and --kafka-ca away, or use its TLS port"
	}
	return fmt.Errorf("reach Kafka at %s%s: %w", where, hint, err)
}
