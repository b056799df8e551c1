package gate

import "github.com/hence-dev/hence/sequencer"

// Next says what may be done next about one effect, given its marks, the ground on which it is settled, and what else
// is known. It is the one rule of the gate: engine, explorer, simulator and recovery carry out what it says, mark it,
// and ask again. It changes nothing and reads no clock.
func Next(p *Progress, claim Claim, f Facts) Plan {
	class := p.Tool.Class
	switch {
	case class == sequencer.ClassRead: // nothing is marked, and nothing is to be undone
		return Plan{Do: DoDone}
	case f.Phase == PhaseResidue: // it is settled: only a person goes on
		return byHand(p, &f.Hand)
	case !p.Waited && MayFly(p, claim): // it could land after what is begun now, and after the settlement
		return Plan{Do: DoWait, Why: WhyFormer}
	case f.Phase == PhaseOpen && (p.Answer != nil || p.GivenUp): // the seal, or the abort, goes by that
		return Plan{Do: DoDone, Why: WhyAnswered}
	case f.Phase == PhaseOpen: // what cannot be taken back is not repeated only to be known, but by its own incarnation
		return learn(&f.Call, claim == ClaimOwn || p.Tool.Undo)
	case f.Phase == PhaseReleased && !class.Gated(): // it ran before the commit
		return Plan{Do: DoDone}
	case f.Phase == PhaseReleased:
		return released(p, claim, &f)
	case f.Found != nil: // what shows up is undone like all that ran
		return Plan{Do: DoAnswer, Why: WhyShowsUp, Answer: *f.Found, First: !f.Again}
	case MayHaveLeft(p, claim) && mayHaveRun(p): // what is not known cannot be undone: it is found out first
		plan := learn(&f.Call, class.Eager() && p.Tool.Undo)
		plan.First = true
		return plan
	case mayShowUp(p, &f): // nothing keeps its sink from taking it later than its time
		return Plan{Do: DoAsk, Why: WhyShowsUp, First: true}
	case f.Behind && compensable(p) && !f.Undo.Flying: // it would put back over what a later one may yet put back
		return behind(p, claim)
	}
	return undo(p, claim, &f)
}

// MayHaveLeft says that the call may have been made and its outcome is not known. The whole journal shows each call
// that ever began; who has only the log does not see a beginning.
func MayHaveLeft(p *Progress, claim Claim) bool {
	return p.Answer == nil && !p.GivenUp && (p.Started || !claim.whole())
}

// MayBeUndone says the same of the compensation.
func MayBeUndone(p *Progress, claim Claim) bool { return p.Undoing || !claim.whole() }

// MayFly says that a call of a former owner may be on its way: the owner alive has none but its own, a successor knows
// which ones are open, a stranger must reckon with all.
func MayFly(p *Progress, claim Claim) bool {
	switch {
	case claim == ClaimOwn || p.Tool.Class == sequencer.ClassRead:
		return false
	case claim != ClaimSuccessor:
		return true
	}
	return p.InFlight()
}

// released is the rule of a held call after the commit.
func released(p *Progress, claim Claim, f *Facts) Plan {
	maybe := MayHaveLeft(p, claim)
	switch {
	case p.Answer != nil && (p.Answer.Refused || p.Answer.Absent): // the sink says that nothing happened
		return ends(sequencer.ResultPartial, WhyRefused)
	case p.Answer != nil:
		return ends(sequencer.ResultClean, WhyReleased)
	case f.Behind && (maybe || p.GivenUp): // that it did not leave is said only if it is known
		return ends(sequencer.ResultUnresolved, WhyBehindMaybe)
	case f.Behind: // held calls leave in the order of their issue, or not at all
		return neverLeft(WhyBehind)
	case p.GivenUp:
		return ends(sequencer.ResultUnresolved, WhyUnknown)
	case f.Call.Unmade && maybe: // it can neither be looked up nor repeated here
		return Plan{Do: DoGiveUp, Why: WhyUnmade}
	case f.Call.Unmade:
		return neverLeft(WhyUnmade)
	}
	plan := f.Call.next(course{repeats: true})
	switch plan.Do {
	case doUnsent: // the next owner may try again until the transaction is final
		return neverLeft(WhyUnsent)
	case doUnknown:
		return Plan{Do: DoGiveUp, Why: WhyUnknown}
	}
	return plan
}

