package sim

import (
	"fmt"
	"slices"

	"github.com/hence-dev/hence/sequencer"
)

// maxTries is how often a client repeats a refused program while there are faults; afterwards it does so until it is
// done.
const maxTries = 5

// advance takes the next step of a line of work.
func (c *sidecar) advance(l *lane) {
	r := c.r
	if l.until > r.now {
		return
	}
	if l.cur == nil {
		c.next(l)
		return
	}
	a := l.cur
	info := c.info(a.id)
	if info != nil && info.decided(c.view) {
		c.ended(l, info)
		return
	}
	if a.incarnation != c.incarnation {
		if info == nil && c.view >= c.incarnation { // it never came into the log, and cannot any more
			c.giveBack(l, sequencer.CodeLeaseExpired)
		}
		return
	}
	switch {
	case a.patience > r.now:
	case r.now > a.sentAt+60 && c.unheard(a):
		c.abort(a, sequencer.CodeAbortedByAgent)
	case a.aborting:
		c.awaitAbort(l)
	case a.seal != nil:
		c.awaitSeal(l)
	case !a.prog.last && r.chance(r.swarm.quit):
		c.abort(a, sequencer.CodeAbortedByAgent)
	case a.at < len(a.ops):
		c.work(l)
	default:
		c.sealNow(a)
	}
}

// next starts an attempt: of a new program, or one more of a refused one.
func (c *sidecar) next(l *lane) {
	r := c.r
	if r.healing && (c.done >= lastPrograms || l != c.lanes[0]) {
		return
	}
	if l.prog == nil {
		l.prog, l.prev, l.tries = r.newProgram(), nil, 0
		c.makeBranch(l)
	}
	p := l.prog
	c.attempts++
	a := &attempt{id: sequencer.TxID(fmt.Sprintf("t%d.%d", c.id, c.attempts)), prog: p, incarnation: c.incarnation,
		base: c.view, seen: c.seen, counts: map[sequencer.IntentKind]uint32{}, ops: p.ops}
	a.begin = &sequencer.Begin{Mode: p.mode, Observe: p.observe, Levels: p.levels, DeadlineTicks: p.deadline,
		Session: l.session}
	if p.group != nil {
		a.begin.Group = p.group.id
		p.group.members = append(p.group.members, a.id)
	}
	if l.tries >= 3 {
		a.begin.Mode = sequencer.Locked
	}
	if p.may && a.begin.Mode == sequencer.Ordered {
		a.begin.May = p.footprint()
	}
	if l.prev == nil && r.chance(r.swarm.pest) {
		a.begin.Predecessor = c.wounded // once more
	}
	if l.prev != nil {
		a.begin.Predecessor = l.prev.id
		if l.code == sequencer.CodeConflict || l.tries >= 3 {
			a.ops = append([]op{{kind: opTouch, wants: p.footprint()}}, p.ops...)
		}
	}
	l.cur = a
	c.journal[a.id], r.attempts[a.id] = a, a
	r.note("%s begins %s (program %d, try %d, %s, base %d)", c.agent, a.id, p.id, l.tries, a.begin.Mode, a.base)
	if r.chance(0.5) || len(a.begin.May) > 0 {
		in := c.intent(a, sequencer.IntentBegin)
		c.send(in)
	}
}

// makeBranch lets the other line of work try the same kind of thing in a branch of one group.
func (c *sidecar) makeBranch(l *lane) {
	r := c.r
	if len(c.lanes) < 2 || !r.chance(r.swarm.group) {
		return
	}
	for _, other := range c.lanes {
		if other != l && other.prog == nil {
			g := &group{id: fmt.Sprintf("g%d", l.prog.id), since: r.now}
			l.prog.group = g
			other.prog = r.newProgram()
			other.prog.group = g
			return
		}
	}
}

// intent makes the next intent of a kind; each carries the begin, whichever of them comes first.
func (c *sidecar) intent(a *attempt, kind sequencer.IntentKind) *sequencer.Intent {
	a.counts[kind]++
	a.sentAt, a.sentKind = c.r.now, kind
	return &sequencer.Intent{Kind: kind, Tx: a.id, N: a.counts[kind], Agent: c.agent, Incarnation: a.incarnation,
		Base: a.base, Begin: a.begin}
}

// ended takes a decision from the view.
func (c *sidecar) ended(l *lane, info *txInfo) {
	a := l.cur
	c.seen = max(c.seen, info.decision)
	if info.committed {
		c.r.note("%s is told that %s has committed at %d", c.agent, a.id, info.decision)
		if a.prog.last {
			c.done++
		}
		l.prog, l.cur = nil, nil
		l.until = c.r.now + c.r.n(6)
		return
	}
	o := info.outs[0]
	for _, x := range info.outs {
		if x.Kind == sequencer.OutcomeAborted {
			o = x
		}
	}
	c.giveBack(l, o.Code)
}

// giveBack ends an attempt that came to nothing: its program is tried again, or given up.
func (c *sidecar) giveBack(l *lane, code sequencer.Code) {
	r := c.r
	l.cur.givenUp = true
	l.prev, l.code, l.cur = l.cur, code, nil
	if code == sequencer.CodeWounded {
		c.wounded = l.prev.id
	}
	l.tries++
	l.until = r.now + r.n(6)
	again := code.Retryable() && (l.tries < maxTries && !r.healing || l.prog.last)
	if !again {
		l.prog, l.prev = nil, nil
	}
}

func (c *sidecar) abort(a *attempt, code sequencer.Code) {
	in := c.intent(a, sequencer.IntentAbort)
	in.Abort = &sequencer.Abort{Code: code}
	if code == sequencer.CodeAbortedByAgent {
		c.tell(a, in.Abort)
	}
	a.aborting = true
	c.send(in)
}

// awaitAbort waits for the decision; an abort of what the log has forgotten needs none.
func (c *sidecar) awaitAbort(l *lane) {
	a := l.cur
	if o := c.answer(a.id, sequencer.IntentAbort, a.counts[sequencer.IntentAbort]); o != nil &&
		o.Kind == sequencer.OutcomeRefused {
		c.giveBack(l, o.Code)
	}
}

// unheard: what was sent last has no answer, not even that it waits. It may be lost, or land much later.
func (c *sidecar) unheard(a *attempt) bool {
	switch {
	case a.sentKind == sequencer.IntentVerdict, c.r.wire.length(c.id) > 0:
		return false
	case a.aborting:
		return true
	case a.touch == 0 && a.seal == nil:
		return false
	}
	in := sequencer.Intent{Kind: a.sentKind, Tx: a.id, N: a.counts[a.sentKind]}
	info := c.info(a.id)
	if info == nil {
		return true
	}
	name := in.ID()
	return !slices.ContainsFunc(info.outs, func(o *sequencer.Outcome) bool { return o.Seq <= c.view && o.Intent == name })
}

// refused is what to do when only the intent was refused: try again for a while, or abort. It reports
// whether to try again.
func (c *sidecar) refused(l *lane, code sequencer.Code) bool {
	a := l.cur
	a.patience = c.r.now + 2 + c.r.n(8)
	switch code {
	case sequencer.CodeTooOld, sequencer.CodeLeaseExpired, sequencer.CodeUnknownIntent:
		if c.info(a.id) == nil && code == sequencer.CodeTooOld {
			c.giveBack(l, code)
			return false
		}
	case sequencer.CodeLateEffect:
	default:
		if a.refusals++; a.refusals < 3 {
			return true
		}
	}
	c.abort(a, sequencer.CodeAbortedByAgent)
	return false
}
