package topology_test

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// hoard is a workspace that is made to keep as much as it lets itself be made to keep, of every kind at once.
type hoard struct {
	t       *testing.T
	replica *sequencer.Replica
	at      int64
	name    int // bytes of a long name
	largest int // bytes of the row
	live    []sequencer.Seq
	rules   sequencer.Rules
}

// longLife is how far the numbers of a workspace have come: they take as much space in a row as they ever do.
const longLife = 1 << 31

func newHoard(t *testing.T, name int, change func(*sequencer.Rules)) *hoard {
	t.Helper()
	st := sequencer.NewReplica("ws").State()
	st.State.Rules.Logic = sequencer.Logic
	st.State.Seq, st.State.Floor, st.State.Horizon, st.State.TickN = longLife, longLife, longLife, longLife
	st.State.Time, st.State.LastEpoch, st.State.LastOrder, st.Offset = longLife, longLife, longLife, longLife
	r, err := sequencer.RestoreReplica(st)
	if err != nil {
		t.Fatal(err)
	}
	h := &hoard{t: t, replica: r, at: longLife + 1, name: name}
	h.rules = st.State.Rules
	h.rules.Version, h.rules.MaxSidecars = 1, 1024
	change(&h.rules)
	for h.rules.MaxKept > 0 {
		rules := h.rules
		if h.give(&sequencer.Intent{Kind: sequencer.IntentRules, Rules: &rules})[0].Kind == sequencer.OutcomeRules {
			return h
		}
		h.rules.MaxKept -= 2 << 10 // until it is taken: as much as there is space for beside the rest
	}
	t.Fatal("no such rules are taken")
	return nil
}

// give appends a record; now and then the row is measured.
func (h *hoard) give(in *sequencer.Intent) []sequencer.Outcome {
	h.t.Helper()
	a, err := h.replica.Apply(h.at, in)
	if err != nil {
		h.t.Fatal(err)
	}
	h.at++
	h.replica.Acknowledged(h.replica.Fold().Seq())
	if h.at%512 == 0 {
		h.measure()
	}
	return a.Outcomes
}

func (h *hoard) measure() {
	h.t.Helper()
	st := h.replica.State()
	b, err := topology.EncodeReplica(&st)
	if err != nil {
		h.t.Fatal(err)
	}
	h.largest = max(h.largest, len(b))
}

// limit says whether a record was refused for lack of space.
func limit(out []sequencer.Outcome) bool {
	return len(out) > 0 && out[0].Kind == sequencer.OutcomeRefused && out[0].Code == sequencer.CodeLimit
}

func (h *hoard) long(name string) string { return name + strings.Repeat("n", max(0, h.name-len(name))) }

func (h *hoard) agent(i int) string {
	name := fmt.Sprintf("agent-%d-", i)
	return name + strings.Repeat("a", min(120, h.name)-min(min(120, h.name), len(name)))
}

// join fills up with sidecars.
func (h *hoard) join() {
	for i := 0; ; i++ {
		out := h.give(&sequencer.Intent{Kind: sequencer.IntentJoin, Agent: h.agent(i),
			Join: &sequencer.Join{ID: h.long(fmt.Sprintf("j%d", i))}})
		if limit(out) {
			return
		}
		h.live = append(h.live, out[0].Incarnation)
	}
}

// by is an intent of the i-th sidecar.
func (h *hoard) by(i int, kind sequencer.IntentKind, tx string) *sequencer.Intent {
	i %= len(h.live)
	return &sequencer.Intent{Kind: kind, Tx: sequencer.TxID(tx), N: math.MaxUint32, Agent: h.agent(i),
		Incarnation: h.live[i], Base: h.replica.Fold().Seq()}
}

// register fills up with tool servers: catalogues of one small tool, then servers without any.
func (h *hoard) register() {
	for _, kind := range []sequencer.IntentKind{sequencer.IntentRegister, sequencer.IntentUnregister} {
		for i := range 3000 {
			in := h.by(i, kind, "")
			in.Register = &sequencer.Register{Server: h.long(fmt.Sprint(kind, i)), Generation: math.MaxUint64}
			if kind == sequencer.IntentRegister {
				in.Register.Tools = []sequencer.Tool{{Name: fmt.Sprint(i)}}
			}
			h.give(in)
		}
	}
}

// answers sends an intent of each kind about a transaction: its record keeps the answers.
func (h *hoard) answers(i int, tx string) {
	footprint := sequencer.Hash{1}
	for _, kind := range []sequencer.IntentKind{sequencer.IntentAbort, sequencer.IntentBegin, sequencer.IntentTouch,
		sequencer.IntentSeal, sequencer.IntentSettle, sequencer.IntentAdopt, sequencer.IntentRetract,
		sequencer.IntentVerdict} {
		in := h.by(i, kind, tx)
		in.Begin = &sequencer.Begin{DeadlineTicks: 1 << 62}
		in.Abort = &sequencer.Abort{Code: sequencer.CodeVersionMismatch}
		in.Touch, in.Seal, in.Settle = &sequencer.Touch{}, &sequencer.Seal{}, &sequencer.Settle{}
		in.Verdict = &sequencer.Verdict{Footprint: footprint}
		h.give(in)
	}
}

