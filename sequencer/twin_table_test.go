package sequencer_test

import "github.com/hence-dev/hence/sequencer"

// applyTx is FOLD's table.
func (w *twin) applyTx(in *sequencer.Intent) {
	t := w.tx(in.Tx)
	if t == nil {
		w.applyUnknown(in)
		return
	}
	if in.Kind == sequencer.IntentVerdict && len(in.Verdict.Approvals) > 0 {
		w.heard = w.approve(t, in)
		return
	}
	if a := t.answers[in.Kind]; a.Incarnation == in.Incarnation && in.N <= a.N {
		if seq := max(a.Seq, 0); seq != 0 {
			w.repeats = append(w.repeats, seq)
		} else if t.decision != 0 {
			w.repeats = append(w.repeats, t.decision)
		}
		return
	}
	settlement := in.Kind == sequencer.IntentAdopt || in.Kind == sequencer.IntentSettle ||
		in.Kind == sequencer.IntentRetract && w.retracts()
	if t.undecided() && !settlement && in.Incarnation != t.incarnation {
		w.refuseCode(nil, sequencer.CodeUnknownIntent)
		return
	}
	switch in.Kind {
	case sequencer.IntentBegin:
		w.beginAgain(t)
	case sequencer.IntentTouch:
		w.touch(t, in)
	case sequencer.IntentSeal:
		w.seal(t, in)
	case sequencer.IntentAbort:
		w.abortIntent(t, in)
	case sequencer.IntentSettle:
		w.settle(t, in)
	case sequencer.IntentVerdict:
		w.giveVerdict(t, in)
	case sequencer.IntentAdopt:
		if t.undecided() || t.final() || t.owner != 0 {
			w.refuseCode(t, sequencer.CodeNotOrphan)
			return
		}
		t.owner = in.Incarnation
		w.answer(t, w.emitTx(t, sequencer.Outcome{Kind: sequencer.OutcomeAdopted, Agent: in.Agent,
			Incarnation: in.Incarnation}))
	default:
		w.retract(t)
	}
}

func (w *twin) applyUnknown(in *sequencer.Intent) {
	switch in.Kind {
	case sequencer.IntentRetract:
		code := sequencer.CodeTooOld
		if !w.retracts() {
			code = sequencer.CodeUnknownIntent
		}
		w.refuseCode(nil, code)
		return
	case sequencer.IntentSettle, sequencer.IntentVerdict, sequencer.IntentAdopt:
		w.refuseCode(nil, sequencer.CodeTooOld)
		return
	}
	if code := w.admits(in); code != "" {
		w.refuseCode(nil, code)
		return
	}
	t := w.open(in)
	if g := w.groups[t.begin.Group]; g != nil && g.Winner != "" && g.Winner != t.id && !t.free {
		w.abort(t, twinFinding{code: sequencer.CodeLostBranch, moved: sequencer.Writer{Seq: g.Seq, Tx: g.Winner}})
		w.answer(t, t.decision)
		return
	}
	switch in.Kind {
	case sequencer.IntentBegin:
		w.answer(t, w.emitTx(t, sequencer.Outcome{Kind: sequencer.OutcomeBegun, May: t.begin.May}))
	case sequencer.IntentTouch:
		w.touch(t, in)
	case sequencer.IntentSeal:
		w.seal(t, in)
	case sequencer.IntentAbort:
		w.abortIntent(t, in)
	}
}

// admits says why an unknown transaction may not open.
func (w *twin) admits(in *sequencer.Intent) sequencer.Code {
	open := 0
	for _, t := range w.txs {
		if t.undecided() {
			open++
		}
	}
	switch {
	case in.Base < w.floor:
		return sequencer.CodeTooOld
	case in.Base > w.seq:
		return sequencer.CodeUnknownIntent
	case in.Kind == sequencer.IntentAbort:
		return ""
	case open >= int(w.rules.MaxOpen), in.Seal != nil && sealScopes(in.Seal) > int(w.rules.MaxScopes):
		return sequencer.CodeLimit
	case in.Begin != nil && len(in.Begin.May) > 0 && in.Begin.Mode != sequencer.Ordered:
		return sequencer.CodeUnknownIntent
	case in.Begin != nil && len(in.Begin.May) > int(w.rules.MaxScopes):
		return sequencer.CodeLimit
	}
	return ""
}

func sealScopes(s *sequencer.Seal) int {
	n := len(s.Reads) + len(s.Effects) + len(s.Shards) + len(s.Pins) + len(s.ReadFrom)
	for _, e := range s.Effects {
		n += len(e.Scopes)
	}
	return n
}

func (w *twin) open(in *sequencer.Intent) *twinTx {
	t := &twinTx{id: in.Tx, agent: in.Agent, incarnation: in.Incarnation, owner: in.Incarnation, free: w.rules.Observe,
		answers: map[sequencer.IntentKind]sequencer.Answer{}, fresh: true}
	if in.Begin != nil {
		t.begin = *in.Begin
	}
	if in.Kind == sequencer.IntentAbort && w.bounded() {
		t.begin.May = nil
	}
	if !w.bounded() {
		t.begin.Session = ""
	}
	t.due = w.time + w.rules.DeadlineTicks
	if t.begin.DeadlineTicks != 0 {
		t.due = w.time + t.begin.DeadlineTicks
	}
	if g := t.begin.Group; g != "" && w.groups[g] == nil {
		w.groups[g] = &sequencer.GroupState{ID: g}
	}
	if t.begin.Mode != sequencer.Optimistic {
		p := w.tx(t.begin.Predecessor)
		if p != nil && p.agent == t.agent && p.code == sequencer.CodeWounded && !p.succeeded {
			p.succeeded, t.epoch = true, p.epoch
		} else {
			w.epoch++
			t.epoch = w.epoch
		}
	}
	w.txs = append(w.txs, t)
	return t
}

func (w *twin) beginAgain(t *twinTx) {
	seq := t.decision
	if seq == 0 {
		for _, a := range t.answers {
			seq = max(seq, a.Seq)
		}
	}
	w.answer(t, seq)
	if seq != 0 {
		w.repeats = append(w.repeats, seq)
	}
}
