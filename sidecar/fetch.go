package sidecar

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
	"github.com/hence-dev/hence/topology/pause"
)

// lack is a revision whose content the view has not: a retraction put it back, and named the decision that carries it.
type lack struct {
	scope sequencer.Scope
	at    sequencer.Seq // of the revision
	from  sequencer.Seq // the decision
}

const (
	waitContent = "content"
	// restoreWait is how long a read waits for such a content: JetStream gives it at once, a long log may take longer.
	restoreWait = 10 * time.Second
)

// recall gives a revision the content of an older one that the view still has; else it is to be fetched. v.mu is held.
func (v *view) recall(s *shard, scope sequencer.Scope, r *revision) {
	if s != nil {
		for _, had := range append(slices.Clone(s.former), s.now) {
			if had.carrier() == r.from && !had.lacks {
				r.media, r.content, r.ref, r.lacks = had.media, had.content, had.ref, false
				return
			}
		}
		if r.at <= s.now.at {
			return // it is dropped
		}
	}
	v.lacking[lack{scope, r.at, r.from}] = errFetching
}

// errFetching is why a content is not there before it was tried.
var errFetching = errors.New("it is being fetched")

// fill gives a revision its content; nil: the log has it no more. A revision that was forgotten meanwhile needs none.
func (v *view) fill(l lack, w *sequencer.ShardWrite) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.lacking, l)
	s := v.shards[l.scope]
	for i := range s.former {
		if r := &s.former[i]; r.at == l.at && r.give(w) {
			v.oldSize += int64(len(r.content))
		}
	}
	if s.now.at == l.at {
		s.now.give(w)
	}
}

func (r *revision) give(w *sequencer.ShardWrite) bool {
	if !r.lacks || w == nil {
		r.lost = r.lacks
		return false
	}
	r.media, r.content, r.ref, r.lacks = w.Type, w.Content, w.Ref, false
	return true
}

// allLacks are the contents to be fetched now, by the decision that carries them.
func (v *view) allLacks() []lack {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return slices.SortedFunc(maps.Keys(v.lacking), func(a, b lack) int { return cmp.Compare(a.from, b.from) })
}

// fetchContents fetches what retractions have put back, beside the view, which goes on.
func (s *Sidecar) fetchContents(ctx context.Context) {
	pauses := pause.Doubling{Least: pauseLeast, Most: pauseMost}
	for {
		var all []lack
		some := func() bool {
			all = s.view.allLacks()
			return len(all) > 0
		}
		if s.view.waits.until(ctx, waitSeq, some) != nil {
			return
		}
		f := &fetch{s: s, left: all}
		for len(f.left) > 0 {
			had := len(f.left)
			err := f.pass(ctx)
			if len(f.left) < had {
				pauses.Reset()
			}
			if err == nil {
				continue
			}
			s.view.noteLacks(f.left, err)
			s.view.waits.wake(waitContent)
			if pause.Sleep(ctx, pauses.Next()) != nil { // the log or the table is away: it is asked again
				return
			}
			break // by now there may be others before these
		}
	}
}

// noteLacks keeps why contents are not there yet.
func (v *view) noteLacks(left []lack, why error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, l := range left {
		v.lacking[l] = why
	}
}

var (
	// errNotCarried: the decision is there and is not what was named.
	errNotCarried = errors.New("the decision does not carry the content")
	// errHave ends the following of the log once all is here.
	errHave = errors.New("it is here")
	// errTableBehind: what the log has no more may be in the table, which is to show that retraction first.
	errTableBehind = errors.New("the log has it no more, and the table of scopes is behind")
)

// fetch brings some contents in one reading of the log, however many they are.
type fetch struct {
	s    *Sidecar
	left []lack             // by the decision that carries them
	rows *topology.Snapshot // what the table has, once the log had something no more
}

// pass follows the log from the first decision that is left to the last, or to one that is gone.
func (f *fetch) pass(ctx context.Context) error {
	at := f.left[0].from - 1
	err := f.s.events.Follow(ctx, f.s.config.Workspace, at, func(o *sequencer.Outcome, _ streams.Way) error {
		at = o.Seq
		f.take(o)
		if len(f.left) == 0 {
			return errHave
		}
		return nil
	})
	switch {
	case len(f.left) == 0:
		return nil
	case errors.Is(err, streams.ErrGone):
		return f.gone(ctx, at+1, err)
	}
	return err
}

// take gives what a decision carries, and what is said to be in a decision that was passed, to those that lack it.
func (f *fetch) take(o *sequencer.Outcome) {
	n := 0
	for ; n < len(f.left) && f.left[n].from <= o.Seq; n++ {
		w, err := f.s.carried(f.left[n], o)
		f.give(f.left[n], w, err)
	}
	if f.left = f.left[n:]; n > 0 {
		f.s.view.waits.wake(waitContent)
	}
}

