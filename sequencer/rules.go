package sequencer

// Logic is the version of the fold's own rules that this package implements.
const Logic = 1

// Rules are the workspace's settings. They change by a record of the log and hold from there on.
type Rules struct {
	Version uint32 // counted up by one with each change; the first rules of a workspace are version 0
	Logic   uint32 // a fold that does not implement it stops before the record

	Observe        bool   // the whole workspace observes: everything is granted and commits, Would says what else
	Levels         Levels // where a transaction names none
	HorizonSeqs    Seq    // how long a committed transaction stays retractable
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
}

// DefaultRules are the rules of a workspace whose log holds no rules record.
func DefaultRules() Rules {
	return Rules{
		Logic: Logic, Levels: L4, HorizonSeqs: 1000, CapSeqs: 4096,
		LeaseTicks: 40, DeadlineTicks: 2400, BoundTicks: 240, VerdictTicks: 40,
		MaxOpen: 1000, MaxScopes: 256, MaxBytes: 64 << 10, MaxInline: 4 << 10, MaxContent: 256 << 10,
		MaxInlineTotal: 128 << 10, MaxKept: 640 << 10,
	}
}
