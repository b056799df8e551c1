package streams

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams/embedded"
	"github.com/hence-dev/hence/topology"
)

// setClock shows the time that it was set to; it does not move.
type setClock struct{ now time.Time }

func (c *setClock) Now() time.Time                       { return c.now }
func (c *setClock) After(time.Duration) <-chan time.Time { return nil }

// tailing is a follower on Kafka, where what its tail finds is given by a test.
type tailing struct {
	*follower
	t     *testing.T
	clock *setClock
	end   int64
}

func newTailing(t *testing.T, start startAt, next sequencer.Seq) *tailing {
	t.Helper()
	clock := &setClock{now: time.Unix(1000, 0)}
	c, err := Dial(t.Context(), Config{Brokers: []string{"127.0.0.1:1"}, Partitions: 1, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	f := &follower{c: c, workspace: "shop", next: next, offset: -1, seenEnd: -1, ahead: make(map[sequencer.Seq]early),
		apply: func(*sequencer.Outcome, Way, time.Time) error { return nil }}
	switch start {
	case fromOffset:
		f.offset = 10
	case fromTime:
		f.atMs = 1
	case fromOldest:
		f.oldest = true
	case fromSeq:
	}
	f.startTail()
	t.Cleanup(f.stopTail)
	return &tailing{follower: f, t: t, clock: clock, end: 10}
}

// finds gives the tail's finds and then the end, as the reader does, which also comes again while nothing else does.
func (f *tailing) finds(seqs ...sequencer.Seq) error {
	f.t.Helper()
	for _, seq := range seqs {
		if err := f.fromTail(tailed{o: &sequencer.Outcome{Workspace: "shop", Seq: seq}, offset: f.end}); err != nil {
			return err
		}
		f.end++
	}
	return f.fromTail(tailed{offset: f.end})
}

func (f *tailing) waits(seqs ...sequencer.Seq) {
	f.t.Helper()
	if err := f.finds(seqs...); err != nil {
		f.t.Fatal(err)
	}
}

// A decision that Kafka lacks between others is waited for, since another replica may bring it; not for ever.
func TestHoleInTheDecisions(t *testing.T) {
	f := newTailing(t, fromOldest, 5)
	f.waits(4, 5, 7)
	f.clock.now = f.clock.now.Add(29 * time.Second)
	f.waits()
	f.clock.now = f.clock.now.Add(2 * time.Second)
	err := f.finds()
	if !errors.Is(err, ErrGone) || !strings.Contains(err.Error(), "6") || !strings.Contains(err.Error(), "7") {
		t.Errorf("a decision that is nowhere: %v", err)
	}

	f = newTailing(t, fromOldest, 5)
	f.waits(4, 5, 8)
	f.clock.now = f.clock.now.Add(29 * time.Second)
	f.waits(6) // the replica that lags
	f.clock.now = f.clock.now.Add(29 * time.Second)
	f.waits(7)
	f.clock.now = f.clock.now.Add(time.Hour)
	f.waits(9)
	if f.next != 10 || f.offset != f.end {
		t.Errorf("at %d, offset %d of %d", f.next, f.offset, f.end)
	}
}

// A tail that did not begin with the oldest record begins again there before anything is called gone.
func TestHoleAfterAnOffset(t *testing.T) {
	for _, start := range []startAt{fromOffset, fromTime, fromSeq} {
		f := newTailing(t, start, 5)
		f.waits(4, 5, 7)
		if f.tail == nil || f.tail.start != fromOldest || f.tail.proven {
			t.Errorf("start %d: the tail is %+v", start, f.tail)
		}
	}
	// What was too far ahead to be kept is read again, although nothing waits for it.
	f := newTailing(t, fromOffset, 5)
	f.waits(4, 5)
	for seq := sequencer.Seq(8); seq < 8+maxAhead; seq++ {
		f.ahead[seq] = early{o: &sequencer.Outcome{Workspace: "shop", Seq: seq}}
	}
	f.waits(8+maxAhead, 6, 7)
	if f.tail == nil || f.tail.start != fromOldest {
		t.Errorf("the tail is %+v", f.tail)
	}
}

// What NATS brought before Kafka has it is no hole, and an error of Kafka does not let the tail begin behind one.
func TestNoHole(t *testing.T) {
	f := newTailing(t, fromOldest, 5)
	f.waits(4, 5)
	if _, err := f.offer(&sequencer.Outcome{Workspace: "shop", Seq: 9}, WayNATS, time.Time{}); err != nil {
		t.Fatal(err)
	}
	f.clock.now = f.clock.now.Add(time.Hour)
	f.waits()
	f.waits(6)
	if f.offset != f.end {
		t.Errorf("offset %d, the end is %d", f.offset, f.end)
	}
	before := f.end
	f.waits(8, 8, 8)
	if err := f.fromTail(tailed{err: errors.New("away")}); err != nil || f.tail != nil {
		t.Fatal(err, f.tail)
	}
	if f.offset > before {
		t.Errorf("it would begin again at %d, behind the hole at %d", f.offset, before)
	}
}

// A reader that may not read says so and ends; it does not ask on and on.
func TestTailThatIsForbidden(t *testing.T) {
	servers, err := embedded.Start(t.Context(), embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer servers.Close()
	cfg := Config{Brokers: servers.Brokers, Partitions: 1}
	if err := EnsureTopics(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	c, err := Dial(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	servers.Kafka().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: topology.TopicDecisions,
		Err: kerr.TopicAuthorizationFailed, Count: -1})
	out := make(chan tailed)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	var done sync.WaitGroup
	defer done.Wait()
	defer cancel()
	done.Go(func() { decisionReader{c: c, workspace: "shop", out: out}.run(ctx, fromOldest, 0, 0) })
	for {
		select {
		case found := <-out:
			if errors.Is(found.err, kerr.TopicAuthorizationFailed) {
				return
			}
		case <-ctx.Done():
			t.Fatal("nothing is said")
		}
	}
}
