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

// inWorkspace is a sidecar and the workspace that it is asked about.
type inWorkspace struct {
	asking
	Workspace string `default:"default" dev:"workspace" help:"Workspace."`
}

func (o inWorkspace) client() *client.Client {
	return o.asking.client(client.WithWorkspace(o.Workspace))
}

// paging is which part of a list is asked for. None of it comes from the environment, where HENCE_AGENT names whose
// sidecar is beside.
type paging struct {
	Limit int    `default:"100" env:"-" help:"Page size, 1 to 1000."`
	After string `env:"-" placeholder:"NAME" help:"Cursor from the previous page."`
}

func (p paging) page(pick map[string]string) client.Page {
	return client.Page{After: p.After, Limit: p.Limit, Pick: pick}
}

// more says how to go on with a list that is not at its end.
func more(w io.Writer, next string) error {
	if next == "" {
		return nil
	}
	return show.Plainly(w, "… there are more: --after %s\n", show.ShellWord(next))
}

// printList prints a table, or what is said of an empty one.
func printList(w io.Writer, t show.Table, empty, next string) error {
	if len(t.Rows) == 0 {
		_, err := fmt.Fprintln(w, empty)
		return err
	}
	return errors.Join(t.Write(w), more(w, next))
}

// txCmd holds the commands about transactions.
type txCmd struct {
	Ls    txLsCmd    `cmd:"" help:"List transactions, newest first."`
	Show  txShowCmd  `cmd:"" help:"Show a transaction: what it read, wrote and called, and why it has its state."`
	Abort txAbortCmd `cmd:"" dev:"told" help:"Abort an undecided transaction of the sidecar's agent."`
}

// txLsCmd is the configuration of "hence tx ls".
type txLsCmd struct {
	output
	inWorkspace
	paging
	State string `enum:",open,sealed,committed,aborted" default:"" env:"-" help:"Only transactions in this state."`
	Agent string `env:"-" placeholder:"NAME" help:"Only transactions of this agent."`
	Code  string `env:"-" placeholder:"CODE" help:"Only transactions that were aborted with this code."`
}

// Run lists.
func (c *txLsCmd) Run(ctx context.Context, s Streams) error {
	pick := map[string]string{"state": c.State, "agent": c.Agent, "code": c.Code}
	list, err := c.client().Transactions(ctx, c.page(pick))
	if err != nil {
		return fmt.Errorf("list the transactions: %w", err)
	}
	return c.print(s.Out, list, func(w io.Writer) error {
		t := show.Table{Head: []string{"TX", "AGENT", "STATE", "SEQ", "WHY"}}
		for i := range list.Items {
			one := &list.Items[i]
			t.Add(one.Tx, one.Agent, stateText(one), orDash(one.Seq), whyText(one))
		}
		empty := fmt.Sprintf("no such transaction since seq %d, when this sidecar began to look; hence tail shows all "+
			"decisions", list.Since)
		return printList(w, t, empty, list.Next)
	})
}

func stateText(t *api.TxItem) string {
	switch {
	case t.Retract != "":
		return t.State + ", retracted"
	case (t.State == api.StateCommitted || t.State == api.StateAborted) && !t.Final:
		return t.State + ", settling"
	}
	return t.State
}

func whyText(t *api.TxItem) string {
	var parts []string
	if t.Code != "" {
		parts = append(parts, t.Code)
	}
	if t.Scope != "" {
		parts = append(parts, t.Scope)
	}
	if t.MovedBy != "" {
		parts = append(parts, fmt.Sprintf("moved by %s at seq %d", t.MovedBy, t.MovedSeq))
	}
	if len(t.WaitsFor) > 0 {
		parts = append(parts, "waits for "+strings.Join(t.WaitsFor, ", "))
	}
	return cmp.Or(strings.Join(parts, " "), "-")
}

func orDash(n uint64) string {
	if n == 0 {
		return "-"
	}
	return strconv.FormatUint(n, 10)
}

// txShowCmd is the configuration of "hence tx show".
type txShowCmd struct {
	output
	asking
	Tx string `arg:"" help:"Transaction id, of any agent."`
}

