package replay

import (
	"reflect"
	"slices"
	"testing"

	"github.com/hence-dev/hence/sequencer"
)

// carried is a second run in which each seq from 3 to 9 lies ten later; the log has reached 9. T committed at 5 as
// recorded and has not; U committed in both.
func carried(change Change) (*run, *story) {
	r := &run{change: change, stories: map[sequencer.TxID]*story{}, result: &Result{Supposed: map[string]int{}}}
	at := []sequencer.Seq{0, 1, 2}
	for seq := sequencer.Seq(3); seq <= 9; seq++ {
		at = append(at, seq+10)
	}
	r.now = now{fold: sequencer.New("ws"), at: at, reached: 9, offset: 50, open: map[*story]bool{},
		joined: map[sequencer.Seq]sequencer.Seq{2: 12}, live: map[string]sequencer.Seq{"a": 12}}
	committed := func(seq sequencer.Seq) *event {
		return &event{kind: sequencer.OutcomeCommitted, seq: seq, offset: int64(seq)}
	}
	for _, id := range []sequencer.TxID{"T", "U", "X", "late"} {
		r.stories[id] = &story{id: id, agent: "a", base: 2, incarnation: 2, numbers: map[uint32]uint32{},
			order: len(r.order)}
		r.order = append(r.order, r.stories[id])
	}
	r.stories["T"].then.decision = committed(5)
	r.stories["late"].then.decision = committed(60)
	r.stories["U"].then.decision, r.stories["U"].now.decision = committed(6), committed(16)
	return r, r.stories["X"]
}

// TestSeqsAreCarriedOver: each seq that a record names is that of what it stood for, and the record itself stays as it
// was.
func TestSeqsAreCarriedOver(t *testing.T) {
	record := func(n, of sequencer.Seq, gone bool) *sequencer.Seal {
		s := &sequencer.Seal{
			Reads: []sequencer.Read{{Scope: "shard:/a", View: 4 + n, Version: 3 + of, Writer: "T"},
				{Scope: "shard:/b", View: 4 + n, Version: 6 + of, Writer: "U"}},
			ReadFrom: []sequencer.TxID{"T", "U", "late", "nobody"},
			Shards: []sequencer.ShardWrite{{Scope: "shard:/a", Expect: &sequencer.Expect{View: 4 + n, Version: 3 + of}},
				{Scope: "shard:/c", Former: &sequencer.Former{Restored: 3 + of, View: 4 + n, Version: 3 + of}},
				{Scope: "shard:/d"}}}
		if gone {
			s.Reads[0].Writer, s.ReadFrom = "", []sequencer.TxID{"U", "late", "nobody"}
		}
		return s
	}
	r, s := carried(Change{})
	in := &sequencer.Intent{Kind: sequencer.IntentSeal, Tx: "X", Agent: "a", Incarnation: 2, Base: 4,
		Seal: record(0, 0, false)}
	out := r.translated(s, in)
	if want := record(10, 10, true); !reflect.DeepEqual(out.Seal, want) || out.Base != 14 || out.Incarnation != 12 {
		t.Errorf("%+v, want %+v", out.Seal, want)
	}
	if !reflect.DeepEqual(in.Seal, record(0, 0, false)) || !slices.Equal(s.unknown, []string{unknownRead}) {
		t.Errorf("the record is %+v now; not known: %v", in.Seal, s.unknown)
	}
	// What was shown when it was new stays so, also where the step that it was of is longer now.
	r.now.at[4] = 13
	r.now.at[3] = 15
	if view, version := r.seen(s, 4, 3); view != 13 || version != 13 {
		t.Errorf("shown at %d: version %d", view, version)
	}
	if view, version := r.seen(s, 4, 6); view != 13 || version != 16 {
		t.Errorf("a later version than the view at %d: %d", view, version)
	}
	s.later = []moved{{4, 30}, {8, 40}}
	for seq, want := range map[sequencer.Seq]sequencer.Seq{3: 15, 4: 30, 7: 30, 8: 40, 9: 40, 12: 40} {
		if got := r.viewOf(s, seq); got != want {
			t.Errorf("read at %d behind a later grant: %d, want %d", seq, got, want)
		}
	}
	r, s = carried(Change{})
	abort := r.translated(s, &sequencer.Intent{Kind: sequencer.IntentAbort, Tx: "X", Abort: &sequencer.Abort{Seq: 7}})
	none := r.translated(s, &sequencer.Intent{Kind: sequencer.IntentAbort, Tx: "X", Abort: &sequencer.Abort{}})
	if abort.Abort.Seq != 17 || none.Abort.Seq != 0 {
		t.Errorf("an abort's: %d, %d", abort.Abort.Seq, none.Abort.Seq)
	}
	s.then.footprint, s.now.footprint = sequencer.Hash{1}, sequencer.Hash{2}
	for has, want := range map[sequencer.Hash]sequencer.Hash{{1}: {2}, {7}: {7}} {
		v := r.translated(s, &sequencer.Intent{Kind: sequencer.IntentVerdict, Verdict: &sequencer.Verdict{Footprint: has}})
		if v.Verdict.Footprint != want {
			t.Errorf("a verdict over %x: over %x", has[:1], v.Verdict.Footprint[:1])
		}
	}
	s.now.footprint = sequencer.Hash{}
	v := r.translated(s, &sequencer.Intent{Kind: sequencer.IntentVerdict,
		Verdict: &sequencer.Verdict{Footprint: sequencer.Hash{1}}})
	if v.Verdict.Footprint != (sequencer.Hash{1}) {
		t.Error("a verdict over what is not sealed is over nothing")
	}
	settle := &sequencer.Intent{Kind: sequencer.IntentSettle, N: 1, Settle: &sequencer.Settle{}}
	if first := r.translated(s, settle); first.N != 1 {
		t.Errorf("a settlement is number %d", first.N)
	}
	s.settles = 2
	if later := r.translated(s, settle); later.N != 4 || settle.N != 1 {
		t.Errorf("a settlement behind two that were supposed is number %d", later.N)
	}
}

