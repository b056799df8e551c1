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

// rulesData is what rules writes, as encoding/json reads it.
type rulesData struct {
	Version        uint32   `json:"version"`
	Logic          uint32   `json:"logic"`
	Observe        bool     `json:"observe"`
	Levels         []string `json:"levels"`
	HorizonSeqs    uint64   `json:"horizon_seqs"`
	CapSeqs        uint64   `json:"cap_seqs"`
	LeaseTicks     uint64   `json:"lease_ticks"`
	DeadlineTicks  uint64   `json:"deadline_ticks"`
	BoundTicks     uint64   `json:"bound_ticks"`
	VerdictTicks   uint64   `json:"verdict_ticks"`
	MaxOpen        uint32   `json:"max_open"`
	MaxScopes      uint32   `json:"max_scopes"`
	MaxBytes       uint32   `json:"max_footprint_bytes"`
	MaxInline      uint32   `json:"max_inline_bytes"`
	MaxContent     uint32   `json:"max_content_bytes"`
	MaxInlineTotal uint32   `json:"max_inline_total_bytes"`
	MaxKept        uint32   `json:"max_kept_bytes"`
}

func (r *rulesData) rules() (*sequencer.Rules, error) {
	levels, err := levelsFor(r.Levels)
	if err != nil {
		return nil, err
	}
	return &sequencer.Rules{
		Version: r.Version, Logic: r.Logic, Observe: r.Observe, Levels: levels,
		HorizonSeqs: sequencer.Seq(r.HorizonSeqs), CapSeqs: sequencer.Seq(r.CapSeqs),
		LeaseTicks: sequencer.Tick(r.LeaseTicks), DeadlineTicks: sequencer.Tick(r.DeadlineTicks),
		BoundTicks: sequencer.Tick(r.BoundTicks), VerdictTicks: sequencer.Tick(r.VerdictTicks),
		MaxOpen: r.MaxOpen, MaxScopes: r.MaxScopes, MaxBytes: r.MaxBytes, MaxInline: r.MaxInline,
		MaxContent: r.MaxContent, MaxInlineTotal: r.MaxInlineTotal, MaxKept: r.MaxKept,
	}, nil
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
