package cli

import (
	"context"
	"fmt"

	"github.com/hence-dev/hence/cmd/hence/internal/dryrun"
	"github.com/hence-dev/hence/streams/recorded"
)

// policyDryRunCmd is the configuration of "hence policy dry-run".
type policyDryRunCmd struct {
	servers
	logging
	output
	policyFile
	Workspace string `default:"default" dev:"workspace" help:"Workspace."`
	Limit     int    `env:"-" default:"50" help:"Differences to show; 0: all."`
}

// Help is what "hence policy dry-run --help" says beyond the flags.
func (c *policyDryRunCmd) Help() string {
	return `It reads the calls of tools in a workspace's log, with their arguments, and says what the policy would make of
each: refuse it, or take it as another class or of other scopes than it was taken. Nothing is called and nothing is
written. What would have been decided then is said by hence replay --policy.

Exit code: 0 every call would be taken as it was, 1 the file is refused or the log cannot be read, 3 a call would not.`
}

// Run reads the log.
func (c *policyDryRunCmd) Run(ctx context.Context, s Streams) error {
	p, err := c.load()
	if err != nil {
		return err
	}
	log, err := recorded.Open(ctx, c.config(c.logger(s.Err)), c.Workspace)
	if err != nil {
		return fmt.Errorf("dry-run: %w", err)
	}
	r, err := dryrun.Run(ctx, log, p, c.Limit)
	if err != nil {
		return fmt.Errorf("dry-run: %w", err)
	}
	if err := c.print(s.Out, r, r.Write); err != nil {
		return err
	}
	if r.Changed() > 0 {
		return errCheck
	}
	return nil
}
