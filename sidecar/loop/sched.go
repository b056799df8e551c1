package loop

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"time"
)

// Sched runs the goroutines of a simulation one at a time, in an order that its seed picks: the same seed gives the
// same order. Its time is virtual, and passes when nothing else can go on.
//
// Only goroutines of the simulation call its methods: the one of Run and those of Go. They park with Wait, WaitUntil
// and Sleep alone; one that blocks elsewhere stops the simulation.
type Sched struct {
	random *rand.Rand
	left   int // steps
	now    time.Duration
	parked []*coroutine
	able   []int  // of parked: those that can go on
	trace  uint64 // of all picks
	failed error  // once it is set each goroutine ends where it waits
	done   chan struct{}
}

type coroutine struct {
	ready func() bool   // nil: never
	until time.Duration // zero: without a bound
	wake  chan struct{} // of capacity 1
}

// NewSched makes a scheduler that fails after a number of steps: something goes round in circles.
func NewSched(seed uint64, steps int) *Sched {
	return &Sched{random: rand.New(rand.NewPCG(seed, 0)), left: steps, trace: 14695981039346656037,
		done: make(chan struct{})}
}

// Run runs main, and all that it starts, to the end. An error is a panic of one of them, that none can go on, or that
// the steps are used up; those that are left have ended then, too, by runtime.Goexit. It is called once.
func (s *Sched) Run(main func()) error {
	s.Go(main)
	s.pass()
	<-s.done
	return s.failed
}

// Go adds a goroutine that runs f once it is picked.
func (s *Sched) Go(f func()) {
	c := s.park(&coroutine{ready: func() bool { return true }})
	go func() {
		<-c.wake
		defer s.pass()
		defer func() {
			if r := recover(); r != nil {
				s.fail(fmt.Errorf("panic: %v\n%s", r, debug.Stack()))
			}
		}()
		if s.failed == nil {
			f()
		}
	}()
}

// Wait parks the calling goroutine until ready holds and it is picked.
func (s *Sched) Wait(ready func() bool) { s.wait(&coroutine{ready: ready}) }

// WaitUntil is Wait until a time at most. It reports whether ready held.
func (s *Sched) WaitUntil(at time.Duration, ready func() bool) bool {
	s.wait(&coroutine{ready: ready, until: max(at, 1)})
	return ready()
}

// Sleep parks the calling goroutine for a virtual time.
func (s *Sched) Sleep(d time.Duration) { s.wait(&coroutine{until: max(s.now+d, 1)}) }

// Now is the virtual time since the start.
func (s *Sched) Now() time.Duration { return s.now }

// Trace tells runs apart: two with the same picks have the same.
func (s *Sched) Trace() uint64 { return s.trace }

func (s *Sched) park(c *coroutine) *coroutine {
	c.wake = make(chan struct{}, 1)
	s.parked = append(s.parked, c)
	return c
}

func (s *Sched) wait(c *coroutine) {
	if s.failed == nil {
		s.park(c)
		s.pass()
		<-c.wake
	}
	if s.failed != nil {
		runtime.Goexit()
	}
}

func (s *Sched) fail(err error) {
	if s.failed == nil { // what follows a failure is only its echo
		s.failed = err
	}
}

// pass lets the next goroutine go on. The caller parks or ends.
func (s *Sched) pass() {
	if len(s.parked) == 0 {
		close(s.done)
		return
	}
	if s.left--; s.left < 0 {
		s.fail(fmt.Errorf("the steps are used up: %d goroutines are left at %v", len(s.parked), s.now))
	}
	for s.find(); len(s.able) == 0; s.find() {
		s.tick()
	}
	at := s.able[s.random.IntN(len(s.able))]
	s.trace = (s.trace ^ uint64(at)) * 1099511628211
	c := s.parked[at]
	s.parked = append(s.parked[:at], s.parked[at+1:]...)
	c.wake <- struct{}{}
}

// find lists the goroutines that can go on.
func (s *Sched) find() {
	s.able = s.able[:0]
	for i, c := range s.parked {
		if s.failed != nil || c.until > 0 && c.until <= s.now || c.ready != nil && c.ready() {
			s.able = append(s.able, i)
		}
	}
}

// tick moves the time to the next that something waits for.
func (s *Sched) tick() {
	next := time.Duration(0)
	for _, c := range s.parked {
		if c.until > 0 && (next == 0 || c.until < next) {
			next = c.until
		}
	}
	if next == 0 {
		s.fail(fmt.Errorf("none of %d goroutines can go on at %v", len(s.parked), s.now))
		return
	}
	s.now = next
}
