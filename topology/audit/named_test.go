package audit

import (
	"slices"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// edit changes a decision and nothing else.
func (m *made) edit(t *testing.T, i int, change func(o *sequencer.Outcome)) {
	t.Helper()
	r := &m.topics[topology.TopicDecisions][i]
	o := decode(t, *r)
	change(o)
	var err error
	if r.Value, err = topology.EncodeCloudEvent(o, appended.Add(time.Hour), ""); err != nil {
		t.Fatal(err)
	}
}

// TestOneFinding holds that one damage is one finding: neither the decisions behind it nor the seals over it are named
// as well, wherever in a seal it is.
func TestOneFinding(t *testing.T) {
	for _, at := range []int{0, 41, sealEvery - 1, sealEvery} {
		for name, c := range map[string]struct {
			do   func(o *sequencer.Outcome)
			kind string
		}{
			"chain":   {func(o *sequencer.Outcome) { o.Chain[3]++ }, KindChanged},
			"content": {func(o *sequencer.Outcome) { o.Agent = "mallory" }, KindChanged},
			"bytes":   {func(*sequencer.Outcome) {}, KindBytes},
		} {
			for _, folded := range []bool{true, false} {
				m := newLog(t, 200)
				if m.edit(t, at, c.do); !folded {
					delete(m.topics, topology.TopicIntents)
				}
				r := run(t, m, trusted(1))
				if len(r.Findings) != 1 || r.Findings[0].Kind != c.kind || r.Findings[0].Offset != int64(at) ||
					(r.NotFolded == "") != folded {
					t.Errorf("%s at %d, intents %v: %+v", name, at, folded, r.Findings)
				}
			}
		}
	}
}

// TestOneFindingOfASeal holds the same of a seal, and which decisions its finding is about.
func TestOneFindingOfASeal(t *testing.T) {
	for _, i := range []int{0, 2} {
		from := sequencer.Seq(i*sealEvery + 1)
		for name, c := range map[string]struct {
			do    func(seals []Record) []Record
			kind  string
			about Range
		}{
			"no seal": {func(s []Record) []Record {
				s[i].Value = []byte("seal")
				return s
			}, KindUnreadable, Range{from, from}},
			"another workspace's": {func(s []Record) []Record {
				seal, _ := topology.DecodeLogSeal(s[i].Value)
				seal.Workspace = "other"
				s[i].Value, _ = topology.EncodeLogSeal(seal)
				return s
			}, KindUnreadable, Range{from, from}},
			"changed": {func(s []Record) []Record {
				seal, _ := topology.DecodeLogSeal(s[i].Value)
				seal.AtMs++
				s[i].Value, _ = topology.EncodeLogSeal(seal)
				return s
			}, KindSignature, Range{from, from + sealEvery - 1}},
			"dropped": {func(s []Record) []Record { return slices.Delete(s, i, i+1) }, KindLink,
				Range{from, from + sealEvery - 1}},
		} {
			m := newLog(t, 6*sealEvery)
			m.topics[topology.TopicSeals] = c.do(m.topics[topology.TopicSeals])
			r := run(t, m, trusted(1))
			if len(r.Findings) != 1 || r.Findings[0].Kind != c.kind || r.Findings[0].Seq != c.about.From ||
				r.Findings[0].To != c.about.To || r.Vouched != r.Decisions.To || len(r.Unsealed) != 1 {
				t.Errorf("%s at %d: %+v, not sealed %v", name, i, r.Findings, r.Unsealed)
			}
		}
	}
}

// TestEarlyDecision holds that a decision that stands before the one that it follows is held to its chain hash too.
func TestEarlyDecision(t *testing.T) {
	for _, changed := range []bool{false, true} {
		m := newLog(t, 200)
		delete(m.topics, topology.TopicIntents)
		delete(m.topics, topology.TopicSeals)
		if changed {
			m.edit(t, 51, func(o *sequencer.Outcome) { o.Agent = "mallory" })
		}
		s := m.topics[topology.TopicDecisions]
		s[50], s[51] = s[51], s[50]
		m.number(topology.TopicDecisions)
		found := run(t, m, nil).Findings
		is := slices.ContainsFunc(found, func(f Finding) bool {
			return f.Kind == KindChanged && f.Seq == 52 && f.Offset == 50
		})
		if is != changed || found[0].Kind != KindOrder {
			t.Errorf("changed %v: %+v", changed, found)
		}
	}
}

// TestCounted holds how copies are counted, how many findings are listed, what claims to be far behind, and that the
// fold stops at what it does not know.
func TestCounted(t *testing.T) {
	m := newLog(t, 200)
	o := decode(t, m.topics[topology.TopicDecisions][sealEvery])
	b, err := topology.EncodeCloudEvent(o, time.Time{}, "")
	if err != nil {
		t.Fatal(err)
	}
	m.topics[topology.TopicDecisions] = slices.Insert(m.topics[topology.TopicDecisions], sealEvery+1, Record{Value: b},
		Record{Value: b})
	m.number(topology.TopicDecisions)
	if r := run(t, m, trusted(1)); r.Copies != 2 || r.Unvouched != 1 || len(r.Findings) > 0 || len(r.Unsealed) > 0 {
		t.Errorf("one copy, twice: %+v", r)
	}
	m = newLog(t, 200)
	m.edit(t, 90, func(*sequencer.Outcome) {})
	m.edit(t, 30, func(*sequencer.Outcome) {})
	for limit, want := range map[int]int{0: 2, 1: 1, 2: 2, 3: 2} {
		r, err := Run(t.Context(), m, nil, limit)
		if err != nil || len(r.Findings) != want || r.More != 2-want || r.Findings[0].Offset != 30 {
			t.Errorf("%d are listed: %+v, and %d more", limit, r.Findings, r.More)
		}
	}
	m = newLog(t, 200)
	delete(m.topics, topology.TopicIntents)
	delete(m.topics, topology.TopicSeals)
	m.topics[topology.TopicDecisions] = m.topics[topology.TopicDecisions][:2]
	m.edit(t, 0, func(o *sequencer.Outcome) { o.Seq += 3 * maxJump })
	if r := run(t, m, nil); r.Decisions.From < maxJump || r.Findings[len(r.Findings)-1].Offset != 1 {
		t.Errorf("far behind: %+v", r)
	}
	m = newLog(t, 200)
	unknown, err := topology.EncodeIntent(&sequencer.Intent{Kind: sequencer.IntentRules, Agent: "ann",
		Rules: &sequencer.Rules{Version: 2, Logic: sequencer.Logic + 1}})
	if err != nil {
		t.Fatal(err)
	}
	m.topics[topology.TopicIntents][30].Value = unknown
	if r := run(t, m, trusted(1)); len(r.Findings) > 0 || r.NotFolded == "" || r.Recomputed.To >= r.Decisions.To {
		t.Errorf("a logic that is not known: %+v", r)
	}
}
