package view

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// Lack is a revision whose content the view has not: a retraction put it back, and named the decision that carries it.
type Lack struct {
	scope sequencer.Scope
	At    sequencer.Seq // of the revision
	From  sequencer.Seq // the decision
}

const (
	waitContent = "content"
	// restoreWait is how long a read waits for such a content: JetStream gives it at once, a long log may take longer.
	restoreWait = 10 * time.Second
)

// recall gives a revision the content of an older one that the view still has; else it is to be fetched. v.mu is held.
func (v *View) recall(s *shard, scope sequencer.Scope, r *Revision) {
	if s != nil {
		for _, had := range slices.Backward(append(slices.Clone(s.former), s.now)) {
			if had.carrier() == r.From && !had.Lacks {
				r.Media, r.Content, r.Ref, r.Lacks = had.Media, had.Content, had.Ref, false
				return
			}
		}
		if r.At <= s.now.At {
			return // it is dropped
		}
	}
	v.lacking[Lack{scope, r.At, r.From}] = errFetching
}

// errFetching is why a content is not there before it was tried.
var errFetching = errors.New("it is being fetched")

// fill gives a revision its content; nil: the log no longer has it. A revision forgotten meanwhile needs none.
func (v *View) fill(l Lack, w *sequencer.ShardWrite) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.lacking, l)
	s := v.shards[l.scope]
	for i := range s.former {
		if r := &s.former[i]; r.At == l.At && r.give(w) {
			v.oldSize += int64(len(r.Content))
		}
	}
	if s.now.At == l.At {
		s.now.give(w)
	}
}

func (r *Revision) give(w *sequencer.ShardWrite) bool {
	if !r.Lacks || w == nil {
		r.Lost = r.Lacks
		return false
	}
	r.Media, r.Content, r.Ref, r.Lacks = w.Type, w.Content, w.Ref, false
	return true
}

// allLacks are the contents to be fetched now, by the decision that carries them.
func (v *View) allLacks() []Lack {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return slices.SortedFunc(maps.Keys(v.lacking), func(a, b Lack) int { return cmp.Compare(a.From, b.From) })
}

// FetchContents fetches what retractions have put back, beside the view, which goes on. Since logic 3 a turn's
// decision names the one that carries the content. The view takes it from a revision that it still has; else the log
// is followed from the oldest such decision to the newest, once for all that are missing then. A read of such a
// shard waits for restoreWait. What the log no longer has is in the row of the table of scopes, or it is lost: then a
// read is `forgotten` and a list says so.
func (v *View) FetchContents(ctx context.Context, log Source, say *slog.Logger) {
	pause := PauseLeast
	for {
		var all []Lack
		var unfolded []sequencer.Scope
		some := func() bool {
			all, unfolded = v.allLacks(), v.allUnfolded()
			return len(all)+len(unfolded) > 0
		}
		if v.Waits.Until(ctx, WaitSeq, some) != nil {
			return
		}
		if v.fold(ctx, unfolded, log, say) != nil {
			if !Sleep(ctx, pause) { // the log or the table is away, or behind
				return
			}
			pause = min(2*pause, PauseMost)
		} else if len(all) == 0 {
			pause = PauseLeast
			continue
		}
		f := &fetch{view: v, log: log, say: say, left: all}
		for len(f.left) > 0 {
			had := len(f.left)
			err := f.pass(ctx)
			if len(f.left) < had {
				pause = PauseLeast
			}
			if err == nil {
				continue
			}
			v.noteLacks(f.left, err)
			v.Waits.Wake(waitContent)
			if !Sleep(ctx, pause) { // the log or the table is away: it is asked again
				return
			}
			pause = min(2*pause, PauseMost)
			break // by now there may be others before these
		}
	}
}

// noteLacks keeps why contents are not there yet.
func (v *View) noteLacks(left []Lack, why error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, l := range left {
		v.lacking[l] = why
	}
}

var (
	// errNotCarried: the decision is there and is not what was named.
	errNotCarried = errors.New("the decision does not carry the content")
	// errNowhere: a log that was read from its beginning has not written what a decision puts back.
	errNowhere = errors.New("no decision of the log carries it")
	// errHave ends the following of the log once all is here.
	errHave = errors.New("it is here")
	// errTableBehind: what the log no longer has may be in the table, which is to show that retraction first.
	errTableBehind = errors.New("the log no longer has it, and the table of scopes is behind")
)

// fetch brings some contents in one reading of the log, however many they are.
type fetch struct {
	view *View
	log  Source
	say  *slog.Logger
	left []Lack             // by the decision that carries them
	rows *topology.Snapshot // what the table has, once the log no longer had something
}

