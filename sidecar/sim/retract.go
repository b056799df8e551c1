package sim

import (
	"slices"
	"strconv"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
)

// over: it is final, and no retraction has brought it back, or is done with it.
func (i *txInfo) over() bool { return i.final != 0 && (i.cone == 0 || i.undone != 0) }

// laid is a value that a transaction has left at a resource, in the order of the commits.
type laid struct {
	tx    sequencer.TxID
	value token
	left  bool // a settlement says that it may be there
}

func (t *truth) lay(leaf int, x laid) {
	t.laid[leaf] = append(t.laid[leaf], x)
	t.state[leaf] = x.value
}

// top is the value that those leave who stand.
func (t *truth) top(leaf int) token {
	if n := len(t.laid[leaf]); n > 0 {
		return t.laid[leaf][n-1].value
	}
	return 0
}

// unclean: a settlement says that it does not know what is there, or that it should not be; so it is what it is.
func (t *truth) unclean(leaf int, id sequencer.TxID, v token) {
	t.laid[leaf] = slices.DeleteFunc(t.laid[leaf], func(x laid) bool { return x.tx == id })
	if t.top(leaf) != v {
		t.laid[leaf] = append(t.laid[leaf], laid{tx: t.r.world.tokens[v].tx, value: v})
	}
	if n := len(t.laid[leaf]); n > 0 {
		top := &t.laid[leaf][n-1]
		w := t.txs[top.tx]
		top.left = top.left || top.tx == id || w != nil && !w.committed
	}
	t.state[leaf] = v
}

// takeAway removes what a transaction has left; what was left behind above it has been overwritten with it.
func (t *truth) takeAway(leaf int, id sequencer.TxID) {
	at := slices.IndexFunc(t.laid[leaf], func(x laid) bool { return x.tx == id })
	if at < 0 {
		return
	}
	var kept []laid
	for i, x := range t.laid[leaf] {
		if i < at || x.tx != id && !x.left {
			kept = append(kept, x)
		}
	}
	t.laid[leaf], t.state[leaf] = kept, 0
	t.state[leaf] = t.top(leaf)
}

// onRetracting: a retraction is queued, or it has started and the transaction is in its cone.
func (t *truth) onRetracting(info *txInfo, o *sequencer.Outcome) {
	if info.cone != 0 && len(o.Cone) == 0 {
		t.r.probe(ProbeTurnBlocked) // it says what its next turn waits for
		return
	}
	t.checkRetracting(info, o)
	if o.Tx == o.Retraction && len(o.Cone) == 0 {
		t.r.probe(ProbeRetractQueued)
		return
	}
	if !info.committed || info.cone != 0 {
		t.r.fail("%s is in a cone at %d; it has committed: %v, it was in one at %d", info.id, o.Seq, info.committed,
			info.cone)
		return
	}
	info.cone, info.retraction, t.rested = o.Seq, o.Retraction, 0
	info.owners = append(info.owners, owner{o.Seq, o.Incarnation})
	t.r.probe(ProbeRetracted)
	if len(o.Cone) > 1 {
		t.r.probe(ProbeConeOfSeveral)
	}
}

func (t *truth) onTurn(info *txInfo, o *sequencer.Outcome) {
	if info.cone == 0 || info.final == 0 || info.turn != 0 {
		t.r.fail("%s has its turn at %d; cone %d, final %d, turn %d", info.id, o.Seq, info.cone, info.final, info.turn)
		return
	}
	for _, x := range t.list {
		if x.retraction == info.retraction && x.undone == 0 && x.decision > info.decision {
			t.r.fail("%s has its turn at %d before %s, which was decided later", info.id, o.Seq, x.id)
		}
	}
	info.turn = o.Seq
	t.r.probe(ProbeTurn)
}

// onTaken: a member of a cone is undone, by its owner or, if nothing ran, by the fold.
func (t *truth) onTaken(info *txInfo, o *sequencer.Outcome, in *sequencer.Intent) {
	var s *sequencer.Settle
	if info.turn != 0 {
		if in.Kind != sequencer.IntentSettle || in.Tx != info.id || in.Incarnation != info.owner() {
			t.r.fail("%s is taken back at %d by %s", info.id, o.Seq, in.ID())
			return
		}
		s = in.Settle
	}
	info.undone = o.Seq
	for _, w := range o.Shards {
		t.onRestored(info, &w, o)
	}
	if s == nil {
		s = &sequencer.Settle{}
	}
	t.checkMoved(info, s, o)
	t.checkResults(info, s)
	a := t.r.attempts[info.id]
	if a == nil {
		return
	}
	for _, leaf := range a.written() {
		v := t.r.world.value[leaf]
		// One without names is on the list of residues, though the fold (up to logic 3) marks no scope for it: seed 12713.
		unclean := slices.ContainsFunc(s.Effects, func(e sequencer.Settled) bool {
			return e.Result != sequencer.ResultClean && (len(e.Scopes) == 0 || covers(e.Scopes, leaves()[leaf]))
		})
		switch {
		case isShard(leaf):
			t.takeAway(leaf, info.id)
			t.keep(leaf, info)
			t.state[leaf] = t.shardAt(leaf, o.Seq).value
		case info.loose && t.rules.Logic >= 3:
			t.takenLoose(leaf, info, o)
		case unclean:
			t.r.probe(ProbeTurnUnclean)
			t.unclean(leaf, info.id, v)
		default:
			t.takeAway(leaf, info.id)
			if v != t.state[leaf] && !t.blind && !t.r.world.handed[leaf] {
				t.r.fail("%s is taken back and %s holds %s; without it it is %s", info.id, leaves()[leaf],
					t.r.world.name(v), t.r.world.name(t.state[leaf]))
				return
			}
		}
	}
}

