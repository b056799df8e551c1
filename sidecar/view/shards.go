package view

import (
	"cmp"
	"crypto/sha256"
	"slices"
	"strings"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/topology"
)

// Revision is one version of a shard. Its content is never changed, so readers may keep it.
type Revision struct {
	Version sequencer.Seq // zero: the shard is absent
	At      sequencer.Seq // of the decision that made it so: its version, or that of the retraction that took it away
	Writer  sequencer.TxID
	By      sequencer.TxID // who made it so: the writer, or what a retraction has undone
	Media   string
	Content []byte
	Ref     *sequencer.Ref

	// Writes counts the shard's writes since it was last taken away, up to this one: the same at every view. Of an
	// absent shard it is zero.
	Writes uint64

	// From is the decision that carries the content, where a retraction put it back; zero: version is that one. While
	// lacks, it was not fetched yet, and media, content and ref are not known.
	From  sequencer.Seq
	Lacks bool
	Lost  bool // the log no longer has it

	deltas bool // deltas are in the content
}

// carrier is the decision that carries the content; zero: the shard is absent.
func (r *Revision) carrier() sequencer.Seq { return cmp.Or(r.From, r.Version) }

// Chain reports whether the content is kept as a chain of events: it is read part by part, and never held whole.
func (r *Revision) Chain() bool { return r.Ref != nil && r.Ref.Chunks > 0 }

// Size is the length of the content, in bytes.
func (r *Revision) Size() int64 {
	if r.Ref != nil {
		return r.Ref.Size
	}
	return int64(len(r.Content))
}

// Sum is the content's SHA-256; zero where the shard is absent or the content was not fetched yet.
func (r *Revision) Sum() sequencer.Hash {
	switch {
	case r.Version == 0, r.Lacks:
		return sequencer.Hash{}
	case r.Ref != nil:
		return r.Ref.SHA256
	}
	return sha256.Sum256(r.Content)
}

// shard is the current revision and a few former ones, newest last.
type shard struct {
	now    Revision
	former []Revision
	count  topology.WriteCount

	writes *sequencer.Writes // what now comes from, where deltas are in it, or may have to be taken out; nil: none are
	lost   bool              // what the deltas rest on is not in the log any more
}

// put makes a revision the current one. One that is not newer is dropped: a snapshot may run ahead of the view, and
// its count, too, which may lack what came late to the table.
func (v *View) put(scope sequencer.Scope, r Revision, snapshot *topology.WriteCount) {
	s := v.shards[scope]
	if r.Lacks && (s == nil || s.writes == nil) {
		v.recall(s, scope, &r)
	}
	if s == nil {
		s = v.enter(scope)
	}
	if snapshot != nil {
		s.count = snapshot.Clone()
	} else {
		s.count.Add(r.At, r.At-1, r.Version == 0)
	}
	r.Writes = s.count.Writes
	if s.now.At == 0 { // it is new here
		s.now = r
		return
	}
	if r.At <= s.now.At {
		s.now.Writes = s.count.Writes
		return
	}
	s.former = append(s.former, s.now)
	v.old, v.oldSize = append(v.old, scope), v.oldSize+int64(len(s.now.Content))
	s.now = r
	if len(s.former) >= keptRevisions {
		v.dropFormer(s)
	}
	v.trimOld()
}

func (v *View) dropFormer(s *shard) {
	v.oldSize -= int64(len(s.former[0].Content))
	s.former = slices.Delete(s.former, 0, 1)
}

// trimOld forgets former revisions, oldest first, until their contents fit the bound.
func (v *View) trimOld() {
	for len(v.old) > 0 && (v.oldSize > v.oldBytes || len(v.old) > keptTxs*keptRevisions) {
		if s := v.shards[v.old[0]]; len(s.former) > 0 {
			v.dropFormer(s)
		}
		v.old = v.old[1:]
	}
}

// Read is the current revision of a shard and the seq that showed it.
func (v *View) Read(scope sequencer.Scope) (Revision, sequencer.Seq) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if s := v.shards[scope]; s != nil {
		return s.now, v.seq
	}
	return Revision{}, v.seq
}

// Revisions lists what is remembered of a shard, newest first.
func (v *View) Revisions(scope sequencer.Scope) ([]Revision, sequencer.Seq) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	s := v.shards[scope]
	if s == nil {
		return nil, v.seq
	}
	out := append(slices.Clone(s.former), s.now)
	out = slices.DeleteFunc(out, func(r Revision) bool { return r.Version == 0 })
	slices.Reverse(out)
	return out, v.seq
}

// Named is one shard of a list.
type Named struct {
	Scope sequencer.Scope
	Revision
}

// Page is one page of shards under a pattern.
type Page struct {
	Items []Named
	More  bool
	View  sequencer.Seq
	Last  Named // the newest of all shards under the pattern, on this page or not
}

// List pages through the shards that patterns or prefixes cover, in the order of their names.
func (v *View) List(patterns []sequencer.Scope, after sequencer.Scope, limit int) Page {
	v.sortNames()
	v.mu.RLock()
	defer v.mu.RUnlock()
	p := Page{View: v.seq}
	for _, pattern := range patterns {
		v.listOne(&p, pattern, after, limit)
	}
	if len(patterns) == 1 {
		return p
	}
	slices.SortStableFunc(p.Items, func(a, b Named) int { return strings.Compare(string(a.Scope), string(b.Scope)) })
	p.Items = slices.CompactFunc(p.Items, func(a, b Named) bool { return a.Scope == b.Scope })
	if len(p.Items) > limit {
		p.Items, p.More = p.Items[:limit], true
	}
	return p
}

// listOne adds what one pattern covers to a page, up to limit shards; v.mu is held.
func (v *View) listOne(p *Page, pattern, after sequencer.Scope, limit int) {
	stem, before := literalStem(pattern), len(p.Items)
	at, _ := slices.BinarySearch(v.names, sequencer.Scope(stem))
	for _, name := range v.names[at:] {
		if !strings.HasPrefix(string(name), stem) {
			break
		}
		if !pattern.Covers(name) {
			continue
		}
		now := v.shards[name].now
		if now.Version == 0 {
			continue // a retraction has taken it away
		}
		if now.Version > p.Last.Version {
			p.Last = Named{name, now}
		}
		if name <= after {
			continue
		}
		if len(p.Items) == before+limit {
			p.More = true
			continue
		}
		p.Items = append(p.Items, Named{name, now})
	}
}

// literalStem is the text that the names of all shards under a pattern begin with.
func literalStem(pattern sequencer.Scope) string {
	stem, _, _ := strings.Cut(string(pattern), "*")
	return strings.TrimSuffix(stem, "/")
}

// sortNames brings the names into order; creations since the last list have appended to them.
func (v *View) sortNames() {
	v.mu.RLock()
	ok := v.namesOK
	v.mu.RUnlock()
	if ok {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	slices.Sort(v.names)
	v.namesOK = true
}

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
	v.mu.RLock()
	defer v.mu.RUnlock()
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
// of its names as such a stored name spells it. A claim or a list of the pattern means them, too.
func (v *View) Spelt(pattern sequencer.Scope) (out []sequencer.Scope) {
	v.mu.RLock()
	defer v.mu.RUnlock()
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

// Named is the shard that a text names, after topology.ParseScope, the one place where a scope that comes in is
// brought to the one spelling (NFC). An older release has stored some names otherwise. A text that has not the one
// spelling means the shard that is stored under exactly its bytes while that keeps something, and the one spelling
// otherwise.
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
