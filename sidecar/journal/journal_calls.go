package journal

import (
	"encoding/json"
	"fmt"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/topology"
)

// CallsIn folds a transaction's events into what is known of its calls; effect makes a call of its event, and what skip
// holds for is not about a call's first life. Of two calls with one index the last counts: the former never ran. What
// others say of them comes after what their issuer says, also where they joined before it.
func CallsIn(id sequencer.TxID, events []*topology.Event, effect func(*topology.Event) gate.Effect,
	skip func(*topology.Event) bool) ([]gate.Progress, error) {
	t := &TxRecord{}
	_, issuer, _, _ := api.OwnerOf(id)
	var own, others []*topology.Event
	for _, ev := range events {
		if ev.Incarnation == issuer {
			own = append(own, ev)
		} else {
			others = append(others, ev)
		}
	}
	for _, ev := range append(own, others...) {
		if ev.Effect == nil || ev.Tx != id || skip(ev) {
			continue
		}
		if ev.Kind == topology.EventEffect {
			t.put(&gate.Progress{Effect: effect(ev)})
			continue
		}
		if err := t.marked(ev); err != nil {
			return nil, err
		}
	}
	out := make([]gate.Progress, 0, len(t.effects))
	for _, p := range t.effects {
		out = append(out, *p)
	}
	return out, nil
}

// marked takes over what an event says of a call.
func (t *TxRecord) marked(ev *topology.Event) error {
	x := ev.Effect
	at := t.effect(x.Index)
	if at < 0 {
		return nil
	}
	m := gate.Mark{Tx: ev.Tx, Index: x.Index, Step: gate.Step(x.Step), Detail: x.Detail}
	if len(x.Answer) > 0 {
		m.Answer = &gate.Answer{}
		if err := json.Unmarshal(x.Answer, m.Answer); err != nil {
			return fmt.Errorf("read an answer of %s, call %d: %w", ev.Tx, x.Index, err)
		}
	}
	if t.withdraws(at, m) {
		t.effects = t.effects[:at]
		return nil
	}
	t.effects[at].Apply(m)
	return nil
}
