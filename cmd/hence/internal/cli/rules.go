package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

// rulesCmd holds the commands about a workspace's rules.
type rulesCmd struct {
	Get rulesGetCmd `cmd:"" help:"Print the rules in force."`
	Set rulesSetCmd `cmd:"" dev:"told" help:"Change some of them; what is not given stays."`
}

// rulesGetCmd is the configuration of "hence rules get".
type rulesGetCmd struct {
	output
	asking
	Workspace string `default:"default" dev:"workspace" help:"The workspace."`
}

// Run asks for the rules.
func (c *rulesGetCmd) Run(ctx context.Context, s Streams) error {
	rules, err := c.client(client.WithWorkspace(c.Workspace)).Rules(ctx)
	if err != nil {
		return fmt.Errorf("read the rules of %s: %w", c.Workspace, err)
	}
	return c.print(s.Out, rules, func(w io.Writer) error { return printRules(w, &rules) })
}

func printRules(w io.Writer, r *api.Rules) error {
	sidecars := ""
	if r.MaxSidecars > 0 { // since logic 3
		sidecars = fmt.Sprintf(", %d sidecars", r.MaxSidecars)
	}
	horizon := fmt.Sprintf("undo horizon: %d seqs", r.HorizonSeqs)
	if r.HorizonCommits > 0 { // since logic 3
		horizon = fmt.Sprintf("undo horizon: %d commits, %s of the log's time, or the kept bytes, whichever ends first\n"+
			"aborted ones, joins and branches are remembered for %d seqs", r.HorizonCommits, ticksText(r.HorizonTicks),
			r.HorizonSeqs)
	}
	_, err := fmt.Fprintf(w, "version %d, logic %d\n"+
		"levels %s, observe %v\n"+
		"%s\n"+
		"cap %d seqs\n"+
		"ticks: lease %d, deadline %d, bound %d, verdict %d\n"+
		"at most: %d open, %d scopes, %d bytes of a footprint, %d kept%s\n"+
		"content: %d bytes inline, %d of a transaction, %d by reference\n",
		r.Version, r.Logic, r.Levels, r.Observe, horizon, r.CapSeqs, r.LeaseTicks, r.DeadlineTicks, r.BoundTicks,
		r.VerdictTicks, r.MaxOpen, r.MaxScopes, r.MaxBytes, r.MaxKept, sidecars, r.MaxInline, r.MaxInlineTotal, r.MaxContent)
	return err
}

// ticksText is a time of the log, whose ticks are a quarter of a second.
func ticksText(ticks uint64) string {
	const day = 4 * 86400
	if ticks%day == 0 {
		return fmt.Sprintf("%d days", ticks/day)
	}
	return (time.Duration(ticks) * 250 * time.Millisecond).String()
}

// rulesSetCmd is the configuration of "hence rules set".
type rulesSetCmd struct {
	output
	operating
	Workspace      string  `default:"default" dev:"workspace" help:"The workspace."`
	IfVersion      *uint32 `placeholder:"N" help:"Change only this version; without it, the one in force."`
	Logic          *uint32 `placeholder:"N" help:"The sequencer's own rules; 2 retracts, 3 bounds more. Never lower it."`
	Levels         *string `placeholder:"TEXT" help:"L0 to L4, or a list of A1, A2, A3, A6 with commas."`
	Observe        *bool   `negatable:"" help:"Report what would be refused instead of refusing it."`
	HorizonSeqs    *uint32 `placeholder:"N" help:"The undo horizon before logic 3; later, of aborted ones."`
	HorizonCommits *uint32 `placeholder:"N" help:"The undo horizon from logic 3 on, in commits; 0 is 2000."`
	HorizonTicks   *uint32 `placeholder:"N" help:"The same in ticks of 250 ms; 0 is 7 days."`
	CapSeqs        *uint32 `placeholder:"N" help:"How far behind an idle session may hold the floor."`
	LeaseTicks     *uint32 `placeholder:"N" help:"A lease; a tick is 250 ms or longer."`
	DeadlineTicks  *uint32 `placeholder:"N" help:"A transaction, from its begin."`
	BoundTicks     *uint32 `placeholder:"N" help:"A waiting touch."`
	VerdictTicks   *uint32 `placeholder:"N" help:"A hook's answer, from the seal."`
	MaxOpen        *uint32 `placeholder:"N" help:"Open transactions."`
	MaxScopes      *uint32 `placeholder:"N" help:"Scopes of a footprint."`
	MaxBytes       *uint32 `placeholder:"N" help:"Bytes of a footprint without contents."`
	MaxInline      *uint32 `placeholder:"N" help:"Bytes of one content that travels in an intent."`
	MaxContent     *uint32 `placeholder:"N" help:"Bytes of one content."`
	MaxInlineTotal *uint32 `placeholder:"N" help:"Bytes of all contents that travel in one intent."`
	MaxKept        *uint32 `placeholder:"N" help:"Bytes that the workspace's state keeps."`
	MaxSidecars    *uint32 `placeholder:"N" help:"Live sidecars, from logic 3 on; 0 is the default, 1024."`
}

// Run changes the rules.
func (c *rulesSetCmd) Run(ctx context.Context, s Streams) error {
	change := client.RulesChange{Logic: c.Logic, Observe: c.Observe, Levels: c.Levels, HorizonSeqs: c.HorizonSeqs,
		CapSeqs: c.CapSeqs, LeaseTicks: c.LeaseTicks, DeadlineTicks: c.DeadlineTicks, BoundTicks: c.BoundTicks,
		VerdictTicks: c.VerdictTicks, MaxOpen: c.MaxOpen, MaxScopes: c.MaxScopes, MaxBytes: c.MaxBytes,
		MaxInline: c.MaxInline, MaxContent: c.MaxContent, MaxInlineTotal: c.MaxInlineTotal, MaxKept: c.MaxKept,
		MaxSidecars: c.MaxSidecars, HorizonCommits: c.HorizonCommits, HorizonTicks: c.HorizonTicks}
	if change == (client.RulesChange{}) {
		return misused(errors.New("nothing is to be changed: give a flag, see hence rules set --help"))
	}
	asked := c.client(client.WithWorkspace(c.Workspace))
	version := c.IfVersion
	if version == nil {
		now, err := asked.Rules(ctx)
		if err != nil {
			return fmt.Errorf("read the rules of %s: %w", c.Workspace, err)
		}
		version = &now.Version
	}
	rules, err := asked.SetRules(ctx, *version, change)
	if err != nil {
		return fmt.Errorf("change the rules of %s: %w", c.Workspace, err)
	}
	return c.print(s.Out, rules, func(w io.Writer) error { return printRules(w, &rules) })
}
