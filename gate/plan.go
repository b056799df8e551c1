package gate

import (
	"fmt"

	"github.com/hence-dev/hence/sequencer"
)

// Phase is what its transaction asks of an effect.
type Phase uint8

// The phases.
const (
	PhaseOpen     Phase = iota // undecided: what is eager runs
	PhaseReleased              // committed: what was held leaves
	PhaseUndone                // aborted, or its turn in a retraction has come: what ran is taken back
	PhaseResidue               // settled, and not clean: a person has it tried again
)

// Do is one thing that may be done next about an effect.
type Do uint8

// The steps. Each but DoWait, DoAsk and the two ends is announced or followed by a mark.
const (
	DoWait       Do = iota + 1 // something may be on its way: nothing begins before it has landed
	DoAsk                      // look the call up
	DoStart                    // make the call
	DoRepeat                   // make it again: under its key, or because no try has left
	DoAnswer                   // mark what the sink said: the call is answered, or its compensation
	DoTakeBack                 // mark that what was announced did not leave
	DoGiveUp                   // mark that the outcome of the call stays unknown
	DoCompensate               // make the compensation, or make it again
	DoForbid                   // the same as a mere order: the sink is to refuse the call from now on
	DoLose                     // mark that the compensation did not get through
	DoNeverLeft                // mark that the call has not left and is not tried any more: it ends partial
	DoDrop                     // mark that a held call never leaves
	DoByHand                   // a person may have it tried
	DoRefuse                   // a person may not: Why says what stands against it
	DoDone                     // nothing is left but to report
)

// String is the step's name.
func (d Do) String() string {
	names := [...]string{"", "wait", "ask", "start", "repeat", "answer", "take_back", "give_up", "compensate", "forbid",
		"lose", "never_left", "drop", "by_hand", "refuse", "done"}
	if int(d) >= len(names) {
		return fmt.Sprintf("do %d", uint8(d))
	}
	return names[d]
}

// Why is the clause that a plan comes from.
type Why uint8

// The reasons.
const (
	WhyNothing       Why = iota // there is nothing to do about such an effect in this phase
	WhyFormer                   // a call of a former owner may be under way
	WhyFlying                   // a call of this process may be under way
	WhyUnknown                  // no try is answered, and none may be made any more
	WhyShowsUp                  // a call that was absent or given up may have arrived since
	WhyLapsed                   // the sink has let the outcome lapse by itself
	WhyAnswered                 // the sink answered the newest try, or a look-up found the call
	WhyAbsent                   // a look-up shows that the call never arrived
	WhyRefused                  // the sink did nothing and said so
	WhyUnsent                   // no try has left
	WhyUnmade                   // the call cannot be made here: no adapter, or its tool was changed
	WhyBehind                   // an effect before it did not get through
	WhyBehindMaybe              // the same, and this one may have left before
	WhyReleased                 // it has left
	WhyUndone                   // it is taken back
	WhyNoUndo                   // it ran and nothing undoes it
	WhyUndoRefused              // the sink refused to undo it
	WhyUndoUnknown              // it is unknown whether it was undone
	WhyNotUndone                // no try to undo it has left
	WhyMade                     // a former try of a person was answered
	WhyRetracted                // it never left, and its transaction is retracted
	WhyMayNotBeThere            // a compensation would undo what is perhaps not there
	WhyUnkeyed                  // without a key a further try may happen a second time
	WhyKeyForgotten             // and so it may when the sink has forgotten the key
)

// Plan is what may be done next about one effect.
type Plan struct {
	Do     Do
	Why    Why
	First  bool   // it comes before any effect of the transaction is undone
	Undo   bool   // it is about the compensation
	Last   bool   // of DoAsk: nothing is on its way any more; of DoAnswer and DoTakeBack: that look-up said it
	Only   bool   // of DoByHand: the compensation is a mere order
	Answer Answer // of DoAnswer: what the sink said, and of DoDone WhyMade
	// Listed: the settlement names the effect, with Result.
	Listed bool
	Result sequencer.Result
}

// Over says that the effect is settled, or is once the plan's mark is written.
func (p Plan) Over() bool { return p.Do == DoDone || p.Do == DoNeverLeft || p.Do == DoRefuse }

// Stops says that the effects which come after this one, in the order in which its transaction is settled, are not
// touched: of a release all, of an undoing those on the same scopes. Held calls leave in order or not at all; and a
// compensation puts back what stood there, which is wrong before those that came later are undone.
func (p Plan) Stops(phase Phase) bool {
	switch {
	case phase == PhaseReleased:
		return p.Listed && p.Result != sequencer.ResultClean
	case phase != PhaseUndone:
		return false
	}
	return p.Undo && p.Result != sequencer.ResultClean
}

// Heard is what came of the newest step of an attempt.
type Heard uint8

// What can be heard.
const (
	HeardNothing Heard = iota
	HeardAnswer        // the newest try was answered: Said
	HeardUnsent        // it surely did not leave
	HeardLook          // a look-up was answered: Said
	HeardLast          // the last look-up was: Said
)

// Attempt is what a process knows of its own tries of one call beyond the marks.
type Attempt struct {
	Unmade bool    // the call cannot be made here
	Kept   bool    // the sink takes a key and surely still knows it when a repetition gets there
	Asks   bool    // the sink can be asked for the call
	Most   int     // tries that the policy allows of a release or compensation
	Made   int     // tries of this process, in whichever settlement
	Tries  int     // tries since the attempt began
	Late   bool    // the time in which an eager call is repeated is over
	Flying bool    // a try waits for its answer
	Maybe  bool    // a try, of anybody, may have reached the sink; it begins as MayHaveLeft or MayBeUndone say
	Landed bool    // no try can be on its way any more
	Asked  bool    // it was looked up since the newest try
	Looked bool    // it was looked up a last time
	Heard  Heard   // what was not weighed yet
	Said   Answer  // what the sink said
	Sure   bool    // of a look-up: it began when no try could be on its way
	No     *Answer // the newest refusal that was no answer to an earlier try
}

// Facts is what Next has to know beyond the marks. The zero value of a part is right where a phase does not ask it.
type Facts struct {
	Phase  Phase
	Behind bool    // an effect that Stops comes before it
	Call   Attempt // at the call, or its release
	Undo   Attempt // at the compensation
	// Orders: the compensation can be made as an order to refuse the call, without the call's answer (Tool.Forbids).
	Orders bool
	Sought bool    // the outcome of the call was asked for in this settlement, before any effect was undone
	Again  bool    // and once more when its own turn had come
	Found  *Answer // such a look-up found it
	Lapsed bool    // such a look-up says that a call which ran is not there any more
	Hand   Hand    // in PhaseResidue
}

// Hand is what a person asks for.
type Hand struct {
	Result sequencer.Result // what the list says
	// Back: it is the compensation that is left to do whatever else is known: its transaction was retracted.
	Back   bool
	Force  bool    // the person has looked at the sink
	Undone *Answer // a former try of the compensation was answered so
	Keyed  bool    // what is left to do has a key
	Kept   bool    // and its sink surely still knows it
}
