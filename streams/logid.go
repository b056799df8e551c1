package streams

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/topology"
)

// NATS keeps decisions, and knows nothing of the Kafka beside it: when the brokers' disks are lost, or NATS serves two
// clusters, the stream and the subjects carry decisions of another log under the same workspaces and seqs. So each
// message names its log, by the id that Kafka gave hence.intents when it was created, and who follows one log passes
// over the others'. An id of the cluster would not do: it may be configured, and outlives its topics.

// headerLog is the header of a decision's message that names its log.
const headerLog = "Hence-Log"

// metadataLog is the same on the stream.
const metadataLog = "hence-log"

var errNoLogID = errors.New("the broker gives topics no ids")

// logID asks for the id of the log; it tries until Kafka answers or ctx ends.
func logID(ctx context.Context, cl *kgo.Client, cfg Config) (string, error) {
	for {
		tryCtx, cancel := context.WithTimeout(ctx, requestTimeout)
		id, err := topicID(tryCtx, cl, topology.TopicIntents)
		cancel()
		if err == nil {
			return id, nil
		}
		cfg.Logger.Debug("the id of the log is not known yet", "error", err)
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("ask for the id of the log: %w", errors.Join(err, ctx.Err()))
		case <-cfg.Clock.After(restartMin):
		}
	}
}

// topicID is the id that Kafka gave a topic when it was created.
func topicID(ctx context.Context, cl *kgo.Client, topic string) (string, error) {
	topics, err := kadm.NewClient(cl).ListTopics(ctx, topic)
	if err != nil {
		return "", err
	}
	detail := topics[topic]
	if detail.Err != nil {
		return "", detail.Err
	}
	if detail.ID == (kadm.TopicID{}) {
		return "", errNoLogID
	}
	return detail.ID.String(), nil
}

// ID names the client's log; no other has it, whatever workspaces and transactions both have. Kafka is asked each time:
// the error is ErrOtherLog once the log is not the one any more that this client has first had to do with.
func (c *Client) ID(ctx context.Context) (string, error) {
	id, err := logID(ctx, c.log, c.cfg)
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.id == "" {
		c.id = id
	}
	if c.id != id {
		return "", ErrOtherLog
	}
	return id, nil
}

// firstID is the id of the log that this client has first had to do with.
func (c *Client) firstID(ctx context.Context) (string, error) {
	c.mu.Lock()
	id := c.id
	c.mu.Unlock()
	if id != "" {
		return id, nil
	}
	return c.ID(ctx)
}
