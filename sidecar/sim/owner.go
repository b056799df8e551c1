package sim

import "github.com/hence-dev/hence/sequencer"

// owner is who settles a transaction since when.
type owner struct {
	since       sequencer.Seq
	incarnation sequencer.Seq // zero: an orphan
}

// ownerAt is who settles the transaction as a view at seq sees it.
func (i *txInfo) ownerAt(view sequencer.Seq) sequencer.Seq {
	for n := len(i.owners) - 1; n >= 0; n-- {
		if i.owners[n].since <= view {
			return i.owners[n].incarnation
		}
	}
	return 0
}

func (i *txInfo) owner() sequencer.Seq { return i.owners[len(i.owners)-1].incarnation }

// adoptions is how often a view at seq shows it adopted.
func (i *txInfo) adoptions(view sequencer.Seq) int {
	n := 0
	for _, o := range i.outs {
		if o.Kind == sequencer.OutcomeAdopted && o.Seq <= view {
			n++
		}
	}
	return n
}

// onOwner follows who settles what.
func (t *truth) onOwner(info *txInfo, o *sequencer.Outcome) {
	if o.Kind == sequencer.OutcomeAdopted {
		if info.owner() != 0 || info.decision == 0 || info.over() {
			t.r.fail("%s is adopted at %d and is no orphan", info.id, o.Seq)
		}
		info.owners = append(info.owners, owner{o.Seq, o.Incarnation})
		t.r.probe(ProbeOrphanAdopted)
		return
	}
	switch joining := t.log[len(t.log)-1].Kind == sequencer.IntentJoin; {
	case o.Kind == sequencer.OutcomeJoined:
		t.checkJoined(o)
		t.live[o.Agent] = o.Incarnation
	case !joining: // otherwise the agent goes on with a new incarnation
		delete(t.live, o.Agent)
	}
	for _, x := range t.list {
		switch {
		case x.over():
		case o.Kind == sequencer.OutcomeLeaseEnded && x.owner() == o.Incarnation:
			x.owners = append(x.owners, owner{o.Seq, 0})
		case o.Kind == sequencer.OutcomeJoined && x.decision != 0 && x.agent == o.Agent && x.owner() == 0:
			x.owners = append(x.owners, owner{o.Seq, o.Incarnation})
			t.r.probe(ProbeOrphanJoined)
		}
	}
}