// learn finds out what became of an eager call, or makes it; repeats: it may be made, and made again under its key.
func learn(a *Attempt, repeats bool) Plan {
	if a.Unmade { // it can neither be looked up nor repeated here
		return Plan{Do: DoGiveUp, Why: WhyUnmade}
	}
	plan := a.next(course{eager: true, repeats: repeats})
	switch plan.Do {
	case doUnsent: // the agent is told that nothing happened, and may ask again
		return Plan{Do: DoAnswer, Why: WhyUnsent, Answer: Answer{Refused: true}}
	case doUnknown:
		return Plan{Do: DoGiveUp, Why: WhyUnknown}
	}
	return plan
}

// undo is the rule of an effect whose outcome is as known as it can be, and that is not wanted any more.
func undo(p *Progress, claim Claim, f *Facts) Plan {
	unsaid := p.UndoDone == nil && !p.UndoLost // of its compensation nothing is known to have come
	order := unsaid && f.Orders && p.Tool.Undo && p.Tool.Forbids && p.Key != ""
	unknown := p.GivenUp && p.Answer == nil
	switch {
	case order && (unknown || p.Answer != nil && p.Answer.Absent): // should it arrive after all, it does nothing
		return compensate(&f.Undo, DoForbid)
	case unknown: // whatever the sink says to an order: nobody knows what the call did before
		plan := ends(sequencer.ResultUnresolved, WhyUnknown)
		plan.Undo = p.Tool.Undo && p.UndoDone == nil || p.UndoLost // a person may still undo it
		return plan
	case p.Answer == nil && p.Tool.Class.Gated() && !p.Dropped: // the mark is the promise that it never leaves
		return Plan{Do: DoDrop}
	case p.Answer == nil: // it never began
		return Plan{Do: DoDone}
	case p.Answer.Absent && p.UndoLost && f.Call.Asks && !f.Again: // an order not obeyed keeps nothing out
		return Plan{Do: DoAsk, Why: WhyShowsUp}
	case p.Answer.Absent:
		return ends(sequencer.ResultClean, WhyAbsent)
	case p.Answer.Refused: // the sink did nothing and said so
		return Plan{Do: DoDone, Why: WhyRefused}
	case unsaid && !p.Tool.Undo && p.Tool.Class == sequencer.ClassKnownOutcome && f.Call.Asks && !f.Again:
		return Plan{Do: DoAsk, Why: WhyLapsed} // the sink may have let it lapse
	case unsaid && !p.Tool.Undo && f.Lapsed:
		return ends(sequencer.ResultClean, WhyLapsed)
	case unsaid && !p.Tool.Undo:
		return ends(sequencer.ResultLeaked, WhyNoUndo)
	case unsaid:
		return compensate(&f.Undo, DoCompensate)
	case !p.UndoLost:
		return ends(sequencer.ResultClean, WhyUndone)
	}
	plan := ends(sequencer.ResultLeaked, WhyNotUndone)
	plan.Undo = true
	switch {
	case p.UndoDone != nil:
		plan.Why = WhyUndoRefused
	case MayBeUndone(p, claim): // a try, here or of a former owner, may have done it
		plan.Result, plan.Why = sequencer.ResultUnresolved, WhyUndoUnknown
	}
	return plan
}

// behind is the end of an effect whose compensation may not be made.
func behind(p *Progress, claim Claim) Plan {
	plan := ends(sequencer.ResultUnresolved, WhyBehind)
	plan.Undo = true // it is not undone either, and it may be on further scopes
	switch {
	case MayBeUndone(p, claim): // a former owner may have undone it
		plan.Why = WhyBehindMaybe
	case p.Ran():
		plan.Result = sequencer.ResultLeaked
	}
	return plan
}

