package streams

import (
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// chunkWait is how long a chain is waited for that does not go on: where the topic has lost its end nothing comes.
const chunkWait = 10 * time.Second

// Content reads a shard's content from the events topic and holds it against its reference.
func (c *Client) Content(ctx context.Context, workspace string, ref sequencer.Ref) ([]byte, error) {
	return c.cfg.Content(ctx, workspace, ref)
}

// Content reads the content that a reference of a workspace names, and holds it against its hash.
func (c Config) Content(ctx context.Context, workspace string, ref sequencer.Ref) ([]byte, error) {
	ev, err := c.contentAt(ctx, ref)
	switch {
	case err != nil:
		return nil, fmt.Errorf("content at %d/%d: %w", ref.Partition, ref.Offset, err)
	case ev == nil:
		// Deleted by retention, or a reference to another log.
		return nil, fmt.Errorf("content at %d/%d: %w: nothing is there", ref.Partition, ref.Offset, ErrContent)
	case ev.Workspace != workspace:
		// A reference may name any place, and must not show another workspace's contents.
		return nil, fmt.Errorf("content at %d/%d: %w: it is of another workspace", ref.Partition, ref.Offset, ErrContent)
	case int64(len(ev.Content)) != ref.Size || sequencer.Hash(sha256.Sum256(ev.Content)) != ref.SHA256:
		// What was decided about is this hash, and not what lies there now.
		return nil, fmt.Errorf("content at %d/%d: %w: size or hash differ", ref.Partition, ref.Offset, ErrContent)
	}
	return ev.Content, nil
}

// contentAt reads the event that a reference names; nil: nothing is there.
func (c Config) contentAt(ctx context.Context, ref sequencer.Ref) (ev *topology.Event, err error) {
	if ref.Partition < 0 || ref.Partition >= c.Partitions {
		return nil, fmt.Errorf("%w: there is no such partition", ErrContent) // a reader would wait for it to be created
	}
	r, err := c.Reader(topology.TopicEvents, ref.Partition, ref.Offset)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	end, err := EndOffset(ctx, r.cl, topology.TopicEvents, ref.Partition)
	if err != nil {
		return nil, err
	}
	if ref.Offset >= end {
		// What is referred to was acknowledged before: nothing that may still come there is it.
		return nil, fmt.Errorf("%w: the topic ends at offset %d", ErrContent, end)
	}
	err = r.To(ctx, ref.Offset+1, func(r *kgo.Record) error {
		events, err := topology.DecodeEvents(r.Value)
		if len(events) == 1 { // a content has its record to itself
			ev = events[0]
		}
		return err
	})
	return ev, err
}

// Parts gives a content to take, part by part and in order: a chain as its events have it, any other as one part. It
// does so in the memory of a few parts. Each part is held against its event, and the last is given only when all of
// them are the content that the reference names: who has been given everything has what was written. With ErrContent
// an event is missing for good, or is not what was written.
func (c *Client) Parts(ctx context.Context, workspace string, ref sequencer.Ref, take func(part []byte) error) error {
	return c.cfg.Parts(ctx, workspace, ref, take)
}

// Parts is Client.Parts.
func (c Config) Parts(ctx context.Context, workspace string, ref sequencer.Ref, take func(part []byte) error) error {
	if ref.Chunks == 0 {
		content, err := c.Content(ctx, workspace, ref)
		if err != nil {
			return err
		}
		return take(content)
	}
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	stalled := time.AfterFunc(chunkWait, cancel)
	defer stalled.Stop()
	chain, whole := NewChain(workspace, ref, take), false
	err := c.ReadRange(reading, topology.TopicEvents, ref.Partition, ref.Offset, ref.Last+1, func(r *kgo.Record) error {
		stalled.Reset(chunkWait)
		var ev *topology.Event
		if events, err := topology.DecodeEvents(r.Value); err == nil && len(events) == 1 { // a part is alone in its record
			ev = events[0]
		}
		var err error
		if whole, err = chain.Add(r.Offset, ev); whole && err == nil {
			return ErrStop
		}
		return err
	})
	switch {
	case whole || err != nil && ctx.Err() == nil && reading.Err() == nil:
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("read a content of %d parts: %w", ref.Chunks, ctx.Err())
	case reading.Err() != nil:
		return fmt.Errorf("part %d of %d did not come within %v: the brokers are away, or have lost what was acknowledged",
			chain.parts+1, ref.Chunks, chunkWait)
	}
	return chain.End()
}

// Chain puts a content together again that is a chain of events.
//
// Invariant: the parts before next were given, but the newest one, which waits until it is known not to be the last,
// or the whole to be what the reference says.
type Chain struct {
	workspace string
	ref       sequencer.Ref
	take      func(part []byte) error

	first *topology.Event
	next  int64 // where in the content the next part begins
	parts uint32
	whole hash.Hash
	held  []byte
}

// NewChain begins to put the chain of a reference together.
func NewChain(workspace string, ref sequencer.Ref, take func(part []byte) error) *Chain {
	return &Chain{workspace: workspace, ref: ref, take: take, whole: sha256.New()}
}

// Add takes the event of an offset, one after the other from the first on; nil: there is none that could be a part.
// done: the content is whole, and given.
func (c *Chain) Add(offset int64, ev *topology.Event) (done bool, err error) {
	switch {
	case c.first == nil && offset != c.ref.Offset:
		return false, c.wrong(c.ref.Offset, "it is not there any more: the topic begins at %d", offset)
	case c.first == nil && (ev == nil || ev.Kind != topology.EventContent || ev.Chunk == nil):
		return false, c.wrong(offset, "there is something else")
	case c.first == nil && ev.Workspace != c.workspace:
		// A reference may name any place, and must not show another workspace's contents.
		return false, c.wrong(offset, "it is of another workspace")
	case c.first == nil:
		c.first = ev
	case !c.goesOn(ev): // another one's
		return false, nil
	}
	size := min(sequencer.ChunkBytes, c.ref.Size-c.next)
	switch {
	case ev.Chunk.Of != c.ref.SHA256:
		return false, c.wrong(offset, "it is of another content")
	case ev.Chunk.At > c.next:
		// They were written one after the other, so the log no longer has the one between.
		return false, c.wrong(offset, "the part before it is missing")
	case int64(len(ev.Content)) != size || sequencer.Hash(sha256.Sum256(ev.Content)) != ev.SHA256:
		return false, c.wrong(offset, "it is damaged: size or hash differ")
	}
	_, _ = c.whole.Write(ev.Content)
	if c.held != nil {
		if err := c.take(c.held); err != nil {
			return false, err
		}
	}
	c.next, c.parts, c.held = c.next+size, c.parts+1, ev.Content
	if c.parts < c.ref.Chunks {
		return false, nil
	}
	if sequencer.Hash(c.whole.Sum(nil)) != c.ref.SHA256 {
		// What was decided about is this hash, and not what the parts come to.
		return false, c.wrong(offset, "all parts are there, and together they are not what was written")
	}
	return true, c.take(c.held)
}

// goesOn reports whether an event is a part that comes behind those that were taken: of the same writer, content and
// try, and no second copy. What a former try still had on its way has an older index.
func (c *Chain) goesOn(ev *topology.Event) bool {
	return ev != nil && ev.Kind == topology.EventContent && ev.Chunk != nil && ev.Workspace == c.workspace &&
		ev.Tx == c.first.Tx && ev.Incarnation == c.first.Incarnation && ev.Chunk.Of == c.ref.SHA256 &&
		ev.Index > c.first.Index && ev.Chunk.At >= c.next
}

// End is what is wrong when there are no more events up to the last one.
func (c *Chain) End() error {
	if c.first == nil {
		return c.wrong(c.ref.Offset, "nothing is there")
	}
	return c.wrong(c.ref.Last, "it is missing")
}

func (c *Chain) wrong(offset int64, format string, args ...any) error {
	return fmt.Errorf("part %d of %d, at %d/%d: %w: %s", c.parts+1, c.ref.Chunks, c.ref.Partition, offset, ErrContent,
		fmt.Sprintf(format, args...))
}
