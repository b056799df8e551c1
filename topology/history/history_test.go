package history_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sequencer/anomaly"
	"github.com/hence-dev/hence/topology"
	"github.com/hence-dev/hence/topology/history"
	"github.com/hence-dev/hence/topology/trace"
)

// log is a workspace's log over the real fold: what it decides is what is exported.
type log struct {
	t        *testing.T
	fold     *sequencer.Replica
	intents  []*sequencer.Intent
	outcomes []sequencer.Outcome
	events   []*topology.Event
	agents   map[string]sequencer.Seq // their incarnations
}

func newLog(t *testing.T, agents ...string) *log {
	l := &log{t: t, fold: sequencer.NewReplica("w"), agents: map[string]sequencer.Seq{}}
	for _, agent := range agents {
		l.agents[agent] = l.do(&sequencer.Intent{Kind: sequencer.IntentJoin, N: 1, Agent: agent,
			Join: &sequencer.Join{ID: agent, Logic: sequencer.Logic}})
	}
	return l
}

// do appends an intent and returns the seq that the log has reached.
func (l *log) do(in *sequencer.Intent) sequencer.Seq {
	l.t.Helper()
	applied, err := l.fold.Apply(int64(len(l.intents)), in)
	if err != nil {
		l.t.Fatal(err)
	}
	l.intents = append(l.intents, in)
	for _, o := range applied.Outcomes { // what is repeated was read before
		if int(o.Seq) == len(l.outcomes)+1 {
			l.outcomes = append(l.outcomes, o)
		}
	}
	return l.now()
}

func (l *log) now() sequencer.Seq { return l.fold.Fold().Seq() }

// of is an intent of a transaction AGENT.N.
func (l *log) of(tx string, kind sequencer.IntentKind) *sequencer.Intent {
	agent, _, _ := strings.Cut(tx, ".")
	return &sequencer.Intent{Kind: kind, Tx: sequencer.TxID(tx), N: 1, Agent: agent, Incarnation: l.agents[agent],
		Base: l.agents[agent], Begin: &sequencer.Begin{}}
}

// seal seals a transaction in one record, and holds what is decided of it.
func (l *log) seal(tx string, want sequencer.OutcomeKind, s sequencer.Seal) sequencer.Seq {
	l.t.Helper()
	in := l.of(tx, sequencer.IntentSeal)
	in.Seal = &s
	l.do(in)
	return l.last(tx, want)
}

// last holds what was decided last of a transaction.
func (l *log) last(tx string, want sequencer.OutcomeKind) sequencer.Seq {
	l.t.Helper()
	for _, o := range slices.Backward(l.outcomes) {
		if string(o.Tx) == tx {
			if o.Kind != want {
				l.t.Fatalf("%s is %s (%s %s), not %s", tx, o.Kind, o.Code, o.Detail, want)
			}
			return o.Seq
		}
	}
	l.t.Fatalf("nothing is decided of %s", tx)
	return 0
}

// settle settles a transaction, clean.
func (l *log) settle(tx string, n uint32, effects ...sequencer.Settled) sequencer.Seq {
	l.t.Helper()
	in := l.of(tx, sequencer.IntentSettle)
	in.N, in.Begin, in.Settle = n, nil, &sequencer.Settle{Effects: effects, NoneElse: true}
	l.do(in)
	return l.last(tx, sequencer.OutcomeSettled)
}

// put is a write of a shard.
func put(scope, content string) sequencer.Seal {
	return sequencer.Seal{Shards: []sequencer.ShardWrite{{Scope: sequencer.Scope(scope), Type: "text/plain",
		Content: []byte(content)}}}
}

func read(scope string, view sequencer.Seq) sequencer.Read {
	return sequencer.Read{Scope: sequencer.Scope(scope), View: view}
}

// export is the history by operation, and what a check of it finds.
func (l *log) export() (map[string]trace.Record, *anomaly.Report) {
	l.t.Helper()
	all, h := l.history()
	return all, h.Check()
}

