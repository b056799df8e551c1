package loop

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// ErrStopped is returned by Await and AwaitOn once the loop was stopped, whatever the condition says by then.
var ErrStopped = errors.New("sidecar: stopping")

// Scheduler lets the goroutines of a simulation run one at a time. *Sched is one.
type Scheduler interface {
	// Wait parks the calling goroutine until ready holds and the scheduler picks it. ready is asked while nothing runs.
	Wait(ready func() bool)
	// Go adds a goroutine that runs f once it is picked.
	Go(f func())
}

// Options are what a loop is made with. The zero value is a loop that starts no tasks.
type Options struct {
	Context   context.Context // of tasks; its end asks them to return. nil: context.Background()
	Tasks     int             // most that are under way at once
	Scheduler Scheduler       // of the simulation that the loop is part of; nil: production
	Verify    bool            // panic when a condition turns true and nothing called Moved; a simulation always does
}

// Loop is the one owner of an agent's state. All methods but Moved, Await, AwaitOn, AwaitThrough and Do, which need a
// flow, may be called from anywhere.
type Loop struct {
	sched  Scheduler
	verify bool
	ctx    context.Context
	limit  int

	mu      sync.Mutex // guards what follows; held for a few instructions, and while conditions are asked
	held    bool       // Invariant: while it is false no flow is ready
	age     uint64     // of the flow that holds the loop
	newest  uint64     // age that was given last
	ready   []*parked  // Invariant: oldest first
	waiting []*parked  // Invariant: the condition of each was false when a flow last gave way that may have changed it
	always  Watched    // of waits that watch nothing: each flow may have changed what they wait for
	moved   []*Watched // since the last flow gave way; only the flow that holds the loop adds to it
	stopped bool

	joined bool
	tasks  int
	group  sync.WaitGroup
}

// Watched is what some waits depend on, and nothing else: a hint that saves asking their conditions whenever anything
// changes. The zero value is ready. It belongs to one loop.
type Watched struct {
	waiting []*parked // guarded by the loop's mutex
	moved   bool      // guarded by the loop itself
}

// parked is a flow that has given way.
type parked struct {
	age  uint64
	cond func() bool // nil: it waits for its turn only
	ctx  context.Context
	on   *Watched
	stay bool          // Stop does not end the wait
	err  error         // what its wait returns
	wake chan struct{} // of capacity 1; it holds the loop once it has received
}

// New makes a loop that no flow holds.
func New(o Options) *Loop {
	if o.Context == nil {
		o.Context = context.Background()
	}
	return &Loop{sched: o.Scheduler, verify: o.Verify || o.Scheduler != nil, ctx: o.Context, limit: o.Tasks}
}

// Run runs f as a flow and returns when f has. A flow of this loop must not call it: it would wait for itself. A
// simulation panics there; production cannot tell, and hangs.
func (l *Loop) Run(f func()) {
	if l.sched != nil && l.held {
		panic("loop: Run inside of a flow of the same loop, or one waits while it holds the loop: give way with Do")
	}
	l.enter(0)
	defer l.leave()
	f()
}

// Await gives way until cond holds. It returns nil when cond held as the flow was picked, so nothing has changed
// since; the cause of ctx's end; or ErrStopped after Stop. A condition that holds already is answered without giving
// way.
//
// cond is asked by other flows as they give way, any number of times: it reads the loop's state, changes nothing, and
// calls no method of the loop. State outside of the loop may be read when each change of it is followed by a flow.
func (l *Loop) Await(ctx context.Context, cond func() bool) error {
	return l.AwaitOn(ctx, &l.always, cond)
}

// AwaitOn is Await with a condition that only a flow can turn true that calls Moved(w).
func (l *Loop) AwaitOn(ctx context.Context, w *Watched, cond func() bool) error {
	return l.await(ctx, w, false, cond)
}

// AwaitThrough is AwaitOn, or Await where w is nil, that Stop does not end: for what ends by itself, such as another
// flow's turn or the answer to a call that is being made. What is left of a stop's time is ctx's.
func (l *Loop) AwaitThrough(ctx context.Context, w *Watched, cond func() bool) error {
	if w == nil {
		w = &l.always
	}
	return l.await(ctx, w, true, cond)
}

func (l *Loop) await(ctx context.Context, w *Watched, stay bool, cond func() bool) error {
	p, err := l.giveWay(ctx, w, stay, cond)
	if p == nil {
		return err
	}
	if l.sched != nil {
		l.sched.Wait(func() bool { return !l.held && l.over(p) })
		l.unpark(p)
		l.held, l.age = true, p.age
		return p.err
	}
	select {
	case <-p.wake:
	case <-ctx.Done(): // it goes on in its turn: its caller's state is the loop's
		l.rejoin(p)
		<-p.wake
	}
	return p.err
}

// giveWay parks the flow unless its wait is over already.
func (l *Loop) giveWay(ctx context.Context, w *Watched, stay bool, cond func() bool) (*parked, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.held:
		panic(outside)
	case l.stopped && !stay:
		return nil, ErrStopped
	case cond(): // it goes on at once: giving way would only cost
		return nil, nil
	}
	p := &parked{age: l.age, cond: cond, ctx: ctx, on: w, stay: stay, wake: make(chan struct{}, 1)}
	l.park(p)
	l.next()
	return p, nil
}

