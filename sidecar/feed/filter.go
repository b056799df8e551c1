package feed

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// FilterNames are the names of a filter's parts, as query parameters and as flags have them.
const FilterNames = "tx agent scope reason kind"

// Filter picks decisions: those that meet each part that is set. The zero filter picks all but the quiet ones.
type Filter struct {
	Tx     sequencer.TxID  // about this transaction, retractions of it and by it too
	Agent  string          // about this agent
	Scope  sequencer.Scope // naming a scope that overlaps this one
	Reason sequencer.Code  // refused, or in observe what would have been refused, for this code
	Kind   string          // of this kind: begun, granted, committed, aborted, ...
	All    bool            // those, too, that are shown only to who asks: see Quiet

	exact sequencer.Scope // Scope as it was written, where that is not the one spelling of its names
}

// NewFilter makes a filter of texts; empty ones ask for nothing. An error says which text is wrong and what to give.
func NewFilter(tx, agent, scope, reason, kind string) (Filter, error) {
	f := Filter{Tx: sequencer.TxID(tx), Agent: agent, Reason: sequencer.Code(reason), Kind: kind}
	if scope != "" {
		parsed, err := topology.ParseScope(scope)
		if err != nil {
			return Filter{}, fmt.Errorf("scope: %w", err)
		}
		f.Scope = parsed
		if f.exact, err = sequencer.ParseScope(scope); err != nil {
			return Filter{}, fmt.Errorf("scope: %w", err)
		}
		if f.exact == f.Scope {
			f.exact = ""
		}
	}
	if reason != "" && !isCode(reason) {
		return Filter{}, fmt.Errorf("reason: %.60q is not a code: codes are words like stale_read or deadline", reason)
	}
	if kinds := Kinds(); kind != "" && !slices.Contains(kinds, kind) {
		return Filter{}, fmt.Errorf("kind: %.60q is none: give one of %s", kind, strings.Join(kinds, ", "))
	}
	return f, nil
}

// Kinds are the names of all kinds of decisions.
func Kinds() []string {
	var names []string
	for k := sequencer.OutcomeKind(1); k.String() != sequencer.OutcomeKind(0).String(); k++ {
		names = append(names, k.String())
	}
	return names
}

// isCode reports whether a text has the form of a reason code. A newer sequencer may have codes that this one has not.
func isCode(text string) bool {
	for _, c := range text {
		if (c < 'a' || c > 'z') && c != '_' {
			return false
		}
	}
	return len(text) <= 64
}

// Quiet reports whether a decision says only that a sidecar's lease holds: it changes nothing, and a filter picks it
// where it is asked for by All or by its kind. Before logic 3 it is the refusal of an adoption of transaction 0.
func Quiet(o *sequencer.Outcome) bool {
	return o.Kind == sequencer.OutcomeConfirmed || o.Kind == sequencer.OutcomeRefused &&
		o.Code == sequencer.CodeTooOld && strings.HasSuffix(string(o.Tx), ".0") &&
		strings.HasPrefix(o.Intent, string(o.Tx)+":"+sequencer.IntentAdopt.String()+":")
}

// Match reports whether the filter picks a decision.
func (f Filter) Match(o *sequencer.Outcome) bool {
	switch {
	case f.Kind == "" && !f.All && Quiet(o):
		return false
	case f.Kind != "" && o.Kind.String() != f.Kind:
		return false
	case f.Agent != "" && o.Agent != f.Agent:
		return false
	case f.Reason != "" && o.Code != f.Reason && o.Would != f.Reason:
		return false
	case f.Tx != "" && o.Tx != f.Tx && o.Retraction != f.Tx && o.Winner != f.Tx && !slices.Contains(o.Cone, f.Tx):
		return false
	}
	return f.Scope == "" || f.meets(o)
}

// meets reports whether a decision names a scope that overlaps the filter's.
func (f Filter) meets(o *sequencer.Outcome) bool {
	one := func(s sequencer.Scope) bool {
		return s != "" && (s.Overlaps(f.Scope) || f.exact != "" && s.Overlaps(f.exact))
	}
	held := func(h sequencer.Hold) bool { return one(h.Scope) }
	return one(o.Scope) ||
		slices.ContainsFunc(o.Writes, func(w sequencer.Write) bool { return one(w.Scope) }) ||
		slices.ContainsFunc(o.Shards, func(w sequencer.ShardWrite) bool { return one(w.Scope) }) ||
		slices.ContainsFunc(o.BlockedBy, func(b sequencer.Blocker) bool { return one(b.Scope) }) ||
		slices.ContainsFunc(o.May, func(w sequencer.Want) bool { return one(w.Scope) }) ||
		slices.ContainsFunc(o.Added, held) || slices.ContainsFunc(o.Ended, held)
}
