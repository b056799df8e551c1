package streams

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"io"
	"log"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"github.com/lovoo/goka"
	"github.com/lovoo/goka/storage"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/topology"
	"github.com/hence-dev/hence/topology/pause"
)

// Pauses of the supervisor between a processor's end and its next start.
const (
	rejoinIn     = 10 * time.Millisecond // between two sessions of one consumer group
	restartMin   = 100 * time.Millisecond
	restartMax   = 5 * time.Second
	restartCalm  = 10 * time.Second // a run that lasted longer starts over with the shortest pause
	handOverIn   = 3 * time.Second  // what a partition that is given up may take to write its states
	giveUpIn     = 6 * time.Second  // from the end of a run: longer than a hand-over and a farewell take
	lagReportIn  = time.Second
	startCheckIn = 10 * time.Second
)

// errRecovers is a processor's health until it has recovered what it was given.
var errRecovers = errors.New("it joins its group and recovers its partitions")

// errDone ends a processor's run without being an error of it.
var errDone = errors.New("the run ends")

// Run runs the processors sequencer, closure and frontier until ctx ends, and builds one that stops again. It waits
// for Kafka and NATS however long they are away, and for topics that are missing, or creates them if it may. It
// returns ErrTopics, with the commands that mend them, when topics are there and not as they must be.
func Run(ctx context.Context, cfg Config) error {
	cfg, err := cfg.checked()
	if err != nil {
		return err
	}
	changed := make(chan struct{}, 1)
	conn, err := cfg.dialNATS(func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return err
	}
	if conn != nil {
		defer conn.Close()
	}
	cfg.Health.set(partNATS, cfg.natsAway(conn))
	if err := startable(ctx, cfg); err != nil {
		return err
	}
	client, err := kgo.NewClient(cfg.producerOptions(cfg.Linger, kgo.Lz4Compression())...)
	if err != nil {
		return fmt.Errorf("connect to Kafka: %w", err)
	}
	defer client.Close()
	m := newMetrics(cfg.Metrics)
	id, err := logID(ctx, client, cfg)
	if err != nil {
		return err
	}
	out, states := natsOut{conn: conn, metrics: m, log: id}, newComparison(cfg, m, id)
	var wg sync.WaitGroup
	defer awaitEnd(&wg, cfg.Clock, client.Close)
	wg.Go(func() { out.keepStream(ctx, cfg, changed) })
	wg.Go(func() { states.watch(ctx) })
	wg.Go(func() { cfg.Health.watch(ctx, cfg, client, conn) })
	for _, build := range []func(*base) processor{
		func(b *base) processor { return newSeqProcessor(b, out, states) },
		func(b *base) processor { return newClosureProcessor(b, conn) },
		func(b *base) processor { return newFrontierProcessor(b, conn) },
	} {
		wg.Go(func() { supervise(ctx, cfg, m, producer{client}, build) })
	}
	<-ctx.Done()
	return nil
}

// awaitEnd waits for the processors. They wait for the acknowledgement of all that they emitted, and without a broker
// that would be for ever: after a bound the rest is given up. No offset has passed it, so a later run emits it again.
func awaitEnd(processors *sync.WaitGroup, clock Clock, giveUp func()) {
	ended := make(chan struct{})
	go func() {
		processors.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-clock.After(giveUpIn):
		giveUp()
		<-ended
	}
}

// processor is one of the three, for one run.
type processor interface {
	graph() *goka.GroupGraph
	common() *base
	gained(partition int32, store *tableStore) error            // its table has been read
	merge(key string, value []byte, at int64, into *tableStore) // a row of the table, while it is read
	dropped(graceful bool)                                      // every partition stopped
	keep(ctx context.Context)                                   // runs beside the callbacks
}

// base is what the processors have in common; one per run.
type base struct {
	name    string
	group   string
	table   string
	cfg     Config
	metrics *metrics
	out     producer
	work    *processorWork
	fail    func(error) // ends the run

	position func(row []byte) int64 // of a row, -1: not known; nil: rows of this table have none

	mu     sync.Mutex
	stores map[int32]*tableStore
}

// supervise builds and runs a processor until ctx ends.
func supervise(ctx context.Context, cfg Config, m *metrics, out producer, build func(*base) processor) {
	pauses := pause.Doubling{Least: restartMin, Most: restartMax}
	for ctx.Err() == nil {
		began := cfg.Clock.Now()
		name, err := runOnce(ctx, cfg, m, out, build)
		if ctx.Err() != nil {
			return
		}
		if cfg.Clock.Now().Sub(began) > restartCalm {
			pauses.Reset()
		}
		m.restarts.WithLabelValues(name).Inc()
		if errors.Is(err, sarama.ErrFencedInstancedId) {
			err = fmt.Errorf("another process runs as instance %q: give each its own --instance: %w", cfg.Instance, err)
		}
		cfg.Health.set(name, fmt.Errorf("it stopped and is built again: %w", err))
		next := pauses.Next()
		cfg.Logger.Warn("processor stopped and is built again", "processor", name, "pause", next, "error", err)
		select {
		case <-ctx.Done():
		case <-cfg.Clock.After(next):
		}
	}
}

