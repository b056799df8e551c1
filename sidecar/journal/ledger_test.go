package journal

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/topology"
)

func told(t *testing.T, l *Ledger, kind byte, v any) {
	t.Helper()
	if err := l.apply(append([]byte{kind}, must(json.Marshal(v))(t)...)); err != nil {
		t.Fatal(err)
	}
}

// What a start has not found in the log stays so through a rewriting of the journal, whatever the transaction had. Of
// what the log may still say something is looked for again.
func TestNowhereStays(t *testing.T) {
	l := newLedger()
	told(t, l, RecordJoined, JoinedRecord{Agent: "a", Workspace: "default", Incarnation: 3})
	for _, id := range []sequencer.TxID{"a.3.1", "a.3.2", "a.3.3"} {
		told(t, l, RecordBegun, TxRecord{Tx: id, Incarnation: 3, Base: 2})
		told(t, l, recordEffect, gate.Progress{Effect: gate.Effect{Tx: id}})
		told(t, l, RecordSealed, DecidedRecord{Tx: id, Calls: 1})
	}
	told(t, l, RecordDecided, DecidedRecord{Tx: "a.3.2", State: "aborted"}) // by the view alone
	told(t, l, RecordJoined, JoinedRecord{Agent: "a", Workspace: "default", Incarnation: 9,
		Nowhere: []sequencer.TxID{"a.3.1", "a.3.2", "a.3.0"}})
	again := newLedger()
	for _, r := range must(l.Records())(t) {
		if err := again.apply(append([]byte{r.Kind}, r.Body...)); err != nil {
			t.Fatal(err)
		}
	}
	for id, want := range map[sequencer.TxID]bool{"a.3.1": true, "a.3.2": true, "a.3.3": false} {
		if now, rewritten := l.Txs[id].Vain(9), again.Txs[id].Vain(9); now != want || rewritten != want {
			t.Errorf("%s: the log has nothing to tell: %v, rewritten %v, want %v", id, now, rewritten, want)
		}
	}
}

// rewritten is what a rewritten journal of a ledger comes to.
func rewritten(t *testing.T, l *Ledger) *Ledger {
	t.Helper()
	again := newLedger()
	for _, r := range must(l.Records())(t) {
		if err := again.apply(append([]byte{r.Kind}, r.Body...)); err != nil {
			t.Fatal(err)
		}
	}
	return again
}

// What an answer saved for its compensation is kept until the events have the answer, of any size, also by a rewritten
// journal and beyond the bound of what is remembered. Then it goes, and is not told again.
func TestSavedIsKeptUntilTold(t *testing.T) {
	for name, size := range map[string]int{"small": 10, "large": 2 * InlineArgs} {
		l := newLedger()
		saved := json.RawMessage(`"` + strings.Repeat("s", size) + `"`)
		settled := func(id sequencer.TxID) {
			told(t, l, RecordBegun, TxRecord{Tx: id, Incarnation: 3})
			told(t, l, recordEffect, gate.Progress{Effect: gate.Effect{Tx: id, Args: json.RawMessage("{}")}})
			told(t, l, recordMark, gate.Mark{Tx: id, Step: gate.StepAnswered, Answer: &gate.Answer{Saved: saved}})
			told(t, l, RecordDecided, DecidedRecord{Tx: id, State: "committed", Seq: 9})
			told(t, l, RecordSettled, DecidedRecord{Tx: id})
		}
		tell := func(l *Ledger, hand *topology.ByHand) {
			l.event(&topology.Event{Kind: topology.EventAnswer, Tx: "a.3.1",
				Effect: &topology.EffectText{Step: uint8(gate.StepAnswered), ByHand: hand}})
		}
		has := func(l *Ledger, when string, want int) {
			t.Helper()
			p, untold := l.progress("a.3.1", 0), (&Journal{Ledger: l}).Untold()
			if (len(p.Answer.Saved) > 0) != (want > 0) || len(untold) != want || p.Args != nil {
				t.Errorf("%s, %s: %d bytes are saved, %d to tell", name, when, len(p.Answer.Saved), len(untold))
			}
		}
		settled("a.3.1")
		has(l, "settled", 1)
		tell(l, &topology.ByHand{})
		has(l, "tried by hand", 1)
		again := rewritten(t, l)
		has(again, "rewritten", 1)
		tell(again, nil)
		has(again, "told", 0)
		has(rewritten(t, again), "told and rewritten", 0)
		for i := range keptDecided + 8 {
			settled(sequencer.TxID(fmt.Sprint("a.3.", i+2)))
			l.event(&topology.Event{Kind: topology.EventAnswer, Tx: sequencer.TxID(fmt.Sprint("a.3.", i+2)),
				Effect: &topology.EffectText{Step: uint8(gate.StepAnswered)}})
		}
		if has(l, "long ago", 1); len(l.Decided) != keptDecided {
			t.Errorf("%s: %d are remembered", name, len(l.Decided))
		}
	}
}