// history is the same before the check.
func (l *log) history() (map[string]trace.Record, *anomaly.History) {
	l.t.Helper()
	b := history.New(0)
	for _, in := range l.intents {
		b.ScanIntent(in)
	}
	for i := range l.outcomes {
		b.ScanDecision(&l.outcomes[i])
	}
	for _, ev := range l.events {
		b.Event(ev)
	}
	all, h, next := map[string]trace.Record{}, anomaly.NewHistory(0), 0
	for i := range l.outcomes {
		for o := &l.outcomes[i]; next < len(l.intents) && int64(next) <= o.Offset; next++ {
			b.Intent(int64(next), l.intents[next])
		}
		for _, r := range b.Decision(&l.outcomes[i]) {
			all[string(r.Txn)] = r
			if err := h.Add(r.Op(len(all))); err != nil {
				l.t.Fatal(err)
			}
		}
	}
	if b.Unread() != 0 {
		l.t.Errorf("%d operations have no footprint", b.Unread())
	}
	return all, h
}

// nobody is the writer of what was never written.
const nobody trace.Value = `"0:"`

func sum(content string) trace.Value {
	hash := sha256.Sum256([]byte(content))
	return trace.Text(hex.EncodeToString(hash[:]))
}

func values(pairs ...any) map[string]trace.Value {
	m := map[string]trace.Value{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1].(trace.Value)
	}
	return m
}

func (l *log) same(what string, got, want any) {
	l.t.Helper()
	if !reflect.DeepEqual(got, want) {
		l.t.Errorf("%s: %v, not %v", what, got, want)
	}
}

// certain lists the certain findings.
func certain(r *anomaly.Report) (kinds []string) {
	for _, f := range r.Findings {
		if f.Certain {
			kinds = append(kinds, f.Kind.String())
		}
	}
	return kinds
}

// TestReads: each cell has the time at which its call left, and the content that stood there.
func TestReads(t *testing.T) {
	l := newLog(t, "a", "b")
	one := l.seal("a.1", sequencer.OutcomeCommitted, put("shard:/x", "1"))
	large := put("shard:/y", "")
	large.Shards[0].Content, large.Shards[0].Ref = nil, &sequencer.Ref{Size: 5000, SHA256: sha256.Sum256([]byte("2"))}
	two := l.seal("a.2", sequencer.OutcomeCommitted, large)
	s := put("shard:/z", "3")
	s.Reads = []sequencer.Read{read("shard:/y", two), read("shard:/x", one), read("shard:/none", two), read("db:/q", two),
		read("shard:/x", two), read("shard:/none", one), read("shard:/p/*", two)}
	three := l.seal("b.1", sequencer.OutcomeCommitted, s)
	all, r := l.export()
	got := all["b.1"]
	l.same("reads", got.ReadSet, []string{"db:/q", "shard:/none", "shard:/p/*/**", "shard:/x", "shard:/y"})
	l.same("values", got.ReadValues, values("db:/q", nobody, "shard:/none", trace.Null, "shard:/x", sum("1"),
		"shard:/y", sum("2"), "shard:/p/*/**", nobody))
	l.same("time", got.ReadTime, uint64(one))
	l.same("times", got.ReadTimes, map[string]uint64{"db:/q": uint64(two), "shard:/p/*/**": uint64(two),
		"shard:/y": uint64(two)})
	l.same("write time", got.WriteTime, uint64(three))
	l.same("writes", got.WriteValues, values("shard:/z", sum("3")))
	l.same("preds", got.Preds, []trace.ID{"a.1", "a.2"})
	if certain(r) != nil {
		t.Errorf("it has %v", certain(r))
	}
}

// TestSubtree: a read of a subtree has a cell for each shard that it showed, for those that came since, and for the
// whole; a write below it writes that too.
func TestSubtree(t *testing.T) {
	l := newLog(t, "a", "b")
	l.seal("a.1", sequencer.OutcomeCommitted, put("shard:/d/1", "1"))
	at := l.seal("a.2", sequencer.OutcomeCommitted, put("shard:/d/2", "2"))
	observed := sequencer.Seal{Reads: []sequencer.Read{read("shard:/d", at)}}
	l.seal("a.3", sequencer.OutcomeCommitted, put("shard:/d/3", "3"))
	in := l.of("b.1", sequencer.IntentSeal)
	in.Begin.Observe, in.Seal = true, &observed
	l.do(in)
	l.last("b.1", sequencer.OutcomeCommitted)
	all, r := l.export()
	l.same("reads", all["b.1"].ReadValues, values("shard:/d", trace.Null, "shard:/d/1", sum("1"), "shard:/d/2", sum("2"),
		"shard:/d/3", trace.Null, "shard:/d/**", trace.Value(`"4:a.2"`)))
	l.same("writes", all["a.3"].WriteValues, values("shard:/d/3", sum("3"), "shard:/d/**", trace.Value(`"5:a.3"`)))
	l.same("findings", certain(r), []string{"A1", "A1"}) // the shard that came, and the whole
}

