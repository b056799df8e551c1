package recorded

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// TestRecordFormer records the logs of the former logics; it does nothing without -record. It has to run in the code
// that decides: copy it/recorded and it/harness into a checkout of formerBuild.
func TestRecordFormer(t *testing.T) {
	if !*record {
		t.Skip("nothing to do: in a checkout of " + formerBuild + ", -record writes the logs of the logics before 3 again")
	}
	if newest := sequencer.Logic; newest != FormerLogic {
		t.Fatalf("this code has logic %d: copy it/recorded and it/harness into a checkout of %s", newest, formerBuild)
	}
	for _, name := range formerLogs() {
		c := composed(t, name)
		leads, err := Replay("w", c.frames, 0)
		if err != nil {
			t.Fatal(err)
		}
		leads.Command = "TestRecordFormer at " + formerBuild
		writeLog(t, formerFolder, name, c.frames, leads)
		if err := writeRow(name, leads.row); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d records, %d decisions, reached %v", name, leads.Records, leads.Seq, c.reached)
	}
}

// composed is the log of the first seed that has all that it is for.
func composed(t *testing.T, name string) *composer {
	t.Helper()
	var missing []string
	for seed := range uint64(200) {
		c := &composer{Rand: rand.New(rand.NewPCG(11, seed)), t: t, replica: sequencer.NewReplica("w"),
			last: map[string]uint32{}, reached: map[string]int{}, logic: FormerLogic}
		switch name {
		case "switches":
			c.switches()
		case "random":
			c.random(2_000)
		case "from-1":
			c.logic = 1
			c.random(700)
			c.logic = FormerLogic
			c.rules(func(*sequencer.Rules) {})
			c.random(900)
		}
		if missing = c.missing(name); len(missing) == 0 {
			return c
		}
	}
	t.Fatalf("%s: no seed leads to all that the log is for; the last one has none of %q", name, missing)
	return nil
}

// composer makes a log of one workspace, record by record, in sight of what the fold decides.
type composer struct {
	*rand.Rand
	t       *testing.T
	replica *sequencer.Replica
	frames  []Frame
	offset  int64
	logic   uint32            // of the rules that it sets
	last    map[string]uint32 // the last n by incarnation, transaction and kind
	reached map[string]int    // what was decided, and what of the composer's own stood where rules changed
	fresh   int               // transactions so far
	joins   int
	ticking bool                       // the last intent was a tick
	dress   func(in *sequencer.Intent) // adds what only later logics know; nil: nothing
}

func (c *composer) state() sequencer.State { return c.replica.Fold().State() }

func (c *composer) seq() sequencer.Seq { return c.replica.Fold().Seq() }

// put appends a record and returns what it led to.
func (c *composer) put(in *sequencer.Intent) []sequencer.Outcome {
	c.t.Helper()
	if c.dress != nil {
		c.dress(in)
	}
	value, err := topology.EncodeIntent(in)
	if err == nil {
		in, err = topology.DecodeIntent(value)
	}
	if err != nil {
		c.t.Fatalf("%s: %v", in.ID(), err)
	}
	c.offset += 1 + int64(c.IntN(4)/3) // other workspaces have records in between
	applied, err := c.replica.Apply(c.offset, in)
	if err != nil {
		c.t.Fatalf("%s: %v", in.ID(), err)
	}
	c.frames = append(c.frames, Frame{c.offset, value})
	if applied.Ignored {
		c.reached["ignored"]++
	}
	for _, o := range applied.Outcomes {
		c.replica.Acknowledged(o.Seq)
		c.note(in, &o)
	}
	return applied.Outcomes
}

func (c *composer) note(in *sequencer.Intent, o *sequencer.Outcome) {
	c.reached[o.Kind.String()]++
	if o.Code != "" {
		c.reached[fmt.Sprintf("%s %s", o.Kind, o.Code)]++
	}
	if o.Kind == sequencer.OutcomeRefused && in.Register != nil {
		c.reached[fmt.Sprintf("%s %s %s", in.Kind, o.Kind, o.Code)]++
	}
	if o.Would != "" {
		c.reached["would"]++
	}
	if len(o.Cone) > 2 {
		c.reached["cone of three and more"]++
	}
	if len(o.Residue) > 0 {
		c.reached["residue"]++
	}
	if o.Retraction != "" && len(o.Shards) > 0 {
		c.reached["shard put back"]++
		if c.state().Rules.Observe {
			c.reached["shard put back while observing"]++
		}
	}
}

// switched counts what is under way when the workspace begins or ends to observe.
func (c *composer) switched(to string) {
	c.reached["switched to "+to]++
	st := c.state()
	for _, t := range st.Txs {
		switch t.Phase {
		case sequencer.PhaseOpen, sequencer.PhaseSealed:
			c.reached["undecided, to "+to]++
		case sequencer.PhaseCommitted, sequencer.PhaseAborted:
			c.reached["unsettled, to "+to]++
		case sequencer.PhaseRetracting:
			c.reached["retracting, to "+to]++
		}
	}
}