// give gives a revision its content; nil: it is lost.
func (f *fetch) give(l lack, w *sequencer.ShardWrite, cause error) {
	if w == nil {
		f.s.log.Error("the content that a retraction put back is not in the log any more", "shard", string(l.scope),
			"version", l.at, "decision", l.from, "cause", cause)
	}
	f.s.view.fill(l, w)
}

// gone gives what the table of scopes has held, since the log begins behind a decision. What neither has is lost.
func (f *fetch) gone(ctx context.Context, seq sequencer.Seq, cause error) error {
	if f.rows == nil {
		rows, err := f.s.events.Snapshot(ctx, f.s.config.Workspace)
		if err != nil {
			return err
		}
		f.rows = rows
	}
	rows := make(map[sequencer.Scope]*topology.ShardRow, len(f.rows.Shards))
	for i := range f.rows.Shards {
		rows[f.rows.Shards[i].Scope] = &f.rows.Shards[i]
	}
	var behind error
	f.left = slices.DeleteFunc(f.left, func(l lack) bool {
		row := rows[l.scope]
		switch {
		case row != nil && row.Held && row.Restored == l.from:
			f.give(l, &sequencer.ShardWrite{Type: row.Type, Content: row.Content, Ref: row.Ref}, nil)
			return true
		case l.from > seq: // the log may have it
			return false
		case f.rows.Seq < l.at && (row == nil || row.Version < l.at):
			behind = errTableBehind
			return false
		}
		f.give(l, nil, cause)
		return true
	})
	f.s.view.waits.wake(waitContent)
	return behind
}

// carried is what a decision carries of a shard.
func (s *Sidecar) carried(l lack, o *sequencer.Outcome) (*sequencer.ShardWrite, error) {
	if o.Seq != l.from || o.Workspace != s.config.Workspace || !s.view.isOurs(o) {
		return nil, fmt.Errorf("%w: decision %d of the chain is another one", errNotCarried, l.from)
	}
	for i := range o.Shards {
		if w := &o.Shards[i]; w.Scope == l.scope && !w.Absent && w.Restored == 0 {
			return w, nil
		}
	}
	return nil, fmt.Errorf("%w: decision %d writes nothing at %s", errNotCarried, l.from, l.scope)
}

// isOurs reports whether a decision is the one of its seq, as far as the view remembers the chain.
func (v *view) isOurs(o *sequencer.Outcome) bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if chain, known := v.chainAt(o.Seq); known && chain != o.Chain {
		return false
	}
	before, known := v.chainAt(o.Seq - 1)
	return !known || o.ChainAfter(before) == o.Chain
}

// lacks are the contents that a reading shows and that are not there yet.
func (r *reading) lacks() []lack {
	list := []named{{r.scope, r.rev}}
	if r.page != nil {
		list = append(append(list, r.page.items...), r.page.last)
	}
	return lacksOf(list)
}

func lacksOf(list []named) (out []lack) {
	for i := range list {
		if n := &list[i]; n.lacks && !n.lost {
			out = append(out, lack{n.scope, n.at, n.from})
		}
	}
	return out
}

// fetched waits until a reading of the view shows no content that is not there yet. Of what the log has no more a list
// says so, and a read of it is refused: no empty content may be taken for it.
func (s *session) fetched(ctx context.Context, look func() *reading) error {
	return s.view.whole(ctx, func() []lack { return look().lacks() })
}

// whole is a reading that binds nothing, once it shows no content that is not there yet.
func (s *session) whole(ctx context.Context, look func() *reading) (got *reading, err error) {
	err = s.fetched(ctx, func() *reading {
		got = look()
		return got
	})
	return got, err
}

// revisions are what is remembered of a shard, once each has its content.
func (s *session) revisions(ctx context.Context, scope sequencer.Scope,
) (list []revision, at sequencer.Seq, err error) {
	err = s.view.whole(ctx, func() []lack {
		list, at = s.view.revisions(scope)
		all := make([]named, len(list))
		for i := range list {
			all[i] = named{scope, list[i]}
		}
		return lacksOf(all)
	})
	return list, at, err
}

// whole waits until nothing is missing.
func (v *view) whole(ctx context.Context, missing func() []lack) error {
	short, cancel := context.WithTimeout(ctx, restoreWait)
	defer cancel()
	var left []lack
	err := v.waits.until(short, waitContent, func() bool {
		left = missing()
		return len(left) == 0
	})
	if err == nil || ctx.Err() != nil || errors.Is(err, ErrStopped) {
		return err
	}
	p := beingFetched(left[0])
	v.mu.RLock()
	defer v.mu.RUnlock()
	if why := v.lacking[left[0]]; why != nil {
		p.Detail += ": " + why.Error()
	}
	return p
}

// beingFetched refuses a read of a content that is not there yet.
func beingFetched(l lack) *api.Problem {
	return problem(codeLog, "a retraction put back what decision %d wrote, and that is still being fetched from the log",
		l.from)
}
