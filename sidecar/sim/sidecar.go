package sim

import (
	"fmt"
	"slices"

	"github.com/hence-dev/hence/sequencer"
)

// sidecar is the process beside one agent, and the agent.
type sidecar struct {
	r     *run
	id    int
	agent string
	lanes []*lane
	inbox inbox

	view        sequencer.Seq // a gapless prefix
	chain       sequencer.Hash
	incarnation sequencer.Seq // zero: not joined
	joinID      string
	joins       int
	joinAt      int // it does not join before that step

	renewed    int // the lease counts from here, as far as this clock knows
	sure       int // and from here, as far as the view shows: no other had joined in its place
	beats      []beat
	stalled    int    // it would make a call and is not sure of its lease, since that step; zero: it is
	asked      uint32 // questions whether the lease is held
	beatAt     int
	doubtfulAt int // the lease was not known to be held from that step on; zero: it is
	generation uint64
	tools      map[string]string // server: signature; empty: withdrawn

	down, paused int
	deaf         int // until that step nothing that was decided gets to it
	deadForGood  bool
	ghost        bool // its agent has a sidecar elsewhere, of which it does not know yet
	journal      map[sequencer.TxID]*attempt
	settlements  map[sequencer.TxID]*settlement
	adoptions    map[sequencer.TxID]adoption
	settled      map[sequencer.TxID]uint32 // settle intents of this incarnation
	retractions  map[sequencer.TxID]uint32 // retract intents of this incarnation
	tenures      map[sequencer.TxID]tenure // over the incarnations of this process
	mended       map[mending]bool          // over the incarnations of this process
	attempts     int
	seen         sequencer.Seq
	wounded      sequencer.TxID // the last one
	done         int            // last programs
	settledTo    int            // truth.list is final up to here
}

// lane is one line of work: an agent may have two at a time.
type lane struct {
	prog  *program
	cur   *attempt
	prev  *attempt // the refused one that cur repeats
	code  sequencer.Code
	tries int
	until int

	session string // the conversation that it is
}

func newSidecar(r *run, id int) *sidecar {
	c := &sidecar{r: r, id: id, agent: fmt.Sprintf("a%d", id), journal: map[sequencer.TxID]*attempt{},
		tenures: map[sequencer.TxID]tenure{}, mended: map[mending]bool{}}
	c.lanes = append(c.lanes, &lane{})
	if r.chance(r.swarm.twoLanes) {
		other := &lane{}
		if r.seed%8 == 5 { // not drawn: other schedules stay what they were
			other.session = "q"
		}
		c.lanes = append(c.lanes, other)
	}
	if id > 0 && r.chance(0.2) {
		c.down = 20 + r.n(80) // joins late
	}
	c.boot()
	return c
}

// boot is the start of an incarnation.
func (c *sidecar) boot() {
	c.incarnation, c.joinID, c.beatAt, c.doubtfulAt, c.settledTo = 0, "", 0, 0, 0
	c.sure, c.beats, c.stalled = 0, nil, 0
	c.settlements = map[sequencer.TxID]*settlement{}
	c.adoptions = map[sequencer.TxID]adoption{}
	c.tools = map[string]string{}
	c.settled, c.retractions = map[sequencer.TxID]uint32{}, map[sequencer.TxID]uint32{}
}

func (c *sidecar) alive() bool { return !c.deadForGood && c.down <= c.r.now }

func (c *sidecar) act() {
	r := c.r
	if !c.alive() || c.paused > r.now || !r.healing && r.chance(0.2) {
		return
	}
	if r.chance(r.swarm.carCrash) {
		c.crash()
		return
	}
	if r.chance(r.swarm.carPause) {
		r.fault()
		r.note("%s pauses", c.agent)
		c.paused = r.now + r.n(100)
		return
	}
	if r.chance(r.swarm.deaf) {
		r.fault()
		r.note("%s hears nothing", c.agent)
		c.deaf = r.now + r.n(150)
	}
	if c.deaf <= r.now {
		c.receive()
	}
	if !c.joined() {
		return
	}
	c.beat()
	c.useTools()
	for _, l := range c.lanes {
		c.advance(l)
	}
	c.settleAll()
	if r.chance(r.swarm.pest) {
		c.pester()
	}
	if r.chance(r.swarm.retract) {
		c.retract()
	}
}

// send hands an intent to the producer.
func (c *sidecar) send(in *sequencer.Intent) {
	in.Agent = c.agent
	if c.r.chance(c.r.swarm.lateDup * 0.2) { // the producer has given it up, but it is on its way
		c.r.fault()
		c.r.wire.strays = append(c.r.wire.strays, parcel{in: in, due: c.r.now + c.r.n(200)})
		return
	}
	c.r.wire.send(c.id, parcel{in: in, sent: c.r.now})
}

// joined brings the sidecar to a live incarnation; false: it is not there yet.
func (c *sidecar) joined() bool {
	r := c.r
	if c.incarnation != 0 {
		if !c.doubtful() && (c.stalled == 0 || r.now < c.stalled+20) {
			return true
		}
		r.note("%s gives its incarnation %d up", c.agent, c.incarnation)
		c.boot()
	}
	if c.ghost {
		c.deadForGood = true
		return false
	}
	if c.joinID == "" && c.joinAt <= r.now {
		c.joins++
		c.joinID = fmt.Sprintf("j%d.%d", c.id, c.joins)
		c.beatAt = r.now
		c.send(&sequencer.Intent{Kind: sequencer.IntentJoin, Join: &sequencer.Join{ID: c.joinID}})
	}
	return false
}

