package view

import (
	"maps"
	"slices"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
)

// noteTypes remembers of which types the scopes are that a decision moves or grants; v.mu is held.
func (v *View) noteTypes(o *sequencer.Outcome) {
	for _, w := range o.Writes {
		v.noteType(w.Scope)
	}
	for _, h := range o.Added {
		v.noteType(h.Scope)
	}
}

func (v *View) noteType(scope sequencer.Scope) {
	if len(v.types) < keptTypes { // what a workspace calls its things is a short list, or not a list of types
		v.types[scope.Type()] = true
	}
}

// TypesSeen are the types of scopes that decisions have moved or granted.
func (v *View) TypesSeen() []string {
	v.Mu.RLock()
	defer v.Mu.RUnlock()
	return slices.Collect(maps.Keys(v.types))
}

func AddWants(to, more []sequencer.Want) []sequencer.Want {
	for _, w := range more {
		if !slices.Contains(to, w) {
			to = append(to, w)
		}
	}
	return to
}

// ReleasedAll reports whether a decision ends a release, or an undoing, that left no residue.
func ReleasedAll(o *sequencer.Outcome) bool {
	return o.Kind == sequencer.OutcomeSettled && o.Retraction == "" && len(o.Residue) == 0
}

func StateOf(o *sequencer.Outcome) string {
	if o.Kind == sequencer.OutcomeCommitted {
		return api.StateCommitted
	}
	return api.StateAborted
}

func NotReady(err error) error {
	if p := api.AsProblem(err); p.Code == api.CodeChain {
		return p
	}
	return api.Problemf(api.CodeNotReady, "%v", err)
}

// Brief is what is remembered of a decision: not the contents and scopes, which may be large.
func Brief(o *sequencer.Outcome) *sequencer.Outcome {
	out := *o
	out.Shards, out.Writes, out.Added, out.Ended, out.May, out.RestsOn = nil, nil, nil, nil, nil, nil
	return &out
}