// A rewritten journal of an older release does not say which answers are told: a small one was dropped as told, or is,
// and a large one is told again.
func TestUntoldOfAnOlderRelease(t *testing.T) {
	l := newLedger()
	told(t, l, RecordBegun, TxRecord{Tx: "a.3.1", Incarnation: 3})
	for i, size := range []int{10, 2 * InlineArgs} {
		told(t, l, recordEffect, gate.Progress{Effect: gate.Effect{Tx: "a.3.1", Index: uint32(i)},
			Answer: &gate.Answer{Saved: json.RawMessage(`"` + strings.Repeat("s", size) + `"`)}})
	}
	if got := (&Journal{Ledger: l}).Untold(); len(got) != 1 || got[0].Index != 1 {
		t.Errorf("to be told: %+v", got)
	}
}

// What no later start needs goes: with the second session after it what the log has nothing of, unless a key names it
// whose request is not answered, and with the next one what was adopted from others. What is still to be told, or is
// the agent's own, stays.
func TestVainIsDropped(t *testing.T) {
	l := newLedger()
	join := func(seq sequencer.Seq, nowhere ...sequencer.TxID) {
		told(t, l, RecordJoined, JoinedRecord{Agent: "a", Workspace: "default", Incarnation: seq, Nowhere: nowhere})
	}
	join(3)
	for _, id := range []sequencer.TxID{"a.3.1", "a.3.2", "a.3.3", "a.3.4", "a.3.5"} {
		told(t, l, RecordBegun, TxRecord{Tx: id, Incarnation: 3})
	}
	for _, id := range []sequencer.TxID{"a.3.2", "a.3.3"} { // the log is found to have the second one
		told(t, l, recordEffect, gate.Progress{Effect: gate.Effect{Tx: id}})
		told(t, l, RecordSealed, DecidedRecord{Tx: id, Calls: 1})
	}
	told(t, l, RecordDecided, DecidedRecord{Tx: "a.3.5", State: "aborted"}) // by the view alone
	told(t, l, RecordKey, KeyRecord{Key: "k", Request: make([]byte, 32), Tx: "a.3.4"})
	told(t, l, RecordKey, KeyRecord{Key: "done", Request: make([]byte, 32), Tx: "a.3.1", Done: true})
	for _, id := range []sequencer.TxID{"b.2.1", "b.2.2", "a.1.1"} {
		told(t, l, recordEffect, gate.Progress{Effect: gate.Effect{Tx: id, Incarnation: 2}})
	}
	told(t, l, recordMark, gate.Mark{Tx: "b.2.2", Step: gate.StepAnswered, Answer: &gate.Answer{}})
	is := func(want ...sequencer.TxID) {
		t.Helper()
		if got := slices.Sorted(maps.Keys(l.Txs)); !slices.Equal(got, want) {
			t.Errorf("kept are %v, want %v", got, want)
		}
	}
	join(9, "a.3.2", "a.3.5")
	is("a.1.1", "a.3.1", "a.3.2", "a.3.3", "a.3.4", "a.3.5", "b.2.2")
	join(12)
	if is("a.1.1", "a.3.3", "a.3.4", "b.2.2"); len(l.Decided) != 0 {
		t.Errorf("decided are %v", l.Decided)
	}
	l.event(&topology.Event{Kind: topology.EventAnswer, Tx: "b.2.2",
		Effect: &topology.EffectText{Step: uint8(gate.StepAnswered)}})
	l.keys = keyring{keys: noKeys{}} // the key was forgotten
	join(15)
	is("a.1.1", "a.3.3")
}

