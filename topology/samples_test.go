package topology

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/hence-dev/hence/sequencer"
)

// The samples are records as the fold and the sidecars make them; golden files, fuzz corpora, schema tests and
// benchmarks all start from them.

var sampleTime = time.Date(2026, 11, 21, 4, 5, 6, 789e6, time.UTC)

const sampleTrace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func sum(text string) sequencer.Hash { return sha256.Sum256([]byte(text)) }

func sampleSeal() *sequencer.Seal {
	return &sequencer.Seal{
		Reads: []sequencer.Read{
			{Scope: "shard:/orders/17", View: 41, Version: 39, Writer: "tx-a"},
			{Scope: "shard:/users/**", View: 42},
			{Scope: "shard:/users/mia", View: 42, Version: 7, Writer: "tx-0"},
		},
		Effects: []sequencer.Effect{
			{Scopes: []sequencer.Scope{"mail:/inbox/mia"}, Class: sequencer.ClassIrreversible, Tool: "mail.send"},
			{Index: 1, Scopes: []sequencer.Scope{"card:/4711", "card:/log"}, Class: sequencer.ClassKnownOutcome,
				Tool: "card.charge", Key: "tx-b/1", Known: true},
		},
		Touches: []sequencer.TouchReport{{N: 1, Known: true}},
		Shards: []sequencer.ShardWrite{
			{Scope: "shard:/orders/17", Type: "application/json", Content: []byte(`{"status":"paid","total":12.5}`),
				Expect: &sequencer.Expect{Version: 39, View: 41}},
			{Scope: "shard:/scan", Type: "image/png", Ref: &sequencer.Ref{Partition: 3, Offset: 99, Size: 70_000,
				SHA256: sum("scan")}},
		},
		Pins:         []sequencer.Pin{{Server: "mail", Name: "send", Signature: "s1"}},
		ReadFrom:     []sequencer.TxID{"tx-0"},
		Hook:         true,
		VerdictTicks: 12,
		At:           &sequencer.Place{Partition: 3, Offset: 1234},
	}
}

func sampleBegin() *sequencer.Begin {
	l := sequencer.L2
	return &sequencer.Begin{Mode: sequencer.Ordered, Levels: &l, DeadlineTicks: 100, Group: "g", Predecessor: "tx-9",
		May: []sequencer.Want{{Scope: "shard:/orders/**", Access: sequencer.WriteAccess}}}
}

// sampleIntents are one intent of each kind.
func sampleIntents() []*sequencer.Intent {
	rules := sequencer.DefaultRules()
	rules.Version = 1
	touch := &sequencer.Touch{Wants: []sequencer.Want{{Scope: "card:/4711", Access: sequencer.WriteAccess}},
		BoundTicks: 8}
	register := &sequencer.Register{Server: "mail", Generation: 2, Tools: []sequencer.Tool{{Name: "send",
		Signature: "s1"}}}
	settle := &sequencer.Settle{NoneElse: true, Effects: []sequencer.Settled{{Index: 1,
		Scopes: []sequencer.Scope{"card:/4711"}, Result: sequencer.ResultUnresolved}}}
	list := []*sequencer.Intent{
		{Kind: sequencer.IntentJoin, Join: &sequencer.Join{ID: "join-1"}},
		{Kind: sequencer.IntentBegin, Begin: sampleBegin()},
		{Kind: sequencer.IntentTouch, Touch: touch},
		{Kind: sequencer.IntentSeal, Begin: sampleBegin(), Seal: sampleSeal()},
		{Kind: sequencer.IntentAbort, Abort: &sequencer.Abort{Code: sequencer.CodeToolFailed, Detail: "timeout"}},
		{Kind: sequencer.IntentSettle, Settle: settle},
		{Kind: sequencer.IntentAdopt},
		{Kind: sequencer.IntentRetract},
		{Kind: sequencer.IntentSelect, Select: &sequencer.Select{Group: "g", Winner: "tx-b"}},
		{Kind: sequencer.IntentRegister, Register: register},
		{Kind: sequencer.IntentUnregister, Register: &sequencer.Register{Server: "mail", Generation: 3}},
		{Kind: sequencer.IntentVerdict, Verdict: &sequencer.Verdict{Footprint: sum("f"), Reason: "over the limit"}},
		{Kind: sequencer.IntentWatermark, Watermark: &sequencer.Watermark{Seq: 40}},
		{Kind: sequencer.IntentRules, Rules: &rules},
		{Kind: sequencer.IntentTick, Tick: &sequencer.TickMark{N: 77, Weight: 8}},
	}
	for _, in := range list {
		in.Tx, in.N, in.Agent, in.Incarnation, in.Base = "tx-b", 1, "agent-1", 5, 40
	}
	return list
}

