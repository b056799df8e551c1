package view

import (
	"slices"
	"strings"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/topology"
)

// noteName keeps a stored name that has not the one spelling of names (NFC): a release before that rule wrote it. v.mu
// is held.
func (v *View) noteName(scope sequencer.Scope) {
	if topology.IsNormal(scope) {
		return
	}
	normal, err := topology.NormalScope(scope)
	if err != nil {
		normal = "" // too long when it is composed: no pattern finds it but its own bytes
	}
	v.odd[scope] = normal
}

// storedAs reports whether something is kept under exactly these bytes, which are not a name's one spelling. A shard
// that is empty, or that a retraction has taken away, keeps nothing: that is how such a name is given up.
func (v *View) storedAs(scope sequencer.Scope) bool {
	v.Mu.RLock()
	defer v.Mu.RUnlock()
	return v.keeps(scope)
}

// keeps does what storedAs does; v.mu is held.
func (v *View) keeps(odd sequencer.Scope) bool {
	if _, ok := v.odd[odd]; !ok {
		return false
	}
	now := &v.shards[odd].now
	return now.Version != 0 && (now.Lacks || now.Size() > 0)
}

// Spelt are the further patterns that stand for a pattern among the stored names that have not the one spelling: each
// of its names as such a stored name spells it. Whoever claims or lists the pattern means them, too.
func (v *View) Spelt(pattern sequencer.Scope) (out []sequencer.Scope) {
	v.Mu.RLock()
	defer v.Mu.RUnlock()
	if len(v.odd) == 0 || !pattern.IsShard() {
		return nil
	}
	want := pattern.Segments()
	for odd, normal := range v.odd {
		if normal == "" || !pattern.Overlaps(normal) || pattern.Covers(odd) || !v.keeps(odd) {
			continue
		}
		has := odd.Segments()
		also := slices.Clone(want)
		for i := range min(len(has), len(want)) {
			if want[i] != "*" {
				also[i] = has[i]
			}
		}
		out = append(out, sequencer.Scope("shard:/"+strings.Join(also, "/")))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Named is the shard that a text names. A text that has not the one spelling of names means the shard that is stored
// under exactly its bytes while that keeps something, and the one spelling otherwise.
func (v *View) Named(exact sequencer.Scope) (sequencer.Scope, error) {
	if topology.IsNormal(exact) || v.storedAs(exact) {
		return exact, nil
	}
	return topology.NormalScope(exact)
}

// WidenScopes adds to the scopes of a tool call what stands for stored names.
func (v *View) WidenScopes(scopes []sequencer.Scope) []sequencer.Scope {
	out := slices.Clone(scopes)
	for _, scope := range scopes {
		for _, also := range v.Spelt(scope) {
			out = api.AddScope(out, also)
		}
	}
	return out
}

// Widen adds to wants what stands for stored names.
func (v *View) Widen(wants []sequencer.Want) []sequencer.Want {
	for _, w := range wants {
		for _, scope := range v.Spelt(w.Scope) {
			wants = AddWants(wants, []sequencer.Want{{Scope: scope, Access: w.Access}})
		}
	}
	return wants
}
