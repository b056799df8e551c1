// Package console is the web page for people who watch a workspace: what is decided, what waits and for whom, what the
// gate holds, what could not be made clean. It reads the log's records and asks its tables; it decides nothing.
//
// It refuses to be a store: it remembers a bounded while, and what is older it looks up in the log or says that it is
// gone. It works on one workspace. Its page is made of files in this package and talks to no other host.
package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/feed"
	"github.com/hence-dev/hence/topology"
	"github.com/hence-dev/hence/topology/machine"
)

// Config is what a console is told. Source and Token are needed.
type Config struct {
	Source    Source
	Workspace string   // default "default"
	Token     string   // what people must show, once per browser
	Hosts     []string // names under which the console is reached, beside localhost and addresses
	Actions   Actions  // what an operator may do; nil: nothing
	NoActions string   // why there are none, for people
	Version   string   // of the binary, shown in the page
	// Classes are those of the shards that clients of S-Bus commit to; nil: the console knows of no such clients.
	Classes func() api.ShardClasses
	Clock   Clock // default: the machine's
	Logger  *slog.Logger
	Limits  Limits
}

// Clock is the time as the console sees it.
type Clock interface {
	Now() time.Time
	After(d time.Duration) <-chan time.Time
}

// Limits bound what a console keeps and how long it waits. A zero field is its default.
type Limits struct {
	Decisions    int           // remembered; 32,768
	Transactions int           // remembered; 8,192
	Streams      int           // pages at once; 32
	Sessions     int           // logged in browsers; 64
	SessionAge   time.Duration // until one must log in again; 12 h
	Batch        time.Duration // between two messages to a page; 100 ms
	BatchRows    int           // decisions in one message, the newest; 250
	LiveEvery    time.Duration // between two questions to the fold; 1 s
	Back         time.Duration // how far back it looks when it starts; 5 min
	AskWait      time.Duration // for one answer; 3 s
}

func (l Limits) withDefaults() Limits {
	return Limits{
		Decisions: cmp.Or(l.Decisions, 1<<15), Transactions: cmp.Or(l.Transactions, 1<<13),
		Streams: cmp.Or(l.Streams, 32), Sessions: cmp.Or(l.Sessions, 64),
		SessionAge: cmp.Or(l.SessionAge, 12*time.Hour), Batch: cmp.Or(l.Batch, 100*time.Millisecond),
		BatchRows: cmp.Or(l.BatchRows, 250), LiveEvery: cmp.Or(l.LiveEvery, time.Second),
		Back: cmp.Or(l.Back, 5*time.Minute), AskWait: cmp.Or(l.AskWait, 3*time.Second),
	}
}

// Console serves the page and what it shows. Make it with New; it knows what happens while Run runs.
type Console struct {
	config   Config
	watch    *watch
	door     *door
	handler  http.Handler
	streams  chan struct{}
	quiet    chan struct{} // closed when Run ends: streams end
	stopped  sync.Once
	residues residueCache

	anomalies anomalyCache
}

// New makes a console.
func New(c Config) (*Console, error) {
	c.Workspace = cmp.Or(c.Workspace, "default")
	switch {
	case c.Source == nil:
		return nil, errors.New("console: no source is configured")
	case c.Token == "":
		return nil, errors.New("console: no token is configured: give --token or --token-file")
	}
	if err := topology.ValidWorkspace(c.Workspace); err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	c.Limits = c.Limits.withDefaults()
	if c.Clock == nil {
		c.Clock = machine.Clock{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Actions == nil {
		c.NoActions = cmp.Or(c.NoActions, "no sidecar is configured: start the console with --sidecar URL")
	}
	console := &Console{config: c, watch: newWatch(c), door: newDoor(c), quiet: make(chan struct{}),
		streams: make(chan struct{}, c.Limits.Streams)}
	console.handler = console.routes(feed.New(feed.Config{Follow: c.Source.FollowAt, Start: console.watch.start,
		Stop: console.quiet, Logger: c.Logger}))
	return console, nil
}

// Run keeps the console up to date until ctx ends. It is called once.
func (c *Console) Run(ctx context.Context) error {
	defer c.stopped.Do(func() { close(c.quiet) })
	var tasks sync.WaitGroup
	tasks.Go(func() { c.watch.keep(ctx, "decisions", c.watch.followDecisions) })
	tasks.Go(func() { c.watch.keep(ctx, "events", c.watch.followEvents) })
	tasks.Go(func() { c.watch.pollLive(ctx) })
	tasks.Wait()
	return ctx.Err()
}

// ServeHTTP answers one request.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.handler.ServeHTTP(w, r) }

// LoginFragment is what a printed address may end with: it logs one browser in, once.
func (c *Console) LoginFragment() string { return "#login=" + c.door.invite() }