// sampleOutcomes are one outcome of each kind.
func sampleOutcomes() []*sequencer.Outcome {
	var list []*sequencer.Outcome
	for k := sequencer.OutcomeBegun; k.String() != unknownName; k++ {
		o := &sequencer.Outcome{Workspace: "default", Seq: 42 + sequencer.Seq(k), Offset: 900, Chain: sum("chain"),
			Time: 12, Floor: 30, Kind: k, Intent: fmt.Sprintf("tx-b:%s:1", k), Tx: "tx-b", Agent: "agent-1",
			Incarnation: 5, Mode: sequencer.Locked, Epoch: 11}
		fillSample(o)
		list = append(list, o)
	}
	return list
}

func fillSample(o *sequencer.Outcome) {
	hold := sequencer.Hold{Scope: "card:/4711", Kind: sequencer.Held, Access: sequencer.WriteAccess}
	switch o.Kind {
	case sequencer.OutcomeBegun:
		o.May = []sequencer.Want{{Scope: "shard:/orders/**", Access: sequencer.WriteAccess}}
		o.Group = "g"
	case sequencer.OutcomeWaiting:
		o.BlockedBy = []sequencer.Blocker{{Tx: "tx-a", Scope: "card:/4711", Why: "granted"}, {Tx: "tx-c", Why: "verdict"}}
	case sequencer.OutcomeGranted:
		o.Added = []sequencer.Hold{{Scope: "card:/4711", Access: sequencer.WriteAccess}}
	case sequencer.OutcomeRefused, sequencer.OutcomeAborted:
		o.Code, o.Detail, o.Scope, o.Retryable = sequencer.CodeStaleRead, "it moved: \"17\"\n", "shard:/orders/17", true
		o.Moved = sequencer.Writer{Seq: 41, Tx: "tx-a", Residue: true}
		o.Ended = []sequencer.Hold{hold}
	case sequencer.OutcomeCommitted:
		h := sum("state")
		o.Added, o.Ended = []sequencer.Hold{hold}, []sequencer.Hold{{Scope: "card:/4711"}}
		o.Writes = []sequencer.Write{{Scope: "shard:/orders/17", Writer: sequencer.Writer{Seq: 47, Tx: "tx-b"},
			Former: sequencer.Writer{Seq: 39, Tx: "tx-a"}}, {Scope: "shard:/scan", Writer: sequencer.Writer{Seq: 47,
			Tx: "tx-b"}}}
		o.Shards = append(sampleSeal().Shards, sequencer.ShardWrite{Scope: "shard:/raw", Content: []byte{0xff, 0, 1}},
			sequencer.ShardWrite{Scope: "shard:/empty"})
		o.RestsOn, o.Residue = []sequencer.TxID{"tx-0", "tx-a"}, []sequencer.TxID{"tx-a"}
		o.Footprint, o.At, o.StateHash = sum("footprint"), &sequencer.Place{Partition: 3, Offset: 1234}, &h
		o.Would = sequencer.CodeWaiting
	case sequencer.OutcomeSettled:
		o.Final, o.Ended = true, []sequencer.Hold{hold}
		o.Writes = []sequencer.Write{{Scope: "card:/4711"}}
	case sequencer.OutcomeRegistered, sequencer.OutcomeUnregistered:
		o.Tx, o.Mode, o.Epoch, o.Server, o.Catalogue = "", 0, 0, "mail", sum("tools")
	case sequencer.OutcomeSelected:
		o.Group, o.Winner = "g", "tx-b"
	case sequencer.OutcomeRetracting:
		o.Retraction, o.Cone = "tx-b", []sequencer.TxID{"tx-c", "tx-b"}
		o.Added = []sequencer.Hold{{Scope: "card:/4711", Access: sequencer.WriteAccess}}
	case sequencer.OutcomeTurn:
		o.Retraction = "tx-a"
	case sequencer.OutcomeConfirmed:
		o.Intent, o.Tx, o.Mode, o.Epoch = "confirm:5:1", "", 0, 0
	case sequencer.OutcomeRules:
		rules := sequencer.DefaultRules()
		rules.Version, rules.Observe = 1, true
		o.RulesVersion, o.Rules = 1, &rules
	}
}

