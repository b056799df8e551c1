// Package embedded runs Kafka and NATS inside this process: franz-go's kfake and a nats-server, both on loopback, and
// without sockets for clients of this process. A client cannot tell them from real servers, and must not try. With the
// build tag slim it can start none, which makes a binary a quarter smaller.
package embedded

import (
	"errors"
	"fmt"
	"net"
	"strconv"
)

// ErrNone is returned by Start of a build with the tag slim. It says what each command does without servers.
var ErrNone = errors.New("this build has no embedded servers (its tag is slim, as in the container image): " +
	"leave out --embedded (hence run) or \"embedded: true\" (hence up), and name a cluster with --brokers and --nats, " +
	"as for hence demo; hence dev has no cluster but its own: take a binary of \"go build ./cmd/hence\"")

// Options say where the servers listen and what they keep.
type Options struct {
	DataDir   string // empty: nothing outlives the process
	KafkaPort int    // on 127.0.0.1; zero: a free one
	NATSPort  int    // on 127.0.0.1; zero: a free one
	Sync      bool   // with DataDir: what a server acknowledges is on the disk, not only with the kernel
}

// Port is the port of an address like "127.0.0.1:9092", for a restart on the same one.
func Port(address string) (int, error) {
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		return 0, fmt.Errorf("port of %q: %w", address, err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("port of %q: %w", address, err)
	}
	return port, nil
}
