package console

import (
	"fmt"
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// refusedBy is an aborted transaction, with what moved its ground.
func refusedBy(tx, agent string, scope sequencer.Scope, by sequencer.TxID) *sequencer.Outcome {
	return &sequencer.Outcome{Kind: sequencer.OutcomeAborted, Tx: sequencer.TxID(tx), Agent: agent, Incarnation: 1,
		Final: true, Code: sequencer.CodeStaleRead, Scope: scope, Moved: sequencer.Writer{Seq: 1, Tx: by}}
}

// TestFoughtOver: scopes come by their refusals, with who was refused by whom; what names no scope is counted, what an
// agent gave up is not.
func TestFoughtOver(t *testing.T) {
	w := newWorld(t)
	until(w, "/api/live", func(v liveView) bool { return len(v.Troubles) == 0 })
	given := refusedBy("a.1.9", "a", "shard:/y", "")
	given.Code = sequencer.CodeAbortedByAgent
	observed := refusedBy("b.1.2", "b", "shard:/x", "a.1.1")
	observed.Kind, observed.Code, observed.Would = sequencer.OutcomeCommitted, "", sequencer.CodeStaleRead
	waits := &sequencer.Outcome{Kind: sequencer.OutcomeWaiting, Tx: "c.1.1", Agent: "c", Incarnation: 1,
		BlockedBy: []sequencer.Blocker{{Tx: "a.1.1", Scope: "shard:/y"}, {Tx: "b.1.1", Scope: "shard:/y"}}}
	probe := &sequencer.Outcome{Kind: sequencer.OutcomeKind(99), Agent: "d"} // of a later version, about no work
	lease := &sequencer.Outcome{Kind: sequencer.OutcomeRefused, Tx: "a.1.0", Agent: "a", Incarnation: 1,
		Code: sequencer.CodeTooOld, Intent: "a.1.0:adopt:7"} // confirmed, as logic 2 says it: first, so that it is counted
	w.source.add([]*sequencer.Outcome{lease, {Kind: sequencer.OutcomeRules}, committed("a.1.1"),
		refusedBy("b.1.1", "b", "shard:/x", "a.1.1"), observed, refusedBy("a.1.3", "a", "", ""), given, waits, probe})
	v := until(w, "/api/window?seconds=5", func(v windowView) bool { return v.Refusals == 3 })
	if v.Nameless != 1 || v.More != 0 || len(v.Contended) != 2 || v.Seconds < 1 || v.ListedMs != int64(v.Seconds)*1000 {
		t.Fatalf("the window is %+v", v)
	}
	x, y := v.Contended[0], v.Contended[1]
	if x.Scope != "shard:/x" || x.Refused != 1 || x.Would != 1 || x.Agents != 1 ||
		x.Codes[sequencer.CodeStaleRead] != 2 ||
		len(x.Last) != 2 || x.Last[0].Tx != "b.1.2" || x.Last[1].By != "a.1.1" {
		t.Errorf("most is fought over %+v", x)
	}
	if y.Scope != "shard:/y" || y.Waits != 1 || y.Refused != 0 {
		t.Errorf("one waits once at %+v", y)
	}
	for _, agent := range get[liveView](w, "/api/live").Agents {
		if agent.Agent == "d" && (agent.LastMs != 0 || agent.Refused+agent.Aborts != 0) {
			t.Errorf("the lease of %s counts as something that it did: %+v", agent.Agent, agent)
		}
	}
	for _, path := range []string{"/api/window?seconds=0", "/api/lanes?seconds=many", "/api/window?seconds=301"} {
		if resp, body := w.ask("GET", path, "", nil); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s %s", path, resp.Status, body)
		}
	}
}

