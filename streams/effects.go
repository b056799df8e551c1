package streams

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// Bounds of one transaction's effects; beyond them Effects fails with ErrTooLarge, because half of them would lie.
const (
	maxTxEffects     = 1 << 14
	maxTxEffectBytes = 128 << 20 // of records, arguments and answers
	hintTimeout      = 500 * time.Millisecond
)

// Effects reads what a transaction called and what was answered, as hence.events has it at the time of the call:
// everything that was acknowledged before, in the order of incarnation and index, without second copies. Arguments and
// answers that were given by reference are fetched, held against their SHA-256 and put in place of the reference.
//
// It reads the topic itself, not a table that may lag: from the transaction's first event, where the closure table
// knows it, else from the beginning. It fails with ErrGone when the topic no longer has all of it, with ErrContent
// when a reference does not lead to what it says, and with ErrTooLarge beyond 16,384 events or 128 MiB.
func (c *Client) Effects(ctx context.Context, workspace string, tx sequencer.TxID) ([]*topology.Event, error) {
	if err := topology.ValidWorkspace(workspace); err != nil {
		return nil, err
	}
	events, err := c.effects(ctx, workspace, tx)
	if err != nil {
		return nil, fmt.Errorf("effects of %s: %w", tx, err)
	}
	return events, nil
}

func (c *Client) effects(ctx context.Context, workspace string, tx sequencer.TxID) ([]*topology.Event, error) {
	partition := topology.PartitionOf(workspace, c.cfg.Partitions)
	end, err := EndOffset(ctx, c.log, topology.TopicEvents, partition)
	if err != nil {
		return nil, err
	}
	start, err := StartOffset(ctx, c.log, topology.TopicEvents, partition)
	if err != nil {
		return nil, err
	}
	first, known := c.firstEvent(ctx, workspace, tx)
	if known && first < start {
		// Calls are missing from the front: a settlement by the rest would leave them in the world.
		return nil, fmt.Errorf("%w: the first event was at %s/%d offset %d, the topic begins at %d", ErrGone,
			topology.TopicEvents, partition, first, start)
	}
	if known && first >= end { // it may have come meanwhile; if not, the topic is another one
		if end, err = EndOffset(ctx, c.log, topology.TopicEvents, partition); err != nil {
			return nil, err
		}
		if first >= end {
			// Another topic under the same name: its offsets mean something else.
			return nil, fmt.Errorf("%w: the first event was at %s/%d offset %d, the topic ends at %d", ErrGone,
				topology.TopicEvents, partition, first, end)
		}
	}
	r := effectReader{workspace: workspace, tx: tx, key: topology.EventKey(workspace, tx), log: c}
	if err := c.cfg.ReadRange(ctx, topology.TopicEvents, partition, max(first, start), end, r.take); err != nil {
		return nil, err
	}
	if err := c.stillFrom(ctx, topology.TopicEvents, partition, max(first, start)); err != nil {
		return nil, err // whoever asks again is told what is gone
	}
	events := topology.Effects(r.events, workspace, tx)
	if start > 0 && !beginsWhole(events, known) {
		// On a shortened topic silence proves nothing: without the first call it is not known what ran.
		return nil, fmt.Errorf("%w: %s/%d begins at offset %d and nothing shows that the transaction is younger", ErrGone,
			topology.TopicEvents, partition, start)
	}
	for _, ev := range events {
		if ev.Effect == nil {
			continue // a touch, a plan
		}
		if err := r.resolve(ctx, ev); err != nil {
			return nil, err
		}
	}
	return events, nil
}

