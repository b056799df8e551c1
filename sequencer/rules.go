package sequencer

// Logic is the newest version of the fold's own rules that this package implements; it implements all older ones too.
// Logic 2 has retraction, and what has to be remembered for it. Logic 3 bounds what one record can do to the others.
// Logic 4 has writes that merge, approvals, and contents of several events. Logic 5 says whose key signed a request.
const Logic = 5

// firstLogic is that of a workspace without a rules record.
const firstLogic = 1

// Rules are the workspace's settings. They change by a record of the log and hold from there on.
type Rules struct {
	Version uint32 // counted up by one with each change; the first rules of a workspace are version 0
	Logic   uint32 // a fold that does not implement it stops before the record

	Observe        bool   // the whole workspace observes: everything is granted and commits, Would says what else
	Levels         Levels // where a transaction names none
	HorizonSeqs    Seq    // up to logic 2 the undo horizon; since logic 3 of what has aborted, of joins and of branches
	CapSeqs        Seq    // how far behind the head a watermark may hold the floor
	LeaseTicks     Tick   // from a join or a watermark
	DeadlineTicks  Tick   // default of a transaction, from its begin
	BoundTicks     Tick   // default of a waiting touch
	VerdictTicks   Tick   // default of a hook's answer, from the seal
	MaxOpen        uint32 // open transactions
	MaxScopes      uint32 // scopes of a footprint
	MaxBytes       uint32 // a footprint without contents, bytes
	MaxInline      uint32 // inline content of one shard write, bytes
	MaxContent     uint32 // content of one shard write by reference, bytes
	MaxInlineTotal uint32 // inline content of one transaction, bytes
	MaxKept        uint32 // what the workspace's state may keep, bytes

	// Since logic 3, and in the canonical form from there on.
	MaxSidecars uint32 // live sidecars; a new agent's join beyond is refused
	// A committed transaction stays retractable for so many commits after it, and so long, whichever ends first; for less
	// where MaxKept is full before. Zero: the default.
	HorizonCommits uint32
	HorizonTicks   Tick

	// Since logic 4, and in the canonical form from there on.
	ApprovalTicks Tick // how long a seal waits for approvals, and its deadline with it; zero: the default
}

// DefaultRules are the rules of a workspace whose log holds no rules record. A join that is a log's first record sets
// their logic.
func DefaultRules() Rules {
	return Rules{
		Logic: firstLogic, Levels: L4, HorizonSeqs: 1000, CapSeqs: 4096,
		LeaseTicks: 40, DeadlineTicks: 2400, BoundTicks: 240, VerdictTicks: 40,
		MaxOpen: 1000, MaxScopes: 256, MaxBytes: 64 << 10, MaxInline: 4 << 10, MaxContent: 256 << 10,
		MaxInlineTotal: 128 << 10, MaxKept: 640 << 10,
	}
}

// The undo horizon of logic 3. By default the commits are more than MaxKept holds of all but the smallest, so that the
// bytes decide, and the time is a week of the log's.
const (
	defaultHorizonCommits = 2000
	defaultHorizonTicks   = 7 * dayTicks
	maxHorizonCommits     = 1 << 16
	maxHorizonTicks       = 365 * dayTicks
	dayTicks              = 24 * hourTicks
	hourTicks             = 4 * 3600
)

// The greatest values that rules may take, so that a state record stays below a broker's limit of 1 MB.
const (
	maxHorizonSeqs = 1 << 16
	maxKeptBytes   = 800 << 10
)

// The bounds that logic 3 adds.
const (
	maxStateBytes = 1 << 20 // of a state record
	stateRoom     = 32 << 10
	maxOpen       = 4096
	maxScopes     = 512
	maxFootprint  = 128 << 10
	// leastLeaseTicks is the shortest lease under which a call can start: its holder counts the first 9 ticks of a
	// lease as passed, because they may pass faster than the log's time.
	leastLeaseTicks = 10
)

// fill sets what rules of an older logic do not have.
func (r *Rules) fill() {
	if r.Logic >= 3 && r.MaxSidecars == 0 {
		r.MaxSidecars = defaultMaxSidecars
	}
	if r.Logic >= 3 && r.HorizonCommits == 0 {
		r.HorizonCommits = defaultHorizonCommits
	}
	if r.Logic >= 3 && r.HorizonTicks == 0 {
		r.HorizonTicks = defaultHorizonTicks
	}
	if r.Logic >= 4 && r.ApprovalTicks == 0 {
		r.ApprovalTicks = defaultApprovalTicks
	}
}

