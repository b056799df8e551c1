package sidecar

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/words"
	"github.com/hence-dev/hence/topology"
)

// asked is what the lists have in common: their bound, where a page begins, and what is picked by equality.
type asked struct {
	limit int
	after string
	pick  map[string]string
}

// listing checks what a list is asked for. The state must be one of states, where there are some.
func (s *Sidecar) listing(c *call, states []string, picks ...string) (asked, error) {
	if err := s.inWorkspace(c); err != nil {
		return asked{}, err
	}
	limit, err := c.number("limit", min(100, uint64(s.config.Limits.ListItems)), 1, uint64(s.config.Limits.ListItems))
	if err != nil {
		return asked{}, err
	}
	query := c.request.URL.Query()
	a := asked{limit: int(limit), after: query.Get("after"), pick: map[string]string{}}
	for _, name := range picks {
		if query.Has(name) {
			a.pick[name] = topology.NormalName(query.Get(name))
		}
	}
	if state, ok := a.pick["state"]; ok && !slices.Contains(states, state) {
		return asked{}, api.Problemf(api.CodeBadRequest, "state=%.40q: give one of %s", state, strings.Join(states, ", "))
	}
	return a, nil
}

// wants says whether something is picked: what was asked for by this name is what it has, or nothing was.
func (a asked) wants(name, has string) bool {
	want, ok := a.pick[name]
	return !ok || want == has
}

// paged cuts a page out of a list. name is an item's place in it; an item that the page before ended with and that is
// gone meanwhile is an error, because nobody knows then what the rest is.
func paged[T any](a asked, list []T, name func(T) string) (page []T, next string, err error) {
	if a.after != "" {
		at := slices.IndexFunc(list, func(one T) bool { return name(one) == a.after })
		if at < 0 {
			return nil, "", gone(a.after)
		}
		list = list[at+1:]
	}
	if len(list) > a.limit {
		list, next = list[:a.limit], name(list[a.limit-1])
	}
	return append([]T{}, list...), next, nil
}

// gone is the problem of a page behind an item that is not there.
func gone(after string) error {
	return api.Problemf(api.CodeBadRequest, "after=%.100q is not on the list any more: begin again without it", after)
}

// listTx lists the transactions that the view has seen, of all agents, and this agent's own.
func (s *Sidecar) listTx(c *call) (*reply, error) {
	a, err := s.listing(c, []string{api.StateOpen, api.StateSealed, api.StateCommitted, api.StateAborted},
		"state", "agent", "code")
	if err != nil {
		return nil, err
	}
	if err := s.view.ready(); err != nil {
		return nil, notReady(err)
	}
	seen, view, since := s.view.transactions()
	list := s.session.txItems(seen)
	list = slices.DeleteFunc(list, func(t api.TxItem) bool {
		return !a.wants("state", t.State) || !a.wants("agent", t.Agent) || !a.wants("code", t.Code)
	})
	out := &api.TxList{Workspace: s.config.Workspace, View: uint64(view), Since: uint64(since)}
	out.Items, out.Next, err = paged(a, list, func(t api.TxItem) string { return t.Tx })
	if err != nil {
		return nil, err
	}
	return jsonReply(http.StatusOK, out), nil
}

// transactions are those that decisions have shown, in the order of their first appearance, and since when.
func (v *view) transactions() (list []txState, seq, since sequencer.Seq) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, id := range v.txOrder {
		list = append(list, *v.txs[id])
	}
	return list, v.seq, v.first
}

// txItems are the transactions of which the view has seen how they stand, and those that only this sidecar knows,
// newest first.
func (s *session) txItems(seen []txState) []api.TxItem {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []api.TxItem
	inView := map[sequencer.TxID]bool{}
	for i := range seen {
		inView[seen[i].tx] = true
	}
	for _, t := range s.newest() {
		if !inView[t.id] && !t.gone() && t.fate == fateKnown { // one that is gone was never anywhere
			list = append(list, txItem(s.agent, s.decision(t)))
		}
	}
	for i := len(seen) - 1; i >= 0; i-- {
		agent, d := seen[i].agent, seen[i].describe()
		if t := s.txs[seen[i].tx]; t != nil && t.fate == fateKnown {
			d = s.decision(t)
		} else if seen[i].before() { // it would be called open; explain asks the closure table
			continue
		}
		list = append(list, txItem(agent, d))
	}
	return list
}

