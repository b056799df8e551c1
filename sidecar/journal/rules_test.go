package journal

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/topology"
)

// TestVain holds that a transaction has left nothing only where each of the things that it can leave is missing.
func TestVain(t *testing.T) {
	if one := (&TxRecord{Incarnation: 3}); !one.Vain(4) || one.Vain(3) {
		t.Error("what an earlier session began is vain, and what this one did is not")
	}
	for name, left := range map[string]TxRecord{
		"a seal": {Sealed: true}, "a decision": {Decided: &DecidedRecord{}}, "a call": {effects: []*gate.Progress{{}}},
		"an own act": {Own: []sequencer.Scope{"doc:/a"}}, "what it told": {Told: &sequencer.Settle{}},
		"another's": {Foreign: true},
	} {
		left.Incarnation = 3
		if left.Vain(4) {
			t.Errorf("%s is nothing", name)
		}
	}
}

// TestClaims holds what a journal says of its log: its joins as far back as something is left to do, and its
// decisions.
func TestClaims(t *testing.T) {
	l := newLedger()
	l.Joined.Incarnation = 10
	sealed := func(id sequencer.TxID, inc sequencer.Seq, d *DecidedRecord) *TxRecord {
		one := &TxRecord{Tx: id, Incarnation: inc, Sealed: true, Decided: d}
		l.Txs[id] = one
		return one
	}
	sealed("a.7.1", 7, nil)                                   // it may still be decided
	sealed("a.6.1", 6, &DecidedRecord{Seq: 20})               // it is to be settled
	sealed("a.5.1", 5, &DecidedRecord{Seq: 12, Final: true})  // nothing is left
	sealed("a.4.1", 4, nil).Foreign = true                    // another's
	l.Txs["a.3.1"] = &TxRecord{Tx: "a.3.1", Incarnation: 3}   // it left nothing
	sealed("a.8.1", 8, &DecidedRecord{State: "aborted here"}) // no decision of the log
	from, to, joins, decided := l.Claims()
	if from != 6 || to != 20 {
		t.Errorf("from %d to %d", from, to)
	}
	if got := slices.Sorted(maps.Keys(joins)); !slices.Equal(got, []sequencer.Seq{6, 7, 8, 10}) {
		t.Errorf("joins %v", got)
	}
	if got := slices.Sorted(maps.Keys(decided)); !slices.Equal(got, []sequencer.Seq{12, 20}) {
		t.Errorf("decided %v", got)
	}
}

// TestReadsAreOne holds which reads count as one, and that many of them become one of everything that refuses no less.
func TestReadsAreOne(t *testing.T) {
	a := sequencer.Read{Scope: "doc:/a", View: 5, Version: 3, Writer: "T3"}
	later, other := a, a
	later.View, other.Version = 9, 4
	b := sequencer.Read{Scope: "doc:/b", View: 4, Version: 3, Writer: "T3"}
	var reads []sequencer.Read
	for _, r := range []sequencer.Read{a, later, other, b} {
		reads = AddRead(reads, r)
	}
	if !slices.Equal(reads, []sequencer.Read{a, other, b}) {
		t.Errorf("%+v", reads)
	}
	if loose := addLoose(addLoose([]sequencer.Read{a}, b), other); !slices.Equal(loose, []sequencer.Read{other, b}) {
		t.Errorf("read again: %+v", loose)
	}
	newer := sequencer.Read{Scope: "doc:/c", View: 8, Version: 8, Writer: "T8"}
	if got := Together([]sequencer.Read{a, newer, b}); len(got) != 1 ||
		got[0] != (sequencer.Read{Scope: api.EveryShard, View: 4, Version: 4, Writer: "T8"}) {
		t.Errorf("together: %+v", got)
	}
	if Together(nil) != nil {
		t.Error("nothing is a read of everything")
	}
	many := make([]sequencer.Read, MaxLoose)
	if len(coarse(many)) != MaxLoose || len(coarse(append(many, a))) != 1 {
		t.Error("the bound of loose reads is another one")
	}
}