// TestListIsCut: what the ring has forgotten is not said to be listed.
func TestListIsCut(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Limits.Decisions = 4 })
	until(w, "/api/live", func(v liveView) bool { return len(v.Troubles) == 0 })
	w.source.add([]*sequencer.Outcome{{Kind: sequencer.OutcomeRules}})
	until(w, "/api/window", func(v windowView) bool { return v.Seconds >= 2 })
	for i := range 6 {
		w.source.add([]*sequencer.Outcome{refusedBy(fmt.Sprintf("a.1.%d", i), "a", "shard:/x", "")})
	}
	v := until(w, "/api/window", func(v windowView) bool { return v.Refusals == 4 })
	if v.ListedMs >= int64(v.Seconds)*1000 {
		t.Errorf("four of six are remembered, and all %d ms are said to be listed", v.ListedMs)
	}
}

// TestQuantiles: a quantile over several seconds is right to 5 %.
func TestQuantiles(t *testing.T) {
	var s series
	start := time.Unix(1_800_000_000, 0)
	for sec := range 3 {
		s.at(start.Add(time.Duration(sec) * time.Second))
		for ms := range 1000 {
			s.latency(float64(1 + ms*(sec+1)))
		}
	}
	s.at(start.Add(3 * time.Second))
	for seconds, want := range map[int][2]float64{1: {1500, 2970}, 2: {1200, 2940}, 300: {835, 2910}} {
		took := s.over(seconds)
		if math.Abs(took.P50Ms/want[0]-1) > 0.06 || math.Abs(took.P99Ms/want[1]-1) > 0.06 ||
			took.Samples != 1000*min(seconds, 3) {
			t.Errorf("over %d seconds the quantiles are %.0f and %.0f of %d, want %.0f", seconds, took.P50Ms, took.P99Ms,
				took.Samples, want)
		}
	}
	if empty := new(latencies).quantile(50); empty != 0 {
		t.Errorf("nothing took %v ms", empty)
	}
}

// TestLanes: each agent has a lane, each transaction a bar with what refused it; what is not drawn is counted.
func TestLanes(t *testing.T) {
	w := newWorld(t)
	until(w, "/api/live", func(v liveView) bool { return len(v.Troubles) == 0 })
	now := time.Now().UnixMilli()
	seal := event(topology.EventSeal, "a.1.1", 3, now-500)
	seal.Seal = &sequencer.Seal{}
	w.source.add([]*sequencer.Outcome{{Kind: sequencer.OutcomeRules}}, event(topology.EventRead, "a.1.1", 1, now-2000),
		held("a.1.1", 2, now-1500), seal, event(topology.EventRead, "a.1.2", 1, now-60_000))
	until(w, "/api/lanes", func(v lanesView) bool { return len(v.Lanes) == 1 && len(v.Lanes[0].Bars) == 2 })
	w.source.add([]*sequencer.Outcome{refusedBy("a.1.1", "a", "shard:/x", "b.1.1"), committed("a.1.2")})
	v := until(w, "/api/lanes", func(v lanesView) bool { return len(v.Lanes) == 1 && v.Lanes[0].Bars[0].EndMs > 0 })
	b := v.Lanes[0].Bars[1]
	if b.Tx != "a.1.1" || b.BeganMs != now-2000 || b.SealedMs != now-500 || b.DecidedMs < now ||
		b.State != stateAborted || b.By != "b.1.1" || b.Scope != "shard:/x" || b.Calls != 1 ||
		len(b.Marks) != 2 || b.Marks[1].Tool != "mail.send" {
		t.Errorf("the bar is %+v", b)
	}
	events := []*topology.Event{}
	for i := range maxLanes + 3 {
		for n := range maxBars + 2 {
			ev := event(topology.EventRead, fmt.Sprintf("c%d.1.%d", i, n), 1, now-100)
			ev.Agent = fmt.Sprintf("c%d", i)
			events = append(events, ev)
		}
	}
	for i := range maxMarks + 5 {
		ev := event(topology.EventRead, "z.1.1", uint64(i+1), now-50)
		ev.Agent = "z"
		events = append(events, ev)
	}
	w.source.add(nil, events...)
	until(w, "/api/lanes", func(v lanesView) bool {
		return v.LeftOut == leftOut{Lanes: 5, Bars: 4*(maxBars+2) + 2 + 23*2, Marks: 5} && len(v.Lanes) == maxLanes
	})
}
