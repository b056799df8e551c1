package cli

import (
	"fmt"
	"log/slog"

	"github.com/hence-dev/hence/streams"
)

// servers are the addresses of Kafka and NATS; the defaults are where "hence dev" listens.
type servers struct {
	Brokers []string `placeholder:"HOST:PORT" default:"127.0.0.1:9092" help:"Kafka brokers, separated by commas."`
	NATS    string   `name:"nats" placeholder:"URL" default:"nats://127.0.0.1:4222" help:"NATS server."`

	Partitions int32 `default:"8" help:"Partitions of each topic: a power of two, the same for everybody."`
}

// topicShape is how topics are created; what exists already keeps its shape.
type topicShape struct {
	Replication int `default:"1" help:"Copies of each partition when topics are created; 3 on a real cluster."`
}

func (s servers) config(logger *slog.Logger) streams.Config {
	return streams.Config{Brokers: s.Brokers, NATS: s.NATS, Partitions: s.Partitions, Logger: logger}
}

func (t topicShape) apply(c streams.Config) (streams.Config, error) {
	if t.Replication < 1 {
		return c, fmt.Errorf("--replication is %d: give 1 or more", t.Replication)
	}
	c.Replication = t.Replication
	return c, nil
}
