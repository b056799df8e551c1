package sim

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/agent"
	"github.com/hence-dev/hence/sidecar/loop"
	"github.com/hence-dev/hence/sidecar/metrics"
	"github.com/hence-dev/hence/sidecar/once"
	"github.com/hence-dev/hence/sidecar/view"
)

// host is where one agent lives: its machine, its disk and the process that it talks to.
type host struct {
	*dice
	agent   string
	clients []*client

	mu      sync.Mutex
	now     *proc   // that requests go to; nil: none runs
	others  []*proc // that go on beside it
	boot    int
	folders int // guarded by the bubble
	folder  string
	shift   time.Duration // of its wall clock
	slept   time.Duration // how long the machine slept
	gone    atomic.Bool   // it never comes back
	struck  chan struck   // processes that a strike has ended

	signature string // of the tools that its agent has registered last; empty: none
}

// proc is one process of an agent, as package sidecar puts it together, without HTTP.
type proc struct {
	*dice
	h     *host
	name  string
	agent *agent.Agent
	view  *view.View
	keys  *once.Keys
	port  *port
	disk  *disk
	dead  atomic.Bool // nothing leaves it any more, and nothing that it says is heard
	cut   atomic.Bool // it does not reach the brokers
	life  context.Context
	kill  context.CancelFunc
	ended chan struct{} // closed once its lock is given back

	opened chan struct{}      // closed once its journal is open
	leave  context.CancelFunc // lets the agent stop
	hurry  context.CancelFunc // ends what it still waits for then
	group  sync.WaitGroup
}

func (b *bubble) newHost(name string) *host {
	h := &host{dice: b.newDice(), agent: name, struck: make(chan struck, 8)}
	h.shift = time.Duration(h.n(3)-1) * b.fault.shift
	h.folder = h.newFolder()
	return h
}

func (h *host) newFolder() string {
	h.b.mu.Lock()
	h.folders++
	h.b.overdue(h)
	h.b.mu.Unlock()
	return h.b.folder(fmt.Sprintf("%s%d", h.agent, h.folders))
}

// made is how many folders the agent has had.
func (h *host) made() int {
	h.b.mu.Lock()
	defer h.b.mu.Unlock()
	return h.folders
}

// Now is part of a process's clock: the machine's time of day.
func (h *host) Now() time.Time { return time.Now().Add(h.shift + h.sleeps()) }

// Steady is part of a process's clock.
func (h *host) Steady() time.Time { return time.Unix(1000, 0).Add(time.Since(h.b.start) + h.sleeps()) }

func (h *host) sleeps() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.slept
}

// Ticker is part of a process's clock: what it sends is that clock's time.
func (h *host) Ticker(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTicker(d + h.some(time.Millisecond)) // no two clocks beat together
	beats, end := make(chan time.Time, 1), make(chan struct{})
	go func() {
		for {
			select {
			case <-end:
				return
			case <-t.C:
			}
			select {
			case beats <- h.Now():
			default: // as a ticker does for one who is slow
			}
		}
	}()
	return beats, func() { t.Stop(); close(end) }
}

// Sleep is part of a process's clock.
func (h *host) Sleep(ctx context.Context, d time.Duration) error {
	if !h.b.sleep(ctx, d) {
		return context.Cause(ctx)
	}
	return nil
}

// Within is part of a process's clock.
func (h *host) Within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, d)
}

// begin starts a process on a folder.
func (h *host) begin(folder string) *proc {
	b := h.b
	p := &proc{dice: b.newDice(), h: h, ended: make(chan struct{}), opened: make(chan struct{})}
	running, leave := context.WithCancel(context.Background())
	stopping, hurry := context.WithCancel(context.Background())
	p.leave, p.hurry = leave, hurry
	p.name = fmt.Sprintf("%s@%s", h.agent, filepath.Base(folder))
	p.life, p.kill = context.WithCancel(context.Background())
	p.port, p.disk = b.newPort(p), &disk{b: b, p: p}
	limits := agent.Limits{SettlementWait: 4 * time.Second, WatermarkEvery: 1100 * time.Millisecond,
		RenewEvery: 1700 * time.Millisecond, PlanWait: realPlan}
	if b.fault.small {
		limits.JournalBytes, limits.Decided, limits.PendingEvents = 8<<10, 8, 64
	}
	limits = agent.WithDefaults(limits)
	p.view = view.New(workspace, limits.OldBytes, limits.ContentBytes)
	log := b.logger(p.name)
	p.keys = once.New(limits.IdempotencyKeys, limits.IdempotencyBytes, limits.IdempotencyAge, h.Now, log)
	made := metrics.New(func() float64 { return 0 })
	var err error
	p.agent, err = agent.New(agent.Config{Name: h.agent, View: p.view, Log: p.port, Keys: p.keys, DataDir: folder,
		Tools: &tools{b, p}, Hook: b.hookOf(p), Limits: limits, Logger: log, Metrics: made.Agent(""),
		Opened: func() { close(p.opened) }, Cut: stopping,
		Loop:    loop.Options{Verify: true},
		Machine: agent.Machine{Clock: h, Open: p.disk.opener, Boot: fmt.Sprintf("%s%d", h.agent, h.boots())}})
	if err != nil {
		b.fail("a process of %s: %v", h.agent, err)
		close(p.ended)
		return p
	}
	b.note("%s starts", p.name)
	p.group.Go(func() { p.port.publish(p.life) })
	p.group.Go(func() {
		if err := p.agent.Run(running); err != nil {
			b.note("%s ends: %v", p.name, err)
			p.kill()
		}
	})
	p.group.Go(func() { p.view.FetchContents(p.life, p.port, log) })
	p.group.Go(func() {
		if err := p.view.Follow(p.life, p.port, p.opened, log, made.Delivered); err != nil {
			b.fail("the view of %s: %v", p.name, err)
		}
	})
	b.strays.Go(p.last)
	return p
}

