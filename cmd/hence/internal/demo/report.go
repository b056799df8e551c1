package demo

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Quantiles are milliseconds.
type Quantiles struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// Median is milliseconds.
type Median struct {
	P50 float64 `json:"p50"`
}

// Report is the result of a run.
type Report struct {
	Data      string `json:"data"`
	Workspace string `json:"workspace"`
	Seed      uint64 `json:"seed"`
	Agents    int    `json:"agents"`
	Order     string `json:"order"`
	Mode      string `json:"mode"` // enforce or observe

	Transactions int            `json:"transactions"` // tasks; each is tried until it is committed or given up
	Committed    int            `json:"committed"`
	Refused      map[string]int `json:"refused"`     // attempts that were aborted, by code
	Would        map[string]int `json:"would"`       // observe: what enforce would have decided of commits
	Retries      int            `json:"retries"`     // further attempts
	Interrupted  int            `json:"interrupted"` // attempts that lost their sidecar before the seal
	GaveUp       int            `json:"gave_up"`
	DurationMs   float64        `json:"duration_ms"` // of the agents' work

	SealToDecisionMs Quantiles `json:"seal_to_decision_ms"`
	AppendMs         Median    `json:"append_ms"` // of one acknowledged append in the same run

	LostUpdates         int    `json:"lost_updates"`
	AcknowledgedMissing int    `json:"acknowledged_missing"`
	ReplayEqual         bool   `json:"replay_equal"`
	Hash                string `json:"hash"` // SHA-256 of the final shards in order of their names

	Effects        int            `json:"effects"`         // what the tools' sinks did in the run
	Leaks          int            `json:"leaks"`           // left although their transaction was not committed
	Duplicates     int            `json:"duplicates"`      // arrived more than once
	EffectsMissing int            `json:"effects_missing"` // committed, never arrived, and no residue says so
	NotUndone      int            `json:"not_undone"`      // stand although refused, and no residue says so
	Residue        map[string]int `json:"residue"`         // what could not be made clean, by class
	Faults         map[string]int `json:"faults"`          // injected at the sinks, by kind
	Planned        Planned        `json:"planned"`
	Findings       []Finding      `json:"findings,omitempty"`

	Lost    []LostUpdate `json:"lost,omitempty"`    // the first ones
	Missing []Missing    `json:"missing,omitempty"` // the first ones
	Differs []string     `json:"differs,omitempty"` // the first shards in which replay and store differ
}

const shownFindings = 20

// Holds says whether the check holds. Of the store an observing run only counts what enforcing would have kept.
func (r *Report) Holds() bool {
	state := r.Mode == modeObserve || r.LostUpdates == 0 && r.AcknowledgedMissing == 0 && r.ReplayEqual
	return state && r.Leaks == 0 && r.Duplicates == 0 && r.EffectsMissing == 0 && r.NotUndone == 0 &&
		r.Planned.Against == 0
}

// The modes of a run as reports name them.
const (
	modeEnforce = "enforce"
	modeObserve = "observe"
)

func (r *run) report(v *verdict, duration time.Duration) *Report {
	rep := &Report{
		Data: r.name, Workspace: r.workspace, Seed: r.cfg.Seed, Agents: r.cfg.Agents, Order: r.cfg.Order,
		Mode: modeEnforce, Transactions: len(r.tasks), Refused: map[string]int{}, Would: map[string]int{},
		GaveUp: int(r.progress.gaveUp.Load()), DurationMs: ms(duration),
		AppendMs:    Median{ms(quantile(r.appends, 0.5))},
		LostUpdates: len(v.lost), AcknowledgedMissing: len(v.missing), ReplayEqual: len(v.differs) == 0, Hash: v.hash,
		Lost: first(v.lost), Missing: first(v.missing), Differs: first(v.differs),
	}
	if r.cfg.Observe {
		rep.Mode = modeObserve
	}
	rep.addEffects(v.effects)
	tried := map[int]bool{}
	var waits []time.Duration
	for _, a := range r.records.all() {
		if a.Task < 0 {
			continue
		}
		rep.count(a)
		tried[a.Task] = true
		if a.WaitNS > 0 {
			waits = append(waits, a.WaitNS)
		}
	}
	if r.cfg.Watch {
		rep.Transactions = len(tried)
	}
	rep.SealToDecisionMs = Quantiles{ms(quantile(waits, 0.5)), ms(quantile(waits, 0.99))}
	return rep
}

