// Package failpoint names the places where a test may kill the process. A build without the tag failpoints holds only
// the names: Hit compiles to nothing.
package failpoint

import "slices"

// Point is one place in the code, between two things that a crash may separate.
type Point string

// The gate's places: around each mark and around each call. An eager call's own are named call, those
// of a held effect's release release, those of a compensation undo.
const (
	CallBeforeStart    Point = "call.before_start"    // nothing is marked
	CallBeforeCall     Point = "call.before_call"     // the start is marked, nothing left
	CallAfterCall      Point = "call.after_call"      // the sink answered, or not; nothing is marked
	CallAfterAnswer    Point = "call.after_answer"    // the answer is marked
	ReleaseBeforeStart Point = "release.before_start" // as above, for a release
	ReleaseBeforeCall  Point = "release.before_call"
	ReleaseAfterCall   Point = "release.after_call"
	ReleaseAfterAnswer Point = "release.after_answer"
	UndoBeforeStart    Point = "undo.before_start" // as above, for a compensation
	UndoBeforeCall     Point = "undo.before_call"
	UndoAfterCall      Point = "undo.after_call"
	UndoAfterAnswer    Point = "undo.after_answer"
	LookUpBefore       Point = "lookup.before"
	LookUpAfter        Point = "lookup.after"
	NotSentBefore      Point = "not_sent.before" // a call did not leave; its start still stands
	NotSentAfter       Point = "not_sent.after"
	GiveUpBefore       Point = "give_up.before"
	GiveUpAfter        Point = "give_up.after"
	UndoLostBefore     Point = "undo_lost.before"
	UndoLostAfter      Point = "undo_lost.after"
	DropBefore         Point = "drop.before"
	DropAfter          Point = "drop.after"
)

// The sidecar's places: around each write of its journal and each append to a log.
const (
	JournalBeforeWrite   Point = "journal.before_write"
	JournalAfterWrite    Point = "journal.after_write"
	JournalBeforeRewrite Point = "journal.before_rewrite"
	JournalAfterRewrite  Point = "journal.after_rewrite"
	AppendBefore         Point = "append.before" // an intent
	AppendAfter          Point = "append.after"
	EventBefore          Point = "event.before" // a record of the events topic
	EventAfter           Point = "event.after"
	SettleBefore         Point = "settle.before" // the settle intent is made, and not appended
	SettleAfter          Point = "settle.after"  // it is appended, and nothing is marked
	ResidueBefore        Point = "residue.before"
	ResidueAfter         Point = "residue.after"
)

// The places of a start, between what it has found and what it rests on that.
const (
	StartRead     Point = "start.read" // the journal is read
	AsideBefore   Point = "aside.before"
	AsideAfter    Point = "aside.after"    // a journal that cannot be used is moved aside
	JoinBefore    Point = "join.before"    // the log is about to be asked
	JoinAfter     Point = "join.after"     // it has answered
	StartResolved Point = "start.resolved" // how the former process's transactions ended is known
	SessionBefore Point = "session.before"
	SessionAfter  Point = "session.after" // the journal has the session
	StartOwed     Point = "start.owed"    // the log has said what is owed, nothing is noted
	StartHeard    Point = "start.heard"   // the journal has what the log says of a stranger's calls
)

// All lists every point: those of a start, then those of the work.
func All() []Point { return slices.Concat(Start(), Work()) }

// Start lists the points that only a start reaches, in the order in which they come up.
func Start() []Point {
	return []Point{StartRead, AsideBefore, AsideAfter, JoinBefore, JoinAfter, StartResolved, SessionBefore, SessionAfter,
		StartOwed, StartHeard}
}

// Work lists the other points, the gate's first, each in the order in which it comes up.
func Work() []Point {
	return slices.Concat([]Point{
		CallBeforeStart, CallBeforeCall, CallAfterCall, CallAfterAnswer,
		ReleaseBeforeStart, ReleaseBeforeCall, ReleaseAfterCall, ReleaseAfterAnswer,
		UndoBeforeStart, UndoBeforeCall, UndoAfterCall, UndoAfterAnswer,
		LookUpBefore, LookUpAfter, NotSentBefore, NotSentAfter, GiveUpBefore, GiveUpAfter,
		UndoLostBefore, UndoLostAfter, DropBefore, DropAfter,
	}, []Point{
		JournalBeforeWrite, JournalAfterWrite, JournalBeforeRewrite, JournalAfterRewrite,
		AppendBefore, AppendAfter, EventBefore, EventAfter,
		SettleBefore, SettleAfter, ResidueBefore, ResidueAfter,
	})
}
