package journal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// topic takes records at the times that it is sent them, and acknowledges them unless refuse says otherwise.
type topic struct {
	began  time.Time
	refuse func(events []*topology.Event) error

	mu      sync.Mutex
	records []string
}

// PublishAsync is part of publisher.
func (p *topic) PublishAsync(events []*topology.Event, done func(sequencer.Place, error)) {
	p.mu.Lock()
	var text []string
	for _, e := range events {
		text = append(text, fmt.Sprintf("%s%d", e.Tx, e.Index))
	}
	p.records = append(p.records, fmt.Sprintf("%v:%s", time.Since(p.began), strings.Join(text, "+")))
	p.mu.Unlock()
	if _, err := topology.EncodeEvents(events); err != nil {
		done(sequencer.Place{}, err)
		return
	}
	if p.refuse != nil {
		if err := p.refuse(events); err != nil {
			done(sequencer.Place{}, err)
			return
		}
	}
	done(sequencer.Place{}, nil)
}

// sent are the records so far: when each was sent, and its events by transaction and index.
func (p *topic) sent() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.records, " ")
}

// posted is a journal whose events go to a topic, with what a test does to it.
type posted struct {
	*Journal
	t     *testing.T
	topic *topic
}

// post opens a journal that publishes until the test ends; it is called inside of a bubble.
func post(t *testing.T, dir string, together bool) *posted {
	t.Helper()
	p := &posted{t: t, topic: &topic{began: time.Now()}}
	p.Journal = opened(t, dir, p.topic, 8<<20)
	p.Together(together)
	if p.Ledger.Joined.Incarnation == 0 {
		must(0, p.Session(JoinedRecord{Agent: "a", Workspace: "default", Incarnation: 3}))(t)
	}
	return p
}

func (p *posted) add(tx sequencer.TxID, kind topology.EventKind, done func(sequencer.Place)) {
	p.t.Helper()
	p.large(tx, kind, 0, done)
}

func (p *posted) large(tx sequencer.TxID, kind topology.EventKind, size int, done func(sequencer.Place)) {
	p.t.Helper()
	ev := &topology.Event{Kind: kind, Workspace: "default", Agent: "a", Tx: tx, Content: make([]byte, size)}
	must(0, p.Event(ev, done))(p.t)
}

// pass lets time go by until nothing moves any more.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// bundled publishes in a bubble while f works, and holds what was sent by its end.
func bundled(t *testing.T, together bool, f func(p *posted), want string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := post(t, "", together)
		go p.Publish(t.Context())
		f(p)
		pass(time.Minute)
		if got := p.topic.sent(); got != want {
			t.Errorf("sent %s, want %s", got, want)
		}
		if left := p.Backlog(); left > 0 {
			t.Errorf("%d events are not published", left)
		}
	})
}

const (
	reads   = topology.EventRead
	writes  = topology.EventWrite
	seals   = topology.EventSeal
	answers = topology.EventAnswer
	keeps   = topology.EventContent
)

// What a transaction read and wrote leaves with its seal, in one record, and alone once it has waited long enough.
// Where a processor reads one event a record alone, each has its own.
func TestEventsShareARecord(t *testing.T) {
	none := func(sequencer.Place) {}
	turn := func(p *posted) {
		p.add("x", reads, nil)
		p.add("y", reads, nil)
		pass(10 * time.Millisecond)
		p.add("x", writes, nil)
		p.add("x", seals, nil)
	}
	for _, c := range []struct {
		name     string
		together bool
		do       func(p *posted)
		want     string
	}{
		{"a turn", true, turn, "13ms:x1+x3+x4 50ms:y2"},
		{"a turn, one by one", false, turn, "3ms:x1 3ms:y2 13ms:x3 13ms:x4"},
		{"loose reads", true, func(p *posted) {
			p.add("", reads, nil)
			pass(time.Millisecond)
			p.add("", reads, nil)
		}, "50ms:1+2"},
		{"a call takes its transaction's along at once", true, func(p *posted) {
			p.add("x", reads, nil)
			p.add("y", reads, nil)
			p.add("x", topology.EventEffect, none)
		}, "0s:x1+x3 50ms:y2"},
		{"what became of a call is not kept", true, func(p *posted) { p.add("x", answers, nil) }, "3ms:x1"},
		{"a request takes along what is due soon", true, func(p *posted) {
			p.add("x", seals, nil)
			pass(time.Millisecond)
			p.add("y", reads, nil)
			p.add("z", seals, nil)
			pass(eventLinger)
			p.add("w", seals, nil)
		}, "3ms:x1 3ms:z3 7ms:w4 51ms:y2"},
		{"a content is alone", true, func(p *posted) {
			p.add("x", reads, nil)
			p.add("x", keeps, none)
			pass(time.Millisecond)
			p.add("x", writes, nil)
		}, "0s:x2 50ms:x1+x3"},
		{"a full record", true, func(p *posted) {
			p.large("x", seals, maxBundleBytes/2, nil)
			p.large("x", seals, maxBundleBytes/2, nil)
			p.large("x", seals, 2*maxBundleBytes, nil)
			p.add("x", seals, nil)
		}, "3ms:x1 3ms:x2 3ms:x3 3ms:x4"},
		{"to the end", true, func(p *posted) {
			p.add("x", reads, nil)
			if left := p.Drain(p.t.Context()); left > 0 {
				p.t.Errorf("%d are left", left)
			}
			p.add("x", writes, nil)
		}, "0s:x1 52ms:x2"},
	} {
		t.Run(c.name, func(t *testing.T) { bundled(t, c.together, c.do, c.want) })
	}
}

