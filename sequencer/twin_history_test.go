package sequencer_test

import (
	"fmt"
	"slices"

	"github.com/hence-dev/hence/sequencer"
)

// dice makes many small numbers of one drawn word, all equally likely (splitmix64).
type dice struct{ state uint64 }

// n makes a number in 0..k-1.
func (d *dice) n(k int) int {
	d.state += 0x9e3779b97f4a7c15
	z := d.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return int((z ^ z>>31) % uint64(k))
}

// rarely is true once in k.
func (d *dice) rarely(k int) bool { return d.n(k) == k-1 }

func pick[T any](d *dice, list ...T) T { return list[d.n(len(list))] }

// history makes intents as sidecars send them, and some that none should.
type history struct {
	dice
	*pair
	last  map[string]uint32 // the last n by incarnation, transaction and kind
	join  int
	fresh int  // transactions so far
	time  bool // the last intent was a tick
	undo  bool // a workspace that retracts much, and little else
}

func newHistory() *history { return &history{pair: newPair(), last: map[string]uint32{}} }

func (h *history) scope() sequencer.Scope {
	if h.undo {
		return pick(&h.dice, sequencer.Scope("doc:/a"), "doc:/b", "doc:/a/x", "shard:/s", "shard:/t", "doc:/*")
	}
	return pick(&h.dice, sequencer.Scope("doc:/a"), "doc:/b", "doc:/a/x", "doc:/a/y", "shard:/s", "shard:/t",
		"shard:/s/x",
		"doc:/*/x", "doc:/*", "shard:/*")
}

func (h *history) shard() sequencer.Scope {
	return pick(&h.dice, sequencer.Scope("shard:/s"), "shard:/t", "shard:/s/x")
}

func (h *history) want() sequencer.Want {
	return sequencer.Want{Scope: h.scope(), Access: sequencer.Access(min(1, h.n(3)))}
}

// id is one of the latest transactions, or a new one.
func (h *history) id() sequencer.TxID {
	known := len(h.twin.txs)
	back := h.n(5)
	if back == 0 || back > known {
		h.fresh++
		return sequencer.TxID(fmt.Sprintf("T%d", h.fresh))
	}
	return h.twin.txs[known-back].id
}

// agent is mostly one with a live sidecar.
func (h *history) agent() string {
	if n := len(h.twin.sidecars); n > 0 && !h.rarely(10) {
		return h.twin.sidecars[h.n(n)].agent
	}
	return pick(&h.dice, "a1", "a2", "a3")
}

// incarnation is the agent's live one, or none.
func (h *history) incarnation(agent string) sequencer.Seq {
	for _, s := range h.twin.sidecars {
		if s.agent == agent {
			return s.incarnation
		}
	}
	return 0
}

// next draws an intent. A history begins with three joins.
func (h *history) next() *sequencer.Intent {
	head := h.twin.seq
	if h.join < 3 {
		h.join++
		return &sequencer.Intent{Kind: sequencer.IntentJoin, Agent: fmt.Sprintf("a%d", h.join),
			Join: &sequencer.Join{ID: fmt.Sprintf("j%d", h.join), Logic: h.logic()}}
	}
	in := &sequencer.Intent{Kind: h.kind(), Agent: h.agent(), Base: head}
	if h.time && h.n(4) > 0 { // ticks come in runs, else no lease would ever end
		in.Kind = sequencer.IntentTick
	}
	h.time = in.Kind == sequencer.IntentTick
	switch in.Kind {
	case 0:
		return h.log[h.n(len(h.log))].Intent
	case sequencer.IntentJoin:
		h.join++
		in.Base, in.Join = 0, &sequencer.Join{ID: fmt.Sprintf("j%d", h.join)}
		return in
	case sequencer.IntentTick:
		mark := &sequencer.TickMark{N: h.twin.tickN + 1, Weight: sequencer.Tick(1 + 7*h.n(2))}
		if h.rarely(20) {
			mark.N += uint64(h.n(2)) * 2
		}
		return &sequencer.Intent{Kind: in.Kind, Tick: mark}
	case sequencer.IntentRules:
		return &sequencer.Intent{Kind: in.Kind, Rules: h.rules()}
	}
	h.address(in)
	h.payload(in)
	if h.rarely(2) {
		in.Signer = pick(&h.dice, "k1", "k2")
	}
	return in
}

// logic is what the first join asks for.
func (h *history) logic() uint32 {
	if h.undo {
		return uint32(sequencer.Logic - h.n(2))
	}
	return uint32(min(sequencer.Logic, h.n(8)))
}