// TestObservedOverlap: two that never name the same scope meet in what both name.
func TestObservedOverlap(t *testing.T) {
	l := newLog(t, "a", "b")
	at := l.now()
	s := sequencer.Seal{Effects: []sequencer.Effect{{Class: sequencer.ClassBufferable, Tool: "t",
		Scopes: []sequencer.Scope{"db:/t"}}}}
	l.seal("a.1", sequencer.OutcomeCommitted, s)
	l.settle("a.1", 1, sequencer.Settled{Scopes: []sequencer.Scope{"db:/t"}})
	in := l.of("b.1", sequencer.IntentSeal)
	in.Begin.Observe, in.Seal = true, &sequencer.Seal{Reads: []sequencer.Read{read("db:/t/5", at)}}
	l.do(in)
	l.last("b.1", sequencer.OutcomeCommitted)
	all, r := l.export()
	l.same("writes", all["a.1"].WriteSet, []string{"db:/t", "db:/t/5"})
	l.same("the release", all["a.1#settled"].WriteSet, []string{"db:/t", "db:/t/5"})
	l.same("findings", certain(r), []string{"A1"})
}

// TestMerging: writes that merge are appends: two of them do not meet, and a reader of the whole sees both.
func TestMerging(t *testing.T) {
	l := newLog(t, "a", "b", "c")
	first := l.seal("a.1", sequencer.OutcomeCommitted, put("shard:/log", "0\n"))
	delta := func(text string) sequencer.Seal {
		s := put("shard:/log", text)
		s.Shards[0].Op = sequencer.OpAppend
		return s
	}
	l.seal("a.2", sequencer.OutcomeCommitted, delta("1\n"))
	at := l.seal("b.1", sequencer.OutcomeCommitted, delta("2\n"))
	l.seal("c.1", sequencer.OutcomeCommitted, sequencer.Seal{Reads: []sequencer.Read{read("shard:/log", at)}})
	all, r := l.export()
	l.same("the first", all["a.1"].WriteValues, values("shard:/log", sum("0\n"), "shard:/log/**",
		trace.Value(`"4:a.1"`)))
	l.same("a delta", all["b.1"].WriteValues, values("shard:/log#6", sum("2\n"), "shard:/log/**",
		trace.Value(`"6:b.1"`)))
	l.same("the reader", all["c.1"].ReadValues, values("shard:/log", sum("0\n"), "shard:/log/**",
		trace.Value(`"6:b.1"`)))
	if certain(r) != nil || first == 0 {
		t.Errorf("it has %v", certain(r))
	}
}

// TestTombstone: a reset writes null to each shard that was there, and to no other.
func TestTombstone(t *testing.T) {
	l := newLog(t, "a")
	for _, shard := range []string{"/d/1", "/d/2", "/e"} {
		l.seal("a"+strings.ReplaceAll(shard, "/", "."), sequencer.OutcomeCommitted, put("shard:"+shard, "1"))
	}
	at := l.seal("a.9", sequencer.OutcomeCommitted, sequencer.Seal{Shards: []sequencer.ShardWrite{{Scope: "shard:/d",
		Absent: true}}})
	l.seal("a.10", sequencer.OutcomeCommitted, sequencer.Seal{Reads: []sequencer.Read{read("shard:/d/1", at),
		read("shard:/e", at)}})
	all, r := l.export()
	l.same("the reset", all["a.9"].WriteValues, values("shard:/d/1", trace.Null, "shard:/d/2", trace.Null,
		"shard:/d/1/**", trace.Value(`"5:a.9"`)))
	l.same("behind it", all["a.10"].ReadValues, values("shard:/d/1", trace.Null, "shard:/e", sum("1"),
		"shard:/d/1/**", trace.Value(`"5:a.9"`)))
	if slices.Contains(certain(r), "A1") {
		t.Errorf("it has %v", certain(r))
	}
}