// sampleConfirm is a watermark that asks for a decision.
func sampleConfirm() *sequencer.Intent {
	return &sequencer.Intent{Kind: sequencer.IntentWatermark, Agent: "agent-1", Incarnation: 5,
		Watermark: &sequencer.Watermark{Seq: 40, Confirm: 3}}
}

// sampleFormer is a seal that says what its writes replace, and, for its codec, a join with a logic.
func sampleFormer() *sequencer.Intent {
	return &sequencer.Intent{Kind: sequencer.IntentSeal, Tx: "tx-b", N: 1, Agent: "agent-1", Incarnation: 5, Base: 40,
		Join: &sequencer.Join{ID: "join-1", Logic: 2},
		Seal: &sequencer.Seal{Shards: sampleRetracted().Shards}}
}

// sampleRestored is one since logic 3: it names the decision that carries a content.
func sampleRestored() *sequencer.Outcome {
	o := sampleRetracted()
	o.Shards = []sequencer.ShardWrite{{Scope: "shard:/a", Absent: true}, {Scope: "shard:/b", Restored: 44},
		{Scope: "shard:/c", Restored: 45, Former: &sequencer.Former{Version: 50, View: 51, Restored: 45}}}
	return o
}

// sampleMerged is a commit of deltas, and sampleTakenOut the turn of a retraction that takes one out.
func sampleMerged() *sequencer.Outcome {
	o := sampleOutcomes()[4]
	o.Shards = []sequencer.ShardWrite{{Scope: "shard:/a", Op: sequencer.OpAppend, Content: []byte("line\n")},
		{Scope: "shard:/b", Op: sequencer.OpAdd, Content: []byte("-3"), Former: &sequencer.Former{Version: 7, View: 41}},
		{Scope: "shard:/c", Op: sequencer.OpUnion, Content: []byte("x\ny\n")}}
	return o
}

func sampleTakenOut() *sequencer.Outcome {
	o := sampleRetracted()
	o.Shards = []sequencer.ShardWrite{{Scope: "shard:/a", Op: sequencer.OpAppend, Removes: 47}, {Scope: "shard:/b",
		Restored: 45}}
	return o
}

// sampleReset is a commit that takes all shards away.
func sampleReset() *sequencer.Outcome {
	o := sampleOutcomes()[4]
	o.Writes = o.Writes[:1]
	o.Writes[0].Scope, o.Shards = "shard:/", []sequencer.ShardWrite{{Scope: "shard:/", Absent: true}}
	return o
}

// sampleMerges is a seal with a delta.
func sampleMerges() *sequencer.Intent {
	return &sequencer.Intent{Kind: sequencer.IntentSeal, Tx: "tx-b", N: 1, Agent: "agent-1", Incarnation: 5, Base: 40,
		Seal: &sequencer.Seal{Shards: sampleMerged().Shards, Effects: []sequencer.Effect{{Tool: "mail.send", Absent: true}}}}
}

// sampleChained is a commit with a content that is a chain of events, sampleChain its seal, and sampleChunk the last
// of the events.
func sampleChained() *sequencer.Outcome {
	o := sampleOutcomes()[4]
	o.Shards = []sequencer.ShardWrite{{Scope: "shard:/scan", Type: "image/png", Ref: &sequencer.Ref{Partition: 3,
		Offset: 97, Size: 600_000, SHA256: sum("scan"), Chunks: 3, Last: 104}}}
	return o
}