// TxShown is what "hence tx show -o json" prints.
type TxShown struct {
	api.Explain
	Effects []api.Receipt `json:"effects,omitempty"` // of the sidecar's own agent
}

// Run shows one.
func (c *txShowCmd) Run(ctx context.Context, s Streams) error {
	why, err := c.client().Explain(ctx, c.Tx)
	if err != nil {
		return fmt.Errorf("show %s: %w", c.Tx, err)
	}
	shown := TxShown{Explain: *why}
	calls, err := c.client().Tx(c.Tx).Effects(ctx)
	var p *client.Problem
	if err != nil && !errors.As(err, &p) { // a no: it is another agent's, or long over
		return fmt.Errorf("list the calls of %s: %w", c.Tx, err)
	}
	shown.Effects = calls.Effects
	return c.print(s.Out, shown, func(w io.Writer) error { return printTx(w, &shown) })
}

func printTx(w io.Writer, t *TxShown) error {
	d := &t.Decision
	var b strings.Builder // takes all
	_ = show.Plainly(&b, "%s  %s", d.Tx, d.State)
	if d.Seq > 0 {
		fmt.Fprintf(&b, " at seq %d", d.Seq)
	}
	_ = show.Plainly(&b, "  (%s)\n", d.Mode)
	for _, scope := range t.Reads {
		_ = show.Plainly(&b, "  read    %s\n", scope)
	}
	for _, scope := range t.Writes {
		_ = show.Plainly(&b, "  wrote   %s\n", scope)
	}
	for i := range t.Effects {
		e := &t.Effects[i]
		_ = show.Plainly(&b, "  called  %s: %s\n", e.Tool, effectText(e.State))
	}
	_ = show.Plainly(&b, "%s\n", t.Paragraph)
	_, err := io.WriteString(w, b.String())
	return err
}

// txAbortCmd is the configuration of "hence tx abort".
type txAbortCmd struct {
	output
	asking
	Tx     string `arg:"" help:"Transaction id."`
	Reason string `env:"-" placeholder:"TEXT" help:"Reason, recorded in the decision."`
}

// Run aborts one.
func (c *txAbortCmd) Run(ctx context.Context, s Streams) error {
	tx := c.client().Tx(c.Tx)
	err := tx.Abort(ctx, c.Reason)
	var d client.Decision
	if err == nil {
		d, err = tx.Status(ctx, 0)
	}
	if err != nil {
		return fmt.Errorf("abort %s: %w", c.Tx, err)
	}
	return c.print(s.Out, d, func(w io.Writer) error { return show.Plainly(w, "%s is aborted\n", d.Tx) })
}

// effectsCmd holds the commands about tool calls.
type effectsCmd struct {
	Ls      effectsLsCmd      `cmd:"" help:"List tool calls of the sidecar's agent, newest transaction first."`
	Approve effectsApproveCmd `cmd:"" dev:"told" help:"Approve a call that needs it before its transaction commits."`
	Deny    effectsDenyCmd    `cmd:"" dev:"told" help:"Deny a call that needs approval: its transaction is aborted."`
}

// effectsLsCmd is the configuration of "hence effects ls".
type effectsLsCmd struct {
	output
	deciding
	Workspace string `default:"default" dev:"workspace" help:"Workspace."`
	paging
	Tx    string `env:"-" placeholder:"ID" help:"Only calls of this transaction."`
	Tool  string `env:"-" placeholder:"NAME" help:"Only calls of this tool."`
	State string `enum:",${effect_states}" default:"" env:"-" help:"Only calls in this state: held, done, not_sent, ..."`
}

