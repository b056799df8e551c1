//go:build slim

package embedded

import (
	"context"
	"net"
)

// Servers would be the two running servers.
type Servers struct {
	Brokers []string // addresses of Kafka
	NATS    string   // URL of NATS
}

// Start refuses: this build has no servers.
func Start(context.Context, Options) (*Servers, error) {
	return nil, ErrNone
}

// Durable says whether data outlives the process.
func (s *Servers) Durable() bool { return false }

// Dial would connect to them.
func (s *Servers) Dial(context.Context, string, string) (net.Conn, error) { return nil, ErrNone }

// Close ends nothing.
func (s *Servers) Close() error { return nil }
