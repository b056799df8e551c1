package sequencer

import "strconv"

// IntentKind says what an intent asks for.
type IntentKind uint8

// The intents.
const (
	IntentJoin       IntentKind = iota + 1 // a sidecar starts; its decision's seq is its incarnation
	IntentBegin                            // opens a transaction
	IntentTouch                            // asks for scopes before an effect runs on them
	IntentSeal                             // freezes the footprint and asks for the decision
	IntentAbort                            // ends an undecided transaction
	IntentSettle                           // says what became of a decided transaction's effects
	IntentAdopt                            // takes over an orphan's settlement
	IntentRetract                          // names a committed transaction to undo, with all that follows from it
	IntentSelect                           // names the winner of a branch group
	IntentRegister                         // announces a tool server's catalogue
	IntentUnregister                       // withdraws it
	IntentVerdict                          // a hook's answer on a sealed footprint
	IntentWatermark                        // "nothing open of mine is older"; renews the lease
	IntentRules                            // the workspace's next rules
	IntentTick                             // one unit of the log's time
)

// String returns the kind's name as the log's records carry it.
func (k IntentKind) String() string {
	return nameOf(k, "unknown", "join", "begin", "touch", "seal", "abort", "settle", "adopt", "retract", "select",
		"register", "unregister", "verdict", "watermark", "rules", "tick")
}

// Intent is one record of the log. The payload that its kind names is set; a touch or a seal may carry Begin too.
type Intent struct {
	Kind        IntentKind
	Tx          TxID
	N           uint32 // 1-based, counted by the sidecar per transaction and kind, over new touches and new tries
	Agent       string
	Incarnation Seq // the sidecar's; zero for join, tick and rules
	Base        Seq // the view's seq at the transaction's begin (for select: when it was sent)

	// Since logic 5: the key that signed the request behind it, as its sidecar says; empty: none did.
	Signer string

	Begin     *Begin
	Touch     *Touch
	Seal      *Seal
	Abort     *Abort
	Settle    *Settle
	Join      *Join
	Select    *Select
	Register  *Register
	Verdict   *Verdict
	Watermark *Watermark
	Rules     *Rules
	Tick      *TickMark
}

// ID identifies the intent within its workspace: two records with one ID are one intent.
func (in *Intent) ID() string {
	switch in.Kind {
	case IntentJoin:
		if in.Join != nil {
			return "join:" + in.Join.ID
		}
	case IntentTick:
		if in.Tick != nil {
			return "tick:" + strconv.FormatUint(in.Tick.N, 10)
		}
	case IntentRules:
		if in.Rules != nil {
			return "rules:" + strconv.FormatUint(uint64(in.Rules.Version), 10)
		}
	case IntentWatermark:
		if m := in.Watermark; m != nil && m.Confirm != 0 {
			return "confirm:" + strconv.FormatUint(uint64(in.Incarnation), 10) + ":" +
				strconv.FormatUint(uint64(m.Confirm), 10)
		}
	case IntentSelect:
		if in.Select != nil {
			return "select:" + in.Select.Group
		}
	case IntentVerdict:
		if in.approves() { // each sidecar counts its own
			return string(in.Tx) + ":approval:" + strconv.FormatUint(uint64(in.Incarnation), 10) + ":" +
				strconv.FormatUint(uint64(in.N), 10)
		}
	case IntentRegister, IntentUnregister:
		if r := in.Register; r != nil {
			return in.Kind.String() + ":" + r.Server + ":" + strconv.FormatUint(uint64(in.Incarnation), 10) +
				":" + strconv.FormatUint(r.Generation, 10)
		}
	}
	return string(in.Tx) + ":" + in.Kind.String() + ":" + strconv.FormatUint(uint64(in.N), 10)
}

// Begin declares how a transaction wants to be treated.
type Begin struct {
	Mode          Mode
	Observe       bool    // report what would be refused instead of refusing it
	Levels        *Levels // nil: the rules' levels at the seal
	DeadlineTicks Tick    // from the begin; zero: the rules' default
	Group         string  // branch group; empty: none
	Predecessor   TxID    // the refused transaction that this one repeats
	May           []Want  // ordered only: scopes that it will stay within, claimed until the seal
	Session       string  // since logic 3: the agent's conversation that it belongs to; empty: the default one
}

// Touch asks for scopes, all or none.
type Touch struct {
	Wants      []Want
	BoundTicks Tick // how long it may wait; zero: the rules' default
}

// Read is one read of a footprint.
type Read struct {
	Scope   Scope // what was asked for: also a pattern, a list, or an absent name
	View    Seq   // the view's seq when the call left
	Version Seq   // as the view had it; zero: absent
	Writer  TxID  // as the view had it
}

// Effect is one tool call of a footprint.
type Effect struct {
	Index  uint32 // issuance order: 0-based, contiguous
	Scopes []Scope
	Class  Class
	Tool   string
	Key    string // idempotency key of the sink; empty: the sink takes none
	Known  bool   // eager effects: the outcome is known

	// Since logic 4.
	Absent  bool // no call of this index came that moves anything: it was planned, has no scopes, is of class read
	Approve bool // held effects: the commit needs an approval
	Args    Hash // SHA-256 of its arguments, where Approve is set
}

// TouchReport says what became of the calls under one granted touch.
type TouchReport struct {
	N     uint32
	Known bool // every call made under it has a known outcome (none made counts as known)
}