func (r *Report) addEffects(f *effectsFound) {
	r.Effects = f.arrived
	r.Leaks, r.Duplicates = len(f.leaks), len(f.duplicates)
	r.EffectsMissing, r.NotUndone = len(f.absent), len(f.standing)
	r.Residue, r.Faults = f.residue, f.injected
	r.Findings = first(sortFindings(slices.Concat(f.leaks, f.duplicates, f.absent, f.standing, f.againstPlan)))
	r.Planned.Against = len(f.againstPlan)
}

func (r *Report) count(a *Attempt) {
	if a.N > 1 {
		r.Retries++
	}
	if len(a.Planned) > 0 {
		r.Planned.count(a.Planned)
	}
	if a.Would != "" {
		r.Would[a.Would]++
	}
	switch a.End {
	case EndCommitted:
		r.Committed++
	case EndAborted:
		r.Refused[a.Code]++
	case EndInterrupted:
		r.Interrupted++
	}
}

func first[T any](all []T) []T { return all[:min(len(all), shownFindings)] }

// WriteTable prints the report for people.
func (r *Report) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(t, name+"\t"+format+"\n", args...) }
	row("data", "%s, seed %d", r.Data, r.Seed)
	row("workspace", "%s", r.Workspace)
	row("agents", "%d, %s, %s", r.Agents, r.Order, r.Mode)
	row("transactions", "%d in %.0f ms", r.Transactions, r.DurationMs)
	row("commits", "%d", r.Committed)
	row("refusals", "%s", ByCode(r.Refused))
	if r.Mode == modeObserve {
		row("would be refused", "%s", ByCode(r.Would))
	}
	row("retries", "%d", r.Retries)
	if r.Interrupted > 0 {
		row("interrupted", "%d", r.Interrupted)
	}
	row("gave up", "%d", r.GaveUp)
	row("seal to decision", "p50 %.2f ms, p99 %.2f ms; one acknowledged append: p50 %.2f ms",
		r.SealToDecisionMs.P50, r.SealToDecisionMs.P99, r.AppendMs.P50)
	row("lost updates", "%d", r.LostUpdates)
	row("acknowledged, missing", "%d", r.AcknowledgedMissing)
	row("replay", "%s", r.replayLine())
	row("hash of the store", "%s", r.Hash)
	row("effects", "%d at the sinks; %s faults injected", r.Effects, ByCode(r.Faults))
	row("leaks", "%d", r.Leaks)
	row("duplicates", "%d", r.Duplicates)
	row("missing, not undone", "%d, %d", r.EffectsMissing, r.NotUndone)
	if r.Planned.Turns > 0 {
		row("planned turns", "%s", r.Planned)
	}
	row("residue", "%s", ByCode(r.Residue))
	if err := t.Flush(); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	_, err := fmt.Fprintln(w, "\n"+r.conclusion())
	return err
}

func (r *Report) replayLine() string {
	if r.ReplayEqual {
		return "equal: the committed tasks alone, in commit order, leave these bytes"
	}
	return "differs in " + strings.Join(r.Differs, ", ")
}

func (r *Report) conclusion() string {
	switch {
	case r.Mode == modeObserve:
		return fmt.Sprintf("Observed only: nothing was refused for being stale, and %d updates were lost.", r.LostUpdates)
	case r.Holds():
		return "The check holds."
	}
	return "THE CHECK DOES NOT HOLD."
}

// ByCode gives a count and what it is made of, most frequent first.
func ByCode(counts map[string]int) string {
	sum := 0
	var parts []string
	codes := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		if counts[a] != counts[b] {
			return counts[b] - counts[a]
		}
		return strings.Compare(a, b)
	})
	for _, code := range codes {
		sum += counts[code]
		parts = append(parts, fmt.Sprintf("%s %d", code, counts[code]))
	}
	if sum == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (%s)", sum, strings.Join(parts, ", "))
}
