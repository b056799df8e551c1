package sequencer

// Blockers returns what a waiting transaction waits for now, as Outcome.BlockedBy would name it; nil when it does not
// wait, or is not remembered. It changes nothing.
func (f *Fold) Blockers(id TxID) []Blocker {
	t := f.txs[id]
	switch {
	case t == nil || !t.waits():
		return nil
	case t.Phase == PhaseOpen:
		return f.judgeTouch(t, t.Waiting.Wants, true).named()
	}
	would := t.Would // a judgement notes there what it only observes
	j := f.judgeSeal(t, true)
	t.Would = would
	return j.named()
}
