package sequencer_test

import (
	"slices"

	"github.com/hence-dev/hence/sequencer"
)

// fillRules sets what rules leave out since logic 3. A workspace that comes to it keeps its horizon, or more.
func (w *twin) fillRules(now *sequencer.Rules) {
	if now.Logic < 3 {
		return
	}
	comes := w.rules.Logic < 3
	if now.MaxSidecars == 0 {
		now.MaxSidecars = 1024
	}
	if now.HorizonCommits == 0 {
		now.HorizonCommits = 2000
		if comes {
			now.HorizonCommits = max(2000, uint32(now.HorizonSeqs))
		}
	}
	if now.HorizonTicks == 0 {
		now.HorizonTicks = 7 * 345_600
		if comes {
			now.HorizonTicks = 365 * 345_600
		}
	}
	if comes {
		for _, t := range w.txs {
			t.commit = w.time
		}
	}
}

// tooOld is up to where nothing can be retracted any more, by the rules in force.
func (w *twin) tooOld() sequencer.Seq {
	if !w.bounded() {
		return w.seq - min(w.seq, w.rules.HorizonSeqs)
	}
	var commits []*twinTx
	for _, t := range w.txs {
		if t.past != nil {
			commits = append(commits, t)
		}
	}
	slices.SortFunc(commits, func(a, b *twinTx) int { return int(b.decision) - int(a.decision) })
	for n, t := range commits {
		if n >= int(w.rules.HorizonCommits) || t.commit+w.rules.HorizonTicks < w.time {
			return t.decision
		}
	}
	return 0
}
