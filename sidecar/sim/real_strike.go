package sim

import (
	"fmt"
	"syscall"
	"time"
)

// door is one of the places where a process meets the world outside: each passage is an operation with a number, and
// a schedule may strike at any of them.
type door string

// The doors.
const (
	doorOpen     door = "open"     // a journal's file
	doorRead     door = "read"     // of a journal
	doorWrite    door = "write"    // to a journal
	doorSync     door = "sync"     // of a journal
	doorTruncate door = "truncate" // of a journal
	doorAppend   door = "append"   // of an intent
	doorEvents   door = "events"   // a record of hence.events
	doorDeliver  door = "deliver"  // a decision to a view
	doorAsk      door = "ask"      // a question to the brokers or the processors
	doorCall     door = "call"     // of a tool
	doorLookUp   door = "look_up"  // of a call, at its sink
	doorHook     door = "hook"     // a question to it
	doorAnswer   door = "answer"   // to an agent
)

// How is what happens at an operation that is struck.
type How uint8

// The ways to strike: what becomes of the operation, and of the process that made it.
const (
	Fails      How = iota + 1 // nothing happens, and it says that it failed
	FailsDone                 // it happens, and it says that it failed
	ComesLate                 // it says that it failed, and happens later
	Kills                     // the process dies before it
	KillsDone                 // the process dies after it, and has not heard
	PowerOff                  // the machine loses its power before it: what was not synced is lost
	PowerDone                 // the same after it
	Loses                     // the process dies before it, and its folder is lost
	LosesDone                 // the same after it
	StartsElse                // a second process of the agent starts, on another folder, and this one goes on
	lastHow    = StartsElse
)

// String is the way's name, as strikes are written.
func (h How) String() string {
	return [...]string{"none", "fails", "fails_done", "comes_late", "kills", "kills_done", "power", "power_done", "loses",
		"loses_done", "starts_elsewhere"}[h]
}

// ends: the process does not outlive it. after: the operation happens first.
func (h How) ends() bool  { return h >= Kills && h <= LosesDone }
func (h How) after() bool { return h == KillsDone || h == PowerDone || h == LosesDone }

// Strike names an operation of a schedule by its number, and what happens there.
type Strike struct {
	At  int // 1-based, over all processes of the schedule
	How How
}

// String is what ParseStrikes reads: number:way.
func (s Strike) String() string { return fmt.Sprintf("%d:%s", s.At, s.How) }

var errStruck = fmt.Errorf("sim: struck: %w", syscall.EIO)

// struck is a process that a strike has ended.
type struck struct {
	p   *proc
	how How
}

// op counts a passage through a door, and returns how it is struck; zero: not at all. A process that is to die before
// it is dead when op returns.
func (p *proc) op(d door) How {
	b := p.b
	b.mu.Lock()
	how := How(0)
	if !b.healing {
		b.ops++
		for _, s := range b.opts.Strikes {
			if s.At == b.ops {
				how = s.How
			}
		}
	}
	if how != 0 {
		b.r.hit(hitStrike(how))
		b.r.report.Struck = append(b.r.report.Struck, fmt.Sprintf("%s at %s", how, d))
		b.r.now = b.step()
		b.r.note("%s: strike %d: %s at %s", p.name, b.ops, how, d)
	}
	b.mu.Unlock()
	switch {
	case how == StartsElse:
		p.h.tell(struck{p, how})
		return 0
	case how.ends() && !how.after():
		p.die(how)
	}
	return how
}

// done is called when a struck operation has happened; it returns what its caller is told instead of err.
func (p *proc) done(how How, err error) error {
	switch {
	case how.after():
		p.die(how)
		return errDead
	case how == FailsDone && err == nil:
		return errStruck
	}
	return err
}

// passes is op and done of what has no effect.
func (p *proc) passes(d door) error {
	how := p.op(d)
	if how == 0 {
		return nil
	}
	if how.after() {
		p.die(how)
	}
	return errStruck
}

// die ends the process on the spot; its host starts it again.
func (p *proc) die(how How) {
	p.dead.Store(true)
	if how == PowerOff || how == PowerDone {
		p.disk.lose()
		p.h.reboot()
	}
	p.h.tell(struck{p, how})
	p.kill()
}

// tell hands the host what befell its process; one that is told already has more to do than to hear of another.
func (h *host) tell(s struck) {
	select {
	case h.struck <- s:
	default:
	}
}

// clean leaves of the drawn faults what agents ask for: what goes wrong then is the strike alone.
func (f *faults) clean() {
	lag, slow := f.lag, f.slow
	f.calm()
	f.lag, f.slow, f.every = min(lag, 40*time.Millisecond), slow, time.Hour
}