// pass follows the log from the first decision that is left to the last, or to one that is gone.
func (f *fetch) pass(ctx context.Context) error {
	at := f.left[0].From - 1
	err := f.log.Follow(ctx, f.view.Workspace, at, func(o *sequencer.Outcome, _ streams.Way) error {
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
	for ; n < len(f.left) && f.left[n].From <= o.Seq; n++ {
		w, err := f.view.carried(f.left[n], o)
		if w != nil && w.Op != sequencer.OpSet {
			f.view.unfold(f.left[n]) // the content as of there is more than that delta
			continue
		}
		f.give(f.left[n], w, err)
	}
	if f.left = f.left[n:]; n > 0 {
		f.view.Waits.Wake(waitContent)
	}
}

// give gives a revision its content; nil: it is lost.
func (f *fetch) give(l Lack, w *sequencer.ShardWrite, cause error) {
	if w == nil {
		f.say.Error("the content that a retraction put back is not in the log any more", "shard", string(l.scope),
			"version", l.At, "decision", l.From, "cause", cause)
	}
	f.view.fill(l, w)
}

// gone gives what the table of scopes has held, since the log begins behind a decision. What neither has is lost.
func (f *fetch) gone(ctx context.Context, seq sequencer.Seq, cause error) error {
	if f.rows == nil {
		rows, err := f.log.Snapshot(ctx, f.view.Workspace)
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
	f.left = slices.DeleteFunc(f.left, func(l Lack) bool {
		row := rows[l.scope]
		switch {
		case row != nil && row.Held && row.Restored == l.From:
			f.give(l, &sequencer.ShardWrite{Type: row.Type, Content: row.Content, Ref: row.Ref}, nil)
			return true
		case l.From > seq: // the log may have it
			return false
		case f.rows.Seq < l.At && (row == nil || row.Version < l.At):
			behind = errTableBehind
			return false
		}
		f.give(l, nil, cause)
		return true
	})
	f.view.Waits.Wake(waitContent)
	return behind
}

// carried is what a decision carries of a shard.
func (v *View) carried(l Lack, o *sequencer.Outcome) (*sequencer.ShardWrite, error) {
	if o.Seq != l.From || o.Workspace != v.Workspace || !v.isOurs(o) {
		return nil, fmt.Errorf("%w: decision %d of the chain is another one", errNotCarried, l.From)
	}
	for i := range o.Shards {
		if w := &o.Shards[i]; w.Scope == l.scope && !w.Absent && w.Restored == 0 && w.Removes == 0 {
			return w, nil
		}
	}
	return nil, fmt.Errorf("%w: decision %d writes nothing at %s", errNotCarried, l.From, l.scope)
}

// isOurs reports whether a decision is the one of its seq, as far as the view remembers the chain.
func (v *View) isOurs(o *sequencer.Outcome) bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if chain, known := v.chainAt(o.Seq); known && chain != o.Chain {
		return false
	}
	before, known := v.chainAt(o.Seq - 1)
	return !known || o.ChainAfter(before) == o.Chain
}

// LacksOf are the contents that are still to be fetched for some shards.
func LacksOf(list []Named) (out []Lack) {
	for i := range list {
		if n := &list[i]; n.Lacks && !n.Lost {
			out = append(out, Lack{n.Scope, n.At, n.From})
		}
	}
	return out
}

// Whole waits until nothing is missing.
func (v *View) Whole(ctx context.Context, missing func() []Lack) error {
	short, cancel := context.WithTimeout(ctx, restoreWait)
	defer cancel()
	var left []Lack
	err := v.Waits.Until(short, waitContent, func() bool {
		left = missing()
		return len(left) == 0
	})
	if err == nil || ctx.Err() != nil || errors.Is(err, api.ErrStopped) {
		return err
	}
	p := BeingFetched(left[0])
	v.mu.RLock()
	defer v.mu.RUnlock()
	if why := cmp.Or(v.lacking[left[0]], v.unfolded[left[0].scope]); why != nil {
		p.Detail += ": " + why.Error()
	}
	return p
}

// BeingFetched refuses a read of a content that is not there yet.
func BeingFetched(l Lack) *api.Problem {
	return api.Problemf(api.CodeLog, "the content is what decision %d wrote, and that is still being fetched from the "+
		"log", l.From)
}

// contents keeps fetched contents, the oldest ones are dropped first.
type contents struct {
	limit int64

	mu    sync.Mutex
	size  int64
	bySum map[sequencer.Hash][]byte
	order []sequencer.Hash
}

func newContents(limit int64) *contents {
	return &contents{limit: limit, bySum: map[sequencer.Hash][]byte{}}
}

func (c *contents) Get(sum sequencer.Hash) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	body, ok := c.bySum[sum]
	return body, ok
}

func (c *contents) Put(sum sequencer.Hash, body []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.bySum[sum]; known {
		return
	}
	c.bySum[sum] = body
	c.order = append(c.order, sum)
	c.size += int64(len(body))
	for c.size > c.limit && len(c.order) > 1 {
		c.size -= int64(len(c.bySum[c.order[0]]))
		delete(c.bySum, c.order[0])
		c.order = c.order[1:]
	}
}
