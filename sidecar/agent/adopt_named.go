package agent

import (
	"hash/fnv"
	"slices"
	"time"

	"github.com/hence-dev/hence/sequencer"
)

// maxNamed bounds the retractions of which a sidecar remembers what they wait for, and those that it has asked for.
const maxNamed = 256

// whyOrphan is what a decision says of a blocker that has no owner.
const whyOrphan = "orphan"

// awaited are the orphans that a retraction waits for, as the log has named them last.
type awaited struct {
	txs []sequencer.TxID
	any bool      // which ones is not known here: it was said before this session
	due time.Time // when this sidecar adopts them, unless another one has
}

// observeNamed notes the orphans that a retraction waits for, and forgets those that wait no more. s.mu is held.
//
// Each sidecar sees the same decision, and the first adoption in the log counts. So that they do not all append one,
// the owner of the member that waits is the first; where that has no owner, the sidecar that asked for the retraction.
// The others come much later and one after the other, in case that the first one is gone, or does not know the tools.
func (s *Agent) observeNamed(o *sequencer.Outcome) {
	p := &s.orphans
	if o.Kind == sequencer.OutcomeAdopted || o.Final {
		for of, n := range p.named {
			n.txs = slices.DeleteFunc(n.txs, func(tx sequencer.TxID) bool { return tx == o.Tx })
			if p.named[of] = n; len(n.txs) == 0 && !n.any {
				delete(p.named, of)
			}
		}
	}
	var wanted []sequencer.TxID
	switch {
	case o.Retraction == "":
		return
	case o.Kind == sequencer.OutcomeRetracting:
		for _, b := range o.BlockedBy {
			if b.Why == whyOrphan {
				wanted = append(wanted, b.Tx)
			}
		}
	case o.Kind == sequencer.OutcomeTurn && o.Incarnation == 0:
		wanted = append(wanted, o.Tx) // its turn has come, and nobody owes it
	case o.Kind == sequencer.OutcomeTurn:
	case o.Kind == sequencer.OutcomeSettled && o.Tx == o.Retraction: // the last one of its cone
		delete(p.asking, o.Retraction)
	default:
		return
	}
	if delete(p.named, o.Retraction); len(wanted) > 0 {
		first := o.Incarnation == s.incarnation || o.Incarnation == 0 && p.asking[o.Retraction]
		in := adoptIn(s.limits.AdoptAfter, s.agent, o.Retraction, first)
		s.wantNamed(o.Retraction, awaited{txs: wanted, due: s.clock.Now().Add(in)})
	}
}

// wantNamed keeps what a retraction waits for; s.mu is held.
func (s *Agent) wantNamed(of sequencer.TxID, n awaited) {
	p := &s.orphans
	if p.named == nil || len(p.named) >= maxNamed {
		p.named = map[sequencer.TxID]awaited{} // those that still wait are found by their owner's next session
	}
	p.named[of] = n
}

// askedToRetract notes that this sidecar has asked for a retraction; s.mu is held.
func (s *Agent) askedToRetract(of sequencer.TxID) {
	p := &s.orphans
	if p.asking == nil || len(p.asking) >= maxNamed {
		p.asking = map[sequencer.TxID]bool{}
	}
	p.asking[of] = true
}

// adoptIn is how long a sidecar leaves an orphan that a retraction waits for to its agent's next session, and to those
// that come before this one. Agents differ in it, so that one of the others has adopted it before the next looks.
func adoptIn(after time.Duration, agent string, of sequencer.TxID, first bool) time.Duration {
	if first {
		return after
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(agent + "|" + string(of))) // never fails
	return 4*after + time.Duration(h.Sum32()%64)*after/4
}

// namedNow are the orphans that this sidecar adopts now because a retraction waits for them; any: all that it can.
// s.mu is held.
func (p *orphans) namedNow(now time.Time) (txs map[sequencer.TxID]bool, any bool) {
	txs = map[sequencer.TxID]bool{}
	for _, n := range p.named {
		if now.Before(n.due) {
			continue
		}
		any = any || n.any
		for _, tx := range n.txs {
			txs[tx] = true
		}
	}
	return txs, any
}

// waitsForTurn notes that a transaction of ours is in a retraction whose turn has not come. What it waits for was said
// before this session, so if it still waits after a while everything that has no owner is adopted. s.mu is held.
func (s *Agent) waitsForTurn(of sequencer.TxID) {
	if _, known := s.orphans.named[of]; !known {
		s.wantNamed(of, awaited{any: true, due: s.clock.Now().Add(4 * s.limits.AdoptAfter)})
	}
}