func sampleChain() *sequencer.Intent {
	return &sequencer.Intent{Kind: sequencer.IntentSeal, Tx: "tx-b", N: 1, Agent: "agent-1", Incarnation: 5, Base: 40,
		Seal: &sequencer.Seal{Shards: sampleChained().Shards}}
}

func sampleChunk() *Event {
	e := sampleEvents()[2]
	e.Chunk = &Chunk{At: 2 * sequencer.ChunkBytes, Of: sum("scan")}
	return e
}

// sampleAsks is a seal with effects that need a yes, and sampleApproves what is said of them.
func sampleAsks() *sequencer.Intent {
	return &sequencer.Intent{Kind: sequencer.IntentSeal, Tx: "tx-b", N: 1, Agent: "agent-1", Incarnation: 5, Base: 40,
		Seal: &sequencer.Seal{Effects: []sequencer.Effect{{Scopes: []sequencer.Scope{"mail:/ann"}, Tool: "mail.send",
			Class: sequencer.ClassIrreversible, Approve: true, Args: sum("arguments")}}}}
}

func sampleApproves() *sequencer.Intent {
	return &sequencer.Intent{Kind: sequencer.IntentVerdict, Tx: "tx-b", N: 1, Agent: "agent-2", Incarnation: 6,
		Verdict: &sequencer.Verdict{Approvals: sampleApprovals()}}
}

func sampleApprovals() []sequencer.Approval {
	return []sequencer.Approval{{Index: 0, Yes: true, By: "ann", Args: sum("arguments")}, {Index: 2, By: "bob"}}
}

// sampleApproved is a commit that some effects of which were approved, sampleUnapproved one that waits for that.
func sampleApproved() *sequencer.Outcome {
	o := sampleOutcomes()[4]
	o.Approvals = sampleApprovals()
	return o
}

func sampleUnapproved() *sequencer.Outcome {
	o := sampleOutcomes()[1]
	o.Approvals = []sequencer.Approval{{Index: 2, Args: sum("arguments")}}
	o.BlockedBy, o.At = []sequencer.Blocker{{Tx: o.Tx, Why: "approval"}}, &sequencer.Place{Partition: 3, Offset: 77}
	return o
}

// sampleWaitingForApproval is a replica of a workspace of logic 4 with a transaction that waits for approvals.
func sampleWaitingForApproval() *sequencer.ReplicaState {
	r := sampleTakingOut()
	r.State.Rules.ApprovalTicks = 14_400
	t := &r.State.Txs[0]
	t.Phase, t.Seal, t.ApprovalDue, t.Approvals = sequencer.PhaseSealed, sampleAsks().Seal, 14_412, sampleApprovals()[:1]
	return r
}

const sampleKey = "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"

// sampleSigns is a seal whose request was signed.
func sampleSigns() *sequencer.Intent {
	in := sampleIntents()[3]
	in.Signer = sampleKey
	return in
}

func sampleSigned() *sequencer.Outcome {
	o := sampleOutcomes()[4]
	o.Signer = sampleKey
	return o
}

// sampleSignedWaits is a replica of a workspace of logic 5 with a signed seal that waits.
func sampleSignedWaits() *sequencer.ReplicaState {
	r := sampleWaitingForApproval()
	r.State.Rules.Logic, r.State.Txs[0].Signer = 5, sampleKey
	return r
}

// sampleTakingOut is a replica of a workspace of logic 4 that is about to take a delta out.
func sampleTakingOut() *sequencer.ReplicaState {
	r := sampleRetracting()
	r.State.Rules.Logic = 4
	r.State.Txs[0].Past.Writes[0].Op = sequencer.OpAdd
	r.State.Retractions[0].Ground[0].Kept = true
	r.State.Tombs = []sequencer.Tombstone{{Scope: "shard:/", Seq: 41, Tx: "tx-r"}}
	return r
}

