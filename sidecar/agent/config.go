package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/sidecar/loop"
	"github.com/hence-dev/hence/sidecar/metrics"
	"github.com/hence-dev/hence/sidecar/once"
	"github.com/hence-dev/hence/sidecar/view"
	"github.com/hence-dev/hence/topology/machine"
)

// Config is what an agent is made of.
type Config struct {
	Name    string
	View    *view.View // of its workspace; shared by the agents of a process
	Log     Log
	Keys    *once.Keys     // requests with an Idempotency-Key: the agent's journal keeps them
	DataDir string         // the journal's folder; empty: the delivery log is in memory only
	Order   sequencer.Mode // of transactions that name none
	Observe bool           // every transaction only observes
	Tools   gate.Tools     // the policy; nil: none, then no tool is called
	Hook    Hook           // says yes or no to each sealed footprint
	Limits  Limits
	Logger  *slog.Logger
	Tracer  trace.Tracer // nil: no spans are begun
	Metrics *metrics.Agent
	Machine Machine
	Loop    loop.Options    // Context and Tasks are the agent's own. A simulation gives its Scheduler
	Opened  func()          // called once the journal is open: before, no request is to be served
	Live    func()          // called after each join
	Patient bool            // a journal that cannot be opened is tried again, and does not end Run
	Cut     context.Context // ends what Run still waits for when it stops; nil: only Limits.StopWait does
}

// Complete fills in defaults and says what is wrong with a configuration.
func Complete(c Config) (Config, error) {
	c.Limits, c.Machine = WithDefaults(c.Limits), c.Machine.orThis()
	nothing := func() {}
	if c.Opened == nil {
		c.Opened = nothing
	}
	if c.Live == nil {
		c.Live = nothing
	}
	if c.Cut == nil {
		c.Cut = context.Background()
	}
	var err error
	c.Hook, err = c.Hook.withDefaults()
	return c, errors.Join(ValidAgent(c.Name), err)
}

// Machine is what an agent has of the machine that it runs on. Zero fields are this machine's; a test puts others.
type Machine struct {
	Clock Clock
	Open  journal.Opener // of journals
	Boot  string         // names the time since the machine was started; empty: it has no name for it
}

// orThis completes a machine.
func (m Machine) orThis() Machine {
	if m.Clock == nil {
		m.Clock = machine.Clock{}
	}
	if m.Open == nil {
		m.Open = journal.OpenOS
	}
	m.Boot = cmp.Or(m.Boot, journal.BootID())
	return m
}

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
	WatermarkSeqs    int           // that pass before an agent that only watches says so, but for its lease; 256
	RenewEvery       time.Duration // of the lease when nothing moves; a third of what it surely lasts, at least 3 s
	SettlementWait   time.Duration // for an agent to say what it did under its touches, after an abort; 2 min
	Branches         int           // of a group; 16
	AdoptAfter       time.Duration // how long an orphan may block this agent before it is adopted; 2 s
	Readers          int           // with a delivery log of their own, then the oldest end; 100,000
	PlanWait         time.Duration // for calls that are planned before one that moves the same; 2 s
	ReaderTTL        time.Duration // how long what a reader was given counts, unless it says so; 1 h
}

// WithDefaults puts its default in place of each limit that is zero.
func WithDefaults(l Limits) Limits {
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
	l.WatermarkSeqs = cmp.Or(l.WatermarkSeqs, 256)
	l.SettlementWait = cmp.Or(l.SettlementWait, 2*time.Minute)
	l.Branches = cmp.Or(l.Branches, 16)
	l.AdoptAfter = cmp.Or(l.AdoptAfter, 2*time.Second)
	l.Readers = cmp.Or(l.Readers, 100_000)
	l.PlanWait = cmp.Or(l.PlanWait, 2*time.Second)
	l.ReaderTTL = cmp.Or(l.ReaderTTL, time.Hour)
	return l
}

// Clock is where a sidecar has its time from.
type Clock = loop.Clock

// Hook is asked whether a sealed footprint may commit. It is a URL that takes a POST, or a command that reads its
// standard input; either sees the footprint as JSON and answers {"yes": true} or {"yes": false, "reason": "why"}.
// Anything else, and no answer in time, is no.
type Hook struct {
	URL     string
	Command []string      // the program and its arguments; no shell reads them
	Dir     string        // where the command runs; "": where the sidecar does
	Timeout time.Duration // default 5 s

	Transport http.RoundTripper // of the URL; nil: the network. A simulation gives its own
}

// enabled reports whether there is a hook.
func (h *Hook) enabled() bool { return h.URL != "" || len(h.Command) > 0 }

// withDefaults completes a hook and says what is wrong with it.
func (h Hook) withDefaults() (Hook, error) {
	if !h.enabled() {
		return h, nil
	}
	if h.Timeout == 0 {
		h.Timeout = defaultHookTimeout
	}
	switch {
	case h.Timeout < 0 || h.Timeout > longestHook:
		return h, fmt.Errorf("the hook's time is %v: give at most %v", h.Timeout, longestHook)
	case h.URL != "" && len(h.Command) > 0:
		return h, errors.New("the hook has a URL and a command: give one of them")
	case h.URL == "" && h.Command[0] == "":
		return h, errors.New("the hook's command is empty: name a program")
	case h.URL == "":
		return h, nil
	}
	u, err := url.Parse(h.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return h, errors.New("the hook's URL is not one: give http://host/path or https://host/path")
	}
	return h, nil
}

const (
	defaultHookTimeout = 5 * time.Second
	longestHook        = time.Minute
	maxHookAnswer      = 16 << 10
	maxHookReason      = 256
	hookSpare          = 20 // ticks that the log waits longer than the hook may take
	secretPrefix       = "HENCE_"
)

// CheckHook says what is wrong with a hook; none at all is fine.
func CheckHook(h Hook) error {
	_, err := h.withDefaults()
	return err
}

const maxAgentBytes = 63

// ValidAgent says what is wrong with an agent's name. It stands in ids of transactions and in the journal's file name.
func ValidAgent(name string) error {
	if name == "" || len(name) > maxAgentBytes {
		return fmt.Errorf("agent name %q: give 1 to %d of a-z, 0-9, '_', '-'", name, maxAgentBytes)
	}
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return fmt.Errorf("agent name %q has %q: use a-z, 0-9, '_', '-'", name, c)
		}
	}
	return nil
}
