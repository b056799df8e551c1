package topology

import (
	"cmp"
	"slices"

	"github.com/hence-dev/hence/sequencer"
)

// Unsettled is one decided transaction whose settlement is still owed.
type Unsettled struct {
	Tx          sequencer.TxID
	Agent       string
	Incarnation sequencer.Seq // of the sidecar that began it
	Owner       sequencer.Seq // incarnation that owes the settlement; zero: an orphan
	Phase       sequencer.Phase
	Code        sequencer.Code // of an aborted one
	Decision    sequencer.Seq
	Retraction  sequencer.TxID // the retracted transaction whose cone it is in; empty: none
	Turn        sequencer.Seq  // of the outcome that gave it its turn there; zero: it has not come
}

// UnsettledList is the answer to a request for them: exact as of one seq.
type UnsettledList struct {
	Workspace string
	Through   sequencer.Seq // what the fold that answered has decided
	Rows      []Unsettled   // by Decision
	Truncated bool
}

// RulesNow is the answer to a request for a workspace's rules.
type RulesNow struct {
	Workspace string
	Through   sequencer.Seq // what the fold that answered has decided
	Rules     sequencer.Rules
}

func walkRulesNow(w *walker, r *RulesNow) {
	outer := w.open(3, 3)
	text(w, &r.Workspace)
	number(w, &r.Through)
	walkRules(w, &r.Rules)
	w.close(outer)
}

// EncodeRulesNow writes the answer to a request for the rules.
func EncodeRulesNow(v *RulesNow) ([]byte, error) { return replyCodec("rules", walkRulesNow).encode(v) }

// DecodeRulesNow reads it.
func DecodeRulesNow(b []byte) (*RulesNow, error) { return replyCodec("rules", walkRulesNow).decode(b) }

// UnsettledIn lists the first of a fold's decided transactions that are not settled: an agent's, or everybody's when
// agent is empty.
func UnsettledIn(st *sequencer.State, agent string, limit int) *UnsettledList {
	l := &UnsettledList{Workspace: st.Workspace, Through: st.Seq}
	turn, at := turnIn(st)
	for i := range st.Txs {
		t := &st.Txs[i]
		if !owed(t.Phase) || agent != "" && t.Agent != agent {
			continue
		}
		row := Unsettled{Tx: t.ID, Agent: t.Agent, Incarnation: t.Incarnation, Owner: t.Owner, Phase: t.Phase,
			Code: t.Code, Decision: t.Decision, Retraction: t.Retraction}
		if t.ID == turn {
			row.Turn = at
		}
		l.Rows = append(l.Rows, row)
	}
	slices.SortStableFunc(l.Rows, func(a, b Unsettled) int { return cmp.Compare(a.Decision, b.Decision) })
	if len(l.Rows) > limit {
		l.Rows, l.Truncated = l.Rows[:limit], true
	}
	return l
}

// owed reports whether a settlement is owed in a phase.
func owed(p sequencer.Phase) bool {
	return p == sequencer.PhaseCommitted || p == sequencer.PhaseAborted || p == sequencer.PhaseRetracting
}

// turnIn is the member of the running retraction that has its turn, and since when; zero: none has.
func turnIn(st *sequencer.State) (sequencer.TxID, sequencer.Seq) {
	if len(st.Retractions) == 0 || st.Retractions[0].Turn == 0 {
		return "", 0
	}
	undone := map[sequencer.TxID]bool{}
	for i := range st.Txs {
		undone[st.Txs[i].ID] = st.Txs[i].Phase == sequencer.PhaseRetracted
	}
	for _, tx := range st.Retractions[0].Cone {
		if done, remembered := undone[tx]; remembered && !done {
			return tx, st.Retractions[0].Turn
		}
	}
	return "", 0
}

func walkUnsettled(w *walker, u *Unsettled) {
	outer := w.open(9, 9)
	text(w, &u.Tx)
	text(w, &u.Agent)
	number(w, &u.Incarnation)
	number(w, &u.Owner)
	number(w, &u.Phase)
	text(w, &u.Code)
	number(w, &u.Decision)
	text(w, &u.Retraction)
	number(w, &u.Turn)
	w.close(outer)
}

func walkUnsettledList(w *walker, l *UnsettledList) {
	outer := w.open(4, 4)
	text(w, &l.Workspace)
	number(w, &l.Through)
	list(w, &l.Rows, unsettledBytes, walkUnsettled)
	w.truth(&l.Truncated)
	w.close(outer)
}

const unsettledBytes = 10

// EncodeUnsettled writes the answer to a request for unsettled transactions.
func EncodeUnsettled(v *UnsettledList) ([]byte, error) {
	return replyCodec("unsettled", walkUnsettledList).encode(v)
}

// DecodeUnsettled reads it.
func DecodeUnsettled(b []byte) (*UnsettledList, error) {
	return replyCodec("unsettled", walkUnsettledList).decode(b)
}
