package topology

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hence-dev/hence/sequencer"
)

// The topics that every processor and sidecar shares.
const (
	TopicIntents   = "hence.intents"   // key: workspace
	TopicEvents    = "hence.events"    // key: workspace|tx
	TopicDecisions = "hence.decisions" // key: workspace
	TopicParked    = "hence.parked"    // key: as the record that was parked
	TopicResidue   = "hence.residue"   // key: workspace|tx|index
	TopicHashes    = "hence.hashes"    // key: workspace
	TopicSeals     = "hence.seals"     // key: workspace
	TopicAnomalies = "hence.anomalies" // key: workspace; only where anomalies are looked for
)

// Topics that processors of former releases wrote for themselves, and that new installations do not have: decisions
// split by scope, and carried over to their transactions. What they had not read of them is read once more.
const (
	TopicScopes = "hence.scopes" // key: workspace|scope
	TopicTxs    = "hence.txs"    // key: workspace|tx
)

// The goka groups; replica b has the suffix "-b". A group's table is named by TableOf.
const (
	GroupSequencer = "hence-sequencer"
	GroupClosure   = "hence-closure"
	GroupFrontier  = "hence-frontier"
	GroupAnomalies = "hence-anomalies" // it has no table: what it knows comes back from the log
)

// The delivery plane on NATS.
const (
	DecisionSubjectPrefix = "hence.v1.decisions."
	DecisionSubjects      = DecisionSubjectPrefix + ">"
	DecisionStream        = "HENCE_DECISIONS" // the JetStream stream that keeps DecisionSubjects
)

// Headers of records in TopicParked, beside the headers that the record came with.
const (
	HeaderParkedTopic     = "hence-parked-topic"
	HeaderParkedPartition = "hence-parked-partition"
	HeaderParkedOffset    = "hence-parked-offset"
	HeaderParkedReason    = "hence-parked-reason"
)

// HeaderSignature is the header of a record of TopicSeals that signs its value: see SignLogSeal.
const HeaderSignature = "hence-signature"

const keySeparator = "|"

// maxWorkspaceBytes is the longest name of a workspace.
const maxWorkspaceBytes = 63

// The replicas: groups that compute the same decisions side by side.
const (
	ReplicaA = "a" // the first one; so is an empty name
	ReplicaB = "b"
)

// GroupOf is the name of a group for a replica.
func GroupOf(group, replica string) string {
	if replica == "" || replica == ReplicaA {
		return group
	}
	return group + "-" + replica
}

// TableOf is the name of the topic that keeps a group's table.
func TableOf(group string) string { return group + "-table" }

// DecisionSubject is the NATS subject of a workspace's decisions.
func DecisionSubject(workspace string) string { return DecisionSubjectPrefix + workspace }

// DecisionMessageID names one decision in JetStream's duplicate window, whichever replica publishes it.
func DecisionMessageID(workspace string, seq sequencer.Seq) string {
	return workspace + "/" + strconv.FormatUint(uint64(seq), 10)
}

// DuplicateWindow is how long JetStream remembers message ids.
const DuplicateWindow = 2 * time.Minute

// EventKey is the key of an event: workspace|tx.
func EventKey(workspace string, tx sequencer.TxID) string {
	return workspace + keySeparator + string(tx)
}

// ScopeKey is the key of a scope's move or row: workspace|scope; an empty scope is the workspace's own row.
func ScopeKey(workspace string, scope sequencer.Scope) string {
	return workspace + keySeparator + string(scope)
}

// WorkspaceOfKey is the part of a key that chooses the partition: all of it up to the first separator.
func WorkspaceOfKey(key string) string {
	workspace, _, _ := strings.Cut(key, keySeparator)
	return workspace
}

// RestOfKey is what follows the first separator of a key: a transaction, a scope, or nothing.
func RestOfKey(key string) string {
	_, rest, _ := strings.Cut(key, keySeparator)
	return rest
}

// ValidWorkspace says what is wrong with a workspace's name. A name is 1 to 63 of a-z, 0-9, '_' and '-', and begins
// with a letter or a digit, so that it can stand in a key, a NATS subject and a URL as it is.
func ValidWorkspace(name string) error {
	if name == "" {
		return fmt.Errorf("workspace name is empty: give 1 to %d of a-z, 0-9, '_', '-'", maxWorkspaceBytes)
	}
	if len(name) > maxWorkspaceBytes {
		return fmt.Errorf("workspace name has %d bytes: at most %d are allowed", len(name), maxWorkspaceBytes)
	}
	for i := range len(name) {
		c := name[i]
		letter := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		if !letter && (i == 0 || c != '_' && c != '-') {
			return fmt.Errorf("workspace name %q has %q at byte %d: "+
				"use a-z, 0-9, '_', '-', and begin with a letter or a digit", name, c, i)
		}
	}
	return nil
}
