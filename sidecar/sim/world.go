package sim

import (
	"fmt"

	"github.com/hence-dev/hence/sequencer"
)

// The resources of the world: those that tools change, and the shards that Hence keeps itself.
const (
	numForeign = 3
	numLeaves  = 6
)

func leaves() [numLeaves]sequencer.Scope {
	return [...]sequencer.Scope{"res:/a/1", "res:/a/2", "res:/b/1", "shard:/s/1", "shard:/s/2", "shard:/t/1"}
}

// wide are the scopes that name several resources.
func wide() [4]sequencer.Scope {
	return [...]sequencer.Scope{"res:/a", "res:/*/1", "shard:/s", "shard:/*/1"}
}

func isShard(leaf int) bool { return leaf >= numForeign }

// leavesOf lists the resources that a scope names.
func leavesOf(s sequencer.Scope) []int {
	var out []int
	for i, leaf := range leaves() {
		if leaf.Overlaps(s) {
			out = append(out, i)
		}
	}
	return out
}

// token is the value that one effect leaves; zero is what was there before all.
type token int

type tokenInfo struct {
	tx    sequencer.TxID
	index int
}

// world is what the tools change, and the calls on their way to it.
type world struct {
	r      *run
	value  [numLeaves]token // foreign resources only
	tokens []tokenInfo
	deeds  map[token]*deed
	sunk   map[string]sequencer.TxID // keyed sinks: which transaction's effect each key has let through
	flying []*call
	hand   map[token]bool  // calls that a person has had tried again, after their transaction was over
	handed [numLeaves]bool // resources that such a try has moved: the log does not order it among the commits
	down   [numLeaves]int  // until that step calls do not get through
}

// deed is an effect as its tool remembers it.
type deed struct {
	ran     bool
	refused bool // its compensation came: it cannot run any more
	undone  bool
	images  []token
}

type callKind uint8

const (
	callRead callKind = iota
	callDo
	callUndo
	callRelease
)

func (k callKind) String() string { return [...]string{"read", "do", "undo", "release"}[k] }

// call is one request to a tool. Its caller learns what became of it when the answer comes, if it does.
type call struct {
	kind    callKind
	tx      sequencer.TxID
	effect  *effect // nil: a read
	leaves  []int
	started int
	lands   int // step at which it takes effect; -1: never
	answers int // step at which the answer is there; -1: never
	fails   bool
	values  []token // of a read
}

func newWorld(r *run) world {
	return world{r: r, tokens: make([]tokenInfo, 1), deeds: map[token]*deed{}, sunk: map[string]sequencer.TxID{},
		hand: map[token]bool{}}
}

func (w *world) newToken(tx sequencer.TxID, index int) token {
	w.tokens = append(w.tokens, tokenInfo{tx, index})
	return token(len(w.tokens) - 1)
}

func (w *world) name(v token) string {
	if v == 0 {
		return "nothing"
	}
	return fmt.Sprintf("%s/%d", w.tokens[v].tx, w.tokens[v].index)
}

// start sends a call on its way.
func (w *world) start(c *call) *call {
	r := w.r
	c.started = r.now
	c.lands = r.now + 1 + r.n(maxCallSteps)
	c.answers = c.lands + r.n(maxCallSteps)
	switch {
	case r.chance(r.swarm.callLost):
		r.fault()
		c.lands, c.answers = -1, -1
	case r.chance(r.swarm.callMute):
		r.fault()
		c.answers = -1
	case c.kind != callRead && r.chance(r.swarm.callFail):
		r.fault()
		c.fails = true
	case c.answers > r.now+maxCallSteps:
		r.probe(ProbeLateAnswer)
		c.answers = -1 // no caller waits that long
	}
	if c.kind != callRead && w.isDown(c.leaves) {
		r.probe(ProbeSinkDown)
		c.lands, c.answers, c.fails = r.now+1, r.now+1, true
	}
	if c.lands >= 0 {
		w.flying = append(w.flying, c)
	}
	r.note("call %s %s on %v lands %d answers %d fails %v", c.kind, c.tx, c.leaves, c.lands, c.answers, c.fails)
	return c
}

// isDown reports whether one of the sinks cannot be reached. A caller then knows that nothing has left.
func (w *world) isDown(leaves []int) bool {
	for _, leaf := range leaves {
		if w.down[leaf] > w.r.now {
			return true
		}
	}
	return false
}

// over reports whether the call can no longer land.
func (c *call) over(now int) bool { return now > c.started+maxCallSteps }

func (c *call) answered(now int) bool { return c.answers >= 0 && c.answers <= now }

// step lets the calls land whose time has come, and sinks go down.
func (w *world) step() {
	if w.r.chance(w.r.swarm.sinkDown) {
		w.r.fault()
		w.down[w.r.n(numForeign)] = w.r.now + w.r.n(150)
	}
	kept := w.flying[:0]
	for _, c := range w.flying {
		if c.lands > w.r.now {
			kept = append(kept, c)
		} else if !c.fails {
			w.land(c)
		}
	}
	w.flying = kept
}

func (w *world) land(c *call) {
	w.r.note("lands %s %s on %v", c.kind, c.tx, c.leaves)
	if c.answers < 0 {
		w.r.probe(ProbeLateCall)
	}
	switch c.kind {
	case callRead:
		w.read(c)
	case callDo:
		w.do(c)
	case callUndo:
		w.undo(c)
	case callRelease:
		w.release(c)
	}
}

