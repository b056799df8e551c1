package script

import (
	"errors"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/hence-dev/hence/sequencer"
)

// drawn makes values of each payload, with names and scopes that a careless writer would not quote.
type drawn struct{ t *rapid.T }

func (d drawn) name() string {
	known := rapid.SampledFrom([]string{"", "T1", "a1", "join", "hook", "two words", `q"u;o=t,e@d:`, "tick"})
	return rapid.OneOf(known, rapid.String()).Draw(d.t, "name")
}

func (d drawn) num() uint64 { return rapid.Uint64Range(0, 1<<31).Draw(d.t, "num") }

func (d drawn) yes() bool { return rapid.Bool().Draw(d.t, "yes") }

func (d drawn) hash() sequencer.Hash {
	return sequencer.Hash{byte(rapid.IntRange(0, 1).Draw(d.t, "hash"))}
}

func (d drawn) scope() sequencer.Scope {
	texts := []string{"doc:/x", "doc:/*/y", "shard:/a%2Fb", "not a scope", "", `a:/"`, "w:/x"}
	return sequencer.Scope(rapid.SampledFrom(texts).Draw(d.t, "scope"))
}

// many draws up to three; none is nil, as Parse leaves it.
func many[T any](d drawn, one func() T) []T {
	var out []T
	for range rapid.IntRange(0, 3).Draw(d.t, "how many") {
		out = append(out, one())
	}
	return out
}

func (d drawn) want() sequencer.Want {
	return sequencer.Want{Scope: d.scope(), Access: sequencer.Access(rapid.IntRange(0, 3).Draw(d.t, "access"))}
}

func (d drawn) begin() *sequencer.Begin {
	b := &sequencer.Begin{Mode: sequencer.Mode(rapid.IntRange(0, 5).Draw(d.t, "mode")), Observe: d.yes(),
		DeadlineTicks: sequencer.Tick(d.num()), Group: d.name(), Predecessor: sequencer.TxID(d.name()), May: many(d, d.want)}
	if d.yes() {
		v := sequencer.Levels(rapid.IntRange(0, 20).Draw(d.t, "levels"))
		b.Levels = &v
	}
	return b
}

func (d drawn) seal() *sequencer.Seal {
	s := &sequencer.Seal{Hook: d.yes(), VerdictTicks: sequencer.Tick(d.num())}
	s.Reads = many(d, func() sequencer.Read {
		return sequencer.Read{Scope: d.scope(), View: sequencer.Seq(d.num()), Version: sequencer.Seq(d.num()),
			Writer: sequencer.TxID(d.name())}
	})
	s.Effects = many(d, func() sequencer.Effect {
		return sequencer.Effect{Index: uint32(rapid.IntRange(0, 3).Draw(d.t, "index")), Scopes: many(d, d.scope),
			Class: sequencer.Class(rapid.IntRange(0, 6).Draw(d.t, "class")), Tool: d.name(), Key: d.name(), Known: d.yes(),
			Absent: d.yes(), Approve: d.yes(), Args: d.hash()}
	})
	s.Touches = many(d, func() sequencer.TouchReport {
		return sequencer.TouchReport{N: uint32(d.num()), Known: d.yes()}
	})
	s.Shards = many(d, func() sequencer.ShardWrite {
		w := sequencer.ShardWrite{Scope: d.scope(), Type: d.name(), Absent: d.yes(), Removes: sequencer.Seq(d.num()),
			Op: sequencer.Op(rapid.IntRange(0, 5).Draw(d.t, "op"))}
		if d.yes() {
			w.Content = []byte(d.name())
		}
		if d.yes() {
			w.Ref = &sequencer.Ref{Partition: 3, Offset: int64(d.num()), Size: int64(d.num()), SHA256: sequencer.Hash{1, 2}}
		}
		if d.yes() {
			w.Expect = &sequencer.Expect{Version: sequencer.Seq(d.num()), View: sequencer.Seq(d.num())}
		}
		return w
	})
	s.Pins = many(d, func() sequencer.Pin {
		return sequencer.Pin{Server: d.name(), Name: d.name(), Signature: d.name()}
	})
	s.ReadFrom = many(d, func() sequencer.TxID { return sequencer.TxID(d.name()) })
	if d.yes() {
		s.At = &sequencer.Place{Partition: 2, Offset: int64(d.num())}
	}
	return s
}

func (d drawn) intent() *sequencer.Intent {
	kind := sequencer.IntentKind(rapid.IntRange(0, 17).Draw(d.t, "kind"))
	in := &sequencer.Intent{Kind: kind, Tx: sequencer.TxID(d.name()), N: uint32(d.num()), Agent: d.name(),
		Incarnation: sequencer.Seq(d.num()), Base: sequencer.Seq(d.num())}
	if in.Kind != sequencer.IntentRules && in.Kind != sequencer.IntentSelect && d.yes() {
		in.Begin = d.begin()
	}
	if d.yes() { // else the payload is missing
		d.payload(in)
	} else if in.Kind == sequencer.IntentBegin {
		in.Begin = nil
	}
	return in
}

