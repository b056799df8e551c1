package streams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams/internal/meters"
	"github.com/hence-dev/hence/topology"
)

// ErrUnknown is returned by Append and Publish when the caller's time ran out: the record may be in the log, now or
// later, or never. Appending the same intent again is safe: it has the same id.
var ErrUnknown = errors.New("outcome unknown")

// ErrTooLarge is returned by Append and Publish when a record is over the broker's limit, which was not appended then,
// and by Effects when a transaction has more of them than are read at once.
var ErrTooLarge = errors.New("record too large")

// ErrContent is returned by Content and Effects when what lies at a reference is not what the reference says.
var ErrContent = errors.New("content does not match its reference")

// Client appends to the log, follows decisions and reads the derived tables. It is safe for concurrent use.
type Client struct {
	cfg       Config
	metrics   *meters.Meters
	log       *kgo.Client // intents, and everything small
	events    *kgo.Client // events: bulk, compressed, and never in an intent's way
	nats      *nats.Conn  // nil: none configured
	connected atomic.Bool // nats is
	js        jetstream.JetStream

	mu        sync.Mutex
	id        string    // of the log; empty: not known yet
	fittedAt  time.Time // when the topics were last seen to be as they must be
	followers map[*follower]bool
}

// Dial makes a client. It connects in the background and again for ever, so a dead broker fails calls, by their own
// contexts, and never this one.
func Dial(ctx context.Context, cfg Config) (*Client, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	cfg, err := cfg.Checked()
	if err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg, metrics: meters.New(cfg.Metrics), followers: make(map[*follower]bool)}
	if c.log, err = kgo.NewClient(cfg.ProducerOptions(0, kgo.NoCompression())...); err != nil {
		return nil, fmt.Errorf("dial Kafka: %w", err)
	}
	if c.events, err = kgo.NewClient(cfg.ProducerOptions(0, kgo.Lz4Compression())...); err != nil {
		c.log.Close()
		return nil, fmt.Errorf("dial Kafka: %w", err)
	}
	if c.nats, err = cfg.DialNATS(c.natsChanged); err == nil && c.nats != nil {
		if c.nats.IsConnected() { // else it is told
			c.connected.Store(true)
		}
		c.js, err = jetstream.New(c.nats)
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("dial NATS: %w", err)
	}
	return c, nil
}

// Asking makes a client that can do no more than put questions to the processors, over a connection that the caller
// owns. It has no Kafka, and is not closed.
func Asking(cfg Config, conn *nats.Conn) *Client { return &Client{cfg: cfg, nats: conn} }

// Close ends the client's connections. Records in flight end as unknown.
func (c *Client) Close() {
	c.log.Close()
	c.events.Close()
	if c.nats != nil {
		c.nats.Close()
	}
}

// wake tells the followers of a workspace, or all of them, to look at once.
func (c *Client) wake(workspace string) {
	// Followers come and go on their callers' goroutines.
	c.mu.Lock()
	defer c.mu.Unlock()
	for f := range c.followers {
		if workspace == "" || f.workspace == workspace {
			select {
			case f.woken <- workspace == "":
			default:
				// It is woken already, and will look at everything once.
			}
		}
	}
}

// Append adds an intent to its workspace's log and returns its offset there once all in-sync replicas have it.
func (c *Client) Append(ctx context.Context, workspace string, in *sequencer.Intent) (int64, error) {
	if err := topology.ValidWorkspace(workspace); err != nil {
		return 0, err
	}
	value, err := topology.EncodeIntent(in)
	if err != nil {
		return 0, fmt.Errorf("append %s: %w", in.ID(), err)
	}
	if len(value) > topology.MaxIntentBytes {
		// Refused here with a name for it: the broker's own refusal would look like an outcome that is unknown.
		return 0, fmt.Errorf("append %s: %w: %d bytes, at most %d", in.ID(), ErrTooLarge, len(value),
			topology.MaxIntentBytes)
	}
	rec := &kgo.Record{Topic: topology.TopicIntents, Key: []byte(workspace), Value: value}
	r, err := produce(ctx, c.log, withTrace(rec, TraceOf(ctx)))
	if err != nil {
		return 0, fmt.Errorf("append %s: %w", in.ID(), err)
	}
	if decides(in) {
		// Its decision is on the way: the follower looks soon if NATS does not bring it.
		c.wake(workspace)
	}
	return r.Offset, nil
}

// decides reports whether a decision can follow from an intent. None does from a renewal that asks for no answer: a
// follower that it woke would ask NATS and Kafka for news about once a second, for each agent that does nothing.
func decides(in *sequencer.Intent) bool {
	return in.Kind != sequencer.IntentWatermark || in.Watermark.Confirm != 0
}

// Publish adds an event to hence.events and returns its place there.
func (c *Client) Publish(ctx context.Context, ev *topology.Event) (sequencer.Place, error) {
	rec, err := eventRecord([]*topology.Event{ev})
	if err != nil {
		return sequencer.Place{}, err
	}
	r, err := produce(ctx, c.events, withTrace(rec, cmp.Or(TraceOf(ctx), ev.Traceparent)))
	if err != nil {
		return sequencer.Place{}, fmt.Errorf("publish event %d of %s: %w", ev.Index, ev.Agent, err)
	}
	return sequencer.Place{Partition: r.Partition, Offset: r.Offset}, nil
}

