package replay

import (
	"github.com/hence-dev/hence/sequencer"
)

// What a second run supposes, because the log does not have it.
const (
	supposedUnsent  = "a record of a transaction that had ended, or never opened: not sent"
	supposedEnd     = "a transaction whose touch or seal was refused: ended there"
	supposedSettled = "a settlement: clean, and at once"
	supposedYes     = "a yes to a call that the policy lets somebody approve"
	supposedAsked   = "a begin or a touch that the other mode asks for: sent where the transaction began or read"
)

// What a decision of the second run rests on that no log has.
const (
	unknownRefused = "its touch or seal is refused now: what its agent would have done instead"
	unknownRead    = "a read of it would have shown another value: what its agent would have made of that"
	unknownRetry   = "it repeats a transaction whose decision is another one now: whether it would have come"
	unknownUnseen  = "its sidecar refused it before the seal: the log does not have its footprint"
)

func (s *story) knowsNot(what string) {
	for _, u := range s.unknown {
		if u == what {
			return
		}
	}
	s.unknown = append(s.unknown, what)
}

// Result is what two runs of a log come to.
type Result struct {
	Workspace string
	Records   int
	Seqs      sequencer.Seq // of the first run
	Chain     sequencer.Hash
	NowChain  sequencer.Hash // of the second run
	Then, Now Totals

	Differences []Difference // in the order of the log; each one's cause stands before it
	Direct      int          // of them: the changed rule alone explains it
	Unknown     []Unknown
	Agents      []string       // that began something after a decision that differs: they may not have
	Supposed    map[string]int // what the second run supposed, and how often
	Points      []Point        // for a drawing
}

// Totals are what the transactions of a run came to.
type Totals struct {
	Committed int
	Aborted   int
	Undecided int
	Waited    int                    // transactions of which something waited
	Refused   int                    // transactions of which an intent was refused
	Codes     map[sequencer.Code]int // of the aborted
	Would     map[sequencer.Code]int // of what was let pass because it only observed
}

// What differs.
const (
	DiffersWait       = "wait"       // something of it waited in one run only
	DiffersRefused    = "refused"    // an intent of it was refused in one run only
	DiffersDecision   = "decision"   // it committed in one run and did not in the other
	DiffersReason     = "reason"     // it aborted in both, for another reason
	DiffersOrder      = "order"      // it committed in both, at another place among the others
	DiffersRetraction = "retraction" // it is taken back in one run only
)

// Difference is one way in which a transaction fared otherwise.
type Difference struct {
	Tx     sequencer.TxID
	Agent  string
	What   string
	Offset int64 // of the record at which it shows
	Then   Fate
	Now    Fate
	Cause  Cause

	s         *story
	then, now *event
}

// Fate is what became of the transaction in one run.
type Fate struct {
	Kind   string         // committed, aborted, waiting, granted, refused, retracting, or undecided
	Code   sequencer.Code // of aborted and refused
	Would  sequencer.Code // what it would have been, where it only observed
	Scope  sequencer.Scope
	By     sequencer.TxID   // what moved it
	Behind []sequencer.TxID // whom it waited for
	Seq    sequencer.Seq
}

// Why a difference is there.
const (
	CauseRule    = "rule"    // the change alone: whatever it met was as recorded
	CauseWriter  = "writer"  // a transaction that moved what it read or wrote, or did not
	CauseBlocker = "blocker" // a transaction that it waits for, or does not
	CauseItself  = "itself"  // an earlier difference of the same transaction
	CauseUnnamed = "unnamed" // an earlier difference that no outcome of it names: of time, room or age
)

// Cause is what a difference follows from.
type Cause struct {
	Why   string
	Tx    sequencer.TxID // whose difference
	Of    int            // its place in Differences; -1: none
	First int            // the place of the direct one at the beginning of the chain; its own where it is direct
}

// Unknown is what the log does not say of a transaction.
type Unknown struct {
	Tx   sequencer.TxID
	What []string
}

// Point is how far both runs were after a record.
type Point struct {
	Record                   int // records up to here
	ThenCommitted, ThenEnded int // transactions that had committed, and that had aborted
	NowCommitted, NowEnded   int
	Differences              int
}

func (res *Result) suppose(what string) { res.Supposed[what]++ }
