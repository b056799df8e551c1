package view

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// merged is a decision with deltas.
type merged struct {
	seq    sequencer.Seq
	scopes []sequencer.Scope
}

// take takes what a decision writes at shards over; v.mu is held.
func (v *View) take(o *sequencer.Outcome) {
	var deltas []sequencer.Scope
	for i := range o.Shards {
		w := &o.Shards[i]
		s := v.shards[w.Scope]
		switch {
		case takesAway(o, w):
			v.takeAway(o, w.Scope)
		case w.Op == sequencer.OpSet && w.Removes == 0 && (s == nil || s.writes == nil):
			v.put(w.Scope, revisionOf(o, w), nil)
		default:
			v.merge(o, w)
			deltas = append(deltas, w.Scope)
		}
	}
	if len(deltas) > 0 {
		v.merged = append(v.merged, merged{o.Seq, deltas})
		v.foldOld()
	}
}

// takesAway reports whether a write is a tombstone: there is no shard at or below its scope any more.
func takesAway(o *sequencer.Outcome, w *sequencer.ShardWrite) bool {
	return w.Absent && o.Kind == sequencer.OutcomeCommitted
}

// takeAway takes all shards away that a tombstone covers; v.mu is held.
func (v *View) takeAway(o *sequencer.Outcome, under sequencer.Scope) {
	for scope, s := range v.shards {
		if !under.Covers(scope) {
			continue
		}
		if s.now.Version == 0 && s.count.Writes == 0 && s.writes == nil { // it is gone, and was not written since
			continue
		}
		switch {
		case s.now.At < o.Seq:
			s.writes, s.lost = nil, false
			delete(v.unfolded, scope)
		case s.writes != nil: // a snapshot was ahead: what is behind the tombstone stands, and what is before it does not
			s.writes.Late(o.Seq, &sequencer.ShardWrite{Scope: scope, Absent: true})
			v.refresh(scope, s)
		}
		v.put(scope, Revision{At: o.Seq, By: o.Tx}, nil)
	}
}

// touched are the shards that a decision writes, for those who wait for them.
func (v *View) touched(o *sequencer.Outcome) (out []sequencer.Scope) {
	for i := range o.Shards {
		w := &o.Shards[i]
		if !takesAway(o, w) {
			out = append(out, w.Scope)
			continue
		}
		v.mu.RLock()
		for scope := range v.shards {
			if w.Scope.Covers(scope) {
				out = append(out, scope)
			}
		}
		v.mu.RUnlock()
	}
	return out
}

// merge folds a write with those before it; v.mu is held.
func (v *View) merge(o *sequencer.Outcome, w *sequencer.ShardWrite) {
	s := v.shards[w.Scope]
	if s == nil {
		s = v.enter(w.Scope)
	}
	if s.writes == nil {
		s.writes = s.now.writes(o.Seq - 1)
	}
	had := s.writes.Missing()
	s.writes.Apply(o.Seq, w)
	if m := s.writes.Missing(); m != 0 && m != had && !s.writes.List[0].Folded {
		s.recallMerged(m)
	}
	if w.Op == sequencer.OpSet {
		_ = s.writes.Bound(1<<30, 1<<30, nil) // what is under so many contents none puts back
	}
	r := revisionOf(o, w)
	if r.At < s.now.At { // a snapshot was ahead of the view; no read is answered yet
		r = s.now
	}
	v.show(w.Scope, s, &r)
	if !s.writes.Merges() && !r.Lacks {
		s.writes = nil // revisions have all that can be put back
	}
	if r.At == s.now.At && r.At != 0 {
		s.count.Add(o.Seq, o.Seq-1, r.Version == 0)
		r.Writes = s.count.Writes
		s.now = r
		return
	}
	v.put(w.Scope, r, nil)
}

// recallMerged gives the content as of a decision to a shard's writes, where a revision has it: the newest of these.
func (s *shard) recallMerged(missing sequencer.Seq) {
	for _, had := range slices.Backward(append(slices.Clone(s.former), s.now)) {
		if had.carrier() == missing && !had.Lacks {
			s.writes.List[0] = sequencer.Standing{Seq: missing, Type: had.Media, Content: had.Content, Ref: had.Ref,
				Folded: had.deltas}
			return
		}
	}
}

