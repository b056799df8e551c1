package console

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/words"
	"github.com/hence-dev/hence/topology"
)

// TestReport: a transaction with all that is known of it, and the sentence that hence explain says.
func TestReport(t *testing.T) {
	w := newWorld(t)
	now := time.Now().UnixMilli()
	seal := event(topology.EventSeal, "a.1.1", 3, now-500)
	seal.Seal = &sequencer.Seal{}
	answer := event(topology.EventAnswer, "a.1.1", 4, now-100)
	answer.Effect = &topology.EffectText{Step: uint8(gate.StepDropped)}
	w.source.residue = []topology.Residue{{Tx: "a.1.1", Tool: "mail.send", State: topology.ResidueOpen,
		Result: sequencer.ResultLeaked}, {Tx: "other", State: topology.ResidueOpen, Result: sequencer.ResultLeaked}}
	w.source.effects = []*topology.Event{held("a.1.1", 2, now-900)}
	w.source.add(nil, event(topology.EventRead, "a.1.1", 1, now-1000), held("a.1.1", 2, now-900), seal)
	until(w, "/api/live", func(v liveView) bool { return len(v.Transactions) == 1 && v.Transactions[0].Held == 1 })
	w.source.setClosure(&topology.Closure{Tx: "a.1.1", Limit: closureRows, Rows: []topology.ClosureRow{
		{Tx: "a.1.1", Agent: "a", Status: "aborted", Code: sequencer.CodeStaleRead, Seq: 1,
			Edges: []topology.ClosureEdge{{Scope: "shard:/x", Writer: "b.1.1", Version: 1}}},
		{Tx: "b.1.1", Agent: "b", Status: "committed", Seq: 1}}})
	w.source.add([]*sequencer.Outcome{{Kind: sequencer.OutcomeAborted, Tx: "a.1.1", Agent: "a", Final: true,
		Retryable: true, Code: sequencer.CodeStaleRead, Scope: "shard:/x",
		Moved: sequencer.Writer{Seq: 7, Tx: "b.1.1"}}}, answer)
	r := until(w, "/api/tx/a.1.1", func(r Report) bool { return len(r.Decisions) == 1 && len(r.Acts) == 4 })
	want := "a.1.1 was aborted: stale_read, something it had read was overwritten before it could commit " +
		"(shard:/x, moved at seq 7 by b.1.1). A further attempt can succeed. Its calls: 1 dropped."
	if r.Paragraph != want {
		t.Errorf("it says %q, want %q", r.Paragraph, want)
	}
	if r.Format != ReportFormat || r.Decision.State != api.StateAborted || len(r.Decisions) != 1 ||
		r.SealedMs != now-500 {
		t.Errorf("the report is %+v", r)
	}
	if len(r.Effects) != 1 || r.Effects[0].State != effectDropped || r.Effects[0].Args != "" {
		t.Errorf("its calls are %+v", r.Effects)
	}
	if len(r.Residue) != 1 || len(r.Closure.Rows) != 2 || len(r.Missing) != 0 {
		t.Errorf("residue %v, closure %v, missing %v", r.Residue, r.Closure, r.Missing)
	}
	var whole struct{ Data jsonMap }
	if err := json.Unmarshal(r.Decisions[0].Event, &whole); err != nil || whole.Data["code"] != "stale_read" {
		t.Errorf("the decision is %s: %v", r.Decisions[0].Event, err)
	}
	resp, body := w.ask("GET", "/api/tx/a.1.1/export?content=1", "", nil)
	var exported Report
	if err := json.Unmarshal([]byte(body), &exported); err != nil || exported.Effects[0].Args != `{"to":"mia"}` {
		t.Errorf("the file has calls %+v: %v", exported.Effects, err)
	}
	if got := resp.Header.Get("Content-Disposition"); got != `attachment; filename="a.1.1.hence.json"` {
		t.Errorf("the file is called %s", got)
	}
}

// TestOldTransaction: one that was over before the console began to look is found in the table and in the log.
func TestOldTransaction(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Limits.Transactions = 4 })
	w.source.setClosure(&topology.Closure{Tx: "a.1.1", Rows: []topology.ClosureRow{
		{Tx: "a.1.1", Agent: "a", Status: "committed", Seq: 2}}})
	w.source.effects = []*topology.Event{held("a.1.1", 1, 5)}
	w.source.add([]*sequencer.Outcome{{Kind: sequencer.OutcomeRules}, committed("a.1.1")})
	w.source.add(many(30))
	until(w, "/api/live", func(v liveView) bool { return v.Seq == 32 })
	r := get[Report](w, "/api/tx/a.1.1")
	const told = "a.1.1 committed at seq 2. Its calls: 1 released. " + words.NoUndo
	if r.State != stateCommitted || len(r.Decisions) != 1 || r.Paragraph != told || len(r.Effects) != 1 {
		t.Errorf("it is %+v", r)
	}
	if len(r.Missing) != 1 || !strings.Contains(r.Missing[0], "the console was not there") {
		t.Errorf("what is missing is not said: %v", r.Missing)
	}
	w.source.setClosure(nil)
	if resp, body := w.ask("GET", "/api/tx/no.such.tx", "", nil); resp.StatusCode != http.StatusNotFound {
		t.Errorf("an unknown one: %s %s", resp.Status, body)
	}
}

// TestLookups: what routes answer to good and bad questions.
func TestLookups(t *testing.T) {
	w := newWorld(t)
	w.source.add(many(12))
	w.source.add([]*sequencer.Outcome{{Kind: sequencer.OutcomeAborted, Tx: "a.9.9", Agent: "a",
		Code: sequencer.CodeVetoed}})
	until(w, "/api/live", func(v liveView) bool { return v.Seq == 13 })
	for _, c := range []struct {
		path string
		want int
		has  string
	}{
		{"/api/decisions?reason=vetoed", 200, `"tx":"a.9.9"`},
		{"/api/decisions?limit=3", 200, `"more":true`},
		{"/api/decisions?kind=nothing", 400, "kind"},
		{"/api/decisions?agent=nobody;kind=begun", 400, "write ; as %3B"},
		{"/api/tx/a.9.9?content=%", 400, "% as %25"},
		{"/api/decisions?limit=x", 400, "whole number"},
		{"/api/decisions/13", 200, `"vetoed"`},
		{"/api/decisions/99", 404, "hence tail --all --after 98"},
		{"/api/decisions/x", 400, "seq"},
		{"/api/search?q=a.9", 200, `"kind":"transaction","id":"a.9.9"`},
		{"/api/search?q=13", 200, `"kind":"decision"`},
		{"/api/search?q=VETO", 200, `"kind":"reason"`},
		{"/api/search?q=shard:/", 200, `"kind":"scope"`},
		{"/api/search?q=", 200, `[]`},
		{"/api/search?q=" + strings.Repeat("x", 300), 400, "bytes"},
		{"/api/scopes?prefix=shard:/", 200, `"scope":"shard:/x"`},
		{"/api/tx/a.9.9/cone", 409, "past the horizon"},
		{"/api/residue", 200, "start the console with --sidecar"},
		{"/api/about", 200, `"nats":"away"`},
		{"/readyz", 200, `"ready"`},
		{"/session", 200, `"open":true`},
	} {
		resp, body := w.ask("GET", c.path, "", nil)
		if resp.StatusCode != c.want || !strings.Contains(body, c.has) {
			t.Errorf("%s: %s %s; want %d with %s", c.path, resp.Status, body, c.want, c.has)
		}
	}
}
