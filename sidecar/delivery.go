package sidecar

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/hence-dev/hence/gate/failpoint"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// errBacklog refuses a read or a write because too many events wait to be published.
var errBacklog = api.NewSentinel("too many events of this agent wait to be published", api.CodeBacklog,
	"nothing was answered: %v; check that the events topic takes records")

// errNotOpen is what is wrong with a journal before the log has said which one it is.
var errNotOpen = errors.New("it is opened once the log has said its id")

// errSessionGone says that what the agent was told before can no longer be shown from the journal.
var errSessionGone = errors.New("the journal of the former session is damaged or gone")

// publisher takes events. PublishAsync calls done once, from any goroutine.
type publisher interface {
	PublishAsync(ev *topology.Event, done func(sequencer.Place, error))
}

// delivery is the delivery log: whatever an agent is told is first here, in memory and in the journal, and is then
// published. It outlives sessions.
type delivery struct {
	log     *slog.Logger
	events  publisher
	max     int   // events that may wait
	rewrite int64 // size at which the journal is rewritten
	boot    string

	mu      sync.Mutex
	lock    *os.File
	journal *journal // nil: memory only; broken until open
	ledger  *ledger
	index   uint64 // of the session's last event
	queue   []*outgoing
	flying  int
	done    map[sequencer.Seq]*progress
	kick    chan struct{} // there is something to publish
	urgent  chan struct{} // somebody waits for it
	shortly int64         // do not rewrite below this size
}

// outgoing is an event on its way to the events topic.
type outgoing struct {
	ev   *topology.Event
	done func(sequencer.Place)
}

// progress is how far the events of one session are published.
type progress struct {
	through  uint64 // all up to it
	recorded uint64 // in the journal
	beyond   map[uint64]bool
}

const maxFlying = 1024

// newDelivery is a delivery log that takes nothing until it is opened.
func newDelivery(events publisher, pending int, rewrite int64, log *slog.Logger) *delivery {
	return &delivery{
		log: log, events: events, max: pending, rewrite: rewrite, ledger: newLedger(),
		journal: &journal{broken: errNotOpen},
		done:    map[sequencer.Seq]*progress{}, kick: make(chan struct{}, 1), urgent: make(chan struct{}, 1),
	}
}

// record journals one record and keeps what it comes to.
func (d *delivery) record(kind byte, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode a journal record: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.write(kind, body)
}

func (d *delivery) write(kind byte, body []byte) error {
	var before int64
	if d.journal != nil {
		before = d.journal.size
	}
	if err := d.keep(kind, body); err != nil {
		return err
	}
	err := d.ledger.apply(append([]byte{kind}, body...))
	if err == nil {
		return nil
	}
	err = fmt.Errorf("a record %q cannot be read back: %w", kind, err)
	d.log.Error("a journal record was taken back: what it says cannot be", "cause", err)
	if d.journal == nil {
		return fmt.Errorf("%w: %w", ErrJournal, err)
	}
	return d.journal.cut(before, err) // the next start would have to give the whole journal up for it
}

func (d *delivery) keep(kind byte, body []byte) error {
	if d.journal == nil {
		return nil
	}
	return d.journal.append(kind, body)
}

// session begins the numbering of a new incarnation's events.
func (d *delivery) session(j joinedRecord) error {
	if err := d.record(recordJoined, j); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.index = 0
	return nil
}

