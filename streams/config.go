// Package streams is the only door to Kafka and NATS. Here is the client that sidecars append, follow and read with,
// and what every connection needs: settings, security, topics, the id of the log. Package processor decides, package
// inspect looks at a cluster, package embedded is both servers in this process. DESIGN.md beside this file tells the
// life of a record.
package streams

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
	"github.com/hence-dev/hence/topology/machine"
)

// Config is everything that a client or a run of the processors is told. The zero value of a field means its default.
type Config struct {
	Brokers     []string // Kafka; at least one address
	NATS        string   // URLs, separated by commas; empty: Kafka alone delivers
	Kafka       Security // of the connections to Kafka; without TLS if Dial is set
	NATSAuth    NATSAuth // of the connections to NATS
	Dial        Dialer   // connects to both; nil: over the network
	Replica     string   // which group computes: "a" (as is "") or "b", with tables of its own
	Instance    string   // this process among the members of its groups; default: the host's name
	Replication int      // of topics; default 1
	Partitions  int32    // of every topic, a power of two; default 8
	Logger      *slog.Logger
	Metrics     prometheus.Registerer // default: a registry that is not served
	Clock       Clock                 // default: the machine's

	StateEvery   int           // steps between two written states, up to 8 times as many of a large one; default 256
	StateAfter   time.Duration // after which a changed state is written anyhow, as many times; default 1 s
	HashEvery    int           // seqs between two state hashes that replicas compare, the same in both; default 256
	SealEvery    int           // decisions that a seal covers at most, up to topology.MaxLogSeal; default 256
	SealAfter    time.Duration // after which fewer are sealed; default 2 s
	MarkAfter    int64         // bytes of a table's log before all rows are rewritten; default 4 MiB
	FetchWait    time.Duration // brokers may collect records for derived tables so long; default 50 ms; negative: not
	Linger       time.Duration // of the processors' producer; default 5 ms; negative: none
	NATSReplicas int           // copies of the decisions that JetStream keeps; default 1
	MemoryStream bool          // JetStream keeps decisions in memory instead of on disk
	CreateTopics bool          // processor.Run creates the topics that are missing, once Kafka answers
	Anomalies    int           // operations of a workspace among which anomalies are looked for; 0: they are not

	// SealKey signs what this group has published of each workspace, in hence.seals; nil: nothing is sealed.
	SealKey ed25519.PrivateKey

	Tracer trace.Tracer // of the processors' spans; default: the process's

	// Health is told how a run fares; nil: it is not kept.
	Health *Health

	// OnStateHash sees every state hash that the sequencer publishes. It runs on the decision path: be quick.
	OnStateHash func(workspace string, seq sequencer.Seq, hash sequencer.Hash)
	// Faults are for tests.
	Faults Faults

	kafkaTLS *tls.Config // made by Checked
}

// Faults say what goes wrong, in tests only.
type Faults struct {
	// Misread changes what the processors take for an intent.
	Misread func(workspace string, in *sequencer.Intent)

	// Encode makes a decision one that cannot be written, by an error.
	Encode func(o *sequencer.Outcome) error

	// EncodeState makes a state one that cannot be written, by an error.
	EncodeState func(workspace string, st *sequencer.ReplicaState) error

	// KnownLogic is the newest logic that the processors take for known; zero: the fold's.
	KnownLogic uint32

	// HideLogic answers as a release does that knows no question for the logic.
	HideLogic bool

	// HideEvents answers it as a release does that knows one format of hence.events.
	HideEvents bool

	// Rows runs at places in the life of a derived table's rows; see the processors' lazy.go for these.
	Rows func(table, place string)

	// BeforeStates runs before what the replicas say of their states is read.
	BeforeStates func()

	// Marking sees how far a processor is with the marker of a table's partition: begun, sent, written, marked, kept.
	Marking func(table string, partition int32, step string)

	// Gained sees a table's partition when it has been read: from which offset, how many bytes, and its rows.
	Gained func(table string, partition int32, from, bytes int64, rows map[string][]byte)

	// These happen to messages that arrive on a NATS subscription of Follow.
	DropEvery int // each n-th is lost; zero: none
	SwapEvery int // each n-th changes places with the next one; zero: none
}

// Clock is the time as processors and followers see it.
type Clock interface {
	Now() time.Time
	After(d time.Duration) <-chan time.Time
}

