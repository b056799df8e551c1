package topology

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/hence-dev/hence/sequencer"
)

type rules struct {
	Version        uint32         `json:"version"`
	Logic          uint32         `json:"logic"`
	Observe        bool           `json:"observe,omitempty"`
	Levels         levelSet       `json:"levels,omitzero"`
	HorizonSeqs    sequencer.Seq  `json:"horizon_seqs"`
	CapSeqs        sequencer.Seq  `json:"cap_seqs"`
	LeaseTicks     sequencer.Tick `json:"lease_ticks"`
	DeadlineTicks  sequencer.Tick `json:"deadline_ticks"`
	BoundTicks     sequencer.Tick `json:"bound_ticks"`
	VerdictTicks   sequencer.Tick `json:"verdict_ticks"`
	MaxOpen        uint32         `json:"max_open"`
	MaxScopes      uint32         `json:"max_scopes"`
	MaxBytes       uint32         `json:"max_footprint_bytes"`
	MaxInline      uint32         `json:"max_inline_bytes"`
	MaxContent     uint32         `json:"max_content_bytes"`
	MaxInlineTotal uint32         `json:"max_inline_total_bytes"`
	MaxKept        uint32         `json:"max_kept_bytes"`
	MaxSidecars    uint32         `json:"max_sidecars,omitempty"`
	HorizonCommits uint32         `json:"horizon_commits,omitempty"`
	HorizonTicks   sequencer.Tick `json:"horizon_ticks,omitempty"`
	ApprovalTicks  sequencer.Tick `json:"approval_ticks,omitempty"`
}

func rulesOf(r *sequencer.Rules) *rules {
	if r == nil {
		return nil
	}
	return &rules{r.Version, r.Logic, r.Observe, levelSet(r.Levels), r.HorizonSeqs, r.CapSeqs, r.LeaseTicks,
		r.DeadlineTicks, r.BoundTicks, r.VerdictTicks, r.MaxOpen, r.MaxScopes, r.MaxBytes, r.MaxInline, r.MaxContent,
		r.MaxInlineTotal, r.MaxKept, r.MaxSidecars, r.HorizonCommits, r.HorizonTicks,
		r.ApprovalTicks}
}

func (r *rules) back() *sequencer.Rules {
	if r == nil {
		return nil
	}
	return &sequencer.Rules{Version: r.Version, Logic: r.Logic, Observe: r.Observe, Levels: sequencer.Levels(r.Levels),
		HorizonSeqs: r.HorizonSeqs, CapSeqs: r.CapSeqs, LeaseTicks: r.LeaseTicks, DeadlineTicks: r.DeadlineTicks,
		BoundTicks: r.BoundTicks, VerdictTicks: r.VerdictTicks, MaxOpen: r.MaxOpen, MaxScopes: r.MaxScopes,
		MaxBytes: r.MaxBytes, MaxInline: r.MaxInline, MaxContent: r.MaxContent, MaxInlineTotal: r.MaxInlineTotal,
		MaxKept: r.MaxKept, MaxSidecars: r.MaxSidecars, HorizonCommits: r.HorizonCommits, HorizonTicks: r.HorizonTicks,
		ApprovalTicks: r.ApprovalTicks}
}

// levelSet is a set of anomalies as the list of their names.
type levelSet sequencer.Levels

// MarshalJSON writes the names in the order of their bits.
func (l levelSet) MarshalJSON() ([]byte, error) {
	var names []string
	for i := range 8 {
		if bit := levelSet(1) << i; l&bit != 0 {
			names = append(names, levelName(sequencer.Levels(bit)))
		}
	}
	return json.Marshal(names)
}

// UnmarshalJSON reads the names in any order.
func (l *levelSet) UnmarshalJSON(b []byte) error {
	var names []string
	if err := json.Unmarshal(b, &names); err != nil {
		return fmt.Errorf("levels: %w", err)
	}
	*l = 0
	for _, name := range names {
		before := *l
		for i := range 8 {
			if bit := levelSet(1) << i; levelName(sequencer.Levels(bit)) == name {
				*l |= bit
			}
		}
		if *l == before {
			return fmt.Errorf("%q is not a level, or is given twice, in %s", name,
				strings.Join(names[:min(len(names), 16)], " "))
		}
	}
	return nil
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