// TestWatermarkWaits: a sidecar does not let go of what is open now and was decided.
func TestWatermarkWaits(t *testing.T) {
	r, s := carried(Change{})
	mark := func() sequencer.Seq {
		return r.translated(nil, &sequencer.Intent{Kind: sequencer.IntentWatermark, Agent: "a",
			Watermark: &sequencer.Watermark{Seq: 8}}).Watermark.Seq
	}
	r.now.open[s] = true
	if got := mark(); got != 18 {
		t.Errorf("of what was open too: %d", got)
	}
	s.then.events = []event{{kind: sequencer.OutcomeCommitted, seq: 5, offset: 5, final: true}}
	if got := mark(); got != 2 {
		t.Errorf("of what was decided: %d", got)
	}
	s.agent = "b"
	if got := mark(); got != 18 {
		t.Errorf("of another agent's: %d", got)
	}
}

// TestOrderModes: which begins and touches another order mode asks for, and which it leaves out.
func TestOrderModes(t *testing.T) {
	modes := map[sequencer.Mode]string{sequencer.Optimistic: "", sequencer.Ordered: "begin@4",
		sequencer.Locked: "begin@4 touch@4:a,b touch@7:c"}
	for mode, want := range modes {
		r, s := carried(Change{Mode: &mode})
		s.base, s.first = 4, &sequencer.Intent{Kind: sequencer.IntentSeal}
		s.seal = &sequencer.Seal{Reads: []sequencer.Read{{Scope: "shard:/a", View: 3}, {Scope: "shard:/c", View: 7},
			{Scope: "shard:/b", View: 3}}}
		list := func() (got string) {
			for _, p := range r.now.early {
				if got != "" {
					got += " "
				}
				got += p.in.Kind.String() + "@" + string('0'+rune(p.after))
				if p.in.Kind == sequencer.IntentBegin && (p.in.N != 1 || p.in.Begin == nil) {
					t.Errorf("%+v", p.in)
				}
				if p.in.Touch == nil {
					continue
				}
				for i, w := range p.in.Touch.Wants {
					got += []string{":", ","}[min(i, 1)] + string(w.Scope[len(w.Scope)-1:])
					if w.Access != sequencer.ReadAccess || max(s.views[p.in], s.base) != p.after {
						t.Errorf("%+v", p.in.Touch)
					}
				}
			}
			r.now.early = nil
			return got
		}
		r.putIns(s)
		if got := list(); got != want {
			t.Errorf("%v: %q, want %q", mode, got, want)
		}
		s.first.Kind = sequencer.IntentAbort
		if r.putIns(s); list() != "" {
			t.Errorf("%v: something is put in for one that its sidecar ended", mode)
		}
		s.first = &sequencer.Intent{Kind: sequencer.IntentBegin, Begin: &sequencer.Begin{Mode: sequencer.Locked}}
		if r.putIns(s); list() != "" {
			t.Errorf("%v: something is put in for one that was locked", mode)
		}
		s.first.Begin.Mode, s.seal = sequencer.Optimistic, nil
		if r.putIns(s); list() != "" {
			t.Errorf("%v: something is put in for one without a seal", mode)
		}
		b := r.begin(&sequencer.Begin{Observe: true, May: []sequencer.Want{{Scope: "shard:/a"}}})
		if b.Mode != mode || (len(b.May) > 0) != (mode == sequencer.Ordered) || !b.Observe {
			t.Errorf("%v: it begins as %+v", mode, b)
		}
		reading := &sequencer.Touch{Wants: []sequencer.Want{{Scope: "shard:/a", Access: sequencer.ReadAccess}}}
		writing := &sequencer.Touch{Wants: []sequencer.Want{{Scope: "shard:/a", Access: sequencer.WriteAccess}}}
		for _, was := range []sequencer.Mode{sequencer.Optimistic, sequencer.Locked} {
			s.first.Begin.Mode = was
			out := r.touch(s, &sequencer.Intent{Touch: reading})
			if gone := was == sequencer.Locked && mode != sequencer.Locked; (out == nil) != gone ||
				r.touch(s, &sequencer.Intent{Touch: writing}) == nil {
				t.Errorf("%v of %v: touches of reads are left out: %v", mode, was, out == nil)
			}
		}
	}
	for observe, want := range map[bool]bool{true: true, false: false} {
		r, _ := carried(Change{Observe: &observe})
		b := r.begin(&sequencer.Begin{Observe: true, Mode: sequencer.Locked})
		if b.Observe != want || b.Mode != sequencer.Locked {
			t.Errorf("observing %v: it begins as %+v", observe, b)
		}
	}
}

