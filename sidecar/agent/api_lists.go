package agent

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/view"
	"github.com/hence-dev/hence/topology"
)

// Transactions lists the transactions that the view has seen, of all agents, and this agent's own. The page's Pick has
// state, agent and code.
func (s *Agent) Transactions(page api.Page) (*api.TxList, error) {
	return flow(s, func() (*api.TxList, error) {
		if err := s.view.Ready(); err != nil {
			return nil, view.NotReady(err)
		}
		seen, view, since := s.view.Transactions()
		list := slices.DeleteFunc(s.txItems(seen), func(t api.TxItem) bool {
			return !page.Wants("state", t.State) || !page.Wants("agent", t.Agent) || !page.Wants("code", t.Code)
		})
		out := &api.TxList{Workspace: s.workspace, View: uint64(view), Since: uint64(since)}
		var err error
		out.Items, out.Next, err = api.Cut(page, list, func(t api.TxItem) string { return t.Tx })
		if err != nil {
			return nil, err
		}
		return out, nil
	})
}

// txItems are the transactions of which the view has seen how they stand, and those that only this sidecar knows,
// newest first.
func (s *Agent) txItems(seen []view.TxState) []api.TxItem {
	var list []api.TxItem
	inView := map[sequencer.TxID]bool{}
	for i := range seen {
		inView[seen[i].Tx] = true
	}
	for _, t := range s.newest() {
		if !inView[t.id] && !t.gone() && t.fate == fateKnown { // one that is gone was never anywhere
			list = append(list, txItem(s.agent, s.decision(t)))
		}
	}
	for i := len(seen) - 1; i >= 0; i-- {
		agent, d := seen[i].Agent, seen[i].Describe()
		if t := s.txs[seen[i].Tx]; t != nil && t.fate == fateKnown {
			d = s.decision(t)
		} else if seen[i].Before() { // it would be called open; explain asks the closure table
			continue
		}
		list = append(list, txItem(agent, d))
	}
	return list
}

// newest are the agent's transactions, the last begun first.
func (s *Agent) newest() []*tx {
	var list []*tx
	for _, t := range s.txs {
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b *tx) int {
		return cmp.Or(b.created.Compare(a.created), cmp.Compare(b.incarnation, a.incarnation), strings.Compare(
			string(b.id), string(a.id)))
	})
	return list
}

func txItem(agent string, d *api.Decision) api.TxItem {
	out := api.TxItem{Tx: d.Tx, Agent: agent, State: d.State, Mode: d.Mode, Seq: d.Seq, Code: d.Code, Scope: d.Scope,
		MovedSeq: d.MovedSeq, MovedBy: d.MovedBy, Final: d.Final, Retract: d.Retraction}
	for _, b := range d.BlockedBy {
		if !slices.Contains(out.WaitsFor, b.Tx) {
			out.WaitsFor = append(out.WaitsFor, b.Tx)
		}
	}
	return out
}

// Calls lists the agent's own tool calls, newest transaction first. Others' are theirs to show: only their owner knows
// how they stand. The page's Pick has tool, state and tx.
func (s *Agent) Calls(ctx context.Context, page api.Page) (*api.EffectList, error) {
	return flow(s, func() (*api.EffectList, error) {
		ctx, cancel := s.clock.Within(ctx, view.TableWait) // of all looks into the log together
		defer cancel()
		txs := s.newest()
		var list []api.Receipt
		begun := page.After == ""
		for _, t := range txs {
			if !page.Wants("tx", string(t.id)) || !begun && !strings.HasPrefix(page.After, string(t.id)+"/") {
				continue
			}
			for _, e := range s.effects(ctx, t).Effects {
				if !begun {
					begun = placeOf(e) == page.After
				} else if page.Wants("tool", e.Tool) && page.Wants("state", e.State) {
					if e.Result = nil; !strings.HasPrefix(e.Note, unreadNote) {
						e.Note = ""
					}
					list = append(list, e)
				}
			}
			if len(list) > page.Limit { // the rest is another page's
				break
			}
		}
		if !begun {
			return nil, api.NotOnList(page.After)
		}
		page.After = ""
		out := &api.EffectList{Workspace: s.workspace, Agent: s.agent}
		var err error
		out.Items, out.Next, err = api.Cut(page, list, placeOf)
		if err != nil {
			return nil, err
		}
		return out, nil
	})
}

