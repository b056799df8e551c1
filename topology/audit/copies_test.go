package audit

import (
	"slices"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// TestCopiesThatDiffer holds what says which of two decisions under one seq belongs there, the strongest first: the
// intents, a seal, the next decision, the one before. The forged copy stands first each time, and is the one named.
func TestCopiesThatDiffer(t *testing.T) {
	const middle, last = 50, 99
	for name, c := range map[string]struct {
		at    int // of the decision, from 0
		keep  []string
		trust Keys
		do    func(m *made)
	}{
		"the intents": {last, []string{topology.TopicIntents}, nil, nil},
		"the intents before a seal": {last, []string{topology.TopicIntents}, trusted(1), func(m *made) {
			right := m.topics[topology.TopicDecisions]
			m.topics[topology.TopicDecisions] = slices.Delete(slices.Clone(right), last+1, last+2)
			m.seal(t, "a", key(1), 1, sealEvery) // the forger has the key
			m.topics[topology.TopicDecisions] = right
		}},
		"a seal": {last, []string{topology.TopicSeals}, trusted(1), nil},
		"a seal before the next decision": {middle, []string{topology.TopicSeals}, trusted(1), func(m *made) {
			forged := decode(t, m.topics[topology.TopicDecisions][middle])
			m.topics[topology.TopicDecisions][middle+2], _ = forge(t, m, middle+2, forged.Chain)
			m.number(topology.TopicDecisions)
		}},
		"the next decision": {middle, nil, nil, nil},
		"the one before": {last, nil, nil, func(m *made) {
			o := decode(t, m.topics[topology.TopicDecisions][last])
			o.Chain[0]++
			m.topics[topology.TopicDecisions][last].Value, _ = topology.EncodeCloudEvent(o, appended, "")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newLog(t, 100)
			before := decode(t, m.topics[topology.TopicDecisions][c.at-1]).Chain
			r, _ := forge(t, m, c.at, before)
			m.topics[topology.TopicDecisions] = slices.Insert(m.topics[topology.TopicDecisions], c.at, r)
			m.number(topology.TopicDecisions)
			for _, topic := range []string{topology.TopicIntents, topology.TopicSeals} {
				if !slices.Contains(c.keep, topic) {
					delete(m.topics, topic)
				}
			}
			if c.do != nil {
				c.do(m)
			}
			got := run(t, m, c.trust).Findings
			if len(got) == 0 || got[0].Kind != KindSecond || got[0].Offset != int64(c.at) {
				t.Errorf("want the copy at offset %d: %+v", c.at, got)
			}
		})
	}
}

// TestBehindACut holds that behind a cut of retention the first 1,024 records are not held to their order and gaps,
// since a group that lagged may have left copies there, and that those behind them are; and all of fewer.
func TestBehindACut(t *testing.T) {
	whole := newLog(t, 1100)
	const cut = 20
	drop := func(i int) func(s []Record) []Record {
		return func(s []Record) []Record { return slices.Delete(s, i, i+1) }
	}
	swap := func(i int) func(s []Record) []Record {
		return func(s []Record) []Record {
			s[i].Value, s[i+1].Value = s[i+1].Value, s[i].Value
			return s
		}
	}
	for name, c := range map[string]struct {
		do   func(s []Record) []Record
		kind string
		seq  sequencer.Seq
	}{
		"a gap in them":     {drop(unsettled - 1), "", 0},
		"a gap behind them": {drop(unsettled + 1), KindMissing, cut + unsettled + 2},
		"an order in them":  {swap(unsettled - 2), "", 0},
		"one behind them":   {swap(unsettled + 1), KindOrder, cut + unsettled + 2},
		"a lagging group's": {func(s []Record) []Record {
			for i := range 5 {
				s[2*i+1].Value = whole.topics[topology.TopicDecisions][3+i].Value
			}
			return s
		}, "", 0},
		"a gap in fewer": {func(s []Record) []Record { return slices.Delete(s[:unsettled+1], 7, 8) }, KindMissing, cut + 8},
	} {
		m := whole.clone()
		delete(m.topics, topology.TopicIntents)
		delete(m.topics, topology.TopicSeals)
		m.topics[topology.TopicDecisions] = c.do(m.topics[topology.TopicDecisions][cut:])
		m.starts[topology.TopicDecisions] = cut
		got := run(t, m, nil).Findings
		if c.kind == "" && len(got) == 0 {
			continue
		}
		if len(got) == 0 || got[0].Kind != c.kind || got[0].Seq != c.seq {
			t.Errorf("%s: want %q at decision %d: %+v", name, c.kind, c.seq, got)
		}
	}
}