// kind draws a verb; zero stands for a duplicate.
func (h *history) kind() sequencer.IntentKind {
	kinds := [...]sequencer.IntentKind{0, sequencer.IntentJoin, sequencer.IntentBegin,
		sequencer.IntentTouch, sequencer.IntentSeal, sequencer.IntentAbort, sequencer.IntentSettle, sequencer.IntentAdopt,
		sequencer.IntentRetract, sequencer.IntentSelect,
		sequencer.IntentRegister, sequencer.IntentUnregister, sequencer.IntentVerdict, sequencer.IntentWatermark,
		sequencer.IntentRules, sequencer.IntentTick}
	weights := [...]int{5, 2, 7, 19, 23, 3, 11, 3, 6, 1, 2, 1, 5, 5, 3, 4} // 100
	if h.undo {
		weights = [...]int{4, 2, 2, 12, 40, 1, 22, 3, 5, 0, 0, 0, 2, 1, 1, 5}
	}
	at := h.n(100)
	for i, weight := range weights {
		if at -= weight; at < 0 {
			return kinds[i]
		}
	}
	return 0
}

// address puts in whose intent it is: mostly that of the transaction's own sidecar, with the next number.
func (h *history) address(in *sequencer.Intent) {
	switch in.Kind {
	case sequencer.IntentSelect, sequencer.IntentRegister, sequencer.IntentUnregister, sequencer.IntentWatermark:
	default:
		in.Tx = h.likely(in.Kind)
		if t := h.twin.tx(in.Tx); t != nil && !h.rarely(12) {
			if in.Kind != sequencer.IntentAdopt {
				in.Agent = t.agent
			}
			if s := h.twin.sidecar(t.owner); s != nil {
				in.Agent = s.agent
			}
		}
	}
	in.Incarnation = h.incarnation(in.Agent)
	if h.rarely(40) {
		in.Incarnation = sequencer.Seq(h.n(6))
	}
	if h.rarely(16) {
		in.Base -= min(in.Base, sequencer.Seq(h.n(8)))
	} else if h.rarely(60) {
		in.Base++
	}
	if in.Tx != "" {
		key := fmt.Sprint(in.Incarnation, in.Tx, in.Kind)
		in.N = h.last[key] + 1
		if in.N > 1 && h.rarely(16) {
			in.N--
		}
		h.last[key] = max(h.last[key], in.N)
	}
}

// likely draws a transaction for which the verb makes sense, most of the time.
func (h *history) likely(kind sequencer.IntentKind) sequencer.TxID {
	fits := func(t *twinTx) bool {
		switch kind {
		case sequencer.IntentTouch:
			return t.phase == sequencer.PhaseOpen
		case sequencer.IntentSeal:
			return t.phase == sequencer.PhaseOpen && t.waiting == nil
		case sequencer.IntentVerdict:
			return t.phase == sequencer.PhaseSealed && (t.seal.Hook || t.unheard())
		case sequencer.IntentAdopt:
			return !t.undecided() && !t.final() && t.owner == 0
		case sequencer.IntentSettle:
			return !t.undecided() && !t.final()
		case sequencer.IntentRetract:
			return t.past != nil && t.coneOf == "" && !t.undecided()
		}
		return false
	}
	open := kind == sequencer.IntentTouch || kind == sequencer.IntentSeal
	if open && h.rarely(4) || h.rarely(16) {
		return h.id()
	}
	var list []sequencer.TxID
	for _, t := range h.twin.txs {
		if fits(t) {
			list = append(list, t.id)
		}
	}
	if n := len(list); n > 0 && kind == sequencer.IntentRetract {
		return list[min(h.n(n), h.n(n))] // rather an early one: more follows from it
	} else if n > 0 {
		return list[n-1-min(h.n(n), h.n(n))] // rather a late one
	}
	return h.id()
}

