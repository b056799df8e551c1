package processor_test

import (
	"sync"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/internal/teststreams"
	"github.com/hence-dev/hence/topology"
)

// handClock goes only when it is told to.
type handClock struct {
	mu     sync.Mutex
	now    time.Time
	alarms []alarm
}

type alarm struct {
	at time.Time
	c  chan time.Time
}

func (h *handClock) Now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *handClock) After(d time.Duration) <-chan time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := alarm{h.now.Add(d), make(chan time.Time, 1)}
	if d <= 0 {
		a.c <- h.now
	} else {
		h.alarms = append(h.alarms, a)
	}
	return a.c
}

func (h *handClock) advance(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
	left := h.alarms[:0]
	for _, a := range h.alarms {
		if a.at.After(h.now) {
			left = append(left, a)
		} else {
			a.c <- h.now
		}
	}
	h.alarms = left
}

// Time in a workspace's log stands still with its owner's clock, and moves one tick for a pending deadline and eight
// for a lease, however often the owner looks.
func TestTicksFollowTheOwnersClock(t *testing.T) {
	clock := &handClock{now: time.Unix(1000, 0)}
	w := teststreams.New(t)
	owner := w.Cfg
	owner.Clock = clock
	w.Run(owner)
	c := w.Dial(w.Cfg)
	v := w.Follow(c, "shop")
	w.Join(c, v, "shop", "ann")
	ticks := func() (marks []sequencer.TickMark) {
		for _, r := range w.Records(topology.TopicIntents) {
			if in, err := topology.DecodeIntent(r.Value); err == nil && in.Tick != nil {
				marks = append(marks, *in.Tick)
			}
		}
		return marks
	}
	for range 40 { // 1 s: less than eight ticks of 250 ms
		clock.advance(25 * time.Millisecond)
	}
	if n := len(ticks()); n != 0 {
		t.Fatalf("%d ticks after half of a lease's tick", n)
	}
	for n := 1; n <= 3; n++ {
		w.Until("a tick of eight", func() bool {
			clock.advance(25 * time.Millisecond)
			marks := ticks()
			return len(marks) == n && marks[n-1] == sequencer.TickMark{N: uint64(n), Weight: 8}
		})
	}
	begin := &sequencer.Intent{Kind: sequencer.IntentBegin, Tx: "t", N: 1, Agent: "ann", Incarnation: 1, Base: 1,
		Begin: &sequencer.Begin{Mode: sequencer.Ordered, DeadlineTicks: 3}}
	if _, err := c.Append(w.Context(), "shop", begin); err != nil {
		t.Fatal(err)
	}
	w.Until("the deadline", func() bool {
		clock.advance(25 * time.Millisecond)
		for _, o := range v.All() {
			if o.Tx == "t" && o.Code == sequencer.CodeDeadline {
				return true
			}
		}
		return false
	})
	marks := ticks()
	if last := marks[len(marks)-1]; last.Weight != 1 && marks[len(marks)-2].Weight != 1 {
		t.Errorf("ticks %v: while a deadline is pending they weigh one", marks)
	}
	for i, m := range marks {
		if i > 0 && m.N > marks[i-1].N+1 {
			t.Errorf("tick %d follows %d", m.N, marks[i-1].N)
		}
	}
}

// Two owners of one partition do not make time run twice as fast.
func TestTwoOwnersMakeOneTime(t *testing.T) {
	w := teststreams.New(t)
	b := w.Cfg
	b.Replica, b.Instance = "b", "two"
	if err := streams.EnsureTopics(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	w.Run(w.Cfg)
	w.Run(b)
	c := w.Dial(w.Cfg)
	v := w.Follow(c, "shop")
	a := w.Join(c, v, "shop", "ann")
	a.Append(&sequencer.Intent{Kind: sequencer.IntentBegin, Tx: "t", N: 1, Agent: "ann", Incarnation: 1, Base: 1,
		Begin: &sequencer.Begin{Mode: sequencer.Ordered, DeadlineTicks: 4}})
	began := time.Now()
	w.Until("the deadline", func() bool {
		for _, o := range v.All() {
			if o.Tx == "t" && o.Code == sequencer.CodeDeadline {
				return true
			}
		}
		return false
	})
	if took := time.Since(began); took < 600*time.Millisecond {
		t.Errorf("four ticks of 250 ms took %v", took)
	}
}
