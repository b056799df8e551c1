package recorded

import (
	"fmt"

	"github.com/hence-dev/hence/sequencer"
)

// switches composes a log in which the workspace begins and ends to observe twice, with everything under way that the
// switch finds, and around it what logic 3 decides otherwise. Drawn intents stand between the scenes.
func (c *composer) switches() {
	c.agent("ann")
	c.agent("bob")
	c.random(100)
	c.coneOfFour("1")
	c.fullRegistry("s", "r", "q")
	c.random(60)
	c.foreignSettlement("1")
	c.adoptions()
	for _, round := range []string{"1", "2"} {
		c.underWay("before-" + round)
		c.observe(true)
		c.restOfUnderWay("before-" + round)
		c.observedRetraction(round)
		c.coneOfFour("observed-" + round)
		c.random(120)
		c.underWay("during-" + round)
		c.leftover(round)
		c.restOfUnderWay("during-" + round)
		c.random(120)
		c.coneOfFour("after-" + round)
		c.behindOrphan(round)
		c.unknownAborts(round)
	}
	c.changedTool()
	c.laterSidecar()
	c.oddRules()
	c.random(150)
	c.coneOfFour("last")
	if c.state().Rules.Observe {
		c.observe(false)
	}
}

// sealed appends the seal of a whole transaction.
func (c *composer) sealed(tx sequencer.TxID, agent string, s *sequencer.Seal) []sequencer.Outcome {
	c.t.Helper()
	c.agent(agent)
	return c.say(sequencer.IntentSeal, tx, agent, func(in *sequencer.Intent) {
		in.Begin, in.Seal = &sequencer.Begin{}, s
	})
}

// shard is a seal that reads some scopes and writes the content of one.
func (c *composer) shard(scope sequencer.Scope, content string, reads ...sequencer.Scope) *sequencer.Seal {
	s := &sequencer.Seal{Shards: []sequencer.ShardWrite{{Scope: scope, Type: "text/plain", Content: []byte(content)}}}
	for _, r := range reads {
		s.Reads = append(s.Reads, sequencer.Read{Scope: r, View: c.seq()})
	}
	return s
}

// gated is a seal with one effect that is released after the commit.
func gated(scope sequencer.Scope) *sequencer.Seal {
	return &sequencer.Seal{Effects: []sequencer.Effect{{Scopes: []sequencer.Scope{scope},
		Class: sequencer.ClassIrreversible, Tool: "mail.send", Known: true}}}
}

// touched appends a touch for writing.
func (c *composer) touched(tx sequencer.TxID, agent string, scopes ...sequencer.Scope) []sequencer.Outcome {
	c.t.Helper()
	c.agent(agent)
	return c.say(sequencer.IntentTouch, tx, agent, func(in *sequencer.Intent) {
		in.Begin, in.Touch = &sequencer.Begin{}, &sequencer.Touch{}
		for _, s := range scopes {
			in.Touch.Wants = append(in.Touch.Wants, sequencer.Want{Scope: s, Access: sequencer.WriteAccess})
		}
	})
}

// settled appends a settlement that names some scopes as one effect each.
func (c *composer) settled(tx sequencer.TxID, agent string, result sequencer.Result,
	scopes ...sequencer.Scope) []sequencer.Outcome {
	c.t.Helper()
	c.agent(agent)
	return c.say(sequencer.IntentSettle, tx, agent, func(in *sequencer.Intent) {
		in.Settle = &sequencer.Settle{NoneElse: true}
		for i, s := range scopes {
			in.Settle.Effects = append(in.Settle.Effects, sequencer.Settled{Index: uint32(i),
				Scopes: []sequencer.Scope{s}, Result: result})
		}
	})
}

// retracted appends a retraction and settles the turns that come of it.
func (c *composer) retracted(tx sequencer.TxID, agent string, turns int) {
	c.t.Helper()
	c.agent(agent)
	c.say(sequencer.IntentRetract, tx, agent, nil)
	for range turns {
		st := c.state()
		if len(st.Retractions) == 0 || len(st.Retractions[0].Cone) == 0 {
			return
		}
		member := st.Retractions[0].Cone[0]
		for _, id := range st.Retractions[0].Cone {
			if t := txIn(&st, id); t != nil && t.Phase == sequencer.PhaseRetracting {
				member = id
				break
			}
		}
		owner := txIn(&st, member)
		if owner == nil || owner.Past == nil {
			return
		}
		var scopes []sequencer.Scope
		for _, w := range owner.Past.Writes {
			if !w.Shard {
				scopes = append(scopes, w.Scope)
			}
		}
		c.settled(member, owner.Agent, drawn(c, sequencer.ResultClean, sequencer.ResultClean, sequencer.ResultLeaked),
			scopes...)
	}
}

