package journal

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hence-dev/hence/gate/failpoint"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// How long an event waits for others to travel with, when no caller waits for it. What a transaction reads and writes
// is waited for until its seal: by then the journal alone has it, and after the loss of the machine it is not needed,
// because the transaction is lost as well. All else is told to those that settle without this journal, so it leaves
// soon, and takes along what its transaction has.
const (
	keptLinger  = 50 * time.Millisecond // a read, a write
	eventLinger = 3 * time.Millisecond  // all else: each request saved is one less before the next seal
)

// Bounds of publishing.
const (
	maxFlying      = 1024     // events that are sent and not acknowledged
	maxBundleBytes = 64 << 10 // of events that share a record; a larger one has its own

	retryLeast = 50 * time.Millisecond
	retryMost  = 2 * time.Second
)

// publisher takes events. PublishAsync sends events of one transaction in one record, and calls done once, from any
// goroutine.
type publisher interface {
	PublishAsync(events []*topology.Event, done func(sequencer.Place, error))
}

// outgoing is an event on its way to the events topic.
type outgoing struct {
	ev   *topology.Event
	size int // of its bytes, by itself
	done func(sequencer.Place)
}

// bundle is what becomes one record: events of one transaction, or loose reads, in their order.
type bundle struct {
	events []*outgoing
	size   int
	due    time.Time // when it is sent
	failed bool      // and is to be sent again
}

// takes reports whether an event may be added.
func (b *bundle) takes(out *outgoing) bool {
	return len(b.events) < topology.MaxBatchEvents && b.size+out.size <= maxBundleBytes
}

// outbox is what the events topic has not acknowledged yet. It is guarded by Journal.Mu.
type outbox struct {
	together bool // all processors read records with several events
	waiting  []*bundle
	open     map[sequencer.TxID]*bundle // those of waiting that further events of a transaction join
	queued   int                        // events in waiting
	flying   int                        // events that are sent
	pause    time.Duration              // between two tries of what failed
	again    time.Time                  // of the next one

	kick  chan struct{} // something is due now
	timer *time.Timer   // nil: nothing is published yet
	wake  time.Time     // when it goes off
}

// size is how many events are not acknowledged.
func (o *outbox) size() int { return o.queued + o.flying }

// add takes an event in and returns when it is sent.
func (o *outbox) add(out *outgoing, now time.Time) time.Time {
	due := now.Add(eventLinger)
	switch {
	case out.done != nil: // its caller waits for it
		due = now
	case o.together && (out.ev.Kind == topology.EventRead || out.ev.Kind == topology.EventWrite):
		due = now.Add(keptLinger)
	}
	alone := !o.together || out.ev.Kind == topology.EventContent // which is read by its record's place
	b := o.open[out.ev.Tx]
	if alone || b == nil || !b.takes(out) {
		b = &bundle{due: due}
		o.waiting = append(o.waiting, b)
		if !alone {
			o.open[out.ev.Tx] = b
		}
	}
	o.queued++
	b.events, b.size = append(b.events, out), b.size+out.size
	if due.Before(b.due) {
		b.due = due
	}
	return b.due
}

// take removes what is due, as much as may be on its way at once, and with it what is due soon: a request that leaves
// anyway takes it along. wake is when to look again.
func (o *outbox) take(now time.Time) (due []*bundle, wake time.Time) {
	wake, leaves := now.Add(time.Hour), now
	if slices.ContainsFunc(o.waiting, func(b *bundle) bool { return !b.due.After(now) }) {
		leaves = now.Add(eventLinger)
	}
	rest := o.waiting[:0]
	for _, b := range o.waiting {
		if o.flying >= maxFlying && !b.due.After(now) {
			b.due = now.Add(eventLinger) // an acknowledgement makes room for it
		}
		if b.due.After(leaves) || b.due.After(now) && (b.failed || o.flying >= maxFlying) {
			rest = append(rest, b)
			if b.due.Before(wake) {
				wake = b.due
			}
			continue
		}
		due = append(due, b)
		o.queued, o.flying = o.queued-len(b.events), o.flying+len(b.events)
		if tx := b.events[0].ev.Tx; o.open[tx] == b {
			delete(o.open, tx)
		}
	}
	clear(o.waiting[len(rest):])
	o.waiting = rest
	return due, wake
}

// returned takes back what was sent: acknowledged, or to be sent again. It returns when to look at the latest.
func (o *outbox) returned(b *bundle, err error, now time.Time) time.Time {
	o.flying -= len(b.events)
	if err == nil && o.pause > 0 { // the brokers are back
		o.pause /= 2
		soon := now.Add(eventLinger)
		o.hurry(soon, true)
		return soon
	}
	if err == nil {
		return o.wake
	}
	o.queued += len(b.events)
	if errors.Is(err, streams.ErrTooLarge) && len(b.events) > 1 {
		// The topic may take smaller records than it must: by themselves the events may still fit.
		for _, out := range slices.Backward(b.events) {
			o.waiting = slices.Insert(o.waiting, 0, &bundle{events: []*outgoing{out}, size: out.size, due: now})
		}
		return now
	}
	if !now.Before(o.again) { // one pause for all that fail together
		o.pause = min(max(2*o.pause, retryLeast), retryMost)
		o.again = now.Add(o.pause)
	}
	b.failed, b.due = true, o.again
	o.waiting = slices.Insert(o.waiting, 0, b)
	return b.due
}