// sampleRetracted is the settlement of a retraction's member, with every form that a shard may have in it.
func sampleRetracted() *sequencer.Outcome {
	o := &sequencer.Outcome{Workspace: "default", Seq: 60, Offset: 901, Chain: sum("chain"), Time: 12, Floor: 30,
		Kind: sequencer.OutcomeSettled, Intent: "tx-b:settle:2", Tx: "tx-b", Agent: "agent-1", Incarnation: 5, Epoch: 11,
		Final: true, Retraction: "tx-a", Writes: []sequencer.Write{{Scope: "shard:/a"}, {Scope: "shard:/b"}}}
	former := &sequencer.Former{Version: 7, View: 41, Type: "text/plain", Content: []byte("before")}
	ref := &sequencer.Ref{Partition: 3, Offset: 99, Size: 70_000, SHA256: sum("scan")}
	o.Shards = []sequencer.ShardWrite{{Scope: "shard:/a", Absent: true},
		{Scope: "shard:/b", Content: []byte("now"), Former: former},
		{Scope: "shard:/c", Ref: ref, Former: &sequencer.Former{Version: 8, View: 41, Ref: ref}},
		{Scope: "shard:/d", Content: []byte("now"), Former: &sequencer.Former{View: 41}}}
	return o
}

// sampleTold is a refusal that the sidecar answered from its view, and sampleTellAbort the intent that led to it.
func sampleTold() *sequencer.Outcome {
	o := sampleOutcomes()[5]
	o.Kind, o.Code, o.Scope, o.By = sequencer.OutcomeAborted, sequencer.CodeStaleRead, "shard:/orders/17",
		sequencer.BySidecar
	o.Moved = sequencer.Writer{Seq: 41, Tx: "tx-a"}
	return o
}

func sampleTellAbort() *sequencer.Intent {
	return &sequencer.Intent{Kind: sequencer.IntentAbort, Tx: "tx-b", N: 1, Agent: "agent-1", Incarnation: 5, Base: 40,
		Abort: &sequencer.Abort{Code: sequencer.CodeStaleRead, Scope: "shard:/orders/17", Seq: 41, Writer: "tx-a"}}
}

// samplePhantom is a refusal for a tool that was withdrawn.
func samplePhantom() *sequencer.Outcome {
	o := sampleOutcomes()[5]
	o.Kind, o.Code, o.Moved = sequencer.OutcomeAborted, sequencer.CodePhantomTool, sequencer.Writer{Seq: 41}
	o.Tool, o.MovedAgent = "mail/send", "agent-1"
	return o
}

// sampleEvidence is a replica of a workspace of logic 3, with what refusals need to know.
func sampleEvidence() *sequencer.ReplicaState {
	r := sampleReplica()
	t := &r.State.Txs[0]
	t.First, t.Since, t.Waiting.Seq = 41, []sequencer.Seq{42}, 43
	r.State.Sidecars[0].Servers[0].Seq = 6
	r.State.Window[0].By = "tx-a"
	return r
}

// sampleRetracting is a replica of a workspace of logic 2 that is about to undo something.
func sampleRetracting() *sequencer.ReplicaState {
	rules := sequencer.DefaultRules()
	rules.Logic = 2
	ref := &sequencer.Ref{Partition: 3, Offset: 99, Size: 70_000, SHA256: sum("scan")}
	version := sequencer.ShardVersion{Scope: "shard:/a", Seq: 31, Tx: "tx-0", Type: "text/plain", Content: []byte("0")}
	past := &sequencer.Past{Reads: []sequencer.PastRead{{Scope: "shard:/b", View: 30}}, From: []sequencer.TxID{"tx-9"},
		Writes:  []sequencer.PastWrite{{Scope: "shard:/a", Former: sequencer.Writer{Seq: 31, Tx: "tx-0"}, Shard: true}},
		Effects: true, Undone: 50}
	return &sequencer.ReplicaState{Offset: 907, State: sequencer.State{Workspace: "default", Seq: 44, Floor: 30,
		Rules: rules,
		Txs: []sequencer.TxState{{ID: "tx-a", Order: 3, Agent: "agent-1", Phase: sequencer.PhaseRetracting, Decision: 40,
			Past: past, Retraction: "tx-a"}},
		Retractions: []sequencer.RetractionState{{Tx: "tx-a", Seq: 42, Cone: []sequencer.TxID{"tx-a"}, Turn: 43,
			Ground: []sequencer.ConeScope{{Scope: "shard:/a", Writer: sequencer.Writer{Seq: 31, Tx: "tx-0"}, Shard: &version},
				{Scope: "shard:/c", Unknown: true}}}, {Tx: "tx-b", Seq: 44}},
		Versions: []sequencer.ShardVersion{version, {Scope: "shard:/c", Seq: 33, Tx: "tx-1", Ref: ref},
			{Scope: "shard:/d", Absent: true}, {Scope: "shard:/e", Unknown: true}}, Unversioned: 12}}
}