// coneOfFour retracts a transaction from which three others follow, with a shard, an effect and a reader in the cone.
func (c *composer) coneOfFour(mark string) {
	at := func(name string) sequencer.Scope { return sequencer.Scope("shard:/cone-" + mark + "/" + name) }
	id := func(n int) sequencer.TxID { return sequencer.TxID(fmt.Sprint("cone-", mark, "-", n)) }
	mail := sequencer.Scope("mail:/cone-" + mark)
	c.sealed(id(0), "ann", c.shard(at("a"), "zero"))
	one := c.shard(at("a"), "one")
	one.Effects = gated(mail).Effects
	c.sealed(id(1), "ann", one)
	c.settled(id(1), "ann", sequencer.ResultClean, mail)
	c.sealed(id(2), "bob", c.shard(at("b"), "from a", at("a")))
	c.sealed(id(3), "bob", c.shard(at("a"), "over it"))
	c.sealed(id(4), "ann", c.shard(at("c"), "from b", at("b")))
	c.retracted(id(1), "ann", 6)
	c.say(sequencer.IntentRetract, id(1), "ann", nil) // a second time
	c.sealed(id(5), "bob", c.shard(at("a"), "after all", at("a"), at("c")))
}

// underWay leaves transactions behind that are undecided or unsettled: open with a grant, waiting, sealed and waiting
// for a verdict, committed with an effect to release, aborted with an effect to undo, and a retraction with its turn.
func (c *composer) underWay(mark string) {
	id := func(name string) sequencer.TxID { return sequencer.TxID(mark + "-" + name) }
	at := func(name string) sequencer.Scope { return sequencer.Scope("res:/" + mark + "/" + name) }
	c.touched(id("open"), "ann", at("a"))
	c.touched(id("waiting"), "bob", at("a"), at("b"))
	asked := gated(at("c"))
	asked.Hook = true
	c.sealed(id("asked"), "ann", asked)
	c.sealed(id("behind"), "bob", gated(at("c")))
	c.sealed(id("unsettled"), "ann", gated(at("d")))
	c.touched(id("aborted"), "bob", at("e"))
	c.say(sequencer.IntentAbort, id("aborted"), "bob", nil)
	retracted := c.shard(sequencer.Scope("shard:/"+mark+"/r"), "to go")
	retracted.Effects = gated(at("r")).Effects
	c.sealed(id("retracted"), "ann", retracted)
	c.settled(id("retracted"), "ann", sequencer.ResultClean, at("r"))
	c.say(sequencer.IntentRetract, id("retracted"), "ann", nil)
	c.say(sequencer.IntentRetract, id("unsettled"), "bob", nil) // waits for its settlement and for the first
}

// restOfUnderWay goes on with what underWay has left.
func (c *composer) restOfUnderWay(mark string) {
	id := func(name string) sequencer.TxID { return sequencer.TxID(mark + "-" + name) }
	at := func(name string) sequencer.Scope { return sequencer.Scope("res:/" + mark + "/" + name) }
	c.touched(id("other"), "bob", at("a"), at("d"))
	c.sealed(id("more"), "ann", gated(at("e")))
	c.agent("ann")
	c.say(sequencer.IntentSeal, id("open"), "ann", func(in *sequencer.Intent) {
		in.Seal = &sequencer.Seal{Touches: []sequencer.TouchReport{{N: 1, Known: true}}, Effects: []sequencer.Effect{{
			Scopes: []sequencer.Scope{at("a")}, Class: sequencer.ClassReversible, Tool: "card.charge", Known: true}}}
	})
	c.say(sequencer.IntentVerdict, id("asked"), "ann", func(in *sequencer.Intent) {
		st := c.state()
		in.Verdict = &sequencer.Verdict{Yes: c.once(2), Reason: "a clerk looked at it"}
		if t := txIn(&st, in.Tx); t != nil {
			in.Verdict.Footprint = t.Footprint
		}
	})
	c.settled(id("retracted"), "ann", sequencer.ResultClean, at("r"))
	c.settled(id("unsettled"), "ann", sequencer.ResultClean, at("d"))
	c.settled(id("unsettled"), "ann", sequencer.ResultPartial, at("d")) // its turn
	c.settled(id("aborted"), "bob", sequencer.ResultClean, at("e"))
	c.say(sequencer.IntentAbort, id("waiting"), "bob", nil)
	c.settled(id("asked"), "ann", sequencer.ResultUnresolved, at("c"))
	c.settled(id("behind"), "bob", sequencer.ResultClean, at("c"))
	c.settled(id("more"), "ann", sequencer.ResultClean, at("e"))
	c.say(sequencer.IntentAbort, id("other"), "bob", nil)
	c.settled(id("other"), "bob", sequencer.ResultClean, at("a"), at("d"))
}