// compensate is the next step of a compensation, or of an order.
func compensate(a *Attempt, as Do) Plan {
	if a.Unmade { // its policy does not say how, or says it of another tool
		return Plan{Do: DoLose, Why: WhyUnmade, Undo: true}
	}
	plan := a.next(course{repeats: true, undo: true})
	switch plan.Do {
	case DoStart, DoRepeat:
		plan.Do = as
	case doUnsent:
		plan = Plan{Do: DoLose, Why: WhyUnsent}
	case doUnknown:
		plan = Plan{Do: DoLose, Why: WhyUnknown}
	}
	plan.Undo = true
	return plan
}

// Two ends of an attempt, which are marked by what it is of.
const (
	doUnsent  Do = 100 + iota // certainly nothing reached the sink
	doUnknown                 // and nothing is on its way any more
)

// course says how an attempt may go on.
type course struct {
	eager   bool // it is repeated within its time instead of by tries; what did not leave is not tried again
	repeats bool // it may be made; else only looked up
	undo    bool // it is a compensation
}

// next is the next step of an attempt at a call, or at a compensation.
func (a *Attempt) next(c course) Plan {
	answer := Plan{Do: DoAnswer, Why: WhyAnswered, Answer: a.Said, Last: a.Heard == HeardLast}
	switch {
	case a.Heard == HeardUnsent && !a.Maybe: // else an earlier try may have left, and its start stands
		return Plan{Do: DoTakeBack, Why: WhyUnsent}
	case a.Heard == HeardNothing || a.Heard == HeardUnsent:
	case !a.Said.Absent && a.settles(c): // this is the one place where an answer is weighed
		return answer
	case !a.Said.Absent: // a refusal that says nothing of an earlier try
	case c.eager && (a.Heard == HeardLast || a.Sure && a.Tries == 0): // absence is as good as an answer
		answer.Why = WhyAbsent
		return answer
	case a.Heard == HeardLast && a.No != nil: // one was refused, and no other try did anything either
		answer.Answer, answer.Why = *a.No, WhyRefused
		return answer
	case a.Heard == HeardLast:
		return Plan{Do: DoTakeBack, Why: WhyAbsent, Last: true}
	}
	switch {
	case a.Flying: // the next step depends on what comes of it
		return Plan{Do: DoWait, Why: WhyFlying}
	case a.Looked && a.Maybe:
		return Plan{Do: doUnknown}
	case a.Looked:
		return Plan{Do: doUnsent}
	case a.Maybe && a.Asks && !a.Asked: // a look-up cannot happen twice, so it comes before a repetition
		return Plan{Do: DoAsk, Why: WhyUnknown}
	case a.again(c) && a.Tries == 0:
		return Plan{Do: DoStart}
	case a.again(c):
		return Plan{Do: DoRepeat}
	case !a.Maybe:
		return Plan{Do: doUnsent}
	case !a.Landed: // an absence counts only when nothing can be on its way, and so does an end
		return Plan{Do: DoWait, Why: WhyFlying}
	case a.Asks:
		return Plan{Do: DoAsk, Why: WhyUnknown, Last: true}
	}
	return Plan{Do: doUnknown}
}

// settles says whether what the sink said settles the call. A refusal does so if nothing else may have reached the
// sink: it may come from what stands before the keys (credentials, limits, a standby), which knows nothing of an
// earlier try. What the sink's record says of the key is about all of them; not so of a compensation, whose arguments
// are made of an answer that a former owner may have known better, so they may differ under one key.
func (a *Attempt) settles(c course) bool {
	return !a.Said.Refused || !a.Maybe || a.Said.AboutKey && !c.undo
}

