// Package floor is what no log-based system can be faster than, over the same servers: an acknowledged append to
// Kafka that a consumer hands to NATS and a subscriber receives, and a bare loop that consumes, does nothing and
// produces.
package floor

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology/pause"
)

// Bounds of a path.
const (
	payloadBytes = 300              // about what a commit of one read and one write has in the log
	readyIn      = 10 * time.Second // of topics and connections
	lostAfter    = 10 * time.Second // an answer that did not come by then will not come
	partition    = 0
)

// Path is one way from an append to an answer. The caller must Close it.
type Path struct {
	servers  streams.Config
	topics   []string // in, and out where there is one
	producer *kgo.Client
	close    []func()
	cancel   context.CancelFunc
	running  sync.WaitGroup

	mu      sync.Mutex
	waiting map[uint64]chan struct{} // by the number of the turn
	turns   uint64
}

// Open makes the floor: append, consumer, NATS, subscriber. The name is that of its topic and subject.
func Open(ctx context.Context, servers streams.Config, name string) (*Path, error) {
	p, ctx, err := open(ctx, servers, name+"-in")
	if err != nil {
		return nil, err
	}
	conn, err := servers.DialNATS(func(bool) {})
	if err == nil && conn == nil {
		err = errors.New("no NATS server is named")
	}
	if err != nil {
		p.Close()
		return nil, fmt.Errorf("connect the floor to NATS: %w", err)
	}
	p.close = append(p.close, conn.Close)
	heard, err := conn.Subscribe(name, func(m *nats.Msg) { p.answered(m.Data) })
	if err == nil {
		err = conn.FlushTimeout(readyIn)
	}
	if err != nil {
		p.Close()
		return nil, fmt.Errorf("subscribe to %s: %w", name, err)
	}
	p.close = append(p.close, func() { _ = heard.Unsubscribe() })
	err = p.consume(ctx, p.topics[0], func(r *kgo.Record) {
		// A message that NATS does not take is not answered, and the turn says so.
		_ = conn.Publish(name, r.Value)
	})
	return p.ready(err)
}

// OpenLoop makes the bare loop: append, consumer, append, consumer.
func OpenLoop(ctx context.Context, servers streams.Config, name string) (*Path, error) {
	p, ctx, err := open(ctx, servers, name+"-in", name+"-out")
	if err != nil {
		return nil, err
	}
	err = p.consume(ctx, p.topics[0], func(r *kgo.Record) {
		p.producer.Produce(ctx, &kgo.Record{Topic: p.topics[1], Value: r.Value}, nil)
	})
	if err == nil {
		err = p.consume(ctx, p.topics[1], func(r *kgo.Record) { p.answered(r.Value) })
	}
	return p.ready(err)
}

func (p *Path) ready(err error) (*Path, error) {
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// open makes the topics, and the producer of both.
func open(ctx context.Context, servers streams.Config, topics ...string) (*Path, context.Context, error) {
	p := &Path{servers: servers, topics: topics, waiting: map[uint64]chan struct{}{}}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx)) // what it runs ends with Close
	p.cancel = cancel
	client, err := p.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		p.Close()
		return nil, nil, err
	}
	p.producer = client
	if err := p.create(ctx); err != nil {
		p.Close()
		return nil, nil, err
	}
	return p, running, nil
}

func (p *Path) client(more ...kgo.Opt) (*kgo.Client, error) {
	options := append(p.servers.BaseOptions(), p.servers.ProducerOptions(0, kgo.NoCompression())...)
	client, err := kgo.NewClient(append(options, more...)...)
	if err != nil {
		return nil, fmt.Errorf("connect to %v: %w", p.servers.Brokers, err)
	}
	p.close = append(p.close, client.Close)
	return client, nil
}

// create makes the topics and waits until they answer.
func (p *Path) create(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyIn)
	defer cancel()
	admin := kadm.NewClient(p.producer)
	for _, topic := range p.topics {
		made, err := admin.CreateTopic(ctx, 1, int16(max(1, p.servers.Replication)), nil, topic)
		if err = errors.Join(err, made.Err); err != nil {
			return fmt.Errorf("create the topic %s: %w", topic, err)
		}
		for {
			if _, err = streams.EndOffset(ctx, p.producer, topic, partition); err == nil {
				break
			}
			// A broker may know of the topic before the partition's leader does.
			if end := pause.Sleep(ctx, 10*time.Millisecond); end != nil {
				return fmt.Errorf("wait for the topic %s: %w", topic, errors.Join(err, end))
			}
		}
	}
	return nil
}

// consume calls f for each record of a topic from its beginning, until the path is closed.
func (p *Path) consume(ctx context.Context, topic string, f func(*kgo.Record)) error {
	client, err := p.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
		topic: {partition: kgo.NewOffset().AtStart()},
	}))
	if err != nil {
		return err
	}
	p.running.Go(func() {
		for ctx.Err() == nil {
			client.PollFetches(ctx).EachRecord(f)
		}
	})
	return nil
}

func (p *Path) answered(payload []byte) {
	if len(payload) < 8 {
		return // not one of ours
	}
	n := binary.BigEndian.Uint64(payload)
	p.mu.Lock()
	answer := p.waiting[n]
	delete(p.waiting, n)
	p.mu.Unlock()
	if answer != nil {
		close(answer)
	}
}

// Turn is load.Turn: one append, until it is acknowledged and its answer is there.
func (p *Path) Turn(ctx context.Context, _ int) (time.Duration, int, error) {
	answer := make(chan struct{})
	p.mu.Lock()
	p.turns++
	n := p.turns
	p.waiting[n] = answer
	p.mu.Unlock()
	payload := make([]byte, payloadBytes)
	binary.BigEndian.PutUint64(payload, n)
	begin := time.Now()
	acknowledged := make(chan error, 1)
	p.producer.Produce(ctx, &kgo.Record{Topic: p.topics[0], Value: payload},
		func(_ *kgo.Record, err error) { acknowledged <- err })
	select {
	case err := <-acknowledged:
		if err != nil {
			return 0, 0, fmt.Errorf("append to %s: %w", p.topics[0], err)
		}
	case <-ctx.Done():
		return 0, 0, context.Cause(ctx)
	}
	lost := time.NewTimer(lostAfter)
	defer lost.Stop()
	select {
	case <-answer:
		return time.Since(begin), 0, nil
	case <-lost.C:
		return 0, 0, fmt.Errorf("the answer to record %d of %s did not come in %s", n, p.topics[0], lostAfter)
	case <-ctx.Done():
		return 0, 0, context.Cause(ctx)
	}
}

// Close ends the path and deletes its topics.
func (p *Path) Close() {
	p.cancel()
	p.running.Wait()
	if p.producer != nil {
		ctx, cancel := context.WithTimeout(context.Background(), readyIn)
		defer cancel()
		// Names are used once: a topic that stays does no harm.
		_, _ = kadm.NewClient(p.producer).DeleteTopics(ctx, p.topics...)
	}
	for i := len(p.close) - 1; i >= 0; i-- {
		p.close[i]()
	}
}
