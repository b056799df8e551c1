package settle

import (
	"testing"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
)

// A call of this process that was broken off may still land: its settlement, under whichever lease it is made, does
// not take the call for landed without a wait.
func TestBrokenOffMayLand(t *testing.T) {
	s := alone(t)
	inc := s.session.Incarnation()
	s.formers.Entered(inc)
	call := gate.Progress{Effect: gate.Effect{Tx: "a.1.1", Incarnation: inc, Tool: gate.Tool{MaxTime: time.Second}}}
	begun := call
	begun.Started = true
	for claim, want := range map[gate.Claim]bool{gate.ClaimOwn: false, gate.ClaimSuccessor: false} {
		effects := []gate.Progress{begun, call}
		if s.mustWait(&unsettled{tx: "a.1.1"}, effects, claim) {
			t.Errorf("%v: it waits", claim)
		}
		if effects[0].Waited != want || !effects[1].Waited {
			t.Errorf("%v: landed: %v, never begun: %v", claim, effects[0].Waited, effects[1].Waited)
		}
	}
	begun.Incarnation = sequencer.Seq(0) // of a process before this one: the settlement itself is held back
	d := &unsettled{tx: "a.1.1"}
	if !s.mustWait(d, []gate.Progress{begun}, gate.ClaimSuccessor) {
		t.Error("a call of a former process is not waited for")
	}
}
