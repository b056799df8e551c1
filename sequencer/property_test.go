package sequencer_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sequencer/script"
)

// drawLog draws the records of a history, as the twin's histories are drawn.
func drawLog(rt *rapid.T) []*sequencer.Intent {
	h := newHistory()
	seen := &reached{count: map[string]int{}}
	for _, word := range rapid.SliceOfN(rapid.Uint64(), 30, 60).Draw(rt, "words") {
		h.dice = dice{word}
		if err := h.compare(h.next(), false, seen); err != nil {
			rt.Fatal(shortest(h.log))
		}
	}
	var log []*sequencer.Intent
	for _, r := range h.log {
		log = append(log, r.Intent)
	}
	return log
}

// fed is a replica that was given a log, and what each record led to.
type fed struct {
	replica *sequencer.Replica
	applied []sequencer.Applied
}

func feed(rt *rapid.T, log []*sequencer.Intent) fed {
	f := fed{replica: sequencer.NewReplica("ws")}
	for i, in := range log {
		a, err := f.replica.Apply(int64(i), in)
		if err != nil {
			rt.Fatal(err)
		}
		f.applied = append(f.applied, a)
	}
	return f
}

func same(rt *rapid.T, what string, got, want any) {
	if !reflect.DeepEqual(got, want) {
		rt.Fatalf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}

// TestReplicaStateCarriesAll: a replica that is written out and read back after each record gives the same outcomes,
// to the last field, and ends in the same state.
func TestReplicaStateCarriesAll(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		log := drawLog(rt)
		whole := feed(rt, log)
		r := sequencer.NewReplica("ws")
		for i, in := range log {
			a, err := r.Apply(int64(i), in)
			if err != nil {
				rt.Fatal(err)
			}
			same(rt, script.Format(in), a, whole.applied[i])
			if r, err = sequencer.RestoreReplica(r.State()); err != nil {
				rt.Fatal(err)
			}
		}
		same(rt, "state hash", r.Fold().StateHash(), whole.replica.Fold().StateHash())
	})
}

// TestReplicaReplays: a replica that goes on from an old state, or is given records again, repeats what they led to;
// how the records were batched, and what was acknowledged in between, makes no difference.
func TestReplicaReplays(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		log := drawLog(rt)
		whole := feed(rt, log)
		r := sequencer.NewReplica("ws")
		stored := r.State()
		for at := 0; at < len(log); {
			until := min(len(log), at+rapid.IntRange(1, 12).Draw(rt, "batch"))
			for ; at < until; at++ {
				a, err := r.Apply(int64(at), log[at])
				if err != nil {
					rt.Fatal(err)
				}
				same(rt, "outcomes", newOutcomes(a, int64(at)), newOutcomes(whole.applied[at], int64(at)))
			}
			back := rapid.IntRange(int(stored.Offset)+1, at).Draw(rt, "from")
			again, err := sequencer.RestoreReplica(stored)
			if err != nil {
				rt.Fatal(err)
			}
			for i := int(stored.Offset) + 1; i < at; i++ {
				if _, err := again.Apply(int64(i), log[i]); err != nil {
					rt.Fatal(err)
				}
			}
			for i := back; i < at; i++ { // and these a second time
				a, err := again.Apply(int64(i), log[i])
				if err != nil || !a.Replayed {
					rt.Fatalf("record %d: %+v, %v", i, a, err)
				}
				same(rt, "repeated outcomes", newOutcomes(a, int64(i)), newOutcomes(whole.applied[i], int64(i)))
			}
			r = again
			if rapid.Bool().Draw(rt, "acknowledge") {
				r.Acknowledged(r.Fold().Seq())
				stored = r.State()
			}
		}
		same(rt, "state hash", r.Fold().StateHash(), whole.replica.Fold().StateHash())
	})
}

// newOutcomes are those that a record led to itself; what it repeats of others may be acknowledged already.
func newOutcomes(a sequencer.Applied, offset int64) []sequencer.Outcome {
	var out []sequencer.Outcome
	for _, o := range a.Outcomes {
		if o.Offset == offset {
			out = append(out, o)
		}
	}
	return out
}

