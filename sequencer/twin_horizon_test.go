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
	if now.Logic > 3 && now.ApprovalTicks == 0 {
		now.ApprovalTicks = 14_400
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

// oldest is up to where records go that no retraction asks for.
func (w *twin) oldest() sequencer.Seq {
	below := min(w.floor, w.keepFrom())
	if !w.bounded() {
		return below
	}
	return max(below, min(w.floor, w.seq-min(w.seq, w.rules.HorizonSeqs)))
}

// forget moves floor and horizon and drops what lies below.
func (w *twin) forget() {
	target := w.seq
	for _, s := range w.sidecars {
		target = min(target, max(s.watermark, w.seq-min(w.seq, w.rules.CapSeqs)))
	}
	w.floor = max(w.floor, target)
	w.horizon = max(w.horizon, w.tooOld())
	keep := w.keepFrom()
	below, old := min(w.floor, keep), w.oldest()
	shown := w.floor
	if w.retracts() {
		shown = below
		w.forgetContents(keep)
	}
	w.window = slices.DeleteFunc(w.window, func(e sequencer.WindowState) bool { return e.Seq <= shown })
	w.txs = slices.DeleteFunc(w.txs, func(t *twinTx) bool {
		undone := sequencer.Seq(0) // until then reads may have seen what was taken back
		if t.past != nil && w.bounded() {
			undone = t.past.Undone
		}
		if t.past == nil {
			return t.final() && t.decision <= old
		}
		return t.final() && max(t.decision, undone) <= below
	})
	w.joins = slices.DeleteFunc(w.joins, func(j sequencer.JoinState) bool { return j.Seq <= old })
	for id, g := range w.groups {
		member := slices.ContainsFunc(w.txs, func(t *twinTx) bool { return t.begin.Group == id })
		if !member && g.Seq <= old {
			delete(w.groups, id)
		}
	}
}