// missing is what a log is for and does not have.
func (c *composer) missing(name string) (missing []string) {
	var wanted []string
	for k := sequencer.OutcomeBegun; k <= sequencer.OutcomeTurn; k++ {
		wanted = append(wanted, k.String())
	}
	wanted = append(wanted, "would", "residue", "shard put back", "switched to observing", "switched to enforcing",
		"undecided, to observing", "undecided, to enforcing", "unsettled, to observing", "unsettled, to enforcing")
	switch name {
	case "switches":
		wanted = append(wanted, "retracting, to observing", "retracting, to enforcing", "cone of three and more",
			"register refused limit", "unregister refused limit", "shard put back while observing",
			"a late copy of an adoption refused", "foreign scope settled",
			"another's commit overwritten by a turn", "a plan on a withdrawn tool committed",
			"abort of an unknown one with may", "sidecar of a later logic")
	case "random":
		wanted = append(wanted, "ignored", "aborted cascade", "aborted wounded", "aborted conflict", "aborted stale_read",
			"aborted phantom_tool", "aborted deadline", "aborted too_old", "refused limit", "refused too_old",
			"refused wrong_footprint", "refused lease_expired")
	}
	for _, what := range wanted {
		if c.reached[what] == 0 {
			missing = append(missing, what)
		}
	}
	return missing
}

// agent returns the live incarnation of an agent, which joins when it has none, and renews its lease.
func (c *composer) agent(name string) sequencer.Seq {
	c.t.Helper()
	inc := c.live(name)
	if inc == 0 {
		c.joins++
		id := fmt.Sprint("j", c.joins)
		out := c.put(&sequencer.Intent{Kind: sequencer.IntentJoin, Agent: name,
			Join: &sequencer.Join{ID: id, Logic: c.logic}})
		at := slices.IndexFunc(out, func(o sequencer.Outcome) bool { return o.Kind == sequencer.OutcomeJoined })
		return out[at].Seq
	}
	c.put(&sequencer.Intent{Kind: sequencer.IntentWatermark, Agent: name, Incarnation: inc,
		Watermark: &sequencer.Watermark{Seq: c.seq()}})
	return inc
}

// phase is where a transaction stands.
func (c *composer) phase(id sequencer.TxID) sequencer.Phase {
	st := c.state()
	if t := txIn(&st, id); t != nil {
		return t.Phase
	}
	return sequencer.PhaseOpen
}

func (c *composer) live(name string) sequencer.Seq {
	st := c.state()
	for _, s := range st.Sidecars {
		if s.Agent == name {
			return s.Incarnation
		}
	}
	return 0
}

// say appends an intent about a transaction by an agent, with the next number.
func (c *composer) say(kind sequencer.IntentKind, tx sequencer.TxID, agent string,
	fill func(in *sequencer.Intent)) []sequencer.Outcome {
	c.t.Helper()
	in := &sequencer.Intent{Kind: kind, Tx: tx, Agent: agent, Incarnation: c.live(agent), Base: c.seq()}
	in.N = c.number(in)
	if fill != nil {
		fill(in)
	}
	return c.put(in)
}

func (c *composer) number(in *sequencer.Intent) uint32 {
	key := fmt.Sprint(in.Incarnation, in.Tx, in.Kind)
	c.last[key]++
	return c.last[key]
}

// rules changes the workspace's rules.
func (c *composer) rules(change func(r *sequencer.Rules)) {
	c.t.Helper()
	r := c.state().Rules
	was := r.Observe
	r.Version++
	r.Logic = c.logic
	change(&r)
	if r.Observe != was {
		c.switched(map[bool]string{true: "observing", false: "enforcing"}[r.Observe])
	}
	c.put(&sequencer.Intent{Kind: sequencer.IntentRules, Rules: &r})
}

// observe switches the workspace to observing or back to enforcing.
func (c *composer) observe(on bool) { c.rules(func(r *sequencer.Rules) { r.Observe = on }) }

// ticks lets the log's time pass, while some agents renew their leases.
func (c *composer) ticks(n int, alive ...string) {
	c.t.Helper()
	for range n {
		c.put(&sequencer.Intent{Kind: sequencer.IntentTick, Tick: &sequencer.TickMark{N: c.state().TickN + 1, Weight: 8}})
		for _, name := range alive {
			c.agent(name)
		}
	}
}

// kindOf is the first outcome's kind.
func kindOf(out []sequencer.Outcome) sequencer.OutcomeKind {
	if len(out) == 0 {
		return 0
	}
	return out[0].Kind
}
