package sim

import (
	"slices"

	"github.com/hence-dev/hence/sequencer"
)

// Probe names a rare branch that a batch must have reached: a simulator that never gets there proves nothing about it.
type Probe string

// The probes beyond the reasons of aborts and refusals.
const (
	ProbeWaitGranted    Probe = "touch_waited_granted"
	ProbeWaitCommitted  Probe = "seal_waited_committed"
	ProbeWoundedKept    Probe = "wounded_kept_epoch"
	ProbeOrphanAdopted  Probe = "orphan_adopted"
	ProbeOrphanJoined   Probe = "orphan_taken_by_join"
	ProbeReplay         Probe = "replay_from_state"
	ProbeReplayed       Probe = "record_replayed"
	ProbeZombie         Probe = "zombie_double_publish"
	ProbeOutbox         Probe = "outbox_republished"
	ProbeCatchUp        Probe = "gap_caught_up"
	ProbeReordered      Probe = "delivery_reordered"
	ProbeResidue        Probe = "residue"
	ProbeStoodOnResidue Probe = "stood_on_residue"
	ProbeForgotten      Probe = "duplicate_of_forgotten"
	ProbeLateCall       Probe = "call_landed_late"
	ProbeDirtySeen      Probe = "dirty_value_read"
	ProbeZombieIntent   Probe = "zombie_intent_refused"
	ProbeUnkeyedStop    Probe = "unkeyed_release_not_repeated"
	ProbeRules          Probe = "rules_changed"
	ProbeObserved       Probe = "would_reported"
	ProbePoison         Probe = "poison_skipped"
	ProbeDeadAgent      Probe = "agent_stays_dead"
	ProbeFolded         Probe = "whole_transaction_in_one_record"
	ProbeDuplicate      Probe = "duplicate_repeated"

	ProbeReleasedOwn       Probe = "released_by_its_issuer"
	ProbeReleasedSuccessor Probe = "released_by_successor"
	ProbeReleasedStranger  Probe = "released_by_stranger"
	ProbeUndoneStranger    Probe = "compensated_by_stranger"
	ProbeCompensated       Probe = "compensated"
	ProbeUnresolved        Probe = "unresolved"
	ProbeNotSent           Probe = "not_sent"
	ProbeLeaked            Probe = "leaked"
	ProbeStopped           Probe = "settlement_stopped"
	ProbeSinkDown          Probe = "sink_down"
	ProbeLateAnswer        Probe = "answered_too_late"
	ProbeZombieCall        Probe = "zombie_call"
	ProbeTwin              Probe = "started_elsewhere"
	ProbeRetracted         Probe = "retracted"
	ProbeRetractQueued     Probe = "retraction_queued"
	ProbeConeOfSeveral     Probe = "cone_of_several"
	ProbeTurn              Probe = "retraction_turn"
	ProbeTurnUnclean       Probe = "retraction_turn_unclean"
	ProbeRestored          Probe = "shard_restored"
	ProbeContentLost       Probe = "shard_content_lost"
	ProbeTurnBlocked       Probe = "retraction_turn_blocked"
	ProbeEnforced          Probe = "enforced_after_observing"
	ProbeEnforcedHeld      Probe = "enforced_while_observed_hold"
	ProbeSharedResidue     Probe = "shared_while_observing"
	ProbeLooseTaken        Probe = "observed_commit_retracted"
	ProbeConfirmed         Probe = "lease_confirmed"
	ProbeTold              Probe = "refusal_told_by_sidecar"

	ProbeMerged Probe = "merged" // of real agents only
	ProbeKeyed  Probe = "keyed_commit"
	ProbeByHand Probe = "tried_by_hand"
)

// ProbeAborted and ProbeRefused are the probes of one reason.
func ProbeAborted(code sequencer.Code) Probe { return "aborted_" + Probe(code) }

// ProbeRefused is the probe of an intent refused for one reason.
func ProbeRefused(code sequencer.Code) Probe { return "refused_" + Probe(code) }

