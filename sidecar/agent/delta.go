package agent

import (
	"context"
	"strconv"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/view"
)

// merges is the logic of the fold from which on writes merge. An older one takes a delta for the content.
const merges = 4

// opOf is how a write changes the content.
func opOf(text string) (sequencer.Op, error) {
	switch text {
	case "":
		return sequencer.OpSet, nil
	case "append":
		return sequencer.OpAppend, nil
	case "add":
		return sequencer.OpAdd, nil
	case "union":
		return sequencer.OpUnion, nil
	}
	return 0, api.Problemf(api.CodeBadRequest, "op is %.40q: send append, add or union, or leave it out", text)
}

// checkDelta makes the shard write of a delta, together with what the transaction writes there already.
func (s *Agent) checkDelta(ctx context.Context, t *tx, w writing) (*sequencer.ShardWrite, error) {
	now := s.view.Settings()
	switch {
	case w.expect != nil: // it goes with whatever is there: what depends on a version has been read
		return nil, api.Problemf(api.CodeBadRequest, "a write with op %s expects no version: leave out if_version and "+
			"If-Match, or write the whole content", w.op)
	case !now.Exact:
		return nil, api.Problemf(api.CodeNotReady, "the rules of the workspace are not known here yet")
	case now.Rules.Logic < merges: // its processors would write the delta over the content
		return nil, api.Problemf(api.CodeBadRequest, "the workspace follows logic %d, and op needs logic %d: hence rules "+
			"set --logic %d, once all processors and sidecars have this release", now.Rules.Logic, merges, merges)
	case len(w.content) > int(now.Rules.MaxInline):
		return nil, api.Problemf(api.CodeTooLarge, "a delta has at most %d bytes, and this one has %d",
			now.Rules.MaxInline, len(w.content))
	}
	if w.op == sequencer.OpAdd {
		if _, err := strconv.ParseInt(string(w.content), 10, 64); err != nil {
			return nil, api.Problemf(api.CodeBadRequest, "what is added is %.40q: send an int64 in decimal digits, such as "+
				"1 or -20", w.content)
		}
	}
	delta := &sequencer.ShardWrite{Scope: w.scope, Type: w.media, Content: w.content, Op: w.op}
	if old := t.write(w.scope); old != nil {
		both, err := s.together(ctx, old, delta)
		if err != nil || both.Op == sequencer.OpSet {
			return both, err
		}
		if delta = both; len(delta.Content) > int(now.Rules.MaxInline) {
			return nil, api.Problemf(api.CodeTooLarge, "the deltas of the transaction at %s have %d bytes together; at most "+
				"%d go into one", w.scope, len(delta.Content), now.Rules.MaxInline)
		}
	}
	if n := t.inlineWith(delta); n > int(now.Rules.MaxInlineTotal) {
		return nil, api.Problemf(api.CodeLimit, "the transaction would carry %d bytes of contents, and %d go into one", n,
			now.Rules.MaxInlineTotal)
	}
	full := t.write(w.scope) == nil && t.size() >= s.view.FootprintLimit()
	if full {
		return nil, api.Problemf(api.CodeLimit, "the transaction names %d scopes already", s.view.FootprintLimit())
	}
	return delta, s.goesWith(ctx, delta)
}

// together is one write in place of two of a transaction at one shard: a decision has one of each.
func (s *Agent) together(ctx context.Context, old, delta *sequencer.ShardWrite) (*sequencer.ShardWrite, error) {
	if old.Op != sequencer.OpSet && old.Op != delta.Op {
		return nil, api.Problemf(api.CodeBadRequest, "the transaction has a write with op %s at %s: one with op %s goes "+
			"into another transaction", old.Op, old.Scope, delta.Op)
	}
	if old.Ref != nil && old.Ref.Size > sequencer.MaxMerged {
		return nil, unmergeable(delta)
	}
	was, err := s.content(ctx, view.Revision{Version: 1, Content: old.Content, Ref: old.Ref})
	if err != nil {
		return nil, err
	}
	out := *old
	merged, ok := delta.Op.Merge(was, delta.Content)
	if !ok {
		return nil, unmergeable(delta)
	}
	out.Content, out.Ref = merged, nil
	return &out, nil
}

// goesWith refuses a delta that would be left out of the content as it is now. That is no read: others may write
// before it, and then it is left out by all who show the shard.
func (s *Agent) goesWith(ctx context.Context, delta *sequencer.ShardWrite) error {
	look := func() *reading { return s.look(delta.Scope, 0) }
	if err := s.fetched(ctx, look); err != nil {
		return err
	}
	rev := look().rev
	size, add := rev.Size()+int64(len(delta.Content))+2, delta.Op == sequencer.OpAdd
	switch {
	case !add && size <= sequencer.MaxMerged:
		return nil
	case rev.Size() > sequencer.MaxMerged:
		return unmergeable(delta)
	}
	body, err := s.content(ctx, rev)
	if err != nil {
		return err
	}
	if _, ok := delta.Op.Merge(body, delta.Content); !ok {
		return unmergeable(delta)
	}
	return nil
}

func unmergeable(delta *sequencer.ShardWrite) error {
	p := api.Problemf(api.CodeNotMergeable, "with it %s would have more than %d bytes; write its content anew",
		delta.Scope, sequencer.MaxMerged)
	if delta.Op == sequencer.OpAdd {
		p = api.Problemf(api.CodeNotMergeable, "%s cannot be added to what %s holds: that is no int64 in decimal digits, "+
			"or the sum would not be one", delta.Content, delta.Scope)
	}
	p.Scope = string(delta.Scope)
	return p
}

// withDelta shows a read what the transaction's own delta makes of it. The read counts: whoever looks at the content
// rests on it, and not on the delta alone.
func (s *Agent) withDelta(ctx context.Context, got *reading, mine *sequencer.ShardWrite) error {
	var body []byte
	if got.rev.Version != 0 {
		var err error
		if body, err = s.content(ctx, got.rev); err != nil {
			return err
		}
	} else {
		got.rev.Media = mine.Type
	}
	merged, ok := mine.Op.Merge(body, mine.Content)
	if !ok { // somebody else came first: it would be left out
		return unmergeable(mine)
	}
	got.rev.Content, got.rev.Ref, got.pending = merged, nil, true
	return nil
}