// fillFrom is fill for rules that follow others. A workspace that comes to logic 3 keeps the horizon that it had, or
// more: so many seqs have no more commits than seqs, and there was no bound in time.
func (r *Rules) fillFrom(former *Rules) {
	if former.Logic < 3 && r.Logic >= 3 {
		if r.HorizonCommits == 0 {
			r.HorizonCommits = max(defaultHorizonCommits, uint32(min(r.HorizonSeqs, maxHorizonCommits)))
		}
		if r.HorizonTicks == 0 {
			r.HorizonTicks = maxHorizonTicks
		}
	}
	r.fill()
}

// stateBytes is what a state record may come to under the rules: live sidecars, what the workspace keeps, and the
// catalogues beside it.
func (r *Rules) stateBytes() uint64 {
	return uint64(r.MaxSidecars)*sidecarBytes + uint64(r.MaxKept) + uint64(r.MaxKept)/4 + stateRoom
}

// unbounded says what is wrong with rules of logic 3 beyond what is wrong with any; empty: nothing.
func (r *Rules) unbounded() string {
	switch {
	case r.LeaseTicks < leastLeaseTicks:
		// The holder counts the first 9 ticks as passed.
		return "under a lease of less than 10 ticks no call could ever start"
	case r.MaxOpen > maxOpen || r.MaxScopes > maxScopes || r.MaxBytes > maxFootprint:
		// One step may decide all that is open, and one decision repeats a footprint: both have to be written.
		return "at most 4096 transactions are open, and a footprint has at most 512 scopes and 131072 bytes"
	case uint64(r.MaxKept) < 2*(uint64(r.MaxBytes)+uint64(r.MaxInlineTotal)):
		// Half of it is for open transactions: less, and the largest legal one could never be sealed.
		return "the kept bytes are at least twice a footprint with its contents"
	case r.HorizonCommits > maxHorizonCommits || r.HorizonTicks > maxHorizonTicks:
		return "the horizon is at most 65536 commits and 126144000 ticks"
	case r.Logic >= 4 && r.MaxContent > MaxContent:
		// A sidecar holds a content whole while it writes it.
		return "a content has at most 16777216 bytes"
	case r.Logic >= 4 && r.ApprovalTicks > maxApprovalTicks:
		// A deadline that reaches as far must still come.
		return "an approval is waited for at most 126144000 ticks"
	case r.stateBytes() > maxStateBytes:
		// A state that does not fit into a record stops the workspace.
		return "sidecars of 160 bytes, the kept bytes and a quarter of them for catalogues exceed a record of 1 MiB"
	}
	return ""
}

// invalid says what is wrong with the rules; empty: nothing.
func (r *Rules) invalid() string {
	switch {
	case !r.Levels.valid():
		return "the levels are not a subset of A1, A2, A3 and A6"
	case r.HorizonSeqs > maxHorizonSeqs || r.CapSeqs == 0 || r.CapSeqs > maxHorizonSeqs:
		// A cap of zero would put the floor at the head, where every base is too old.
		return "the horizon is at most 65536 seqs and the cap between 1 and 65536"
	case r.LeaseTicks < leaseWeight || r.DeadlineTicks == 0 || r.BoundTicks == 0 || r.VerdictTicks == 0:
		// Shorter, one tick would end every lease, or whatever has just begun.
		return "a lease has at least 8 ticks, deadlines and bounds at least 1"
	case r.MaxOpen == 0 || r.MaxScopes == 0 || r.MaxBytes == 0 || r.MaxInline > r.MaxInlineTotal:
		// With zero nothing could open, not even what would set it right.
		return "the caps are at least 1, and one inline content is within the cap of all of a transaction"
	case r.Logic >= 3 && r.unbounded() != "":
		return r.unbounded()
	case r.MaxKept > maxKeptBytes || r.MaxKept < 2*(r.MaxBytes+r.MaxInlineTotal):
		return "the kept bytes are at most 819200 and at least twice a footprint with its contents"
	}
	return ""
}
