package sim

import "github.com/hence-dev/hence/sequencer"

// release lets a held effect out. With a key whoever owns the settlement calls until the sink answers, for a while;
// without one it is called at most once, by who knows that it was not.
func (c *sidecar) release(s *settlement, e *effect, stopped bool) {
	r := c.r
	started := e.mend != nil || e.mends > 0
	switch {
	case e.mend != nil && e.mend.answered(r.now) && !e.mend.fails:
		c.mended[mending{e.token, callRelease}] = true
		e.end(sequencer.ResultClean)
	case stopped:
		r.probe(ProbeStopped)
		c.unsent(s, e)
	case e.key == "" && s.ground == groundStranger:
		r.probe(ProbeUnkeyedStop)
		e.end(sequencer.ResultUnresolved)
	case e.key == "" && s.ground == groundSuccessor && e.mend != nil && !e.mend.answered(r.now):
		r.probe(ProbeUnkeyedStop)
		e.end(sequencer.ResultUnresolved)
	default:
		if c.call(s, e, callRelease, e.key != "") && !started {
			r.probe([...]Probe{ProbeReleasedOwn, ProbeReleasedSuccessor, ProbeReleasedStranger}[s.ground])
		}
	}
}

// unsent ends an effect of which no try got through: that it did not leave is said only if it is known.
func (c *sidecar) unsent(s *settlement, e *effect) {
	if e.maybe || s.ground == groundStranger || e.mend != nil && !e.mend.answered(c.r.now) {
		c.r.probe(ProbeUnresolved)
		e.end(sequencer.ResultUnresolved)
		return
	}
	c.r.probe(ProbeNotSent)
	e.end(sequencer.ResultPartial)
}

// takeBack compensates what ran at once, or may have under a key.
func (c *sidecar) takeBack(s *settlement, e *effect, stopped bool) {
	r := c.r
	stranger := s.ground == groundStranger
	switch {
	case e.gated():
		c.hasLeft(e)
	case e.class == sequencer.ClassKnownOutcome:
		c.lookUp(e, stranger)
	case !stranger && e.known && !e.ran:
		e.end(sequencer.ResultClean)
	case !e.keyed() && (stranger || !e.known):
		r.probe(ProbeUnresolved)
		e.end(sequencer.ResultUnresolved)
	case !e.keyed() && s.ground == groundSuccessor && e.mend != nil && !e.mend.answered(r.now):
		r.probe(ProbeUnresolved)
		e.end(sequencer.ResultUnresolved)
	case stopped && (e.mend == nil || e.mend.fails || !e.mend.answered(r.now)):
		r.probe(ProbeStopped)
		c.kept(s, e)
	default:
		started := e.mend != nil
		if c.call(s, e, callUndo, e.keyed()) && !started && stranger {
			r.probe(ProbeUndoneStranger)
		}
	}
}

// kept ends an effect that was not taken back.
func (c *sidecar) kept(s *settlement, e *effect) {
	if s.ground != groundStranger && e.known && e.ran && !e.maybe && (e.mend == nil || e.mend.answered(c.r.now)) {
		c.r.probe(ProbeLeaked)
		e.end(sequencer.ResultLeaked)
		return
	}
	c.r.probe(ProbeUnresolved)
	e.end(sequencer.ResultUnresolved)
}

// hasLeft ends what was held and may have left: it cannot be taken back.
func (c *sidecar) hasLeft(e *effect) {
	switch {
	case !e.known:
		e.end(sequencer.ResultUnresolved)
	case e.ran:
		c.r.probe(ProbeLeaked)
		e.end(sequencer.ResultLeaked)
	default:
		e.end(sequencer.ResultClean)
	}
}

// lookUp settles what cannot be undone and can be asked for.
func (c *sidecar) lookUp(e *effect, stranger bool) {
	if stranger && c.r.chance(c.r.swarm.lookup) {
		e.known, e.ran = true, c.r.world.ran(e.token)
	}
	switch {
	case !e.known:
		e.end(sequencer.ResultUnresolved)
	case e.ran:
		c.r.probe(ProbeLeaked)
		e.end(sequencer.ResultLeaked)
	default:
		e.end(sequencer.ResultClean)
	}
}

func (e *effect) end(result sequencer.Result) { e.settled, e.result = true, result }

// call makes the call of a settlement, and again while it may be repeated and its outcome is not known; it reports
// whether one left.
func (c *sidecar) call(s *settlement, e *effect, kind callKind, repeat bool) bool {
	r := c.r
	switch {
	case e.mend == nil:
	case e.mend.answered(r.now) && !e.mend.fails:
		if kind == callUndo {
			r.probe(ProbeCompensated)
		}
		c.mended[mending{e.token, kind}] = true
		e.end(sequencer.ResultClean)
		return false
	case e.mend.answered(r.now): // refused by the tool, or surely not sent
	case !e.mend.over(r.now):
		return false
	case !repeat:
		r.probe(ProbeUnresolved)
		e.end(sequencer.ResultUnresolved)
		return false
	}
	if e.mends >= maxMends {
		if kind == callRelease {
			c.unsent(s, e)
		} else {
			c.kept(s, e)
		}
		return false
	}
	if !c.mayCall() {
		return false
	}
	e.maybe = e.maybe || e.mend != nil && !e.mend.answered(r.now) && !r.careless(CarelessMaybe)
	e.mends++
	e.mend = c.start(&call{kind: kind, tx: s.info.id, effect: e, leaves: e.leaves})
	return true
}

// start lets a call leave.
func (c *sidecar) start(x *call) *call {
	if info := c.r.truth.txs[x.tx]; x.kind != callRead && info != nil && info.owner() != c.incarnation {
		c.r.probe(ProbeZombieCall)
	}
	return c.r.world.start(x)
}
