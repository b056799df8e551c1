package replays

import (
	"fmt"
	"slices"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sequencer/replay"
)

// View is a result as it is printed.
type View struct {
	Workspace string        `json:"workspace"`
	Records   int           `json:"records"`
	Decisions sequencer.Seq `json:"decisions"`
	Checked   int           `json:"checked"` // decisions whose chain hash is the published one
	Chain     string        `json:"chain"`   // hex, of the last decision as recorded
	Changed   []string      `json:"changed"` // the rules that are others
	Recorded  Totals        `json:"recorded"`
	Replayed  Totals        `json:"replayed"`

	Transactions int          `json:"transactions_differing"`
	Direct       int          `json:"direct"`
	Follow       int          `json:"follow"`
	Differences  []Difference `json:"differences"`
	LeftOut      int          `json:"left_out"`
	Supposed     []Supposed   `json:"supposed"`
	Unknown      []Unknown    `json:"unknown"`
	UnknownOut   int          `json:"unknown_left_out"`
	Agents       []string     `json:"agents_may_differ"`

	result *replay.Result
}

// Totals are what the transactions of a run came to.
type Totals struct {
	Committed int            `json:"committed"`
	Aborted   int            `json:"aborted"`
	Undecided int            `json:"undecided"`
	Waited    int            `json:"waited"`
	Refused   int            `json:"refused"`
	Codes     map[string]int `json:"codes"`
	Would     map[string]int `json:"would"`
}

// Difference is one way in which a transaction fared otherwise.
type Difference struct {
	Number   int            `json:"number"` // 1-based, in the order of the log
	Tx       sequencer.TxID `json:"tx"`
	Agent    string         `json:"agent"`
	What     string         `json:"what"`
	Offset   int64          `json:"offset"` // of the record in hence.intents at which it shows
	Recorded Fate           `json:"recorded"`
	Replayed Fate           `json:"replayed"`
	Cause    Cause          `json:"cause"`
	Sentence string         `json:"sentence"`
}

// Fate is what became of the transaction in one run.
type Fate struct {
	Kind      string           `json:"kind"`
	Code      sequencer.Code   `json:"code,omitempty"`
	Would     sequencer.Code   `json:"would,omitempty"`
	Scope     sequencer.Scope  `json:"scope,omitempty"`
	By        sequencer.TxID   `json:"by,omitempty"`
	BlockedBy []sequencer.TxID `json:"blocked_by,omitempty"`
	Seq       sequencer.Seq    `json:"seq,omitempty"`
}

// Cause is what a difference follows from.
type Cause struct {
	Why   string         `json:"why"`
	Tx    sequencer.TxID `json:"tx,omitempty"`
	Of    int            `json:"of,omitempty"` // the difference's number
	First int            `json:"first"`        // the number of the one at the beginning
}

// Supposed is what the second run supposes, because the log does not have it.
type Supposed struct {
	What  string `json:"what"`
	Times int    `json:"times"`
}

// Unknown is what the log does not say of a transaction.
type Unknown struct {
	Tx   sequencer.TxID `json:"tx"`
	What []string       `json:"what"`
}

// Of makes the view of a result, with so many differences at most; zero: all.
func Of(log *replay.Log, res *replay.Result, changed []string, limit int) *View {
	v := &View{Workspace: res.Workspace, Records: res.Records, Decisions: res.Seqs, Checked: len(log.Decided),
		Chain: fmt.Sprintf("%x", res.Chain), Changed: changed, Recorded: totals(&res.Then), Replayed: totals(&res.Now),
		Direct: res.Direct, Follow: len(res.Differences) - res.Direct, Differences: []Difference{},
		Supposed: []Supposed{}, Unknown: []Unknown{}, Agents: append([]string{}, res.Agents...), result: res}
	seen := map[sequencer.TxID]bool{}
	for i := range res.Differences {
		d := &res.Differences[i]
		if !seen[d.Tx] {
			seen[d.Tx] = true
			v.Transactions++
		}
		if limit > 0 && i >= limit {
			v.LeftOut++
			continue
		}
		v.Differences = append(v.Differences, difference(i, d))
	}
	for what, times := range res.Supposed {
		v.Supposed = append(v.Supposed, Supposed{what, times})
	}
	slices.SortFunc(v.Supposed, func(a, b Supposed) int { return compare(a.What, b.What) })
	for i, u := range res.Unknown {
		if limit > 0 && i >= limit {
			v.UnknownOut++
			continue
		}
		v.Unknown = append(v.Unknown, Unknown{u.Tx, u.What})
	}
	return v
}

func compare(a, b string) int {
	if a < b {
		return -1
	}
	return 1
}

func totals(t *replay.Totals) Totals {
	out := Totals{Committed: t.Committed, Aborted: t.Aborted, Undecided: t.Undecided, Waited: t.Waited,
		Refused: t.Refused, Codes: map[string]int{}, Would: map[string]int{}}
	for code, n := range t.Codes {
		out.Codes[string(code)] = n
	}
	for code, n := range t.Would {
		out.Would[string(code)] = n
	}
	return out
}

func difference(i int, d *replay.Difference) Difference {
	out := Difference{Number: i + 1, Tx: d.Tx, Agent: d.Agent, What: d.What, Offset: d.Offset, Recorded: fate(&d.Then),
		Replayed: fate(&d.Now), Cause: Cause{Why: d.Cause.Why, Tx: d.Cause.Tx, Of: d.Cause.Of + 1, First: d.Cause.First + 1}}
	out.Sentence = fmt.Sprintf("%s of %s: %s; %s", d.Tx, d.Agent, fates(d), because(d))
	return out
}

func fate(f *replay.Fate) Fate {
	return Fate{Kind: f.Kind, Code: f.Code, Would: f.Would, Scope: f.Scope, By: f.By, BlockedBy: f.Behind, Seq: f.Seq}
}