// newest are the agent's transactions, the last begun first; s.mu is held.
func (s *session) newest() []*tx {
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

// describe is what decisions show of a transaction.
func (t *txState) describe() *api.Decision {
	d := &api.Decision{State: api.StateOpen}
	switch {
	case t.decision != nil:
		d = words.Decision(t.decision)
		d.State = stateOf(t.decision)
	case t.waiting != nil:
		d = words.Decision(t.waiting)
		d.State, d.Seq = api.StateSealed, 0
	}
	d.Tx, d.Mode, d.Final = string(t.tx), t.mode.String(), t.final
	t.retraction.tell(d)
	return d
}

// listEffects lists the agent's own tool calls. Others' are theirs to show: only their owner knows how they stand.
func (s *Sidecar) listEffects(c *call) (*reply, error) {
	a, err := s.listing(c, api.EffectStates(), "state", "tool", "tx")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(c.ctx, tableWait) // of all looks into the log together
	defer cancel()
	s.session.mu.Lock()
	txs := s.session.newest()
	s.session.mu.Unlock()
	var list []api.Receipt
	begun := a.after == ""
	for _, t := range txs {
		if !a.wants("tx", string(t.id)) || !begun && !strings.HasPrefix(a.after, string(t.id)+"/") {
			continue
		}
		for _, e := range s.session.effects(ctx, t).Effects {
			if !begun {
				begun = placeOf(e) == a.after
			} else if a.wants("tool", e.Tool) && a.wants("state", e.State) {
				if e.Result = nil; !strings.HasPrefix(e.Note, unreadNote) {
					e.Note = ""
				}
				list = append(list, e)
			}
		}
		if len(list) > a.limit { // the rest is another page's
			break
		}
	}
	if !begun {
		return nil, gone(a.after)
	}
	a.after = ""
	out := &api.EffectList{Workspace: s.config.Workspace, Agent: s.config.Agent}
	out.Items, out.Next, err = paged(a, list, placeOf)
	if err != nil {
		return nil, err
	}
	return jsonReply(http.StatusOK, out), nil
}

// placeOf is a call's place in the list of them.
func placeOf(e api.Receipt) string {
	index := uint32(0)
	if e.Index != nil {
		index = *e.Index
	}
	return e.Tx + "/" + strconv.FormatUint(uint64(index), 10)
}

// listAgents lists the agents whose sidecars have a lease, as the fold has them.
func (s *Sidecar) listAgents(c *call) (*reply, error) {
	a, err := s.listing(c, nil, "agent")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(c.ctx, tableWait)
	defer cancel()
	live, err := s.events.Live(ctx, s.config.Workspace)
	if err != nil {
		return nil, api.Problemf(api.CodeLog, "the live agents cannot be asked for: %v", err)
	}
	var list []api.AgentItem
	for _, one := range live.Sidecars {
		if a.wants("agent", one.Agent) {
			list = append(list, s.agentItem(&live, one))
		}
	}
	slices.SortFunc(list, func(x, y api.AgentItem) int { return strings.Compare(x.Agent, y.Agent) })
	out := &api.AgentList{Workspace: s.config.Workspace, Seq: uint64(live.Seq)}
	out.Items, out.Next, err = paged(a, list, func(one api.AgentItem) string { return one.Agent })
	if err != nil {
		return nil, err
	}
	return jsonReply(http.StatusOK, out), nil
}

func (s *Sidecar) agentItem(live *topology.Live, one topology.LiveSidecar) api.AgentItem {
	item := api.AgentItem{Agent: one.Agent, Incarnation: uint64(one.Incarnation), Here: one.Agent == s.config.Agent,
		LeaseTicks: uint64(one.LeaseLeft), Lag: uint64(one.Lag)}
	for i := range live.Transactions {
		if live.Transactions[i].Agent != one.Agent {
			continue
		}
		switch live.Transactions[i].State {
		case topology.LiveOpen:
			item.Open++
		case topology.LiveWaiting, topology.LiveSealed:
			item.Waiting++
		default:
			item.Unsettled++
		}
	}
	return item
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

// listTools lists what the policy declares and what the agent has registered.
func (s *Sidecar) listTools(c *call) (*reply, error) {
	a, err := s.listing(c, nil, "server")
	if err != nil {
		return nil, err
	}
	list, err := s.session.registry.list(c.ctx)
	if err != nil {
		return nil, err
	}
	if p, ok := s.config.Tools.(declaring); ok {
		server, _ := p.Catalogue()
		for _, d := range p.Declared() {
			list = append(list, toolItem(server, d))
		}
	}
	list = slices.DeleteFunc(list, func(t api.ToolItem) bool { return !a.wants("server", t.Server) })
	place := func(t api.ToolItem) string { return t.Server + "/" + t.Name }
	slices.SortFunc(list, func(x, y api.ToolItem) int { return strings.Compare(place(x), place(y)) })
	out := &api.ToolList{Workspace: s.config.Workspace, Agent: s.config.Agent}
	if out.Items, out.Next, err = paged(a, list, place); err != nil {
		return nil, err
	}
	return jsonReply(http.StatusOK, out), nil
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

// list is what the agent has registered.
func (r *registry) list(ctx context.Context) (list []api.ToolItem, err error) {
	if err := r.enter(ctx); err != nil { // a change of it is under way
		return nil, err
	}
	defer r.leave()
	for server, tools := range r.servers {
		for name, signature := range tools {
			list = append(list, api.ToolItem{Server: server, Name: name, Source: fromAgent, Signature: signature})
		}
	}
	return list, nil
}