func (w *world) read(c *call) {
	c.values = make([]token, len(c.leaves))
	for i, leaf := range c.leaves {
		c.values[i] = w.value[leaf]
		if c.values[i] != w.r.truth.state[leaf] && w.tokens[c.values[i]].tx != c.tx {
			w.r.probe(ProbeDirtySeen)
		}
	}
}

func (w *world) deed(t token) *deed {
	if w.deeds[t] == nil {
		w.deeds[t] = &deed{}
	}
	return w.deeds[t]
}

// do runs an eager effect: its transaction must have been granted the scope and not be final.
func (w *world) do(c *call) {
	d := w.deed(c.effect.token)
	switch {
	case c.effect.keyed() && (d.ran || d.refused):
		return
	case d.ran:
		w.r.fail("an effect of %s on %s without a key runs twice", c.tx, c.effect.scope)
		return
	}
	info := w.r.truth.txs[c.tx]
	hand := info != nil && info.over() && w.byHand(c)
	if !hand && (info == nil || !w.r.truth.ledger.owns(info, c.effect.scope)) {
		w.r.fail("an effect of %s lands on %s without a grant, or after its transaction was final", c.tx, c.effect.scope)
		return
	}
	d.ran = true
	for _, leaf := range c.leaves {
		d.images = append(d.images, w.value[leaf])
		w.value[leaf] = c.effect.token
	}
}

func (w *world) undo(c *call) {
	d := w.deed(c.effect.token)
	d.refused = true
	if !d.ran || d.undone {
		if !c.effect.keyed() {
			w.r.fail("a compensation of %s without a key lands on %s, where nothing is to be undone", c.tx, c.effect.scope)
		}
		return
	}
	info := w.r.truth.txs[c.tx]
	hand := info != nil && info.over() && w.byHand(c)
	aborted := info != nil && info.decision != 0 && !info.committed && info.final == 0
	if !hand && !aborted && (info == nil || info.turn == 0 || info.undone != 0) {
		w.r.fail("a compensation of %s lands, which is not aborted and unsettled, and has no turn", c.tx)
		return
	}
	d.undone = true
	for i, leaf := range c.leaves {
		own := w.r.real && w.tokens[w.value[leaf]].tx == c.tx // of a later call that nothing undoes
		if w.value[leaf] != c.effect.token && !own && !w.handed[leaf] && !w.r.truth.blind && !info.loose && !w.stays(leaf) {
			w.r.fail("a compensation of %s lands on %s, which holds %s", c.tx, leaves()[leaf], w.name(w.value[leaf]))
			return
		}
		w.value[leaf] = d.images[i]
	}
}

// release lets a gated effect out: only after the commit, only until the settlement, and only once.
func (w *world) release(c *call) {
	d := w.deed(c.effect.token)
	e := c.effect
	if e.key != "" {
		if by, found := w.sunk[e.key]; found {
			if by != c.tx {
				w.r.fail("key %s leaves for %s and has left for %s", e.key, c.tx, by)
			}
			return
		}
	}
	info := w.r.truth.txs[c.tx]
	switch {
	case info == nil || !info.committed:
		w.r.fail("a gated effect of %s leaves without a commit", c.tx)
		return
	case info.over() && w.byHand(c) && !d.ran:
	case info.final != 0:
		w.r.fail("a gated effect of %s leaves after its transaction was final", c.tx)
		return
	case d.ran:
		w.r.fail("a gated effect of %s without a key leaves twice", c.tx)
		return
	}
	if e.key != "" {
		w.sunk[e.key] = c.tx
	}
	d.ran = true
	for _, leaf := range c.leaves {
		d.images = append(d.images, w.value[leaf])
		w.value[leaf] = e.token
	}
}

// byHand: a person has asked for the call to be tried. What it moves is not held against the commits any more.
func (w *world) byHand(c *call) bool {
	if !w.hand[c.effect.token] {
		return false
	}
	w.r.probe(ProbeByHand)
	for _, leaf := range c.leaves {
		w.handed[leaf] = true
	}
	return true
}

// stays: what a resource holds is what could not be undone.
func (w *world) stays(leaf int) bool {
	info := w.r.truth.txs[w.tokens[w.value[leaf]].tx]
	return info != nil && info.residue()
}

// ran is what a look-up finds once the call can no longer land.
func (w *world) ran(t token) bool { return w.deed(t).ran }

// checkEnd: the resources are as the committed transactions leave them.
func (w *world) checkEnd() {
	if w.r.truth.blind {
		return
	}
	for leaf := range numForeign {
		if w.value[leaf] != w.r.truth.state[leaf] && !w.handed[leaf] {
			w.r.fail("at the end %s holds %s; the committed transactions leave %s", leaves()[leaf],
				w.name(w.value[leaf]), w.name(w.r.truth.state[leaf]))
		}
	}
	for _, info := range w.r.truth.list {
		a := w.r.attempts[info.id]
		if a == nil || !info.committed || info.seal == nil {
			continue
		}
		for _, e := range a.effects {
			if e.gated() && e.scope != "" && !w.ran(e.token) && !info.residue() && info.cone == 0 {
				w.r.fail("%s is final and clean, but its effect on %s never left", info.id, e.scope)
			}
		}
	}
}
