package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
)

// realKeyLife is how long a sink that forgets keys remembers one: of three tries of a call that is not answered, the
// last one comes too late.
const realKeyLife = 1900 * time.Millisecond

// tools is the policy and the way to the sinks of one process. A tool's name says its class, "bare_" before it that
// its sink takes no key.
type tools struct {
	b *bubble
	p *proc
}

// Find is part of a policy's interface to the gate.
func (t *tools) Find(tool string, args json.RawMessage) (gate.Tool, error) {
	var in struct {
		At, Key string
		Ask     bool // a held call needs approval
		Pin     bool // it relies on the registry's entry
		Brief   bool // its sink forgets keys
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return gate.Tool{}, err
	}
	name, bare := strings.CutPrefix(tool, "bare_")
	out := gate.Tool{Name: tool, Scopes: []sequencer.Scope{sequencer.Scope("res:" + in.At)}, Keyed: !bare, Undo: true,
		Forbids: !bare, MaxTime: realCall,
		Retry: gate.Retry{Attempts: 3, Backoff: 50 * time.Millisecond, Most: 200 * time.Millisecond}}
	switch name {
	case "look":
		out.Class = sequencer.ClassRead
	case "set":
		out.Class, out.Cost = sequencer.ClassReversible, 1
	case "charge":
		out.Class = sequencer.ClassKnownOutcome
	case "stage":
		out.Class = sequencer.ClassBufferable
	case "mail":
		out.Class, out.Undo = sequencer.ClassIrreversible, false
		if !bare {
			out.Key = in.Key
		}
	case "back":
		out.Class, out.Undo = sequencer.ClassReversible, false
	default:
		return gate.Tool{}, fmt.Errorf("%w: %s", gate.ErrNotServed, tool)
	}
	if in.Brief && out.Keyed {
		out.KeyLife = realKeyLife
	}
	if in.Pin {
		out.Pin = t.p.h.pinned(name)
		t.b.mu.Lock()
		if out.Pin != nil {
			t.b.pinned[string(args)] = append(t.b.pinned[string(args)], *out.Pin)
		} else {
			t.b.pinned[string(args)] = append(t.b.pinned[string(args)], sequencer.Pin{})
		}
		t.b.mu.Unlock()
	}
	out.Approve = in.Ask && out.Class.Gated()
	return out, nil
}

// Undo is part of a policy's interface to the gate.
func (t *tools) Undo(e gate.Effect, _ gate.Answer) (gate.Call, error) {
	c := gate.Call{Tool: "bare_back", Tx: e.Tx, Index: e.Index, Args: e.Args, Compensates: e.Key}
	if e.Key != "" {
		c.Tool, c.Key = "back", e.Key+"/undo"
	}
	return c, nil
}

// Adapter is part of a policy's interface to the gate.
func (t *tools) Adapter(string) (gate.Adapter, error) { return t, nil }