// observedRetraction has another agent write the shard whose former content an open turn puts back.
func (c *composer) observedRetraction(mark string) {
	id := func(n int) sequencer.TxID { return sequencer.TxID(fmt.Sprint("over-", mark, "-", n)) }
	at, mail := sequencer.Scope("shard:/over-"+mark), sequencer.Scope("mail:/over-"+mark)
	c.sealed(id(0), "ann", c.shard(at, "zero"))
	one := c.shard(at, "one")
	one.Effects = gated(mail).Effects
	c.sealed(id(1), "ann", one)
	c.settled(id(1), "ann", sequencer.ResultClean, mail)
	c.say(sequencer.IntentRetract, id(1), "ann", nil)
	c.sealed(id(2), "bob", c.shard(at, "two"))
	for _, o := range c.settled(id(1), "ann", sequencer.ResultClean, mail) {
		if len(o.Shards) > 0 && c.phase(id(2)) == sequencer.PhaseFinalCommitted {
			c.reached["another's commit overwritten by a turn"]++
		}
	}
	c.sealed(id(3), "bob", c.shard(at, "three", at))
}

// leftover lets a transaction that opened while the workspace observed meet one that is enforced.
func (c *composer) leftover(mark string) {
	free, bound := sequencer.TxID("free-"+mark), sequencer.TxID("bound-"+mark)
	at := sequencer.Scope("res:/left-" + mark)
	c.agent("ann")
	c.say(sequencer.IntentBegin, free, "ann", func(in *sequencer.Intent) { in.Begin = &sequencer.Begin{} })
	c.observe(false)
	c.touched(bound, "bob", at)
	c.touched(free, "ann", at)
	c.say(sequencer.IntentAbort, bound, "bob", nil)
	c.settled(bound, "bob", sequencer.ResultClean, at)
	c.say(sequencer.IntentAbort, free, "ann", nil)
	c.settled(free, "ann", sequencer.ResultClean, at)
	reads := &sequencer.Seal{Reads: []sequencer.Read{{Scope: at, View: c.seq()}}}
	c.sealed(sequencer.TxID("reads-"+mark), "bob", reads)
}

// behindOrphan retracts a transaction whose scope an orphan outside the cone still holds.
func (c *composer) behindOrphan(mark string) {
	first, orphan := sequencer.TxID("first-"+mark), sequencer.TxID("orphan-"+mark)
	at := sequencer.Scope("res:/orphan-" + mark)
	c.touched(first, "ann", at)
	c.say(sequencer.IntentSeal, first, "ann", func(in *sequencer.Intent) {
		in.Seal = &sequencer.Seal{Touches: []sequencer.TouchReport{{N: 1, Known: true}}, Effects: []sequencer.Effect{{
			Scopes: []sequencer.Scope{at}, Class: sequencer.ClassReversible, Tool: "card.charge", Known: true}}}
	})
	c.touched(orphan, "bob", at)
	c.ticks(8, "ann")
	c.say(sequencer.IntentRetract, first, "ann", nil)
	c.ticks(3, "ann")
	c.say(sequencer.IntentAdopt, orphan, "ann", nil)
	c.settled(orphan, "ann", sequencer.ResultClean, at)
	c.settled(first, "ann", sequencer.ResultClean, at)
}

// adoptions has two agents adopt one orphan, and copies of both.
func (c *composer) adoptions() {
	at := sequencer.Scope("res:/adopted")
	c.sealed("adopted", "ann", gated(at))
	c.ticks(8, "bob", "cy")
	var intents []*sequencer.Intent
	for _, agent := range []string{"bob", "cy"} {
		in := &sequencer.Intent{Kind: sequencer.IntentAdopt, Tx: "adopted", N: 1, Agent: agent, Incarnation: c.agent(agent)}
		intents = append(intents, in)
		c.put(in)
	}
	for _, in := range append(intents, intents...) {
		if kindOf(c.put(in)) == sequencer.OutcomeRefused && in == intents[0] {
			c.reached["a late copy of an adoption refused"]++
		}
	}
	c.settled("adopted", "bob", sequencer.ResultLeaked, at)
}

