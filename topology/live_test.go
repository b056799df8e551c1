package topology

import (
	"testing"

	"github.com/hence-dev/hence/sequencer"
)

func sampleLive() *Live {
	return &Live{Workspace: "default", Seq: 47, Tick: 12, Floor: 30, Truncated: true,
		Counts: LiveCounts{Open: 1, Waiting: 2, Sealed: 3, Decided: 4, Settling: 5, Orphans: 4, Sidecars: 2, Retractions: 1},
		Transactions: []LiveTx{{Tx: "tx-b", Agent: "agent-1", State: LiveSealed, Mode: "ordered", Epoch: 11, Base: 43,
			BeganTick: 9, DeadlineTick: 2409, Waits: []LiveWait{{Tx: "tx-a", Scope: "mail:/eu", Why: "held"}},
			Granted: []LiveHold{{Scope: "db:/1", Access: "write"}}, Claimed: []LiveHold{{Scope: "mail:/eu", Access: "write"}},
			Holds: 2, Gated: 1, Group: "plans", Owner: 5, Retraction: "tx-0"},
			{Tx: "tx-c", State: LiveDecided, Committed: true, Decision: 46, Code: sequencer.CodeConflict}},
		Sidecars: []LiveSidecar{{Agent: "agent-1", Incarnation: 5, LeaseLeft: 31, Watermark: 43, Lag: 4, Servers: 1}}}
}

// TestLiveStates holds the names of the phases, and that what is final is not live.
func TestLiveStates(t *testing.T) {
	for _, x := range []struct {
		tx   sequencer.TxState
		want LiveState
	}{
		{sequencer.TxState{Phase: sequencer.PhaseOpen}, LiveOpen},
		{sequencer.TxState{Phase: sequencer.PhaseOpen, Waiting: &sequencer.WaitingState{}}, LiveWaiting},
		{sequencer.TxState{Phase: sequencer.PhaseSealed}, LiveSealed},
		{sequencer.TxState{Phase: sequencer.PhaseCommitted, Owner: 3}, LiveSettling},
		{sequencer.TxState{Phase: sequencer.PhaseAborted}, LiveDecided},
		{sequencer.TxState{Phase: sequencer.PhaseRetracting, ID: "turn", Owner: 3}, LiveSettling},
		{sequencer.TxState{Phase: sequencer.PhaseRetracting, ID: "later", Owner: 3}, LiveDecided},
		{sequencer.TxState{Phase: sequencer.PhaseFinalCommitted}, ""},
		{sequencer.TxState{Phase: sequencer.PhaseRetracted}, ""},
	} {
		if got, live := liveState(&x.tx, "turn"); got != x.want || live != (x.want != "") {
			t.Errorf("phase %d: %q, want %q", x.tx.Phase, got, x.want)
		}
	}
}
