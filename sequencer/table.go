package sequencer

import (
	"unicode/utf8"
)

// applyTx applies an intent about one transaction: the table of FOLD, column by column.
func (f *Fold) applyTx(in *Intent) {
	t := f.txs[in.Tx]
	if t == nil {
		f.applyUnknown(in)
		return
	}
	if in.approves() {
		// Who approves has a sidecar of his own: the two rules below are about what a transaction's own one sends.
		f.applyApprovals(t, in)
		return
	}
	// Kafka may bring a record twice, and a sidecar sends one again when it got no answer. Applied again, the copy would
	// be refused as late and hide what the first one came to.
	if a := t.answered(in.Kind); a.duplicate(in) {
		seq := a.Seq
		if seq == 0 {
			seq = t.Decision
		}
		f.repeat(seq)
		return
	}
	anybody := in.Kind == IntentAdopt || in.Kind == IntentSettle || in.Kind == IntentRetract && f.retracts()
	if t.undecided() && !anybody && in.Incarnation != t.Incarnation {
		// Another sidecar knows neither the calls nor the reads of it: its seal would list what never ran, its abort would
		// end a stranger's work. Only what is for others, to settle and to take back, is open to all.
		f.refuse(in, nil, finding{code: CodeUnknownIntent, detail: "the transaction is another sidecar's"})
		return
	}
	switch in.Kind {
	case IntentBegin:
		f.applyBegin(t, in)
	case IntentTouch:
		f.applyTouch(t, in)
	case IntentSeal:
		f.applySeal(t, in)
	case IntentAbort:
		f.applyAbort(t, in)
	case IntentSettle:
		f.applySettle(t, in)
	case IntentVerdict:
		f.applyVerdict(t, in)
	case IntentAdopt:
		f.applyAdopt(t, in)
	default:
		f.applyRetract(t, in)
	}
}

// applyUnknown applies an intent about a transaction that has no record: new, or forgotten.
func (f *Fold) applyUnknown(in *Intent) {
	switch in.Kind {
	case IntentBegin, IntentTouch, IntentSeal, IntentAbort:
		// Each of these may come first: in optimistic, begin is folded into the first record, so a transaction without
		// touches is one intent and one outcome.
	case IntentRetract:
		if !f.retracts() {
			// Logic 1 has no retraction; its old logs have this answer in their chains.
			f.refuse(in, nil, finding{code: CodeUnknownIntent, detail: noRetraction})
			return
		}
		fallthrough
	default:
		// There is nothing to settle, judge or adopt: what is forgotten was final.
		f.refuse(in, nil, finding{code: CodeTooOld, detail: "the transaction is not remembered"})
		return
	}
	if in.Base < f.floor {
		// It may be a late copy of a transaction that was decided and forgotten; opened again, it would commit twice
		// (holes 5a).
		f.refuse(in, nil, finding{code: CodeTooOld, detail: "the transaction's base is below the floor"})
		return
	}
	if in.Base > f.seq {
		// A base in the future would stay above every floor, and with it the defence against late copies would be gone
		// (holes 5a).
		f.refuse(in, nil, finding{code: CodeUnknownIntent, detail: "the transaction's base is a seq that was not reached"})
		return
	}
	if in.Kind != IntentAbort { // which is recorded in any case: else a delayed seal would commit
		if why := f.admits(in); why.found() {
			f.refuse(in, nil, why)
			return
		}
	}
	t := f.openTx(in)
	if f.lostBranch(t) {
		// A begin that was under way when the branch was chosen: it would wait for a choice that has been made.
		g := f.groups[t.Group]
		f.abort(t, f.lostTo(g))
		t.answer(in, t.Decision)
		return
	}
	switch in.Kind {
	case IntentBegin:
		t.answer(in, f.emitTx(t, Outcome{Kind: OutcomeBegun, May: t.May}))
	case IntentTouch:
		f.applyTouch(t, in)
	case IntentSeal:
		f.applySeal(t, in)
	default:
		f.applyAbort(t, in)
	}
}

// admits checks the caps and the declaration of a transaction that would open.
func (f *Fold) admits(in *Intent) finding {
	names, bytes := []string{string(in.Tx)}, in.bytes()
	if in.Begin != nil && f.bounded() {
		names = append(names, in.Begin.Group, in.Begin.Session)
		bytes += len(in.Begin.Session) // the first logics keep none
	}
	if why := f.nameTooLong(names...); why.found() {
		return why
	}
	// Without this cap and the next one the open transactions outgrow a state record, which stops the workspace
	// (holes 18).
	if f.undecided >= int(f.rules.MaxOpen) {
		return finding{code: CodeLimit, detail: "the workspace has as many open transactions as its rules allow"}
	}
	if f.open+bytes > f.openBudget() {
		return finding{code: CodeLimit, detail: "the workspace's open transactions keep as many bytes as its rules allow"}
	}
	if in.Seal != nil {
		// Before it opens: a seal that is refused afterwards would leave an open transaction that its sidecar may not know
		// of.
		if why := f.oversize(in.Seal); why.found() {
			return why
		}
	}
	b := in.Begin
	if b == nil {
		return finding{}
	}
	if len(b.May) > 0 && b.Mode != Ordered {
		// In optimistic there is no epoch at begin, so the claims would bind by an age that is not known; in locked reads
		// have grants.
		return finding{code: CodeUnknownIntent, detail: "may is for mode ordered only"}
	}
	if len(b.May) > int(f.rules.MaxScopes) {
		// Its begun decision repeats the list, and each scope is claimed.
		return finding{code: CodeLimit, detail: "may lists more scopes than the rules allow"}
	}
	return finding{}
}