// publishAll returns once the topic has all of some events, or with the cause of ctx's end.
func (d *delivery) publishAll(ctx context.Context, events []*topology.Event) error {
	done := make(chan struct{}, len(events))
	for _, ev := range events {
		if err := d.event(ev, func(sequencer.Place) { done <- struct{}{} }); err != nil {
			return err
		}
	}
	for range events {
		select {
		case <-done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// event numbers an event, journals it and sends it on its way. When it fails nothing may be answered from it.
func (d *delivery) event(ev *topology.Event, done func(sequencer.Place)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.queue)+d.flying >= d.max {
		return errBacklog
	}
	ev.Index = d.index + 1
	if ev.Incarnation == 0 {
		ev.Incarnation = d.ledger.joined.Incarnation
	}
	body, err := topology.EncodeEvent(ev)
	if err != nil {
		return fmt.Errorf("encode an event: %w", err)
	}
	if err := d.keep(recordEvent, body); err != nil {
		return err
	}
	d.ledger.event(ev)
	d.index++
	d.push(&outgoing{ev, done})
	if done != nil {
		signal(d.urgent)
	}
	return nil
}

// push needs d.mu, or that nobody else knows d yet.
func (d *delivery) push(out *outgoing) {
	d.queue = append(d.queue, out)
	if d.done[out.ev.Incarnation] == nil {
		before := out.ev.Index - 1
		d.done[out.ev.Incarnation] = &progress{through: before, recorded: before, beyond: map[uint64]bool{}}
	}
	signal(d.kick)
}

// signal leaves a note in a channel of capacity one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// eventLinger is how long events wait for others to travel with: nobody waits for them, and each request that they
// save is one less before the next seal.
const eventLinger = 3 * time.Millisecond

// publish sends events until ctx ends. Those that fail are sent again: a second copy has the same index.
func (d *delivery) publish(ctx context.Context) {
	pause := time.NewTimer(time.Hour)
	defer pause.Stop()
	wait := time.Duration(0)
	failed := make(chan struct{}, 1)
	for {
		for range d.backlog() { // no more: one that fails at once is in the queue again
			out := d.pop()
			if out == nil {
				break
			}
			failpoint.Hit(failpoint.EventBefore)
			d.events.PublishAsync(out.ev, func(at sequencer.Place, err error) {
				failpoint.Hit(failpoint.EventAfter)
				d.published(out, at, err)
				if err != nil {
					signal(failed)
				}
			})
		}
		select {
		case <-ctx.Done():
			return
		case <-d.kick:
			pause.Reset(eventLinger)
			wait /= 2
		case <-failed:
			wait = min(max(2*wait, 50*time.Millisecond), 2*time.Second)
			pause.Reset(wait)
		}
		select {
		case <-ctx.Done():
			return
		case <-d.urgent:
		case <-pause.C:
		}
	}
}

func (d *delivery) pop() *outgoing {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.queue) == 0 || d.flying >= maxFlying {
		return nil
	}
	out := d.queue[0]
	d.queue = d.queue[1:]
	d.flying++
	return out
}

func (d *delivery) published(out *outgoing, at sequencer.Place, err error) {
	lost := errors.Is(err, streams.ErrTooLarge) && tooLarge(out.ev)
	d.mu.Lock()
	d.flying--
	if lost {
		d.log.Error("an event is larger than the events topic takes: it is not published", "index", out.ev.Index,
			"tx", string(out.ev.Tx), "cause", err)
	} else if err != nil {
		d.log.Warn("an event was not published: it is sent again", "index", out.ev.Index, "cause", err)
		d.queue = append([]*outgoing{out}, d.queue...)
		d.mu.Unlock()
		return
	}
	p := d.done[out.ev.Incarnation]
	p.beyond[out.ev.Index] = true
	for p.beyond[p.through+1] {
		p.through++
		delete(p.beyond, p.through)
	}
	if len(d.queue) > 0 {
		signal(d.kick)
	}
	d.mu.Unlock()
	if out.done != nil && !lost {
		out.done(at)
	}
}

// tooLarge reports whether an event is refused however often it is sent. A small one is refused with those that it
// travels with, or by a topic that is not as it must be.
func tooLarge(ev *topology.Event) bool {
	body, err := topology.EncodeEvent(ev)
	return err == nil && len(body) > maxSpread
}

// mark journals how far the events are published and rewrites a journal that has grown.
func (d *delivery) mark() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for inc, p := range d.done {
		if p.through == p.recorded {
			continue
		}
		body, err := json.Marshal(publishedRecord{inc, p.through})
		if err != nil {
			return fmt.Errorf("encode a journal record: %w", err)
		}
		if err := d.write(recordPublished, body); err != nil {
			return err
		}
		p.recorded = p.through
		if inc != d.ledger.joined.Incarnation && !d.ledger.awaits(inc) {
			delete(d.done, inc)
		}
	}
	return d.compact()
}

func (d *delivery) compact() error {
	if d.journal == nil || d.journal.file == nil || d.journal.size < max(d.rewrite, d.shortly) {
		return nil
	}
	records, err := d.ledger.records()
	if err != nil {
		return fmt.Errorf("rewrite the journal: %w", err)
	}
	before := d.journal.size
	if err := d.journal.rewrite(records); err != nil {
		return err
	}
	d.shortly = 2 * d.journal.size
	d.log.Info("the journal was rewritten", "before_bytes", before, "after_bytes", d.journal.size)
	return nil
}

// place is where the journal is.
func (d *delivery) place() string {
	if d.journal == nil {
		return "in memory"
	}
	return d.journal.path
}

// backlog is how many events are not published yet.
func (d *delivery) backlog() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.queue) + d.flying
}

// drain waits until every event is published, or ctx ends, and returns how many are not.
func (d *delivery) drain(ctx context.Context) int {
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	for d.backlog() > 0 {
		select {
		case <-ctx.Done():
			return d.backlog()
		case <-poll.C:
		}
	}
	return 0
}

// health says whether the journal takes records.
func (d *delivery) health() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.journal != nil && d.journal.broken != nil {
		return d.journal.broken
	}
	if len(d.queue)+d.flying >= d.max {
		return errBacklog
	}
	return nil
}

// close leaves the journal whole and gives its lock back.
func (d *delivery) close() error {
	err := d.mark()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.journal == nil {
		return err
	}
	err = errors.Join(err, d.journal.close())
	if d.lock != nil {
		err = errors.Join(err, d.lock.Close())
	}
	return err
}