// open fills up with open transactions of a shape.
func (h *hoard) open(shape int) {
	ref := &sequencer.Ref{Offset: 1 << 40, Size: 1, SHA256: sequencer.Hash{1}}
	for i := 0; ; i++ {
		in := h.by(i, sequencer.IntentBegin, h.long(fmt.Sprintf("open%d-%d-", shape, i)))
		in.Begin = &sequencer.Begin{DeadlineTicks: 1 << 62, Group: h.long(fmt.Sprintf("g%d", i)),
			Levels: new(sequencer.Levels)}
		switch shape {
		case 0: // many small ones
		case 1: // many small holds
			in.Begin.Mode = sequencer.Ordered
			for k := range 200 {
				in.Begin.May = append(in.Begin.May, sequencer.Want{Scope: sequencer.Scope(fmt.Sprintf("a:/%d", i*200+k))})
			}
		case 2: // sealed, with a little of everything
			in.Kind = sequencer.IntentSeal
			in.Seal = &sequencer.Seal{Hook: true, VerdictTicks: 1 << 62, At: &sequencer.Place{Offset: 1 << 40},
				Effects: []sequencer.Effect{{Class: sequencer.ClassIrreversible, Approve: true, Args: sequencer.Hash{1},
					Scopes: []sequencer.Scope{sequencer.Scope(fmt.Sprintf("b:/%d", i))}}}}
			for k := range 40 {
				in.Seal.Reads = append(in.Seal.Reads, sequencer.Read{Scope: "a:/", View: in.Base, Version: in.Base})
				in.Seal.ReadFrom = append(in.Seal.ReadFrom, sequencer.TxID(fmt.Sprint(k)))
				in.Seal.Shards = append(in.Seal.Shards, sequencer.ShardWrite{
					Scope: sequencer.Scope(fmt.Sprintf("shard:/%d", i*40+k)), Expect: &sequencer.Expect{View: in.Base},
					Former: &sequencer.Former{View: in.Base, Ref: ref}})
			}
		}
		if limit(h.give(in)) || i > 5000 {
			return
		}
		if shape == 2 {
			word := h.by(i+1, sequencer.IntentVerdict, string(in.Tx))
			word.Verdict = &sequencer.Verdict{Approvals: []sequencer.Approval{{Yes: true, By: h.long("ann"),
				Args: sequencer.Hash{1}}}}
			h.give(word)
		}
		if shape == 0 {
			for _, kind := range []sequencer.IntentKind{sequencer.IntentTouch, sequencer.IntentSettle, sequencer.IntentAdopt,
				sequencer.IntentRetract, sequencer.IntentVerdict} {
				again := h.by(i, kind, string(in.Tx))
				again.Touch, again.Settle = &sequencer.Touch{}, &sequencer.Settle{}
				again.Verdict = &sequencer.Verdict{}
				h.give(again)
			}
		}
	}
}

// past fills up with what is remembered, of a shape.
func (h *hoard) past(shape, records int) {
	for i := range records {
		name := h.long(fmt.Sprintf("past%d-%d-", shape, i))
		switch shape {
		case 0:
			h.answers(i, name)
		case 1: // shards with small contents
			in := h.by(i, sequencer.IntentSeal, name)
			in.Seal = &sequencer.Seal{}
			for k := range 20 {
				s := sequencer.Scope(fmt.Sprintf("shard:/p%d", i*20+k))
				in.Seal.Shards = append(in.Seal.Shards, sequencer.ShardWrite{Scope: s, Content: []byte("x")})
				in.Seal.Reads = append(in.Seal.Reads, sequencer.Read{Scope: s, View: in.Base})
			}
			h.give(in)
		case 2: // groups that have chosen
			in := h.by(i, sequencer.IntentSelect, "")
			in.Select = &sequencer.Select{Group: name, Winner: "w"}
			h.give(in)
		case 3: // retractions that wait, for transactions that no sidecar settles
			in := h.by(i, sequencer.IntentSeal, name)
			in.Seal = &sequencer.Seal{Effects: []sequencer.Effect{{Class: sequencer.ClassIrreversible,
				Scopes: []sequencer.Scope{sequencer.Scope(fmt.Sprintf("b:/%d", i))}}}}
			h.give(in)
			h.give(h.by(i, sequencer.IntentRetract, name))
		}
	}
}

// TestRowIsBounded: a workspace that keeps all that it lets itself be made to keep, of every kind at once, under rules
// of several shapes: the row stays below what may be written.
func TestRowIsBounded(t *testing.T) {
	const records = 1000
	for name, rules := range map[string]func(*sequencer.Rules){
		"default rules": func(*sequencer.Rules) {},
		"few sidecars": func(r *sequencer.Rules) {
			r.MaxSidecars, r.MaxKept, r.MaxOpen = 8, 1<<20, 4096
		},
		"many sidecars": func(r *sequencer.Rules) {
			r.MaxSidecars, r.MaxKept = 2600, 1<<20
		},
	} {
		for open := range 3 {
			for past := range 4 {
				if (open+past)%3 != 0 && os.Getenv(hostileEnv) == "" {
					continue // every combination takes long
				}
				for _, long := range []int{1, 100} {
					t.Run(fmt.Sprintf("%s/open %d/past %d/names of %d", name, open, past, long), func(t *testing.T) {
						t.Parallel()
						h := newHoard(t, long, rules)
						h.join()
						h.register()
						h.open(open)
						h.measure()
						h.past(past, records)
						h.measure()
						t.Logf("kept %d, %d sidecars, %d records: at most %d bytes", h.rules.MaxKept, len(h.live), h.at-longLife,
							h.largest)
						if h.largest > stateBytes {
							t.Errorf("the row has %d bytes, at most %d are written", h.largest, stateBytes)
						}
					})
				}
			}
		}
	}
}
