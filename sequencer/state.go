package sequencer

// State is everything that a fold keeps, as plain data: what codecs write and what the state hash is taken over.
// All lists are in the order given at their field.
type State struct {
	Workspace  string
	Seq        Seq
	Floor      Seq // below it everything is stable and forgotten
	Horizon    Seq // committed transactions at or below it can no longer be retracted
	TickN      uint64
	Time       Tick
	LastEpoch  Epoch
	LastOrder  uint64
	Chain      Hash
	Rules      Rules
	Sidecars   []SidecarState // by Incarnation
	Joins      []JoinState    // by Seq
	Txs        []TxState      // by Order
	Window     []WindowState  // by Seq, then Scope
	Catalogues []Catalogue    // by Hash
	Groups     []GroupState   // by ID

	// Since logic 2, and in the hash from there on.
	Retractions []RetractionState // in the order in which they were accepted; at most the first runs
	Versions    []ShardVersion    // contents of shards written since the horizon, by Seq, then Scope
	Unversioned Seq               // the content of a shard whose last write is at or below it may be forgotten

	// Since logic 4, and in the hash from there on.
	Tombs []Tombstone // by Seq
}

// SidecarState is one live sidecar.
type SidecarState struct {
	Incarnation Seq
	Agent       string
	Watermark   Seq
	Due         Tick          // its lease ends here
	Servers     []ServerState // by Server

	// Since logic 3.
	Shut bool // a server of it could not even be listed: it registers no further ones
}

// ServerState is one tool server as one sidecar sees it.
type ServerState struct {
	Server     string
	Generation uint64
	Present    bool
	Catalogue  Hash

	// Since logic 3.
	Seq Seq // of the outcome that changed it last; zero: an older logic did
}

// JoinState remembers an answered join.
type JoinState struct {
	ID  string
	Seq Seq
}

// Phase is where a transaction stands.
type Phase uint8

// The phases.
const (
	PhaseOpen Phase = iota
	PhaseSealed
	PhaseCommitted // decided, not final
	PhaseAborted   // decided, not final
	PhaseFinalCommitted
	PhaseFinalAborted
	PhaseRetracting // committed and settled; in a cone, it holds what it wrote until its turn is settled
	PhaseRetracted  // final
)

// Answer remembers what the last intent of a kind was answered with.
type Answer struct {
	Kind        IntentKind
	Incarnation Seq // of the sender: each sidecar counts its own intents
	N           uint32
	Seq         Seq // zero: it made no outcome
}

// WaitingState is a touch that waits.
// Invariant: what it wants is claimed or declared by May, all of it (holes 1b).
type WaitingState struct {
	N     uint32
	Wants []Want // what it still needs
	Due   Tick

	// Since logic 3.
	Seq Seq // of the outcome that says that it waits; zero: an older logic's
}

// TxState is one transaction that the fold remembers.
//
// Invariant: it goes open, sealed, then committed or aborted, then final, and only a retraction takes it further;
// Decision is set from the decision on and never changes. TestReplicaStateCarriesAll holds that nothing beside it is
// needed.
type TxState struct {
	ID          TxID
	Order       uint64 // order of first appearance in the log. Invariant: unique, and never given again
	Agent       string
	Incarnation Seq
	// Owner is the incarnation that owns the settlement; zero: an orphan. Invariant: it is live, or zero (endLease), so
	// that only one sidecar at a time may release or undo (holes 8).
	Owner   Seq
	Base    Seq
	Mode    Mode
	Observe bool
	Free    bool    // it opened while the workspace observed
	Levels  *Levels // nil: the rules' at the seal
	Epoch   Epoch   // Invariant: once taken it never changes, so waits keep running one way
	Phase   Phase
	Due     Tick // deadline
	Would   Code // observe: the first refusal that was not made
	Group   string
	May     []Want
	// by Kind. Invariant: one for each kind and the greatest N of its last sender, so a duplicate is known
	Answers []Answer
	// Invariant: no two conflicting ones of undecided transactions overlap, unless one is Free (holes 1a)
	Grants     []Hold
	GrantedNs  []uint32      // numbers of the touches for writing that were granted, or wait
	Waiting    *WaitingState // Invariant: nil unless it is open
	Seal       *Seal         // while sealed and undecided
	Footprint  Hash
	VerdictDue Tick // zero: no verdict is asked for
	Verdict    int8 // 0 none yet, 1 yes, -1 no; since logic 3 -2, the hook gave no answer
	VerdictWhy string
	SealLevels Levels
	RestsOn    []TxID  // writers that its reads rest on, and those that the seal adds
	Residue    []TxID  // of those, writers that stand although they are residue
	Gated      []Scope // of a committed transaction, until it is final
	Decision   Seq
	Code       Code
	Succeeded  bool // a successor has kept its epoch
	Unclean    bool // its settlement left residue

	// Since logic 2, and in the hash from there on.
	Past       *Past // of a committed one, while it can be in a cone
	Retraction TxID  // the retracted transaction whose cone it is in, or was

	// Since logic 3.
	Shared  []Scope // granted or gated scopes that another transaction changed too while the workspace observed, sorted
	Sealed  []Scope // of an aborted one that was sealed and is not settled: what its settlement may name besides grants
	First   Seq     // of its first outcome; zero: an older logic made it
	Since   []Seq   // of the outcomes that gave Grants, one each; zero: an older logic did
	Session string  // the conversation of its agent; empty: the default one
	Commit  Tick    // of a committed one: the log's time at its decision, or when the workspace came to logic 3

	// Since logic 4, and in the hash from there on. While it is sealed and undecided:
	ApprovalDue Tick       // zero: no effect needs a yes
	Approvals   []Approval // by Index. Invariant: each a yes, on the very arguments of an effect that needs it

	// Since logic 5, and in the hash from there on. While it is sealed and undecided:
	Signer string // the key that signed the request of its seal; empty: none did
}

