package hostile

import (
	"fmt"
	"strings"

	"github.com/hence-dev/hence/sequencer"
)

// founders is how many sidecars a workspace begins with.
const founders = 4

// Founding is the joins that a workspace's log begins with.
func (w *World) Founding() []*sequencer.Intent {
	var out []*sequencer.Intent
	for range founders {
		in := w.join()
		in.Agent = fmt.Sprintf("a%d", w.joins)
		out = append(out, in)
	}
	return out
}

// Any draws an intent that makes sense now, of any kind: what keeps a workspace busy.
func (w *World) Any() *sequencer.Intent {
	if len(w.past) > 0 && w.rarely(20) {
		return w.past[w.rng.IntN(len(w.past))] // a copy
	}
	if len(w.queue) > 0 {
		in := w.queue[0]
		w.queue = w.queue[1:]
		return in
	}
	if w.rarely(60) {
		w.siblings()
	}
	if len(w.sidecars) < 2 && w.rarely(2) {
		return w.Draw(sequencer.IntentJoin)
	}
	at := w.rng.IntN(100)
	for _, k := range [...]struct {
		kind   sequencer.IntentKind
		weight int
	}{{sequencer.IntentJoin, 3}, {sequencer.IntentBegin, 7}, {sequencer.IntentTouch, 18}, {sequencer.IntentSeal, 24},
		{sequencer.IntentAbort, 3}, {sequencer.IntentSettle, 14}, {sequencer.IntentAdopt, 3}, {sequencer.IntentRetract, 5},
		{sequencer.IntentSelect, 2}, {sequencer.IntentRegister, 3}, {sequencer.IntentUnregister, 1},
		{sequencer.IntentVerdict, 5}, {sequencer.IntentWatermark, 6}, {sequencer.IntentRules, 2}} {
		if at -= k.weight; at < 0 {
			return w.Draw(k.kind)
		}
	}
	w.pass()
	return w.Draw(sequencer.IntentTick)
}

// siblings lets two branches of one group want the same scope, the older one last.
func (w *World) siblings() {
	s := w.live()
	w.fresh++
	group, scope := fmt.Sprintf("g%d", w.fresh), w.scope()
	ids := []sequencer.TxID{w.newID(), w.newID()}
	for _, id := range ids {
		w.queue = append(w.queue, &sequencer.Intent{Kind: sequencer.IntentBegin, Tx: id, N: 1, Agent: s.agent, Base: w.seq,
			Incarnation: s.incarnation, Begin: &sequencer.Begin{Mode: sequencer.Ordered, Group: group}})
	}
	for _, id := range []sequencer.TxID{ids[1], ids[0]} {
		w.queue = append(w.queue, &sequencer.Intent{Kind: sequencer.IntentTouch, Tx: id, N: 1, Agent: s.agent, Base: w.seq,
			Incarnation: s.incarnation, Touch: &sequencer.Touch{Wants: wants([]sequencer.Scope{scope})}})
	}
}

// pass lets time pass: ticks come in runs, else no bound would ever end. Most leases are renewed then.
func (w *World) pass() {
	for n := range uint64(w.rng.IntN(12)) {
		w.queue = append(w.queue, &sequencer.Intent{Kind: sequencer.IntentTick,
			Tick: &sequencer.TickMark{N: w.tick + 1 + n, Weight: pick(w, sequencer.Tick(1), 1, 1, 8)}})
	}
	for _, s := range w.sidecars {
		if !w.rarely(6) {
			w.queue = append(w.queue, &sequencer.Intent{Kind: sequencer.IntentWatermark, Agent: s.agent,
				Incarnation: s.incarnation, Watermark: &sequencer.Watermark{Seq: w.seq - min(w.seq, 20)}})
		}
	}
}

