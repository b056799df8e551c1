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
	Set rulesSetCmd `cmd:"" dev:"told" help:"Change rules; those not given stay as they are."`
}

// rulesGetCmd is the configuration of "hence rules get".
type rulesGetCmd struct {
	output
	asking
	Workspace string `default:"default" dev:"workspace" help:"Workspace."`
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
	approval := ""
	if r.ApprovalTicks > 0 { // since logic 4
		approval = fmt.Sprintf(", approval %d", r.ApprovalTicks)
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
		"ticks: lease %d, deadline %d, bound %d, verdict %d%s\n"+
		"at most: %d open, %d scopes, %d bytes of a footprint, %d kept%s\n"+
		"content: %d bytes inline, %d of a transaction, %d by reference\n",
		r.Version, r.Logic, r.Levels, r.Observe, horizon, r.CapSeqs, r.LeaseTicks, r.DeadlineTicks, r.BoundTicks,
		r.VerdictTicks, approval, r.MaxOpen, r.MaxScopes, r.MaxBytes, r.MaxKept, sidecars, r.MaxInline, r.MaxInlineTotal,
		r.MaxContent)
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
	Workspace      string  `default:"default" dev:"workspace" help:"Workspace."`
	IfVersion      *uint32 `placeholder:"N" help:"Version to change; default: the one in force."`
	Logic          *uint32 `placeholder:"N" help:"Logic of the sequencer, 1 to 4: 2 retracts, 4 merges. Never lower it."`
	Levels         *string `placeholder:"TEXT" help:"Isolation level L0 to L4, or checks A1, A2, A3, A6 with commas."`
	Observe        *bool   `negatable:"" help:"Report what would be refused instead of refusing it."`
	HorizonSeqs    *uint32 `placeholder:"N" help:"Undo horizon in seqs, logic 1 and 2; later, of aborted ones."`
	HorizonCommits *uint32 `placeholder:"N" help:"Undo horizon in commits from logic 3 on; 0 is 2000."`
	HorizonTicks   *uint32 `placeholder:"N" help:"Undo horizon in ticks of 250 ms from logic 3 on; 0 is 7 days."`
	CapSeqs        *uint32 `placeholder:"N" help:"Number of seqs that an idle session may hold the floor back."`
	LeaseTicks     *uint32 `placeholder:"N" help:"Length of a lease in ticks; a tick is 250 ms or longer."`
	DeadlineTicks  *uint32 `placeholder:"N" help:"Deadline of a transaction in ticks from its begin."`
	BoundTicks     *uint32 `placeholder:"N" help:"Deadline of a waiting touch in ticks."`
	VerdictTicks   *uint32 `placeholder:"N" help:"Deadline of a hook's answer in ticks from the seal."`
	ApprovalTicks  *uint32 `placeholder:"N" help:"Bound of approvals in ticks from the seal, since logic 4."`
	MaxOpen        *uint32 `placeholder:"N" help:"Maximum number of open transactions."`
	MaxScopes      *uint32 `placeholder:"N" help:"Maximum number of scopes in a footprint."`
	MaxBytes       *uint32 `placeholder:"N" help:"Maximum bytes of a footprint without contents."`
	MaxInline      *uint32 `placeholder:"N" help:"Maximum bytes of one content that travels in an intent."`
	MaxContent     *uint32 `placeholder:"N" help:"Maximum bytes of one content."`
	MaxInlineTotal *uint32 `placeholder:"N" help:"Maximum bytes of all contents that travel in one intent."`
	MaxKept        *uint32 `placeholder:"N" help:"Maximum bytes of the workspace's state."`
	MaxSidecars    *uint32 `placeholder:"N" help:"Maximum number of live sidecars from logic 3 on; 0 is 1024."`
}

// Run changes the rules.
func (c *rulesSetCmd) Run(ctx context.Context, s Streams) error {
	change := client.RulesChange{Logic: c.Logic, Observe: c.Observe, Levels: c.Levels, HorizonSeqs: c.HorizonSeqs,
		CapSeqs: c.CapSeqs, LeaseTicks: c.LeaseTicks, DeadlineTicks: c.DeadlineTicks, BoundTicks: c.BoundTicks,
		VerdictTicks: c.VerdictTicks, MaxOpen: c.MaxOpen, MaxScopes: c.MaxScopes, MaxBytes: c.MaxBytes,
		MaxInline: c.MaxInline, MaxContent: c.MaxContent, MaxInlineTotal: c.MaxInlineTotal, MaxKept: c.MaxKept,
		MaxSidecars: c.MaxSidecars, HorizonCommits: c.HorizonCommits, HorizonTicks: c.HorizonTicks,
		ApprovalTicks: c.ApprovalTicks}
	if change == (client.RulesChange{}) {
		return misused(errors.New("no rule to change is given: see hence rules set --help"))
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
