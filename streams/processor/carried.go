package processor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/lovoo/goka"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// Releases before this one read hence.decisions twice: a first step carried each decision over to hence.scopes or
// hence.txs, a second one made rows of that. Where such a release ended, its groups have committed decisions whose
// rows are not made. So a partition's new owner reads what is left of the former topic first. All of it is there:
// a decision was committed behind the acknowledgement of what was carried over, and a former owner that still carries
// can no longer commit, so what it carries late comes again from hence.decisions. Topics of that time are kept for a
// week and may be deleted by hand once all processors are of this release; new installations have none.

// takeCarried gives take each record that a group has not read of a former topic's partition, and returns when Kafka
// has the rows of all of them. What take cannot read is passed over: no processor of ours wrote it.
func (p *lazyPart[R]) takeCarried(topic string, take func(key string, value []byte, l *ledger, e *entry) error) error {
	session := p.store.session.Context() // not the present one: this recovery may have outlived its own
	ctx, cancel := context.WithTimeout(session, streams.RequestTimeout)
	defer cancel()
	from, to, err := p.leftOf(ctx, topic, p.partition)
	if err != nil || from >= to {
		return err
	}
	done := new(atomic.Bool)
	l := newLedger(func(string, int32, int64) { done.Store(true) })
	e := l.begin(topic, p.partition, to-1)
	err = p.cfg.ReadRange(session, topic, p.partition, from, to, func(r *kgo.Record) error {
		key := string(r.Key)
		if checkKey(key, p.partition, p.cfg.Partitions) != "" {
			return nil
		}
		if err := take(key, r.Value, l, e); err != nil {
			p.cfg.Logger.Warn("a record that a former release carried over cannot be read", "topic", topic,
				"partition", p.partition, "offset", r.Offset, "error", err)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read what is left of %s: %w", topic, err)
	}
	// Written before goka begins: it passes over these records, and commits them.
	p.mu.Lock()
	p.writeAll()
	stopped := p.stopped != nil
	p.mu.Unlock()
	if stopped {
		return nil // passOver keeps them uncommitted
	}
	l.release(e)
	if err := p.out.client.Flush(session); err != nil {
		return fmt.Errorf("write the rows of what is left of %s: %w", topic, err)
	}
	if !done.Load() {
		return fmt.Errorf("rows of what is left of %s could not be written", topic)
	}
	return nil
}

// leftOf is what a group has not read of a former topic; nothing where it begins with the first decision.
func (b *base) leftOf(ctx context.Context, topic string, partition int32) (from, to int64, err error) {
	there, err := b.hasTopic(ctx, topic)
	if err != nil || !there {
		return 0, 0, err
	}
	offsets, err := kadm.NewClient(b.out.client).FetchOffsets(ctx, b.group)
	if err != nil {
		return 0, 0, fmt.Errorf("offsets of group %s: %w", b.group, err)
	}
	decisions, begun := offsets.Lookup(topology.TopicDecisions, partition)
	carried, _ := offsets.Lookup(topic, partition)
	if err := cmp.Or(decisions.Err, carried.Err); err != nil {
		return 0, 0, fmt.Errorf("offsets of group %s: %w", b.group, err)
	}
	if !begun || decisions.At < 0 {
		return 0, 0, nil
	}
	start, err := streams.StartOffset(ctx, b.out.client, topic, partition)
	if err != nil {
		return 0, 0, err
	}
	to, err = streams.EndOffset(ctx, b.out.client, topic, partition)
	return max(carried.At, start), to, err
}

// carried are the inputs of a graph that only an installation of a former release has. Goka reads them for nothing but
// that all members of a group, of either release, read the same topics: else none would be given a partition.
func (t *lazyTable[R]) carried(topic string) []goka.Edge {
	ctx, cancel := context.WithTimeout(context.Background(), streams.RequestTimeout)
	defer cancel()
	there, err := t.hasTopic(ctx, topic)
	if err != nil {
		// Not a reason to end here: gaining a partition asks again.
		t.cfg.Logger.Debug("failed to look for a topic of former releases", "topic", topic, "error", err)
	}
	if !there {
		return nil
	}
	return []goka.Edge{goka.Input(goka.Stream(topic), rawCodec{}, t.passOver)}
}

// passOver commits a record whose rows are written, or will be from hence.decisions.
func (t *lazyTable[R]) passOver(ctx goka.Context, _ any) {
	p := t.part(ctx.Partition())
	p.mu.Lock()
	stopped := p.stopped != nil
	p.mu.Unlock()
	if stopped {
		refuse(recordOf(ctx)) // takeCarried did not come to its end
	}
}

// hasTopic says whether a topic is there and ours to read.
func (b *base) hasTopic(ctx context.Context, topic string) (bool, error) {
	topics, err := kadm.NewClient(b.out.client).ListTopics(ctx, topic)
	if err == nil {
		err = topics[topic].Err
	}
	if errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.TopicAuthorizationFailed) {
		return false, nil // Kafka says the latter of topics that are not there, too
	}
	if err != nil {
		return false, fmt.Errorf("look for topic %s: %w", topic, err)
	}
	return true, nil
}