func (d drawn) payload(in *sequencer.Intent) {
	switch in.Kind {
	case sequencer.IntentBegin:
		in.Begin = d.begin()
	case sequencer.IntentTouch:
		in.Touch = &sequencer.Touch{Wants: many(d, d.want), BoundTicks: sequencer.Tick(d.num())}
	case sequencer.IntentSeal:
		in.Seal = d.seal()
	case sequencer.IntentAbort:
		in.Abort = &sequencer.Abort{Code: sequencer.Code(d.name()), Detail: d.name(), Scope: d.scope(),
			Seq: sequencer.Seq(d.num()), Writer: sequencer.TxID(d.name())}
	case sequencer.IntentSettle:
		in.Settle = &sequencer.Settle{NoneElse: d.yes(), Effects: many(d, func() sequencer.Settled {
			return sequencer.Settled{Index: uint32(rapid.IntRange(0, 3).Draw(d.t, "index")), Scopes: many(d, d.scope),
				Result: sequencer.Result(rapid.IntRange(0, 5).Draw(d.t, "result"))}
		})}
	case sequencer.IntentJoin:
		in.Join = &sequencer.Join{ID: d.name()}
	case sequencer.IntentSelect:
		in.Select = &sequencer.Select{Group: d.name(), Winner: sequencer.TxID(d.name())}
	case sequencer.IntentRegister, sequencer.IntentUnregister:
		in.Register = &sequencer.Register{Server: d.name(), Generation: d.num(),
			Tools: many(d, func() sequencer.Tool { return sequencer.Tool{Name: d.name(), Signature: d.name()} })}
	case sequencer.IntentVerdict:
		in.Verdict = &sequencer.Verdict{Footprint: sequencer.Hash{9, 8}, Yes: d.yes(), Reason: d.name()}
		in.Verdict.Unavailable = !in.Verdict.Yes && d.yes()
		in.Verdict.Approvals = many(d, func() sequencer.Approval {
			return sequencer.Approval{Index: uint32(d.num()), Yes: d.yes(), By: d.name(), Args: d.hash()}
		})
	case sequencer.IntentWatermark:
		in.Watermark = &sequencer.Watermark{Seq: sequencer.Seq(d.num()), Confirm: uint32(d.num())}
	case sequencer.IntentRules:
		in.Rules = &sequencer.Rules{Version: uint32(d.num()), Observe: d.yes(), CapSeqs: sequencer.Seq(d.num()),
			Levels: sequencer.Levels(rapid.IntRange(0, 20).Draw(d.t, "levels"))}
	case sequencer.IntentTick:
		in.Tick = &sequencer.TickMark{N: d.num(), Weight: sequencer.Tick(d.num())}
	}
}

func TestParseReadsWhatFormatWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawn{t}.intent()
		text := Format(want)
		got, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%s\n got %+v\nwant %+v", text, got, want)
		}
	})
}

func TestParseRefusesWhatIsNoIntent(t *testing.T) {
	for _, text := range []string{"", "T1", "T1 jump a1", `T1 touch a1 w:"open`, "T1 touch a1 n=x",
		"T1 begin a1 colour=red", "T1 begin a1 may=doc:/x", "tick tick=99999999999999999999", "T1 verdict a1 of=12",
		"T1 seal a1 pin=a;b", "T1 abort a1 w:doc:/x", "T1 seal a1 shard=shard:/s;colour=red", "rules levels=A9"} {
		if in, err := Parse(text); !errors.Is(err, ErrLine) {
			t.Errorf("%q: got %+v, %v", text, in, err)
		}
	}
}

func TestParseWithFillsWhatIsLeftOut(t *testing.T) {
	text := "T1 seal read=doc:/x shard=shard:/s;expect=3"
	in, err := ParseWith(text, func(in *sequencer.Intent, given func(string) bool) {
		if given("agent") || given("n") || !given("read") {
			t.Error("given does not say what the line has")
		}
		in.Agent = "a1"
	})
	if err != nil || in.Agent != "a1" || in.Seal.Reads[0].View != Now || in.Seal.Shards[0].Expect.View != Now {
		t.Errorf("got %+v, %v", in, err)
	}
}

func TestFormatOutcome(t *testing.T) {
	o := sequencer.Outcome{Seq: 7, Kind: sequencer.OutcomeAborted, Tx: "T1", Epoch: 2, Code: sequencer.CodeStaleRead,
		Scope: "doc:/x", Moved: sequencer.Writer{Seq: 6, Tx: "T2"}, Retryable: true, Final: true,
		BlockedBy: []sequencer.Blocker{{Tx: "T2", Scope: "doc:/x", Why: "held"}},
		Ended:     []sequencer.Hold{{Scope: "doc:/x", Kind: sequencer.Claimed, Access: sequencer.WriteAccess}},
		Writes:    []sequencer.Write{{Scope: "doc:/x", Writer: sequencer.Writer{Tx: "T0", Seq: 3}}}}
	want := "7 aborted T1 e2 stale_read at=doc:/x moved-by=T2@6 blocked-by=T2:held:doc:/x retry " +
		"-claimed:w:doc:/x wrote=doc:/x;by=T0@3 final"
	if got := FormatOutcome(&o); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
