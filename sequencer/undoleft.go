package sequencer

import "slices"

// UndoLeft is how long a committed transaction can still be retracted: until its workspace has made so many more
// commits, has so many more bytes of the past to remember, or so much time of the log has passed, whichever is first.
type UndoLeft struct {
	Commits uint64
	Bytes   uint64
	Ticks   Tick
	Span    Tick   // how far back the rate was looked at: an hour, or what is remembered
	Made    uint64 // commits in it
	Kept    uint64 // bytes of them that are remembered
}

// UndoLeft says it since logic 3; false: the transaction cannot be retracted, or not by such a bound.
func (f *Fold) UndoLeft(id TxID) (UndoLeft, bool) {
	t := f.txs[id]
	if !f.bounded() || t == nil || t.Past == nil || t.Retraction != "" || t.Decision <= f.horizon {
		return UndoLeft{}, false
	}
	commits := f.settled.full
	at := slices.Index(commits, t)
	if at < 0 {
		return UndoLeft{}, false
	}
	sizes := f.pastSizes()
	var left UndoLeft
	if newer := len(commits) - at; newer <= int(f.rules.HorizonCommits) {
		left.Commits = uint64(int(f.rules.HorizonCommits) - newer + 1)
	}
	left.Ticks = t.Commit + f.rules.HorizonTicks - min(f.time, t.Commit+f.rules.HorizonTicks) + 1
	// When there is no room, what is older goes first, up to a sixteenth of all at once.
	free := f.pastBudget() - f.pastKept()
	for _, older := range commits[:at] {
		free += sizes[older.Decision]
	}
	free -= min(f.pastKept()/16, max(0, free-(f.pastBudget()-f.pastKept())))
	left.Bytes = uint64(max(free, 0))
	left.Span = min(hourTicks, f.time-min(f.time, commits[0].Commit))
	for _, c := range commits {
		if c.Commit+left.Span >= f.time {
			left.Made++
			left.Kept += uint64(sizes[c.Decision])
		}
	}
	return left, true
}

// pastSizes estimates what each remembered commit keeps, by its seq, with the contents that it names.
func (f *Fold) pastSizes() map[Seq]int {
	sizes := make(map[Seq]int, len(f.settled.full))
	for _, t := range f.settled.full {
		sizes[t.Decision] = t.pastBytes() + recordBytes
	}
	for _, p := range f.shards.of {
		for i := range p.list {
			if _, commit := sizes[p.list[i].Seq]; commit {
				sizes[p.list[i].Seq] += p.list[i].bytes()
			}
		}
	}
	return sizes
}