// TestPolicyOfCalls: what another policy makes of a call, and which touches come of it.
func TestPolicyOfCalls(t *testing.T) {
	const eager, held = sequencer.ClassReversible, sequencer.ClassIrreversible
	args := sequencer.Hash{1}
	treats := map[string]Treatment{"now": {Class: eager, Approve: true}, "later": {Class: held},
		"asked": {Class: held, Approve: true}}
	r, s := carried(Change{Class: func(tool string) (Treatment, bool) { w, known := treats[tool]; return w, known }})
	type call = sequencer.Effect
	for name, c := range map[string]struct{ in, want call }{
		"not declared": {call{Tool: "x", Class: eager, Known: true}, call{Tool: "x", Class: eager, Known: true}},
		"never came":   {call{Tool: "now", Absent: true}, call{Tool: "now", Absent: true}},
		"at once now":  {call{Tool: "now", Class: held}, call{Tool: "now", Class: eager, Known: true}},
		"at once, approved before": {call{Tool: "now", Class: held, Approve: true, Args: args},
			call{Tool: "now", Class: eager, Known: true}},
		"held now": {call{Tool: "later", Class: eager, Known: true}, call{Tool: "later", Class: held}},
		"nobody is asked now": {call{Tool: "later", Class: held, Approve: true, Args: args},
			call{Tool: "later", Class: held}},
		"asked as before": {call{Tool: "asked", Class: sequencer.ClassBufferable, Approve: true, Args: args},
			call{Tool: "asked", Class: held, Approve: true, Args: args}},
		"asked now": {call{Tool: "asked", Class: held}, call{Tool: "asked", Class: held}},
		"as it was": {call{Tool: "later", Class: held, Args: args}, call{Tool: "later", Class: held, Args: args}},
	} {
		if got := r.effect(c.in); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	at := func(tool string, class sequencer.Class, scope sequencer.Scope) sequencer.Effect {
		return sequencer.Effect{Tool: tool, Class: class, Scopes: []sequencer.Scope{scope}}
	}
	s.seal = &sequencer.Seal{Effects: []sequencer.Effect{at("later", eager, "m:/a"), at("later", eager, "m:/b"),
		at("x", eager, "m:/b"), at("now", held, "m:/c"), at("later", held, "m:/d"), at("now", eager, "m:/e")}}
	touch := func(scopes ...sequencer.Scope) *sequencer.Intent {
		in := &sequencer.Intent{Kind: sequencer.IntentTouch, Touch: &sequencer.Touch{}}
		for _, scope := range scopes {
			in.Touch.Wants = append(in.Touch.Wants, sequencer.Want{Scope: scope, Access: sequencer.WriteAccess})
		}
		return in
	}
	if r.touch(s, touch("m:/a")) != nil {
		t.Error("what is held now asks before the seal")
	}
	left := touch("m:/b", "m:/f").Touch
	if got := r.touch(s, touch("m:/a", "m:/b", "m:/f")); got == nil || !reflect.DeepEqual(got, left) {
		t.Errorf("it asks for %+v", got)
	}
	reading := touch("m:/a")
	reading.Touch.Wants[0].Access = sequencer.ReadAccess
	if r.touch(s, reading) == nil || r.touch(s, touch()) == nil {
		t.Error("what asks for no write is left out")
	}
	seal := &sequencer.Intent{Kind: sequencer.IntentSeal, Incarnation: 2, Base: 4, Seal: s.seal}
	if r.asksFirst(s, touch("m:/a")) != nil {
		t.Error("a touch asks before the seal")
	}
	ask := r.asksFirst(s, seal)
	if ask == nil || !reflect.DeepEqual(ask.Touch, touch("m:/c").Touch) || r.asksFirst(s, seal) != nil {
		t.Errorf("before the seal it asks for %+v, once", ask)
	}
	// Those that are put in have numbers behind those that came, and those that come later follow.
	first, second := touch("m:/b"), touch("m:/b")
	first.N, second.N = 1, 2
	if out := r.translated(s, first); out.N != 1 || len(s.numbers) != 0 {
		t.Errorf("the first touch has number %d", out.N)
	}
	if out := r.translated(s, ask); out.N != 2 || s.numbers[2] != 0 || !slices.Equal(s.writing, []uint32{2}) {
		t.Errorf("the one that is put in has number %d", out.N)
	}
	if out := r.translated(s, second); out.N != 3 || s.numbers[3] != 2 {
		t.Errorf("the second touch has number %d", out.N)
	}
	seal.Seal.Touches = []sequencer.TouchReport{{N: 1, Known: true}, {N: 2}}
	if got := r.translated(s, seal).Seal.Touches; !slices.Equal(got, []sequencer.TouchReport{{N: 1, Known: true}, {N: 3},
		{N: 2, Known: true}}) {
		t.Errorf("the seal reports %+v", got)
	}
	s.asked, r.result.Supposed = 0, map[string]int{}
	r.translated(s, &sequencer.Intent{Kind: sequencer.IntentSeal, Seal: &sequencer.Seal{Effects: []sequencer.Effect{
		at("asked", held, "m:/a"), {Tool: "asked", Absent: true}, {Tool: "asked", Class: held, Approve: true},
		at("x", held, "m:/a")}}})
	if n := r.result.Supposed[supposedYes]; n != 1 {
		t.Errorf("%d approvals are supposed, one call is asked for that was not", n)
	}
	s.reads, s.views = map[uint32]sequencer.Seq{}, map[*sequencer.Intent]sequencer.Seq{reading: 7}
	s.put = append(s.put, reading)
	if out := r.translated(s, reading); s.reads[out.N] != 7 || len(s.writing) != 1 {
		t.Errorf("a read that is put in as %d: %v, %v", out.N, s.reads, s.writing)
	}
}
