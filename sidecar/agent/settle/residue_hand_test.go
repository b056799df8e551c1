package settle

import (
	"testing"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/topology"
)

// Tries by hand are read alike from records of the former release, which said so in a text only, and of this one.
func TestTriesByHandOfBothReleases(t *testing.T) {
	call, undo := topology.ByHand{In: "b.7.1"}, topology.ByHand{In: "b.7.2", Undo: true}
	event := func(by topology.ByHand, typed bool, step gate.Step, answer string) *topology.Event {
		e := &topology.EffectText{Index: 1, Step: uint8(step), Detail: by.Text(), Answer: []byte(answer)}
		if typed {
			e.ByHand = &by
		}
		return &topology.Event{Kind: topology.EventAnswer, Tx: "a.1.1", Effect: e}
	}
	for _, typed := range []bool{false, true} {
		p := gate.Progress{Effect: gate.Effect{Tx: "a.1.1", Index: 1}}
		by, err := madeByHand(&p, []*topology.Event{
			event(call, typed, gate.StepStarted, ""), event(call, !typed, gate.StepAnswered, "{}"),
			event(undo, typed, gate.StepStarted, ""), event(undo, typed, gate.StepAnswered, "{}"),
		})
		if err != nil {
			t.Fatal(err)
		}
		if !by.tried || len(by.in) != 1 || by.in[0] != call.In || by.undone == nil || !p.Ran() {
			t.Errorf("typed %v: %+v of %+v", typed, by, p)
		}
		p = gate.Progress{Effect: p.Effect}
		if by, err = madeByHand(&p, []*topology.Event{event(call, typed, gate.StepStarted, "")}); err != nil {
			t.Fatal(err)
		}
		if !p.Started || p.Answer != nil || len(by.in) != 1 {
			t.Errorf("typed %v: of a try that nobody answered %+v is known, %+v", typed, p, by)
		}
	}
}
