//go:build slim

package embedded

import (
	"context"
	"errors"
)

// Servers would be the two running servers.
type Servers struct {
	Brokers []string // addresses of Kafka
	NATS    string   // URL of NATS
}

// Start refuses: this build has no servers.
func Start(context.Context, Options) (*Servers, error) {
	return nil, errors.New("this build has no embedded servers (its tag is slim, as in the container image): name real " +
		"ones with --brokers and --nats, or take a binary of \"go build ./cmd/hence\"")
}

// Durable says whether data outlives the process.
func (s *Servers) Durable() bool { return false }

// Close ends nothing.
func (s *Servers) Close() error { return nil }
