package sim

import (
	"slices"
	"strconv"

	"github.com/hence-dev/hence/sequencer"
)

// checkCommit holds a commit against what the log says and against what its agent really saw.
func (t *truth) checkCommit(info *txInfo, o *sequencer.Outcome) {
	a := t.r.attempts[info.id]
	switch {
	case a == nil || info.seal == nil || info.seal.Footprint() != o.Footprint:
		t.r.fail("%s commits a footprint that nobody sealed", info.id)
		return
	case o.Seq <= a.seen:
		t.r.fail("%s commits at %d, before a decision at %d that its agent had when it began", info.id, o.Seq, a.seen)
		return
	}
	if a.givenUp {
		t.r.fail("%s commits at %d after its agent was told that it came to nothing", info.id, o.Seq)
		return
	}
	t.checkStanding(info, o)
	t.checkGround(info, a, o)
	t.checkExpected(info)
	t.checkPins(info, a)
	t.checkValues(info, a)
	t.leave(info, a, o)
}

// checks is the levels that the transaction's commit stands for.
func (info *txInfo) checks(a *attempt) sequencer.Levels {
	switch {
	case info.free || a.begin.Observe:
		return 0
	case a.begin.Levels != nil:
		return *a.begin.Levels
	}
	return info.levels
}

// checkGround: no read was overtaken, and nothing that it rests on was undecided or aborted.
func (t *truth) checkGround(info *txInfo, a *attempt, o *sequencer.Outcome) {
	levels := info.checks(a)
	if levels&sequencer.A1 != 0 {
		for _, r := range info.seal.Reads {
			for _, w := range t.writes {
				if w.seq > r.View && w.tx != info.id && w.scope.Overlaps(r.Scope) {
					t.r.fail("%s commits at %d although its read of %s at %d was overtaken by %s at %d",
						info.id, o.Seq, r.Scope, r.View, w.tx, w.seq)
					return
				}
			}
		}
	}
	if levels&sequencer.A3 == 0 {
		return
	}
	for _, id := range append(slices.Clone(o.RestsOn), info.seal.ReadFrom...) {
		d := t.txs[id]
		if d == nil || d == info || d.final != 0 && d.decision <= t.floor {
			continue
		}
		if d.decision == 0 || d.decision > o.Seq || !d.committed || d.cone != 0 {
			t.r.fail("%s commits at %d and rests on %s, which has not committed before", info.id, o.Seq, id)
			return
		}
	}
}

// checkExpected: an expected version was the last one.
func (t *truth) checkExpected(info *txInfo) {
	if info.free {
		return
	}
	for _, w := range info.seal.Shards {
		if w.Expect == nil {
			continue
		}
		for _, leaf := range leavesOf(w.Scope) {
			now := t.shardAt(leaf, sequencer.Seq(len(t.out)))
			last := now.seq
			if last != w.Expect.Version && (!now.absent || w.Expect.Version != 0) {
				t.r.fail("%s expected version %d of %s; it is %d", info.id, w.Expect.Version, w.Scope, last)
				return
			}
		}
	}
}

func (t *truth) shardAt(leaf int, view sequencer.Seq) shard {
	for i := len(t.shards[leaf]) - 1; i >= 0; i-- {
		if t.shards[leaf][i].seq <= view {
			return t.shards[leaf][i]
		}
	}
	return shard{}
}

// checkValues: replaying the commits one after another, each read sees what the agent saw.
func (t *truth) checkValues(info *txInfo, a *attempt) {
	if t.blind || info.loose || info.checks(a)&sequencer.A1 == 0 {
		return
	}
	for _, r := range a.reads {
		for i, leaf := range r.leaves {
			if t.r.world.handed[leaf] || r.values[i] == t.state[leaf] || t.r.world.tokens[r.values[i]].tx == info.id {
				continue
			}
			t.r.fail("%s commits on a read of %s that saw %s; the commits before it leave %s",
				info.id, leaves()[leaf], t.r.world.name(r.values[i]), t.r.world.name(t.state[leaf]))
			return
		}
	}
}

// leave enters what a commit writes into the serial state.
func (t *truth) leave(info *txInfo, a *attempt, o *sequencer.Outcome) {
	for _, e := range a.effects {
		if e.gated() || e.idle {
			continue
		}
		for _, leaf := range e.leaves {
			t.lay(leaf, laid{tx: info.id, value: e.token})
			if v := t.r.world.value[leaf]; v != t.lastEager(a, leaf) && !t.blind &&
				!t.r.world.handed[leaf] {
				t.r.fail("%s commits; %s holds %s", info.id, leaves()[leaf], t.r.world.name(v))
				return
			}
		}
	}
	for _, e := range a.effects {
		if e.gated() { // it leaves after all eager ones
			for _, leaf := range e.leaves {
				t.lay(leaf, laid{tx: info.id, value: e.token})
			}
		}
	}
	for _, w := range o.Shards {
		if w.Absent && len(leavesOf(w.Scope)) > 0 { // a reset
			for _, leaf := range leavesOf(w.Scope) {
				t.lay(leaf, laid{tx: info.id})
				t.shards[leaf] = append(t.shards[leaf], shard{seq: o.Seq, tx: info.id, absent: true})
			}
			t.resets++
			continue
		}
		if len(leavesOf(w.Scope)) == 0 { // of another workload's, which holds it against something else
			continue
		}
		v, err := strconv.Atoi(string(w.Content))
		if err != nil {
			t.r.fail("%s commits a shard with content %q", info.id, w.Content)
			return
		}
		leaf := leavesOf(w.Scope)[0]
		t.lay(leaf, laid{tx: info.id, value: token(v)})
		t.shards[leaf] = append(t.shards[leaf], shard{seq: o.Seq, tx: info.id, value: token(v)})
	}
}

