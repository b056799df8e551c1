package explore

import (
	"fmt"
)

// PlainRow is one rule of the fold and a world about records of the log that needs it. Run walks it.
type PlainRow struct {
	Name  string
	Hole  string // the patch of sequencer/holes that takes the rule out
	Run   func() Report
	Wrong string // a part of the violation without the rule
	Large bool   // with the rule it is a walk of more than ten thousand states: on demand only
}

// PlainRows lists the rows about the registry, caps and orphans.
func PlainRows() []PlainRow {
	registry := func(cfg registryConfig) func() Report {
		return func() Report { return newRegistry(cfg).run() }
	}
	var out []PlainRow
	for i, cfg := range registryConfigs(3, 0) {
		late := registryConfigs(2, 2)[i]
		name := fmt.Sprintf(", %d bytes, %d a catalogue", cfg.kept/4, cfg.bytes[1])
		add := func(row, hole string, cfg registryConfig, large bool) {
			out = append(out, PlainRow{row + name, hole, registry(cfg), "as of announcement", large})
		}
		add("15b pins", "15b", cfg, false)
		add("15b pins, late records", "15b", late, false)
		late.changes++
		if i == 2 { // either version of a catalogue fits, or none does: what is refused was not there before
			late.changes, late.late = late.changes+1, 1
			add("15b pins, no further server", "15b", late, true)
			continue
		}
		add("15 registry", "15", cfg, i > 0)
		add("15 registry, late records", "15", late, true)
	}
	orphans := func(cfg orphanConfig) func() Report {
		return func() Report { return newOrphans(cfg).run() }
	}
	caps := func(cfg capsConfig) func() Report {
		return func() Report { return newCaps(cfg).run() }
	}
	refusals := func(c claims) func() Report {
		return func() Report { return newClaims(c).run() }
	}
	merges := func(programs ...string) func() Report {
		return func() Report { return newMerge(mergeOf(programs...)).run() }
	}
	approvals := func(cfg approvalConfig) func() Report {
		return func() Report { return newApprovals(cfg).run() }
	}
	one := approvalConfig{effects: [approvalEffects]approvalNeed{needsYes}, people: 1, words: 1}
	two := approvalConfig{effects: [approvalEffects]approvalNeed{needsYes, needsYes}, people: 2, words: 2}
	return append(out,
		PlainRow{"27 approval", "27", approvals(one), "without a yes to its arguments", false},
		PlainRow{"27b denial", "27b", approvals(two), "has denied effect 0", false},
		PlainRow{"27c bound", "27c", approvals(one), "ends as deadline", false},
		PlainRow{"27d commit", "27d", approvals(one), "without a yes to its arguments", false},
		PlainRow{"24 delta", "24", merges("As", "As", "Rs"), "what stands is", false},
		PlainRow{"24b writer", "24b", merges("As", "As", "As"), "who reads now is refused", false},
		PlainRow{"24c claims", "24c", merges("As H", "As", "Ws"), "deltas of one kind", false},
		PlainRow{"25 reset", "25", merges("Ws", "Ws", "X"), "what stands is", false},
		PlainRow{"25b reset", "25b", merges("Ws", "X", "Rs At"), "has neither read from it", false},
		PlainRow{"21 claims", "21", refusals(claims{}), "which the log does not show", false},
		PlainRow{"21b since when", "21b", refusals(claims{held: true}), "it was granted to Y", false},
		PlainRow{"17 orphan", "17", orphans(orphanConfig{1, 2, 0}), "never ends", false},
		PlainRow{"17 two orphans", "17", orphans(orphanConfig{2, 2, 0}), "never ends", true},
		PlainRow{"17b adoption", "17b", orphans(orphanConfig{1, 1, 1}), "makes an outcome", false},
		PlainRow{"17b two adoptions", "17b", orphans(orphanConfig{2, 2, 1}), "makes an outcome", true},
		PlainRow{"18 caps", "18", caps(capsConfig{2, 3, 1, 1, 1}), "are live", false},
		PlainRow{"18 caps, more joins", "18", caps(capsConfig{2, 4, 1, 2, 1}), "are live", true})
}