// Call is part of an adapter's interface to the gate: the call lands at a time of its own, whatever becomes of its
// maker, and before its maximum time; its answer comes later, or never.
func (t *tools) Call(ctx context.Context, c gate.Call) (gate.Answer, error) {
	b := t.b
	how := How(0)
	if !t.p.dead.Load() {
		how = t.p.op(doorCall)
	}
	if how == Fails || t.p.dead.Load() || t.p.chance(hitCallDown, func(f *faults) float64 { return f.callDown }) {
		t.p.slow(ctx)
		return gate.Answer{}, fmt.Errorf("%w: no connection", gate.ErrNotSent)
	}
	landed := make(chan gate.Answer, 1)
	lost := t.p.chance(hitCallLost, func(f *faults) float64 { return f.callLost })
	mute := how == ComesLate || t.p.chance(hitCallMute, func(f *faults) float64 { return f.callMute })
	twice := c.Key != "" && t.p.chance(hitCallTwice, func(f *faults) float64 { return f.callTwice })
	most := realCall - 50*time.Millisecond
	if !lost && !mute {
		most /= 4
	}
	lands, answers := t.p.some(most), t.p.some(realCall/4)
	b.mu.Lock()
	b.r.now = b.step()
	b.r.note("%s calls %s %s/%d key %q compensates %q: lands in %v, lost %v, mute %v", t.p.name, c.Tool, c.Tx, c.Index,
		c.Key, c.Compensates, lands, lost, mute)
	b.mu.Unlock()
	if !lost {
		time.AfterFunc(lands, func() { landed <- b.land(c) })
		b.settledBy(t.p.h.agent, &c)
	}
	if twice && !lost { // on the way; it lands within the longest time, too
		time.AfterFunc(lands+t.p.some(realCall-lands), func() { b.land(c) })
	}
	if lost || mute {
		b.sleep(ctx, 10*realCall)
		return gate.Answer{}, fmt.Errorf("%w: no answer", gate.ErrUnknown)
	}
	select {
	case a := <-landed:
		if t.p.done(how, nil) != nil {
			return gate.Answer{}, fmt.Errorf("%w: no answer", gate.ErrUnknown)
		}
		if !b.sleep(ctx, answers) {
			return gate.Answer{}, fmt.Errorf("%w: %w", gate.ErrUnknown, ctx.Err())
		}
		return a, nil
	case <-ctx.Done():
		return gate.Answer{}, fmt.Errorf("%w: %w", gate.ErrUnknown, ctx.Err())
	}
}

// settledBy counts whose process releases or undoes a call: that which issued it, a later one of its agent, or another
// agent's.
func (b *bubble) settledBy(caller string, c *gate.Call) {
	b.mu.Lock()
	defer b.mu.Unlock()
	agent, incarnation, _, _ := api.OwnerOf(c.Tx)
	own, undo := caller == agent, strings.HasSuffix(c.Tool, "back")
	gated := classOf(strings.TrimPrefix(c.Tool, "bare_")).Gated() && !undo
	switch {
	case undo && !own:
		b.r.probe(ProbeUndoneStranger)
	case undo:
		b.r.probe(ProbeCompensated)
	case gated && !own:
		b.r.probe(ProbeReleasedStranger)
	case gated && b.r.truth.live[agent] == incarnation:
		b.r.probe(ProbeReleasedOwn)
	case gated:
		b.r.probe(ProbeReleasedSuccessor)
	}
	if d := b.r.truth.txs[c.Tx]; d != nil && d.owner() != b.r.truth.live[caller] {
		b.r.probe(ProbeZombieCall)
	}
}

