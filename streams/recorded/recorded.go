// Package recorded reads one workspace's records of the log whole: from the oldest that is kept up to the end as it
// was when the reading began. It is for those who look at what has been, such as exports, replays and audits: nothing
// is written, and no reader's place is moved.
//
// A reading holds one record at a time, and of the decisions those that wait for an earlier one. Brokers are waited
// for while they are away, until the caller's context ends.
package recorded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
	"github.com/hence-dev/hence/topology/audit"
)

// ErrGone is returned when what is asked for was deleted by retention, and by Open when the topics have no record.
var ErrGone = errors.New("not in the log any more")

// ErrGap is returned by Decisions when decisions are missing between two that are there.
var ErrGap = errors.New("decisions are missing")

// Bounds of a reading.
const (
	maxAhead      = 4096     // decisions that wait for one before them
	maxAheadBytes = 64 << 20 // of their records
	progressEvery = 1024     // records of a partition, of any workspace
)

// Span is the part of a partition that is read: from Start up to End, without it. Records before Start are deleted.
type Span struct{ Start, End int64 }

// Log is a workspace's part of the log.
type Log struct {
	Workspace string
	Partition int32
	// Intents, Decisions and Events are what is read of each topic.
	IntentsAt, DecisionsAt, EventsAt Span
	// Progress is told now and then how far the reading of a topic is, in offsets; nil: nothing is told.
	Progress func(topic string, at int64, span Span)

	cfg    streams.Config
	bundle audit.Source // what is read instead of brokers; nil: brokers
}

// Place is where a record stands in its partition.
type Place struct {
	Offset int64
	Time   time.Time // when the log took it, by the clock of its broker or producer; for people
}

// Intent is one record of hence.intents. A nil Intent is a record that cannot be read: to the fold it is a step of
// nothing.
type Intent struct {
	In     Place
	Intent *sequencer.Intent
}

// Decision is one record of hence.decisions.
type Decision struct {
	In Place
	*sequencer.Outcome
	Record *kgo.Record // as it was published
}

// Event is one event of hence.events.
type Event struct {
	In Place
	*topology.Event
}

// Open looks up where the topics of a workspace begin and end now. It fails when a topic is missing, or may not be
// read.
func Open(ctx context.Context, cfg streams.Config, workspace string) (*Log, error) {
	if err := topology.ValidWorkspace(workspace); err != nil {
		return nil, err
	}
	cfg, err := cfg.Checked()
	if err != nil {
		return nil, err
	}
	cl, err := kgo.NewClient(cfg.BaseOptions()...)
	if err != nil {
		return nil, fmt.Errorf("read the log of %s: %w", workspace, err)
	}
	defer cl.Close()
	l := &Log{Workspace: workspace, Partition: topology.PartitionOf(workspace, cfg.Partitions), cfg: cfg}
	// Decisions first: each that is read then follows from an intent that is read too.
	for _, of := range []struct {
		topic string
		span  *Span
	}{
		{topology.TopicDecisions, &l.DecisionsAt}, {topology.TopicIntents, &l.IntentsAt},
		{topology.TopicEvents, &l.EventsAt},
	} {
		if *of.span, err = spanOf(ctx, cl, of.topic, l.Partition); err != nil {
			return nil, fmt.Errorf("read the log of %s: %w", workspace, l.why(of.topic, err))
		}
	}
	return l, nil
}

func spanOf(ctx context.Context, cl *kgo.Client, topic string, partition int32) (s Span, err error) {
	if s.Start, err = streams.StartOffset(ctx, cl, topic, partition); err == nil {
		s.End, err = streams.EndOffset(ctx, cl, topic, partition)
	}
	return s, err
}

// why says what to do about an error, where that is known.
func (l *Log) why(topic string, err error) error {
	switch {
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return fmt.Errorf("%s may not be read by this user: allow READ and DESCRIBE on it, as hence topics print says: %w",
			topic, err)
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return fmt.Errorf("%s has no partition %d: is it the right cluster, and the right --partitions: %w", topic,
			l.Partition, err)
	}
	return err
}

