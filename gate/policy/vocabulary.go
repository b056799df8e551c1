package policy

import (
	"fmt"
	"strings"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/topology"
)

const (
	maxTerms     = 10_000
	maxTermNames = 50
)

// Vocabulary is how texts to and from a model name shards; nil: the policy does not say.
func (p *Policy) Vocabulary() *gate.Vocabulary { return p.vocabulary }

func (r *reader) vocabulary(n *node) *gate.Vocabulary {
	v := &gate.Vocabulary{}
	r.fields(n, "vocabulary",
		field{"mode", func(n *node) {
			mode := r.text(n, "vocabulary.mode")
			if v.Enforce = mode == "enforce"; mode != "enforce" && mode != "observe" && mode != "" {
				r.refuse(n.Place, "wrong-value", fmt.Sprintf("vocabulary.mode is %.40q", mode), "write observe or enforce")
			}
		}},
		field{"terms", func(n *node) {
			for _, item := range r.items(n, "vocabulary.terms", maxTerms) {
				v.Terms = append(v.Terms, r.term(item))
			}
		}})
	return v
}

// term reads one entry: a shard, or many by a wildcard, and its names beside its path.
func (r *reader) term(n *node) gate.Term {
	t := gate.Term{}
	r.fields(n, "a term",
		field{"shard", func(n *node) { t.Scope = strings.TrimPrefix(r.text(n, "shard"), "/") }},
		field{"names", func(n *node) {
			for _, item := range r.items(n, "names", maxTermNames) {
				if name := r.text(item, "a name"); name != "" { // else it is refused already
					t.Names = append(t.Names, name)
				}
			}
		}})
	if t.Scope == "" {
		r.refuse(n.Place, "missing-key", "the term names no shard", "write \"shard: orders/1\", or \"shard: orders/*\"")
		return t
	}
	stars := strings.Count(t.Scope, "*")
	if _, err := topology.ParseScope("shard:/" + strings.ReplaceAll(t.Scope, "*", "x")); err != nil || stars > 1 {
		r.refuse(n.Place, "scope", fmt.Sprintf("%.80q is no shard", t.Scope),
			"write the path of a shard, with one * at most, for a word")
	}
	for _, name := range t.Names {
		switch {
		case len(strings.TrimSpace(name)) < 2 || len(name) > maxName:
			r.refuse(n.Place, "name", fmt.Sprintf("%.80q is no name", name),
				fmt.Sprintf("write 2 to %d characters: a shorter one is found in every text", maxName))
		case strings.Count(name, "*") != stars:
			r.refuse(n.Place, "name", fmt.Sprintf("%.80q and %.80q do not have the same wildcards", name, t.Scope),
				"write one * in both, or none")
		}
	}
	return t
}