// again says whether one more try may be made.
func (a *Attempt) again(c course) bool {
	switch {
	case !c.repeats:
		return false
	case a.Maybe && !a.Kept: // it could happen a second time
		return false
	case !c.eager: // the tries of an attempt that a short lease has stopped count: else they would never be over
		return a.Tries == 0 || a.Made < max(a.Most, 1)
	case a.Tries == 0:
		return true
	case !a.Maybe: // nothing happened: the agent decides whether to ask again
		return false
	}
	// A call that took all of its time is repeated once nevertheless: its key makes that harmless, and not knowing costs
	// the whole transaction.
	return a.Tries == 1 || a.Tries < eagerTries && !a.Late
}

// mayHaveRun says that the effect was of a kind that could run before it was to be undone.
func mayHaveRun(p *Progress) bool {
	return p.Tool.Class.Eager() || p.Tool.Class.Gated() && (p.Committed || p.Started)
}

// mayShowUp says that a call was looked up and had not arrived, or was given up, and is to be looked for once more
// before it is settled: no order keeps its sink from taking it later than its maximum time says.
func mayShowUp(p *Progress, f *Facts) bool {
	unseen := p.GivenUp && p.Answer == nil || p.Answer != nil && p.Answer.Absent
	orders := f.Orders && p.Tool.Undo && p.Tool.Forbids && p.Key != ""
	unsaid := !p.Undoing && p.UndoDone == nil && !p.UndoLost
	return unseen && unsaid && mayHaveRun(p) && !orders && f.Call.Asks && !f.Sought
}

// compensable says that a compensation of the effect is still to be made.
func compensable(p *Progress) bool {
	return p.Tool.Undo && p.UndoDone == nil && !p.UndoLost && (p.Ran() || p.GivenUp && p.Tool.Forbids)
}

func ends(r sequencer.Result, why Why) Plan {
	return Plan{Do: DoDone, Why: why, Listed: true, Result: r}
}

func neverLeft(why Why) Plan {
	return Plan{Do: DoNeverLeft, Why: why, Listed: true, Result: sequencer.ResultPartial}
}

// byHand is the rule of a residue that a person has tried again.
func byHand(p *Progress, h *Hand) Plan {
	there := p.Ran() || h.Result == sequencer.ResultLeaked // the log may lack the answer that its settlement knew
	forbids := p.Key != "" && p.Tool.Forbids
	back := h.ToUndo(p)
	refuse := func(why Why) Plan { return Plan{Do: DoRefuse, Why: why, Undo: back} }
	switch {
	case back && p.Tool.Class.Gated() && h.Result == sequencer.ResultPartial: // nothing is there, and nothing shall be
		return refuse(WhyRetracted)
	case back && !p.Tool.Undo && h.Result == sequencer.ResultUnresolved:
		return refuse(WhyUnknown)
	case back && !p.Tool.Undo:
		return refuse(WhyNoUndo)
	case back && h.Undone != nil: // the list is written again, and nothing is called
		return Plan{Do: DoDone, Why: WhyMade, Undo: true, Answer: *h.Undone}
	case !back && p.Ran():
		return Plan{Do: DoDone, Why: WhyMade, Answer: *p.Answer}
	case back && !there && !forbids && !h.Force:
		return refuse(WhyMayNotBeThere)
	case !h.Keyed && !h.Force:
		return refuse(WhyUnkeyed)
	case h.Keyed && !h.Kept && !h.Force:
		return refuse(WhyKeyForgotten)
	}
	return Plan{Do: DoByHand, Undo: back, Only: back && !there && forbids}
}

// ToUndo says that what is left of a settled call is to undo it: it ran before the commit, was retracted, or is known
// to have happened although it should not have.
func (h *Hand) ToUndo(p *Progress) bool {
	return p.Tool.Class.Eager() || p.Tool.Class.Gated() && p.Dropped || h.Result == sequencer.ResultLeaked ||
		p.UndoLost || p.UndoDone != nil || h.Back
}
