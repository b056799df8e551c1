package streams

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/topology"
)

// ErrOtherLog says that hence.intents is gone, or another topic of the same name: its brokers lost their disks, or
// somebody deleted it. What was acknowledged before is lost with it.
var ErrOtherLog = errors.New("hence.intents is another topic than before, or gone: its brokers lost their disks or " +
	"somebody deleted it, and all that it held is lost")

const (
	sameLogEvery = 2 * time.Second
	goneAsks     = 3 // answers in a row that the topic is gone: a broker that starts may not know it yet
)

// SameLog waits for the log to be there, and then until it is another one or gone: then it returns ErrOtherLog. It
// returns nil when ctx ends. Brokers that do not answer say nothing.
func SameLog(ctx context.Context, cfg Config) error {
	cfg, err := cfg.checked()
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(cfg.producerOptions(0, kgo.NoCompression())...)
	if err != nil {
		return fmt.Errorf("connect to Kafka: %w", err)
	}
	defer client.Close()
	first, err := logID(ctx, client, cfg)
	for gone := 0; err == nil && ctx.Err() == nil; {
		askCtx, cancel := context.WithTimeout(ctx, requestTimeout)
		now, asked := topicID(askCtx, client, topology.TopicIntents)
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
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}
