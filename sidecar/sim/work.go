package sim

import (
	"fmt"
	"strconv"

	"github.com/hence-dev/hence/sequencer"
)

// work does the attempt's next operation, or waits for what it needs.
func (c *sidecar) work(l *lane) {
	a := l.cur
	switch o := &a.ops[a.at]; o.kind {
	case opRead:
		c.read(a, o)
	case opTouch:
		c.touch(l, o)
	case opGated:
		c.gate(a, o)
	case opWrite:
		c.write(a, o)
	}
}

// read answers from the view, for shards, or calls the resource. The call's view is the one when it left.
func (c *sidecar) read(a *attempt, o *op) {
	r := c.r
	at := leavesOf(o.scope)
	if a.call != nil {
		switch {
		case a.call.answered(r.now):
			c.record(a, o.scope, a.callView, at, a.call.values)
			a.call = nil
		case a.call.over(r.now) && a.call.answers < 0:
			a.call = nil
		}
		return
	}
	if isShard(at[0]) {
		values := make([]token, len(at))
		for i, leaf := range at {
			values[i] = r.truth.shardAt(leaf, c.view).value
		}
		c.record(a, o.scope, c.view, at, values)
		return
	}
	a.callView = c.view
	a.call = r.world.start(&call{kind: callRead, tx: a.id, leaves: at})
}

func (c *sidecar) record(a *attempt, s sequencer.Scope, view sequencer.Seq, at []int, values []token) {
	read := readRecord{Read: sequencer.Read{Scope: s, View: view}, leaves: at, values: values}
	for i := len(c.r.truth.writes) - 1; i >= 0; i-- {
		if w := c.r.truth.writes[i]; w.seq <= view && w.scope.Overlaps(s) {
			read.Version, read.Writer = w.seq, w.tx
			break
		}
	}
	if c.r.chance(c.r.swarm.readFrom) {
		c.suspect(a, s)
	}
	c.r.note("%s reads %s at view %d: %s", a.id, s, view, c.r.world.name(values[0]))
	a.reads = append(a.reads, read)
	a.at++
}

// suspect names the transactions that have the scope as the view shows it: the value may be theirs.
func (c *sidecar) suspect(a *attempt, s sequencer.Scope) {
	for _, info := range c.r.truth.list[c.settledTo:] {
		if info.id == a.id || info.outs[0].Seq > c.view || info.finalAt(c.view) {
			continue
		}
		if covers(info.grants, s) || c.r.chance(0.1) {
			a.from = append(a.from, info.id)
		}
	}
}

// touch asks for scopes and runs the effects under them once they are granted.
func (c *sidecar) touch(l *lane, o *op) {
	a := l.cur
	if a.touch == 0 {
		in := c.intent(a, sequencer.IntentTouch)
		in.Touch = &sequencer.Touch{Wants: o.wants}
		a.touch, a.ran = in.N, 0
		c.send(in)
		return
	}
	got := c.answer(a.id, sequencer.IntentTouch, a.touch)
	switch {
	case got == nil:
		return
	case got.Kind == sequencer.OutcomeRefused:
		a.touch = 0
		c.refused(l, got.Code)
		return
	}
	if n := len(a.touches); n == 0 || a.touches[n-1].N != a.touch {
		a.touches = append(a.touches, sequencer.TouchReport{N: a.touch, Known: true})
	}
	if !c.runEffects(a, o) {
		return
	}
	a.touch = 0
	a.at++
}

// runEffects runs the eager effects of an op one after another; it reports whether all are done.
func (c *sidecar) runEffects(a *attempt, o *op) bool {
	if n := len(a.effects); n > 0 && a.effects[n-1].run != nil && !a.effects[n-1].known {
		e := a.effects[n-1]
		c.learn(e)
		switch {
		case !e.known && !e.givenUp:
			return false
		case e.givenUp, !e.ran:
			c.abort(a, sequencer.CodeToolFailed)
			return false
		}
	}
	if a.ran == len(o.runs) {
		return true
	}
	if !c.mayCall() {
		return false
	}
	key := ""
	if o.keyed {
		key = fmt.Sprintf("%s/%d", a.id, len(a.effects))
	}
	e := c.newEffect(a, o.runs[a.ran], o.class, key)
	a.ran++
	e.run = c.start(&call{kind: callDo, tx: a.id, effect: e, leaves: e.leaves})
	return false
}

// learn finds out what became of an eager call: from its answer, or, once it can no longer land and its sink takes a
// key, by looking it up.
func (c *sidecar) learn(e *effect) {
	switch {
	case e.known || e.givenUp:
	case e.run.answered(c.r.now):
		e.known, e.ran = true, !e.run.fails && c.r.world.ran(e.token)
	case e.run.over(c.r.now):
		if e.givenUp = !e.keyed() || !c.r.chance(c.r.swarm.lookup); !e.givenUp {
			e.known, e.ran = true, c.r.world.ran(e.token)
		}
	}
}

func (c *sidecar) newEffect(a *attempt, s sequencer.Scope, class sequencer.Class, key string) *effect {
	e := &effect{index: len(a.effects), scope: s, leaves: foreign(s), class: class, key: key}
	e.token = c.r.world.newToken(a.id, e.index)
	a.effects = append(a.effects, e)
	return e
}

func foreign(s sequencer.Scope) []int {
	var out []int
	for _, leaf := range leavesOf(s) {
		if !isShard(leaf) {
			out = append(out, leaf)
		}
	}
	return out
}

// gate stages an effect; nothing leaves before the commit.
func (c *sidecar) gate(a *attempt, o *op) {
	c.newEffect(a, o.scope, o.class, o.key)
	a.at++
}

// write stages new content of a shard.
func (c *sidecar) write(a *attempt, o *op) {
	a.at++
	for _, w := range a.writes {
		if w.Scope == o.scope {
			return
		}
	}
	v := c.r.world.newToken(a.id, 100+len(a.writes))
	w := sequencer.ShardWrite{Scope: o.scope, Content: []byte(strconv.Itoa(int(v)))}
	if o.expect {
		last := c.r.truth.shardAt(leavesOf(o.scope)[0], c.view)
		w.Expect = &sequencer.Expect{Version: last.seq, View: c.view}
	}
	a.writes = append(a.writes, w)
}
