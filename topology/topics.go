package topology

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Cleanup is what a broker does with old records.
type Cleanup string

// The cleanup policies.
const (
	CleanupDelete  Cleanup = "delete"  // drops segments by age
	CleanupCompact Cleanup = "compact" // keeps the last record of each key

	// CleanupTable is that of tables: as compact, and brokers let records be deleted that a marker has made superfluous;
	// nothing goes by age. A table that is only compacted works as well and takes more disk.
	CleanupTable Cleanup = "compact,delete"
)

// Forever is the retention of a topic that nothing is dropped from.
const Forever int64 = -1

// Defaults and bounds of Options.
const (
	DefaultPartitions  int32 = 8
	DefaultReplication int16 = 1
	MaxPartitions      int32 = 1024
)

const (
	dayMs    = int64(24 * time.Hour / time.Millisecond)
	mebibyte = 1 << 20

	// maxMessageBytes leaves space around a record of MaxRecordBytes for its key, its headers and its batch.
	maxMessageBytes = MaxRecordBytes + mebibyte
)

// Options are what an installation chooses about its topics. The zero value is a single broker's.
type Options struct {
	Partitions           int32  `json:"partitions"`             // of every topic, a power of two; zero: DefaultPartitions
	Replication          int16  `json:"replication"`            // copies of every partition; zero: DefaultReplication
	Replica              string `json:"replica,omitempty"`      // whose tables: "a" (or "") or "b"
	Anomalies            bool   `json:"anomalies,omitempty"`    // with the topic of what the detectors find
	IntentsRetentionMs   int64  `json:"intents_retention_ms"`   // zero: 90 days; Forever: kept
	DecisionsRetentionMs int64  `json:"decisions_retention_ms"` // zero: 365 days; Forever: kept
	EventsRetentionMs    int64  `json:"events_retention_ms"`    // zero or Forever: kept
}

// Topic is one topic as it must be on the broker.
type Topic struct {
	Name              string  `json:"name"`
	Key               string  `json:"key"`   // shape of the record keys; the part before "|" chooses the partition
	Value             string  `json:"value"` // format and record
	Purpose           string  `json:"purpose"`
	Group             string  `json:"group,omitempty"` // of a table: the group that owns it
	Partitions        int32   `json:"partitions"`
	Replication       int16   `json:"replication"`
	MinInsyncReplicas int16   `json:"min_insync_replicas"`
	Cleanup           Cleanup `json:"cleanup"`
	RetentionMs       int64   `json:"retention_ms"`  // Forever: -1
	SegmentBytes      int64   `json:"segment_bytes"` // a broker drops or compacts whole segments only
	MaxMessageBytes   int32   `json:"max_message_bytes"`
	Compression       string  `json:"compression"` // of the producers; the broker keeps what they send
}

// IsTable reports whether the topic keeps a group's table.
func (t Topic) IsTable() bool { return t.Group != "" }

// Config is the topic's configuration in the broker's names.
func (t Topic) Config() map[string]string {
	settings := map[string]string{
		"cleanup.policy":                 string(t.Cleanup),
		"retention.ms":                   strconv.FormatInt(t.RetentionMs, 10),
		"segment.bytes":                  strconv.FormatInt(t.SegmentBytes, 10),
		"max.message.bytes":              strconv.FormatInt(int64(t.MaxMessageBytes), 10),
		"min.insync.replicas":            strconv.FormatInt(int64(t.MinInsyncReplicas), 10),
		"unclean.leader.election.enable": "false",
		"compression.type":               "producer",
	}
	if t.IsTable() { // a former owner that wrote late must not make the heir's newer row vanish before it is noticed
		settings["min.compaction.lag.ms"] = strconv.FormatInt(dayMs, 10)
		settings["retention.bytes"] = "-1" // a broker's default would drop rows by size
	}
	return settings
}