// Each calls f for each record of the workspace in a topic, as it stands there: every copy, also what cannot be read.
// f may return streams.ErrStop to end the reading without an error.
func (l *Log) Each(ctx context.Context, topic string, f func(*kgo.Record) error) error {
	span, ok := l.span(topic)
	if !ok {
		return fmt.Errorf("read the log of %s: %s is none of its topics", l.Workspace, topic)
	}
	if l.bundle != nil {
		return l.eachBundled(ctx, topic, f)
	}
	first, told := true, span.Start
	// uncut makes sure that the oldest record is still there that was at Open: retention may have run since.
	uncut := func() error {
		start, err := l.start(ctx, topic)
		if err == nil && start > span.Start {
			err = l.gone(topic, "the records from %d to %d were deleted while it was read", span.Start, start-1)
		}
		return err
	}
	err := l.cfg.ReadRange(ctx, topic, l.Partition, span.Start, span.End, func(r *kgo.Record) error {
		if first && r.Offset > span.Start {
			if err := uncut(); err != nil {
				return err
			}
		}
		first = false
		if l.Progress != nil && r.Offset-told >= progressEvery {
			told = r.Offset
			l.Progress(topic, told, span)
		}
		if topology.WorkspaceOfKey(string(r.Key)) != l.Workspace {
			return nil
		}
		return f(r)
	})
	if err == nil && first && span.Start < span.End {
		err = uncut()
	}
	if err != nil {
		return fmt.Errorf("read the log of %s: %w", l.Workspace, l.why(topic, err))
	}
	if l.Progress != nil {
		l.Progress(topic, span.End, span)
	}
	return nil
}

func (l *Log) span(topic string) (Span, bool) {
	switch topic {
	case topology.TopicIntents:
		return l.IntentsAt, true
	case topology.TopicDecisions:
		return l.DecisionsAt, true
	case topology.TopicEvents:
		return l.EventsAt, true
	}
	return Span{}, false
}

func (l *Log) start(ctx context.Context, topic string) (int64, error) {
	cl, err := kgo.NewClient(l.cfg.BaseOptions()...)
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	return streams.StartOffset(ctx, cl, topic, l.Partition)
}

func (l *Log) gone(topic, format string, args ...any) error {
	return fmt.Errorf("%w: %s/%d: %s", ErrGone, topic, l.Partition, fmt.Sprintf(format, args...))
}

// Intents calls f for each record of hence.intents, in order. What the processors cannot read is a nil Intent here
// too.
//
// Whether the intents are whole only a decision can say: each names the offset of its intent (see Whole).
func (l *Log) Intents(ctx context.Context, f func(Intent) error) error {
	return l.Each(ctx, topology.TopicIntents, func(r *kgo.Record) error {
		if string(r.Key) != l.Workspace {
			return nil
		}
		in := Intent{In: Place{r.Offset, r.Timestamp}}
		if len(r.Value) <= topology.MaxIntentBytes {
			// Not refused, also of a newer release: to the fold that was running it was a step of nothing.
			in.Intent, _ = topology.DecodeIntent(r.Value)
		}
		return f(in)
	})
}

// Whole says whether the intents reach back to the offset of a decision's intent: nil, or an ErrGone.
func (l *Log) Whole(o *sequencer.Outcome) error {
	if l.IntentsAt.Start <= o.Offset {
		return nil
	}
	return fmt.Errorf("read the log of %s: %w", l.Workspace, l.gone(topology.TopicIntents,
		"decision %d follows from offset %d, and the topic begins at %d", o.Seq, o.Offset, l.IntentsAt.Start))
}

// Decisions calls f for each decision after a seq: in order, without gaps, each once, whichever replica has written
// it. After 0 the first one must be there. It fails with ErrGone where the topic begins behind what is asked for, and
// with ErrGap where a decision is missing.
func (l *Log) Decisions(ctx context.Context, after sequencer.Seq, f func(Decision) error) error {
	o := ordered{next: after + 1, ahead: map[sequencer.Seq]Decision{}, f: f}
	err := l.Each(ctx, topology.TopicDecisions, func(r *kgo.Record) error {
		if string(r.Key) != l.Workspace {
			return nil
		}
		d, err := topology.DecodeCloudEvent(r.Value)
		if errors.Is(err, topology.ErrForeignVersion) {
			return fmt.Errorf("%s/%d offset %d: %w", r.Topic, r.Partition, r.Offset, err)
		}
		if err != nil || d.Workspace != l.Workspace {
			return nil // the processors park it
		}
		return o.take(Decision{Place{r.Offset, r.Timestamp}, d, r})
	})
	switch {
	case err != nil:
		return err
	case len(o.ahead) > 0:
		return fmt.Errorf("read the log of %s: %w", l.Workspace, l.missing(&o))
	case after == 0 && o.seen == 0 && l.DecisionsAt.Start > 0:
		return fmt.Errorf("read the log of %s: %w", l.Workspace, l.gone(topology.TopicDecisions,
			"no decision of the workspace is there, and those before offset %d were deleted", l.DecisionsAt.Start))
	}
	return nil
}