// lastEager is what the transaction's own eager effects have left on a resource.
func (t *truth) lastEager(a *attempt, leaf int) token {
	var last token
	for _, e := range a.effects {
		if e.eager() && !e.idle && slices.Contains(e.leaves, leaf) {
			last = e.token
		}
	}
	return last
}

// checkSettled: what is settled cleanly is as the commits leave it; what is not is as it is, and named as residue.
func (t *truth) checkSettled(info *txInfo, s *sequencer.Settle, o *sequencer.Outcome) {
	t.checkMoved(info, s, o)
	t.checkResults(info, s)
	scopes := slices.Clone(info.grants)
	for _, e := range s.Effects {
		scopes = append(scopes, e.Scopes...)
	}
	if info.loose && t.rules.Logic >= 3 {
		t.settledLoose(info, scopes, o)
		return
	}
	for leaf := range numLeaves {
		if isShard(leaf) || !covers(scopes, leaves()[leaf]) {
			continue
		}
		v := t.r.world.value[leaf]
		switch {
		case slices.ContainsFunc(s.Effects, func(e sequencer.Settled) bool {
			return e.Result != sequencer.ResultClean && (len(e.Scopes) == 0 || covers(e.Scopes, leaves()[leaf]))
		}):
			t.unclean(leaf, info.id, v)
		case v != t.state[leaf] && !t.blind && !t.r.world.handed[leaf]:
			t.r.fail("%s is settled cleanly and %s holds %s; the commits leave %s", info.id, leaves()[leaf],
				t.r.world.name(v), t.r.world.name(t.state[leaf]))
			return
		}
	}
}

// checkResults holds what a settlement says of each effect against its sink.
func (t *truth) checkResults(info *txInfo, s *sequencer.Settle) {
	a := t.r.attempts[info.id]
	if a == nil {
		return
	}
	for _, e := range s.Effects {
		if int(e.Index) >= len(a.effects) {
			continue // a false one, not of the transaction
		}
		d := t.r.world.deed(a.effects[e.Index].token)
		there := d.ran && !d.undone
		if a.effects[e.Index].idle || t.r.world.hand[a.effects[e.Index].token] {
			continue // its sink said no: that nothing is there is all that there is to say
		}
		switch {
		case e.Result == sequencer.ResultClean && there != (info.committed && info.undone == 0),
			e.Result == sequencer.ResultPartial && there, e.Result == sequencer.ResultLeaked && !there:
			t.r.fail("effect %d of %s is settled as %s; it ran: %v, it was undone: %v", e.Index, info.id, e.Result, d.ran,
				d.undone)
			return
		}
	}
}

func covers(scopes []sequencer.Scope, s sequencer.Scope) bool {
	return slices.ContainsFunc(scopes, func(x sequencer.Scope) bool { return x.Overlaps(s) })
}

// checkReplay reads the whole log once more, from the start and from a state written in the middle.
func (t *truth) checkReplay() {
	fresh := sequencer.New(workspace)
	half := len(t.log) / 2
	for i, in := range t.log {
		if i == half {
			restored, err := sequencer.Restore(fresh.State())
			if err != nil {
				t.r.fail("restore in the middle of the log: %v", err)
				return
			}
			fresh = restored
		}
		if _, err := fresh.Step(int64(i), in); err != nil {
			t.r.fail("replay of offset %d: %v", i, err)
			return
		}
	}
	if fresh.StateHash() != t.fold.StateHash() {
		t.r.fail("a replay of the whole log ends in another state")
	}
	if len(t.ledger.held) > 0 && t.r.failed == "" {
		h := t.ledger.held[0]
		t.r.fail("at the end %s still holds %s (%s)", h.tx.id, h.Scope, h.Kind)
	}
}

// pending names a transaction that the fold still has to decide or to settle; empty: none.
func (t *truth) pending() sequencer.TxID {
	for _, tx := range t.fold.State().Txs {
		if tx.Phase != sequencer.PhaseFinalCommitted && tx.Phase != sequencer.PhaseFinalAborted &&
			tx.Phase != sequencer.PhaseRetracted {
			return tx.ID
		}
	}
	return ""
}
