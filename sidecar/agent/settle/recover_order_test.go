package settle

import (
	"testing"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// What a sidecar says of calls that it has adopted counts also where it joined before the one that issued them: the
// order of events says nothing among several sidecars.
func TestMarksOfAnOlderSidecar(t *testing.T) {
	event := func(inc sequencer.Seq, kind topology.EventKind, step gate.Step, answer string) *topology.Event {
		return &topology.Event{Kind: kind, Workspace: "w", Tx: "a.7.1", Incarnation: inc, Index: 1,
			Effect: &topology.EffectText{Class: sequencer.ClassIrreversible, Tool: "mail", Key: "k", Step: uint8(step),
				Answer: []byte(answer)}}
	}
	for _, inc := range []sequencer.Seq{5, 9} {
		events := topology.Effects([]*topology.Event{
			event(7, topology.EventEffect, 0, ""),
			event(inc, topology.EventAnswer, gate.StepAnswered, `{"result":1}`),
		}, "w", "a.7.1")
		got := must((&policy{}).FromLog("a.7.1", events))(t)
		if len(got) != 1 || !got[0].Ran() {
			t.Errorf("released by %d: %+v", inc, got)
		}
	}
}
