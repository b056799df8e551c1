// Package processor runs the goka processors that turn the log of intents into decisions (the sequencer), into what
// each transaction rests on (the closure) and into what each scope holds (the frontier). run.go supervises them;
// sequencing.go is the way of a record.
package processor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"github.com/lovoo/goka"
	"github.com/lovoo/goka/storage"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/internal/meters"
	"github.com/hence-dev/hence/topology"
	"github.com/hence-dev/hence/topology/pause"
)

// Pauses of the supervisor between a processor's end and its next start.
const (
	rejoinIn    = 10 * time.Millisecond // between two sessions of one consumer group
	restartMin  = 100 * time.Millisecond
	restartMax  = 2 * time.Second  // so long all stands still, at most, after a broker that was away is back
	restartCalm = 10 * time.Second // a run that lasted longer starts over with the shortest pause
	handOverIn  = 3 * time.Second  // what a partition that is given up may take to write its states
	giveUpIn    = 6 * time.Second  // from the end of a run: longer than a hand-over and a farewell take
)

// errDone ends a processor's run without being an error of it.
var errDone = errors.New("the run ends")

// Run runs the processors sequencer, closure and frontier, and anomalies if asked for, until ctx ends, and builds one
// that stops again. It waits for Kafka and NATS however long they are away, and for topics that are missing, or
// creates them if it may. It returns ErrTopics, with the commands that fix them, when topics are there and not as they
// must be.
func Run(ctx context.Context, cfg streams.Config) error {
	cfg, err := cfg.Checked()
	if err != nil {
		return err
	}
	changed := make(chan struct{}, 1)
	conn, err := cfg.DialNATS(func(bool) {
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
	cfg.Health.Set(streams.PartNATS, cfg.NATSAway(conn))
	// On wrong topics a state would be split or lost, so nothing is begun before they are seen to be right.
	if err := startable(ctx, cfg); err != nil {
		return err
	}
	client, err := kgo.NewClient(cfg.ProducerOptions(cfg.Linger, kgo.Lz4Compression())...)
	if err != nil {
		return fmt.Errorf("connect to Kafka: %w", err)
	}
	defer client.Close()
	m := meters.New(cfg.Metrics)
	id, err := streams.LogID(ctx, client, cfg)
	if err != nil {
		return err
	}
	written := newWrittenDecisions()
	out, states := newNATSOut(conn, m, id), newComparison(cfg, m, id)
	var sending, wg sync.WaitGroup
	ended := make(chan struct{})
	sending.Go(func() { out.send(ended) })
	defer func() { // what the processors published last leaves, too
		close(ended)
		sending.Wait()
	}()
	defer awaitEnd(&wg, cfg.Clock, client.Close)
	wg.Go(func() { out.keepStream(ctx, cfg, changed) })
	wg.Go(func() { states.watch(ctx) })
	wg.Go(func() { watchHealth(ctx, cfg, client, conn) })
	builds := []func(*base) processor{
		func(b *base) processor { return newSeqProcessor(b, out, states) },
		func(b *base) processor { return newClosureProcessor(b, conn) },
		func(b *base) processor { return newFrontierProcessor(b, conn) },
	}
	if cfg.Anomalies > 0 { // else nothing reads for it, and no topic is needed
		builds = append(builds, func(b *base) processor { return newAnomalyProcessor(b, conn) })
	}
	for _, build := range builds {
		wg.Go(func() {
			supervise(ctx, cfg, m, producer{client: client}, func(b *base) processor {
				b.written = written
				return build(b)
			})
		})
	}
	// The processors are built again for as long as that; what ends one of them is in the health, and not an error of
	// Run.
	<-ctx.Done()
	return nil
}

// awaitEnd waits for the processors. They wait for the acknowledgement of all that they emitted, and without a broker
// that would be for ever: after a bound the rest is given up. No offset has passed it, so a later run emits it again.
func awaitEnd(processors *sync.WaitGroup, clock streams.Clock, giveUp func()) {
	ended := make(chan struct{})
	go func() {
		processors.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	// The broker is away: what is not acknowledged is under no committed offset, and is emitted again.
	case <-clock.After(giveUpIn):
		giveUp()
		<-ended
	}
}

// supervise builds and runs a processor until ctx ends.
func supervise(ctx context.Context, cfg streams.Config, m *meters.Meters, out producer, build func(*base) processor) {
	pauses := pause.Doubling{Least: restartMin, Most: restartMax}
	for ctx.Err() == nil {
		began := cfg.Clock.Now()
		name, err := runOnce(ctx, cfg, m, out, build)
		if ctx.Err() != nil {
			// An end that was asked for is no fault to report.
			return
		}
		if cfg.Clock.Now().Sub(began) > restartCalm {
			pauses.Reset()
		}
		m.Restarts.WithLabelValues(name).Inc()
		if errors.Is(err, sarama.ErrFencedInstancedId) {
			err = fmt.Errorf("another process runs as instance %q: give each its own --instance: %w", cfg.Instance, err)
		}
		cfg.Health.Set(name, fmt.Errorf("it stopped and is being rebuilt: %w", err))
		next := pauses.Next()
		cfg.Logger.Warn("processor stopped: it is rebuilt after the pause", "processor", name, "pause", next, "error", err)
		select {
		case <-ctx.Done():
		// Longer each time: what stops it at once, such as a refused login, does not pass sooner for being asked more often.
		case <-cfg.Clock.After(next):
		}
	}
}

// runOnce builds and runs a processor once; goka's can run only once.
func runOnce(outer context.Context, cfg streams.Config, m *meters.Meters, out producer, build func(*base) processor,
) (string, error) {
	ctx, cancel := context.WithCancelCause(outer)
	defer cancel(errDone)
	p := build(&base{cfg: cfg, metrics: m, out: out, fail: cancel, stores: make(map[int32]*tableStore)})
	b := p.common()
	b.out.table, b.out.logged = b.table, b.logged
	b.work = &processorWork{claims: make(map[place]sarama.ConsumerGroupClaim), ready: func(err error) {
		cfg.Health.Set(b.name, err)
	}, released: func(graceful bool) {
		p.dropped(graceful)
		if graceful {
			flushCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), handOverIn)
			defer cancel()
			// The next owner reads the table at once: states still in the buffer would be folded a second time, for nothing.
			if err := out.client.Flush(flushCtx); err != nil {
				cfg.Logger.Warn("partitions were released before all their states were written", "error", err)
			}
		}
	}}
	proc, err := goka.NewProcessor(cfg.Brokers, p.graph(), b.options(p)...)
	if err != nil {
		return b.name, fmt.Errorf("build the %s: %w", b.name, err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	cfg.Health.Set(b.name, errRecovers)
	keepCtx, stop := context.WithCancel(ctx)
	defer stop()
	wg.Go(func() { p.keep(keepCtx) })
	wg.Go(func() { b.reportLag(keepCtx) })
	wg.Go(func() { b.watchRows(keepCtx) })
	wg.Go(func() { b.keepMarkers(keepCtx) })
	err = proc.Run(ctx)
	if context.Cause(outer) != nil {
		// Only when told to end: after a fault this member comes back, and its partitions need not move.
		leave(outer, cfg, out, b.group)
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		err = errors.Join(cause, err)
	}
	return b.name, err
}

// openStore begins the store of a partition that this process was given, and the reading of its table where the
// marker says. Without an answer it is not begun: who read from elsewhere would rely on rows that a marker has passed.
func (b *base) openStore(p processor, partition int32) (*tableStore, error) {
	ctx, cancel := context.WithTimeout(context.Background(), streams.RequestTimeout)
	defer cancel()
	of, err := streams.CommittedOf(ctx, b.out.client, b.group, topology.MarkerTopic(b.group), partition)
	if err != nil {
		return nil, err
	}
	span, err := streams.SpanOfTable(ctx, b.out.client, b.group, partition, of)
	if err != nil {
		return nil, err
	}
	if span.Marker >= 0 && span.Start > span.Marker {
		// Not by this or another release: what is left would look like the whole table.
		return nil, fmt.Errorf("%s/%d begins at offset %d, and its rows from %d on are needed: records were deleted by "+
			"hand or by a retention of the broker. If the other group goes on: %s. Else stop this group and delete its table "+
			"and its offsets: it computes the table again from the log", b.table, partition, span.Start, span.Marker,
			copyTable(b.group, b.table))
	}
	store := newTableStore(span, func(s *tableStore) error {
		if f := b.cfg.Faults.Gained; f != nil {
			f(b.table, partition, span.From(), s.read(), s.snapshot())
		}
		b.restore(s)
		return p.gained(partition, s)
	})
	store.session = b.work.session.Load()
	store.session.adopt(place{topology.MarkerTopic(b.group), partition}, span)
	return store, nil
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
			inner, err := sarama.NewConsumerGroup(brokers, name, b.groupConfig())
			if err != nil {
				return nil, err
			}
			pause := func() <-chan time.Time { return b.cfg.Clock.After(rejoinIn) }
			return &group{ConsumerGroup: inner, work: b.work, pause: pause}, nil
		}),
		goka.WithConsumerSaramaBuilder(func(brokers []string, _ string) (sarama.Consumer, error) {
			return sarama.NewConsumer(brokers, saramaConfig(b.cfg, b.group))
		}),
		goka.WithTopicManagerBuilder(func(brokers []string) (goka.TopicManager, error) {
			return goka.NewTopicManager(brokers, saramaConfig(b.cfg, b.group), topicManagerConfig(b.cfg.Replication))
		}),
		goka.WithStorageBuilder(func(_ string, partition int32) (storage.Storage, error) {
			store, err := b.openStore(p, partition)
			if err != nil {
				return nil, err
			}
			// Goka builds the storages of several partitions at once.
			b.mu.Lock()
			defer b.mu.Unlock()
			b.stores[partition] = store
			return store, nil
		}),
		goka.WithUpdateCallback(func(ctx goka.UpdateContext, _ storage.Storage, key string, value []byte) error {
			store := b.store(ctx.Partition())
			store.logged(ctx.Offset(), len(key)+len(value))
			if value == nil {
				return store.Delete(key)
			}
			// A copy: the record is a part of its whole batch, which the row would keep in memory.
			p.merge(key, bytes.Clone(value), positionOf(ctx.Headers()), store)
			return nil
		}),
	}
}