// declaring is a policy that says what it declares.
type declaring interface {
	catalogue
	Declared() []gate.Declared
}

// Where a tool of a list comes from, and when its calls are made.
const (
	fromPolicy      = "policy"
	fromAgent       = "registered"
	runsAtOnce      = "at_once"
	runsAfterCommit = "after_commit"
	runsWithCommit  = "with_commit"
)

// Tools lists what the policy declares and what the agent has registered. The page's Pick has the server. With a
// change a tool is registered, or withdrawn, and is answered in place of the list.
func (s *Agent) Tools(ctx context.Context, page api.Page, change *api.ToolChange) (*api.ToolList, *api.Tool, error) {
	if change != nil {
		changed, err := flow(s, func() (*api.Tool, error) {
			return s.changeTool(ctx, change.Name, change.PutTool, change.Withdraw)
		})
		return nil, changed, err
	}
	list, err := flow(s, func() (*api.ToolList, error) { return s.listTools(ctx, page) })
	return list, nil, err
}

func (s *Agent) listTools(ctx context.Context, page api.Page) (*api.ToolList, error) {
	list, err := s.registered(ctx)
	if err != nil {
		return nil, err
	}
	if p, ok := s.tools.(declaring); ok {
		server, _ := p.Catalogue()
		for _, d := range p.Declared() {
			list = append(list, toolItem(server, d))
		}
	}
	list = slices.DeleteFunc(list, func(t api.ToolItem) bool { return !page.Wants("server", t.Server) })
	place := func(t api.ToolItem) string { return t.Server + "/" + t.Name }
	slices.SortStableFunc(list, func(x, y api.ToolItem) int { return strings.Compare(place(x), place(y)) })
	out := &api.ToolList{Workspace: s.workspace, Agent: s.agent}
	if out.Items, out.Next, err = api.Cut(page, list, place); err != nil {
		return nil, err
	}
	return out, nil
}

func toolItem(server string, d gate.Declared) api.ToolItem {
	item := api.ToolItem{Server: server, Name: d.Name, Source: fromPolicy, Class: d.Class.String(), Runs: runsAtOnce,
		Adapter: d.Adapter, Compensation: d.Compensation, UndoOnly: d.UndoOnly, Signature: d.Signature}
	switch {
	case d.Adapter == gate.KindShard && d.Class != sequencer.ClassRead:
		item.Runs = runsWithCommit
	case d.Class == sequencer.ClassBufferable || d.Class == sequencer.ClassIrreversible:
		item.Runs = runsAfterCommit
	}
	return item
}

// registered is what the agent has registered.
func (s *Agent) registered(ctx context.Context) (list []api.ToolItem, err error) {
	if err := s.loop.Until(ctx, func() bool { return !s.registry.busy }); err != nil { // a change of it is under way
		return nil, err
	}
	for server, tools := range s.registry.servers {
		for name, signature := range tools {
			list = append(list, api.ToolItem{Server: server, Name: name, Source: fromAgent, Signature: signature})
		}
	}
	return list, nil
}

// changeTool registers a tool of a server, or withdraws it. Empty server: "tools".
func (s *Agent) changeTool(ctx context.Context, name string, in api.PutTool, withdraw bool) (*api.Tool, error) {
	if in.Server == "" {
		in.Server = defaultServer
	}
	server, name := topology.NormalName(in.Server), topology.NormalName(name)
	if withdraw {
		return s.setTool(ctx, server, name, "")
	}
	if err := validTool(server, name, in.Signature); err != nil {
		return nil, err
	}
	return s.setTool(ctx, server, name, in.Signature)
}
