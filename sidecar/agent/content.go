package agent

import (
	"context"
	"crypto/sha256"
	"errors"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/sidecar/loop"
	"github.com/hence-dev/hence/sidecar/view"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// Contents that a seal names by their place in the events topic. Up to ChunkBytes one event has it; since logic 4 a
// larger one is a chain: its parts follow one another, each published once the one before is acknowledged, and the
// write is taken when the last one is. So no seal names a chain that is not whole; what a crash or a refusal leaves
// behind is neither named nor read, and goes with its topic's records of that time.

// chainsFrom is the logic of the fold from which on a content may be a chain of events. An older one reads the first.
const chainsFrom = 4

// mostInOne is the longest content that one event takes.
const mostInOne = journal.MaxSpread - 8<<10

// keepContent puts a content into the events topic and returns once all of it is there.
func (s *Agent) keepContent(ctx context.Context, t *tx, w *sequencer.ShardWrite) (*sequencer.Ref, error) {
	now := s.view.Settings()
	if len(w.Content) > sequencer.ChunkBytes && now.Exact && now.Rules.Chains() {
		defer s.mark() // until then the journal has its parts in memory, and with them all of it
		return s.keepChain(ctx, t, w)
	}
	return s.keepBody(ctx, t, w.Scope, w.Type, w.Content)
}

// keepChain is keepContent of what is a chain. One part after the other: readers take a later one that is there
// without the one before for proof that this is lost, and no more than one part waits in memory and journal.
func (s *Agent) keepChain(ctx context.Context, t *tx, w *sequencer.ShardWrite) (*sequencer.Ref, error) {
	body := w.Content
	of, err := loop.Do(s.loop, func() (sequencer.Hash, error) { // others go on meanwhile
		return sha256.Sum256(body), nil
	})
	if err != nil {
		return nil, err
	}
	ref := &sequencer.Ref{Size: int64(len(body)), SHA256: of, Chunks: sequencer.ChunksOf(int64(len(body)))}
	for at := 0; at < len(body); at += sequencer.ChunkBytes {
		if err := s.usable(t); err != nil { // it was decided meanwhile: the rest would have no reader
			return nil, err
		}
		ev, _ := journal.ContentEvent(body[at:min(at+sequencer.ChunkBytes, len(body))])
		ev.Chunk = &topology.Chunk{At: int64(at), Of: of}
		place, err := s.keepEvent(ctx, t, w.Scope, w.Type, ev)
		if err != nil {
			return nil, err
		}
		if at == 0 {
			ref.Partition, ref.Offset = place.Partition, place.Offset
		}
		ref.Last = place.Offset
	}
	return ref, nil
}

func (s *Agent) keepBody(ctx context.Context, t *tx, scope sequencer.Scope, media string,
	body []byte) (*sequencer.Ref, error) {
	ev, ref := journal.ContentEvent(body)
	at, err := s.keepEvent(ctx, t, scope, media, ev)
	if err != nil {
		return nil, err
	}
	ref.Partition, ref.Offset = at.Partition, at.Offset
	return ref, nil
}

// keepEvent publishes an event with a content and returns its place once it is acknowledged.
func (s *Agent) keepEvent(ctx context.Context, t *tx, scope sequencer.Scope, media string, ev *topology.Event) (
	at sequencer.Place, err error) {
	ev.Workspace, ev.Tx, ev.Agent, ev.Incarnation = s.workspace, t.id, s.agent, t.incarnation
	ev.AtMs, ev.Scope, ev.MediaType = s.clock.Now().UnixMilli(), scope, media
	there := false
	err = s.delivery.Event(ev, func(place sequencer.Place) { // outside of the loop
		s.loop.Run(func() {
			at, there = place, true
			s.loop.Moved(&t.changed)
		})
	})
	if err != nil {
		return at, err
	}
	err = s.through(ctx, t, func() bool { return there }) // what names it comes after it
	if err != nil {
		return at, api.Problemf(api.CodeLog, "the content of %s is not in the events topic yet: %v", scope, err)
	}
	return at, nil
}

// content is a revision's content, fetched when it is kept by reference.
func (s *Agent) content(ctx context.Context, rev view.Revision) ([]byte, error) {
	if err := missing(rev); err != nil {
		return nil, err
	}
	if rev.Ref == nil {
		return rev.Content, nil
	}
	if rev.Chain() { // whole, several of them at once would be more than a sidecar may take
		return nil, api.Problemf(api.CodeTooLarge, "the content has %d bytes, and an answer of this kind at most %d: "+
			"GET …/shards/NAME gives it, and binds the next seal of the conversation", rev.Ref.Size, sequencer.ChunkBytes)
	}
	if body, ok := s.view.Contents.Get(rev.Ref.SHA256); ok {
		return body, nil
	}
	body, err := loop.Do(s.loop, func() ([]byte, error) { return s.events.Content(ctx, s.workspace, *rev.Ref) })
	if err != nil {
		return nil, unread(rev.Ref, err)
	}
	if sha256.Sum256(body) != rev.Ref.SHA256 {
		return nil, unread(rev.Ref, streams.ErrContent)
	}
	s.view.Contents.Put(rev.Ref.SHA256, body)
	return body, nil
}

// missing says why a revision's content is not there; nil: it is, or the log has it.
func missing(rev view.Revision) error {
	switch {
	case rev.Lost:
		return api.Problemf(api.CodeForgotten, "the content is what decision %d wrote, which a retraction put back or "+
			"deltas rest on, and the log no longer has that: write the shard again", rev.From)
	case rev.Lacks:
		return view.BeingFetched(view.Lack{At: rev.At, From: rev.From})
	}
	return nil
}

// unread is the problem of a content that the events topic did not give. What is gone there comes back by no try.
func unread(ref *sequencer.Ref, err error) error {
	if !errors.Is(err, streams.ErrContent) {
		return api.Problemf(api.CodeLog, "the content at %d/%d cannot be fetched: %v", ref.Partition, ref.Offset, err)
	}
	p := api.Problemf(api.CodeLog, "the content is lost or damaged in the events topic, and none of it is given: %v. "+
		"The version stands, and other shards are as they were: write this one again, or put a former version of it "+
		"back (?versions=true lists them). Check the retention and the disks of hence.events", err)
	p.Retryable = false
	return p
}

// parts are a chain as an answer streams it. It is no part of the agent's loop: its reader takes the time that it
// takes.
func (s *Agent) parts(ref sequencer.Ref) func(context.Context, func([]byte) error) error {
	return func(ctx context.Context, take func([]byte) error) error {
		var aside error
		err := s.events.Parts(ctx, s.workspace, ref, func(part []byte) error {
			aside = take(part)
			return aside
		})
		if err == nil || aside != nil { // take has failed
			return err
		}
		return unread(&ref, err)
	}
}
