package console

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// step is an event about a held call.
func step(tx string, index uint64, s gate.Step, detail, answer string) *topology.Event {
	ev := event(topology.EventAnswer, tx, index, int64(index))
	ev.Effect = &topology.EffectText{Step: uint8(s), Detail: detail}
	if answer != "" {
		ev.Effect.Answer = []byte(answer)
	}
	return ev
}

// TestHeldCallsStand holds that a call is released only where its sink, or a clean settlement, says so, not_sent only
// where its owner says so, and releasing only while an owner is at it.
func TestHeldCallsStand(t *testing.T) {
	unsent := func(i uint64) *topology.Event { return step("a.1.1", i, gate.StepNotSent, "it did not leave", "") }
	for _, c := range []struct {
		name    string
		residue bool // the settlement left some
		before  []*topology.Event
		after   []*topology.Event // heard once it is settled
		want    string
	}{
		{"clean", false, nil, nil, effectReleased},
		{"nothing heard", true, nil, nil, effectUnknown},
		{"a try that did not leave", true, []*topology.Event{step("a.1.1", 2, gate.StepNotSent, "", "")}, nil,
			effectUnknown},
		{"not sent", true, []*topology.Event{unsent(2)}, nil, effectNotSent},
		{"not sent, heard late", true, nil, []*topology.Event{unsent(2)}, effectNotSent},
		{"answered, heard late", true, nil, []*topology.Event{step("a.1.1", 2, gate.StepAnswered, "", `{}`)},
			effectReleased},
		{"sent by the next owner", true, []*topology.Event{unsent(2), step("a.1.1", 3, gate.StepAnswered, "", `{}`)}, nil,
			effectReleased},
		{"not sent, and released by a further try", false, []*topology.Event{unsent(2)}, nil, effectReleased},
		{"refused", true, []*topology.Event{step("a.1.1", 2, gate.StepAnswered, "", `{"refused":true}`)}, nil,
			effectRefused},
		{"retracted", true, []*topology.Event{unsent(2), step("a.1.1", 3, gate.StepDropped, "it is retracted", "")}, nil,
			effectNotSent},
		{"made by hand", true, []*topology.Event{unsent(2)}, []*topology.Event{
			step("a.1.1", 3, gate.StepStarted, "made by hand in a.1.9", ""),
			step("a.1.1", 4, gate.StepAnswered, "made by hand in a.1.9", `{}`)}, effectReleased},
		{"begun by hand", true, []*topology.Event{unsent(2)}, []*topology.Event{
			step("a.1.1", 3, gate.StepStarted, "made by hand in a.1.9", "")}, effectUnknown},
		{"not made by hand", true, []*topology.Event{unsent(2)}, []*topology.Event{
			step("a.1.1", 3, gate.StepStarted, "made by hand in a.1.9", ""),
			step("a.1.1", 4, gate.StepNotSent, "made by hand in a.1.9", "")}, effectNotSent},
		{"undone by hand", true, []*topology.Event{step("a.1.1", 2, gate.StepAnswered, "", `{}`)}, []*topology.Event{
			step("a.1.1", 3, gate.StepAnswered, "undone by hand in a.1.9", `{}`)}, effectUndone},
	} {
		work := &work{tx: "a.1.1", state: stateOpen}
		work.hear(held("a.1.1", 1, 1))
		commit := committed("a.1.1")
		commit.Final = false
		work.learn(commit, 1)
		if e := work.shown(work.effects[0], work.state); e.State != effectReleasing {
			t.Errorf("%s: after the commit it is %s", c.name, e.State)
		}
		if e := work.shown(work.effects[0], stateOrphan); e.State != effectHeld {
			t.Errorf("%s: without an owner it is %s", c.name, e.State)
		}
		idle := *work
		idle.effects = slices.Clone(work.effects)
		idle.hear(step("a.1.1", 2, gate.StepIssued, "it waits: no policy", ""))
		if e := idle.shown(idle.effects[0], idle.state); e.State != effectHeld || e.Detail != "it waits: no policy" {
			t.Errorf("%s: without a policy it is %s: %s", c.name, e.State, e.Detail)
		}
		for _, ev := range c.before {
			work.hear(ev)
		}
		settled := &sequencer.Outcome{Kind: sequencer.OutcomeSettled, Tx: "a.1.1", Final: true}
		if c.residue {
			settled.Residue = []sequencer.TxID{"a.1.1"}
		}
		work.learn(settled, 2)
		for _, ev := range c.after {
			work.hear(ev)
		}
		if got := work.effects[0].State; got != c.want {
			t.Errorf("%s: it is %s, want %s", c.name, got, c.want)
		}
	}
}

// TestOrphansCallIsHeld holds that the page does not say of a call without an owner that it is being released, and
// names one that was not sent.
func TestOrphansCallIsHeld(t *testing.T) {
	w := newWorld(t)
	w.source.mu.Lock()
	w.source.live = topology.Live{Transactions: []topology.LiveTx{
		{Tx: "a.1.2", Agent: "a", State: topology.LiveDecided, Committed: true}}}
	w.source.mu.Unlock()
	now := time.Now().UnixMilli()
	one, two := committed("a.1.1"), committed("a.1.2")
	one.Final, two.Final = false, false
	w.source.add(nil, held("a.1.1", 1, now), held("a.1.2", 1, now))
	until(w, "/api/gate", func(v gateView) bool { return len(v.Held) == 2 })
	w.source.add([]*sequencer.Outcome{one, two})
	states := map[sequencer.TxID]string{}
	until(w, "/api/gate", func(v gateView) bool {
		for _, row := range v.Held {
			states[row.Tx] = row.State + " " + row.Effects[0].State
		}
		return states["a.1.1"] == "settling releasing" && states["a.1.2"] == "orphan held"
	})
	w.source.add([]*sequencer.Outcome{{Kind: sequencer.OutcomeSettled, Tx: "a.1.1", Agent: "a", Final: true,
		Residue: []sequencer.TxID{"a.1.1"}}}, step("a.1.1", 2, gate.StepNotSent, "it did not leave: away", ""))
	until(w, "/api/gate", func(v gateView) bool {
		return len(v.Passed) == 1 && v.Passed[0].Effects[0].State == effectNotSent
	})
	const want = "Its calls: 1 not sent. Call 0, mail.send, was not sent: away."
	if r := get[Report](w, "/api/tx/a.1.1"); !strings.Contains(r.Paragraph, want) {
		t.Errorf("it is told by %q", r.Paragraph)
	}
}
