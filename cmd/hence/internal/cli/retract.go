package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/hence-dev/hence/cmd/hence/internal/show"
	"github.com/hence-dev/hence/sidecar/api"
)

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
