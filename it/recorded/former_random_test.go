package recorded

import (
	"fmt"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// random appends n drawn intents: mostly as sidecars send them, and some that none should.
func (c *composer) random(n int) {
	c.t.Helper()
	for range n {
		if in := c.draw(); in != nil {
			c.put(in)
		}
	}
}

func drawn[T any](c *composer, list ...T) T { return list[c.IntN(len(list))] }

// once is true once in k.
func (c *composer) once(k int) bool { return c.IntN(k) == 0 }

func (c *composer) scope() sequencer.Scope {
	return drawn(c, sequencer.Scope("doc:/a"), "doc:/b", "doc:/a/x", "doc:/a/y", "shard:/s", "shard:/t", "shard:/s/x",
		"doc:/*/x", "doc:/*", "shard:/*")
}

func (c *composer) want() sequencer.Want {
	return sequencer.Want{Scope: c.scope(), Access: sequencer.Access(min(1, c.IntN(3)))}
}

func (c *composer) wants() []sequencer.Want {
	out := []sequencer.Want{c.want()}
	for c.once(3) {
		out = append(out, c.want())
	}
	return out
}

// view is a seq that a view may have reached, mostly the head.
func (c *composer) view() sequencer.Seq {
	seq := c.seq()
	if c.once(3) {
		return seq - min(seq, sequencer.Seq(c.IntN(6)))
	}
	return seq
}

// kind draws a verb; zero stands for a copy of a former record.
func (c *composer) kind() sequencer.IntentKind {
	kinds := [...]sequencer.IntentKind{0, sequencer.IntentJoin, sequencer.IntentBegin, sequencer.IntentTouch,
		sequencer.IntentSeal, sequencer.IntentAbort, sequencer.IntentSettle, sequencer.IntentAdopt,
		sequencer.IntentRetract, sequencer.IntentSelect, sequencer.IntentRegister, sequencer.IntentUnregister,
		sequencer.IntentVerdict, sequencer.IntentWatermark, sequencer.IntentRules, sequencer.IntentTick}
	weights := [...]int{4, 1, 6, 17, 26, 3, 14, 2, 5, 1, 2, 1, 4, 10, 1, 3} // 100
	at := c.IntN(100)
	for i, weight := range weights {
		if at -= weight; at < 0 {
			return kinds[i]
		}
	}
	return 0
}

func (c *composer) draw() *sequencer.Intent {
	st := c.state()
	kind := c.kind()
	if c.ticking && !c.once(3) { // ticks come in runs, else no lease would ever end
		kind = sequencer.IntentTick
	}
	c.ticking = kind == sequencer.IntentTick
	if len(st.Sidecars) < 3 && c.once(3) {
		kind = sequencer.IntentJoin
	}
	switch kind {
	case 0:
		if len(c.frames) > 0 {
			f := c.frames[c.IntN(len(c.frames))]
			in, err := topology.DecodeIntent(f.Value)
			if err != nil {
				c.t.Fatal(err)
			}
			return in
		}
		return nil
	case sequencer.IntentJoin:
		c.joins++
		join := &sequencer.Join{ID: fmt.Sprint("j", c.joins), Logic: c.logic}
		return &sequencer.Intent{Kind: kind, Agent: drawn(c, "ann", "bob", "cy", "dan"), Join: join}
	case sequencer.IntentTick:
		mark := &sequencer.TickMark{N: st.TickN + 1, Weight: drawn(c, sequencer.Tick(1), 1, 1, 8)}
		if c.once(20) {
			mark.N += uint64(c.IntN(2)) * 2
		}
		return &sequencer.Intent{Kind: kind, Tick: mark}
	case sequencer.IntentRules:
		c.rules(c.drawnRules)
		return nil
	}
	in := &sequencer.Intent{Kind: kind, Base: st.Seq, Agent: drawn(c, "ann", "bob", "cy")}
	if n := len(st.Sidecars); n > 0 && !c.once(10) {
		in.Agent = st.Sidecars[c.IntN(n)].Agent
	}
	c.address(&st, in)
	c.payload(&st, in)
	if in.Touch != nil && c.once(20) {
		in.Touch.Wants[0].Scope = "no scope" // the fold cannot read it and goes on
	}
	return in
}

// drawnRules draws a few of the settings.
func (c *composer) drawnRules(r *sequencer.Rules) {
	if c.once(8) {
		r.Version += uint32(c.IntN(3)) - 1
	}
	r.Observe = c.once(4)
	r.Levels = drawn(c, sequencer.L4, sequencer.L4, sequencer.L4, sequencer.L0, sequencer.L1, sequencer.L2, sequencer.A3)
	r.HorizonSeqs = drawn(c, sequencer.Seq(1000), 1000, 200, 0, 4)
	r.CapSeqs = drawn(c, sequencer.Seq(4096), 4096, 200, 3, 0)
	r.LeaseTicks = drawn(c, sequencer.Tick(40), 40, 80, 8, 9)
	r.DeadlineTicks = drawn(c, sequencer.Tick(2400), 2400, 12)
	r.BoundTicks = drawn(c, sequencer.Tick(240), 3)
	r.VerdictTicks = drawn(c, sequencer.Tick(40), 2)
	r.MaxOpen = drawn(c, uint32(1000), 1000, 1000, 3)
	r.MaxScopes = drawn(c, uint32(256), 256, 256, 3)
}

// address puts in whose intent it is: mostly that of the transaction's own sidecar, with the next number.
func (c *composer) address(st *sequencer.State, in *sequencer.Intent) {
	switch in.Kind {
	case sequencer.IntentSelect, sequencer.IntentRegister, sequencer.IntentUnregister, sequencer.IntentWatermark:
	default:
		in.Tx = c.likely(st, in.Kind)
		if t := txIn(st, in.Tx); t != nil && !c.once(12) {
			if in.Kind != sequencer.IntentAdopt {
				in.Agent = t.Agent
			}
			for _, s := range st.Sidecars {
				if s.Incarnation == t.Owner {
					in.Agent = s.Agent
				}
			}
		}
	}
	in.Incarnation = c.live(in.Agent)
	if c.once(40) {
		in.Incarnation = sequencer.Seq(c.IntN(6))
	}
	if c.once(16) {
		in.Base -= min(in.Base, sequencer.Seq(c.IntN(8)))
	} else if c.once(60) {
		in.Base++
	}
	if in.Tx != "" {
		if in.N = c.number(in); in.N > 1 && c.once(16) {
			in.N--
		}
	}
}

func txIn(st *sequencer.State, id sequencer.TxID) *sequencer.TxState {
	for i := range st.Txs {
		if st.Txs[i].ID == id {
			return &st.Txs[i]
		}
	}
	return nil
}

// likely draws a transaction for which the verb makes sense, most of the time.
func (c *composer) likely(st *sequencer.State, kind sequencer.IntentKind) sequencer.TxID {
	fits := func(t *sequencer.TxState) bool {
		unsettled := t.Phase == sequencer.PhaseCommitted || t.Phase == sequencer.PhaseAborted ||
			t.Phase == sequencer.PhaseRetracting
		switch kind {
		case sequencer.IntentTouch:
			return t.Phase == sequencer.PhaseOpen
		case sequencer.IntentSeal:
			return t.Phase == sequencer.PhaseOpen && t.Waiting == nil
		case sequencer.IntentVerdict:
			return t.VerdictDue != 0
		case sequencer.IntentAdopt:
			return unsettled && t.Owner == 0
		case sequencer.IntentSettle:
			return unsettled
		case sequencer.IntentRetract:
			return t.Past != nil && t.Retraction == "" && t.Decision != 0
		}
		return false
	}
	open := kind == sequencer.IntentTouch || kind == sequencer.IntentSeal
	if open && c.once(4) || c.once(16) {
		return c.some(st)
	}
	var list []sequencer.TxID
	for i := range st.Txs {
		if fits(&st.Txs[i]) {
			list = append(list, st.Txs[i].ID)
		}
	}
	if n := len(list); n > 0 && kind == sequencer.IntentRetract {
		return list[min(c.IntN(n), c.IntN(n))] // rather an early one: more follows from it
	} else if n > 0 {
		return list[n-1-min(c.IntN(n), c.IntN(n))] // rather a late one
	}
	return c.some(st)
}

// some is one of the latest transactions, or a new one.
func (c *composer) some(st *sequencer.State) sequencer.TxID {
	known := len(st.Txs)
	if back := c.IntN(7) - 2; back > 0 && back <= known {
		return st.Txs[known-back].ID
	}
	c.fresh++
	return sequencer.TxID(fmt.Sprint("T", c.fresh))
}

func (c *composer) payload(st *sequencer.State, in *sequencer.Intent) {
	switch in.Kind {
	case sequencer.IntentBegin:
		in.Begin = c.begin(st)
	case sequencer.IntentTouch:
		in.Touch = &sequencer.Touch{Wants: c.wants(), BoundTicks: sequencer.Tick(c.IntN(4))}
	case sequencer.IntentSeal:
		in.Seal = c.seal(st, in.Tx)
	case sequencer.IntentAbort:
		codes := []sequencer.Code{"", sequencer.CodeToolFailed, sequencer.CodeStaleRead, sequencer.CodeVetoed}
		in.Abort = &sequencer.Abort{Code: drawn(c, codes...), Detail: drawn(c, "", "the tool said no")}
	case sequencer.IntentSettle:
		in.Settle = c.settle(st, in.Tx)
	case sequencer.IntentSelect:
		in.Select = &sequencer.Select{Group: drawn(c, "g", "h"), Winner: c.some(st)}
	case sequencer.IntentRegister, sequencer.IntentUnregister:
		tool := sequencer.Tool{Name: drawn(c, "t", "u"), Signature: drawn(c, "1", "1", "2")}
		in.Register = &sequencer.Register{Server: drawn(c, "s", "s", "r"), Generation: uint64(1 + c.IntN(9)),
			Tools: []sequencer.Tool{tool, {Name: "t", Signature: "1"}}}
	case sequencer.IntentVerdict:
		in.Verdict = &sequencer.Verdict{Yes: !c.once(4), Reason: drawn(c, "", "too many letters")}
		if t := txIn(st, in.Tx); t != nil && !c.once(8) {
			in.Verdict.Footprint = t.Footprint
		}
	case sequencer.IntentWatermark:
		in.Watermark = &sequencer.Watermark{Seq: c.view() + sequencer.Seq(c.IntN(2))}
	}
	unknown := txIn(st, in.Tx) == nil
	opens := in.Kind == sequencer.IntentTouch || in.Kind == sequencer.IntentSeal || in.Kind == sequencer.IntentAbort
	if unknown && opens && !c.once(3) {
		in.Begin = c.begin(st)
	}
}

func (c *composer) begin(st *sequencer.State) *sequencer.Begin {
	b := &sequencer.Begin{Mode: sequencer.Mode(c.IntN(3)), Observe: c.once(8), DeadlineTicks: sequencer.Tick(c.IntN(16))}
	if b.DeadlineTicks > 11 || b.DeadlineTicks < 4 {
		b.DeadlineTicks = 0
	}
	if c.once(4) {
		v := sequencer.Levels(c.IntN(16))
		b.Levels = &v
	}
	if c.once(4) {
		b.Group = drawn(c, "g", "h")
	}
	if c.once(3) {
		b.Predecessor = c.some(st)
	}
	if b.Mode == sequencer.Ordered && c.once(3) || c.once(60) {
		b.May = c.wants()
	}
	return b
}

// seal lists what the transaction was granted, and more.
func (c *composer) seal(st *sequencer.State, id sequencer.TxID) *sequencer.Seal {
	s := &sequencer.Seal{Hook: c.once(5), VerdictTicks: sequencer.Tick(c.IntN(3))}
	for c.IntN(5) > 2 {
		r := sequencer.Read{Scope: c.scope(), View: c.view()}
		r.Version = r.View - min(r.View, sequencer.Seq(c.IntN(3)))
		s.Reads = append(s.Reads, r)
	}
	effect := func(class sequencer.Class, scopes ...sequencer.Scope) {
		e := sequencer.Effect{Index: uint32(len(s.Effects)), Class: class, Scopes: scopes, Known: class.Eager(),
			Tool: drawn(c, "mail.send", "card.charge"), Key: drawn(c, "", "k1")}
		s.Effects = append(s.Effects, e)
	}
	if t := txIn(st, id); t != nil {
		for _, g := range t.Grants {
			if g.Access == sequencer.WriteAccess && !c.once(5) {
				effect(drawn(c, sequencer.ClassReversible, sequencer.ClassKnownOutcome), g.Scope)
			}
		}
		for _, n := range t.GrantedNs {
			s.Touches = append(s.Touches, sequencer.TouchReport{N: n, Known: !c.once(30)})
		}
	}
	for c.once(3) {
		effect(drawn(c, sequencer.ClassBufferable, sequencer.ClassIrreversible, sequencer.ClassRead), c.scope())
	}
	if c.once(40) {
		effect(sequencer.ClassReversible, c.scope())
		s.Effects[0].Index = uint32(c.IntN(2))
	}
	for c.once(3) {
		s.Shards = append(s.Shards, c.shardWrite())
	}
	if c.once(5) {
		s.Pins = append(s.Pins, sequencer.Pin{Server: "s", Name: drawn(c, "t", "u"), Signature: "1"})
	}
	if c.once(5) {
		s.ReadFrom = append(s.ReadFrom, c.some(st), c.some(st))
	}
	if c.once(10) {
		s.At = &sequencer.Place{Partition: int32(c.IntN(8)), Offset: int64(c.IntN(1_000))}
	}
	return s
}

func (c *composer) shardWrite() sequencer.ShardWrite {
	w := sequencer.ShardWrite{Scope: drawn(c, sequencer.Scope("shard:/s"), "shard:/t", "shard:/s/x"), Type: "text/plain",
		Content: fmt.Appendf(nil, "content %d", c.IntN(1_000))}
	if c.once(8) {
		w.Content = nil
		w.Ref = &sequencer.Ref{Partition: 1, Offset: int64(c.IntN(100)), Size: 5_000}
		w.Ref.SHA256 = sequencer.Hash{byte(c.IntN(9))}
	}
	if c.once(2) {
		w.Expect = &sequencer.Expect{View: c.view()}
	}
	if c.once(4) {
		w.Former = &sequencer.Former{View: c.view(), Type: "text/plain", Content: []byte("was")}
		w.Former.Version = w.Former.View - min(w.Former.View, sequencer.Seq(c.IntN(12)))
	}
	return w
}

// settle names what a transaction holds, and now and then what it does not.
func (c *composer) settle(st *sequencer.State, id sequencer.TxID) *sequencer.Settle {
	s := &sequencer.Settle{NoneElse: c.once(2)}
	add := func(scopes ...sequencer.Scope) {
		result := sequencer.ResultClean
		if c.once(4) {
			result = sequencer.Result(1 + c.IntN(3))
		}
		s.Effects = append(s.Effects, sequencer.Settled{Index: uint32(len(s.Effects)), Scopes: scopes, Result: result})
	}
	if t := txIn(st, id); t != nil {
		for _, g := range t.Grants {
			if !c.once(4) {
				add(g.Scope)
			}
		}
		for _, g := range t.Gated {
			if !c.once(4) {
				add(g)
			}
		}
	}
	if c.once(10) {
		add(c.scope(), c.scope())
	}
	return s
}
