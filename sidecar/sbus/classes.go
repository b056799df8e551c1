package sbus

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/hence-dev/hence/sidecar/api"
)

// Classes of shards, by what this node has seen of their commits.
const (
	classDedicated   = "dedicated"                // commits of it seldom meet
	classCommutative = "contended_commutative"    // they do, and say that they only add, and do
	classContended   = "contended_noncommutative" // they do
)

// Where a class begins.
const (
	contendedFrom = 0.05 // share of commits that met another version
	hintedFrom    = 0.9  // share of commits that say that they only add
	honestFrom    = 0.95 // share of these that did
	recent        = 256  // of so many commits the older half counts half
	mostListed    = 20
)

// nature is what is known of the recent commits of one shard.
type nature struct {
	Attempts float64
	Met      float64 // found another version than they expected
	Hinted   float64
	Honest   float64 // of those that were hinted and whose base is remembered
	Judged   float64
}

// note adds one commit.
func (n *nature) note(met, hinted bool, honest *bool) {
	if n.Attempts >= recent {
		*n = nature{n.Attempts / 2, n.Met / 2, n.Hinted / 2, n.Honest / 2, n.Judged / 2}
	}
	add := func(to *float64, is bool) {
		if is {
			*to++
		}
	}
	add(&n.Attempts, true)
	add(&n.Met, met)
	add(&n.Hinted, hinted)
	if honest != nil {
		add(&n.Judged, true)
		add(&n.Honest, *honest)
	}
}

func (n *nature) trusted() bool { return n.Judged == 0 || n.Honest/n.Judged >= honestFrom }

func (n *nature) class() string {
	switch {
	case n.Attempts == 0 || n.Met/n.Attempts < contendedFrom:
		return classDedicated
	case n.Judged > 0 && n.Hinted/n.Attempts >= hintedFrom && n.trusted():
		return classCommutative
	}
	return classContended
}

// classes counts the shards that commits have come to, by class; n.mu is held.
func (n *counters) classes() (out api.ShardClasses) {
	out.Most = []api.ShardClass{}
	for scope, t := range n.byScope {
		switch t.nature.class() {
		case classDedicated:
			out.Dedicated++
			continue
		case classCommutative:
			out.Commutative++
		default:
			out.Contended++
		}
		if key, ok := keyOf(scope); ok {
			n := &t.nature
			out.Most = append(out.Most, api.ShardClass{Key: key, Class: n.class(), Attempts: n.Attempts, Met: n.Met,
				Hinted: n.Hinted, Honest: n.Honest})
		}
	}
	slices.SortStableFunc(out.Most, func(a, b api.ShardClass) int {
		return cmp.Or(cmp.Compare(b.Met, a.Met), cmp.Compare(a.Key, b.Key))
	})
	out.Most = out.Most[:min(len(out.Most), mostListed)]
	return out
}

// Classes are the classes of the shards that commits came to, as /stats shows them.
func (f *Face) Classes() api.ShardClasses { return f.statistics().Classes }

// trusts reports whether the hints of a shard's commits have been honest so far.
func (n *counters) trusts(scope string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	t := n.byScope[scope]
	return t == nil || t.nature.trusted()
}

// hint reports whether a commit says that it only adds. Any other value is no hint, as in the published server.
func hint(in fields) (yes bool) {
	return json.Unmarshal(in["additive_hint"], &yes) == nil && yes
}
