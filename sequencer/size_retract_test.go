package sequencer_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sequencer"
)

// TestRetractionsAreBounded: contents as large as the fold takes, pasts with many reads, and retractions of which the
// first never gets on, so that all others are queued and keep what they need: the state stays below the broker's limit
// and the horizon gives way. A queued retraction that keeps too much is given up.
func TestRetractionsAreBounded(t *testing.T) {
	h := newHostile(t)
	h.join("a")
	refused := 0
	h.seen = func(o *sequencer.Outcome) {
		if o.Kind == sequencer.OutcomeRefused && o.Code == sequencer.CodeTooOld && strings.Contains(o.Intent, ":retract:") {
			refused++
		}
	}
	first := &sequencer.Seal{Effects: []sequencer.Effect{{Class: sequencer.ClassIrreversible,
		Scopes: []sequencer.Scope{"mail:/x"}}}}
	h.step(h.of("first", sequencer.IntentSeal, first))
	h.step(h.of("first", sequencer.IntentSettle, nil))
	h.step(h.of("first", sequencer.IntentRetract, nil)) // its turn is never settled
	for i := range 3_000 {
		s := &sequencer.Seal{}
		for j := range i % 30 {
			scope := sequencer.Scope(fmt.Sprintf("shard:/%d/%d", i%200, j))
			former := &sequencer.Former{View: h.fold.Seq(), Version: 1, Content: make([]byte, 2_000)}
			s.Shards = append(s.Shards, sequencer.ShardWrite{Scope: scope, Content: make([]byte, 2_000), Former: former})
			s.Reads = append(s.Reads, sequencer.Read{Scope: scope + "/" + sequencer.Scope(strings.Repeat("r", 300)),
				View: h.fold.Seq()})
		}
		id := sequencer.TxID(fmt.Sprintf("t%d", i))
		h.step(h.of(id, sequencer.IntentSeal, s))
		if i%40 == 0 {
			h.step(h.of(id, sequencer.IntentRetract, nil))
		}
	}
	t.Logf("at most about %d bytes; %d retractions given up", h.peak, refused)
	if refused == 0 {
		t.Error("no queued retraction was given up, so this test does not come to the bound")
	}
}

// TestLargeConesAreBounded: retractions of much at once, over and over. A cone that is too large is refused.
func TestLargeConesAreBounded(t *testing.T) {
	h := newHostile(t)
	h.join("a")
	largest, limited := 0, 0
	h.seen = func(o *sequencer.Outcome) {
		largest = max(largest, len(o.Cone))
		if o.Code == sequencer.CodeLimit && strings.Contains(o.Intent, ":retract:") {
			limited++
		}
	}
	for i := range 3_000 {
		shard := func(k int) sequencer.Scope { return sequencer.Scope(fmt.Sprintf("shard:/%d", k)) }
		s := &sequencer.Seal{Reads: []sequencer.Read{{Scope: shard(i / 600), View: h.fold.Seq()}}}
		s.Shards = append(s.Shards, sequencer.ShardWrite{Scope: shard(i / 600), Content: make([]byte, 500)})
		id := sequencer.TxID(fmt.Sprintf("t%d", i))
		h.step(h.of(id, sequencer.IntentSeal, s))
		if i < 1_500 && i%200 == 199 {
			h.step(h.of(sequencer.TxID(fmt.Sprintf("t%d", i-150)), sequencer.IntentRetract, nil))
		}
		if i%600 == 599 {
			h.step(h.of(sequencer.TxID(fmt.Sprintf("t%d", i-300)), sequencer.IntentRetract, nil))
		}
	}
	t.Logf("at most about %d bytes; cones of up to %d; %d refused", h.peak, largest, limited)
	if largest < 100 || limited == 0 {
		t.Errorf("the largest cone has %d members, %d were refused", largest, limited)
	}
}

// of is an intent of the agent a about a transaction, with the next number.
func (h *hostile) of(id sequencer.TxID, kind sequencer.IntentKind, s *sequencer.Seal) *sequencer.Intent {
	in := &sequencer.Intent{Kind: kind, Tx: id, N: 1, Agent: "a", Incarnation: 1, Base: h.fold.Seq(), Seal: s}
	if kind == sequencer.IntentSettle {
		in.Settle = &sequencer.Settle{}
	}
	return in
}