// missing says which decisions there are not.
func (l *Log) missing(o *ordered) error {
	first := o.first()
	if o.taken == 0 && l.DecisionsAt.Start > 0 {
		return l.gone(topology.TopicDecisions, "decision %d is the oldest, and %d is asked for", first, o.next)
	}
	says := "hence doctor"
	if l.bundle != nil {
		says = "hence audit --from" // the brokers may have them
	}
	return fmt.Errorf("%w: %s/%d lacks the decisions from %d to %d: %s says more", ErrGap, topology.TopicDecisions,
		l.Partition, o.next, first-1, says)
}

// ordered puts decisions in order: two replicas write each a copy, and one of them may be far behind the other.
//
// Invariant: all before next were given, or are not asked for; ahead has no more than maxAhead of those after it.
type ordered struct {
	next  sequencer.Seq
	ahead map[sequencer.Seq]Decision
	bytes int
	taken int
	seen  int
	f     func(Decision) error
}

func (o *ordered) take(d Decision) error {
	o.seen++
	if d.Seq < o.next {
		return nil // the other replica's copy, or not asked for
	}
	if _, twice := o.ahead[d.Seq]; d.Seq > o.next && !twice {
		o.ahead[d.Seq] = d
		if o.bytes += len(d.Record.Value); len(o.ahead) > maxAhead || o.bytes > maxAheadBytes {
			return streams.ErrStop // nothing may be left out, and no more can be held
		}
		return nil
	}
	for is := d.Seq == o.next; is; d, is = o.ahead[o.next] {
		if _, waited := o.ahead[d.Seq]; waited {
			o.bytes -= len(d.Record.Value)
			delete(o.ahead, d.Seq)
		}
		o.next, o.taken = o.next+1, o.taken+1
		if err := o.f(d); err != nil {
			return err
		}
	}
	return nil
}

func (o *ordered) first() (first sequencer.Seq) {
	for seq := range o.ahead {
		first = cmp.Or(min(first, seq), seq)
	}
	return first
}

// Oldest is the seq of the oldest decision that is kept; 0: there is none.
func (l *Log) Oldest(ctx context.Context) (oldest sequencer.Seq, err error) {
	n := 0
	err = l.Each(ctx, topology.TopicDecisions, func(r *kgo.Record) error {
		d, err := topology.DecodeCloudEvent(r.Value)
		if err != nil || d.Workspace != l.Workspace {
			return nil
		}
		oldest = cmp.Or(min(oldest, d.Seq), d.Seq)
		if n++; n == maxAhead || l.DecisionsAt.Start == 0 {
			return streams.ErrStop // one replica's are in order, and no more could be put in order
		}
		return nil
	})
	return oldest, err
}

// Events calls f for each event, as the topic has them: those of different transactions may stand in another order
// than their sidecar's, and an event may come twice, under the same Index. It fails at a record of a format that this
// release does not know. Where EventsAt begins behind 0, retention has deleted events, of this workspace or of others.
func (l *Log) Events(ctx context.Context, f func(Event) error) error {
	return l.Each(ctx, topology.TopicEvents, func(r *kgo.Record) error {
		if len(r.Value) > topology.MaxEventBytes {
			return nil
		}
		events, err := topology.DecodeEvents(r.Value)
		if errors.Is(err, topology.ErrForeignVersion) {
			return fmt.Errorf("%s/%d offset %d: %w", r.Topic, r.Partition, r.Offset, err)
		}
		if err != nil {
			return nil // no events of ours: the processors park it
		}
		for _, ev := range events {
			if ev.Workspace != l.Workspace {
				continue
			}
			if err := f(Event{Place{r.Offset, r.Timestamp}, ev}); err != nil {
				return err
			}
		}
		return nil
	})
}

// Together calls intents for each intent and decisions for each decision after a seq, in the order of the log: an
// intent comes before the decisions that follow from it. It fails as Decisions and Whole do. Intents behind the last
// decision are left out.
func (l *Log) Together(ctx context.Context, after sequencer.Seq, intents func(Intent) error,
	decisions func(Decision) error,
) error {
	next, stop := iter.Pull2(func(yield func(Intent, error) bool) {
		err := l.Intents(ctx, func(in Intent) error {
			if !yield(in, nil) {
				return streams.ErrStop
			}
			return nil
		})
		if err != nil {
			yield(Intent{}, err)
		}
	})
	defer stop()
	in, err, more := next()
	first := true
	return l.Decisions(ctx, after, func(d Decision) error {
		if first && after == 0 {
			if err := l.Whole(d.Outcome); err != nil {
				return err
			}
		}
		for first = false; more && err == nil && in.In.Offset <= d.Offset; {
			if err := intents(in); err != nil {
				return err
			}
			in, err, more = next()
		}
		if err != nil {
			return err
		}
		return decisions(d)
	})
}