// No record has more events than its readers take.
func TestEventsOfManyRecords(t *testing.T) {
	bundled(t, true, func(p *posted) {
		for range 2*topology.MaxBatchEvents + 1 {
			p.add("x", reads, nil)
		}
		pass(keptLinger)
		if n := strings.Count(p.topic.sent(), ":"); n != 3 {
			p.t.Errorf("%d records", n)
		}
		p.topic.records = nil
	}, "")
}

// What fails is sent again, all of it that was refused, and later what came meanwhile is not held up by it. A record
// that is too large together is taken apart; an event that is too large by itself is not published.
func TestEventsSentAgain(t *testing.T) {
	away := errors.New("the brokers are away")
	failing := func(n int) func([]*topology.Event) error {
		return func([]*topology.Event) error {
			if n--; n >= 0 {
				return away
			}
			return nil
		}
	}
	for _, c := range []struct {
		name string
		do   func(p *posted)
		want string
	}{
		{"twice", func(p *posted) {
			p.topic.refuse = failing(2)
			p.add("x", reads, nil)
			p.add("x", seals, nil)
		}, "3ms:x1+x2 53ms:x1+x2 153ms:x1+x2"},
		{"the brokers are back", func(p *posted) {
			p.topic.refuse = failing(6)
			p.add("x", seals, nil)
			pass(2 * time.Second) // it has failed often: the next try is far
			p.add("y", answers, nil)
		}, "3ms:x1 53ms:x1 153ms:x1 353ms:x1 753ms:x1 1.553s:x1 2.003s:y2 2.006s:x1"},
		{"too large together", func(p *posted) {
			p.topic.refuse = func(events []*topology.Event) error {
				if len(events) > 1 {
					return streams.ErrTooLarge
				}
				return nil
			}
			p.add("x", reads, nil)
			p.add("x", seals, nil)
		}, "3ms:x1+x2 3ms:x1 3ms:x2"},
		{"too large", func(p *posted) {
			p.topic.refuse = func(events []*topology.Event) error {
				if len(events[0].Content) > 0 {
					return streams.ErrTooLarge
				}
				return nil
			}
			p.large("x", keeps, MaxSpread, func(sequencer.Place) { p.t.Error("what was not published is said to be") })
			p.add("x", seals, func(sequencer.Place) {}) // waited for: it leaves at once, in whichever look
		}, "0s:x1 0s:x2"},
	} {
		t.Run(c.name, func(t *testing.T) { bundled(t, true, c.do, c.want) })
	}
}

// A process ends after some of a record's events count as published in its journal: all events behind the first that
// does not count are published again, each under the index that it had.
func TestEventsAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		p := post(t, dir, true)
		p.topic.refuse = func(events []*topology.Event) error {
			if events[0].Tx == "y" {
				return errors.New("refused")
			}
			return nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		go p.Publish(ctx)
		p.add("x", reads, nil)
		p.add("y", reads, nil)
		p.add("x", seals, nil)
		p.add("x", answers, nil)
		pass(time.Second)
		if got := p.topic.sent(); !strings.HasPrefix(got, "3ms:x1+x3+x4 50ms:y2 ") {
			t.Fatalf("sent %s", got)
		}
		cancel()
		must(0, errors.Join(p.Mark(), p.Close()))(t)
		p = post(t, dir, true)
		if got := p.Ledger.Pending; len(got) != 3 || p.done[3].through != 1 {
			t.Fatalf("%d events are left, the topic has those up to %d", len(got), p.done[3].through)
		}
		go p.Publish(t.Context())
		pass(time.Second)
		if got := p.topic.sent(); got != "3ms:y2 3ms:x3 3ms:x4" {
			t.Errorf("sent %s", got)
		}
		must(0, errors.Join(p.Mark(), p.Close()))(t)
		if p = post(t, dir, true); p.Backlog() > 0 {
			t.Errorf("%d events are left after all", p.Backlog())
		}
		must(0, p.Close())(t)
	})
}

// TestRestingEventsWait: an event that rests is not published before the file has it: the next start would number
// another one like it. It is once the disk is back, also where not even what a write left could be cut off.
func TestRestingEventsWait(t *testing.T) {
	for name, uncut := range map[string]error{"cut": nil, "not cut": syscall.EIO} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { restingEventsWait(t, uncut) })
		})
	}
}

func restingEventsWait(t *testing.T, uncut error) {
	dir := t.TempDir()
	p := post(t, dir, true)
	disk := &fault{in: -1}
	p.file.file = faulty{p.file.file, disk}
	rest := func(tx sequencer.TxID) error {
		return p.RestEvent(&topology.Event{Kind: topology.EventSeal, Workspace: "default", Agent: "a", Tx: tx})
	}
	go p.Publish(t.Context())
	disk.arm(0, syscall.ENOSPC, 3)
	disk.hold(uncut)
	must(0, rest("t"))(t)
	pass(time.Minute)
	if got := p.topic.sent(); got != "" || p.Refused() == nil {
		t.Errorf("sent %q, and the journal has nothing of it (%v)", got, p.Refused())
	}
	if uncut != nil && (rest("u") == nil || p.Health() == nil) {
		t.Error("a journal whose file cannot be cut takes an event, or says that it is well")
	}
	disk.arm(-1, nil, 0)
	disk.hold(nil)
	pass(time.Minute)
	if got := p.topic.sent(); !strings.HasSuffix(got, ":t1") {
		t.Errorf("sent %q once the disk is back", got)
	}
	if err := errors.Join(p.Health(), p.Refused()); err != nil {
		t.Errorf("the disk is back: %v", err)
	}
	must(0, rest("v"))(t)
	must(0, p.Close())(t)
	if p = post(t, dir, true); len(p.Ledger.Pending) != 1 || p.Ledger.Pending[0].Tx != "v" {
		t.Errorf("after a start %+v are left", p.Ledger.Pending)
	}
	must(0, p.Close())(t)
}
