package agent

import (
	"context"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/sidecar/view"
	"github.com/hence-dev/hence/topology"
)

// reading is an answered read.
type reading struct {
	scope     sequencer.Scope
	also      []sequencer.Scope // patterns: those that stand for stored names beside it
	rev       view.Revision
	view      sequencer.Seq
	pending   bool
	page      *view.Page // patterns
	later     bool       // it is not the first page
	overtaken *api.Overtaken
	talk      string     // of a loose one: the conversation
	told      bool       // by a model: the conversation has not read it itself
	rest      []*reading // what was read with it, at the same view
	shown     bool       // the agent was told before: no answer rests on it, so its record may rest until the seal
}

// lacks are the contents that a reading shows and that are not there yet.
func (r *reading) lacks() []view.Lack {
	list := []view.Named{{Scope: r.scope, Revision: r.rev}}
	if r.page != nil {
		list = append(append(list, r.page.Items...), r.page.Last)
	}
	out := view.LacksOf(list)
	for _, other := range r.rest {
		out = append(out, other.lacks()...)
	}
	return out
}

// fetched waits until all content that a reading of the view shows is there. Where the log no longer has it, a list
// says so and a read is refused: no empty content may be taken for it.
func (s *Agent) fetched(ctx context.Context, look func() *reading) error {
	return s.wholeView(ctx, func() []view.Lack { return look().lacks() })
}

// wholeView waits until nothing is missing; missing reads the view alone.
func (s *Agent) wholeView(ctx context.Context, missing func() []view.Lack) (err error) {
	if len(missing()) == 0 {
		return nil
	}
	s.loop.Do(func() { err = s.view.Whole(ctx, missing) }) // the log may no longer have it, or be away
	return err
}

// read answers one read of an open transaction, once it holds the scope for an access: for writing, that is as if
// no other transaction ran from the read to the decision.
func (s *Agent) read(ctx context.Context, t *tx, scope sequencer.Scope, list int, as sequencer.Access) (*reading,
	error) {
	if err := s.enter(ctx, t); err != nil {
		return nil, err
	}
	defer s.leave(t)
	return s.readIn(ctx, t, scope, list, as)
}

// readIn answers one read of a transaction that the caller has entered.
func (s *Agent) readIn(ctx context.Context, t *tx, scope sequencer.Scope, list int, as sequencer.Access) (*reading,
	error) {
	want := []sequencer.Scope{scope}
	if list > 0 {
		want = append(want, s.view.Spelt(scope)...)
	}
	if err := s.prepareAs(ctx, t, as, want...); err != nil {
		return nil, err
	}
	if err := s.fetched(ctx, func() *reading { return s.look(scope, list) }); err != nil {
		return nil, err
	}
	if err := s.usable(t); err != nil {
		return nil, err
	}
	mine := t.write(scope)
	if mine != nil && list == 0 && mine.Op == sequencer.OpSet {
		own := view.Revision{Writer: t.id, Media: mine.Type, Content: mine.Content, Ref: mine.Ref}
		return &reading{scope: scope, rev: own, view: s.view.At(), pending: true, overtaken: t.overtaken}, nil
	}
	if t.size()+len(want) > s.view.FootprintLimit() {
		return nil, api.Problemf(api.CodeLimit, "the transaction names %d scopes already; read a pattern instead", t.size())
	}
	got := s.look(scope, list)
	if len(got.lacks()) > 0 {
		return nil, view.BeingFetched(got.lacks()[0])
	}
	entries, err := s.deliverAll(ctx, t.id, got)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		t.reads = journal.AddRead(t.reads, entry)
	}
	got.overtaken = t.overtaken
	if mine != nil && list == 0 {
		return got, s.withDelta(ctx, got, mine)
	}
	return got, nil
}

// look reads the view. The seq it returns is the view's when the read left, whatever happens to its answer later.
func (s *Agent) look(scope sequencer.Scope, list int) *reading {
	if list == 0 {
		rev, at := s.view.Read(scope)
		return &reading{scope: scope, rev: rev, view: at}
	}
	return s.lookAt(scope, "", list)
}

// lookAt reads a page of what a pattern means in the view.
func (s *Agent) lookAt(pattern, after sequencer.Scope, limit int) *reading {
	also := s.view.Spelt(pattern)
	p := s.view.List(append([]sequencer.Scope{pattern}, also...), after, limit)
	return &reading{scope: pattern, also: also, view: p.View, page: &p, later: after != ""}
}

// deliverAll delivers a read once for each scope that it means.
func (s *Agent) deliverAll(ctx context.Context, id sequencer.TxID, got *reading) (out []sequencer.Read, err error) {
	for _, scope := range append([]sequencer.Scope{got.scope}, got.also...) {
		one := *got
		one.scope = scope
		entry, err := s.deliver(ctx, id, &one)
		if err != nil {
			return nil, err
		}
		out = append(out, entry)
	}
	for _, other := range got.rest {
		other.talk = got.talk
		more, err := s.deliverAll(ctx, id, other)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
}

// deliver puts a read into the delivery log and returns it as a footprint names it.
func (s *Agent) deliver(ctx context.Context, id sequencer.TxID, got *reading) (sequencer.Read, error) {
	shown := got.rev
	if got.page != nil {
		shown = got.page.Last.Revision
	}
	read := sequencer.Read{Scope: got.scope, View: got.view, Version: shown.Version, Writer: shown.Writer}
	event := &topology.Event{
		Kind: topology.EventRead, Workspace: s.workspace, Tx: id, Agent: s.agent, Incarnation: s.incarnation,
		AtMs: s.clock.Now().UnixMilli(), Scope: read.Scope, View: read.View, Version: read.Version, Writer: read.Writer,
		MediaType: shown.Media, Size: shown.Size(), SHA256: shown.Sum(), Traceparent: traceOf(ctx),
		Session: got.talk,
	}
	if t := s.active[id]; t != nil {
		s.covered.Read(t.begin.Session, string(read.Scope), s.clock.Now())
	} else if !got.told {
		s.covered.Read(got.talk, string(read.Scope), s.clock.Now())
	}
	if got.shown {
		return read, s.delivery.RestEvent(event)
	}
	return read, s.delivery.Event(event, nil)
}

// merges is the logic of the fold from which on writes merge. An older one takes a delta for the content.
const merges = 4

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
	p := api.Problemf(api.CodeNotMergeable, "with it %s would have more than %d bytes; write its whole content",
		delta.Scope, sequencer.MaxMerged)
	if delta.Op == sequencer.OpAdd {
		p = api.Problemf(api.CodeNotMergeable, "%s cannot be added to what %s holds: that is no int64 in decimal digits, "+
			"or the sum would not be one", delta.Content, delta.Scope)
	}
	p.Scope = string(delta.Scope)
	return p
}

// withDelta shows a read what the transaction's own delta makes of it. The read counts: a client that sees the
// content relies on it, and not on the delta alone.
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
	if !ok { // another write came first: this delta would be left out
		return unmergeable(mine)
	}
	got.rev.Content, got.rev.Ref, got.pending = merged, nil, true
	return nil
}