// Draw makes an intent of a kind that makes sense now, most of the time.
func (w *World) Draw(kind sequencer.IntentKind) *sequencer.Intent {
	in := w.draw(kind)
	if w.rarely(3) {
		in.Signer = strings.Repeat("k", signerBytes+1-w.rng.IntN(3)) // one that is too long is skipped
	}
	if len(w.past) < 64 {
		w.past = append(w.past, in)
	} else if w.rarely(4) {
		w.past[w.rng.IntN(len(w.past))] = in
	}
	return in
}

func (w *World) draw(kind sequencer.IntentKind) *sequencer.Intent {
	switch kind {
	case sequencer.IntentJoin:
		return w.join()
	case sequencer.IntentTick:
		return &sequencer.Intent{Kind: kind, Tick: &sequencer.TickMark{N: w.tick, Weight: sequencer.Tick(1 + w.rng.IntN(8))}}
	case sequencer.IntentRules:
		return &sequencer.Intent{Kind: kind, Rules: w.nextRules()}
	}
	s := w.live()
	in := &sequencer.Intent{Kind: kind, Agent: s.agent, Incarnation: s.incarnation, Base: w.seq, N: 1}
	switch kind {
	case sequencer.IntentWatermark:
		in.Watermark = &sequencer.Watermark{Seq: w.view()}
	case sequencer.IntentRegister, sequencer.IntentUnregister:
		in.Register = w.register()
	case sequencer.IntentSelect:
		in.Select = &sequencer.Select{Group: w.group(), Winner: w.known()}
	default:
		w.about(in)
	}
	return in
}

// about makes it an intent about a transaction for which the kind makes sense.
func (w *World) about(in *sequencer.Intent) {
	t := w.one(func(t *knownTx) bool {
		switch in.Kind {
		case sequencer.IntentTouch, sequencer.IntentSeal:
			return !t.sealed && !t.decided && !t.waits
		case sequencer.IntentAbort:
			return !t.decided
		case sequencer.IntentVerdict:
			return t.sealed && !t.decided
		case sequencer.IntentSettle:
			return t.decided && !t.final
		case sequencer.IntentAdopt:
			return t.decided && !t.final && t.owner == 0
		case sequencer.IntentRetract:
			return t.committed
		}
		return false
	})
	if t == nil || w.rarely(12) {
		t = w.one(func(*knownTx) bool { return true })
	}
	opens := in.Kind == sequencer.IntentTouch || in.Kind == sequencer.IntentSeal || in.Kind == sequencer.IntentBegin
	if t == nil || opens && w.rarely(3) {
		t = &knownTx{id: w.newID(), agent: in.Agent, incarnation: in.Incarnation}
		in.Begin = w.begin()
	}
	in.Tx = t.id
	if s := w.of(max(t.owner, t.incarnation)); in.Kind != sequencer.IntentAdopt && !w.rarely(12) {
		in.Agent, in.Incarnation = s.agent, s.incarnation
	}
	in.N = w.number(in)
	if w.rarely(16) {
		in.Base -= min(in.Base, sequencer.Seq(w.rng.IntN(40)))
	}
	w.payload(in, t)
}

func (w *World) payload(in *sequencer.Intent, t *knownTx) {
	switch in.Kind {
	case sequencer.IntentBegin:
		in.Begin = w.begin()
	case sequencer.IntentTouch:
		in.Touch = &sequencer.Touch{Wants: w.wants(), BoundTicks: sequencer.Tick(w.rng.IntN(4))}
		t.touches = max(t.touches, in.N)
	case sequencer.IntentSeal:
		in.Seal = w.seal(t)
	case sequencer.IntentAbort:
		in.Abort = &sequencer.Abort{Code: pick(w, "", sequencer.CodeToolFailed, sequencer.CodeStaleRead),
			Detail: "given up" + w.tail()}
	case sequencer.IntentSettle:
		in.Settle = w.settle(t)
	case sequencer.IntentVerdict:
		in.Verdict = &sequencer.Verdict{Yes: !w.rarely(4), Footprint: t.footprint, Reason: "because" + w.tail()}
		in.Verdict.Unavailable = !in.Verdict.Yes && w.rarely(3)
		for w.rarely(2) {
			in.Verdict.Approvals = append(in.Verdict.Approvals, sequencer.Approval{Index: uint32(w.rng.IntN(3)),
				Yes: !w.rarely(4), By: pick(w, "ann", "ann", "ann", "", "bob"+w.tail()), Args: approvedArgs()})
		}
	}
}

