package sim

import "slices"

// hit is a kind of fault: a run counts how many of each have landed.
type hit string

// The kinds of faults of real agents, beside the strikes.
const (
	hitAppendLost    hit = "append_lost"       // it never reached the log
	hitAppendUnknown hit = "append_unknown"    // it reached the log and was reported as lost
	hitAppendLate    hit = "append_late"       // reported as lost, and there later, or never
	hitAppendTwice   hit = "append_twice"      // the same record once more, later
	hitEventsLost    hit = "events_lost"       // a record of hence.events
	hitEventsUnknown hit = "events_unknown"    // it is there and was reported as lost
	hitFollowBroken  hit = "delivery_broken"   // following the decisions ended
	hitDeliverTwice  hit = "delivery_twice"    // a decision came twice
	hitAskLost       hit = "question_lost"     // to brokers or processors
	hitSnapshotOld   hit = "snapshot_old"      // it is complete only up to a while ago
	hitClientLeaves  hit = "client_leaves"     // while its request is under way
	hitAnswerLost    hit = "answer_lost"       // to an agent
	hitDiskFails     hit = "disk_fails"        // an operation of a journal's file
	hitDiskFull      hit = "disk_full"         // for a while
	hitKilled        hit = "process_killed"    // and started again
	hitKilledAtYes   hit = "killed_at_yes"     // right after an approval let its transaction commit
	hitPowerLost     hit = "power_lost"        // what was not synced is lost
	hitStopped       hit = "process_stopped"   // in order
	hitFolderLost    hit = "folder_lost"       // its journal is gone
	hitMoved         hit = "agent_moved"       // with its folder
	hitCopied        hit = "folder_copied"     // it starts on an old copy
	hitTwin          hit = "started_elsewhere" // beside the one that goes on
	hitCutOff        hit = "cut_off"           // from the brokers, for a while
	hitSlept         hit = "machine_slept"     // for a while
	hitGone          hit = "gone_for_good"     // the agent
	hitCallLost      hit = "call_lost"         // it never landed
	hitCallMute      hit = "call_mute"         // it landed, and was not answered
	hitCallDown      hit = "sink_down"         // no connection
	hitCallNo        hit = "sink_refuses"      // the call
	hitCallTwice     hit = "call_twice"        // the same request reached a keyed sink once more
	hitKeeperCrash   hit = "processor_crash"   // between two steps
	hitKeeperPaused  hit = "processor_pauses"  // and goes on as a zombie
	hitNATSLost      hit = "nats_lost"         // a decision; it comes from the decision topic
	hitHookMute      hit = "hook_mute"         // it gives no answer
	hitHookNo        hit = "hook_no"           // it says no, or nonsense
	hitPoison        hit = "record_unreadable"
	hitTickLost      hit = "tick_lost"
	hitTickLate      hit = "tick_late"
	hitLookMute      hit = "look_up_mute" // a look-up that was not answered
)

// allHits lists every kind of fault by name.
func allHits() []hit {
	all := []hit{hitAppendLost, hitAppendUnknown, hitAppendLate, hitAppendTwice, hitEventsLost, hitEventsUnknown,
		hitFollowBroken, hitDeliverTwice, hitAskLost, hitSnapshotOld, hitClientLeaves,
		hitAnswerLost, hitDiskFails, hitDiskFull, hitKilled, hitKilledAtYes, hitPowerLost, hitStopped, hitFolderLost,
		hitMoved, hitCopied, hitTwin, hitCutOff, hitSlept, hitGone, hitCallLost, hitCallMute, hitCallDown, hitCallNo,
		hitCallTwice, hitLookMute, hitKeeperCrash, hitKeeperPaused, hitNATSLost, hitTickLost, hitTickLate,
		hitHookMute, hitHookNo, hitPoison}
	for how := Fails; how <= lastHow; how++ {
		all = append(all, hitStrike(how))
	}
	slices.Sort(all)
	return all
}

func hitStrike(how How) hit { return "strike_" + hit(how.String()) }

// hit counts a fault that has landed.
func (r *run) hit(h hit) {
	r.report.Faults++
	r.report.Hits[h]++
}