// AllProbes lists every probe by name.
func AllProbes() []Probe {
	out := []Probe{ProbeWaitGranted, ProbeWaitCommitted, ProbeWoundedKept, ProbeOrphanAdopted, ProbeOrphanJoined,
		ProbeReplay, ProbeReplayed, ProbeZombie, ProbeOutbox, ProbeCatchUp, ProbeReordered, ProbeResidue,
		ProbeStoodOnResidue,
		ProbeForgotten, ProbeLateCall, ProbeDirtySeen, ProbeZombieIntent, ProbeUnkeyedStop, ProbeRules, ProbeObserved,
		ProbePoison, ProbeDeadAgent, ProbeFolded, ProbeDuplicate,
		ProbeReleasedOwn, ProbeReleasedSuccessor, ProbeReleasedStranger, ProbeUndoneStranger, ProbeCompensated,
		ProbeUnresolved, ProbeNotSent, ProbeLeaked, ProbeStopped, ProbeSinkDown, ProbeLateAnswer, ProbeZombieCall,
		ProbeTwin, ProbeRetracted, ProbeRetractQueued, ProbeConeOfSeveral, ProbeTurn, ProbeTurnUnclean, ProbeRestored,
		ProbeContentLost, ProbeTurnBlocked, ProbeEnforced, ProbeEnforcedHeld, ProbeSharedResidue, ProbeLooseTaken,
		ProbeConfirmed, ProbeTold}
	for _, code := range []sequencer.Code{sequencer.CodeStaleRead, sequencer.CodeVersionMismatch, sequencer.CodeConflict,
		sequencer.CodeWounded, sequencer.CodeCascade, sequencer.CodePhantomTool, sequencer.CodeLostBranch,
		sequencer.CodeVetoed, sequencer.CodeDeadline, sequencer.CodeIncompleteFootprint, sequencer.CodeLeaseExpired,
		sequencer.CodeTooOld, sequencer.CodeToolFailed, sequencer.CodeAbortedByAgent,
		sequencer.CodeRulesChanged, sequencer.CodeHookUnavailable} {
		out = append(out, ProbeAborted(code))
	}
	for _, code := range []sequencer.Code{sequencer.CodeOwnTransaction, sequencer.CodeSibling, sequencer.CodeLimit,
		sequencer.CodeLateEffect, sequencer.CodeTouchBound, sequencer.CodeTouchWaiting, sequencer.CodeNotOrphan,
		sequencer.CodeNotDecided, sequencer.CodeNotSealed, sequencer.CodeNotCommitted,
		sequencer.CodeWrongFootprint, sequencer.CodeUnknownIntent, sequencer.CodeWrongScopes,
		sequencer.CodeNotWhileObserving,
		sequencer.CodeLeaseExpired, sequencer.CodeTooOld} {
		out = append(out, ProbeRefused(code))
	}
	slices.Sort(out)
	return out
}

// realProbes are those that schedules of real agents reach.
func realProbes() []Probe {
	return slices.DeleteFunc(append(AllProbes(), ProbeMerged, ProbeKeyed, ProbeByHand), func(p Probe) bool {
		return slices.Contains(modelProbes(), p)
	})
}

// seldom are probes of real agents that a run of some thousand schedules may miss.
func seldom() []Probe {
	return []Probe{ProbeMerged, ProbeByHand, ProbeRefused(sequencer.CodeLateEffect), ProbeRefused(sequencer.CodeTooOld),
		ProbeRefused(sequencer.CodeWrongScopes)}
}

// modelProbes are those that only Run reaches or counts: what an honest agent never asks for, and what is among the
// faults of real agents.
func modelProbes() []Probe {
	return []Probe{ProbeReordered, ProbeLateAnswer, ProbeLateCall, ProbeDirtySeen, ProbeSinkDown, ProbeDeadAgent,
		ProbeTwin, ProbeStopped, ProbeUnkeyedStop, ProbeContentLost, ProbeLooseTaken, ProbeForgotten,
		ProbeRefused(sequencer.CodeUnknownIntent), ProbeRefused(sequencer.CodeNotSealed),
		ProbeRefused(sequencer.CodeTouchWaiting),
		ProbeRefused(sequencer.CodeNotCommitted), ProbeRefused(sequencer.CodeNotDecided)}
}
