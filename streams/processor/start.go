package processor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/streams"
)

// Pauses between two looks at topics that are not there yet: the first and the longest.
const (
	startMin = 100 * time.Millisecond
	startMax = 2 * time.Second
)

// startCheckIn bounds one look.
const startCheckIn = 10 * time.Second

// startable waits for Kafka and for the topics, however long that takes; it creates them if it may. It refuses to
// start on topics that would split or lose state.
func startable(ctx context.Context, cfg streams.Config) error {
	said, pause := "", startMin
	for {
		missing, err := lookAtTopics(ctx, cfg)
		if err == nil {
			return nil
		}
		if errors.Is(err, errMisfit) && !missing {
			// Topics that are there and wrong stay so however long one waits: people have to act.
			return err
		}
		if text := err.Error(); text != said && ctx.Err() == nil {
			said = text
			cfg.Logger.Warn("the processors wait for the brokers or the topics", "error", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("check the topics: %w", errors.Join(err, ctx.Err()))
		// Kafka, and the process that creates the topics, may start after this one.
		case <-cfg.Clock.After(pause):
		}
		pause = min(2*pause, startMax)
	}
}

// lookAtTopics looks once; missing says that topics are, and nothing else is wrong with them.
func lookAtTopics(ctx context.Context, c streams.Config) (missing bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, startCheckIn)
	defer cancel()
	if missing, err = misfits(ctx, c); missing && c.CreateTopics {
		if err = streams.EnsureTopics(ctx, c); err == nil {
			missing, err = misfits(ctx, c)
		}
	}
	if err == nil {
		c.Health.Set(streams.PartKafka, nil)
		c.Health.Set(streams.PartTopics, nil)
		return false, nil
	}
	var answer *kerr.Error
	if errors.Is(err, errMisfit) || errors.As(err, &answer) {
		c.Health.Set(streams.PartTopics, err)
		return missing, err
	}
	err = c.KafkaAway(err)
	c.Health.Set(streams.PartKafka, err)
	return true, err
}

// errMisfit keeps apart what Kafka has said of the topics from what kept it from saying anything.
var errMisfit = fmt.Errorf("%w do not match the required configuration", streams.ErrTopics)

// misfits compares the topics with what they must be.
func misfits(ctx context.Context, c streams.Config) (missing bool, err error) {
	problems, err := streams.VerifyTopics(ctx, c)
	if err != nil || len(problems) == 0 {
		return false, err
	}
	missing = true
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i], missing = p.String(), missing && p.What == streams.TopicMissing
	}
	return missing, fmt.Errorf("%w:\n%s", errMisfit, strings.Join(lines, "\n"))
}

// healthIn is how often Kafka and NATS are asked whether they are there.
const healthIn = time.Second

// watchHealth looks after Kafka and NATS until ctx ends.
func watchHealth(ctx context.Context, cfg streams.Config, kafka *kgo.Client, conn *nats.Conn) {
	h := cfg.Health
	if h == nil {
		return // the run has no readers of its health
	}
	for ctx.Err() == nil {
		tryCtx, cancel := context.WithTimeout(ctx, 2*healthIn)
		err := kafka.Ping(tryCtx)
		cancel()
		if err != nil {
			err = cfg.KafkaAway(err)
		}
		h.Set(streams.PartKafka, err)
		h.Set(streams.PartNATS, cfg.NATSAway(conn))
		select {
		case <-ctx.Done():
		// Probes read what is noted here: one that asked itself would add to an outage.
		case <-cfg.Clock.After(healthIn):
		}
	}
}
