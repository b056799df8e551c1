package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/hence-dev/hence/cmd/hence/internal/show"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

// residueCmd holds the commands about what could not be made clean.
type residueCmd struct {
	Ls     residueLsCmd     `cmd:"" help:"List residues, newest first."`
	Show   residueShowCmd   `cmd:"" help:"Show a residue."`
	Retry  residueRetryCmd  `cmd:"" dev:"told" help:"Try again to make a residue clean."`
	Accept residueAcceptCmd `cmd:"" dev:"told" help:"Accept a residue as it is."`
}

// residueLsCmd is the configuration of "hence residue ls".
type residueLsCmd struct {
	output
	asking
	Tool   string `placeholder:"NAME" help:"Only residues of this tool."`
	Result string `enum:",leaked,unresolved,partial,clean" default:"" help:"Only residues with this result."`
	State  string `enum:"open,accepted,resolved,all" default:"open" help:"Open, accepted or resolved residues, or all."`
	Limit  int    `default:"100" help:"Maximum number of residues."`
}

// Run lists.
func (c *residueLsCmd) Run(ctx context.Context, s Streams) error {
	q := client.ResidueQuery{Tool: c.Tool, Result: c.Result, State: c.State, Limit: c.Limit}
	if q.State == "all" {
		q.State = ""
	}
	list, err := c.client().Residue(ctx, q)
	if err != nil {
		return fmt.Errorf("list the residue: %w", err)
	}
	return c.print(s.Out, list, func(w io.Writer) error {
		if len(list.Items) == 0 {
			_, err := fmt.Fprintln(w, "no residue")
			return err
		}
		t := show.Table{Head: []string{"TX", "INDEX", "TOOL", "CALL", "RESULT", "STATE", "TRIES", "CODE", "DETAIL"}}
		for _, r := range list.Items {
			t.Add(r.Tx, strconv.FormatUint(uint64(r.Index), 10), r.Tool, cmp.Or(r.Call, "-"), r.Result, r.State,
				strconv.Itoa(r.Tries), cmp.Or(r.Code, "-"), r.Detail)
		}
		if err := t.Write(w); err != nil || !list.Truncated {
			return err
		}
		_, err := fmt.Fprintln(w, "… and more: raise --limit, or add a filter")
		return err
	})
}

// oneResidue names one effect.
type oneResidue struct {
	operating
	Tx    string `arg:"" help:"Transaction id."`
	Index uint32 `arg:"" help:"Index of the effect in the transaction, from 0."`
}

func (o oneResidue) name() string { return fmt.Sprintf("effect %d of %s", o.Index, o.Tx) }

func printResidue(w io.Writer, r *api.Residue) error {
	err := show.Plainly(w, "effect %d of %s: %s, %s after %d tries (%s)\n", r.Index, r.Tx, r.Tool, r.Result,
		r.Tries, r.State)
	if err == nil && r.Key != "" {
		err = show.Plainly(w, "  key    %s\n", r.Key)
	}
	if err == nil && r.Call != "" {
		err = show.Plainly(w, "  call   %s\n", r.Call)
	}
	for _, scope := range r.Scopes {
		if err == nil {
			err = show.Plainly(w, "  scope  %s\n", scope)
		}
	}
	if err == nil {
		err = show.Plainly(w, "  detail %s\n", r.Detail)
	}
	if err == nil && r.Code != "" {
		err = show.Plainly(w, "  code   %s\n  args   %s\n", r.Code,
			cmp.Or(string(r.Args), "too large for the list: the events topic has them"))
	}
	if err == nil && r.Note != "" {
		err = show.Plainly(w, "  note   %s\n", r.Note)
	}
	return err
}

// residueShowCmd is the configuration of "hence residue show".
type residueShowCmd struct {
	output
	oneResidue
}

// Run shows one.
func (c *residueShowCmd) Run(ctx context.Context, s Streams) error {
	list, err := c.client().Residue(ctx, client.ResidueQuery{Limit: 1000})
	if err != nil {
		return fmt.Errorf("list the residue: %w", err)
	}
	for i := range list.Items {
		if r := &list.Items[i]; r.Tx == c.Tx && r.Index == c.Index {
			return c.print(s.Out, r, func(w io.Writer) error { return printResidue(w, r) })
		}
	}
	if list.Truncated {
		return fmt.Errorf("%s is not among the newest 1000", c.name())
	}
	return fmt.Errorf("%s is not on the list of residues: run hence residue ls --state all", c.name())
}

// residueRetryCmd is the configuration of "hence residue retry".
type residueRetryCmd struct {
	output
	oneResidue
	Force bool `help:"Retry although the sink cannot recognise the call: it may happen twice. Check the sink first."`
	// ChangedTool is the choice that the code changed_tool asks for.
	ChangedTool bool `help:"Retry even if the tool's declaration has changed; the current declaration is used."`
}

