package sim

import (
	"strings"

	"github.com/hence-dev/hence/sequencer"
)

// sealNow freezes the footprint and asks for the decision.
func (c *sidecar) sealNow(a *attempt) {
	r := c.r
	s := &sequencer.Seal{Shards: a.writes, Touches: a.touches, ReadFrom: a.from, Hook: a.prog.hook}
	for _, read := range a.reads {
		s.Reads = append(s.Reads, read.Read)
	}
	for _, e := range a.effects {
		s.Effects = append(s.Effects, sequencer.Effect{Index: uint32(e.index), Scopes: []sequencer.Scope{e.scope},
			Class: e.class, Tool: "tool", Key: e.key, Known: e.known})
	}
	if a.prog.pins {
		s.Pins = c.pins()
	}
	if a.prog.sloppy && len(s.Touches) > 0 {
		s.Touches = s.Touches[1:]
	}
	a.seal = s
	in := c.intent(a, sequencer.IntentSeal)
	in.Seal = s
	c.send(in)
	if a.prog.hook {
		a.verdictAt = r.now + 1 + r.n(20)
	}
}

// awaitSeal waits for the decision, sends the hook's verdict, and chooses among branches.
func (c *sidecar) awaitSeal(l *lane) {
	r := c.r
	a := l.cur
	n := a.counts[sequencer.IntentSeal]
	if o := c.answer(a.id, sequencer.IntentSeal, n); o != nil && o.Kind == sequencer.OutcomeRefused {
		if c.refused(l, o.Code) {
			in := c.intent(a, sequencer.IntentSeal)
			in.Seal = a.seal
			c.send(in)
		}
		return
	}
	if a.prog.group != nil {
		c.choose(a.prog.group)
	}
	if a.verdictAt == 0 || a.verdictAt > r.now {
		return
	}
	a.verdictAt = 0
	if r.chance(r.swarm.veto / 2) {
		return // the hook gives no answer
	}
	in := c.intent(a, sequencer.IntentVerdict)
	in.Verdict = &sequencer.Verdict{Footprint: a.seal.Footprint(), Yes: !r.chance(r.swarm.veto)}
	in.Verdict.Unavailable = !in.Verdict.Yes && r.chance(0.3)
	if r.chance(r.swarm.pest) {
		in.Verdict.Footprint[0]++
		a.verdictAt = r.now + 3
	}
	c.send(in)
}

// choose names the winner of a group after a long enough wait.
func (c *sidecar) choose(g *group) {
	r := c.r
	if len(g.members) == 0 || r.now < g.since+10 {
		return
	}
	g.since = r.now + 50 // an incarnation that has ended is not heard
	c.send(&sequencer.Intent{Kind: sequencer.IntentSelect, Incarnation: c.incarnation, Base: c.view,
		Select: &sequencer.Select{Group: g.id, Winner: g.members[r.n(len(g.members))]}})
}

// useTools registers the tool servers after a join, and lets them flap.
func (c *sidecar) useTools() {
	r := c.r
	for _, server := range [...]string{"s0", "s1"} {
		_, known := c.tools[server]
		if known && !r.chance(r.swarm.registry) {
			continue
		}
		c.generation++
		reg := &sequencer.Register{Server: server, Generation: c.generation}
		in := &sequencer.Intent{Kind: sequencer.IntentUnregister, Incarnation: c.incarnation, Register: reg}
		c.tools[server] = ""
		if !known || r.chance(0.7) {
			in.Kind = sequencer.IntentRegister
			c.tools[server] = []string{"v1", "v2"}[r.n(2)]
			reg.Tools = []sequencer.Tool{{Name: "tool", Signature: c.tools[server]}, {Name: "other", Signature: "x"}}
			if r.swarm.full {
				reg.Tools[1].Signature = strings.Repeat("x", 100+r.n(500))
			}
		}
		c.send(in)
	}
}

// pins are the tools as the agent's plan knows them.
func (c *sidecar) pins() []sequencer.Pin {
	var out []sequencer.Pin
	for _, server := range [...]string{"s0", "s1"} {
		if signature := c.tools[server]; signature != "" {
			out = append(out, sequencer.Pin{Server: server, Name: "tool", Signature: signature})
		}
	}
	return out
}

// pester sends what a correct sidecar would not.
func (c *sidecar) pester() {
	a := c.lanes[c.r.n(len(c.lanes))].cur
	list := c.r.truth.list
	if a == nil || a.incarnation != c.incarnation || a.aborting || len(list) == 0 {
		return
	}
	other := list[c.r.n(len(list))]
	switch c.r.n(7) {
	case 0:
		if c.adoptions[other.id] != (adoption{}) || other.agent == c.agent {
			return
		}
		c.adoptions[other.id] = adoption{due: never}
		c.send(&sequencer.Intent{Kind: sequencer.IntentSettle, Tx: other.id, N: 50, Incarnation: c.incarnation,
			Base: c.view, Settle: &sequencer.Settle{}})
	case 1:
		if info := c.info(a.id); a.seal == nil || info == nil || !info.sealed {
			return
		}
		c.send(&sequencer.Intent{Kind: sequencer.IntentSeal, Tx: a.id, N: 100, Incarnation: c.incarnation, Base: a.base,
			Begin: a.begin, Seal: &sequencer.Seal{Hook: !a.seal.Hook}})
	case 2:
		if a.touch == 0 || a.seal != nil {
			return
		}
		in := c.intent(a, sequencer.IntentTouch)
		in.Touch = &sequencer.Touch{Wants: []sequencer.Want{{Scope: leaves()[0], Access: sequencer.WriteAccess}}}
		c.send(in)
	case 3:
		in := c.intent(a, sequencer.IntentVerdict)
		in.Verdict = &sequencer.Verdict{Yes: true}
		c.send(in)
	case 5:
		if b := c.r.attempts[other.id]; b != nil && other.agent != c.agent {
			c.send(&sequencer.Intent{Kind: sequencer.IntentAbort, Tx: other.id, N: 60, Incarnation: c.incarnation,
				Base: b.base})
		}
	case 6:
		c.stray()
	case 4:
		if c.adoptions[other.id].due != never {
			c.adopt(other)
		}
	}
}