// TestRetraction: what is retracted is aborted, at the time at which it wrote, with all of its cone; what is put back
// is written by its turn.
func TestRetraction(t *testing.T) {
	l := newLog(t, "a", "b")
	l.seal("a.1", sequencer.OutcomeCommitted, put("shard:/x", "1"))
	two := l.seal("a.2", sequencer.OutcomeCommitted, put("shard:/x", "2"))
	s := put("shard:/y", "3")
	s.Reads = []sequencer.Read{read("shard:/x", two)}
	l.seal("b.1", sequencer.OutcomeCommitted, s)
	in := l.of("a.2", sequencer.IntentRetract)
	in.Begin = nil
	at := l.do(in)
	l.seal("b.2", sequencer.OutcomeCommitted, sequencer.Seal{Reads: []sequencer.Read{read("shard:/x", at),
		read("shard:/y", at)}})
	all, r := l.export()
	for _, tx := range []string{"a.2", "b.1"} {
		if r := all[tx]; r.TookEffect() || r.WriteTime == 0 {
			t.Errorf("%s stands, or has no time: %+v", tx, r)
		}
	}
	l.same("put back", all["a.2#retracted"].WriteValues, values("shard:/x", sum("1")))
	l.same("taken away", all["b.1#retracted"].WriteValues, values("shard:/y", trace.Null))
	l.same("behind it", all["b.2"].ReadValues, values("shard:/x", sum("1"), "shard:/y", trace.Null))
	if certain(r) != nil {
		t.Errorf("it has %v", certain(r))
	}
}

// TestAborted: what was refused is aborted at the seq of its abort, and its compensation is a write that brings the
// former writer back.
func TestAborted(t *testing.T) {
	l := newLog(t, "a", "b")
	touch := l.of("a.1", sequencer.IntentTouch)
	touch.Touch = &sequencer.Touch{Wants: []sequencer.Want{{Scope: "db:/q", Access: sequencer.WriteAccess}}}
	l.do(touch)
	abort := l.of("a.1", sequencer.IntentAbort)
	abort.Begin, abort.Abort = nil, &sequencer.Abort{Code: sequencer.CodeToolFailed}
	l.do(abort)
	at := l.last("a.1", sequencer.OutcomeAborted)
	settled := l.settle("a.1", 1, sequencer.Settled{Scopes: []sequencer.Scope{"db:/q"}})
	all, _ := l.export()
	got := all["a.1"]
	if got.TookEffect() || got.WriteTime != uint64(at) || !slices.Equal(got.WriteSet, []string{"db:/q"}) {
		t.Errorf("the aborted one is %+v", got)
	}
	l.same("its compensation", all["a.1#settled"].WriteValues, values("db:/q", nobody))
	l.same("at", all["a.1#settled"].WriteTime, uint64(settled))
}

// TestTools: a pin is a tool that was planned, and the registry at the commit says what has become of it.
func TestTools(t *testing.T) {
	for name, c := range map[string]struct {
		then string // what is registered at the commit: name and signature; empty: nothing
		want []string
	}{
		"there": {"t=1", nil}, "gone": {"u=1", []string{"A2"}}, "changed": {"t=2", []string{"A2"}},
		"withdrawn": {"", []string{"A2"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLog(t, "a")
			register := func(n uint64, tool string) {
				in := &sequencer.Intent{Kind: sequencer.IntentRegister, N: uint32(n), Agent: "a",
					Incarnation: l.agents["a"], Register: &sequencer.Register{Server: "s", Generation: n}}
				if tool == "" { // its tools count for nothing
					in.Kind = sequencer.IntentUnregister
					in.Register.Tools = []sequencer.Tool{{Name: "t", Signature: "1"}}
				} else {
					name, signature, _ := strings.Cut(tool, "=")
					in.Register.Tools = []sequencer.Tool{{Name: name, Signature: signature}}
				}
				l.do(in)
			}
			register(1, "t=1")
			register(2, c.then)
			in := l.of("a.1", sequencer.IntentSeal)
			in.Begin.Observe = true
			in.Seal = &sequencer.Seal{Pins: []sequencer.Pin{{Server: "s", Name: "t", Signature: "1"}}}
			l.do(in)
			l.last("a.1", sequencer.OutcomeCommitted)
			all, r := l.export()
			l.same("planned", all["a.1"].PlannedTool, trace.Plan("s/t"))
			l.same("findings", certain(r), c.want)
		})
	}
}