// Dialer connects to the server at an address, HOST:PORT, or gives up when ctx ends.
type Dialer func(ctx context.Context, network, address string) (net.Conn, error)

// Dial is for clients that take an interface and give no context: nats.go and sarama.
func (d Dialer) Dial(network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), RequestTimeout)
	defer cancel()
	return d(ctx, network, address)
}

// ErrConfig is returned by every function that takes a Config when a field of it cannot be used.
var ErrConfig = errors.New("configuration")

// Bounds and defaults that are not for the user to choose.
const (
	defaultPartitions = 8
	defaultStateEvery = 256
	defaultStateAfter = time.Second
	defaultHashEvery  = 256
	defaultSealEvery  = 256
	defaultSealAfter  = 2 * time.Second
	defaultMarkAfter  = 4 << 20
	defaultFetchWait  = 50 * time.Millisecond
	defaultLinger     = 5 * time.Millisecond
	maxPartitions     = 1024

	// DefaultAnomalies is for those who ask for anomalies without saying among how many operations, MaxAnomalies the
	// most: each that is stale costs a look at all of them.
	DefaultAnomalies = 1000
	MaxAnomalies     = 100_000
)

// Checked fills in the defaults; what cannot be used is ErrConfig. Every function that takes a Config calls it, and
// what it returns may be checked again.
func (c Config) Checked() (Config, error) {
	if len(c.Brokers) == 0 {
		return c, fmt.Errorf("%w: no Kafka address: give --brokers host:port", ErrConfig)
	}
	switch c.Replica {
	case "", "b":
	case "a":
		c.Replica = ""
	default:
		return c, fmt.Errorf(`%w: replica %q: it is "a" or "b"`, ErrConfig, c.Replica)
	}
	var err error
	if c.kafkaTLS, err = c.Kafka.checked(); err != nil {
		return c, fmt.Errorf("%w: Kafka: %w", ErrConfig, err)
	}
	if c.kafkaTLS != nil && c.Dial != nil {
		// Its connections would be plaintext without a word: franz-go wraps only those that it has dialled itself.
		return c, fmt.Errorf("%w: Kafka: TLS is not for connections that Dial makes", ErrConfig)
	}
	if c.Replication == 0 {
		c.Replication = 1
	}
	c.NATSReplicas = max(c.NATSReplicas, 1)
	if c.Partitions == 0 {
		c.Partitions = defaultPartitions
	}
	if n := c.Partitions; n < 1 || n > maxPartitions || n&(n-1) != 0 {
		return c, fmt.Errorf("%w: %d partitions: use a power of two up to %d, where all clients place keys alike",
			ErrConfig, n, maxPartitions)
	}
	if c.Anomalies < 0 || c.Anomalies > MaxAnomalies {
		return c, fmt.Errorf("%w: a window of %d operations: at most %d are held", ErrConfig, c.Anomalies, MaxAnomalies)
	}
	if c.Instance == "" {
		host, err := os.Hostname()
		if err != nil {
			return c, fmt.Errorf("%w: no instance name and no host name (%w): give --instance", ErrConfig, err)
		}
		c.Instance = host
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Metrics == nil {
		c.Metrics = prometheus.NewRegistry()
	}
	if c.Tracer == nil {
		c.Tracer = otel.Tracer("hence/streams")
	}
	if c.Clock == nil {
		c.Clock = machine.Clock{}
	}
	if c.StateEvery <= 0 {
		c.StateEvery = defaultStateEvery
	}
	if c.StateAfter <= 0 {
		c.StateAfter = defaultStateAfter
	}
	if c.HashEvery <= 0 {
		c.HashEvery = defaultHashEvery
	}
	if c.SealEvery <= 0 || c.SealEvery > topology.MaxLogSeal {
		c.SealEvery = defaultSealEvery
	}
	if c.SealAfter <= 0 {
		c.SealAfter = defaultSealAfter
	}
	if c.MarkAfter <= 0 {
		c.MarkAfter = defaultMarkAfter
	}
	if c.FetchWait == 0 {
		c.FetchWait = defaultFetchWait
	}
	if c.Linger == 0 {
		c.Linger = defaultLinger
	}
	c.Linger = max(c.Linger, 0)
	return c, nil
}