func (w *World) join() *sequencer.Intent {
	w.joins++
	return &sequencer.Intent{Kind: sequencer.IntentJoin, Agent: pick(w, "a1", "a2", "a3", "a4", "a5", "a6"),
		Join: &sequencer.Join{ID: fmt.Sprintf("j%d%s", w.joins, w.tail()), Logic: w.logic}}
}

func (w *World) view() sequencer.Seq {
	if w.rarely(4) {
		return w.seq - min(w.seq, sequencer.Seq(w.rng.IntN(20)))
	}
	return w.seq
}

func (w *World) scope() sequencer.Scope {
	return pick(w, sequencer.Scope("doc:/a"), "doc:/b", "doc:/a/x", "doc:/a/y", "doc:/c", "doc:/d", "mail:/x", "shard:/s",
		"shard:/t", "shard:/s/x", "doc:/*/x", "doc:/*", "shard:/*")
}

func (w *World) wants() (out []sequencer.Want) {
	for len(out) == 0 || w.rarely(3) {
		out = append(out, sequencer.Want{Scope: w.scope(), Access: sequencer.Access(min(1, w.rng.IntN(3)))})
	}
	return out
}

// group is a branch group, rarely one that was not named yet.
func (w *World) group() string {
	if w.rarely(6) {
		w.fresh++
		return fmt.Sprintf("g%d%s", w.fresh, w.tail())
	}
	return pick(w, "g", fmt.Sprintf("h%d", w.fresh/16))
}

// known is a transaction that is known, or a new name.
func (w *World) known() sequencer.TxID {
	if t := w.one(func(*knownTx) bool { return true }); t != nil && !w.rarely(6) {
		return t.id
	}
	return w.newID()
}

func (w *World) begin() *sequencer.Begin {
	b := &sequencer.Begin{Mode: sequencer.Mode(w.rng.IntN(3)), Observe: w.rarely(12)}
	if w.rarely(4) {
		b.DeadlineTicks = sequencer.Tick(1 + w.rng.IntN(12))
	}
	if w.rarely(4) {
		v := sequencer.Levels(w.rng.IntN(16))
		b.Levels = &v
	}
	if w.rarely(3) {
		b.Group = w.group()
	}
	if w.rarely(3) {
		b.Session = w.group()
	}
	if w.rarely(3) {
		b.Predecessor = w.known()
	}
	if b.Mode == sequencer.Ordered && w.rarely(3) {
		b.May = w.wants()
	}
	return b
}

// approvedArgs is the hash of all arguments that need approval.
func approvedArgs() sequencer.Hash { return sequencer.Hash{7} }

