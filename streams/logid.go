package streams

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hence-dev/hence/topology"
)

// NATS keeps decisions, and knows nothing of the Kafka beside it: when the brokers' disks are lost, or NATS serves two
// clusters, the stream and the subjects carry decisions of another log under the same workspaces and seqs. So each
// message names its log, by the id that Kafka gave hence.intents when it was created, and who follows one log passes
// over the others'. An id of the cluster would not do: it may be configured, and outlives its topics.

// askIDAgain is the pause before the id of the log is asked for again.
const askIDAgain = 100 * time.Millisecond

var errNoLogID = errors.New("the broker gives topics no ids")

// LogID asks for the id of the log; it tries until Kafka answers or ctx ends.
func LogID(ctx context.Context, cl *kgo.Client, cfg Config) (string, error) {
	for {
		tryCtx, cancel := context.WithTimeout(ctx, RequestTimeout)
		id, err := TopicID(tryCtx, cl, topology.TopicIntents)
		cancel()
		if err == nil {
			return id, nil
		}
		cfg.Logger.Debug("the id of the log is not known yet", "error", err)
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("ask for the id of the log: %w", errors.Join(err, ctx.Err()))
		case <-cfg.Clock.After(askIDAgain):
			// Without the id another log's messages could not be told apart, so nothing begins before it is known.
		}
	}
}

// TopicID is the id that Kafka gave a topic when it was created. It is asked, and not what a client remembers.
func TopicID(ctx context.Context, cl *kgo.Client, topic string) (string, error) {
	req, asked := kmsg.NewPtrMetadataRequest(), kmsg.NewMetadataRequestTopic()
	asked.Topic = kmsg.StringPtr(topic)
	req.Topics = append(req.Topics, asked)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return "", err
	}
	for _, t := range resp.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return "", err
		}
		if id := kadm.TopicID(t.TopicID); id != (kadm.TopicID{}) {
			return id.String(), nil
		}
	}
	return "", errNoLogID
}

// ID names the client's log; no other has it, whatever workspaces and transactions both have. Kafka is asked each
// time: the error is ErrOtherLog once the log is not the one any more that this client has first had to do with.
func (c *Client) ID(ctx context.Context) (string, error) {
	id, err := LogID(ctx, c.log, c.cfg)
	if err != nil {
		return "", err
	}
	// Callers ask at the same time, and the first answer is the client's log from then on.
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.id == "" {
		c.id = id
	}
	if c.id != id {
		// What this client holds, such as seqs and a lease, is of a log that is gone.
		return "", ErrOtherLog
	}
	return id, nil
}

// firstID is the id of the log that this client has first had to do with.
func (c *Client) firstID(ctx context.Context) (string, error) {
	// See ID; given back before Kafka is asked.
	c.mu.Lock()
	id := c.id
	c.mu.Unlock()
	if id != "" {
		return id, nil
	}
	return c.ID(ctx)
}

// ErrOtherLog says that hence.intents is gone, or another topic of the same name: its brokers lost their disks, or
// it was deleted. What was acknowledged before is lost with it.
var ErrOtherLog = errors.New("hence.intents is another topic than before, or gone: its brokers lost their disks or " +
	"it was deleted, and all that it held is lost")

const (
	sameLogEvery = 2 * time.Second
	goneAsks     = 3 // answers in a row that the topic is gone: a broker that starts may not know it yet
)

// SameLog waits for the log to be there, and then until it is another one or gone: then it returns ErrOtherLog. It
// returns nil when ctx ends. Brokers that do not answer say nothing.
func SameLog(ctx context.Context, cfg Config) error {
	cfg, err := cfg.Checked()
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(cfg.ProducerOptions(0, kgo.NoCompression())...)
	if err != nil {
		return fmt.Errorf("connect to Kafka: %w", err)
	}
	defer client.Close()
	first, err := LogID(ctx, client, cfg)
	for gone := 0; err == nil && ctx.Err() == nil; {
		askCtx, cancel := context.WithTimeout(ctx, RequestTimeout)
		now, asked := TopicID(askCtx, client, topology.TopicIntents)
		cancel()
		if errors.Is(asked, kerr.UnknownTopicOrPartition) {
			gone++
		} else {
			gone = 0
		}
		if asked == nil && now != first || gone >= goneAsks {
			return ErrOtherLog
		}
		select {
		case <-ctx.Done():
		case <-cfg.Clock.After(sameLogEvery):
			// A poll, since Kafka tells of a deleted topic only who asks.
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}
