package sim

import "github.com/hence-dev/hence/sequencer"

// inbox is the delivery to one sidecar: it loses, doubles and reorders. The decision topic is there to catch up from.
type inbox struct {
	messages []message
	ahead    map[sequencer.Seq]*sequencer.Outcome // arrived before one that is missing
	quietAt  int                                  // the last step that moved the view
}

type message struct {
	o   *sequencer.Outcome
	due int
}

func (b *inbox) push(r *run, o *sequencer.Outcome) {
	if r.chance(r.swarm.natsLose) {
		r.fault()
		return
	}
	b.messages = append(b.messages, message{o, r.now + r.n(r.swarm.natsLag+1)})
	if r.chance(r.swarm.natsDup) {
		r.fault()
		b.messages = append(b.messages, message{o, r.now + r.n(40)})
	}
}

// receive brings the view as far as what has arrived allows.
func (c *sidecar) receive() {
	b := &c.inbox
	if b.ahead == nil {
		b.ahead = map[sequencer.Seq]*sequencer.Outcome{}
	}
	kept := b.messages[:0]
	for _, m := range b.messages {
		switch {
		case m.due > c.r.now:
			kept = append(kept, m)
		case m.o.Seq > c.view+1:
			c.r.probe(ProbeReordered)
			b.ahead[m.o.Seq] = m.o
		case m.o.Seq == c.view+1:
			c.see(m.o)
		}
	}
	b.messages = kept
	c.seeAhead()
	if len(b.ahead) > 0 && c.r.now > b.quietAt+4 || c.r.now > b.quietAt+12 {
		c.catchUp()
	}
}

func (c *sidecar) seeAhead() {
	for o := c.inbox.ahead[c.view+1]; o != nil; o = c.inbox.ahead[c.view+1] {
		c.see(o)
	}
}

// catchUp reads the decision topic from where the view stands.
func (c *sidecar) catchUp() {
	b := &c.inbox
	b.quietAt = c.r.now
	if len(b.ahead) > 0 {
		c.r.probe(ProbeCatchUp)
	}
	for int(c.view) < len(c.r.topic) && c.r.topic[c.view] != nil {
		c.see(c.r.topic[c.view])
	}
	c.seeAhead()
}

// see applies the next outcome to the view; the chain shows that it is the next one.
func (c *sidecar) see(o *sequencer.Outcome) {
	chain := o.ChainAfter(c.chain)
	if chain != o.Chain || !c.r.truth.agrees(o) {
		c.r.fail("the view of %s gets a seq %d that breaks its chain", c.agent, o.Seq)
		return
	}
	delete(c.inbox.ahead, o.Seq)
	c.view, c.chain, c.inbox.quietAt = o.Seq, chain, c.r.now
	c.confirm(o)
	c.onOutcome(o)
}
