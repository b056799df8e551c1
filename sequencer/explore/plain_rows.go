package explore

import (
	"fmt"

	"github.com/hence-dev/hence/sequencer"
)

// PlainRow is one rule of the fold and a world about records of the log that needs it. Run walks it.
type PlainRow struct {
	Name   string
	Weaken sequencer.Weaken
	Run    func(sequencer.Weaken) Report
	Wrong  string // a part of the violation without the rule
	Large  bool   // with the rule it is a walk of more than ten thousand states: on demand only
}

// PlainRows lists the rows about the registry, caps and orphans.
func PlainRows() []PlainRow {
	registry := func(cfg registryConfig) func(sequencer.Weaken) Report {
		return func(w sequencer.Weaken) Report { return newRegistry(cfg, w).run() }
	}
	var out []PlainRow
	for i, cfg := range registryConfigs(3, 0) {
		late := registryConfigs(2, 2)[i]
		name := fmt.Sprintf(", %d bytes, %d a catalogue", cfg.kept/4, cfg.bytes[1])
		add := func(row string, w sequencer.Weaken, cfg registryConfig, large bool) {
			out = append(out, PlainRow{row + name, w, registry(cfg), "as of announcement", large})
		}
		add("15b pins", sequencer.WeakenPinsOnce, cfg, false)
		add("15b pins, late records", sequencer.WeakenPinsOnce, late, false)
		late.changes++
		if i == 2 { // either version of a catalogue fits, or none does: what is refused was not there before
			late.changes, late.late = late.changes+1, 1
			add("15b pins, no further server", sequencer.WeakenPinsOnce, late, true)
			continue
		}
		add("15 registry", sequencer.WeakenRegistryOpen, cfg, i > 0)
		add("15 registry, late records", sequencer.WeakenRegistryOpen, late, true)
	}
	orphans := func(cfg orphanConfig) func(sequencer.Weaken) Report {
		return func(w sequencer.Weaken) Report { return newOrphans(cfg, w).run() }
	}
	caps := func(cfg capsConfig) func(sequencer.Weaken) Report {
		return func(w sequencer.Weaken) Report { return newCaps(cfg, w).run() }
	}
	refusals := func(c claims) func(sequencer.Weaken) Report {
		return func(w sequencer.Weaken) Report { return newClaims(c, w).run() }
	}
	merges := func(programs ...string) func(sequencer.Weaken) Report {
		return func(w sequencer.Weaken) Report { return newMerge(mergeOf(programs...), w).run() }
	}
	approvals := func(cfg approvalConfig) func(sequencer.Weaken) Report {
		return func(w sequencer.Weaken) Report { return newApprovals(cfg, w).run() }
	}
	one := approvalConfig{effects: [approvalEffects]approvalNeed{needsYes}, people: 1, words: 1}
	two := approvalConfig{effects: [approvalEffects]approvalNeed{needsYes, needsYes}, people: 2, words: 2}
	return append(out,
		PlainRow{"27 approval", sequencer.WeakenApprovalArgs, approvals(one), "without a yes to its arguments", false},
		PlainRow{"27b denial", sequencer.WeakenLateDenial, approvals(two), "has denied effect 0", false},
		PlainRow{"27c bound", sequencer.WeakenApprovalDeadline, approvals(one), "ends as deadline", false},
		PlainRow{"27d commit", sequencer.WeakenUnapproved, approvals(one), "without a yes to its arguments", false},
		PlainRow{"24 delta", sequencer.WeakenDeltaFormer, merges("As", "As", "Rs"), "what stands is", false},
		PlainRow{"24b writer", sequencer.WeakenDeltaWriter, merges("As", "As", "As"), "who reads now is refused", false},
		PlainRow{"24c claims", sequencer.WeakenDeltaClaims, merges("As H", "As", "Ws"), "deltas of one kind", false},
		PlainRow{"25 reset", sequencer.WeakenTombRestore, merges("Ws", "Ws", "X"), "what stands is", false},
		PlainRow{"25b reset", sequencer.WeakenTombCone, merges("Ws", "X", "Rs At"), "has neither read from it", false},
		PlainRow{"21 claims", sequencer.WeakenClaims, refusals(claims{}), "which the log does not show", false},
		PlainRow{"21b since when", sequencer.WeakenGrantSeq, refusals(claims{held: true}), "it was granted to Y", false},
		PlainRow{"17 orphan", sequencer.WeakenOrphanUnnamed, orphans(orphanConfig{1, 2, 0}), "never ends", false},
		PlainRow{"17 two orphans", sequencer.WeakenOrphanUnnamed, orphans(orphanConfig{2, 2, 0}), "never ends", true},
		PlainRow{"17b adoption", sequencer.WeakenAdoptAnswer, orphans(orphanConfig{1, 1, 1}), "makes an outcome", false},
		PlainRow{"17b two adoptions", sequencer.WeakenAdoptAnswer, orphans(orphanConfig{2, 2, 1}), "makes an outcome", true},
		PlainRow{"18 caps", sequencer.WeakenNoCaps, caps(capsConfig{2, 3, 1, 1, 1}), "are live", false},
		PlainRow{"18 caps, more joins", sequencer.WeakenNoCaps, caps(capsConfig{2, 4, 1, 2, 1}), "are live", true})
}
