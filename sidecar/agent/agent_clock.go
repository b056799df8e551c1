package agent

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"time"
)

// Limits bound what a sidecar keeps and how long it waits. A zero field is its default.
type Limits struct {
	BodyBytes        int64         // of a request's body; 512 KiB
	Requests         int           // worked on at once; 512
	Watchers         int           // streams of decisions at once; 32
	Open             int           // open transactions; 256
	Conversations    int           // with reads outside transactions that no seal has carried yet; 4096
	Decided          int           // transactions that are over and still answered; 4096
	ListItems        int           // of one answer; 1000
	WaitMost         time.Duration // of one request; 30 s
	FutureWait       time.Duration // for a seq that is not there yet; 1 s
	SessionWait      time.Duration // for a session that is just beginning; 3 s
	OldBytes         int64         // contents of former revisions; 32 MiB
	ContentBytes     int64         // contents fetched by reference; 32 MiB
	IdempotencyKeys  int           // remembered, then the oldest go; 32768
	IdempotencyBytes int64         // of keys and answers, then the oldest answers go; 16 MiB
	IdempotencyAge   time.Duration // how long a key is remembered; 1 h
	Attempts         int           // of one piece of work, then give up; 64
	LockedAfter      int           // refusals, then further attempts are locked; 5
	JournalBytes     int64         // size at which the journal is rewritten; 8 MiB
	PendingEvents    int           // events that wait to be published; 8192
	StopWait         time.Duration // for running requests when stopping; 5 s
	WatermarkEvery   time.Duration // while the view moves; 1 s
	RenewEvery       time.Duration // of the lease when nothing moves; 3 s
	SettlementWait   time.Duration // for an agent to say what it did under its touches, after an abort; 2 min
	Branches         int           // of a group; 16
	AdoptAfter       time.Duration // how long an orphan may block this agent before it is adopted; 2 s
}

func (l Limits) WithDefaults() Limits {
	l.BodyBytes = cmp.Or(l.BodyBytes, 512<<10)
	l.Requests = cmp.Or(l.Requests, 512)
	l.Watchers = cmp.Or(l.Watchers, 32)
	l.Open = cmp.Or(l.Open, 256)
	l.Conversations = cmp.Or(l.Conversations, 4096)
	l.Decided = cmp.Or(l.Decided, 4096)
	l.ListItems = cmp.Or(l.ListItems, 1000)
	l.WaitMost = cmp.Or(l.WaitMost, 30*time.Second)
	l.FutureWait = cmp.Or(l.FutureWait, time.Second)
	l.SessionWait = cmp.Or(l.SessionWait, 3*time.Second)
	l.OldBytes = cmp.Or(l.OldBytes, 32<<20)
	l.ContentBytes = cmp.Or(l.ContentBytes, 32<<20)
	l.IdempotencyKeys = cmp.Or(l.IdempotencyKeys, 32768)
	l.IdempotencyBytes = cmp.Or(l.IdempotencyBytes, 16<<20)
	l.IdempotencyAge = cmp.Or(l.IdempotencyAge, time.Hour)
	l.Attempts = cmp.Or(l.Attempts, 64)
	l.LockedAfter = cmp.Or(l.LockedAfter, 5)
	l.JournalBytes = cmp.Or(l.JournalBytes, 8<<20)
	l.PendingEvents = cmp.Or(l.PendingEvents, 8192)
	l.StopWait = cmp.Or(l.StopWait, 5*time.Second)
	l.WatermarkEvery = cmp.Or(l.WatermarkEvery, time.Second)
	l.RenewEvery = cmp.Or(l.RenewEvery, 3*time.Second)
	l.SettlementWait = cmp.Or(l.SettlementWait, 2*time.Minute)
	l.Branches = cmp.Or(l.Branches, 16)
	l.AdoptAfter = cmp.Or(l.AdoptAfter, 2*time.Second)
	return l
}

// Clock is where a sidecar has its time from.
type Clock interface {
	Now() time.Time
	// Steady is for how long something surely lasts, and no date: it counts while the machine sleeps where the system
	// can tell, and nothing sets it.
	Steady() time.Time
	// Ticker gives a time about every d until stop is called.
	Ticker(d time.Duration) (c <-chan time.Time, stop func())
}

// RandomID is 96 random bits.
func RandomID() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(b[:])
}
