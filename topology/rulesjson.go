package topology

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/hence-dev/hence/sequencer"
)

func (j *object) rules(r *sequencer.Rules) {
	j.member("rules")
	j.open('{')
	j.uint("version", uint64(r.Version))
	j.uint("logic", uint64(r.Logic))
	j.truth("observe", r.Observe)
	words(j, "levels", levelNames(r.Levels))
	j.uint("horizon_seqs", uint64(r.HorizonSeqs))
	j.uint("cap_seqs", uint64(r.CapSeqs))
	j.uint("lease_ticks", uint64(r.LeaseTicks))
	j.uint("deadline_ticks", uint64(r.DeadlineTicks))
	j.uint("bound_ticks", uint64(r.BoundTicks))
	j.uint("verdict_ticks", uint64(r.VerdictTicks))
	j.uint("max_open", uint64(r.MaxOpen))
	j.uint("max_scopes", uint64(r.MaxScopes))
	j.uint("max_footprint_bytes", uint64(r.MaxBytes))
	j.uint("max_inline_bytes", uint64(r.MaxInline))
	j.uint("max_content_bytes", uint64(r.MaxContent))
	j.uint("max_inline_total_bytes", uint64(r.MaxInlineTotal))
	j.uint("max_kept_bytes", uint64(r.MaxKept))
	j.close('}')
}

func readRules(r *jsonReader) (v sequencer.Rules) {
	r.object(func(name string) {
		switch name {
		case "version":
			v.Version = naturalOf[uint32](r)
		case "logic":
			v.Logic = naturalOf[uint32](r)
		case "observe":
			v.Observe = r.truth()
		case "levels":
			names := listOf(r, wordOf[string])
			levels, err := levelsFor(names)
			if err != nil {
				r.malformed("%v", err)
			}
			v.Levels = levels
		default:
			readRuleNumber(r, &v, name)
		}
	})
	return v
}

func readRuleNumber(r *jsonReader, v *sequencer.Rules, name string) {
	switch name {
	case "horizon_seqs":
		v.HorizonSeqs = naturalOf[sequencer.Seq](r)
	case "cap_seqs":
		v.CapSeqs = naturalOf[sequencer.Seq](r)
	case "lease_ticks":
		v.LeaseTicks = naturalOf[sequencer.Tick](r)
	case "deadline_ticks":
		v.DeadlineTicks = naturalOf[sequencer.Tick](r)
	case "bound_ticks":
		v.BoundTicks = naturalOf[sequencer.Tick](r)
	case "verdict_ticks":
		v.VerdictTicks = naturalOf[sequencer.Tick](r)
	case "max_open":
		v.MaxOpen = naturalOf[uint32](r)
	case "max_scopes":
		v.MaxScopes = naturalOf[uint32](r)
	case "max_footprint_bytes":
		v.MaxBytes = naturalOf[uint32](r)
	case "max_inline_bytes":
		v.MaxInline = naturalOf[uint32](r)
	case "max_content_bytes":
		v.MaxContent = naturalOf[uint32](r)
	case "max_inline_total_bytes":
		v.MaxInlineTotal = naturalOf[uint32](r)
	case "max_kept_bytes":
		v.MaxKept = naturalOf[uint32](r)
	default:
		r.skip()
	}
}

// levelName is the name of one anomaly; a bit that this version has no name for keeps its number.
func levelName(bit sequencer.Levels) string {
	switch bit {
	case sequencer.A1:
		return "A1"
	case sequencer.A2:
		return "A2"
	case sequencer.A3:
		return "A3"
	case sequencer.A6:
		return "A6"
	}
	return unknownName + ":" + strconv.Itoa(int(bit))
}

// levelNames are the anomalies in a set, in the order of their bits.
func levelNames(l sequencer.Levels) (names []string) {
	for i := range 8 {
		if bit := sequencer.Levels(1) << i; l&bit != 0 {
			names = append(names, levelName(bit))
		}
	}
	return names
}

func levelsFor(names []string) (sequencer.Levels, error) {
	var l sequencer.Levels
	for _, name := range names {
		before := l
		for i := range 8 {
			if bit := sequencer.Levels(1) << i; levelName(bit) == name {
				l |= bit
			}
		}
		if l == before {
			return 0, fmt.Errorf("%w: %q is no level, or is there twice, in %s", ErrMalformed, name,
				strings.Join(names[:min(len(names), 16)], " "))
		}
	}
	return l, nil
}