// TestMoves holds which records may speak of a transaction that was dropped, and what a settlement leaves.
func TestMoves(t *testing.T) {
	for kind, fine := range map[byte]bool{RecordDecided: true, RecordSettled: true, recordShared: true,
		RecordSealed: false, RecordReopened: false} {
		if err := newLedger().move(kind, &DecidedRecord{Tx: "a.1.1"}); (err == nil) != fine {
			t.Errorf("kind %c of an unknown transaction: %v", kind, err)
		}
	}
	l := newLedger()
	l.Txs["b.1.1"] = &TxRecord{Tx: "b.1.1", Foreign: true}
	l.begin(&TxRecord{Tx: "a.1.1", Incarnation: 1})
	told(t, l, RecordSettled, &DecidedRecord{Tx: "b.1.1"})
	if l.Txs["b.1.1"] != nil {
		t.Error("another's transaction is kept though it is settled")
	}
	told(t, l, RecordDecided, &DecidedRecord{Tx: "a.1.1", Seq: 2})
	told(t, l, RecordDecided, &DecidedRecord{Tx: "a.1.1", Seq: 2, Clean: true})
	told(t, l, RecordSettled, &DecidedRecord{Tx: "a.1.1"})
	if d := l.Txs["a.1.1"].Decided; !d.Final || !d.Clean || len(l.Decided) != 1 {
		t.Errorf("%+v of %v", d, l.Decided)
	}
}

// TestAwaited holds that only events of the session, up to the index, are known to be published.
func TestAwaited(t *testing.T) {
	l := newLedger()
	l.Pending = []*topology.Event{{Incarnation: 1, Index: 1}, {Incarnation: 1, Index: 2}, {Incarnation: 2, Index: 1}}
	l.published(publishedRecord{Incarnation: 1, Index: 1})
	if len(l.Pending) != 2 || !l.awaits(1) || !l.awaits(2) || l.awaits(3) {
		t.Errorf("%d wait", len(l.Pending))
	}
}

// TestCallsIn holds whose events say what of a transaction's calls: its issuer's first, others' behind, and of no
// other transaction. What cannot be read is an error.
func TestCallsIn(t *testing.T) {
	answer := must(json.Marshal(gate.Answer{Detail: "done"}))(t)
	event := func(tx sequencer.TxID, inc sequencer.Seq, kind topology.EventKind, x *topology.EffectText) *topology.Event {
		return &topology.Event{Tx: tx, Incarnation: inc, Kind: kind, Effect: x}
	}
	events := []*topology.Event{
		event("a.3.1", 9, topology.EventAnswer,
			&topology.EffectText{Index: 0, Step: uint8(gate.StepAnswered), Answer: answer}),
		event("a.3.1", 3, topology.EventEffect, &topology.EffectText{Index: 0}),
		event("a.3.1", 3, topology.EventEffect, &topology.EffectText{Index: 5}),
		event("a.3.2", 3, topology.EventEffect, &topology.EffectText{Index: 1}),
		event("a.3.1", 3, topology.EventAnswer, &topology.EffectText{Index: 7, Step: uint8(gate.StepAnswered)}),
		{Tx: "a.3.1", Incarnation: 3},
	}
	effect := func(ev *topology.Event) gate.Effect { return gate.Effect{Tx: ev.Tx, Index: ev.Effect.Index} }
	skip := func(ev *topology.Event) bool { return ev.Effect.Index == 5 }
	calls, err := CallsIn("a.3.1", events, effect, skip)
	if err != nil || len(calls) != 1 || calls[0].Answer == nil || calls[0].Answer.Detail != "done" {
		t.Errorf("%+v, %v", calls, err)
	}
	events[0].Effect.Answer = []byte("{")
	if _, err := CallsIn("a.3.1", events, effect, skip); err == nil {
		t.Error("an answer that cannot be read is passed over")
	}
}

// TestWithdrawnLate holds that a call which another owner has made to find out is not hidden by its issuer, which
// never ran it and says so later.
func TestWithdrawnLate(t *testing.T) {
	event := func(kind topology.EventKind, inc sequencer.Seq, step gate.Step, answer string) *topology.Event {
		return &topology.Event{Kind: kind, Tx: "a.3.1", Incarnation: inc, Effect: &topology.EffectText{
			Step: uint8(step), Answer: []byte(answer), Class: sequencer.ClassReversible, Key: "k"}}
	}
	effect := func(ev *topology.Event) gate.Effect {
		return gate.Effect{Tx: ev.Tx, Tool: gate.Tool{Class: ev.Effect.Class}, Key: ev.Effect.Key}
	}
	issued := event(topology.EventEffect, 3, 0, "")
	made := event(topology.EventAnswer, 9, gate.StepAnswered, `{"Result":"1"}`)
	withdrawn := event(topology.EventAnswer, 3, gate.StepDropped, "")
	for _, c := range []struct {
		events []*topology.Event
		calls  int
	}{{[]*topology.Event{issued, withdrawn}, 0}, {[]*topology.Event{issued, made, withdrawn}, 1}} {
		calls, err := CallsIn("a.3.1", c.events, effect, func(*topology.Event) bool { return false })
		if err != nil || len(calls) != c.calls {
			t.Errorf("%d events: %d calls, %v", len(c.events), len(calls), err)
		}
	}
}