// hurry makes what waits due by a time: what has failed, or what has not.
func (o *outbox) hurry(by time.Time, failed bool) {
	for _, b := range o.waiting {
		if b.failed == failed && by.Before(b.due) {
			b.due = by
		}
	}
}

// look wakes the publisher by a time.
func (o *outbox) look(now, by time.Time) {
	switch {
	case o.timer == nil || !by.Before(o.wake): // it looks by then
	case by.After(now):
		o.wake = by
		o.timer.Reset(by.Sub(now))
	default:
		o.wake = by
		signal(o.kick)
	}
}

// signal leaves a note in a channel of capacity one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Together says whether all processors read records with several events. Until then each event has its own.
func (d *Journal) Together(on bool) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	d.out.together = on
}

// push needs d.Mu, or that d is not shared yet.
func (d *Journal) push(out *outgoing) {
	if d.done[out.ev.Incarnation] == nil {
		before := out.ev.Index - 1
		d.done[out.ev.Incarnation] = &progress{through: before, recorded: before, beyond: map[uint64]bool{}}
	}
	now := time.Now()
	d.out.look(now, d.out.add(out, now))
}

// Publish sends events until ctx ends. Those that fail are sent again: a second copy has the same index.
func (d *Journal) Publish(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.out.kick:
		case <-timer.C:
		}
		for _, b := range d.due(timer) {
			events := make([]*topology.Event, 0, len(b.events))
			for _, out := range b.events {
				events = append(events, out.ev)
			}
			failpoint.Hit(failpoint.EventBefore)
			d.events.PublishAsync(events, func(at sequencer.Place, err error) {
				failpoint.Hit(failpoint.EventAfter)
				d.published(b, at, err)
			})
		}
	}
}

// due is what is to be sent now; the timer goes off when there is more.
func (d *Journal) due(timer *time.Timer) []*bundle {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	now := time.Now()
	var due []*bundle
	wake := now.Add(retryLeast)
	if d.flushed() == nil { // else the topic would have what the next start does not know, and numbers again
		due, wake = d.out.take(now)
	}
	d.out.timer, d.out.wake = timer, wake
	timer.Reset(wake.Sub(now))
	return due
}

// published notes what became of a record; its callers are told outside of the lock.
func (d *Journal) published(b *bundle, at sequencer.Place, err error) {
	lost := errors.Is(err, streams.ErrTooLarge) && len(b.events) == 1 && tooLarge(b.events[0].ev)
	first := b.events[0].ev
	if lost {
		d.log.Error("an event is larger than the events topic takes: it is not published", "index", first.Index,
			"tx", string(first.Tx), "cause", err)
		err = nil
	} else if err != nil {
		d.log.Warn("events were not published: they are sent again", "index", first.Index, "count", len(b.events),
			"cause", err)
	}
	d.acknowledged(b, err)
	if err != nil || lost {
		return
	}
	for _, out := range b.events {
		if out.done != nil {
			out.done(at)
		}
	}
}

// acknowledged counts what the topic has; err: it has it not, so it is sent again.
func (d *Journal) acknowledged(b *bundle, err error) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	now := time.Now()
	d.out.look(now, d.out.returned(b, err, now))
	if err != nil {
		return
	}
	for _, out := range b.events {
		p := d.done[out.ev.Incarnation]
		p.beyond[out.ev.Index] = true
		for p.beyond[p.through+1] {
			p.through++
			delete(p.beyond, p.through)
		}
	}
}

// tooLarge reports whether an event is refused however often it is sent. A small one is refused with those that it
// travels with, or by a topic that is not as it must be.
func tooLarge(ev *topology.Event) bool {
	body, err := topology.EncodeEvent(ev)
	return err == nil && len(body) > MaxSpread
}

// Backlog is how many events are not published yet.
func (d *Journal) Backlog() int {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	return d.out.size()
}

// Drain waits until every event is published, or ctx ends, and returns how many are not.
func (d *Journal) Drain(ctx context.Context) int {
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	for {
		left := d.flush()
		if left == 0 {
			return 0
		}
		select {
		case <-ctx.Done():
			return left
		case <-poll.C:
		}
	}
}

// flush lets nothing wait for others, and returns how many events are not published.
func (d *Journal) flush() int {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	now := time.Now()
	d.out.hurry(now, false)
	d.out.look(now, now)
	return d.out.size()
}