// Run tries one again.
func (c *residueRetryCmd) Run(ctx context.Context, s Streams) error {
	r, err := c.client().RetryResidueWith(ctx, c.Tx, c.Index,
		api.RetryResidue{Force: c.Force, ChangedTool: c.ChangedTool})
	var p *client.Problem
	flag := map[string]string{"no_key": "--force", "changed_tool": "--changed-tool"}
	if errors.As(err, &p) && flag[p.Code] != "" {
		return fmt.Errorf("retry %s: %s; then run it with %s", c.name(), p.Detail, flag[p.Code])
	}
	if err != nil {
		return fmt.Errorf("retry %s: %w", c.name(), err)
	}
	return c.print(s.Out, r, func(w io.Writer) error { return printResidue(w, &r) })
}

// residueAcceptCmd is the configuration of "hence residue accept".
type residueAcceptCmd struct {
	output
	oneResidue
	Note string `required:"" placeholder:"TEXT" help:"Who accepts the residue, and why."`
}

// Run accepts one.
func (c *residueAcceptCmd) Run(ctx context.Context, s Streams) error {
	r, err := c.client().AcceptResidue(ctx, c.Tx, c.Index, c.Note)
	if err != nil {
		return fmt.Errorf("accept %s: %w", c.name(), err)
	}
	return c.print(s.Out, r, func(w io.Writer) error { return printResidue(w, &r) })
}

// retractCmd is the configuration of "hence retract".
type retractCmd struct {
	output
	operating
	Tx     string `arg:"" help:"Id of the committed transaction, of any agent."`
	DryRun bool   `help:"Print what would be undone, and undo nothing."`
	Reason string `placeholder:"TEXT" help:"Reason, recorded in the sidecar's log."`
}

// Run asks the sidecar to retract, or what that would undo.
func (c *retractCmd) Run(ctx context.Context, s Streams) error {
	got, err := c.client().Retract(ctx, c.Tx, c.Reason, c.DryRun)
	if err != nil {
		return fmt.Errorf("retract %s: %w", c.Tx, err)
	}
	return c.print(s.Out, got, func(w io.Writer) error { return printRetraction(w, &got) })
}

// printRetraction writes the cone as a tree: each member below the one that it follows from.
func printRetraction(w io.Writer, r *api.Retraction) error {
	var b strings.Builder
	switch r.State {
	case api.RetractPossible:
		fmt.Fprintf(&b, "Retracting %s would undo %s (as of seq %d):\n", r.Tx,
			show.Several(r.Total, "transaction"), r.Through)
	case api.RetractDone:
		fmt.Fprintf(&b, "%s is retracted; its cone has %s:\n", r.Tx, show.Several(r.Total, "transaction"))
	default:
		fmt.Fprintf(&b, "%s is being retracted since seq %d; its cone has %s:\n", r.Tx, r.Seq,
			show.Several(r.Total, "transaction"))
	}
	if r.Undo != nil && r.State == api.RetractPossible {
		fmt.Fprintf(&b, "%s\n", r.Undo.Sentence)
	}
	for _, by := range r.BlockedBy {
		_ = show.Plainly(&b, "  it waits for %s (%s)\n", by.Tx, by.Why) // a builder takes all
	}
	below := map[string][]*api.ConeMember{}
	known := map[string]bool{}
	for i := range r.Cone {
		known[r.Cone[i].Tx] = true
	}
	for i := range r.Cone {
		m := &r.Cone[i]
		of := m.Of
		if !known[of] || of == m.Tx {
			of = ""
		}
		below[of] = append(below[of], m)
	}
	shown := map[string]bool{}
	printBelow(&b, below, "", "  ", shown)
	if n := r.Total - len(shown); n > 0 {
		fmt.Fprintf(&b, "  and %d more\n", n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// printBelow writes what follows from a member, each one once.
func printBelow(b *strings.Builder, below map[string][]*api.ConeMember, of, indent string, shown map[string]bool) {
	for _, m := range below[of] {
		if shown[m.Tx] {
			continue
		}
		shown[m.Tx] = true
		_ = show.Plainly(b, "%s%s  seq %d, agent %s", indent, m.Tx, m.Seq, m.Agent)
		if m.Why != "" {
			_ = show.Plainly(b, "  (%s", m.Why)
			if m.At != "" {
				_ = show.Plainly(b, " %s", m.At)
			}
			b.WriteString(")")
		}
		b.WriteString("\n")
		for _, shard := range m.Restored {
			_ = show.Plainly(b, "%s  - %s %s\n", indent, shard.Scope, restoredTo(shard))
		}
		for _, e := range m.Effects {
			_ = show.Plainly(b, "%s  - call %d, %s: %s\n", indent, e.Index, e.Tool, fateText(e.Fate))
		}
		if m.MoreEffects {
			fmt.Fprintf(b, "%s  - further calls, which are not shown\n", indent)
		}
		printBelow(b, below, m.Tx, indent+"    ", shown)
	}
}

func restoredTo(s api.ShardRestored) string {
	switch {
	case s.Unknown:
		return "stays as it is: what was there before is not known any more"
	case s.Absent:
		return "is taken away"
	case s.Writer != "":
		return fmt.Sprintf("goes back to what %s wrote at seq %d", s.Writer, s.Seq)
	}
	return "goes back to what was there before"
}

func fateText(fate string) string {
	switch fate {
	case api.FateCompensated:
		return "compensated"
	case api.FateLeft:
		return "HAS LEFT FOR GOOD"
	}
	return "not known: its agent is asked"
}
