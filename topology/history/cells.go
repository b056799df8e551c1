package history

import (
	"slices"
	"sort"
	"strings"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology/trace"
)

// node is a segment of the tree of scopes, by type and then by path.
type node struct {
	kids map[string]*node
	of   *place // nil: no scope that was named ends here
}

// place is one scope that was written or read, with its two cells. The exact cell is a shard's content. The region is
// all that the scope names: of a shard what is below or above it too, of any other scope the scope itself.
//
// Invariant: wide where the region of a shard is more than the shard: another scope that overlaps it is written too.
type place struct {
	scope         sequencer.Scope
	written, read bool
	wide          bool
	by            sequencer.Writer // of the newest write of the scope itself
	exact, region versions
}

// versions are what was written to a cell, by the seqs at which it was.
//
// Invariant: with cut, what stood before the first of them is not known.
type versions struct {
	seqs   []sequencer.Seq
	values []trace.Value
	cut    bool
}

// regionOf is the name of a scope's region as a cell.
func regionOf(s sequencer.Scope) string {
	switch {
	case !s.IsShard():
		return string(s)
	case strings.HasSuffix(string(s), "/"): // all shards
		return string(s) + "**"
	}
	return string(s) + "/**"
}

// at is the place of a scope, which is made if it is new.
func (b *Builder) at(s sequencer.Scope) *place {
	n := b.scopes
	for _, segment := range append([]string{s.Type()}, s.Segments()...) {
		kid := n.kids[segment]
		if kid == nil {
			kid = &node{}
			if n.kids == nil {
				n.kids = map[string]*node{}
			}
			n.kids[segment] = kid
		}
		n = kid
	}
	if n.of == nil {
		n.of = &place{scope: s, exact: versions{cut: b.cut}, region: versions{cut: b.cut}}
		b.places++
	}
	return n.of
}

// visit calls f for each place that overlaps a scope.
func (b *Builder) visit(s sequencer.Scope, f func(*place)) {
	if kind := b.scopes.kids[s.Type()]; kind != nil {
		kind.visit(s.Segments(), f)
	}
}

func (n *node) visit(path []string, f func(*place)) {
	if n.of != nil {
		f(n.of)
	}
	if len(path) == 0 || path[0] == "*" {
		for _, kid := range n.kids {
			kid.visit(path[min(1, len(path)):], f)
		}
		return
	}
	for _, segment := range []string{path[0], "*"} {
		if kid := n.kids[segment]; kid != nil {
			kid.visit(path[1:], f)
		}
	}
}

// noteWrite is at of a scope that is written: regions that it is in are more than one shard from now on.
func (b *Builder) noteWrite(s sequencer.Scope, merges bool) *place {
	p := b.at(s)
	if merges { // what is merged has a name of its own, below the shard
		p.wide = true
	}
	if p.written {
		return p
	}
	p.written = true
	b.visit(s, func(o *place) { o.wide = o.wide || o != p })
	return p
}

// noteRead is at of a scope that is read.
func (b *Builder) noteRead(s sequencer.Scope) *place {
	p := b.at(s)
	if p.read {
		return p
	}
	p.read = true
	p.wide = p.wide || s.HasStar()
	b.visit(s, func(o *place) {
		if o == p || !o.written {
			return
		}
		p.wide = true
		// Written before anybody was seen to read the region: of each scope its newest write.
		if o.by.Seq > 0 {
			p.region.seqs = append(p.region.seqs, o.by.Seq)
			p.region.values = append(p.region.values, valueOf(o.by))
			p.region.cut = true
		}
	})
	sort.Sort(&p.region)
	return p
}

// Len, Less and Swap put versions in order.
func (v *versions) Len() int           { return len(v.seqs) }
func (v *versions) Less(i, j int) bool { return v.seqs[i] < v.seqs[j] }
func (v *versions) Swap(i, j int) {
	v.seqs[i], v.seqs[j] = v.seqs[j], v.seqs[i]
	v.values[i], v.values[j] = v.values[j], v.values[i]
}

// put adds a version, which is newer than all others, and drops those that no read can be of any more: all but the
// last of those up to the floor.
func (v *versions) put(seq, floor sequencer.Seq, value trace.Value) {
	if n := len(v.seqs); n > 0 && v.seqs[n-1] == seq {
		v.values[n-1] = value
		return
	}
	v.seqs, v.values = append(v.seqs, seq), append(v.values, value)
	n, found := slices.BinarySearch(v.seqs, floor)
	if !found {
		n--
	}
	if n > 0 {
		v.seqs, v.values = slices.Delete(v.seqs, 0, n), slices.Delete(v.values, 0, n)
		v.cut = true
	}
}

// when is what stood in the cell at a seq: Null before the first version, and "" where that is not known.
func (v *versions) when(seq sequencer.Seq) trace.Value {
	n, found := slices.BinarySearch(v.seqs, seq)
	if found {
		return v.values[n]
	}
	switch {
	case n > 0:
		return v.values[n-1]
	case v.cut:
		return ""
	}
	return trace.Null
}

// last is the seq of the newest version; 0: there is none.
func (v *versions) last() sequencer.Seq {
	if len(v.seqs) == 0 {
		return 0
	}
	return v.seqs[len(v.seqs)-1]
}