func (h *history) payload(in *sequencer.Intent) {
	switch in.Kind {
	case sequencer.IntentBegin:
		in.Begin = h.begin()
	case sequencer.IntentTouch:
		in.Touch = &sequencer.Touch{Wants: h.wants(), BoundTicks: sequencer.Tick(h.n(4))}
	case sequencer.IntentSeal:
		in.Seal = h.seal(in.Tx)
	case sequencer.IntentAbort:
		codes := []sequencer.Code{"", sequencer.CodeToolFailed, sequencer.CodeStaleRead, sequencer.CodeVetoed,
			sequencer.CodeStaleRead, sequencer.CodeVersionMismatch, sequencer.CodeCascade, sequencer.CodeTooOld}
		in.Abort = &sequencer.Abort{Code: pick(&h.dice, codes...)}
		h.claim(in.Abort, in.Tx)
	case sequencer.IntentSettle:
		in.Settle = h.settle(in.Tx)
	case sequencer.IntentSelect:
		in.Select = &sequencer.Select{Group: pick(&h.dice, "g", "h"), Winner: h.id()}
	case sequencer.IntentRegister, sequencer.IntentUnregister:
		tool := sequencer.Tool{Name: pick(&h.dice, "t", "u"), Signature: pick(&h.dice, "1", "1", "2")}
		in.Register = &sequencer.Register{Server: "s", Generation: uint64(1 + h.n(4)),
			Tools: []sequencer.Tool{tool, {Name: "t", Signature: "1"}}}
	case sequencer.IntentVerdict:
		in.Verdict = &sequencer.Verdict{Yes: !h.rarely(4)}
		in.Verdict.Unavailable = !in.Verdict.Yes && h.rarely(2)
		if t := h.twin.tx(in.Tx); t != nil && !h.rarely(8) {
			in.Verdict.Footprint = t.footprint
		}
		if t := h.twin.tx(in.Tx); t != nil && len(t.needed()) > 0 && !h.rarely(4) || h.rarely(20) {
			h.words(in)
		}
	case sequencer.IntentWatermark:
		in.Watermark = &sequencer.Watermark{Seq: h.view() + sequencer.Seq(h.n(2)), Confirm: uint32(h.n(3))}
	}
	fresh := h.twin.tx(in.Tx) == nil
	if fresh && (in.Kind == sequencer.IntentTouch || in.Kind == sequencer.IntentSeal) && !h.rarely(3) {
		in.Begin = h.begin()
	}
}

func (h *history) wants() []sequencer.Want {
	out := []sequencer.Want{h.want()}
	for h.rarely(3) {
		out = append(out, h.want())
	}
	return out
}

// view is a seq that a view may have reached, mostly the head.
func (h *history) view() sequencer.Seq {
	if h.rarely(3) {
		return h.twin.seq - min(h.twin.seq, sequencer.Seq(h.n(6)))
	}
	return h.twin.seq
}

func (h *history) begin() *sequencer.Begin {
	b := &sequencer.Begin{Mode: sequencer.Mode(h.n(3)), Observe: h.rarely(8), DeadlineTicks: sequencer.Tick(h.n(9))}
	if b.DeadlineTicks > 5 {
		b.DeadlineTicks = 0
	}
	if h.rarely(4) {
		v := sequencer.Levels(h.n(16))
		b.Levels = &v
	}
	if h.rarely(4) {
		b.Group = pick(&h.dice, "g", "h")
	}
	if h.rarely(2) {
		b.Session = pick(&h.dice, "p", "q")
	}
	if h.rarely(3) {
		b.Predecessor = h.id()
	}
	if b.Mode == sequencer.Ordered && h.rarely(3) || h.rarely(60) {
		b.May = h.wants()
	}
	return b
}