// foreignSettlement has settlements name scopes that their transactions never had.
func (c *composer) foreignSettlement(mark string) {
	for i, result := range []sequencer.Result{sequencer.ResultClean, sequencer.ResultLeaked, sequencer.ResultUnresolved,
		sequencer.ResultPartial} {
		id := sequencer.TxID(fmt.Sprint("foreign-", mark, "-", i))
		own, other := sequencer.Scope(fmt.Sprint("res:/own/", i)), sequencer.Scope(fmt.Sprint("res:/other/", i))
		c.sealed(id, "ann", gated(own))
		c.sealed(id+"-held", "bob", gated(other)) // another one's
		for _, o := range c.settled(id, "ann", result, own, other, "res:/nobody", "doc:/a") {
			for _, w := range o.Writes {
				if w.Scope == "res:/nobody" {
					c.reached["foreign scope settled"]++
				}
			}
		}
		reads := &sequencer.Seal{Reads: []sequencer.Read{{Scope: "res:/nobody", View: c.seq()}, {Scope: "res:/other"}}}
		c.sealed(id+"-reads", "bob", reads)
		c.settled(id+"-held", "bob", sequencer.ResultClean, other)
	}
}

// unknownAborts ends unknown transactions, with and without what they would have stayed within.
func (c *composer) unknownAborts(mark string) {
	for i, mode := range []sequencer.Mode{sequencer.Ordered, sequencer.Optimistic, sequencer.Locked, sequencer.Ordered} {
		id := sequencer.TxID(fmt.Sprint("unknown-", mark, "-", i))
		c.agent("cy")
		begin := &sequencer.Begin{Mode: mode, Group: drawn(c, "", "g")}
		for n := range i * 100 {
			begin.May = append(begin.May, sequencer.Want{Scope: sequencer.Scope(fmt.Sprint("res:/may/", n)),
				Access: sequencer.WriteAccess})
		}
		out := c.say(sequencer.IntentAbort, id, "cy", func(in *sequencer.Intent) {
			in.Begin, in.Abort = begin, &sequencer.Abort{Code: sequencer.CodeToolFailed, Detail: "it never came"}
		})
		if kindOf(out) != 0 && i > 0 {
			c.reached["abort of an unknown one with may"]++
		}
		c.sealed(id, "cy", c.shard("shard:/late", "a delayed seal"))
	}
}

// laterSidecar lets a sidecar join that knows a later logic: the workspace is not begun by it and keeps its own.
func (c *composer) laterSidecar() {
	out := c.put(&sequencer.Intent{Kind: sequencer.IntentJoin, Agent: "eve",
		Join: &sequencer.Join{ID: "later", Logic: FormerLogic + 1}})
	if kindOf(out) == sequencer.OutcomeJoined && c.state().Rules.Logic == FormerLogic {
		c.reached["sidecar of a later logic"]++
	}
	c.sealed("by-eve", "eve", c.shard("shard:/eve", "hello"))
}

// oddRules sets rules that a later logic refuses.
func (c *composer) oddRules() {
	was := c.state().Rules
	c.rules(func(r *sequencer.Rules) { r.MaxBytes, r.MaxInlineTotal, r.MaxInline = 1<<31, 0, 0 })
	c.sealed("odd-1", "ann", gated("res:/odd"))
	c.settled("odd-1", "ann", sequencer.ResultClean, "res:/odd")
	c.random(20)
	c.rules(func(r *sequencer.Rules) { r.MaxOpen, r.MaxScopes = 1<<30, 1<<30 })
	c.random(20)
	for _, lease := range []sequencer.Tick{8, 9, 7} {
		c.rules(func(r *sequencer.Rules) { r.LeaseTicks = lease })
		c.ticks(2, "ann")
		c.touched(sequencer.TxID(fmt.Sprint("odd-lease-", lease)), "ann", "res:/odd-lease")
	}
	c.rules(func(r *sequencer.Rules) {
		version, logic := r.Version, r.Logic
		*r = was
		r.Version, r.Logic = version, logic
	})
}
