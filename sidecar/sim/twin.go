package sim

import "github.com/hence-dev/hence/sequencer"

// maxTwins is how many sidecars of one schedule are moved elsewhere while the old ones live.
const maxTwins = 2

// beat is a watermark that was acknowledged: where it is in the log, and when it was sent.
type beat struct {
	offset int64
	sent   int
}

// confirm counts the watermarks that lie before a decision in the view: had another joined in this one's place before
// they reached the log, the view would show it by now. One that came later would have revived nothing.
func (c *sidecar) confirm(o *sequencer.Outcome) {
	for len(c.beats) > 0 && c.beats[0].offset <= o.Offset {
		c.sure = max(c.sure, c.beats[0].sent)
		c.beats = c.beats[1:]
	}
}

// mayCall: a call that starts now is over before the lease is, also by a view that lags. Who is not sure for long
// joins again.
func (c *sidecar) mayCall() bool {
	from := c.sure
	if c.r.careless(CarelessLease) {
		from = c.renewed
	}
	if c.r.now+maxCallSteps+1 < from+c.lease() {
		c.stalled = 0
		return true
	}
	if c.stalled == 0 {
		c.stalled = c.r.now
	}
	return false
}

// move starts a sidecar of an agent elsewhere, without its journal, while the old one is alive and knows nothing of
// it.
func (r *run) move() {
	if !r.chance(r.swarm.twin) || len(r.cars) >= r.swarm.cars+maxTwins {
		return
	}
	old := r.cars[r.n(len(r.cars))]
	if old.incarnation == 0 || old.ghost || old.deadForGood {
		return
	}
	r.fault()
	r.probe(ProbeTwin)
	r.note("%s starts elsewhere", old.agent)
	old.ghost = true
	if r.chance(0.7) { // what cut it off is often why another one was started
		old.deaf = r.now + r.n(150)
	}
	c := newSidecar(r, len(r.cars))
	c.agent, c.down = old.agent, 0
	r.cars = append(r.cars, c)
}