// TestOrderOfCalls: held calls leave in the order of their answers; eager ones have an order where their scopes meet.
func TestOrderOfCalls(t *testing.T) {
	call := func(index uint32, class sequencer.Class, scope string) sequencer.Effect {
		return sequencer.Effect{Index: index, Class: class, Tool: "t", Scopes: []sequencer.Scope{sequencer.Scope(scope)},
			Known: class.Eager()}
	}
	const eager, held = sequencer.ClassReversible, sequencer.ClassIrreversible
	type calls = []sequencer.Effect
	for name, c := range map[string]struct {
		calls    calls
		answered []uint32
		want     []string
		known    bool
	}{
		"held in order": {calls{call(0, held, "m:/a"), call(1, held, "m:/b")}, []uint32{0, 1}, nil, true},
		"held, not in order": {calls{call(0, held, "m:/a"), call(1, held, "m:/b")}, []uint32{1, 0},
			[]string{"A6"}, true},
		"eager apart": {calls{call(0, eager, "m:/a"), call(1, eager, "m:/b")}, []uint32{1, 0}, nil, true},
		"eager on one scope": {calls{call(0, eager, "m:/a"), call(1, eager, "m:/a/1")}, []uint32{1, 0},
			[]string{"A6"}, true},
		"held before eager": {calls{call(0, held, "m:/a"), call(1, eager, "m:/b")}, []uint32{1, 0}, nil, true},
		"one not answered":  {calls{call(0, held, "m:/a"), call(1, held, "m:/b")}, []uint32{0}, nil, false},
		"held behind eager": {calls{call(0, held, "m:/a"), call(1, eager, "m:/a"), call(2, eager, "m:/b")}, nil, nil, true},
		"eager, no answers": {calls{call(0, eager, "m:/a"), call(1, eager, "m:/a")}, nil, nil, false},
		"answered again":    {calls{call(0, held, "m:/a"), call(1, held, "m:/b")}, []uint32{1, 0, 1}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLog(t, "a")
			for n, e := range c.calls {
				if e.Class.Eager() {
					touch := l.of("a.1", sequencer.IntentTouch)
					touch.N = uint32(n + 1)
					touch.Touch = &sequencer.Touch{Wants: []sequencer.Want{{Scope: e.Scopes[0], Access: sequencer.WriteAccess}}}
					l.do(touch)
				}
			}
			s := sequencer.Seal{Effects: c.calls}
			for _, in := range l.intents {
				if in.Touch != nil {
					s.Touches = append(s.Touches, sequencer.TouchReport{N: in.N, Known: true})
				}
			}
			l.seal("a.1", sequencer.OutcomeCommitted, s)
			for n, index := range c.answered { // the topic has them the other way round: their indexes count
				l.events = append([]*topology.Event{{Kind: topology.EventAnswer, Tx: "a.1", Incarnation: 1,
					Index: uint64(n + 1), Effect: &topology.EffectText{Index: index}}}, l.events...)
			}
			l.events = append(l.events, &topology.Event{Kind: topology.EventAnswer, Tx: "a.1", Incarnation: 2, Index: 1,
				Effect: &topology.EffectText{ByHand: &topology.ByHand{In: "a.9"}}}) // when all was settled
			all, r := l.export()
			l.same("findings", certain(r), c.want)
			l.same("the order is known", all["a.1"].CO != nil, c.known)
		})
	}
}

// TestDeltaTakenOut: a retracted delta is taken out, and nothing else.
func TestDeltaTakenOut(t *testing.T) {
	l := newLog(t, "a", "b")
	l.seal("a.1", sequencer.OutcomeCommitted, put("shard:/log", "0\n"))
	s := put("shard:/log", "1\n")
	s.Shards[0].Op = sequencer.OpAppend
	l.seal("b.1", sequencer.OutcomeCommitted, s)
	in := l.of("b.1", sequencer.IntentRetract)
	in.Begin = nil
	l.do(in)
	all, _ := l.export()
	l.same("taken out", all["b.1#retracted"].WriteValues, values("shard:/log#4", trace.Null))
}