// Expect is a compare-and-set condition on a shard.
type Expect struct {
	Version Seq // seq of the shard's last write; zero: absent
	View    Seq // the view's seq that showed it
}

// Ref points at content that is kept in the events topic instead of the intent.
type Ref struct {
	Partition int32
	Offset    int64
	Size      int64 // bytes
	SHA256    Hash

	// Since logic 4: the content is a chain of so many events, each with the next ChunkBytes of it. Offset is the place
	// of the first and Last that of the last; others lie between them. Zero: one event has it whole.
	Chunks uint32
	Last   int64
}

// ShardWrite is new content of a shard.
type ShardWrite struct {
	Scope   Scope
	Type    string // media type
	Content []byte // inline content; nil when Ref is set
	Ref     *Ref
	Expect  *Expect // nil: unconditional
	Former  *Former // in a seal: what stood there as the writer saw it; nil: not said
	// Absent is, in a retraction's outcome, that the shard is not there any more; since logic 4 in a seal, that there is
	// none at or below the scope, which may be a pattern. Content and Ref are nil.
	Absent bool

	// Restored is, in a retraction's outcome since logic 3, the decision that carries the content. Type, Content and Ref
	// are empty here: they are that decision's at this scope. Since logic 4 that content may be one with deltas: it is
	// the shard's as of there, without those that were taken out since.
	Restored Seq

	// Since logic 4.
	Op      Op  // how the content changes; not OpSet: Content or Ref is a delta
	Removes Seq // in a retraction's outcome: the decision whose delta is taken out; Content and Ref are nil
}

// Former is the content that a shard write replaces. The fold remembers what stood where no longer than the horizon;
// what is older a later retraction can only restore when the writer has said it.
type Former struct {
	Version Seq // zero: the shard was not there
	View    Seq // the view's seq that showed it

	// Up to logic 2 the content itself; since logic 3 the log has it, and these are not kept.
	Type    string
	Content []byte
	Ref     *Ref

	// Since logic 3.
	Restored Seq // the decision that carries the content, where a retraction restored it; zero: Version is that one
}

// Pin is a tool as the agent's plan knew it.
type Pin struct {
	Server    string
	Name      string
	Signature string
}

// Place is a record's position in the events topic.
type Place struct {
	Partition int32
	Offset    int64
}

// Seal is a transaction's whole footprint.
type Seal struct {
	Reads        []Read
	Effects      []Effect
	Touches      []TouchReport
	Shards       []ShardWrite
	Pins         []Pin
	ReadFrom     []TxID // transactions it rests on beyond those that the fold derives
	Hook         bool   // a verdict on this footprint is asked for
	VerdictTicks Tick   // bound of that verdict, from the seal; zero: the rules' default
	At           *Place // where the events topic has the full text of the footprint
}

// Abort says why; an empty or unknown code is aborted_by_agent.
type Abort struct {
	Code   Code
	Detail string

	// Since logic 3, of a refusal that the sidecar has answered from its view: what moved, as the view showed it. The
	// fold drops what it can see to be wrong.
	Scope  Scope
	Seq    Seq
	Writer TxID
}

// Result is what became of one effect.
type Result uint8

// The results of a settlement.
const (
	ResultClean      Result = iota // released, compensated, or looked up without a trace
	ResultLeaked                   // it left and cannot be taken back
	ResultUnresolved               // it is not known
	ResultPartial                  // some of it
)

// String returns the result's name.
func (r Result) String() string { return nameOf(r, "clean", "leaked", "unresolved", "partial") }

// Settled is one effect's part of a settlement.
type Settled struct {
	Index  uint32
	Scopes []Scope
	Result Result
}

// Settle ends a decided transaction.
type Settle struct {
	Effects  []Settled
	NoneElse bool // proven: under its grants nothing ran but the effects listed
}

// Join starts a sidecar's incarnation.
type Join struct {
	ID    string // unique per try
	Logic uint32 // the newest that the sidecar knows: what a workspace's first join sets; zero: 1
}

// Select names the winner of a branch group; the first one wins.
type Select struct {
	Group  string
	Winner TxID
}

// Tool is one entry of a catalogue.
type Tool struct {
	Name      string
	Signature string
}

// Register announces a server's tools as one sidecar sees them. Unregister uses Server and Generation only.
type Register struct {
	Server     string
	Generation uint64 // counted up per server and incarnation
	Tools      []Tool
}

// Verdict is a hook's answer, or an approver's word on effects that need a yes.
type Verdict struct {
	Footprint Hash
	Yes       bool
	Reason    string

	// Since logic 3. Before it is a no.
	Unavailable bool // the hook could not be asked, or gave no answer

	// Approvals, since logic 4: not the hook answers but who approves or denies, through any live sidecar. Footprint may
	// be zero then, and Yes, Reason and Unavailable say nothing.
	Approvals []Approval
}

// Watermark promises that no open read or transaction of the sidecar is older than Seq.
type Watermark struct {
	Seq Seq
	// Confirm asks for a decision: confirmed, if the incarnation is live. It is counted by the sidecar from 1; zero asks
	// for nothing. A copy is confirmed again: the fold keeps nothing of it. Since logic 3; before that it says nothing.
	Confirm uint32
}

// TickMark is one unit of time: it counts only when N is the next number.
type TickMark struct {
	N      uint64
	Weight Tick // 1 while a deadline or bound is pending, 8 while only leases are
}
