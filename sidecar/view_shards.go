package sidecar

import (
	"cmp"
	"crypto/sha256"
	"slices"
	"strings"

	"github.com/hence-dev/hence/sequencer"
)

// revision is one version of a shard. Its content is never changed, so readers may keep it.
type revision struct {
	version sequencer.Seq // zero: the shard is absent
	at      sequencer.Seq // of the decision that made it so: its version, or that of the retraction that took it away
	writer  sequencer.TxID
	by      sequencer.TxID // who made it so: the writer, or what a retraction has undone
	media   string
	content []byte
	ref     *sequencer.Ref

	// from is the decision that carries the content, where a retraction put it back; zero: version is that one. While
	// lacks, it was not fetched yet, and media, content and ref are not known.
	from  sequencer.Seq
	lacks bool
	lost  bool // the log has it no more
}

// carrier is the decision that carries the content; zero: the shard is absent.
func (r *revision) carrier() sequencer.Seq { return cmp.Or(r.from, r.version) }

func (r *revision) size() int64 {
	if r.ref != nil {
		return r.ref.Size
	}
	return int64(len(r.content))
}

func (r *revision) sum() sequencer.Hash {
	switch {
	case r.version == 0, r.lacks:
		return sequencer.Hash{}
	case r.ref != nil:
		return r.ref.SHA256
	}
	return sha256.Sum256(r.content)
}

// shard is the current revision and a few former ones, newest last.
type shard struct {
	now    revision
	former []revision
}

// put makes a revision the current one. One that is not newer is dropped: a snapshot may run ahead of the view.
func (v *view) put(scope sequencer.Scope, r revision) {
	s := v.shards[scope]
	if r.lacks {
		v.recall(s, scope, &r)
	}
	if s == nil {
		v.shards[scope] = &shard{now: r}
		v.names, v.namesOK = append(v.names, scope), false
		v.noteName(scope)
		return
	}
	if r.at <= s.now.at {
		return
	}
	s.former = append(s.former, s.now)
	v.old, v.oldSize = append(v.old, scope), v.oldSize+int64(len(s.now.content))
	s.now = r
	if len(s.former) >= keptRevisions {
		v.dropFormer(s)
	}
	v.trimOld()
}

func (v *view) dropFormer(s *shard) {
	v.oldSize -= int64(len(s.former[0].content))
	s.former = slices.Delete(s.former, 0, 1)
}

// trimOld forgets former revisions, oldest first, until their contents fit the bound.
func (v *view) trimOld() {
	for len(v.old) > 0 && (v.oldSize > v.oldBytes || len(v.old) > keptTxs*keptRevisions) {
		if s := v.shards[v.old[0]]; len(s.former) > 0 {
			v.dropFormer(s)
		}
		v.old = v.old[1:]
	}
}

// read is the current revision of a shard and the seq that showed it.
func (v *view) read(scope sequencer.Scope) (revision, sequencer.Seq) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if s := v.shards[scope]; s != nil {
		return s.now, v.seq
	}
	return revision{}, v.seq
}

// revisions lists what is remembered of a shard, newest first.
func (v *view) revisions(scope sequencer.Scope) ([]revision, sequencer.Seq) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	s := v.shards[scope]
	if s == nil {
		return nil, v.seq
	}
	out := append(slices.Clone(s.former), s.now)
	out = slices.DeleteFunc(out, func(r revision) bool { return r.version == 0 })
	slices.Reverse(out)
	return out, v.seq
}

// named is one shard of a list.
type named struct {
	scope sequencer.Scope
	revision
}

// page is one page of shards under a pattern.
type page struct {
	items []named
	more  bool
	view  sequencer.Seq
	last  named // the newest of all shards under the pattern, on this page or not
}

// list pages through the shards that patterns or prefixes cover, in the order of their names.
func (v *view) list(patterns []sequencer.Scope, after sequencer.Scope, limit int) page {
	v.sortNames()
	v.mu.RLock()
	defer v.mu.RUnlock()
	p := page{view: v.seq}
	for _, pattern := range patterns {
		v.listOne(&p, pattern, after, limit)
	}
	if len(patterns) == 1 {
		return p
	}
	slices.SortFunc(p.items, func(a, b named) int { return strings.Compare(string(a.scope), string(b.scope)) })
	p.items = slices.CompactFunc(p.items, func(a, b named) bool { return a.scope == b.scope })
	if len(p.items) > limit {
		p.items, p.more = p.items[:limit], true
	}
	return p
}

// listOne adds what one pattern covers to a page, up to limit shards; v.mu is held.
func (v *view) listOne(p *page, pattern, after sequencer.Scope, limit int) {
	stem, before := literalStem(pattern), len(p.items)
	at, _ := slices.BinarySearch(v.names, sequencer.Scope(stem))
	for _, name := range v.names[at:] {
		if !strings.HasPrefix(string(name), stem) {
			break
		}
		if !pattern.Covers(name) {
			continue
		}
		now := v.shards[name].now
		if now.version == 0 {
			continue // a retraction has taken it away
		}
		if now.version > p.last.version {
			p.last = named{name, now}
		}
		if name <= after {
			continue
		}
		if len(p.items) == before+limit {
			p.more = true
			continue
		}
		p.items = append(p.items, named{name, now})
	}
}

// literalStem is the text that the names of all shards under a pattern begin with.
func literalStem(pattern sequencer.Scope) string {
	stem, _, _ := strings.Cut(string(pattern), "*")
	return strings.TrimSuffix(stem, "/")
}

// sortNames brings the names into order; creations since the last list have appended to them.
func (v *view) sortNames() {
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