// keep notes that a shard's content stays although its writer was taken back.
func (t *truth) keep(leaf int, info *txInfo) {
	last := &t.shards[leaf][len(t.shards[leaf])-1]
	if w := t.txs[last.tx]; w != nil && w.retraction == info.retraction {
		last.stays = true
		t.r.probe(ProbeContentLost)
	}
}

// onRestored holds a shard's content that the fold has put back against what stands.
func (t *truth) onRestored(info *txInfo, w *sequencer.ShardWrite, o *sequencer.Outcome) {
	t.r.probe(ProbeRestored)
	var got, want token
	if len(leavesOf(w.Scope)) != 1 { // a count, or a reset that is taken back
		return
	}
	leaf := leavesOf(w.Scope)[0]
	switch at := slices.IndexFunc(t.shards[leaf], func(x shard) bool { return x.seq == w.Restored && x.tx != "" }); {
	case w.Absent:
	case w.Restored != 0 && at < 0:
		t.r.fail("%s restores at %s what decision %d carries, which carries nothing", info.id, w.Scope, w.Restored)
		return
	case w.Restored != 0:
		got = t.shards[leaf][at].value
	default: // kept whole, before logic 3
		v, err := strconv.Atoi(string(w.Content))
		if err != nil {
			t.r.fail("%s restores content %q", info.id, w.Content)
			return
		}
		got = token(v)
	}
	lost := false // what is forgotten can be held against nothing
	for _, x := range t.shards[leaf] {
		lost = lost || x.stays
		if writer := t.txs[x.tx]; x.tx != "" && writer != nil && (writer.cone == 0 || x.stays) {
			want = x.value
		}
	}
	if got != want && !lost && !t.blind {
		t.r.fail("%s restores %s at %s; without the cone it is %s", info.id, t.r.world.name(got), w.Scope,
			t.r.world.name(want))
	}
	t.shards[leaf] = append(t.shards[leaf], shard{seq: o.Seq, value: got, absent: w.Absent})
}

// undoLeast is the least that the rules so far left of what can be undone.
type undoLeast struct {
	commits uint32
	ticks   sequencer.Tick
	other   bool // a rule before logic 3, or few bytes, may have moved the horizon further
}

// note takes over rules that were in force.
func (u *undoLeast) note(r *sequencer.Rules) {
	if r.Logic < 3 {
		u.other = true
		return
	}
	if u.commits == 0 || r.HorizonCommits < u.commits {
		u.commits = r.HorizonCommits
	}
	if u.ticks == 0 || r.HorizonTicks < u.ticks {
		u.ticks = r.HorizonTicks
	}
	u.other = u.other || r.MaxKept < sequencer.DefaultRules().MaxKept
}

// checkTooOld: what is inside the undo horizon can be retracted, however much was numbered since that is no commit.
func (t *truth) checkTooOld(info *txInfo, o *sequencer.Outcome) {
	commits := 0
	for _, x := range t.list {
		if x.committed && x.decision > info.decision {
			commits++
		}
	}
	if info.committed && !t.least.other && commits < int(t.least.commits) && o.Time-info.time <= t.least.ticks {
		t.r.fail("the retraction of %s at %d is refused as too old: %d commits and %d ticks after it, and the rules "+
			"have %d and %d", info.id, o.Seq, commits, o.Time-info.time, t.least.commits, t.least.ticks)
	}
}

// checkRetracted: at the end nothing stands on what was taken back.
func (t *truth) checkRetracted() {
	if t.blind {
		return
	}
	for _, info := range t.list {
		a := t.r.attempts[info.id]
		if a == nil || !info.committed || info.loose || info.cone != 0 || info.checks(a)&sequencer.L2 != sequencer.L2 {
			continue
		}
		for _, r := range a.reads {
			for _, v := range r.values {
				w := t.txs[t.r.world.tokens[v].tx]
				if w != nil && w.undone != 0 && w.undone > r.View && !w.residue() {
					t.r.fail("%s stands on a read of %s at %d, which was taken back at %d", info.id, w.id, r.View, w.undone)
				}
			}
		}
	}
}

// retract asks for a transaction to be taken back, of whomever it is.
func (c *sidecar) retract() {
	list := c.r.truth.list
	if len(list) == 0 {
		return
	}
	info := list[len(list)-1-c.r.n(min(len(list), 12))]
	c.retractions[info.id]++
	c.send(&sequencer.Intent{Kind: sequencer.IntentRetract, Tx: info.id, N: c.retractions[info.id],
		Incarnation: c.incarnation, Base: c.view})
}

// newTurn begins a member's compensation, which undoes all that ran. What was held and has left cannot be taken back.
func (c *sidecar) newTurn(info *txInfo) *settlement {
	s := c.newSettlement(info)
	s.turn = true
	return s
}

// taken is what a turn works on: what the journal has of it, if it was begun before.
func (s *settlement) taken(journal *attempt) []*effect {
	if s.ground == gate.ClaimStranger || journal == nil {
		return s.ran()
	}
	if journal.turned == nil {
		journal.turned = s.ran()
	}
	return journal.turned
}

// ran is what a compensation of a committed transaction begins with: the calls' outcomes, not those of its settlement.
func (s *settlement) ran() []*effect {
	var out []*effect
	for _, e := range s.all {
		x := &effect{index: e.index, scope: e.scope, leaves: e.leaves, class: e.class, key: e.key, token: e.token}
		if s.ground != gate.ClaimStranger {
			x.known, x.ran = e.known, e.ran
			if e.gated() {
				x.known = e.settled && (e.result == sequencer.ResultClean || e.result == sequencer.ResultPartial)
				x.ran = e.result == sequencer.ResultClean
			}
		}
		out = append(out, x)
	}
	return out
}