// beginsWhole reports whether the events are a transaction's from its first tool call on. Calls are numbered from 0.
// Of one without calls the closure table must know, or a touch or a plan must be there; an answer alone is to a call
// that is gone. A table that was rebuilt on a shortened topic knows no more than that.
func beginsWhole(events []*topology.Event, known bool) bool {
	var called, first, answered, other bool
	for _, ev := range events {
		switch {
		case ev.Kind == topology.EventTouch:
			other = true
		case ev.Kind == topology.EventPlan && ev.Plan.First > 0: // there were calls before it
			called = true
		case ev.Kind == topology.EventPlan: // it is before its calls, of which the first may never come
			other, first = true, true
		case ev.Kind == topology.EventAnswer:
			answered = true
		case ev.Effect.Class == sequencer.ClassRead: // not numbered
			other = other || known || ev.Effect.Index == 0
		default:
			called, first = true, first || ev.Effect.Index == 0
		}
	}
	if called {
		return first
	}
	return other || known && !answered
}

// firstEvent asks the closure table where a transaction's events begin. The table may lag, but it has read the topic
// in order: when it knows of any event, it knows of the first. Only a decided transaction's row is believed: one that
// was swept and came again with a late copy of an event never saw the decision, and a row of the first release says
// nothing. Without a row that is believed the partition is read from its start, at about 2 million records a second.
func (c *Client) firstEvent(ctx context.Context, workspace string, tx sequencer.TxID) (int64, bool) {
	ctx, cancel := context.WithTimeout(ctx, hintTimeout)
	defer cancel()
	closure, err := c.Closure(ctx, workspace, tx, 1)
	if err != nil || len(closure.Rows) == 0 {
		return 0, false
	}
	row := closure.Rows[0]
	if row.Tx != tx || row.Seq == 0 || row.Events == nil || row.Events.First < 0 {
		return 0, false
	}
	return row.Events.First, true
}

// effectReader collects one transaction's tool calls from the records of its partition.
type effectReader struct {
	workspace string
	tx        sequencer.TxID
	key       string
	log       *Client
	events    []*topology.Event
	bytes     int64
}

// hold counts what is kept in memory.
func (r *effectReader) hold(bytes int64) error {
	if r.bytes += bytes; r.bytes > maxTxEffectBytes || len(r.events) > maxTxEffects {
		// Half of the effects would be settled as if they were all.
		return fmt.Errorf("%w: at most %d events and %d bytes are read", ErrTooLarge, maxTxEffects, maxTxEffectBytes)
	}
	return nil
}

func (r *effectReader) take(rec *kgo.Record) error {
	if string(rec.Key) != r.key || len(rec.Value) > topology.MaxEventBytes {
		return nil
	}
	events, err := topology.DecodeEvents(rec.Value)
	if errors.Is(err, topology.ErrForeignVersion) {
		// A newer release's event may be a call: passed over, it would never be undone.
		return fmt.Errorf("%s/%d offset %d: %w", rec.Topic, rec.Partition, rec.Offset, err)
	}
	if err != nil {
		return nil // no events of ours: the processors park it
	}
	calls := len(r.events)
	for _, ev := range events {
		if ev.IsEffect() {
			r.events = append(r.events, ev)
		}
	}
	if len(r.events) == calls {
		return nil // what was read and written beside the calls is not kept
	}
	return r.hold(int64(len(rec.Value)))
}

// resolve puts content in the place of references.
func (r *effectReader) resolve(ctx context.Context, ev *topology.Event) error {
	e := ev.Effect
	for _, at := range []struct {
		ref     **sequencer.Ref
		content *[]byte
	}{{&e.ArgsRef, &e.Args}, {&e.AnswerRef, &e.Answer}} {
		ref := *at.ref
		if ref == nil {
			continue
		}
		if ref.Partition != topology.PartitionOf(r.workspace, r.log.cfg.Partitions) {
			// A workspace's records are in its own partition; a reference elsewhere is not one of ours.
			return fmt.Errorf("content at %d/%d: %w: it is in another partition", ref.Partition, ref.Offset, ErrContent)
		}
		if err := r.hold(max(ref.Size, 0)); err != nil {
			return err
		}
		content, err := r.log.Content(ctx, r.workspace, *ref)
		if err != nil {
			return err
		}
		*at.content, *at.ref = content, nil
	}
	return nil
}