// LookUp is part of an adapter's interface to the gate.
func (t *tools) LookUp(ctx context.Context, c gate.Call) (gate.Answer, error) {
	b := t.b
	if !t.p.slow(ctx) || t.p.dead.Load() || t.p.passes(doorLookUp) != nil ||
		t.p.chance(hitLookMute, func(f *faults) float64 { return f.callMute }) {
		return gate.Answer{}, gate.ErrUnknown
	}
	if c.Key == "" || strings.HasPrefix(c.Tool, "mail") {
		return gate.Answer{}, gate.ErrNoLookup
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.effect(b.attempt(c.Tx), c.Index)
	switch d := b.r.world.deed(e.token); {
	case strings.HasSuffix(c.Tool, "back"):
		return gate.Answer{Absent: !d.undone}, nil
	case b.refuses[c.Key]:
		return gate.Answer{Refused: true, AboutKey: true}, nil
	case d.ran:
		return gate.Answer{Result: fmt.Appendf(nil, "%d", e.token)}, nil
	}
	return gate.Answer{Absent: true}, nil
}

// land is the sink.
func (b *bubble) land(c gate.Call) gate.Answer {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := &b.r.world
	b.r.now = b.step()
	b.r.note("lands %s %s/%d", c.Tool, c.Tx, c.Index)
	name := strings.TrimPrefix(c.Tool, "bare_")
	var in struct {
		At    string
		Brief bool
	}
	_ = json.Unmarshal(c.Args, &in)
	scope := sequencer.Scope("res:" + in.At)
	if name == "look" {
		var seen []token
		for _, leaf := range foreign(scope) {
			seen = append(seen, w.value[leaf])
		}
		text, _ := json.Marshal(seen)
		return gate.Answer{Result: text}
	}
	a := b.attempt(c.Tx)
	e := b.effect(a, c.Index)
	e.scope, e.leaves = scope, foreign(scope)
	own := &call{tx: c.Tx, effect: e, leaves: e.leaves}
	d := w.deed(e.token)
	if name == "back" {
		e.key = c.Compensates
		return b.landUndo(own, c, d)
	}
	e.key, e.class = c.Key, classOf(name)
	if first := b.since[e.token]; in.Brief && c.Key != "" && d.ran && time.Since(first) > realKeyLife {
		b.r.fail("%s/%d comes again %v after it ran: its sink has forgotten its key by then, and it runs twice", c.Tx,
			c.Index, time.Since(first))
		return gate.Answer{}
	}
	switch was := b.under[e.token]; {
	case d.ran && was != c.Key:
		b.r.fail("%s/%d has left under key %q and under %q", c.Tx, c.Index, was, c.Key)
		return gate.Answer{}
	case c.Key != "" && (b.refuses[c.Key] || d.refused):
		return gate.Answer{Refused: true, AboutKey: true, Detail: "refused before"}
	case !d.ran && b.r.chance(b.fault.callNo):
		if c.Key != "" {
			b.refuses[c.Key] = true
		}
		b.r.hit(hitCallNo)
		return gate.Answer{Refused: true, AboutKey: c.Key != "", Detail: "the sink says no"}
	}
	b.under[e.token] = c.Key
	before := d.ran
	if e.eager() {
		w.do(own)
	} else {
		w.release(own)
	}
	if d.ran && !before {
		b.since[e.token] = time.Now()
		if list := b.pinned[string(c.Args)]; len(list) > 0 {
			a.relies = append(a.relies, pinned{index: c.Index, list: list})
			if info := b.r.truth.txs[c.Tx]; info != nil && info.committed && !info.free && !a.begin.Observe {
				b.relied(a, info, a.relies[len(a.relies)-1])
			}
		}
		b.inOrder(a, e)
		b.agreed(c)
	}
	return gate.Answer{Result: fmt.Appendf(nil, "%d", e.token)}
}

// pinned is a call that relies on an entry of the registry: on one of those that the policy has named for it.
type pinned struct {
	index uint32
	list  []sequencer.Pin
}

// relied: what a committed call relies on its seal has named. b.mu is held.
func (b *bubble) relied(a *attempt, info *txInfo, p pinned) {
	for _, pin := range p.list {
		if pin == (sequencer.Pin{}) || slices.Contains(info.seal.Pins, pin) {
			return
		}
	}
	b.r.fail("%s commits, its call %d relies on one of %v, and its seal names only %v", a.id, p.index, p.list,
		info.seal.Pins)
}

// landUndo is the sink of a compensation.
func (b *bubble) landUndo(own *call, c gate.Call, d *deed) gate.Answer {
	w := &b.r.world
	switch {
	case c.Compensates == "" && b.r.chance(b.fault.callNo):
		b.r.hit(hitCallNo)
		return gate.Answer{Refused: true, Detail: "the sink says no"}
	case c.Compensates != "" && d.ran && d.undone:
		return gate.Answer{Result: json.RawMessage("true")}
	}
	there := d.ran
	w.undo(own)
	return gate.Answer{Result: json.RawMessage("true"), Absent: !there}
}

func classOf(tool string) sequencer.Class {
	switch tool {
	case "set":
		return sequencer.ClassReversible
	case "charge":
		return sequencer.ClassKnownOutcome
	case "stage":
		return sequencer.ClassBufferable
	}
	return sequencer.ClassIrreversible
}
