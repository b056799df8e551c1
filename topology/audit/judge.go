package audit

import (
	"fmt"
	"slices"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// unsettled is how many records behind a cut of retention are not judged by their order and their gaps: a group that
// lagged may have left copies of decisions there whose first copies are deleted.
const unsettled = 1024

// judge looks at what was read as a whole.
func (a *auditor) judge() {
	highest := a.lowest + sequencer.Seq(len(a.first))
	if highest > 0 {
		highest-- // zero: there is none
	}
	if len(a.first) > 0 {
		a.report.Decisions = Range{a.lowest, highest}
	}
	settled := a.settled(highest)
	named := map[sequencer.Seq]bool{} // decisions with a finding about their record
	say := func(f Finding) {
		f.Topic = topology.TopicDecisions
		named[f.Seq] = true
		a.find(f)
	}
	if len(a.first) > 0 && a.lowest > 1 && a.src.Place(topology.TopicDecisions).Start == 0 {
		say(Finding{Kind: KindMissing, Offset: -1, Seq: 1, To: a.lowest - 1,
			Text: fmt.Sprintf("decisions 1 to %d are not there, and the topic is whole", a.lowest-1)})
	}
	var before *candidate // the last one that is there
	var gap *Finding
	astray := false // the fold differs, since an earlier decision
	for seq := a.lowest; seq <= highest && len(a.first) > 0; seq++ {
		if a.at(seq) == nil {
			if gap == nil && seq >= settled {
				say(Finding{Kind: KindMissing, Offset: -1, Seq: seq, To: seq})
				gap = &a.found[len(a.found)-1]
			}
			if gap != nil {
				gap.To, gap.Text = seq, missing(gap.Seq, seq, before)
			}
			continue
		}
		gap = nil
		right := a.right(seq, say)
		if before != nil && seq > settled && right.offset < before.offset && a.at(seq-1) != nil {
			say(Finding{Kind: KindOrder, Offset: before.offset, Seq: seq - 1, Text: fmt.Sprintf(
				"decision %d stands behind decision %d, which is at offset %d", seq-1, seq, right.offset)})
		}
		faulty := right.made != (sequencer.Hash{}) && right.made != right.chain && !right.folded
		if faulty {
			say(Finding{Kind: KindChanged, Offset: right.offset, Seq: seq, Text: fmt.Sprintf(
				"decision %d is not the one that its chain hash is of", seq)})
		}
		compared := seq >= a.report.Recomputed.From && seq <= a.report.Recomputed.To && a.report.Recomputed.From > 0
		if compared && !right.folded && !astray && !named[seq] {
			a.stray(seq, right, say)
		}
		// Behind one record that was changed alone the fold's decisions are there again.
		astray = compared && !right.folded && (astray || !faulty)
		before = right
	}
	a.judgeSeals(named, settled, highest, say)
}

// settled is the decision from which on order and gaps are judged.
func (a *auditor) settled(highest sequencer.Seq) sequencer.Seq {
	start := a.src.Place(topology.TopicDecisions).Start
	if start == 0 {
		return a.lowest
	}
	offsets := make([]int64, 0, len(a.first))
	for i := range a.first {
		if a.first[i].there {
			offsets = append(offsets, a.first[i].offset)
		}
	}
	slices.Sort(offsets)
	if len(offsets) <= unsettled {
		return a.lowest
	}
	settled := a.lowest
	for seq := a.lowest; seq <= highest; seq++ {
		if c := a.at(seq); c != nil && c.offset <= offsets[unsettled] {
			settled = seq
		}
	}
	return settled
}

func missing(from, to sequencer.Seq, before *candidate) string {
	where := "before the first record"
	if before != nil {
		where = fmt.Sprintf("behind offset %d", before.offset)
	}
	if from == to {
		return fmt.Sprintf("decision %d is not there, %s", from, where)
	}
	return fmt.Sprintf("decisions %d to %d are not there, %s", from, to, where)
}

// right is which of the copies of a decision is the one that belongs there; others that are not equal are said.
func (a *auditor) right(seq sequencer.Seq, say func(Finding)) *candidate {
	first, others := a.at(seq), a.seen[seq]
	if len(others) == 0 {
		return first
	}
	all := []*candidate{first}
	for i := range others {
		all = append(all, &others[i])
	}
	right, why := first, "the first one"
	next := a.at(seq + 1)
	for _, by := range []struct {
		why string
		is  func(c *candidate) bool
	}{
		{"what the intents lead to", func(c *candidate) bool { return c.folded }},
		{"what a seal has", func(c *candidate) bool { return a.vouches(seq, c.digest) }},
		{"what the next decision follows", func(c *candidate) bool { return next != nil && next.behind == c.chain }},
		{"what follows the one before it", func(c *candidate) bool { return c.made == c.chain }},
	} {
		if i := slices.IndexFunc(all, by.is); i >= 0 {
			right, why = all[i], by.why
			break
		}
	}
	for _, c := range all {
		switch {
		case c == right:
		case c.body != right.body:
			say(Finding{Kind: KindSecond, Offset: c.offset, Seq: seq, Text: fmt.Sprintf(
				"another decision %d than the one at offset %d, which is %s", seq, right.offset, why)})
		case !a.vouches(seq, c.digest):
			a.report.Unvouched++
			if a.report.Unvouched == 1 {
				a.note("the copy of decision %d at offset %d has bytes that no seal has; the decision in it is equal", seq,
					c.offset)
			}
		}
	}
	return right
}

// stray says that a decision is not what the fold makes, though its chain holds: it or an intent was changed.
func (a *auditor) stray(seq sequencer.Seq, c *candidate, say func(Finding)) {
	if a.trust != nil && a.vouches(seq, c.digest) {
		a.find(Finding{Kind: KindChanged, Topic: topology.TopicIntents, Offset: c.input, Seq: seq, Text: fmt.Sprintf(
			"the intents up to here do not lead to decision %d at offset %d, which is sealed: one of them was changed, "+
				"dropped or added", seq, c.offset)})
		return
	}
	say(Finding{Kind: KindChanged, Offset: c.offset, Seq: seq, Text: fmt.Sprintf(
		"decision %d is not what the intents up to offset %d lead to: it was changed, and those behind it, or an intent was",
		seq, c.input)})
}

// judgeSeals holds the decisions against the digests and the chain hashes that were sealed.
func (a *auditor) judgeSeals(named map[sequencer.Seq]bool, settled, highest sequencer.Seq, say func(Finding)) {
	covered := make([]bool, len(a.first))
	for _, s := range a.seals {
		spoilt := false
		for i, digest := range s.Digests {
			seq := s.From + sequencer.Seq(i)
			switch c := a.at(seq); {
			case seq < a.lowest, c == nil && seq < settled: // deleted by retention, or said
			case seq > highest || len(a.first) == 0:
				if !named[seq] {
					say(Finding{Kind: KindMissing, Offset: -1, Seq: seq, To: s.To, Text: fmt.Sprintf(
						"decisions %d to %d are not there, and group %s has sealed them", seq, s.To, s.Replica)})
				}
				for rest := seq; rest <= s.To; rest++ {
					named[rest] = true
				}
				spoilt = true
			case c == nil:
				spoilt = true
			case c.digest == digest || slices.ContainsFunc(a.seen[seq], func(o candidate) bool { return o.digest == digest }):
				covered[seq-a.lowest] = true
			default:
				spoilt = true
				if !named[seq] && seq >= settled {
					say(Finding{Kind: KindBytes, Offset: c.offset, Seq: seq, Text: fmt.Sprintf(
						"the record of decision %d is not the one that group %s has published and sealed", seq, s.Replica)})
				}
			}
		}
		c := a.at(s.To)
		if c == nil {
			continue
		}
		holds := c.chain == s.Chain ||
			slices.ContainsFunc(a.seen[s.To], func(o candidate) bool { return o.chain == s.Chain })
		switch {
		case holds && a.trust != nil:
			a.report.Vouched = max(a.report.Vouched, s.To)
		case !holds && !spoilt && !named[s.To]:
			say(Finding{Kind: KindChanged, Offset: c.offset, Seq: s.To, Text: fmt.Sprintf(
				"decision %d has not the chain hash that group %s has sealed: it or one before it was changed", s.To, s.Replica)})
		}
	}
	for i, ok := range covered {
		if seq := a.lowest + sequencer.Seq(i); !ok && a.first[i].there {
			if n := len(a.report.Unsealed); n > 0 && a.report.Unsealed[n-1].To == seq-1 {
				a.report.Unsealed[n-1].To = seq
			} else if n < maxNotes {
				a.report.Unsealed = append(a.report.Unsealed, Range{seq, seq})
			}
		}
	}
	if r := a.report.Recomputed; r.To > highest {
		a.note("the intents lead to decisions %d to %d, which are not there: on their way, or removed",
			max(highest+1, r.From), r.To)
	}
	if a.trust != nil && a.report.Vouched == 0 && (len(a.first) > 0 || a.report.Recomputed.To > 0) {
		a.find(Finding{Kind: KindUnsealed, Topic: topology.TopicSeals, Offset: -1, Seq: a.lowest, To: highest,
			Text: "no seal of a trusted key covers any decision: the group has no --sign-key, or the seals were removed"})
	}
}