// seal lists what the transaction was granted, and more.
func (w *World) seal(t *knownTx) *sequencer.Seal {
	s := &sequencer.Seal{Hook: w.rarely(4), VerdictTicks: sequencer.Tick(w.rng.IntN(9))}
	for w.rng.IntN(5) > 2 {
		r := sequencer.Read{Scope: w.scope(), View: w.view(), Writer: w.known()}
		r.Version = r.View - min(r.View, sequencer.Seq(w.rng.IntN(3)))
		s.Reads = append(s.Reads, r)
	}
	effect := func(class sequencer.Class, scopes ...sequencer.Scope) {
		s.Effects = append(s.Effects, sequencer.Effect{Index: uint32(len(s.Effects)), Class: class, Scopes: scopes,
			Tool: "tool" + w.tail(), Key: pick(w, "", "key"+w.tail()), Known: class.Eager()})
	}
	for _, h := range t.holds {
		if h.Kind == sequencer.Granted && h.Access == sequencer.WriteAccess {
			effect(pick(w, sequencer.ClassReversible, sequencer.ClassKnownOutcome), h.Scope)
		}
	}
	for n := range t.touches {
		s.Touches = append(s.Touches, sequencer.TouchReport{N: n + 1, Known: true})
	}
	for w.rarely(2) {
		effect(pick(w, sequencer.ClassBufferable, sequencer.ClassIrreversible, sequencer.ClassRead), w.scope(), w.scope())
		if e := &s.Effects[len(s.Effects)-1]; e.Class.Gated() && w.rarely(4) {
			e.Approve, e.Args = true, approvedArgs()
		}
	}
	for w.rarely(2) && len(s.Shards) < 3 {
		s.Shards = append(s.Shards, w.shard(len(s.Shards)))
	}
	if w.rarely(6) {
		s.Pins = append(s.Pins, sequencer.Pin{Server: "s1", Name: "t1", Signature: "1"})
	}
	if w.rarely(5) {
		s.ReadFrom = append(s.ReadFrom, w.known(), w.known())
	}
	if w.rarely(3) {
		s.At = &sequencer.Place{Partition: 1, Offset: 7}
	}
	return s
}

func (w *World) shard(i int) sequencer.ShardWrite {
	out := sequencer.ShardWrite{Scope: [...]sequencer.Scope{"shard:/s", "shard:/t", "shard:/s/x"}[i],
		Type: "text/plain" + w.tail(), Content: []byte(text(pick(w, "c", "\x02", "é"), w.rng.IntN(64)))}
	if w.rarely(3) {
		out.Expect = &sequencer.Expect{View: w.view()}
	}
	if w.rarely(4) {
		out.Former = &sequencer.Former{View: w.view(), Content: []byte("was")}
	}
	if w.rarely(6) {
		out.Content, out.Ref = nil, &sequencer.Ref{Offset: 9, Size: 5000, SHA256: sequencer.Hash{1}}
	}
	return out
}

func (w *World) settle(t *knownTx) *sequencer.Settle {
	s := &sequencer.Settle{NoneElse: w.rarely(2)}
	for _, h := range t.holds {
		result := sequencer.ResultClean
		if w.rarely(4) {
			result = sequencer.Result(1 + w.rng.IntN(3))
		}
		s.Effects = append(s.Effects, sequencer.Settled{Index: uint32(len(s.Effects)), Scopes: []sequencer.Scope{h.Scope},
			Result: result})
	}
	if w.rarely(12) { // it was not granted this one
		s.Effects = append(s.Effects, sequencer.Settled{Scopes: []sequencer.Scope{"other:/x"}})
	}
	return s
}

func (w *World) register() *sequencer.Register {
	w.gen++
	r := &sequencer.Register{Server: pick(w, "s1", "s2", "s3"+w.tail()), Generation: w.gen}
	for i := range 1 + w.rng.IntN(3) {
		r.Tools = append(r.Tools, sequencer.Tool{Name: fmt.Sprintf("t%d%s", i+1, w.tail()), Signature: pick(w, "1", "2")})
	}
	return r
}

// nextRules are the next version with a few of the settings drawn again.
func (w *World) nextRules() *sequencer.Rules {
	r := w.rules
	r.Version++
	r.Observe = w.rarely(3) && !r.Observe
	r.Levels = pick(w, sequencer.L4, sequencer.L4, sequencer.L2, sequencer.L0)
	r.HorizonSeqs = pick(w, sequencer.Seq(1000), 1000, 20)
	r.CapSeqs = pick(w, sequencer.Seq(4096), 4096, 60)
	r.LeaseTicks = pick(w, sequencer.Tick(40), 20)
	r.MaxOpen = pick(w, uint32(1000), 1000, 12)
	r.MaxScopes = pick(w, uint32(256), 256, 6)
	return &r
}
