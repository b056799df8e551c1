package settle

import (
	"testing"

	"github.com/hence-dev/hence/sequencer"
)

// A release that a retraction has overtaken ends with its settlement, although the transaction is not final with that:
// it is owed again once its turn comes.
func TestReleaseOvertakenByARetraction(t *testing.T) {
	s := alone(t)
	const id = "a.1.9"
	s.owe(id, 5, true, true)
	s.ObserveSettlement(&sequencer.Outcome{Kind: sequencer.OutcomeSettled, Tx: id, Seq: 7})
	if s.unsettled[id] != nil {
		t.Fatal("a release that is settled is still owed")
	}
	s.observeTurn(&sequencer.Outcome{Kind: sequencer.OutcomeTurn, Tx: id, Seq: 8, Incarnation: s.session.Incarnation()})
	if d := s.unsettled[id]; d == nil || !d.turn {
		t.Fatalf("its turn has come, and it is not owed: %+v", d)
	}
}
