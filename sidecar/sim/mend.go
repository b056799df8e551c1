package sim

import (
	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
)

// mend takes the next step of one effect of a settlement, as the gate says. behind: one before it did not get through.
// What the gate marks takes no time here.
func (c *sidecar) mend(s *settlement, e *effect, behind bool) {
	r := c.r
	p, f := c.facts(s, e)
	f.Behind = behind
	for {
		switch next := gate.Next(&p, s.ground, f); next.Do {
		case gate.DoWait:
			return
		case gate.DoAsk:
			if f.Sought, f.Call.Asks = true, false; r.chance(r.swarm.lookup) {
				ran := r.world.ran(e.token)
				p.Answer = &gate.Answer{Absent: !ran, Refused: !ran}
			}
		case gate.DoStart, gate.DoRepeat, gate.DoCompensate, gate.DoForbid:
			c.try(s, e)
			return
		case gate.DoGiveUp:
			p.GivenUp = true
		case gate.DoLose:
			p.UndoLost = true
		case gate.DoDrop:
			p.Dropped = true
		case gate.DoNeverLeft, gate.DoDone:
			c.conclude(s, e, &p, next)
			return
		default:
			r.fail("a settlement cannot %s", next.Do)
			return
		}
	}
}

// facts is what this sidecar knows of an effect, as the gate's rule asks for it. The simulator leaves out two steps:
// what is not known is not repeated before it is undone, and a call that ran is not looked up again.
func (c *sidecar) facts(s *settlement, e *effect) (gate.Progress, gate.Facts) {
	tool := gate.Tool{Class: e.class, Undo: e.class == sequencer.ClassReversible, Forbids: e.keyed()}
	p := gate.Progress{Effect: gate.Effect{Tool: tool, Key: e.key}, Waited: true, Committed: s.info.committed}
	phase, mute := gate.PhaseReleased, e.mend != nil && !e.mend.answered(c.r.now)
	made := gate.Attempt{Kept: e.keyed(), Most: maxMends, Made: e.mends, Tries: e.mends, Landed: true,
		Flying: mute && !e.mend.over(c.r.now)}
	done := e.mend != nil && !mute && !e.mend.fails
	f := gate.Facts{Orders: e.keyed(), Again: true}
	if s.undoes() {
		phase, p.Undoing = gate.PhaseUndone, e.maybe || mute
		p.GivenUp = !e.known && (s.ground != gate.ClaimStranger || e.gated())
		if e.known {
			p.Answer = &gate.Answer{Refused: !e.ran}
		}
		if done {
			p.UndoDone = &gate.Answer{}
		}
		f.Undo, f.Undo.Maybe = made, gate.MayBeUndone(&p, s.ground)
		f.Call = gate.Attempt{Landed: true, Maybe: gate.MayHaveLeft(&p, s.ground),
			Asks: e.class == sequencer.ClassKnownOutcome && s.ground == gate.ClaimStranger}
	} else {
		if p.Started = e.maybe || mute; done {
			p.Answer = &gate.Answer{}
		}
		f.Call, f.Call.Maybe = made, gate.MayHaveLeft(&p, s.ground)
	}
	f.Phase = phase
	return p, f
}

// try makes the call of a settlement, if the lease is sure to last longer.
func (c *sidecar) try(s *settlement, e *effect) {
	r := c.r
	kind, first := callRelease, e.mend == nil && e.mends == 0
	if s.undoes() {
		kind = callUndo
	}
	if !c.mayCall() {
		return
	}
	e.maybe = e.maybe || e.mend != nil && !e.mend.answered(r.now) && !r.careless(CarelessMaybe)
	e.mends++
	e.mend = c.start(&call{kind: kind, tx: s.info.id, effect: e, leaves: e.leaves})
	switch {
	case !first:
	case kind == callRelease:
		r.probe([...]Probe{ProbeReleasedOwn, ProbeReleasedSuccessor, ProbeReleasedStranger}[s.ground])
	case s.ground == gate.ClaimStranger:
		r.probe(ProbeUndoneStranger)
	}
}

// conclude ends an effect of a settlement as the gate says. An order that a sink has taken counts as an undoing here:
// the simulator's sinks keep it to perfection.
func (c *sidecar) conclude(s *settlement, e *effect, p *gate.Progress, end gate.Plan) {
	r := c.r
	result := end.Result
	e.stops = end.Stops(gate.PhaseReleased)
	if s.undoes() {
		e.stops = end.Stops(gate.PhaseUndone)
	}
	// The gate goes on behind what nothing undoes. Here that would be found as a compensation over a foreign value.
	e.stops = e.stops || !p.Tool.Undo && result != sequencer.ResultClean
	if p.GivenUp && p.UndoDone != nil && !p.UndoLost {
		result, e.stops = sequencer.ResultClean, false
	}
	if done := e.mend != nil && e.mend.answered(r.now) && !e.mend.fails; done && result == sequencer.ResultClean {
		if s.undoes() {
			r.probe(ProbeCompensated)
		}
		c.mended[s.mending(e)] = true
	}
	switch {
	case end.Why == gate.WhyBehind || end.Why == gate.WhyBehindMaybe:
		r.probe(ProbeStopped)
	case result == sequencer.ResultUnresolved && !s.undoes() && !e.keyed() && s.ground != gate.ClaimOwn:
		r.probe(ProbeUnkeyedStop)
	case result == sequencer.ResultUnresolved:
		r.probe(ProbeUnresolved)
	}
	switch result {
	case sequencer.ResultPartial:
		r.probe(ProbeNotSent)
	case sequencer.ResultLeaked:
		r.probe(ProbeLeaked)
	}
	e.end(result)
}

func (e *effect) end(result sequencer.Result) { e.settled, e.result = true, result }

// start lets a call leave.
func (c *sidecar) start(x *call) *call {
	if info := c.r.truth.txs[x.tx]; x.kind != callRead && info != nil && info.owner() != c.incarnation {
		c.r.probe(ProbeZombieCall)
	}
	return c.r.world.start(x)
}
