package topology

import (
	"fmt"
	"testing"

	"github.com/hence-dev/hence/sequencer"
)

// history folds a log: a join, then transactions that write shards and read others.
type history struct {
	t    *testing.T
	fold *sequencer.Fold
	n    int64
}

func (h *history) step(in *sequencer.Intent) {
	h.t.Helper()
	if _, err := h.fold.Step(h.n, in); err != nil {
		h.t.Fatal(err)
	}
	h.n++
}

func (h *history) commit(tx sequencer.TxID, writes, reads string) {
	h.t.Helper()
	seq := h.fold.Seq()
	in := &sequencer.Intent{Kind: sequencer.IntentSeal, Tx: tx, N: 1, Agent: "ann", Incarnation: 1, Base: seq,
		Begin: &sequencer.Begin{}, Seal: &sequencer.Seal{}}
	if writes != "" {
		in.Seal.Shards = []sequencer.ShardWrite{{Scope: sequencer.Scope(writes), Content: []byte(tx)}}
	}
	if reads != "" {
		in.Seal.Reads = []sequencer.Read{{Scope: sequencer.Scope(reads), View: seq}}
	}
	h.step(in)
	if h.fold.Seq() == seq {
		h.t.Fatalf("%s was not decided", tx)
	}
}

func newHistory(t *testing.T, logic uint32) *history {
	h := &history{t: t, fold: sequencer.New("w")}
	join := &sequencer.Join{ID: "j", Logic: logic}
	h.step(&sequencer.Intent{Kind: sequencer.IntentJoin, N: 1, Agent: "ann", Join: join})
	return h
}

// TestConeIn holds what a dry run says: who would be undone, in which order, how far from the named one and why.
func TestConeIn(t *testing.T) {
	h := newHistory(t, sequencer.Logic)
	h.commit("base", "shard:/a", "")
	h.commit("named", "shard:/a", "")
	h.commit("reader", "shard:/b", "shard:/a")
	h.commit("over", "shard:/b", "")
	h.commit("apart", "shard:/c", "")
	c := ConeIn(h.fold, "named")
	text := ""
	for _, m := range c.Members {
		text += fmt.Sprintf("%s@%d %d %s %s %s; ", m.Tx, m.Seq, m.Depth, m.Why, m.Of, m.At)
	}
	want := "over@5 2 overwrote reader shard:/b; reader@4 1 read_from named shard:/a; named@3 0   ; "
	if text != want || c.Code != "" || c.Through != h.fold.Seq() || c.Total != 3 || c.Truncated() {
		t.Errorf("%+v\n%s, want\n%s", c, text, want)
	}
	root := c.Members[2]
	if len(root.Restored) != 1 || root.Restored[0].Tx != "base" || root.Restored[0].Scope != "shard:/a" ||
		c.Members[0].Restored[0].Absent != true || root.Effects || !root.Settled || root.Agent != "ann" {
		t.Errorf("%+v", c.Members)
	}
	h.step(&sequencer.Intent{Kind: sequencer.IntentAbort, Tx: "dropped", N: 1, Agent: "ann", Incarnation: 1,
		Base: h.fold.Seq(), Abort: &sequencer.Abort{}})
	for tx, want := range map[sequencer.TxID]sequencer.Code{"dropped": sequencer.CodeNotCommitted,
		"nobody": sequencer.CodeTooOld} {
		if c := ConeIn(h.fold, tx); c.Code != want || c.Detail == "" || len(c.Members) != 0 {
			t.Errorf("%s: %+v", tx, c)
		}
	}
	h.step(&sequencer.Intent{Kind: sequencer.IntentRetract, Tx: "named", N: 1, Agent: "ann", Incarnation: 1})
	if c := ConeIn(h.fold, "named"); c.Code != "" || c.Detail == "" || len(c.Members) != 0 {
		t.Errorf("retracted already: %+v", c)
	}
	old := newHistory(t, 0)
	old.commit("named", "shard:/a", "")
	if c := ConeIn(old.fold, "named"); c.Code != sequencer.CodeUnknownIntent {
		t.Errorf("under the first logic: %+v", c)
	}
}

// TestDepths holds the counting against ways that meet and lists that name later ones.
func TestDepths(t *testing.T) {
	m := func(tx, of sequencer.TxID) sequencer.ConeMember { return sequencer.ConeMember{Tx: tx, Of: of} }
	got := depthsOf([]sequencer.ConeMember{m("d", "c"), m("b", "d"), m("c", "a"), m("a", "")})
	if text := fmt.Sprint(got["a"], got["b"], got["c"], got["d"]); text != "0 3 1 2" {
		t.Errorf("%s, want 0 3 1 2", text)
	}
}

// TestUnsettledTurns holds that a member of a cone is owed by its owner, and when its turn is.
func TestUnsettledTurns(t *testing.T) {
	st := &sequencer.State{Seq: 20, Txs: []sequencer.TxState{
		{ID: "a", Agent: "ann", Owner: 2, Phase: sequencer.PhaseRetracting, Decision: 3, Retraction: "a"},
		{ID: "b", Agent: "ann", Owner: 2, Phase: sequencer.PhaseRetracting, Decision: 4, Retraction: "a"},
		{ID: "c", Agent: "bob", Phase: sequencer.PhaseRetracted, Decision: 5, Retraction: "a"},
		{ID: "d", Agent: "bob", Phase: sequencer.PhaseCommitted, Decision: 6},
		{ID: "e", Agent: "bob", Phase: sequencer.PhaseFinalAborted, Decision: 7},
	}, Retractions: []sequencer.RetractionState{{Tx: "a", Cone: []sequencer.TxID{"c", "b", "a"}, Turn: 19}}}
	text := ""
	for _, r := range UnsettledIn(st, "", 10).Rows {
		text += fmt.Sprintf("%s %s %d; ", r.Tx, r.Retraction, r.Turn)
	}
	if want := "a a 0; b a 19; d  0; "; text != want {
		t.Errorf("%s, want %s", text, want)
	}
	st.Retractions[0].Turn = 0
	if rows := UnsettledIn(st, "ann", 1); len(rows.Rows) != 1 || rows.Rows[0].Turn != 0 || !rows.Truncated {
		t.Errorf("%+v", rows)
	}
}