type noKeys struct{}

func (noKeys) Records() ([]Entry, error)           { return nil, nil }
func (noKeys) Unanswered() map[sequencer.TxID]bool { return nil }

// A transaction in which an agent may have acted by itself is not forgotten before it is settled.
func TestForgetKeepsOwnActs(t *testing.T) {
	for name, own := range map[string]*OwnRecord{
		"handed over": {Scopes: []sequencer.Scope{"order:/1"}},
		"told":        {Told: &sequencer.Settle{NoneElse: true}},
	} {
		l := newLedger()
		put := func(kind byte, v any) {
			t.Helper()
			body := must(json.Marshal(v))(t)
			if err := l.apply(append([]byte{kind}, body...)); err != nil {
				t.Fatal(err)
			}
		}
		own.Tx = "a.3.1"
		put(RecordBegun, &TxRecord{Tx: own.Tx, Incarnation: 3})
		put(RecordOwn, own)
		put(RecordDecided, &DecidedRecord{Tx: own.Tx, State: api.StateAborted})
		for i := range keptDecided + 8 {
			id := sequencer.TxID(fmt.Sprintf("a.3.%d", i+2))
			put(RecordBegun, &TxRecord{Tx: id, Incarnation: 3})
			put(RecordDecided, &DecidedRecord{Tx: id, State: api.StateAborted})
		}
		if t1 := l.Txs[own.Tx]; t1 == nil || len(t1.Own) != len(own.Scopes) || t1.Told != own.Told && t1.Told == nil {
			t.Errorf("%s: %+v", name, t1)
		}
		if len(l.Decided) != keptDecided {
			t.Errorf("%s: %d are kept", name, len(l.Decided))
		}
		put(RecordSettled, &DecidedRecord{Tx: own.Tx})
		for i := range keptDecided {
			id := sequencer.TxID(fmt.Sprintf("a.4.%d", i))
			put(RecordBegun, &TxRecord{Tx: id, Incarnation: 4})
			put(RecordDecided, &DecidedRecord{Tx: id, State: api.StateAborted})
		}
		if slices.Contains(l.Decided, own.Tx) || l.Txs[own.Tx] != nil {
			t.Errorf("%s: it is settled, and still kept", name)
		}
	}
}

// TestLedgerKeepsClean holds that a restart knows of a settlement that it left no residue; an older record says
// nothing of it.
func TestLedgerKeepsClean(t *testing.T) {
	for _, clean := range []bool{true, false} {
		l := newLedger()
		l.begin(&TxRecord{Tx: "a.1.1", Incarnation: 1})
		l.decide(l.Txs["a.1.1"], &DecidedRecord{Tx: "a.1.1", State: "committed", Seq: 2})
		if err := l.move(RecordSettled, &DecidedRecord{Tx: "a.1.1", Clean: clean}); err != nil {
			t.Fatal(err)
		}
		again := newLedger()
		for _, r := range must(l.Records())(t) {
			if err := again.apply(append([]byte{r.Kind}, r.Body...)); err != nil {
				t.Fatal(err)
			}
		}
		if d := again.Txs["a.1.1"].Decided; !d.Final || d.Clean != clean {
			t.Errorf("clean %v: read again it is %+v", clean, d)
		}
	}
}

