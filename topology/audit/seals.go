package audit

import (
	"fmt"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// group is the chain of seals of one group of processors.
type group struct {
	last   sequencer.Hash          // hash of the last seal
	to     sequencer.Seq           // that it covers
	seen   map[sequencer.Hash]bool // of all of them
	spoilt bool                    // the last one does not hold: the next one names what it was
}

// sealed is a seal that counts.
type sealed struct {
	*topology.LogSeal
	offset int64
}

// takeSeal holds one seal to its signature and to the chain of its group.
func (a *auditor) takeSeal(r Record) error {
	a.report.Seals++
	s, err := topology.DecodeLogSeal(r.Value)
	if err != nil || s.Workspace != a.report.Workspace {
		if err == nil {
			err = fmt.Errorf("it speaks of workspace %q", s.Workspace)
		}
		from := a.sealedTo() + 1
		a.spoil("")
		a.find(Finding{Kind: KindUnreadable, Topic: topology.TopicSeals, Offset: r.Offset, Seq: from,
			Text: fmt.Sprintf("the record is no seal: %v", err)})
		return nil
	}
	if a.report.Log != "" && s.Log != a.report.Log {
		if !a.foreign { // said once: who can write the topic could else leave no room for other notes
			a.note("the seal at offset %d, and perhaps others, is of another log (%s): the topics were made again", r.Offset,
				s.Log)
		}
		a.foreign = true
		return nil
	}
	g := a.group(s.Replica)
	hash := topology.HashLogSeal(r.Value)
	if g.seen[hash] {
		return nil // an equal copy
	}
	holds := a.signed(r, s)
	a.linked(g, r, s)
	g.seen[hash], g.last, g.to, g.spoilt = true, hash, s.To, !holds
	if holds {
		a.seals = append(a.seals, &sealed{s, r.Offset})
	}
	return nil
}

func (a *auditor) group(replica string) *group {
	if a.groups == nil {
		a.groups = map[string]*group{}
	}
	g := a.groups[replica]
	if g == nil {
		g = &group{seen: map[sequencer.Hash]bool{}}
		a.groups[replica] = g
	}
	return g
}

// sealedTo is up to where the seals go that were read until now.
func (a *auditor) sealedTo() (to sequencer.Seq) {
	for _, g := range a.groups {
		to = max(to, g.to)
	}
	return to
}

// spoil says that a record of unknown meaning may have been a seal that the next one names.
func (a *auditor) spoil(string) {
	for _, g := range a.groups {
		g.spoilt = true
	}
	if len(a.groups) == 0 {
		a.group(topology.ReplicaA).spoilt, a.group(topology.ReplicaB).spoilt = true, true
	}
}

// signed reports whether a seal is one that counts.
func (a *auditor) signed(r Record, s *topology.LogSeal) bool {
	if a.trust == nil {
		return true
	}
	public, trusted := a.trust[s.Key]
	a.used(s, trusted)
	text := ""
	switch {
	case !trusted:
		text = fmt.Sprintf("is signed with the key %x…, which is not trusted here", s.Key[:6])
	case !topology.SignedLogSeal(public, r.Value, r.Signature):
		text = fmt.Sprintf("does not have the signature of the key %x… that it names", s.Key[:6])
	default:
		return true
	}
	a.find(Finding{Kind: KindSignature, Topic: topology.TopicSeals, Offset: r.Offset, Seq: s.From, To: s.To,
		Text: fmt.Sprintf("the seal of group %s over decisions %d to %d %s: any of these may have been changed with it",
			s.Replica, s.From, s.To, text)})
	return false
}

func (a *auditor) used(s *topology.LogSeal, trusted bool) {
	name := fmt.Sprintf("%x", s.Key)
	for i := range a.report.Keys {
		if u := &a.report.Keys[i]; u.Key == name {
			u.Seals, u.Through = u.Seals+1, max(u.Through, s.To)
			return
		}
	}
	if len(a.report.Keys) < maxNotes {
		a.report.Keys = append(a.report.Keys, Used{Key: name, Trusted: trusted, Seals: 1, Through: s.To})
	}
}

// linked holds a seal to the one before it.
func (a *auditor) linked(g *group, r Record, s *topology.LogSeal) {
	none := sequencer.Hash{}
	switch {
	case s.Former == none && g.last == none:
		return
	case s.Former == none:
		a.note("the seals of group %s start over at decision %d, behind %d: another key, or an owner that did not find the "+
			"last one", s.Replica, s.From, g.to)
	case g.last == none && a.src.Place(topology.TopicSeals).Start > 0:
		a.note("the seals of group %s before decision %d are deleted by retention", s.Replica, s.From)
	case s.Former == g.last && s.From > g.to:
		if s.From > g.to+1 {
			a.note("group %s has not sealed the bytes of decisions %d to %d: their owner went before it had, or had no key",
				s.Replica, g.to+1, s.From-1)
		}
	case g.seen[s.Former]:
		a.note("group %s has two seals behind the same one, at decision %d: two processes had the partition for a while",
			s.Replica, s.From)
	case g.spoilt: // it is named already
	default:
		a.find(Finding{Kind: KindLink, Topic: topology.TopicSeals, Offset: r.Offset, Seq: min(g.to+1, s.From),
			To: max(s.From-1, min(g.to+1, s.From)),
			Text: fmt.Sprintf("the seal of group %s over decisions %d to %d names one before it that is not there: one was "+
				"removed, changed or moved", s.Replica, s.From, s.To)})
	}
}

// vouches reports whether a seal that counts has a digest of a decision.
func (a *auditor) vouches(seq sequencer.Seq, digest sequencer.Hash) bool {
	for _, s := range a.seals {
		if seq >= s.From && seq <= s.To && s.Digests[seq-s.From] == digest {
			return true
		}
	}
	return false
}
