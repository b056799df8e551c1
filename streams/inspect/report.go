package inspect

import (
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// Report is what Cluster has found out. It holds facts; Problems are those of them that need an operator.
type Report struct {
	At        time.Time              `json:"at"` // by our clock
	Brokers   []BrokerFact           `json:"brokers"`
	ClusterID string                 `json:"cluster_id"`
	Log       string                 `json:"log"` // id of hence.intents; empty: there is none
	Topics    []TopicFact            `json:"topics"`
	Groups    []GroupFact            `json:"groups"`
	Decisions []DecisionsFact        `json:"decisions"` // per partition of hence.decisions
	Stopped   []topology.StoppedFact `json:"stopped"`   // workspaces, as the processors say
	Parked    int64                  `json:"parked"`    // records in hence.parked
	Replicas  ReplicasFact           `json:"replicas"`
	Clocks    []ClockFact            `json:"clocks"`
	NATS      NATSFact               `json:"nats"`
	Problems  []streams.Problem      `json:"problems"`

	Workspaces  []WorkspaceFact `json:"workspaces"`
	NamesUnread []int32         `json:"names_unread,omitempty"` // partitions whose stored names were not all read
}

// BrokerFact is one broker of the cluster.
type BrokerFact struct {
	ID      int32  `json:"id"`
	Address string `json:"address"`
	Version string `json:"version"`         // as its answers let one guess
	Error   string `json:"error,omitempty"` // why it does not answer
}

// TopicFact is one of our topics.
type TopicFact struct {
	Name       string            `json:"name"`
	Partitions int               `json:"partitions"` // zero: it is not there
	Replicas   int               `json:"replicas"`
	InSync     int               `json:"in_sync"`  // the fewest of any partition
	Leaders    int               `json:"leaders"`  // partitions that have one
	Settings   map[string]string `json:"settings"` // those that our guarantees rest on, as they are
}

// GroupFact is one group of processors.
type GroupFact struct {
	Name    string         `json:"name"`
	Replica string         `json:"replica"` // a or b
	State   string         `json:"state"`   // Stable, Empty, Dead, PreparingRebalance, …
	Members []MemberFact   `json:"members"`
	Lags    []PartitionLag `json:"lags"` // by topic and partition
	Error   string         `json:"error,omitempty"`
}

// MemberFact is one process in a group.
type MemberFact struct {
	Instance   string  `json:"instance"`
	Host       string  `json:"host"`
	Partitions []int32 `json:"partitions"`
}

// PartitionLag is how much of one partition a group has not committed. It may have read all of it: a record is
// committed once what it led to is written. That of a workspace at work takes a second, of a large one up to 8 s; that
// of an idle one up to 30 s, or until 4,096 records of the partition lie behind it.
type PartitionLag struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Committed int64  `json:"committed"` // -1: nothing yet
	End       int64  `json:"end"`
	Lag       int64  `json:"lag"` // -1: not known
}

// DecisionsFact is what the newest decisions of one partition show.
type DecisionsFact struct {
	Partition int32  `json:"partition"`
	End       int64  `json:"end"`    // records ever written
	Looked    int    `json:"looked"` // records that were read, from the end back
	Copies    int    `json:"copies"` // of them, second copies
	Gaps      []Gap  `json:"gaps"`
	Error     string `json:"error,omitempty"`
}

// Gap is a run of seqs that hence.decisions lacks.
type Gap struct {
	Workspace string `json:"workspace"`
	After     uint64 `json:"after"`
	Before    uint64 `json:"before"`
}

// ReplicasFact compares what the replicas have said last of their states.
type ReplicasFact struct {
	A          uint64 `json:"a"` // states that replica a has said, of those that were read
	B          uint64 `json:"b"`
	Compared   uint64 `json:"compared"`
	Difference string `json:"difference,omitempty"`
}

// ClockFact is how far another clock is ahead of ours.
type ClockFact struct {
	Whose       string  `json:"whose"`
	AheadMs     float64 `json:"ahead_ms"`     // negative: behind
	UncertainMs float64 `json:"uncertain_ms"` // the true value is within so much of it
}

// NATSFact is the delivery plane.
type NATSFact struct {
	Configured bool          `json:"configured"`
	Connected  bool          `json:"connected"`
	Server     string        `json:"server"`
	Version    string        `json:"version"`
	MaxPayload int64         `json:"max_payload_bytes"`
	JetStream  bool          `json:"jetstream"`
	Stream     bool          `json:"stream"`    // HENCE_DECISIONS is there
	OtherLog   bool          `json:"other_log"` // and has another log's decisions
	Messages   uint64        `json:"messages"`
	Bytes      uint64        `json:"bytes"`
	MaxBytes   int64         `json:"max_bytes"`
	MaxAge     time.Duration `json:"max_age_ns"`
	Replicas   int           `json:"replicas"`
	Storage    string        `json:"storage"`
	Error      string        `json:"error,omitempty"`
}

// inspectIn bounds each look; a cluster in trouble must not keep its doctor waiting.
const inspectIn = 5 * time.Second

// inspection is a report that is being written.
type inspection struct {
	*Report
	cfg   streams.Config
	cl    *kgo.Client
	admin *kadm.Client

	lowest map[string]sequencer.Seq // of the newest decisions of each workspace
}

func (i *inspection) problem(part, topic, what, fix string) {
	i.Problems = append(i.Problems, streams.Problem{Part: part, Topic: topic, What: what, Fix: fix})
}

// WorkspaceFact is one workspace.
type WorkspaceFact struct {
	Name  string `json:"name"`
	Logic uint32 `json:"logic,omitempty"` // of its rules; zero: no processor says

	// OtherNames are shards that hold something under a name that is not in NFC, the first of them. Releases before
	// names had one spelling wrote them.
	OtherNames []sequencer.Scope `json:"other_names,omitempty"`
	MoreNames  int               `json:"more_names,omitempty"` // beyond those
}