// seal lists what the transaction was granted, and more.
func (h *history) seal(id sequencer.TxID) *sequencer.Seal {
	s := &sequencer.Seal{Hook: h.rarely(5), VerdictTicks: sequencer.Tick(h.n(3))}
	for h.n(5) > 2 {
		r := sequencer.Read{Scope: h.scope(), View: h.view()}
		r.Version = r.View - min(r.View, sequencer.Seq(h.n(3)))
		s.Reads = append(s.Reads, r)
	}
	effect := func(class sequencer.Class, scopes ...sequencer.Scope) {
		known := class == sequencer.ClassReversible || class == sequencer.ClassKnownOutcome
		e := sequencer.Effect{Index: uint32(len(s.Effects)), Class: class, Scopes: scopes, Known: known}
		s.Effects = append(s.Effects, e)
	}
	if t := h.twin.tx(id); t != nil {
		for _, g := range t.grants {
			if g.Access == sequencer.WriteAccess && !h.rarely(4) {
				effect(pick(&h.dice, sequencer.ClassReversible, sequencer.ClassKnownOutcome), g.Scope)
			}
		}
		for _, n := range t.asked {
			s.Touches = append(s.Touches, sequencer.TouchReport{N: n, Known: !h.rarely(30)})
		}
	}
	for h.rarely(3) {
		class := pick(&h.dice, sequencer.ClassBufferable, sequencer.ClassIrreversible, sequencer.ClassRead)
		effect(class, slices.Compact([]sequencer.Scope{h.scope(), h.scope()})...)
	}
	if h.rarely(8) {
		class := sequencer.ClassRead
		if h.rarely(8) {
			class = sequencer.ClassIrreversible
		}
		effect(class)
		s.Effects[len(s.Effects)-1].Absent = true
	}
	if h.rarely(40) {
		effect(sequencer.ClassReversible, h.scope())
		s.Effects[0].Index = uint32(h.n(2))
	}
	h.askApprovals(s)
	for h.rarely(3) {
		w := sequencer.ShardWrite{Scope: h.shard(), Content: []byte(pick(&h.dice, "1", "2", "x"))}
		if h.n(5) < 2 {
			w.Op = pick(&h.dice, sequencer.OpAppend, sequencer.OpAppend, sequencer.OpAppend, sequencer.OpAdd, sequencer.OpUnion)
		}
		if h.rarely(2) && (w.Op == sequencer.OpSet || h.rarely(20)) {
			w.Expect = &sequencer.Expect{View: h.view()}
		}
		if h.rarely(4) {
			w.Former = &sequencer.Former{View: h.view(), Content: []byte("was")}
			w.Former.Version = w.Former.View - min(w.Former.View, sequencer.Seq(h.n(12)))
			w.Former.Restored = w.Former.Version / pick(&h.dice, sequencer.Seq(1000), 1000, 2)
		}
		s.Shards = append(s.Shards, w)
	}
	if h.rarely(14) && h.twin.rules.Logic > 3 { // an earlier logic does not read it
		h.takeAway(s)
	}
	if h.rarely(5) {
		s.Pins = append(s.Pins, sequencer.Pin{Server: "s", Name: pick(&h.dice, "t", "u"), Signature: "1"})
	}
	if h.rarely(5) {
		s.ReadFrom = append(s.ReadFrom, h.id(), h.id())
		if h.rarely(3) { // one that is still to come
			s.ReadFrom[0] = sequencer.TxID(fmt.Sprintf("T%d", h.fresh+1))
		}
	}
	return s
}

func (h *history) settle(id sequencer.TxID) *sequencer.Settle {
	s := &sequencer.Settle{NoneElse: h.rarely(2)}
	result := func() sequencer.Result {
		if h.rarely(4) {
			return sequencer.Result(1 + h.n(3))
		}
		return sequencer.ResultClean
	}
	if t := h.twin.tx(id); t != nil {
		for _, hold := range t.holds() {
			if !h.rarely(3) {
				e := sequencer.Settled{Index: uint32(len(s.Effects)), Scopes: []sequencer.Scope{hold.Scope}, Result: result()}
				s.Effects = append(s.Effects, e)
			}
		}
	}
	if h.rarely(10) { // neither what nor where is known
		s.Effects = append(s.Effects, sequencer.Settled{Index: uint32(len(s.Effects)), Result: sequencer.ResultUnresolved})
	}
	if h.rarely(16) { // narrower than a hold, or another transaction's
		e := sequencer.Settled{Index: uint32(len(s.Effects)), Scopes: []sequencer.Scope{h.scope()}, Result: result()}
		s.Effects = append(s.Effects, e)
	}
	return s
}

// rules are the next version with a few of the settings drawn again.
func (h *history) rules() *sequencer.Rules {
	r := h.twin.rules
	r.Version++
	if h.rarely(8) {
		r.Version += uint32(h.n(3)) - 1
	}
	r.Observe = h.rarely(5)
	r.Levels = pick(&h.dice, sequencer.L4, sequencer.L4, sequencer.L4, sequencer.L0, sequencer.L1, sequencer.L2)
	r.HorizonSeqs = pick(&h.dice, sequencer.Seq(1000), 0, 4)
	r.HorizonCommits = pick(&h.dice, uint32(0), 100, 1, 4)
	r.HorizonTicks = pick(&h.dice, sequencer.Tick(0), 100, 3)
	r.CapSeqs = pick(&h.dice, sequencer.Seq(4096), 3, 12, 0)
	r.LeaseTicks = pick(&h.dice, sequencer.Tick(40), 8, 9, 12)
	r.DeadlineTicks = pick(&h.dice, sequencer.Tick(2400), 6)
	r.BoundTicks = pick(&h.dice, sequencer.Tick(240), 3)
	r.VerdictTicks = pick(&h.dice, sequencer.Tick(40), 2)
	r.ApprovalTicks = pick(&h.dice, sequencer.Tick(0), 2, 9)
	r.MaxOpen = pick(&h.dice, uint32(1000), 1000, 2)
	if h.rarely(3) {
		r.Logic = uint32(1 + h.n(5))
	}
	r.MaxSidecars = pick(&h.dice, uint32(0), 3, 2)
	r.MaxScopes = pick(&h.dice, uint32(256), 256, 2)
	return &r
}