// last ends what a process has once it is killed or has failed.
func (p *proc) last() {
	<-p.life.Done()
	p.view.End()
	goodbye := time.Second
	if p.dead.Load() { // it says none
		goodbye = 0
	}
	cut := time.AfterFunc(goodbye, p.hurry)
	defer cut.Stop()
	p.leave()
	p.group.Wait()
	p.hurry()
	close(p.ended)
}

// up reports whether the process takes requests.
func (p *proc) up() bool {
	if p == nil || p.dead.Load() || p.life.Err() != nil {
		return false
	}
	select {
	case <-p.opened:
		return true
	default:
		return false
	}
}

// reboot and boots: the machine was started that often.
func (h *host) reboot() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.boot++
}

func (h *host) boots() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.boot
}

func (h *host) current() *proc {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *host) set(p *proc) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = p
}

// live is what happens to the agent's processes.
func (h *host) live(ctx context.Context) {
	b := h.b
	b.sleep(ctx, h.some(500*time.Millisecond))
	h.set(h.begin(h.folder))
	defer h.end() // also what began while all ended
	for {
		next := time.Now().Add(h.some(b.every()))
		for time.Now().Before(next) && !b.heals() {
			if !h.calmly(ctx, min(time.Until(next), 500*time.Millisecond)) {
				return
			}
			h.watch(ctx)
		}
		if b.heals() {
			break
		}
		h.befall(ctx)
	}
	h.heal()
	// A host that is away returns at last: what it left aborted, others settle only once something waits for it.
	if h.gone.Load() && b.sleep(ctx, realAway) {
		h.gone.Store(false)
	}
	for h.calmly(ctx, 500*time.Millisecond) {
		h.watch(ctx)
	}
}

// calmly lets time pass, and starts again what is struck meanwhile. It reports false when ctx ended first.
func (h *host) calmly(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-t.C:
			return true
		case s := <-h.struck:
			h.revive(ctx, s)
		}
	}
}

// revive starts what a strike has ended, on another folder if that was lost. A process that has a successor already
// has none now.
func (h *host) revive(ctx context.Context, s struck) {
	if s.p != h.current() || h.gone.Load() {
		return
	}
	if s.how == StartsElse {
		h.reboot()
		h.folder = h.newFolder()
		h.others = append(h.others, s.p)
		h.set(h.begin(h.folder))
		return
	}
	h.stop(s.p)
	if s.how == Loses || s.how == LosesDone {
		h.folder = h.newFolder()
	}
	h.again(ctx)
}

func (b *bubble) heals() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.healing
}

func (b *bubble) every() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fault.every
}

// heal ends what befell the agent. One that is gone for good stays away.
func (h *host) heal() {
	for _, p := range append(h.others, h.current()) {
		if p != nil {
			p.cut.Store(false)
			p.disk.full.Store(false)
		}
	}
	for _, p := range h.others {
		h.stop(p)
	}
	h.others = nil
}

// watch starts the process again when it has ended by itself.
func (h *host) watch(ctx context.Context) {
	p := h.current()
	switch {
	case h.gone.Load():
		return
	case p != nil && p.life.Err() == nil:
		return
	case p != nil:
		<-p.ended
	}
	h.set(h.begin(h.folder))
}

// lifeHits are the kinds of what may befall a process, as befall draws them; moves say more of themselves.
func lifeHits() [8]hit {
	return [...]hit{hitKilled, hitPowerLost, hitStopped, hitFolderLost, hitMoved, hitCutOff, hitDiskFull, hitSlept}
}