// TestNothingGoesBack: seqs are contiguous over all outcomes; floor, horizon and time only grow.
func TestNothingGoesBack(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := sequencer.New("ws")
		var last sequencer.State
		for i, in := range drawLog(rt) {
			step, err := f.Step(int64(i), in)
			if err != nil {
				rt.Fatal(err)
			}
			for j, o := range step.Outcomes {
				if want := last.Seq + sequencer.Seq(j) + 1; o.Seq != want || o.Offset != int64(i) {
					rt.Fatalf("outcome %d of record %d has seq %d and offset %d, want seq %d", j, i, o.Seq, o.Offset, want)
				}
			}
			st := f.State()
			if st.Floor < last.Floor || st.Horizon < last.Horizon || st.Time < last.Time || st.Floor > st.Seq {
				rt.Fatalf("record %d: floor %d, horizon %d, time %d, seq %d after floor %d, horizon %d, time %d", i,
					st.Floor, st.Horizon, st.Time, st.Seq, last.Floor, last.Horizon, last.Time)
			}
			last = st
		}
	})
}

// remembered reports whether a duplicate of the intent is known as one: its sender lives, and what it was about is
// kept. A watermark is none: it renews its lease whenever it comes.
func remembered(st *sequencer.State, in *sequencer.Intent) bool {
	switch in.Kind {
	case sequencer.IntentJoin:
		return slices.ContainsFunc(st.Joins, func(j sequencer.JoinState) bool { return j.ID == in.Join.ID })
	case sequencer.IntentTick:
		return in.Tick.N <= st.TickN
	case sequencer.IntentRules:
		return in.Rules.Version <= st.Rules.Version
	case sequencer.IntentWatermark:
		return false
	}
	at := slices.IndexFunc(st.Sidecars, func(s sequencer.SidecarState) bool {
		return s.Incarnation == in.Incarnation && s.Agent == in.Agent
	})
	if at < 0 {
		return false
	}
	if in.Kind == sequencer.IntentVerdict && len(in.Verdict.Approvals) > 0 && st.Rules.Logic >= 4 {
		return rememberedApproval(st, in)
	}
	switch in.Kind {
	case sequencer.IntentRegister, sequencer.IntentUnregister:
		return slices.ContainsFunc(st.Sidecars[at].Servers, func(s sequencer.ServerState) bool {
			return s.Server == in.Register.Server && s.Generation >= in.Register.Generation
		})
	case sequencer.IntentSelect:
		return slices.ContainsFunc(st.Groups, func(g sequencer.GroupState) bool {
			return g.ID == in.Select.Group && g.Winner != ""
		})
	}
	return slices.ContainsFunc(st.Txs, func(t sequencer.TxState) bool {
		return t.ID == in.Tx && slices.ContainsFunc(t.Answers, func(a sequencer.Answer) bool {
			return a.Kind == in.Kind && a.Incarnation == in.Incarnation && a.N >= in.N
		})
	})
}

// rememberedApproval: approvals have no count, so a copy is known by what was taken, or by the decision. One that was
// refused left nothing, and its copy is judged again.
func rememberedApproval(st *sequencer.State, in *sequencer.Intent) bool {
	return slices.ContainsFunc(st.Txs, func(t sequencer.TxState) bool {
		if t.ID != in.Tx || t.Phase != sequencer.PhaseSealed {
			return t.ID == in.Tx && t.Decision > 0
		}
		v := in.Verdict
		return (v.Footprint == sequencer.Hash{} || v.Footprint == t.Footprint) &&
			!slices.ContainsFunc(v.Approvals, func(a sequencer.Approval) bool { return !slices.Contains(t.Approvals, a) })
	})
}