func sampleReplica() *sequencer.ReplicaState {
	l := sequencer.L1
	tx := sequencer.TxState{ID: "tx-b", Order: 3, Agent: "agent-1", Incarnation: 5, Owner: 5, Base: 40,
		Mode: sequencer.Locked, Levels: &l, Epoch: 11, Phase: sequencer.PhaseSealed, Due: 90, Seal: sampleSeal(),
		Answers: []sequencer.Answer{{Kind: sequencer.IntentSeal, N: 1, Seq: 43}}, GrantedNs: []uint32{1},
		Grants:  []sequencer.Hold{{Scope: "card:/4711", Access: sequencer.WriteAccess}},
		Waiting: &sequencer.WaitingState{N: 2, Wants: []sequencer.Want{{Scope: "card:/1"}}, Due: 33},
		May:     sampleBegin().May, Footprint: sum("f"), VerdictDue: 44, Verdict: -1, VerdictWhy: "no",
		RestsOn: []sequencer.TxID{"tx-0"}, Residue: []sequencer.TxID{"tx-0"}, Gated: []sequencer.Scope{"mail:/inbox/mia"}}
	st := sequencer.State{Workspace: "default", Seq: 44, Floor: 30, Horizon: 1, TickN: 12, Time: 12, LastEpoch: 11,
		LastOrder: 3, Chain: sum("chain"), Rules: sequencer.DefaultRules(), Txs: []sequencer.TxState{tx},
		Sidecars: []sequencer.SidecarState{{Incarnation: 5, Agent: "agent-1", Watermark: 40, Due: 52,
			Servers: []sequencer.ServerState{{Server: "mail", Generation: 2, Present: true, Catalogue: sum("tools")}}}},
		Joins: []sequencer.JoinState{{ID: "join-1", Seq: 5}},
		Window: []sequencer.WindowState{{Scope: "shard:/orders/17", Seq: 39, Writer: sequencer.Writer{Seq: 39,
			Tx: "tx-a"}}},
		Catalogues: []sequencer.Catalogue{{Hash: sum("tools"), Tools: []sequencer.Tool{{Name: "send", Signature: "s1"}}}},
		Groups:     []sequencer.GroupState{{ID: "g", Winner: "tx-b", Seq: 44}}}
	return &sequencer.ReplicaState{State: st, Offset: 900, Outbox: []sequencer.Outcome{*sampleOutcomes()[4]}}
}

// sampleEvents are one event of each kind.
func sampleEvents() []*Event {
	list := []*Event{
		{Kind: EventRead, Scope: "shard:/orders/17", View: 41, Version: 39, Writer: "tx-a", Size: 12, SHA256: sum("v")},
		{Kind: EventWrite, Scope: "shard:/orders/17", MediaType: "text/plain", Size: 12, SHA256: sum("w")},
		{Kind: EventContent, Scope: "shard:/scan", MediaType: "image/png", Content: []byte("\x89PNG"), Size: 4,
			SHA256: sum("p")},
		{Kind: EventSeal, Seal: sampleSeal(), Traceparent: sampleTrace},
		{Kind: EventEffect, Effect: sampleEffectText(), Traceparent: sampleTrace},
		{Kind: EventAnswer, Effect: sampleAnswerText()},
		{Kind: EventTouch, Scope: "calendar:/mia"},
		{Kind: EventPlan, Plan: &Plan{First: 2, Calls: []string{"call_9a", "call_9b"}}},
	}
	for i, e := range list {
		e.Workspace, e.Tx, e.Agent, e.Incarnation, e.Index, e.AtMs = "default", "tx-b", "agent-1", 5, uint64(i+1),
			sampleTime.UnixMilli()
	}
	return list
}