// Run lists.
func (c *effectsLsCmd) Run(ctx context.Context, s Streams) error {
	page := c.page(map[string]string{"tx": c.Tx, "tool": c.Tool, "state": c.State})
	list, err := c.client(client.WithWorkspace(c.Workspace)).Effects(ctx, page)
	if err != nil {
		return fmt.Errorf("list the tool calls: %w", err)
	}
	return c.print(s.Out, list, func(w io.Writer) error {
		approves := c.ApproverToken != "" // then the list is what there is to look at
		t := show.Table{Head: []string{"TX", "INDEX", "TOOL", "CLASS", "STATE", "SCOPES"}}
		if approves {
			t.Head = append(t.Head, "AGENT", "ARGUMENTS")
		}
		for i := range list.Items {
			e := &list.Items[i]
			index := "-"
			if e.Index != nil {
				index = strconv.FormatUint(uint64(*e.Index), 10)
			}
			row := []string{e.Tx, index, e.Tool, e.Class, effectText(e.State), cmp.Or(strings.Join(e.Scopes, " "), "-")}
			if approves {
				row = append(row, e.Agent, cmp.Or(string(e.Args), e.Note))
			}
			t.Add(row...)
		}
		if approves {
			return printList(w, t, "no call waits for approval", list.Next)
		}
		return printList(w, t, "no such tool call of "+list.Agent, list.Next)
	})
}

// effectText is a call's state as people read it.
func effectText(state string) string {
	if state == api.EffectUnapproved {
		return strings.ReplaceAll(state, "_", " ")
	}
	return state
}

// agentsCmd holds the command about agents.
type agentsCmd struct {
	Ls agentsLsCmd `cmd:"" help:"List the agents whose sidecars hold a lease."`
}

// agentsLsCmd is the configuration of "hence agents ls".
type agentsLsCmd struct {
	output
	inWorkspace
	paging
}

// Run lists.
func (c *agentsLsCmd) Run(ctx context.Context, s Streams) error {
	list, err := c.client().Agents(ctx, c.page(nil))
	if err != nil {
		return fmt.Errorf("list the agents: %w", err)
	}
	return c.print(s.Out, list, func(w io.Writer) error {
		t := show.Table{Head: []string{"AGENT", "INCARNATION", "OPEN", "WAITING", "UNSETTLED", "BEHIND"}}
		for _, a := range list.Items {
			name := a.Agent
			if a.Here {
				name += " (this sidecar)"
			}
			t.Add(name, orDash(a.Incarnation), strconv.Itoa(a.Open), strconv.Itoa(a.Waiting), strconv.Itoa(a.Unsettled),
				show.Several(int(a.Lag), "seq"))
		}
		return printList(w, t, "no agent has a live sidecar", list.Next)
	})
}

// toolsCmd holds the command about tools.
type toolsCmd struct {
	Ls toolsLsCmd `cmd:"" help:"List the tools that the policy declares or the agent has registered."`
}

// toolsLsCmd is the configuration of "hence tools ls".
type toolsLsCmd struct {
	output
	inWorkspace
	paging
	Server string `env:"-" placeholder:"NAME" help:"Only tools of this server."`
}

// Run lists.
func (c *toolsLsCmd) Run(ctx context.Context, s Streams) error {
	list, err := c.client().Tools(ctx, c.page(map[string]string{"server": c.Server}))
	if err != nil {
		return fmt.Errorf("list the tools: %w", err)
	}
	return c.print(s.Out, list, func(w io.Writer) error {
		t := show.Table{Head: []string{"TOOL", "SERVER", "CLASS", "RUNS", "UNDONE BY", "ADAPTER"}}
		for i := range list.Items {
			one := &list.Items[i]
			t.Add(one.Name, one.Server, cmp.Or(one.Class, one.Source), runsText(one), cmp.Or(one.Compensation, "-"),
				cmp.Or(one.Adapter, "-"))
		}
		return printList(w, t, list.Agent+" has no tools: give its sidecar a policy with --policy FILE", list.Next)
	})
}

func runsText(t *api.ToolItem) string {
	switch {
	case t.UndoOnly:
		return "to undo another"
	case t.Runs == "":
		return "-"
	}
	return strings.ReplaceAll(t.Runs, "_", " ")
}

// explainCmd is the configuration of "hence explain".
type explainCmd struct {
	output
	asking
	Tx string `arg:"" help:"Transaction id."`
}

// Run asks the sidecar.
func (c *explainCmd) Run(ctx context.Context, s Streams) error {
	why, err := c.client().Explain(ctx, c.Tx)
	if err != nil {
		return fmt.Errorf("explain %s: %w", c.Tx, err)
	}
	return c.print(s.Out, why, func(w io.Writer) error {
		return show.Plainly(w, "%s\n", why.Paragraph)
	})
}