// befall lets one thing happen.
func (h *host) befall(ctx context.Context) {
	b := h.b
	if h.gone.Load() {
		return
	}
	h.watch(ctx)
	p := h.current()
	if p == nil {
		return
	}
	b.mu.Lock()
	f := b.fault
	b.mu.Unlock()
	what := h.weighed(f.crash, f.power, 0.5*f.crash, f.empty, 2*f.copies, 0.7*f.partition, f.full, 0.8*f.zombie,
		f.forGood, 0.1)
	if all := lifeHits(); what < len(all) {
		h.landed(all[what])
	}
	switch what {
	case 0:
		h.stop(p)
		h.again(ctx)
	case 1:
		b.note("%s loses its power", p.name)
		p.dead.Store(true)
		p.disk.lose()
		h.stop(p)
		h.reboot()
		h.again(ctx)
	case 2:
		b.note("%s is told to stop", p.name)
		p.kill()
		<-p.ended
		h.again(ctx)
	case 3:
		b.note("%s loses its folder", p.name)
		h.stop(p)
		h.folder = h.newFolder()
		h.again(ctx)
	case 4:
		h.move(ctx, p)
	case 5:
		b.note("%s is cut off", p.name)
		p.cut.Store(true)
		b.sleep(ctx, h.some(9*time.Second))
		b.note("%s is back", p.name)
		p.cut.Store(false)
	case 6:
		p.disk.full.Store(true)
		b.sleep(ctx, h.some(3*time.Second))
		p.disk.full.Store(false)
	case 7:
		b.note("the machine of %s sleeps", h.agent)
		h.mu.Lock()
		h.slept += h.some(12 * time.Second)
		h.mu.Unlock()
	case 8:
		if !b.spare() {
			return // with no agent left nothing would be settled
		}
		h.landed(hitGone)
		b.note("%s never comes back", h.agent)
		h.gone.Store(true)
		h.set(nil)
		h.stop(p)
	}
}

// spare reports whether more than one agent is left: with none nothing would be settled.
func (b *bubble) spare() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	left := 0
	for _, h := range b.hosts {
		if !h.gone.Load() {
			left++
		}
	}
	return left > 1
}

// again starts the process after a while.
func (h *host) again(ctx context.Context) {
	pause := 300 * time.Millisecond
	if h.n(3) == 0 {
		pause = 9 * time.Second // longer than a lease
	}
	h.b.sleep(ctx, h.some(pause))
	h.set(h.begin(h.folder))
}

// move starts the agent elsewhere: on its moved folder, on an older copy of it that other sessions have outlived, or
// on an empty one while the former process goes on.
func (h *host) move(ctx context.Context, p *proc) {
	b := h.b
	former := h.folder
	h.folder = h.newFolder()
	h.reboot()
	way := h.n(3)
	switch way {
	case 0:
		b.note("%s moves with its folder", h.agent)
		h.stop(p)
		copyFolder(former, h.folder)
		h.set(h.begin(h.folder))
	case 1:
		h.landed(hitCopied)
		b.note("%s has a copy made of its folder, and starts on that after another session", h.agent)
		h.stop(p)
		copyFolder(former, h.folder)
		h.set(h.begin(former))
		b.sleep(ctx, time.Second+h.some(6*time.Second))
		joined := sequencer.Seq(0)
		if p = h.current(); p != nil {
			joined = sequencer.Seq(p.agent.Health().Incarnation)
			h.stop(p)
		}
		if joined == 0 { // none could tell that the copy is one
			h.folder = former
		}
		h.set(h.begin(h.folder))
	default:
		h.landed(hitTwin)
		b.note("%s starts elsewhere beside %s", h.agent, p.name)
		p.cut.Store(h.n(2) == 0)
		h.others = append(h.others, p)
		h.set(h.begin(h.folder))
		b.sleep(ctx, h.some(4*time.Second))
		p.cut.Store(false)
		if h.n(2) == 0 {
			h.stop(p)
		}
	}
}

// stop kills a process, and returns once its lock is free.
func (h *host) stop(p *proc) {
	if p == nil {
		return
	}
	h.b.note("%s is killed", p.name)
	p.dead.Store(true)
	p.kill()
	<-p.ended
}

// end stops all.
func (h *host) end() {
	for _, p := range append(h.others, h.current()) {
		h.stop(p)
	}
	h.set(nil)
}

// copyFolder copies what lies in a folder, as a volume's snapshot does.
func copyFolder(from, to string) {
	_ = filepath.Walk(from, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return nil
		}
		rest, _ := filepath.Rel(from, path)
		target := filepath.Join(to, rest)
		_ = os.MkdirAll(filepath.Dir(target), 0o700)
		in, err := os.Open(path)
		if err != nil {
			return nil
		}
		defer in.Close()
		out, err := os.Create(target)
		if err != nil {
			return nil
		}
		defer out.Close()
		_, _ = io.Copy(out, in)
		return nil
	})
}

var (
	_ agent.Log   = (*port)(nil)
	_ agent.Clock = (*host)(nil)
)