func sampleEffectText() *EffectText {
	return &EffectText{Index: 1, Class: sequencer.ClassKnownOutcome, Tool: "card.charge",
		Pin: &sequencer.Pin{Server: "card", Name: "charge", Signature: "s1"}, Key: "tx-b/1",
		Scopes: []sequencer.Scope{"card:/4711", "card:/log"}, May: []sequencer.Scope{"card:/**"}, Cost: 2,
		MaxTimeMs: 30_000, Args: []byte(`{"amount":12.5,"card":"4711"}`)}
}

func sampleAnswerText() *EffectText {
	return &EffectText{Index: 1, Step: 3, Class: sequencer.ClassKnownOutcome, Tool: "card.charge", Key: "tx-b/1",
		ArgsRef:   &sequencer.Ref{Partition: 3, Offset: 98, Size: 70_000, SHA256: sum("args")},
		AnswerRef: &sequencer.Ref{Partition: 3, Offset: 99, Size: 80_000, SHA256: sum("answer")}, Detail: "charged"}
}

// sampleHandEvent is what came of a try by hand.
func sampleHandEvent() *Event {
	by := ByHand{In: "tx-d", Undo: true}
	e := sampleEvents()[5]
	e.Effect.Detail, e.Effect.ByHand = by.Text(), &by
	return e
}

func sampleResidue() *Residue {
	return &Residue{Workspace: "default", Tx: "tx-b", Index: 1, Agent: "agent-1", Tool: "card.charge",
		Class: sequencer.ClassKnownOutcome, Key: "tx-b/1", Scopes: []sequencer.Scope{"card:/4711"},
		Result: sequencer.ResultUnresolved, Detail: "timed out 3 times; ask <the bank>", Tries: 3, State: ResidueAccepted,
		Incarnation: 5, Seq: 49, AtMs: sampleTime.UnixMilli(), Note: "paid by hand"}
}

func sampleAnomaly() *Anomaly {
	return &Anomaly{Workspace: "default", Seq: 49, Kind: "A1", Title: "stale generation", Certain: true,
		Sentence:   "agent-1 (tx-b) read shard:/orders/17 = 39:tx-a at 40; agent-2 (tx-c) wrote <b> at 45",
		Operations: []AnomalyOp{{"tx-b", "agent-1", 40, 49, false}, {"tx-c", "agent-2", 39, 45, true}},
		Cell:       "shard:/orders/17", OtherCell: "mail:/inbox/mia", Count: 2, Class: "G2", Window: 1000,
		Would: sequencer.CodeStaleRead}
}

func encodeAnomaly(a *Anomaly) ([]byte, error) { return EncodeAnomaly(a, sampleTime) }

func sampleShardRow() ShardRow {
	return ShardRow{Scope: "shard:/orders/17", Version: 39, Writer: sequencer.Writer{Seq: 39, Tx: "tx-a"},
		Type: "application/json", Content: []byte(`{"status":"open"}`)}
}

func sampleFrontierRow() *FrontierRow {
	s := sampleShardRow()
	return &FrontierRow{Workspace: "default", Scope: s.Scope, Seq: 47, Shard: &s, Version: 39, Writer: s.Writer,
		Open: []OpenEpoch{{Epoch: 11, Tx: "tx-b", Since: 43}}, Frontier: 11}
}

