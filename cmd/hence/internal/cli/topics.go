package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// topicsCmd groups what can be done with topics.
type topicsCmd struct {
	Create topicsCreateCmd `cmd:"" dev:"told" help:"Create missing topics."`
	Verify topicsVerifyCmd `cmd:"" help:"Compare the topics on the brokers with the expected ones."`
	Print  topicsPrintCmd  `cmd:"" help:"Print the expected topics, without asking a broker."`
}

// topicsCreateCmd is the configuration of "hence topics create".
type topicsCreateCmd struct {
	servers
	topicShape
	logging
	output
	Replica string `enum:"a,b" default:"a" help:"Replica whose tables are meant: a or b."`
}

// Run creates what is missing and says what there is now.
func (c *topicsCreateCmd) Run(ctx context.Context, s Streams) error {
	cfg := c.apply(c.config(c.logger(s.Err)))
	cfg.Replica = c.Replica
	if err := streams.EnsureTopics(ctx, cfg); err != nil {
		return fmt.Errorf("create the topics on %v: %w", c.Brokers, err)
	}
	topics := cfg.Topics()
	names := make([]string, len(topics))
	for i, t := range topics {
		names[i] = t.Name
	}
	return c.print(s.Out, map[string][]string{"topics": names}, func(w io.Writer) error {
		for _, name := range names {
			if _, err := fmt.Fprintln(w, name); err != nil {
				return err
			}
		}
		return nil
	})
}

// topicsVerifyCmd is the configuration of "hence topics verify".
type topicsVerifyCmd struct {
	servers
	topicShape
	logging
	output
	Replica string `enum:"a,b" default:"a" help:"Replica whose tables are meant: a or b."`
}

// Run compares and prints every difference; the exit code is 3 when there is one.
func (c *topicsVerifyCmd) Run(ctx context.Context, s Streams) error {
	cfg := c.apply(c.config(c.logger(s.Err)))
	cfg.Replica = c.Replica
	problems, err := streams.VerifyTopics(ctx, cfg)
	if err != nil {
		return fmt.Errorf("verify the topics on %v: %w", c.Brokers, err)
	}
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i] = p.String()
	}
	err = c.print(s.Out, map[string]any{"ok": len(lines) == 0, "problems": lines}, func(w io.Writer) error {
		if len(lines) == 0 {
			lines = []string{"all topics have the required configuration"}
		}
		for _, line := range lines {
			if _, err := fmt.Fprintln(w, line); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && len(problems) > 0 {
		return errCheck
	}
	return err
}

// topicsPrintCmd is the configuration of "hence topics print".
type topicsPrintCmd struct {
	topicShape
	output
	Partitions int32  `default:"8" help:"Partitions of each topic: a power of two."`
	Replica    string `enum:"a,b" default:"a" help:"Replica whose tables are meant: a or b."`
}

// Run prints the topics.
func (c *topicsPrintCmd) Run(s Streams) error {
	topics := topology.Topics(topology.Options{
		Partitions: c.Partitions, Replication: int16(c.Replication), Replica: c.Replica,
		Anomalies: c.Anomalies,
	})
	if err := topology.Validate(topics); err != nil {
		return fmt.Errorf("topics: %w", err)
	}
	return c.print(s.Out, topics, func(w io.Writer) error { return topology.Print(w, topics) })
}
