package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

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