// show gives a revision the content that a shard's writes come to; v.mu is held.
func (v *View) show(scope sequencer.Scope, s *shard, r *Revision) {
	value, err := s.writes.Value(nil)
	r.Lacks, r.Lost, r.From, r.deltas = false, false, 0, s.writes.Merges()
	r.Media, r.Content, r.Ref = value.Type, value.Content, value.Ref
	if last := s.writes.Last(); last != r.Version {
		r.From = last
	}
	switch {
	case err != nil && s.lost:
		r.Lacks, r.Lost = true, true
	case err != nil:
		r.Lacks = true
		v.unfolded[scope] = errFetching
	default:
		s.lost = false
		delete(v.unfolded, scope)
		if value.Absent {
			*r = Revision{At: r.At, By: r.By}
		}
	}
}

// writes are those of a shard that had no deltas so far.
func (r *Revision) writes(seq sequencer.Seq) *sequencer.Writes {
	x := &sequencer.Writes{Seq: seq}
	if r.Version != 0 {
		x.List = []sequencer.Standing{{Seq: r.carrier(), Type: r.Media, Content: r.Content, Ref: r.Ref, Missing: r.Lacks}}
	}
	return x
}

// foldOld makes one content of deltas that no retraction can take out any more; v.mu is held.
func (v *View) foldOld() {
	if len(v.merged) < 2*sequencer.MostRemovable {
		return
	}
	old := v.merged[:len(v.merged)-sequencer.MostRemovable]
	keep, scopes := old[len(old)-1].seq, map[sequencer.Scope]bool{}
	for _, m := range old {
		for _, scope := range m.scopes {
			scopes[scope] = true
		}
	}
	v.merged = slices.Clone(v.merged[len(old):])
	for scope := range scopes {
		s := v.shards[scope]
		if s.writes == nil || s.writes.Forget(keep, nil) != nil {
			continue // one whose content is not here stays as it is, and is looked at with its next delta
		}
		if !s.writes.Merges() && s.writes.Missing() == 0 && len(s.writes.List) < 2 {
			s.writes = nil
		}
	}
}

// startMerged lets a shard with deltas begin as a snapshot has it; v.mu is held.
func (v *View) startMerged(row *topology.ShardRow, at sequencer.Seq) {
	s := v.enter(row.Scope)
	x := row.State()
	x.Seq = at
	s.writes = &x
	r := Revision{Version: row.Version, At: row.Version, Writer: row.Writer.Tx, By: row.Writer.Tx}
	v.show(row.Scope, s, &r)
	v.merged = append(v.merged, merged{at, []sequencer.Scope{row.Scope}})
	v.put(row.Scope, r, countOf(row))
}

// enter is a new shard, absent so far; v.mu is held.
func (v *View) enter(scope sequencer.Scope) *shard {
	s := &shard{}
	v.shards[scope] = s
	v.names, v.namesOK = append(v.names, scope), false
	v.noteName(scope)
	return s
}

// unfold lets what a shard's writes come to be worked out in place of a content that no decision carries.
func (v *View) unfold(l Lack) {
	v.mu.Lock()
	s := v.shards[l.scope]
	current := s.now.At == l.At && s.writes == nil
	if current {
		delete(v.lacking, l)
		s.writes = &sequencer.Writes{Seq: v.seq, List: []sequencer.Standing{{Seq: l.From, Missing: true, Folded: true}}}
		v.unfolded[l.scope] = errFetching
	}
	v.mu.Unlock()
	if !current { // what former revisions were is not worked out
		v.fill(l, nil)
	}
}

// allUnfolded are the shards whose writes cannot be folded yet.
func (v *View) allUnfolded() []sequencer.Scope {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return slices.Sorted(maps.Keys(v.unfolded))
}

// fold fetches what the writes of some shards rest on: contents by reference, and where an entry is missing, all of
// them once more, from the table of scopes or else from the beginning of the log.
func (v *View) fold(ctx context.Context, scopes []sequencer.Scope, log Source, say *slog.Logger) (failed error) {
	var rows *topology.Snapshot
	for _, scope := range scopes {
		err := v.loadRefs(ctx, scope, log)
		if errors.Is(err, sequencer.ErrNoContent) {
			if rows == nil {
				if rows, err = log.Snapshot(ctx, v.Workspace); err != nil {
					return err
				}
			}
			err = v.refold(ctx, scope, rows, log)
		}
		if errors.Is(err, streams.ErrGone) || errors.Is(err, errNowhere) || errors.Is(err, streams.ErrContent) {
			say.Error("what the deltas of a shard rest on is not in the log any more", "shard", string(scope), "cause", err)
			v.lose(scope)
			err = nil
		}
		if err != nil && failed == nil {
			failed = err
		}
		v.mu.Lock()
		if _, still := v.unfolded[scope]; still && err != nil {
			v.unfolded[scope] = err
		}
		v.mu.Unlock()
	}
	v.Waits.Wake(waitContent)
	return failed
}

