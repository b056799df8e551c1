package sidecar

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/streams"
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

// nextLack is one content to be fetched.
func (v *view) nextLack() (lack, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for l := range v.lacking {
		return l, true
	}
	return lack{}, false
}

// fetchContents fetches what retractions have put back, one after the other and beside the view, which goes on.
func (s *Sidecar) fetchContents(ctx context.Context) {
	pause := pauseLeast
	for {
		var l lack
		some := false
		next := func() bool {
			l, some = s.view.nextLack()
			return some
		}
		if s.view.waits.until(ctx, waitSeq, next) != nil {
			return
		}
		w, err := s.carried(ctx, l)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, streams.ErrGone), errors.Is(err, errNotCarried):
			s.log.Error("the content that a retraction put back is not in the log any more", "shard", string(l.scope),
				"version", l.at, "decision", l.from, "cause", err)
			fallthrough
		case err == nil:
			s.view.fill(l, w)
			pause = pauseLeast
		default:
			s.view.noteLack(l, err)
			if !sleep(ctx, pause) { // the log is away: it is asked again
				return
			}
			pause = min(2*pause, pauseMost)
		}
		s.view.waits.wake(waitContent)
	}
}

// noteLack keeps why a content is not there yet.
func (v *view) noteLack(l lack, why error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lacking[l] = why
}

var (
	// errNotCarried: the decision is there and is not what was named.
	errNotCarried = errors.New("the decision does not carry the content")
	// errHave ends the following of the log at the first decision.
	errHave = errors.New("it is here")
)

// carried reads what a decision carries of a shard from the log.
func (s *Sidecar) carried(ctx context.Context, l lack) (*sequencer.ShardWrite, error) {
	var o *sequencer.Outcome
	err := s.events.Follow(ctx, s.config.Workspace, l.from-1, func(got *sequencer.Outcome, _ streams.Way) error {
		o = got
		return errHave
	})
	if o == nil {
		return nil, err
	}
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
