package cli

import (
	"context"
	"log/slog"

	"github.com/hence-dev/hence/streams"
)

// lookAtCluster looks at Kafka, the topics, the processors and NATS.
func (c *doctorCmd) lookAtCluster(ctx context.Context, found *checkup, logger *slog.Logger) error {
	cfg, err := c.apply(c.config(logger))
	if err != nil {
		return err
	}
	cfg.Replica = c.Replica
	problems, err := streams.VerifyTopics(ctx, cfg)
	if err != nil {
		found.problem("brokers", "start them, or name others with --brokers", "%v", err)
		return nil
	}
	for _, p := range problems {
		found.problem("topics", p.Fix, "%s: %s", p.Topic, p.What)
	}
	if len(problems) == 0 {
		found.ok("topics", "all are as they must be, with %d partitions each", c.Partitions)
	}
	return nil
}