// loadRefs fetches the contents that a shard's writes keep by reference. ErrNoContent: an entry is missing.
func (v *View) loadRefs(ctx context.Context, scope sequencer.Scope, log Source) error {
	for {
		ref, missing := v.refOf(scope)
		if missing != 0 {
			return fmt.Errorf("%w: of %d", sequencer.ErrNoContent, missing)
		}
		if ref == nil {
			return nil
		}
		body, err := log.Content(ctx, v.Workspace, *ref)
		if err != nil {
			return err
		}
		v.mu.Lock()
		s := v.shards[scope]
		if s.writes != nil {
			s.writes.Have(ref, body)
			v.refresh(scope, s)
		}
		v.mu.Unlock()
	}
}

// refOf is a reference that a shard's writes cannot be folded without, or the entry that is missing. Neither: they
// can be.
func (v *View) refOf(scope sequencer.Scope) (ref *sequencer.Ref, missing sequencer.Seq) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.shards[scope]
	if s == nil || s.writes == nil {
		delete(v.unfolded, scope)
		return nil, 0
	}
	if missing = s.writes.Missing(); missing != 0 {
		return nil, missing
	}
	_, err := s.writes.Value(func(r *sequencer.Ref) ([]byte, error) {
		ref = r
		return nil, errFetching
	})
	if err == nil {
		v.refresh(scope, s)
	}
	return ref, 0
}

// refresh shows what a shard's writes come to by now; v.mu is held. Former revisions that lacked their content are
// dropped: what they were is not worked out.
func (v *View) refresh(scope sequencer.Scope, s *shard) {
	r := s.now
	v.show(scope, s, &r)
	r.Writes = s.now.Writes
	s.now = r
	if !r.Lacks {
		s.former = slices.DeleteFunc(s.former, func(f Revision) bool { return f.Lacks && f.deltas })
	}
}

// refold works the writes of a shard out once more.
func (v *View) refold(ctx context.Context, scope sequencer.Scope, rows *topology.Snapshot, log Source) error {
	for i := range rows.Shards {
		row := &rows.Shards[i]
		if row.Scope != scope || row.Version > rows.Seq { // one that is ahead may lack what came late to the table
			continue
		}
		if x := row.State(); x.Missing() == 0 && v.install(scope, &x, countOf(row), rows.Seq) {
			return v.loadRefs(ctx, scope, log)
		}
	}
	behind := v.atOf(scope) > rows.Seq
	var x sequencer.Writes // the view's own once it is installed
	var lacks sequencer.Seq
	var count topology.WriteCount
	err := log.Follow(ctx, v.Workspace, 0, func(o *sequencer.Outcome, _ streams.Way) error {
		for i := range o.Shards {
			w := &o.Shards[i]
			if w.Scope == scope || takesAway(o, w) && w.Scope.Covers(scope) {
				x.Apply(o.Seq, w)
				lacks = x.Missing()
				count.Add(o.Seq, o.Seq-1, len(x.List) == 0 || x.List[len(x.List)-1].Absent)
			}
		}
		if v.install(scope, &x, &count, o.Seq) {
			return errHave
		}
		return nil
	})
	switch {
	case errors.Is(err, errHave) && lacks != 0: // the same log would be read again and again, and lack it each time
		return fmt.Errorf("%w: the content of %d", errNowhere, lacks)
	case errors.Is(err, errHave):
		return v.loadRefs(ctx, scope, log)
	case errors.Is(err, streams.ErrGone) && behind:
		return errTableBehind
	}
	return err
}

// atOf is the decision that made a shard what it is.
func (v *View) atOf(scope sequencer.Scope) sequencer.Seq {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.shards[scope].now.At
}

// install gives a shard its writes as of a seq and their number, which is unknown of a shard that may have been empty
// in between, if it has none behind that and the view has come as far.
func (v *View) install(scope sequencer.Scope, x *sequencer.Writes, count *topology.WriteCount, at sequencer.Seq) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.shards[scope]
	if s.writes != nil && (at < s.now.At || at > v.seq) {
		return false
	}
	if s.writes != nil {
		s.writes = x
		s.count = count.Clone()
		s.now.Writes = s.count.Writes
		v.refresh(scope, s)
	}
	return true
}

// lose notes that the log no longer has what a shard's deltas rest on: who reads it is told, until it is written.
func (v *View) lose(scope sequencer.Scope) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.unfolded, scope)
	if s := v.shards[scope]; s.writes != nil && s.now.Lacks {
		s.lost, s.now.Lost = true, true
	}
}