// PublishAsync adds events of one transaction, or loose reads, in one record, and calls done, which may be nil and
// must not wait, when it is acknowledged or has failed for good. A content comes alone, and several events only where
// KnownEvents says that they are read. It waits only while the client's buffer is full.
func (c *Client) PublishAsync(events []*topology.Event, done func(sequencer.Place, error)) {
	if done == nil {
		done = func(sequencer.Place, error) {}
	}
	rec, err := eventRecord(events)
	if err != nil {
		done(sequencer.Place{}, err)
		return
	}
	// Without the caller's context: a record that has been promised must not be dropped from the buffer at its end.
	c.events.Produce(context.Background(), withTrace(rec, events[0].Traceparent), func(r *kgo.Record, err error) {
		if err != nil {
			done(sequencer.Place{}, classify(err))
			return
		}
		done(sequencer.Place{Partition: r.Partition, Offset: r.Offset}, nil)
	})
}

func eventRecord(events []*topology.Event) (*kgo.Record, error) {
	value, err := topology.EncodeEvents(events)
	if err != nil {
		return nil, fmt.Errorf("publish events: %w", err)
	}
	first := events[0]
	if err := topology.ValidWorkspace(first.Workspace); err != nil {
		return nil, err
	}
	if len(value) > topology.MaxEventBytes {
		return nil, fmt.Errorf("publish event %d of %s: %w: %d bytes, at most %d", first.Index, first.Agent,
			ErrTooLarge, len(value), topology.MaxEventBytes)
	}
	key := topology.EventKey(first.Workspace, first.Tx)
	return &kgo.Record{Topic: topology.TopicEvents, Key: []byte(key), Value: value}, nil
}

// produce appends a record and waits for its acknowledgement or for ctx. A record in flight cannot be taken back.
func produce(ctx context.Context, cl *kgo.Client, r *kgo.Record) (*kgo.Record, error) {
	if err := ctx.Err(); err != nil {
		// Nothing was sent, so this is no unknown outcome.
		return nil, err
	}
	type answer struct {
		r   *kgo.Record
		err error
	}
	answered := make(chan answer, 1)
	cl.Produce(ctx, r, func(r *kgo.Record, err error) { answered <- answer{r, err} })
	select {
	case a := <-answered:
		return a.r, classify(a.err)
	case <-ctx.Done():
		// The record is in flight and cannot be taken back: it may land after this.
		return nil, fmt.Errorf("%w: %w", ErrUnknown, ctx.Err())
	}
}

// classify sorts the errors of a produce: nil, surely not appended, or unknown. Unknown is the safe answer, so
// everything that is not listed is it.
func classify(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge):
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.InvalidTopicException):
		return err // refused before anything was written
	}
	return fmt.Errorf("%w: %w", ErrUnknown, err)
}

// Ready says what is wrong with each thing that the client needs; nil is well. "kafka": a broker answers. "nats": the
// connection stands (without it everything works, later). "topics": they are as they must be. "decisions": a processor
// decides, that is, the sequencer's group has a member.
func (c *Client) Ready(ctx context.Context) map[string]error {
	ready := map[string]error{"kafka": c.log.Ping(ctx), "nats": nil, "topics": nil, "decisions": nil}
	if c.nats == nil {
		ready["nats"] = errors.New("no NATS address is configured: decisions come by Kafka alone")
	} else {
		ready["nats"] = c.cfg.NATSAway(c.nats)
	}
	if ready["kafka"] != nil {
		ready["kafka"] = c.cfg.KafkaAway(ready["kafka"])
	}
	ready["topics"] = c.topicsFit(ctx)
	ready["decisions"] = c.decided(ctx)
	return ready
}

// fitFor is how long topics that were as they must be are taken to be so: a health check asks every few seconds, and
// the answer takes a broker some work.
const fitFor = 30 * time.Second

func (c *Client) topicsFit(ctx context.Context) error {
	now := c.cfg.Clock.Now()
	// Given back before Kafka is asked: probes may come from several goroutines, and one that hangs must not hold
	// Append's followers.
	c.mu.Lock()
	fit := !c.fittedAt.IsZero() && now.Sub(c.fittedAt) < fitFor
	c.mu.Unlock()
	if fit {
		return nil
	}
	problems, err := verifyTopics(ctx, c.log, c.cfg)
	if len(problems) > 0 {
		return fmt.Errorf("%w: %s", ErrTopics, problems[0])
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fittedAt = now
	return nil
}

// decided looks for a sequencer, of either replica.
func (c *Client) decided(ctx context.Context) error {
	names := []string{topology.GroupOf(topology.GroupSequencer, ""), topology.GroupOf(topology.GroupSequencer, "b")}
	groups, err := kadm.NewClient(c.log).DescribeGroups(ctx, names...)
	if err != nil {
		return fmt.Errorf("look for a sequencer: %w", err)
	}
	for _, g := range groups {
		if g.State == "Stable" && len(g.Members) > 0 {
			return nil
		}
	}
	return errors.New("no sequencer runs: start `hence streams`")
}

// natsChanged wakes every follower: NATS went or came.
func (c *Client) natsChanged(connected bool) {
	c.connected.Store(connected)
	c.wake("")
}