// Do gives way while io runs outside of the loop. The flow keeps its age: it goes on before those that came later. A
// panic of io comes back inside of the loop.
func (l *Loop) Do(io func()) {
	age := l.age
	l.leave()
	defer l.enter(age)
	if l.sched != nil { // when io happens is the seed's choice, too
		l.sched.Wait(func() bool { return true })
	}
	io()
}

// Moved says that the flow has changed what waits on w depend on. They are asked when it gives way.
func (l *Loop) Moved(w *Watched) {
	if !w.moved {
		w.moved = true
		l.moved = append(l.moved, w)
	}
}

// Stop ends all waits but those of AwaitThrough, now and from now on. Flows go on, and tasks are still started.
func (l *Loop) Stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	if l.sched != nil { // it asks each wait by itself
		return
	}
	for _, p := range slices.Clone(l.waiting) {
		if !p.stay {
			l.queue(l.unpark(p))
		}
	}
	if !l.held {
		l.next()
	}
}

// Go starts f as a flow on a goroutine of its own: a task, which outlives the request that started it, never the loop.
// Its context is the loop's. It reports false, and runs nothing, once Join was called or the bound is reached.
func (l *Loop) Go(f func(context.Context)) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.joined || l.tasks >= l.limit {
		return false
	}
	l.tasks++
	l.newest++
	age := l.newest
	task := func() {
		defer l.ended()
		l.enter(age)
		defer l.leave()
		f(l.ctx)
	}
	if l.sched != nil {
		l.sched.Go(task)
		return true
	}
	l.group.Go(task)
	return true
}

// Join waits until all tasks have ended; no new one starts. It is not for flows.
func (l *Loop) Join() {
	l.mu.Lock()
	l.joined = true
	l.mu.Unlock()
	if l.sched != nil {
		l.sched.Wait(func() bool { return l.tasks == 0 })
		return
	}
	l.group.Wait()
}

func (l *Loop) ended() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tasks--
}

// enter takes the loop for a flow of an age; zero: for one that begins.
func (l *Loop) enter(age uint64) {
	if l.sched != nil {
		l.sched.Wait(func() bool { return !l.held })
	}
	l.mu.Lock()
	if age == 0 {
		l.newest++
		age = l.newest
	}
	if !l.held {
		l.held, l.age = true, age
		l.mu.Unlock()
		return
	}
	p := &parked{age: age, wake: make(chan struct{}, 1)}
	l.queue(p)
	l.mu.Unlock()
	<-p.wake // it is handed over: what runs meanwhile is older, or was there first
}

// leave hands the loop to the next flow.
func (l *Loop) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.held {
		panic(outside)
	}
	l.next()
}

const outside = "loop: a flow gives way that does not hold the loop: Await and Do belong into Run or Go"

// next asks the conditions that may have changed and hands the loop to the oldest flow that can go on; in a simulation
// its scheduler does both. l.mu is locked.
func (l *Loop) next() {
	if len(l.waiting) > 0 && l.sched == nil {
		l.ask(&l.always)
		for _, w := range l.moved {
			l.ask(w)
		}
	}
	l.free()
	for len(l.ready) > 0 {
		p := l.ready[0]
		l.ready = slices.Delete(l.ready, 0, 1)
		if !l.over(p) { // an older flow has changed it back
			l.park(p)
			continue
		}
		l.held, l.age = true, p.age
		p.wake <- struct{}{}
		return
	}
}

// free leaves the loop without an owner; l.mu is locked.
func (l *Loop) free() {
	forgotten := l.verify && slices.ContainsFunc(l.waiting, func(p *parked) bool {
		return p.on != &l.always && !p.on.moved && p.cond()
	})
	for i, w := range l.moved {
		w.moved, l.moved[i] = false, nil
	}
	l.moved, l.held = l.moved[:0], false
	if forgotten {
		panic("loop: a condition turned true and nothing called Moved: its flow would sleep on")
	}
}

// ask lets the waits go on whose condition holds; l.mu is locked.
func (l *Loop) ask(w *Watched) {
	for i := len(w.waiting) - 1; i >= 0; i-- {
		if p := w.waiting[i]; p.cond() {
			l.queue(l.unpark(p))
		}
	}
}

// over reports whether a parked flow can go on, and notes what its wait returns.
func (l *Loop) over(p *parked) bool {
	switch {
	case p.cond == nil:
	case l.stopped && !p.stay:
		p.err = ErrStopped
	case p.cond(): // also when ctx has ended: what was waited for is there
		p.err = nil
	case p.ctx.Err() != nil:
		p.err = context.Cause(p.ctx)
	default:
		return false
	}
	return true
}

// rejoin lets a wait go on whose ctx has ended.
func (l *Loop) rejoin(p *parked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.Contains(p.on.waiting, p) { // else it is ready, or holds the loop already
		l.queue(l.unpark(p))
	}
	if !l.held {
		l.next()
	}
}

// queue puts a flow among the ready ones.
func (l *Loop) queue(p *parked) {
	at, _ := slices.BinarySearchFunc(l.ready, p, func(a, b *parked) int { return int(int64(a.age - b.age)) })
	l.ready = slices.Insert(l.ready, at, p)
}

func (l *Loop) park(p *parked) {
	l.waiting = append(l.waiting, p)
	p.on.waiting = append(p.on.waiting, p)
}

func (l *Loop) unpark(p *parked) *parked {
	for _, list := range []*[]*parked{&l.waiting, &p.on.waiting} {
		at := slices.Index(*list, p)
		*list = slices.Delete(*list, at, at+1)
	}
	return p
}