// sampleHeldRow is a row whose content a retraction has put back: it had it still.
func sampleHeldRow() *FrontierRow {
	r := sampleFrontierRow()
	r.Shard.Restored, r.Shard.Held = 31, true
	r.Former = []FormerContent{{Version: 31, Carrier: 31, Type: "application/json", Content: []byte(`{"status":"open"}`)},
		{Version: 35, Carrier: 31, Ref: &sequencer.Ref{Partition: 3, Offset: 51, Size: 9000}}}
	return r
}

// sampleCountedRow is a row of a shard that was written four times, once ahead of a decision that is missing.
func sampleCountedRow() *FrontierRow {
	r := sampleFrontierRow()
	r.Count = WriteCount{Writes: 4, Counted: []sequencer.Seq{35, 39}}
	return r
}

// sampleMergedRow is a row of a shard with deltas, the first of which can no longer be taken out.
func sampleMergedRow() *FrontierRow {
	r := sampleCountedRow()
	r.Shard.Type, r.Shard.Content = "", nil
	r.Shard.Writes = []sequencer.Standing{{Seq: 31, Type: "text/plain", Content: []byte("a\nb\n"), Folded: true},
		{Seq: 35, Op: sequencer.OpAppend, Type: "text/plain", Content: []byte("c\n")},
		{Seq: 36, Ref: &sequencer.Ref{Partition: 3, Offset: 51, Size: 9000}},
		{Seq: 39, Op: sequencer.OpAppend, Content: []byte("d\n")}}
	return r
}

func sampleCountedSnapshot() *Snapshot {
	s := sampleSnapshot()
	s.Shards[0].Count = sampleCountedRow().Count
	return s
}

func sampleClosureRow() *ClosureRow {
	return &ClosureRow{Workspace: "default", Tx: "tx-b", Agent: "agent-1", Status: "aborted",
		Code: sequencer.CodeStaleRead,
		Seq:  47, Edges: []ClosureEdge{{Scope: "shard:/orders/17", Writer: "tx-a", Version: 39, View: 41}},
		RestsOn: []sequencer.TxID{"tx-a"}, Writes: []sequencer.Scope{"shard:/orders/17"}, Scar: true}
}

func sampleGrownClosureRow() *ClosureRow {
	r := sampleClosureRow()
	r.Status, r.Code, r.Retraction, r.Final, r.Events = "retracted", "", "tx-a", true, &EventSpan{First: 1234}
	r.Effects = []EffectSeen{{Class: sequencer.ClassIrreversible, Event: 3}, {Index: 1, Class: sequencer.ClassReversible,
		Event: 4}}
	return r
}

func sampleClosure() *Closure {
	return &Closure{Tx: "tx-b", Rows: []ClosureRow{*sampleClosureRow()}, Truncated: true, Limit: 1}
}

func sampleUnsettled() *UnsettledList {
	return &UnsettledList{Workspace: "default", Through: 47, Truncated: true, Rows: []Unsettled{{Tx: "tx-b",
		Agent: "agent-1", Incarnation: 5, Owner: 9, Phase: sequencer.PhaseAborted, Code: sequencer.CodeToolFailed,
		Decision: 47, Retraction: "tx-a", Turn: 46}}}
}

func sampleRulesNow() *RulesNow {
	return &RulesNow{Workspace: "default", Through: 47, Rules: sequencer.DefaultRules()}
}

func sampleCone() *Cone {
	return &Cone{Workspace: "default", Tx: "tx-a", Through: 47, Detail: "a line", Total: 2, Members: []ConeMember{{
		Tx: "tx-b", Agent: "agent-1", Seq: 44, Depth: 1, Why: "overwrote", Of: "tx-a", At: "shard:/orders/17", Settled: true,
		Effects: true, Writes: []sequencer.Scope{"shard:/orders/17"}, Restored: []ShardRestored{{Scope: "shard:/orders/17",
			Seq: 39, Tx: "tx-0"}}}}}
}

func sampleSnapshot() *Snapshot {
	return &Snapshot{Workspace: "default", Seq: 44, Through: 47, Chain: sum("chain"), Time: 12, Floor: 30,
		Shards: []ShardRow{sampleShardRow()}}
}