// Topics are all topics of an installation, shared ones first, then the tables of o.Replica. The result is as valid as
// the options are: see Validate.
func Topics(o Options) []Topic {
	o = o.withDefaults()
	topics := append(sharedTopics(o), tableTopics(o.Replica)...)
	for i := range topics {
		t := &topics[i]
		t.Partitions, t.Replication = o.Partitions, o.Replication
		t.MinInsyncReplicas = min(2, o.Replication)
		if t.Compression == "" {
			t.Compression = "none"
		}
	}
	return topics
}

func (o Options) withDefaults() Options {
	if o.Partitions == 0 {
		o.Partitions = DefaultPartitions
	}
	if o.Replication == 0 {
		o.Replication = DefaultReplication
	}
	if o.IntentsRetentionMs == 0 {
		o.IntentsRetentionMs = 90 * dayMs
	}
	if o.DecisionsRetentionMs == 0 {
		o.DecisionsRetentionMs = 365 * dayMs
	}
	if o.EventsRetentionMs == 0 {
		o.EventsRetentionMs = Forever
	}
	return o
}

func sharedTopics(o Options) []Topic {
	topics := []Topic{
		{Name: TopicIntents, Key: "workspace", Value: "msgpack intent",
			Purpose: "the log: what every decision is a function of; kept as long as a replay or an audit may go back",
			Cleanup: CleanupDelete, RetentionMs: o.IntentsRetentionMs,
			SegmentBytes: 64 * mebibyte, MaxMessageBytes: maxMessageBytes},
		{Name: TopicEvents, Key: "workspace|tx", Value: "msgpack event",
			Purpose: "what agents read, wrote and called, and content by reference: dropping a record loses that content",
			Cleanup: CleanupDelete, RetentionMs: o.EventsRetentionMs,
			SegmentBytes: 64 * mebibyte, MaxMessageBytes: maxMessageBytes, Compression: "lz4"},
		{Name: TopicDecisions, Key: "workspace", Value: "application/cloudevents+json decision",
			Purpose: "every decision in commit order, for everybody; kept long, because an audit and a late view start here",
			Cleanup: CleanupDelete, RetentionMs: o.DecisionsRetentionMs,
			SegmentBytes: 64 * mebibyte, MaxMessageBytes: maxMessageBytes, Compression: "lz4"},
		{Name: TopicParked, Key: "as it came", Value: "bytes as they came",
			Purpose: "records that could not be read, with the place they came from and the reason in their headers",
			Cleanup: CleanupDelete, RetentionMs: 90 * dayMs,
			SegmentBytes: 16 * mebibyte, MaxMessageBytes: maxMessageBytes + mebibyte, Compression: "lz4"},
		{Name: TopicResidue, Key: "workspace|tx|index", Value: "application/json residue",
			Purpose: "effects that could not be made clean, for people; the last record of each counts and is kept",
			Cleanup: CleanupCompact, RetentionMs: Forever,
			SegmentBytes: 16 * mebibyte, MaxMessageBytes: mebibyte},
		{Name: TopicHashes, Key: "workspace", Value: "msgpack state hash",
			Purpose: "which state each replica has come to, so that two that differ stop; looked at for some days",
			Cleanup: CleanupDelete, RetentionMs: 3 * dayMs,
			SegmentBytes: 4 * mebibyte, MaxMessageBytes: mebibyte},
		{Name: TopicSeals, Key: "workspace", Value: "msgpack log seal",
			Purpose: "signed hashes of what each group of processors has published, for audits; kept as the decisions are",
			Cleanup: CleanupDelete, RetentionMs: o.DecisionsRetentionMs,
			SegmentBytes: 4 * mebibyte, MaxMessageBytes: mebibyte},
	}
	if o.Anomalies {
		topics = append(topics, Topic{Name: TopicAnomalies, Key: "workspace",
			Value:   "application/cloudevents+json anomaly",
			Purpose: "what the detectors found among the last operations, for everybody; kept as decisions are",
			Cleanup: CleanupDelete, RetentionMs: o.DecisionsRetentionMs,
			SegmentBytes: 16 * mebibyte, MaxMessageBytes: mebibyte, Compression: "lz4"})
	}
	return topics
}