// A journal keeps loose reads by conversation; one from before there were any is of the default one.
func TestConversationsInTheJournal(t *testing.T) {
	l := newLedger()
	apply := func(l *Ledger, kind byte, v any) {
		t.Helper()
		body := must(json.Marshal(v))(t)
		if err := l.apply(append([]byte{kind}, body...)); err != nil {
			t.Fatal(err)
		}
	}
	read := func(talk string, scope sequencer.Scope) {
		t.Helper()
		body := must(topology.EncodeEvent(&topology.Event{Kind: topology.EventRead, Workspace: "default", Agent: "a",
			Incarnation: 3, Scope: scope, View: 7, Session: talk}))(t)
		if err := l.apply(append([]byte{recordEvent}, body...)); err != nil {
			t.Fatal(err)
		}
	}
	apply(l, RecordLoose, []sequencer.Read{{Scope: "shard:/old", View: 5}})
	read("p", "shard:/p")
	read("q", "shard:/q")
	read("", "shard:/d")
	apply(l, RecordBegun, &TxRecord{Tx: "a.3.1", Incarnation: 3, Begin: sequencer.Begin{Session: "p"}})
	apply(l, RecordSealed, &DecidedRecord{Tx: "a.3.1"})
	read("p", "shard:/p2")
	apply(l, RecordReopened, &DecidedRecord{Tx: "a.3.1"})
	apply(l, RecordTalk, TalkRecord{Session: "q"})
	again := newLedger()
	for _, r := range must(l.Records())(t) {
		if err := again.apply(append([]byte{r.Kind}, r.Body...)); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range []*Ledger{l, again} {
		got := map[string][]string{}
		for talk, reads := range l.Loose {
			for _, r := range reads {
				got[talk] = append(got[talk], string(r.Scope))
			}
		}
		want := map[string][]string{"": {"shard:/old", "shard:/d"}, "p": {"shard:/p", "shard:/p2"}}
		if !maps.EqualFunc(got, want, func(a, b []string) bool { return reflect.DeepEqual(a, b) }) {
			t.Errorf("loose reads %v, wanted %v", got, want)
		}
	}
}

// The loose reads that a seal took are with its transaction until the log has decided it: a refusal that only the view
// gave is in no log, its request may come again, and what that makes has to carry them.
func TestLooseReadsOfARefusal(t *testing.T) {
	for seq, want := range map[sequencer.Seq]int{0: 1, 9: 0} {
		l := newLedger()
		apply := func(kind byte, body any) {
			t.Helper()
			if err := l.apply(append([]byte{kind}, must(json.Marshal(body))(t)...)); err != nil {
				t.Fatal(err)
			}
		}
		apply(RecordLoose, []sequencer.Read{{Scope: "shard:/s", View: 5}})
		apply(RecordBegun, &TxRecord{Tx: "a.3.1", Incarnation: 3})
		apply(RecordSealed, &DecidedRecord{Tx: "a.3.1"})
		apply(RecordDecided, &DecidedRecord{Tx: "a.3.1", State: "aborted", Seq: seq})
		again := newLedger()
		for _, r := range must(l.Records())(t) {
			if err := again.apply(append([]byte{r.Kind}, r.Body...)); err != nil {
				t.Fatal(err)
			}
		}
		for name, l := range map[string]*Ledger{"as written": l, "written anew": again} {
			if got := len(l.Txs["a.3.1"].Loose); got != want || len(l.Loose) != 0 {
				t.Errorf("%s, decided at %d: the transaction has %d loose reads, want %d", name, seq, got, want)
			}
		}
	}
}

// The oldest of too many conversations is told again, never left in silence; a journal says the same as the session,
// also one from before there were conversations.
func TestToldConversationsAreBounded(t *testing.T) {
	record := func(l *Ledger, r string) {
		t.Helper()
		if err := l.apply([]byte(string(byte(RecordNotice)) + r)); err != nil {
			t.Fatal(err)
		}
	}
	l := newLedger()
	if record(l, `{"Owed":true}`); !l.Notice.Owed || len(l.Notice.Told) != 0 {
		t.Fatalf("an older record: %+v", l.Notice)
	}
	for i := range keptTold + 2 {
		record(l, fmt.Sprintf(`{"Owed":true,"Told":["c%d"]}`, i))
	}
	again := newLedger()
	for _, r := range must(l.Records())(t) {
		if err := again.apply(append([]byte{r.Kind}, r.Body...)); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range []*Ledger{l, again} {
		n := l.Notice
		if !n.Owed || len(n.Told) != keptTold || len(n.Order) != keptTold || n.Told["c1"] || !n.Told["c2"] {
			t.Errorf("owed %v, %d told, c1 %v, c2 %v", n.Owed, len(n.Told), n.Told["c1"], n.Told["c2"])
		}
	}
	if record(l, `{"Owed":true}`); len(l.Notice.Told) != 0 {
		t.Errorf("a further loss: %d are told already", len(l.Notice.Told))
	}
	if record(l, `{"Owed":false}`); l.Notice.Owed {
		t.Error("an older release told its agent, and it is still owed")
	}
}

// What the ledger has of records that this process has made is what a start reads of them, and shares nothing with
// what they were made of.
func TestLedgerTakesWhatIsWritten(t *testing.T) {
	dir := t.TempDir()
	d := opened(t, dir, nil, 8<<20)
	reads := make([]sequencer.Read, 1, 8)
	reads[0] = sequencer.Read{Scope: "shard:/a", View: 4}
	may := []sequencer.Want{{Scope: "db:/x", Access: sequencer.WriteAccess}}
	begun := &TxRecord{Tx: "a.3.1", Incarnation: 3, Base: 4, Begin: sequencer.Begin{Session: "talk", May: may},
		Reads: reads}
	decided := &DecidedRecord{Tx: "a.3.1", State: "committed", Seq: 9, Scope: "shard:/a", Detail: "<done>"}
	for _, r := range []struct {
		kind byte
		v    any
	}{
		{RecordBegun, begun}, {RecordSealed, &DecidedRecord{Tx: "a.3.1"}}, {RecordReopened, &DecidedRecord{Tx: "a.3.1"}},
		{RecordSealed, &DecidedRecord{Tx: "a.3.1"}}, {RecordDecided, decided}, {recordShared, &DecidedRecord{Tx: "a.3.1"}},
		{RecordSettled, &DecidedRecord{Tx: "a.3.1", Clean: true}},
		{RecordBegun, &TxRecord{Tx: "a.3.2", Incarnation: 3}}, {RecordSealed, &DecidedRecord{Tx: "a.3.2"}},
	} {
		must(0, d.Record(r.kind, r.v))(t)
	}
	ev := &topology.Event{Kind: topology.EventRead, Workspace: "default", Tx: "a.3.1", Scope: "shard:/b", View: 5}
	must(0, d.Event(ev, nil))(t)
	reads[0].Scope, may[0].Scope, decided.Detail = "shard:/z", "db:/z", "changed"
	if next := reads[:2][1]; next.Scope != "" {
		t.Errorf("the ledger has put %s into its caller's list", next.Scope)
	}
	had := must(d.Ledger.Records())(t)
	must(0, d.Close())(t)
	d = opened(t, dir, nil, 8<<20)
	read := must(d.Ledger.Records())(t)
	must(0, d.Close())(t)
	if !reflect.DeepEqual(had, read) {
		t.Errorf("the ledger had\n%s\nand a start reads\n%s", shown(had), shown(read))
	}
}

func shown(entries []Entry) string {
	var out strings.Builder
	for _, e := range entries {
		fmt.Fprintf(&out, "%c %s\n", e.Kind, e.Body)
	}
	return out.String()
}

// TestCallsAreReplaced holds that of two calls with one index the last counts, as the former never ran, and that the
// others keep their places.
func TestCallsAreReplaced(t *testing.T) {
	l := newLedger()
	told(t, l, RecordBegun, &TxRecord{Tx: "a.3.1", Incarnation: 3})
	for i, index := range []uint32{1, 0, 1, 0} {
		told(t, l, recordEffect, &gate.Progress{Effect: gate.Effect{Tx: "a.3.1", Index: index,
			Tool: gate.Tool{Name: fmt.Sprint("t", i)}, Args: json.RawMessage("{}")}})
	}
	var names []string
	calls, _ := l.effectsOf("a.3.1")
	for _, p := range calls {
		names = append(names, p.Tool.Name)
	}
	if !slices.Equal(names, []string{"t3", "t2"}) {
		t.Errorf("kept are %v", names)
	}
}

// TestOwnOf holds that what an agent did by itself is known until it is forgotten, and of no other transaction.
func TestOwnOf(t *testing.T) {
	d := New(nil, 1, 1<<20, nil)
	own := &OwnRecord{Tx: "a.3.1", Scopes: []sequencer.Scope{"order:/1"}, Told: &sequencer.Settle{NoneElse: true}}
	told(t, d.Ledger, RecordBegun, &TxRecord{Tx: own.Tx, Incarnation: 3})
	told(t, d.Ledger, RecordOwn, own)
	if scopes, settle := d.OwnOf(own.Tx); !slices.Equal(scopes, own.Scopes) || settle == nil {
		t.Errorf("%v, %v", scopes, settle)
	}
	if scopes, settle := d.OwnOf("a.3.2"); scopes != nil || settle != nil {
		t.Errorf("of another: %v, %v", scopes, settle)
	}
}