// runOnce builds and runs a processor once; goka's can run only once.
func runOnce(outer context.Context, cfg Config, m *metrics, out producer, build func(*base) processor) (string,
	error,
) {
	ctx, cancel := context.WithCancelCause(outer)
	defer cancel(errDone)
	p := build(&base{cfg: cfg, metrics: m, out: out, fail: cancel, stores: make(map[int32]*tableStore)})
	b := p.common()
	b.work = &processorWork{claims: make(map[place]sarama.ConsumerGroupClaim), ready: func(err error) {
		cfg.Health.set(b.name, err)
	}, released: func(graceful bool) {
		p.dropped(graceful)
		if graceful {
			flushCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), handOverIn)
			defer cancel()
			if err := out.client.Flush(flushCtx); err != nil {
				cfg.Logger.Warn("partitions given up before all of their states were written", "error", err)
			}
		}
	}}
	proc, err := goka.NewProcessor(cfg.Brokers, p.graph(), b.options(p)...)
	if err != nil {
		return b.name, fmt.Errorf("build the %s: %w", b.name, err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	cfg.Health.set(b.name, errRecovers)
	keepCtx, stop := context.WithCancel(ctx)
	defer stop()
	wg.Go(func() { p.keep(keepCtx) })
	wg.Go(func() { b.reportLag(keepCtx) })
	wg.Go(func() { b.watchRows(keepCtx) })
	err = proc.Run(ctx)
	if context.Cause(outer) != nil {
		cfg.leave(outer, out, b.group)
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		err = errors.Join(cause, err)
	}
	return b.name, err
}

// options put our parts in the place of goka's.
func (b *base) options(p processor) []goka.ProcessorOption {
	return []goka.ProcessorOption{
		goka.WithLogger(quietGoka(b.cfg)),
		goka.WithHasher(func() hash.Hash32 { return topology.NewHasher() }),
		goka.WithNilHandling(goka.NilProcess),
		goka.WithContextWrapper(b.work.track),
		goka.WithProducerBuilder(func([]string, string, func() hash.Hash32) (goka.Producer, error) {
			return b.out, nil
		}),
		goka.WithConsumerGroupBuilder(func(brokers []string, name, _ string) (sarama.ConsumerGroup, error) {
			inner, err := sarama.NewConsumerGroup(brokers, name, b.cfg.saramaConfig(name))
			if err != nil {
				return nil, err
			}
			pause := func() <-chan time.Time { return b.cfg.Clock.After(rejoinIn) }
			return &group{ConsumerGroup: inner, work: b.work, pause: pause}, nil
		}),
		goka.WithConsumerSaramaBuilder(func(brokers []string, _ string) (sarama.Consumer, error) {
			return sarama.NewConsumer(brokers, b.cfg.saramaConfig(b.group))
		}),
		goka.WithTopicManagerBuilder(func(brokers []string) (goka.TopicManager, error) {
			return goka.NewTopicManager(brokers, b.cfg.saramaConfig(b.group), topicManagerConfig(b.cfg.Replication))
		}),
		goka.WithStorageBuilder(func(_ string, partition int32) (storage.Storage, error) {
			store := newTableStore(func(s *tableStore) error {
				b.restore(s)
				return p.gained(partition, s)
			})
			b.mu.Lock()
			defer b.mu.Unlock()
			b.stores[partition] = store
			return store, nil
		}),
		goka.WithUpdateCallback(func(ctx goka.UpdateContext, s storage.Storage, key string, value []byte) error {
			if value == nil {
				return s.Delete(key)
			}
			p.merge(key, value, positionOf(ctx.Headers()), b.store(ctx.Partition()))
			return nil
		}),
	}
}

// store is the table of an owned partition, or nil.
func (b *base) store(partition int32) *tableStore {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stores[partition]
}

// restore writes rows again that a former owner has overwritten with older ones, before compaction makes that final.
func (b *base) restore(store *tableStore) {
	for key, row := range store.overruled() {
		b.cfg.Logger.Warn("a former owner wrote late; its row is replaced", "table", b.table, "key", key)
		at, ok := store.at[key]
		if !ok {
			at = -1
		}
		b.rewrite(key, row, at)
	}
}

// rewrite writes a row once more; at is its position, -1: it has none.
func (b *base) rewrite(key string, row []byte, at int64) {
	rec := &kgo.Record{Topic: b.table, Key: []byte(key), Value: row}
	if at >= 0 {
		rec.Headers = atHeader(at)
	}
	b.out.send(rec, func(_ *kgo.Record, err error) {
		if err != nil {
			b.fail(fmt.Errorf("write %q to %s again: %w", key, b.table, err))
		}
	})
}

func (b *base) forgetStores() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.stores)
}

func (b *base) reportLag(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.cfg.Clock.After(lagReportIn):
		}
		for at, lag := range b.work.lags() {
			b.metrics.lag.WithLabelValues(at.topic, strconv.Itoa(int(at.partition))).Set(float64(lag))
		}
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
func quietGoka(cfg Config) goka.Logger { return log.New(debugWriter{cfg}, "", 0) }

type debugWriter struct{ cfg Config }

func (w debugWriter) Write(p []byte) (int, error) {
	w.cfg.Logger.Debug("goka", "line", strings.TrimSpace(string(p)))
	return len(p), nil
}

var _ io.Writer = debugWriter{}
