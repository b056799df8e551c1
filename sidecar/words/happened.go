package words

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/hence-dev/hence/sequencer"
)

// Happened says what one decision did, as people say it: in a word or two, and what there is to add.
func Happened(o *sequencer.Outcome) (what, more string) {
	if what, more = happened(o); o.Signer != "" {
		more = strings.TrimPrefix(more+"; signed by "+o.Signer, "; ")
	}
	return what, more
}

func happened(o *sequencer.Outcome) (what, more string) {
	switch o.Kind {
	case sequencer.OutcomeBegun:
		return "began", o.Mode.String()
	case sequencer.OutcomeWaiting:
		return "waits", "for " + waitsFor(o.BlockedBy) + spoken(o)
	case sequencer.OutcomeGranted:
		return "granted", scopes(o.Added, func(h sequencer.Hold) sequencer.Scope { return h.Scope })
	case sequencer.OutcomeRefused:
		return "refused", "a request to " + asked(o) + ": " + why(o)
	case sequencer.OutcomeCommitted:
		return "committed", committed(o)
	case sequencer.OutcomeAborted:
		return "aborted", why(o) + spoken(o)
	case sequencer.OutcomeSettled:
		return settled(o)
	case sequencer.OutcomeRegistered:
		return "tools known", "of " + o.Server
	case sequencer.OutcomeUnregistered:
		return "tools gone", "of " + o.Server
	case sequencer.OutcomeSelected:
		return "chosen", fmt.Sprintf("%s, of group %s", o.Winner, o.Group)
	case sequencer.OutcomeJoined:
		return "joined", ""
	case sequencer.OutcomeLeaseEnded:
		return "lease ended", "nothing was heard of its sidecar for a lease, or another one of the agent joined"
	case sequencer.OutcomeAdopted:
		return "taken over", "this agent's sidecar settles it now"
	case sequencer.OutcomeRules:
		return "rules", fmt.Sprintf("version %d holds", o.RulesVersion)
	case sequencer.OutcomeRetracting:
		return "retracting", retracting(o)
	case sequencer.OutcomeTurn:
		return "undo turn", "for " + string(o.Retraction)
	case sequencer.OutcomeConfirmed:
		return "lease holds", ""
	}
	return o.Kind.String(), why(o)
}

// why is a code with its cause, and what is in the way.
func why(o *sequencer.Outcome) string {
	text := string(o.Code)
	if cause := cause(Decision(o)); cause != "" {
		text += " (" + cause + ")"
	}
	if o.Code == "" || len(o.BlockedBy) == 0 {
		return text
	}
	return text + ", in the way: " + waitsFor(o.BlockedBy)
}

// asked is what a refused intent asked for, by its id.
func asked(o *sequencer.Outcome) string {
	kind, _, _ := strings.Cut(strings.TrimPrefix(o.Intent, string(o.Tx)+":"), ":")
	switch kind {
	case "confirm":
		return "renew its lease"
	case "touch":
		return "use a scope"
	case "rules":
		return "change the rules"
	case "approval":
		return "approve or deny a call"
	}
	return kind
}

func committed(o *sequencer.Outcome) string {
	text := "nothing written"
	if len(o.Writes) > 0 {
		text = "wrote " + scopes(o.Writes, func(w sequencer.Write) sequencer.Scope { return w.Scope })
	}
	text += spoken(o)
	if o.Would != "" {
		text += fmt.Sprintf("; enforced, it would have been %s", o.Would)
	}
	return text
}

// spoken is who has said what of the calls that need an approval.
func spoken(o *sequencer.Outcome) string {
	var out string
	for _, a := range o.Approvals {
		switch {
		case a.By != "" && a.Yes:
			out += fmt.Sprintf("; call %d approved by %s", a.Index, a.By)
		case a.By != "":
			out += fmt.Sprintf("; call %d denied by %s", a.Index, a.By)
		}
	}
	return out
}

func settled(o *sequencer.Outcome) (what, more string) {
	what = "settled"
	if o.Retraction != "" {
		what, more = "taken back", "with the retraction of "+string(o.Retraction)
	}
	if len(o.Residue) == 0 {
		return what, more
	}
	if more != "" {
		more += "; "
	}
	return what, more + "with residue: not all of its effects are clean, see hence residue ls"
}

func retracting(o *sequencer.Outcome) string {
	switch {
	case len(o.BlockedBy) > 0:
		return "waits for " + waitsFor(o.BlockedBy)
	case len(o.Cone) > 1:
		return fmt.Sprintf("%d transactions go with it", len(o.Cone)-1)
	case o.Retraction != "" && o.Retraction != o.Tx:
		return "with " + string(o.Retraction)
	}
	return ""
}

func waitsFor(blockers []sequencer.Blocker) string {
	var out []string
	for _, b := range blockers {
		if b.Why == "approval" { // of its own, so the name says nothing
			out = append(out, "approval")
			continue
		}
		text := cmp.Or(string(b.Tx), string(b.Why))
		if b.Scope != "" {
			text += " at " + string(b.Scope)
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// maxNamed is how many scopes a line names.
const maxNamed = 4

func scopes[T any](list []T, of func(T) sequencer.Scope) string {
	var out []string
	for _, x := range list[:min(len(list), maxNamed)] {
		out = append(out, string(of(x)))
	}
	text := strings.Join(out, " ")
	if more := len(list) - len(out); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