// openTx makes the record of a new transaction.
func (f *Fold) openTx(in *Intent) *tx {
	b := in.Begin
	if b == nil {
		b = &Begin{}
	}
	f.lastOrder++
	t := &tx{fresh: true, TxState: TxState{
		ID: in.Tx, Order: f.lastOrder, Agent: in.Agent, Incarnation: in.Incarnation, Owner: in.Incarnation, Base: in.Base,
		Mode: b.Mode, Observe: b.Observe, Free: f.rules.Observe, Levels: b.Levels, Group: b.Group, May: b.May,
	}}
	if in.Kind == IntentAbort && f.bounded() {
		t.May = nil // it ends at once, and no cap was asked for what it declares
	}
	if f.bounded() {
		t.Session = b.Session // before, all that a sidecar sends is one session
	}
	t.Answers = t.room[:0]
	t.Due = f.time + orDefault(b.DeadlineTicks, f.rules.DeadlineTicks)
	f.txs[t.ID] = t
	f.undecided++
	if t.Group != "" {
		f.joinGroup(t)
	}
	if t.Mode != Optimistic {
		f.inheritEpoch(t, b.Predecessor)
		f.takeEpoch(t)
	}
	claimed := make(map[Want]bool, len(t.May))
	for _, w := range t.May {
		if !claimed[w] {
			claimed[w] = true
			f.hold(t, Hold{w.Scope, Claimed, w.Access})
		}
	}
	f.account(t)
	f.wakeDependents(t)
	return t
}

// inheritEpoch keeps the age of a wounded predecessor, once, so that the successor cannot be wounded for ever.
func (f *Fold) inheritEpoch(t *tx, predecessor TxID) {
	p := f.txs[predecessor]
	if p == nil || p.Agent != t.Agent || p.Code != CodeWounded || p.Succeeded {
		// Only its own agent's, wounded, and once: else two would have one age, or an old age would be kept for ever and
		// wound whatever comes.
		return
	}
	p.Succeeded = true
	t.Epoch = p.Epoch
}

// applyBegin answers the begin of a transaction that is known already.
func (f *Fold) applyBegin(t *tx, in *Intent) {
	seq := t.Decision
	if seq == 0 {
		for _, a := range t.Answers {
			seq = max(seq, a.Seq)
		}
	}
	t.answer(in, seq)
	f.repeat(seq)
}

func (f *Fold) applyAbort(t *tx, in *Intent) {
	if !t.undecided() {
		// A decision is final: an abort that comes behind it is told what was decided, and changes nothing.
		t.answer(in, t.Decision)
		f.repeat(t.Decision)
		return
	}
	why := finding{code: CodeAbortedByAgent}
	if in.Abort != nil {
		why.detail = in.Abort.Detail
		// Other codes are the fold's to give: a sidecar that may say wounded or vetoed could blame another one.
		switch in.Abort.Code {
		case CodeToolFailed, CodeStaleRead, CodeVersionMismatch, CodeCascade, CodeLostBranch, CodeTooOld:
			why.code = in.Abort.Code
			why = f.told(t, why, in.Abort)
		}
	}
	f.abort(t, why)
	t.answer(in, t.Decision)
}

// maxReasonBytes is what is kept of a hook's words.
const maxReasonBytes = 256

func (f *Fold) applyVerdict(t *tx, in *Intent) {
	switch {
	case t.Phase == PhaseOpen:
		// A yes before the seal would be a yes to whatever is sealed afterwards.
		f.refuse(in, t, finding{code: CodeNotSealed, detail: "the verdict is on a footprint that is not sealed"})
	case t.Phase != PhaseSealed:
		// It was decided without the hook, by its bound or by another one's write: the decision stands.
		t.answer(in, t.Decision)
		f.repeat(t.Decision)
	case t.VerdictDue == 0 || in.Verdict.Footprint != t.Footprint:
		// Another footprint than the one that would commit, or none was asked about: the answer says nothing of this one.
		f.refuse(in, t, finding{code: CodeWrongFootprint, detail: "the verdict is not on the footprint that was sealed"})
	default:
		t.answer(in, 0)
		// The first verdict counts: a hook that is asked twice may answer twice, and differently.
		if t.Verdict == 0 {
			switch {
			case in.Verdict.Yes:
				t.Verdict = 1
			case in.Verdict.Unavailable && f.bounded():
				t.Verdict = verdictMissing
			default:
				t.Verdict = -1
			}
			t.VerdictWhy = firstBytes(in.Verdict.Reason, maxReasonBytes)
			if f.bounded() {
				f.account(t)
			}
			f.wakeTx(t)
		}
	}
}

// verdictMissing is the Verdict of a transaction whose hook gave no answer.
const verdictMissing = -2

// unheard is the code of a seal whose hook gave no answer. Only the hook's own no is a veto, and final.
func (f *Fold) unheard() Code {
	// A veto tells the agent not to try again, which a hook that is down has not said (holes 19).
	if f.bounded() {
		return CodeHookUnavailable
	}
	return CodeVetoed
}

// firstBytes is the beginning of a text, without half a character: no decision with that could be written.
func firstBytes(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

func (f *Fold) applyAdopt(t *tx, in *Intent) {
	if t.undecided() || t.final() || t.Owner != 0 {
		// Two owners would both release or undo: a live owner is never replaced, and only the first adoption counts
		// (holes 8).
		f.refuse(in, t, finding{code: CodeNotOrphan, detail: "the transaction's settlement has an owner, or is done"})
		return
	}
	t.Owner = in.Incarnation
	t.answer(in, f.emitTx(t, Outcome{Kind: OutcomeAdopted, Agent: in.Agent, Incarnation: in.Incarnation}))
}

func orDefault(v, def Tick) Tick {
	if v == 0 {
		return def
	}
	return v
}
