package processor

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/IBM/sarama"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/embedded"
	"github.com/hence-dev/hence/streams/internal/meters"
	"github.com/hence-dev/hence/topology"
	"github.com/hence-dev/hence/topology/machine"
)

// lasting is a session that lasts as long as its context.
type lasting struct {
	sarama.ConsumerGroupSession
	ctx context.Context
}

func (l lasting) Context() context.Context { return l.ctx }

// gainer is a base whose partition is gained by sessions one after the other, as goka has them do it.
func gainer(t *testing.T) (b *base, gain func(rows map[string][]byte) (store *tableStore, end func())) {
	t.Helper()
	servers, err := embedded.Start(t.Context(), embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = servers.Close() })
	cfg := streams.Config{Brokers: servers.Brokers, Partitions: 1, Replication: 1, Clock: machine.Clock{}, HashEvery: 1,
		Logger: slog.New(slog.DiscardHandler), Health: new(streams.Health)}
	if err := streams.EnsureTopics(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(cfg.ProducerOptions(0, kgo.NoCompression())...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	var read kadm.Offsets // a group that never committed is none to this server
	read.AddOffset(topology.TopicIntents, 0, 0, -1)
	group := topology.GroupOf(topology.GroupSequencer, "")
	if _, err := kadm.NewClient(client).CommitOffsets(t.Context(), group, read); err != nil {
		t.Fatal(err)
	}
	b = &base{cfg: cfg, metrics: meters.New(prometheus.NewRegistry()), out: producer{client: client},
		stores: make(map[int32]*tableStore), work: new(processorWork), fail: func(err error) { t.Error(err) }}
	return b, func(rows map[string][]byte) (*tableStore, func()) {
		ctx, end := context.WithCancel(t.Context())
		t.Cleanup(end)
		store := newTableStore(streams.TableSpan{Marker: -1}, nil)
		for key, row := range rows {
			_ = store.Set(key, row) // a map's does not fail
		}
		store.session = &session{ConsumerGroupSession: lasting{ctx: ctx}}
		b.work.session.Store(store.session)
		b.stores[0] = store
		return store, end
	}
}

// sequencerOf is a sequencer of which both replicas' states are known.
func sequencerOf(b *base) *seqProcessor {
	states := newComparison(b.cfg, b.metrics, "log")
	close(states.known)
	return newSeqProcessor(b, &natsOut{}, states)
}

// A recovery that outlives its session takes the place of no later one and leaves no owner of a partition that another
// member has: goka does not wait for it.
func TestRecoveryOutlivesItsSession(t *testing.T) {
	for name, build := range map[string]func(*base) (p processor, owner func() *tableStore){
		"sequencer": func(b *base) (processor, func() *tableStore) {
			s := sequencerOf(b)
			return s, func() *tableStore {
				if p := s.part(0); p != nil {
					return p.store
				}
				return nil
			}
		},
		"frontier": func(b *base) (processor, func() *tableStore) {
			f := newFrontierProcessor(b, nil)
			return f, func() *tableStore {
				if p := f.part(0); p != nil {
					return p.store
				}
				return nil
			}
		},
		"closure": func(b *base) (processor, func() *tableStore) {
			c := newClosureProcessor(b, nil)
			return c, func() *tableStore {
				if p := c.part(0); p != nil {
					return p.store
				}
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, gain := gainer(t)
			p, owner := build(b)
			gained := func(store *tableStore) {
				t.Helper()
				if err := p.gained(0, store); err != nil && !errors.Is(err, context.Canceled) {
					t.Fatal(err)
				}
			}
			former, end := gain(nil)
			end()
			p.dropped(false)
			gained(former)
			if owner() != nil {
				t.Error("a partition that is not ours has an owner")
			}
			heir, _ := gain(nil)
			gained(heir)
			if owner() != heir {
				t.Fatal("the session's own recovery is not the owner")
			}
			gained(former)
			if owner() != heir {
				t.Error("the recovery of a former session has taken the place of the present one")
			}
		})
	}
}

// What has stopped is said by the owner alone: a recovery that outlives its session says nothing that stays, and takes
// nothing back.
func TestOutlivedRecoverySaysNothing(t *testing.T) {
	b, gain := gainer(t)
	s := sequencerOf(b)
	bad := map[string][]byte{"shop": []byte("no state")}
	gained := func(store *tableStore) {
		t.Helper()
		if err := s.gained(0, store); err != nil {
			t.Fatal(err)
		}
	}
	says := func(want int) {
		t.Helper()
		if notes := b.cfg.Health.Notes(); len(notes) != want {
			t.Errorf("notes %v, want %d", notes, want)
		}
	}
	former, _ := gain(bad)
	s.dropped(false)
	gained(former)
	says(0)
	heir, _ := gain(bad)
	gained(heir)
	gained(former)
	says(1)
	s.dropped(false)
	says(0)
}

// What a stopped workspace lacks is read for the session that gained the partition: once that is over, the records are
// its heir's to apply.
func TestOutlivedRecoveryReadsNoRecords(t *testing.T) {
	b, gain := gainer(t)
	s := sequencerOf(b)
	record := &kgo.Record{Topic: topology.TopicIntents, Key: []byte("shop"), Value: []byte("parked")}
	if err := b.out.client.ProduceSync(t.Context(), record).FirstErr(); err != nil {
		t.Fatal(err)
	}
	mark, err := topology.EncodeStopped(&topology.Stopped{Workspace: "shop", State: -1, Reason: "an old release"})
	if err != nil {
		t.Fatal(err)
	}
	former, end := gain(map[string][]byte{topology.StoppedKey("shop"): mark})
	end()
	gain(nil)
	if err := s.gained(0, former); !errors.Is(err, context.Canceled) {
		t.Errorf("it read on in the session of its heir: %v", err)
	}
}
