package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/tail"
	"github.com/hence-dev/hence/streams"
)

// tailFilter is what of the decisions is shown. None of it comes from the environment, where HENCE_AGENT names whose
// sidecar is beside.
type tailFilter struct {
	Tx     string `env:"-" placeholder:"ID" help:"Only decisions about this transaction."`
	Agent  string `env:"-" placeholder:"NAME" help:"Only decisions about this agent."`
	Scope  string `env:"-" placeholder:"SCOPE" help:"Only decisions with a scope that overlaps this one."`
	Reason string `env:"-" placeholder:"CODE" help:"Only refusals with this code, observed ones included."`
	Kind   string `env:"-" placeholder:"KIND" help:"Only this kind: begun, waiting, granted, committed, aborted, ..."`
	All    bool   `env:"-" help:"Include steps before outcomes: begun, waiting, granted, settled, turn, confirmed."`
	Since  string `env:"-" placeholder:"WHEN" help:"Start after this seq, this long ago (10m), or at a time (RFC 3339)."`
}

// tailCmd is the configuration of "hence tail".
type tailCmd struct {
	servers
	logging
	output
	tailFilter
	Workspace string `default:"default" dev:"workspace" help:"Workspace to follow."`
	After     uint64 `default:"0" help:"Seq to start after; 0 starts with the first decision."`
	Limit     uint64 `default:"0" help:"Number of decisions to stop after; 0 follows until interrupted."`
}

// Help is what "hence tail --help" says beyond the flags.
func (c *tailCmd) Help() string {
	return `It shows outcomes: commits, aborts, refusals, residue, retractions, joins and ends of sidecars, tools and
rules. With --all, --kind or --tx it also shows the steps before them: begins, grants, waits, clean settlements, turns
of a retraction, and confirmations of a lease.

The time of a decision is that at which the log took its request.`
}

// prepare refuses filters that are none, before anything is connected to.
func (c *tailCmd) prepare() error { return c.options().Check(time.Now()) }

func (c *tailCmd) options() tail.Options {
	return tail.Options{Filter: tail.Filter(c.tailFilter), Workspace: c.Workspace, After: c.After, Limit: c.Limit,
		JSON: c.json()}
}

// Run prints decisions until the context ends.
func (c *tailCmd) Run(ctx context.Context, s Streams) error {
	client, err := streams.Dial(ctx, c.config(c.logger(s.Err)))
	if err != nil {
		return fmt.Errorf("connect to %v and %s: %w", c.Brokers, c.NATS, err)
	}
	defer client.Close()
	options := c.options()
	options.Out, options.Err = s.Out, s.Err
	return tail.Follow(ctx, client, options)
}