// TestForgotten: what a cell held before the versions that are kept is unknown, and not nothing.
func TestForgotten(t *testing.T) {
	b := history.New(0)
	write := func(seq, floor sequencer.Seq) {
		b.Decision(&sequencer.Outcome{Seq: seq, Floor: floor, Kind: sequencer.OutcomeCommitted, Tx: "t", Agent: "a",
			Writes: []sequencer.Write{{Scope: "shard:/x", Writer: sequencer.Writer{Seq: seq, Tx: "t"}}},
			Shards: []sequencer.ShardWrite{{Scope: "shard:/x", Content: []byte{byte(seq)}}}})
	}
	write(5, 0)
	write(6, 0)
	write(8, 7)
	for view, want := range map[sequencer.Seq]trace.Value{4: "", 5: "", 6: sum("\x06"), 7: sum("\x06"), 8: sum("\x08")} {
		tx := sequencer.TxID(fmt.Sprint("r", view))
		b.Intent(9, &sequencer.Intent{Kind: sequencer.IntentSeal, Tx: tx, N: 1, Agent: "b",
			Seal: &sequencer.Seal{Reads: []sequencer.Read{read("shard:/x", view)}}})
		got := b.Decision(&sequencer.Outcome{Seq: 9, Kind: sequencer.OutcomeAborted, Tx: tx, Agent: "b"})[0]
		if value := got.ReadValues["shard:/x"]; value != want {
			t.Errorf("at %d it is %s, not %s", view, value, want)
		}
	}
}

// TestWaiting: the footprint of a commit is the one that was taken, also where a later seal was refused.
func TestWaiting(t *testing.T) {
	l := newLog(t, "a")
	first := put("shard:/x", "1")
	first.Hook = true
	waiting := l.of("a.1", sequencer.IntentSeal)
	waiting.Seal = &first
	l.do(waiting)
	late := l.of("a.1", sequencer.IntentSeal)
	late.N, late.Seal = 2, &sequencer.Seal{Reads: []sequencer.Read{read("shard:/other", l.now())}}
	l.do(late)
	l.last("a.1", sequencer.OutcomeRefused)
	verdict := l.of("a.1", sequencer.IntentVerdict)
	verdict.Begin = nil
	verdict.Verdict = &sequencer.Verdict{Yes: true, Footprint: l.outcomes[len(l.outcomes)-1].Footprint}
	l.do(verdict)
	l.last("a.1", sequencer.OutcomeCommitted)
	all, _ := l.export()
	if got := all["a.1"]; len(got.ReadSet) != 0 || len(got.WriteSet) != 1 {
		t.Errorf("it is %+v", got)
	}
}

// TestLive: without the first look the same operations come out, but for what is only known later.
func TestLive(t *testing.T) {
	l := newLog(t, "a", "b")
	at := l.seal("a.1", sequencer.OutcomeCommitted, put("shard:/d/1", "1"))
	l.seal("b.1", sequencer.OutcomeCommitted, sequencer.Seal{Reads: []sequencer.Read{read("shard:/d", at)}})
	two := l.seal("a.2", sequencer.OutcomeCommitted, put("shard:/d/2", "2"))
	l.seal("b.2", sequencer.OutcomeCommitted, sequencer.Seal{Reads: []sequencer.Read{read("shard:/d", two)}})
	whole, _ := l.export()
	b, next := history.New(0), 0
	for i := range l.outcomes {
		for ; next < len(l.intents) && int64(next) <= l.outcomes[i].Offset; next++ {
			b.Intent(int64(next), l.intents[next])
		}
		for _, r := range b.Decision(&l.outcomes[i]) {
			want := whole[string(r.Txn)]
			if r.Txn == "a.1" { // the subtree had not been read then
				want.WriteSet, want.WriteValues = []string{"shard:/d/1"}, values("shard:/d/1", sum("1"))
			}
			l.same(string(r.Txn), r, want)
		}
	}
}
