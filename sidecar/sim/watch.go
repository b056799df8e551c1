package sim

import (
	"slices"

	"github.com/hence-dev/hence/sequencer"
)

// watch is what matters where the workspace observes and enforces in turn. While it observes, effects run over each
// other and nothing is promised of values. From the switch on, what a resource holds is the ground, once nothing that
// was not final then holds it any more.
type watch struct {
	ending bool          // the record switches to enforcing
	since  sequencer.Seq // of the last switch to enforcing
	under  [numForeign]token
	ground [numForeign]token
}

// lax: it is granted and commits whatever others hold. Under the older logics it goes on to be.
func (t *truth) lax(info *txInfo) bool { return info.free && (t.rules.Observe || t.rules.Logic < 3) }

// onRules follows what is enforced from here on.
func (t *truth) onRules(o *sequencer.Outcome) {
	was := t.rules.Observe
	t.rules = *o.Rules
	t.least.note(o.Rules)
	if t.rules.Logic < 3 {
		t.blind = t.blind || t.rules.Observe
		return
	}
	t.blind = t.rules.Observe
	switch {
	case t.rules.Observe && !was:
		for _, info := range t.list {
			info.loose = info.loose || !info.over()
			if info.cone != 0 && !info.over() {
				t.r.fail("the workspace observes from %d on, and %s is being taken back", o.Seq, info.id)
			}
		}
	case was && !t.rules.Observe:
		t.watch.ending, t.watch.since = true, o.Seq
		t.r.probe(ProbeEnforced)
	}
}

// noteUnder notes what a resource held before anybody held it.
func (t *truth) noteUnder(o *sequencer.Outcome) {
	if !t.r.swarm.watch {
		return
	}
	for _, h := range o.Added {
		for _, leaf := range leavesOf(h.Scope) {
			if leaf < numForeign && h.Kind != sequencer.Claimed && h.Access == sequencer.WriteAccess && !t.holdsLeaf(leaf) {
				t.watch.under[leaf] = t.r.world.value[leaf]
			}
		}
	}
}

// holdsLeaf: a transaction may have an effect on the resource.
func (t *truth) holdsLeaf(leaf int) bool {
	return slices.ContainsFunc(t.ledger.held, func(h holding) bool {
		return h.Kind != sequencer.Claimed && h.Access == sequencer.WriteAccess && h.Scope.Overlaps(leaves()[leaf])
	})
}

// beginEnforcing is the end of the record that switches to enforcing. What nothing holds is the ground.
func (t *truth) beginEnforcing() {
	t.watch.ending = false
	for leaf := range numForeign {
		if t.holdsLeaf(leaf) {
			t.watch.ground[leaf] = t.watch.under[leaf]
			t.r.probe(ProbeEnforcedHeld)
			continue
		}
		t.watch.ground[leaf] = t.r.world.value[leaf]
		t.found(leaf, false)
	}
}

// found makes what a resource holds that on which those build who are enforced.
func (t *truth) found(leaf int, named bool) {
	v := t.r.world.value[leaf]
	if t.state[leaf] = v; t.top(leaf) != v {
		t.laid[leaf] = nil
		if v != 0 {
			t.laid[leaf] = []laid{{tx: t.r.world.tokens[v].tx, value: v, left: named}}
		}
	}
}

// settledLoose takes the settlement of what was not final while the workspace observed. Once nothing holds a
// resource, it is what it is; that may be of what does not stand only if the log says so.
func (t *truth) settledLoose(info *txInfo, scopes []sequencer.Scope, o *sequencer.Outcome) {
	for leaf := range numForeign {
		if t.rules.Observe || !covers(scopes, leaves()[leaf]) || t.holdsLeaf(leaf) {
			continue
		}
		named := residueAt(o, leaf)
		if v := t.r.world.value[leaf]; !named && !t.standsAt(leaf, v) {
			t.r.fail("%s is settled at %d and %s holds %s: that was aborted, it was not there when the workspace began to "+
				"enforce, and the log does not call it residue", info.id, o.Seq, leaves()[leaf], t.r.world.name(v))
			return
		}
		if named {
			t.r.probe(ProbeSharedResidue)
		}
		t.found(leaf, named)
	}
}

// takenLoose takes the compensation of a transaction that was not final while the workspace observed.
func (t *truth) takenLoose(leaf int, info *txInfo, o *sequencer.Outcome) {
	t.r.probe(ProbeLooseTaken)
	named := residueAt(o, leaf)
	t.takeAway(leaf, info.id)
	if v := t.r.world.value[leaf]; !named && v != t.state[leaf] && !t.standsAt(leaf, v) {
		t.r.fail("%s is taken back at %d and %s holds %s: that does not stand, and the log does not call it residue",
			info.id, o.Seq, leaves()[leaf], t.r.world.name(v))
		return
	}
	t.found(leaf, named)
}

