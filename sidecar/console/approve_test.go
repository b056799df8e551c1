package console

import (
	"crypto/sha256"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/topology"
)

// TestReportOfApprovals: a call that waits for an approval is shown as unapproved, with the arguments that were
// sealed and no others; once approved, with its approver.
func TestReportOfApprovals(t *testing.T) {
	w := newWorld(t)
	now := time.Now().UnixMilli()
	call := held("a.1.1", 2, now-900)
	w.source.effects = []*topology.Event{call}
	waits := func(args sequencer.Hash) *sequencer.Outcome {
		return &sequencer.Outcome{Kind: sequencer.OutcomeWaiting, Tx: "a.1.1", Agent: "a",
			BlockedBy: []sequencer.Blocker{{Tx: "a.1.1", Why: "approval"}},
			Approvals: []sequencer.Approval{{Index: call.Effect.Index, Args: args}}}
	}
	sealed := sha256.Sum256(call.Effect.Args)
	w.source.add([]*sequencer.Outcome{waits(sealed)}, call)
	r := until(w, "/api/tx/a.1.1", func(r Report) bool { return len(r.Effects) == 1 && len(r.Decisions) == 1 })
	e := r.Effects[0]
	if e.State != api.EffectUnapproved || e.Args != string(call.Effect.Args) || len(e.ArgsSHA) != 64 || e.Detail != "" {
		t.Errorf("it is shown as %+v", e)
	}
	if !strings.Contains(r.Paragraph, "It waits until its call 0 is approved.") {
		t.Errorf("it is told by %q", r.Paragraph)
	}
	w.source.add([]*sequencer.Outcome{waits(sequencer.Hash{1})})
	r = until(w, "/api/tx/a.1.1", func(r Report) bool { return len(r.Decisions) == 2 })
	if e := r.Effects[0]; e.Args != "" || !strings.Contains(e.Detail, "deny it") {
		t.Errorf("with other arguments than those that were sealed it is shown as %+v", e)
	}
	done := committed("a.1.1")
	done.Approvals = []sequencer.Approval{{Index: 0, Yes: true, By: "ann", Args: sealed}}
	w.source.add([]*sequencer.Outcome{done})
	r = until(w, "/api/tx/a.1.1", func(r Report) bool { return len(r.Decisions) == 3 })
	if e := r.Effects[0]; e.State == api.EffectUnapproved || e.Args != "" ||
		!strings.Contains(r.Paragraph, "Call 0 was approved by ann.") {
		t.Errorf("approved, it is %+v, and told by %q", e, r.Paragraph)
	}
}