// onOutcome is called for each outcome in the order of the view.
func (c *sidecar) onOutcome(o *sequencer.Outcome) {
	switch {
	case o.Kind == sequencer.OutcomeRetracting:
		c.settledTo = 0 // it is back
	case o.Kind == sequencer.OutcomeJoined && o.Agent == c.agent && o.Intent == "join:"+c.joinID && c.incarnation == 0:
		c.incarnation, c.renewed, c.sure = o.Incarnation, c.beatAt, c.beatAt
		c.r.note("%s joins as %d", c.agent, c.incarnation)
	case o.Kind == sequencer.OutcomeRefused && o.Intent == "join:"+c.joinID:
		c.joinID, c.joinAt = "", c.r.now+10 // as many as may live do
	case o.Kind == sequencer.OutcomeLeaseEnded && o.Incarnation == c.incarnation && c.incarnation != 0:
		c.r.note("%s sees that its incarnation %d has ended", c.agent, c.incarnation)
		c.boot()
	}
}

// lease is how long a renewal lasts on this clock. One tick may carry the weight of eight and come right after it.
func (c *sidecar) lease() int { return (int(c.r.truth.rules.LeaseTicks) - 9) * tickSteps }

// doubtful: no renewal was acknowledged while the former one lasted, so it is unknown here whether the lease is held.
func (c *sidecar) doubtful() bool {
	if c.r.now <= c.renewed+c.lease() {
		c.doubtfulAt = 0
		return false
	}
	if c.doubtfulAt == 0 {
		c.doubtfulAt = c.r.now
	}
	return c.r.now > c.doubtfulAt+20
}

// beat sends the watermark.
func (c *sidecar) beat() {
	r := c.r
	if r.now < c.beatAt || r.wire.length(c.id) > 4 {
		return
	}
	c.beatAt = r.now + 4 + r.n(6)
	low := c.view
	for _, l := range c.lanes {
		if l.cur != nil && !c.decided(l.cur.id) {
			low = min(low, l.cur.base)
		}
	}
	incarnation := c.incarnation
	mark := &sequencer.Watermark{Seq: low}
	if c.stalled != 0 { // nothing else may be decided for long
		c.asked++
		mark.Confirm = c.asked
	}
	r.wire.send(c.id, parcel{sent: r.now,
		in: &sequencer.Intent{Kind: sequencer.IntentWatermark, Agent: c.agent, Incarnation: incarnation, Watermark: mark},
		done: func(sent int) {
			if c.incarnation == incarnation && r.now <= c.renewed+c.lease() {
				c.renewed = max(c.renewed, sent)
				c.beats = append(c.beats, beat{int64(len(r.truth.log)) - 1, sent})
			}
		}})
}

func (c *sidecar) crash() {
	r := c.r
	r.fault()
	r.note("%s crashes", c.agent)
	r.wire.cut(r, c.id)
	c.down = r.now + 1 + r.n(60)
	c.inbox = inbox{}
	c.hangUp()
	c.tenures, c.mended = map[sequencer.TxID]tenure{}, map[mending]bool{}
	if c.ghost || r.chance(r.swarm.dieForGood) && c.agent != "a0" {
		c.deadForGood = true
		r.probe(ProbeDeadAgent)
		return
	}
	if r.chance(r.swarm.journalLost) {
		for _, a := range c.journal {
			a.gone = true
		}
		c.journal = map[sequencer.TxID]*attempt{}
		for _, l := range c.lanes {
			*l = lane{}
		}
	}
	if r.chance(0.2) {
		c.view, c.chain = 0, sequencer.Hash{}
	}
	c.boot()
}

// hangUp: what the sinks answer from now on is lost.
func (c *sidecar) hangUp() {
	for _, a := range c.journal {
		for _, e := range append(slices.Clone(a.effects), a.turned...) {
			for _, x := range []*call{e.run, e.mend} {
				if x != nil && x.answers > c.r.now {
					x.answers = -1
				}
			}
		}
	}
}

func (c *sidecar) heal() {
	c.down, c.paused, c.deaf = 0, 0, 0
	for _, ask := range c.adoptions {
		if ask.due == never { // as this incarnation it has sent a false settlement, which may come again
			c.boot()
			return
		}
	}
}

// info is a transaction as the view shows it; nil: it is not there.
func (c *sidecar) info(id sequencer.TxID) *txInfo {
	info := c.r.truth.txs[id]
	if info == nil || info.outs[0].Seq > c.view {
		return nil
	}
	return info
}

func (c *sidecar) decided(id sequencer.TxID) bool {
	info := c.info(id)
	return info != nil && info.decided(c.view)
}

// answer finds how the view answers an intent of this incarnation; waiting does not count.
func (c *sidecar) answer(id sequencer.TxID, kind sequencer.IntentKind, n uint32) *sequencer.Outcome {
	in := sequencer.Intent{Kind: kind, Tx: id, N: n}
	name := in.ID()
	for i := int(c.view) - 1; i >= 0 && sequencer.Seq(i) >= c.incarnation; i-- {
		o := c.r.truth.out[i]
		if o.Tx == id && o.Intent == name && o.Incarnation == c.incarnation && o.Kind != sequencer.OutcomeWaiting {
			return o
		}
	}
	return nil
}