// standsAt: who is enforced may build on the value. It was there before, or is that of a transaction that stands, or
// was left while the workspace observed, or the log has called it residue.
func (t *truth) standsAt(leaf int, v token) bool {
	w := t.txs[t.r.world.tokens[v].tx]
	switch {
	case v == 0 || v == t.watch.ground[leaf]:
		return true
	case w == nil || w.undone != 0:
		return w != nil && w.residue()
	}
	return w.committed || w.residue() || w.final != 0 && w.final < t.watch.since
}

// residueAt: the outcome calls what is at the resource residue.
func residueAt(o *sequencer.Outcome, leaf int) bool {
	return slices.ContainsFunc(o.Writes, func(w sequencer.Write) bool {
		return w.Writer.Residue && w.Scope.Overlaps(leaves()[leaf])
	})
}

// checkRetracting: nothing is taken back beside what is, or was, only observed.
func (t *truth) checkRetracting(info *txInfo, o *sequencer.Outcome) {
	if t.rules.Logic < 3 {
		return
	}
	for _, x := range t.list {
		if t.rules.Observe || x.free && x.cone == 0 && !x.over() {
			t.r.fail("%s is taken back at %d; the workspace observes: %v, %s opened while it did", info.id, o.Seq,
				t.rules.Observe, x.id)
			return
		}
	}
}

// checkNotObserving: a retraction, or rules, are refused only beside the other.
func (t *truth) checkNotObserving(in *sequencer.Intent) {
	excluded := t.rules.Observe
	for _, x := range t.list {
		excluded = excluded || x.free && !x.over()
	}
	if in.Kind == sequencer.IntentRetract && !excluded {
		t.r.fail("the retraction of %s is refused as if the workspace observed", in.Tx)
	}
	if in.Kind == sequencer.IntentRules && len(t.fold.State().Retractions) == 0 {
		t.r.fail("rules version %d are refused as if a retraction ran", in.Rules.Version)
	}
}

// checkOwn: an outcome moves only what its transaction was granted or has sealed.
func (t *truth) checkOwn(info *txInfo, o *sequencer.Outcome) {
	if info == nil || t.rules.Logic < 3 {
		return
	}
	for _, w := range o.Writes {
		own := slices.ContainsFunc(info.grants, func(s sequencer.Scope) bool { return s.Covers(w.Scope) })
		if info.seal != nil {
			for _, e := range info.seal.Effects {
				own = own || slices.ContainsFunc(e.Scopes, func(s sequencer.Scope) bool { return s.Covers(w.Scope) })
			}
			for _, x := range info.seal.Shards {
				own = own || x.Scope.Covers(w.Scope)
			}
		}
		if !own {
			t.r.fail("%s of %s at %d moves %s, which it was neither granted nor has sealed", o.Kind, o.Tx, o.Seq, w.Scope)
			return
		}
	}
}

// stray sends a settlement of its own that also names what is not its transaction's.
func (c *sidecar) stray() {
	for _, info := range c.r.truth.list[c.settledTo:] {
		s := c.settlements[info.id]
		if s == nil || s.sentAt != 0 || s.turn || c.r.truth.rules.Logic < 3 {
			continue
		}
		for _, leaf := range leaves() {
			if slices.ContainsFunc(info.grants, leaf.Overlaps) || info.seal != nil && covers(sealedScopes(info.seal), leaf) {
				continue
			}
			s.sentAt, c.settled[info.id] = c.r.now, s.n
			c.send(&sequencer.Intent{Kind: sequencer.IntentSettle, Tx: info.id, N: s.n, Incarnation: c.incarnation,
				Base: c.view, Settle: &sequencer.Settle{Effects: []sequencer.Settled{{Index: 1000,
					Scopes: []sequencer.Scope{leaf}, Result: sequencer.ResultLeaked}}}})
			return
		}
	}
}

func sealedScopes(s *sequencer.Seal) []sequencer.Scope {
	var out []sequencer.Scope
	for _, e := range s.Effects {
		out = append(out, e.Scopes...)
	}
	for _, w := range s.Shards {
		out = append(out, w.Scope)
	}
	return out
}

// checkJoined and checkJoinRefused: a new agent joins only if fewer are live than may be, a live one always.
func (t *truth) checkJoined(o *sequencer.Outcome) {
	if t.rules.Logic >= 3 && t.live[o.Agent] == 0 && t.full() {
		t.r.fail("%s joins at %d beside %d others; the rules allow %d", o.Agent, o.Seq, len(t.live), t.rules.MaxSidecars)
	}
}

func (t *truth) checkJoinRefused(o *sequencer.Outcome) {
	if t.live[o.Agent] != 0 || !t.full() {
		t.r.fail("the join of %s is refused at %d; %d others are live, the rules allow %d", o.Agent, o.Seq, len(t.live),
			t.rules.MaxSidecars)
	}
}

func (t *truth) full() bool { return len(t.live) >= int(t.rules.MaxSidecars) }
