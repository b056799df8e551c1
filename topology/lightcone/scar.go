package lightcone

// Keeps is what a system keeps of its messages' causes, and how it orders.
type Keeps struct {
	Causes     bool // of every message, over the range that is audited
	OneAppend  bool // all messages pass one point of append, and nothing is observed around it
	ClockBound Arbitration
}

// Prevents says whether the system can always give an order that respects causes.
func (k Keeps) Prevents() bool {
	return k.Causes || k.OneAppend || k.ClockBound.Rule == Clock && k.ClockBound.Causal()
}

// Detects says whether the system can tell that its order does not respect causes. Without the causes two histories
// look the same, one with a scar and one without: a system that keeps none and prevents scars by its clock, or by
// where it appends, cannot notice that it did not.
func (k Keeps) Detects() bool { return k.Causes }
