package journal

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// Calls of a plan come in any order and are kept by index; one that was taken back leaves its index, wherever that is;
// what a seal names as absent is none of the transaction's calls. A rewritten journal says the same.
func TestPlannedCalls(t *testing.T) {
	l := newLedger()
	told(t, l, RecordBegun, &TxRecord{Tx: "a.3.1", Incarnation: 3})
	plan := &topology.Event{Kind: topology.EventPlan, Workspace: "default", Tx: "a.3.1", Agent: "a", Incarnation: 3,
		Index: 1, Plan: &topology.Plan{First: 1, Calls: []string{"b", "c", "d", "e"}}}
	if err := l.apply(append([]byte{recordEvent}, must(topology.EncodeEvent(plan))(t)...)); err != nil {
		t.Fatal(err)
	}
	call := func(index uint32, class sequencer.Class) {
		told(t, l, recordEffect, &gate.Progress{Effect: gate.Effect{Tx: "a.3.1", Index: index,
			Tool: gate.Tool{Name: "t", Class: class}, Args: json.RawMessage("{}")}})
	}
	for _, index := range []uint32{3, 0, 4, 2, 1} {
		call(index, sequencer.ClassReversible)
	}
	told(t, l, recordMark, &gate.Mark{Tx: "a.3.1", Index: 2, Step: gate.StepDropped})
	call(2, sequencer.ClassBufferable) // the topic did not take it: the agent was told so
	indexes := func(l *Ledger) (out []uint32) {
		calls, _ := l.effectsOf("a.3.1")
		for _, p := range calls {
			out = append(out, p.Index)
		}
		return out
	}
	if got := indexes(l); !slices.Equal(got, []uint32{0, 1, 2, 3, 4}) {
		t.Errorf("kept are %v", got)
	}
	told(t, l, RecordSealed, &DecidedRecord{Tx: "a.3.1", Calls: 4, Absent: []uint32{2}})
	again := newLedger()
	for _, r := range must(l.Records())(t) {
		if err := again.apply(append([]byte{r.Kind}, r.Body...)); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range []*Ledger{l, again} {
		if got := indexes(l); !slices.Equal(got, []uint32{0, 1, 3}) {
			t.Errorf("sealed are %v", got)
		}
		if got := l.Txs["a.3.1"].Plan; !slices.Equal(got, []string{"", "b", "c", "d", "e"}) {
			t.Errorf("the plan is %q", got)
		}
	}
}