// TestDuplicatesChangeNothing: any intent that was applied before, given again at any later point, makes no outcome
// and changes nothing while it is remembered.
func TestDuplicatesChangeNothing(t *testing.T) {
	tried := 0
	rapid.Check(t, func(rt *rapid.T) {
		log := drawLog(rt)
		f := sequencer.New("ws")
		for i, in := range log {
			if _, err := f.Step(int64(i), in); err != nil {
				rt.Fatal(err)
			}
			dup := log[rapid.IntRange(0, i).Draw(rt, "dup")]
			st := f.State()
			if !remembered(&st, dup) {
				continue
			}
			tried++
			step, err := f.Step(int64(i), dup)
			if err != nil || len(step.Outcomes) > 0 || step.Ignored {
				rt.Fatalf("%s again: %+v, %v", script.Format(dup), step, err)
			}
			same(rt, script.Format(dup)+" again: state hash", f.StateHash(), st.Hash())
		}
	})
	if tried < 100 && !t.Failed() {
		t.Errorf("only %d duplicates were tried", tried)
	}
}

// TestIndependentIntentsCommute: what two agents do on scopes that do not overlap comes to the same, however their
// intents are interleaved.
func TestIndependentIntentsCommute(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var programs [2][]string
		for i := range programs {
			for range rapid.IntRange(3, 15).Draw(rt, "length") {
				programs[i] = append(programs[i], drawLine(rt, i))
			}
		}
		var alone [2][]string
		for i, p := range programs {
			alone[i] = runAgents(rt, p)[i]
		}
		var mixed []string
		for rest := programs; len(rest[0])+len(rest[1]) > 0; {
			i := rapid.IntRange(0, 1).Draw(rt, "who")
			if len(rest[i]) == 0 {
				i = 1 - i
			}
			mixed = append(mixed, rest[i][0])
			rest[i] = rest[i][1:]
		}
		got := runAgents(rt, mixed)
		for i := range alone {
			same(rt, fmt.Sprintf("agent a%d of %q", i, mixed), got[i], alone[i])
		}
	})
}

// drawLine draws a line of agent i about one of its two transactions, in its own part of the scopes.
func drawLine(rt *rapid.T, i int) string {
	n := rapid.IntRange(0, 2).Draw(rt, "tx")
	scope := fmt.Sprintf("%d/%s", i, rapid.SampledFrom([]string{"x", "y", "x/z"}).Draw(rt, "scope"))
	mode := rapid.SampledFrom([]string{"optimistic", "ordered", "locked"}).Draw(rt, "mode")
	return fmt.Sprintf("A%d.%d ", i, n) + rapid.SampledFrom([]string{
		fmt.Sprintf("begin a%d mode=%s", i, mode), fmt.Sprintf("touch a%d mode=%s w:doc:/%s", i, mode, scope),
		fmt.Sprintf("touch a%d r:doc:/%s", i, scope), fmt.Sprintf("seal a%d read=doc:/%s", i, scope),
		fmt.Sprintf("seal a%d read=shard:/%s shard=shard:/%s", i, scope, scope), fmt.Sprintf("abort a%d", i),
		fmt.Sprintf("seal a%d effect=irreversible:doc:/%s hook", i, scope), fmt.Sprintf("verdict a%d yes", i),
		fmt.Sprintf("settle a%d effect=clean:doc:/%s", i, scope)}).Draw(rt, "line")
}

// runAgents runs lines and returns what came of each agent's, without seqs and ages.
func runAgents(rt *rapid.T, lines []string) (out [2][]string) {
	m := newMachine()
	for _, line := range append([]string{"join a0", "join a1"}, lines...) {
		if _, err := m.run(line); err != nil {
			rt.Fatal(err)
		}
	}
	f := sequencer.New("ws")
	for i, in := range m.log {
		step, err := f.Step(int64(i), in)
		if err != nil {
			rt.Fatal(err)
		}
		for _, o := range step.Outcomes {
			for agent := range out {
				if o.Tx != "" && o.Agent == fmt.Sprintf("a%d", agent) {
					out[agent] = append(out[agent], fmt.Sprint(o.Kind, o.Tx, o.Code, o.Scope, o.Moved.Tx, o.BlockedBy, o.Added,
						o.Ended, len(o.Writes), o.Final))
				}
			}
		}
	}
	return out
}
