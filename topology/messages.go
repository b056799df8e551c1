package topology

import "cmp"

// Subjects of NATS on which clients ask. Every processor hears a question; the one that owns the workspace answers,
// with the headers below. AskStopped is answered by each sequencer, with its stopped workspaces as JSON: a list of
// StoppedFact.
const (
	AskClosure   = "hence.v1.ask.closure"   // the closure's table
	AskFrontier  = "hence.v1.ask.frontier"  // the frontier's table
	AskUnsettled = "hence.v1.ask.unsettled" // this one and those below: the fold, exact as of a seq
	AskCone      = "hence.v1.ask.cone"
	AskRules     = "hence.v1.ask.rules"
	AskLive      = "hence.v1.ask.live"
	AskStopped   = "hence.v1.ask.stopped"
	AskLevel     = "hence.v1.ask.level" // what the anomalies processor holds, as JSON: AnomalyLevel
)

// Headers of a question and of its answer.
const (
	HeaderWorkspace = "Hence-Workspace" // a decision's message has it too
	HeaderWhat      = "Hence-What"      // a transaction, a prefix of scopes, or WhatLogic
	HeaderLimit     = "Hence-Limit"
	HeaderAtLeast   = "Hence-At-Least" // a fold that is not there yet does not answer
	HeaderError     = "Hence-Error"
	HeaderMore      = "Hence-More"    // set: there is more than the answer holds
	HeaderStopped   = "Hence-Stopped" // set: the partition or the workspace has stopped; another replica may go on

	HeaderLogic   = "Hence-Logic"   // the newest that the answering owner knows
	HeaderEvents  = "Hence-Events"  // the newest format of hence.events that it reads
	HeaderReplica = "Hence-Replica" // a or b: whose owner it is
	HeaderGroups  = "Hence-Groups"  // the replicas that have members, with commas; left away when Kafka does not say
)

// WhatLogic in a question for the rules asks for what the owner knows, too; older releases answer for the rules alone.
const WhatLogic = "logic"

// MaxAnswerRows is how many rows an answer has at most.
const MaxAnswerRows = 1000

// Headers of a decision's message on NATS.
const (
	HeaderLog  = "Hence-Log" // names its log, by the id that Kafka gave hence.intents
	HeaderSeq  = "Hence-Seq"
	HeaderAtMs = "Hence-At-Ms" // the publisher's clock; only where to begin to look in Kafka rests on these two

	// HeaderIntentMs is when the intent was appended, by the clock of who did; left away where that is not known.
	HeaderIntentMs = "Hence-Intent-Ms"

	// For people, since the body is MessagePack; left away where empty. The workspace's is HeaderWorkspace.
	HeaderKind  = "Hence-Kind"
	HeaderTx    = "Hence-Tx"
	HeaderAgent = "Hence-Agent"
	HeaderCode  = "Hence-Code"
)

// MetadataLog is what HeaderLog is, on the stream that keeps decisions.
const MetadataLog = "hence-log"

// HeaderTrace is the W3C trace context on records of Kafka and messages of NATS. It travels beside what is decided:
// the fold does not see it, and no hash knows it.
const HeaderTrace = "traceparent"

// HeaderParkedCut says that more came with a parked record than is kept.
const HeaderParkedCut = "hence-parked-cut"

// Why a record was parked: values of HeaderParkedReason and labels of a metric, so there are few of them.
const (
	ParkedEmpty     = "empty"
	ParkedMalformed = "malformed"
	ParkedForeign   = "foreign_version"
	ParkedOversize  = "oversize"
	ParkedKey       = "key"
	ParkedPartition = "partition"
)

// Largest records that are read; a larger one is parked unread. Producers of ours stay far below.
const (
	MaxIntentBytes = 512 << 10
	MaxEventBytes  = 512 << 10
)

// StoppedFact is a workspace that has stopped in one replica while its partition goes on.
type StoppedFact struct {
	Workspace string `json:"workspace"`
	Replica   string `json:"replica"`
	Instance  string `json:"instance"` // the process that says so
	Partition int32  `json:"partition"`
	At        int64  `json:"at"`   // offset of the record that it cannot pass; -1: no record has come yet
	From      int64  `json:"from"` // offset of the first record that is to be read again
	Reason    string `json:"reason"`
	What      string `json:"what"` // all of it, for people
	Fix       string `json:"fix"`
}

// CompareStopped orders facts by workspace and replica.
func CompareStopped(a, b StoppedFact) int {
	return cmp.Or(cmp.Compare(a.Workspace, b.Workspace), cmp.Compare(a.Replica, b.Replica))
}