// Past is what a retraction needs to know of a committed transaction.
// Invariant: since logic 2 it is there while the decision is above the horizon, or a retraction has the transaction.
type Past struct {
	Reads   []PastRead
	From    []TxID      // what its seal added to the writers that its reads show
	Writes  []PastWrite // by Scope, but for what its settlement added; they count from its decision on
	Effects bool        // something ran or was released that a sidecar has to compensate
	Undone  Seq         // of its compensation; zero: none
}

// PastWrite is one scope that a committed transaction wrote.
type PastWrite struct {
	Scope  Scope
	Former Writer // whose write it covered; zero: forgotten or none
	Shard  bool   // it wrote the content of this shard

	// Since logic 4.
	Op Op // of that content; not OpSet: it wrote a delta
}

// PastRead is one read of a committed transaction.
type PastRead struct {
	Scope Scope
	View  Seq
}

// RetractionState is one accepted retraction.
// Invariant: Cone is fixed when it starts, and so is Ground but for contents that a turn has put back already.
type RetractionState struct {
	Tx     TxID
	Seq    Seq         // of the outcome that accepted it
	Cone   []TxID      // the most recent first; empty: it has not started
	Ground []ConeScope // what stands under the cone, by Scope
	Turn   Seq         // of the outcome that gave the current member its turn; zero: it has none yet

	// Since logic 3.
	Named *Blocker // the first of those that the next turn was last said to wait for; nil: none was named
}

// ConeScope is what stands at a scope under a cone that wrote it.
type ConeScope struct {
	Scope   Scope
	Writer  Writer        // whose write stands; zero: forgotten or none
	Shard   *ShardVersion // the content to restore; nil: no shard, or restored already
	Unknown bool          // a shard whose content is not known any more: it stays as it is, as residue

	// Since logic 4.
	// Kept: what others wrote since may stand, for the cone wrote a delta there, or a tombstone has taken it away. Who
	// counts as the writer stays it.
	Kept bool
}

// ShardVersion is the content that a shard had from a seq on.
type ShardVersion struct {
	Scope   Scope
	Seq     Seq  // zero: from before what the fold remembers
	Tx      TxID // who wrote it; empty: not remembered
	Type    string
	Content []byte
	Ref     *Ref
	Absent  bool // the shard was not there
	Unknown bool // the log does not say what was there

	// Since logic 3 the log keeps the content, and Type, Content and Ref are empty.
	From Seq // the decision that carries it; zero: Absent, Unknown, or kept here since before logic 3
}

// WindowState is the last write of one scope, while it is newer than the floor.
type WindowState struct {
	Scope  Scope
	Seq    Seq
	Writer Writer

	// Since logic 3.
	By TxID // who moved it at Seq, where that is not Writer: a compensation that put the former value back
}

// Catalogue is a set of tools, kept once however many sidecars announce it.
type Catalogue struct {
	Hash  Hash
	Tools []Tool // by Name
}

// GroupState is a branch group.
type GroupState struct {
	ID     string
	Winner TxID // empty: not chosen yet
	Seq    Seq  // of the choice
}