func tableTopics(replica string) []Topic {
	table := func(group, key, value, purpose string) Topic {
		group = GroupOf(group, replica)
		return Topic{Name: TableOf(group), Key: key, Value: value, Purpose: purpose, Group: group,
			Cleanup: CleanupTable, RetentionMs: Forever,
			SegmentBytes: 16 * mebibyte, MaxMessageBytes: maxMessageBytes, Compression: "lz4"}
	}
	return []Topic{
		table(GroupSequencer, "workspace", "msgpack replica",
			"state of each workspace's fold, with its outbox; workspace|stopped: where one has stopped"),
		table(GroupClosure, "workspace|tx", "msgpack closure row", "what each transaction rests on, and its status"),
		table(GroupFrontier, "workspace|scope", "msgpack frontier row", "version, writer, content, open epochs of scopes"),
	}
}

// Validate says everything that is wrong with a set of topics, each with what to do about it.
func Validate(topics []Topic) error {
	var problems []error
	seen := map[string]bool{}
	for _, t := range topics {
		if seen[t.Name] {
			problems = append(problems, fmt.Errorf("topic %s is there twice: name it once", t.Name))
		}
		seen[t.Name] = true
		if t.Partitions != topics[0].Partitions {
			problems = append(problems, fmt.Errorf("topic %s has %d partitions and %s has %d: give all the same number",
				t.Name, t.Partitions, topics[0].Name, topics[0].Partitions))
		}
		for _, p := range t.problems() {
			problems = append(problems, fmt.Errorf("topic %s: %w", t.Name, p))
		}
	}
	return errors.Join(append(problems, coneProblems(topics)...)...)
}

func (t Topic) problems() (problems []error) {
	hold := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	hold(validTopicName(t.Name), "the name must be 1 to 249 of a-z, 0-9, '.', '-'")
	n := t.Partitions
	hold(n >= 1 && n <= MaxPartitions && n&(n-1) == 0,
		"%d partitions: take a power of two up to %d, where all partitioners agree", n, MaxPartitions)
	hold(t.Replication >= 1, "replication %d: at least 1 copy is needed", t.Replication)
	hold(t.MinInsyncReplicas >= 1 && t.MinInsyncReplicas <= t.Replication,
		"min.insync.replicas %d with replication %d: no write could be acknowledged", t.MinInsyncReplicas, t.Replication)
	hold(t.MinInsyncReplicas >= min(2, t.Replication),
		"min.insync.replicas %d: take 2, or one lost broker loses acknowledged records", t.MinInsyncReplicas)
	hold(t.RetentionMs == Forever || t.RetentionMs >= dayMs, "retention.ms %d: take -1 or at least %d (a day)",
		t.RetentionMs, dayMs)
	hold(t.SegmentBytes >= mebibyte && t.SegmentBytes <= 1024*mebibyte,
		"segment.bytes %d: take 1 MiB to 1 GiB", t.SegmentBytes)
	hold(t.MaxMessageBytes >= mebibyte && int64(t.MaxMessageBytes) <= t.SegmentBytes,
		"max.message.bytes %d: take at least 1 MiB and at most segment.bytes %d", t.MaxMessageBytes, t.SegmentBytes)
	switch t.Cleanup {
	case CleanupCompact, CleanupTable:
		hold(t.RetentionMs == Forever, "a compacted topic needs retention.ms -1: some brokers drop its rows by age")
	case CleanupDelete:
		hold(!t.IsTable(), "a table needs cleanup.policy compact: else its rows are dropped by age")
	default:
		hold(false, "cleanup.policy %q: take delete, compact, or compact,delete for a table", t.Cleanup)
	}
	hold(t.Compression == "none" || t.Compression == "lz4", "compression %q: take none or lz4", t.Compression)
	return problems
}

func validTopicName(name string) bool {
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '.' && c != '-' {
			return false
		}
	}
	return name != "" && len(name) <= 249
}
