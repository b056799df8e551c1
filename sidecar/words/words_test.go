package words

import (
	"strings"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
)

// TestSentenceOfRefusals: each refusal says where, when and who, in words that are true of its code; and nothing that
// is over waits.
func TestSentenceOfRefusals(t *testing.T) {
	moved := sequencer.Writer{Seq: 7, Tx: "b.1"}
	for code, want := range map[sequencer.Code]string{
		sequencer.CodeStaleRead:       "(doc:/x, moved at seq 7 by b.1)",
		sequencer.CodeVersionMismatch: "(doc:/x, moved at seq 7 by b.1)",
		sequencer.CodeConflict:        "(doc:/x, granted to b.1 at seq 7)",
		sequencer.CodeWounded:         "(doc:/x, granted to it at seq 7, needed by b.1)",
		sequencer.CodeCascade:         "(doc:/x, by b.1, decided at seq 7)",
		sequencer.CodeOwnTransaction:  "(doc:/x, b.1 has it since seq 7)",
	} {
		said := sentence(&sequencer.Outcome{Code: code, Scope: "doc:/x", Moved: moved,
			BlockedBy: []sequencer.Blocker{{Tx: "b.1", Scope: "doc:/x", Why: "granted"}}})
		if !strings.Contains(said, want) || strings.Contains(said, "waits") {
			t.Errorf("%s: %s; want %s", code, said, want)
		}
	}
	for want, o := range map[string]*sequencer.Outcome{
		"(b.1 was chosen at seq 7)": {Code: sequencer.CodeLostBranch, Moved: moved},
		"(mail/send, changed at seq 7 by the sidecar of b)": {Code: sequencer.CodePhantomTool, Tool: "mail/send",
			MovedAgent: "b", Moved: sequencer.Writer{Seq: 7}},
		"(doc:/x, what is older than seq 5 is forgotten)": {Code: sequencer.CodeTooOld, Scope: "doc:/x", Floor: 5},
		// of an older logic
		"(doc:/x, by b.1)": {Code: sequencer.CodeConflict, Scope: "doc:/x", Moved: sequencer.Writer{Tx: "b.1"}},
	} {
		if said := sentence(o); !strings.Contains(said, want) {
			t.Errorf("%s; want %s", said, want)
		}
	}
}

func sentence(o *sequencer.Outcome) string {
	d := Decision(o)
	d.State = api.StateAborted
	return Sentence(d)
}

// A transaction that waits for approvals says of which calls they are missing, and not that it waits for itself.
func TestSentenceOfApprovals(t *testing.T) {
	for want, by := range map[string][2]string{
		"waits until its calls 0, 2 are approved.": {"", ""},
		"waits until its call 2 is approved.":      {"ann", ""},
	} {
		d := Decision(&sequencer.Outcome{Kind: sequencer.OutcomeWaiting, Tx: "a.1",
			BlockedBy: []sequencer.Blocker{{Tx: "a.1", Why: "approval"}},
			Approvals: []sequencer.Approval{{Index: 0, Yes: by[0] != "", By: by[0]}, {Index: 2, By: by[1]}}})
		d.State = api.StateSealed
		said := Sentence(d)
		if !strings.Contains(said, want) || strings.Contains(said, "waits for") {
			t.Errorf("%s; want %s", said, want)
		}
	}
}

// What happened to a transaction with calls that need a yes says who has said what, and that it waits for people.
func TestHappenedOfApprovals(t *testing.T) {
	words := []sequencer.Approval{{Index: 0, Yes: true, By: "ann"}, {Index: 2}}
	no := []sequencer.Approval{{Index: 2, By: "bob"}}
	for want, o := range map[string]*sequencer.Outcome{
		"waits for approval; call 0 approved by ann": {Kind: sequencer.OutcomeWaiting, Tx: "a.1", Approvals: words,
			BlockedBy: []sequencer.Blocker{{Tx: "a.1", Why: "approval"}}},
		"committed nothing written; call 0 approved by ann": {Kind: sequencer.OutcomeCommitted, Tx: "a.1",
			Approvals: words[:1]},
		"aborted denied; call 2 denied by bob": {Kind: sequencer.OutcomeAborted, Tx: "a.1", Code: sequencer.CodeDenied,
			Approvals: no},
	} {
		if what, more := Happened(o); what+" "+more != want {
			t.Errorf("%s %s, want %s", what, more, want)
		}
	}
	d := Decision(&sequencer.Outcome{Kind: sequencer.OutcomeCommitted, Tx: "a.1", Seq: 7, Approvals: words[:1]})
	d.State = api.StateCommitted
	if said := Sentence(d); said != "a.1 committed at seq 7. Call 0 was approved by ann." {
		t.Errorf("%q", said)
	}
}
