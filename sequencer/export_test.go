package sequencer

// Visits is how many elements and nodes the fold has looked at in its life.
func (f *Fold) Visits() int { return f.visits() }

// Counters are what the fold derives from its state and decides by.
func (f *Fold) Counters() map[string]int {
	return map[string]int{"open": f.open, "settled": f.settled.bytes, "window": f.window.bytes, "joins": f.joins.bytes,
		"chosen": f.chosen, "shards": f.shards.bytes, "undoing": f.undoing, "catalogues": f.catalogues.bytes,
		"undecided": f.undecided, "undone": f.undoneNames, "listed": f.listed,
		"count": f.settled.count, "groups": len(f.groups)}
}

// BadChain says what is wrong with a chain.
func (w *ShardWrite) BadChain() string { return w.badChain() }
