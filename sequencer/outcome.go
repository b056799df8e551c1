package sequencer

// OutcomeKind says what was decided.
type OutcomeKind uint8

// The outcomes; every one takes a seq.
const (
	OutcomeBegun OutcomeKind = iota + 1
	OutcomeWaiting
	OutcomeGranted
	OutcomeRefused // the intent only; never undoes a commit
	OutcomeCommitted
	OutcomeAborted
	OutcomeSettled
	OutcomeRegistered
	OutcomeUnregistered
	OutcomeSelected
	OutcomeJoined
	OutcomeLeaseEnded
	OutcomeAdopted
	OutcomeRules
	OutcomeRetracting // a retraction is queued, or started; or the transaction is a member of one that started
	OutcomeTurn       // the member is to be compensated now
	OutcomeConfirmed  // the incarnation was live at this place of the log: of agent and incarnation only
)

// String returns the kind's name as decisions carry it.
func (k OutcomeKind) String() string {
	return nameOf(k, "unknown", "begun", "waiting", "granted", "refused", "committed", "aborted", "settled",
		"registered", "unregistered", "selected", "joined", "lease_ended", "adopted", "rules",
		"retracting", "turn", "confirmed")
}

// Blocker is one transaction that another waits for.
type Blocker struct {
	Tx    TxID
	Scope Scope  // where they meet; empty when they do not meet in a scope
	Why   string // granted, claimed, held, sealed_read, read_from, branch, verdict, approval, or orphan
}

// Write is one scope that an outcome moved.
type Write struct {
	Scope  Scope
	Writer Writer // who counts as its writer from now on
	Former Writer // who counted as it before; zero: forgotten or none
}

// Outcome is one decision record.
type Outcome struct {
	Workspace    string
	Seq          Seq
	Offset       int64 // of the input record, in its partition
	RulesVersion uint32
	Chain        Hash // over all outcomes so far, this one included
	Time         Tick
	Floor        Seq
	Kind         OutcomeKind
	Intent       string // ID of the intent that this answers or that caused it
	Tx           TxID
	Agent        string
	Incarnation  Seq
	Mode         Mode
	Epoch        Epoch

	Code      Code
	Detail    string
	Scope     Scope  // where Code was found
	Moved     Writer // what moved it
	BlockedBy []Blocker
	Retryable bool
	Would     Code // observe: what would have been decided; "waiting" where it would have waited

	Added   []Hold
	Ended   []Hold
	May     []Want
	Writes  []Write
	Shards  []ShardWrite
	RestsOn []TxID
	Residue []TxID // writers that it rests on and that stand although they are residue

	Footprint Hash
	At        *Place
	Group     string
	Winner    TxID
	Server    string
	Catalogue Hash
	Final     bool // the transaction is settled with this outcome
	Rules     *Rules

	Retraction TxID   // the retracted transaction whose cone this one is in: of retracting, turn and settled
	Cone       []TxID // of a started retraction: its members, the most recent first

	// Since logic 3.
	By         string // BySidecar: Scope and Moved are what the sidecar said; empty: the fold found them
	Tool       string // of phantom_tool: server/name
	MovedAgent string // whose sidecar moved it at Moved.Seq, where no transaction did: of phantom_tool

	// Since logic 4: the words on effects that need a yes, by Index; of waiting also the effects without one.
	Approvals []Approval

	// Since logic 5: the key that signed the request behind Intent; of a decision that the record of another transaction,
	// or a tick, brought about, the one behind the seal. Empty: none did.
	Signer string

	// StateHash is of the state after this step, where its seqs passed a multiple of StateHashEvery. It is not in Chain,
	// because the state contains that.
	StateHash *Hash
}

// StateHashEvery is the distance, in seqs, between two published state hashes.
const StateHashEvery = 4096

// Step is what one intent led to.
type Step struct {
	Outcomes []Outcome
	Repeats  []Seq // the outcomes that a duplicate intent had; to be published again where they are remembered
	Ignored  bool  // the record could not be read as an intent of this version; it changed nothing
}
