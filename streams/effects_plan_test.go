package streams

import (
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// The first planned call may never come: on a shortened topic its plan shows that the events are all there. A plan
// behind other calls does not.
func TestPlanBeginsWhole(t *testing.T) {
	call := func(index uint32) *topology.Event {
		return &topology.Event{Kind: topology.EventEffect,
			Effect: &topology.EffectText{Index: index, Class: sequencer.ClassIrreversible}}
	}
	plan := func(first uint32) *topology.Event {
		return &topology.Event{Kind: topology.EventPlan, Plan: &topology.Plan{First: first, Calls: []string{"a", "b", "c"}}}
	}
	for _, c := range []struct {
		what   string
		events []*topology.Event
		whole  bool
	}{
		{"from its plan on", []*topology.Event{plan(0), call(2)}, true},
		{"no call came", []*topology.Event{plan(0)}, true},
		{"a later plan", []*topology.Event{plan(1), call(2)}, false},
		{"a later plan and the first call", []*topology.Event{call(0), plan(1), call(2)}, true},
		{"a later plan of which no call came", []*topology.Event{plan(1)}, false},
		{"without its plan", []*topology.Event{call(2)}, false},
	} {
		if got := beginsWhole(c.events, false); got != c.whole {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}
