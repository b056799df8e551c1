package view

import (
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/words"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// Workspace answers what concerns no agent: it is the same for all that share a view.
type Workspace struct {
	view       *View
	log        Tables
	futureWait time.Duration // for a seq that is not there yet
}

// NewWorkspaceView answers from a view and the tables beside it; it waits so long for a seq that is not there yet.
func NewWorkspaceView(v *View, log Tables, futureWait time.Duration) *Workspace {
	return &Workspace{v, log, futureWait}
}

// Ready says per part of the log what keeps the workspace from being served.
func (w *Workspace) Ready(ctx context.Context) map[string]error {
	parts := map[string]error{"view": w.view.Ready()}
	for name, err := range w.log.Ready(ctx) {
		parts[name] = err
	}
	return parts
}

// Reached is the seq that the view has reached.
func (w *Workspace) Reached() sequencer.Seq { return w.view.At() }

// From says after which seq a stream of decisions begins: the one that is named, once it is there, or the newest.
func (w *Workspace) From(ctx context.Context, _ string, after sequencer.Seq, named bool) (sequencer.Seq, error) {
	if err := w.view.Ready(); err != nil {
		return 0, NotReady(err)
	}
	if !named {
		return w.view.At(), nil
	}
	return after, w.view.ReachWithin(ctx, after, w.futureWait)
}

// MostContent is how long a shard's content may be; zero: no longer than any body.
func (w *Workspace) MostContent() int64 {
	if now := w.view.Settings(); now.Exact && now.Rules.Chains() {
		return int64(now.Rules.MaxContent)
	}
	return 0
}

// AwaitVersion returns once a shard has another version than those that match holds for known; it is no read. The end
// of ctx ends the wait, too, and is no error; nor is a scope that is no shard: the read that follows says so.
func (w *Workspace) AwaitVersion(ctx context.Context, scope string, match func(version uint64) bool) error {
	if w.view.Ready() != nil { // the read that follows says so; the snapshot wakes no wait for a shard
		return nil
	}
	exact, err := sequencer.ParseScope(scope)
	if err != nil {
		return nil
	}
	name, err := w.view.Named(exact)
	if err != nil {
		return nil
	}
	err = w.view.Waits.Until(ctx, WaitShard(name), func() bool {
		rev, _ := w.view.Read(name)
		return !match(uint64(rev.Version))
	})
	if err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// Chain lists the chain hashes that the view has recomputed, from a seq on.
func (w *Workspace) Chain(ctx context.Context, from uint64, limit int) (*api.Chain, error) {
	if err := w.view.Ready(); err != nil {
		return nil, NotReady(err)
	}
	if err := w.view.ReachWithin(ctx, sequencer.Seq(from), w.futureWait); err != nil {
		return nil, err
	}
	links, seq, first := w.view.chainFrom(sequencer.Seq(from), limit)
	if from > 0 && sequencer.Seq(from) < first {
		return nil, api.Problemf(api.CodeForgotten, "the chain is known from seq %d on", first)
	}
	out := &api.Chain{Workspace: w.view.Workspace, Seq: uint64(seq), First: uint64(first), Links: []api.ChainLink{}}
	for _, link := range links {
		out.Links = append(out.Links, api.ChainLink{Seq: uint64(link.seq), Chain: hex.EncodeToString(link.hash[:])})
	}
	return out, nil
}

// Frontier lists the watermark-style frontiers of scopes under a prefix; empty: of all shards.
func (w *Workspace) Frontier(ctx context.Context, under string, limit int) (*api.Frontier, error) {
	prefix, exact := api.EveryShard, api.EveryShard
	if under != "" {
		var err error
		if exact, err = sequencer.ParseScope(under); err != nil {
			return nil, err
		}
		if prefix, err = topology.NormalScope(exact); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, TableWait)
	defer cancel()
	rows, err := w.log.Frontier(ctx, w.view.Workspace, prefix, limit)
	if err == nil && exact != prefix && len(rows) < limit { // what is stored under these bytes, too
		var more []topology.FrontierRow
		more, err = w.log.Frontier(ctx, w.view.Workspace, exact, limit-len(rows))
		rows = append(rows, more...)
	}
	if err != nil {
		return nil, api.Problemf(api.CodeLog, "the frontier table did not answer: %v", err)
	}
	out := &api.Frontier{Workspace: w.view.Workspace, Limit: limit, Rows: []api.FrontierRow{}}
	for i := range rows {
		out.Rows = append(out.Rows, frontierRow(&rows[i]))
	}
	return out, nil
}

func frontierRow(r *topology.FrontierRow) api.FrontierRow {
	out := api.FrontierRow{Scope: string(r.Scope), Seq: uint64(r.Seq), Version: uint64(r.Version),
		Writer: string(r.Writer.Tx), Frontier: uint64(r.Frontier)}
	for _, o := range r.Open {
		out.Open = append(out.Open, api.OpenEpoch{Epoch: uint64(o.Epoch), Tx: string(o.Tx), Since: uint64(o.Since)})
	}
	return out
}

// Closure is what a transaction rests on, any agent's.
func (w *Workspace) Closure(ctx context.Context, tx string, limit int) (*api.Closure, error) {
	id := sequencer.TxID(tx)
	if _, _, _, ok := api.OwnerOf(id); !ok {
		return nil, api.Problemf(api.CodeUnknownTx, "%.100q is not the id of a transaction", tx)
	}
	ctx, cancel := context.WithTimeout(ctx, TableWait)
	defer cancel()
	got, err := w.log.Closure(ctx, w.view.Workspace, id, limit)
	switch {
	case errors.Is(err, streams.ErrUnknownTx): // an answer, and no reason to ask again at once
		return nil, api.Problemf(api.CodeUnknownTx, "the closure table knows nothing of %s; it may lag behind", id)
	case err != nil:
		return nil, api.Problemf(api.CodeLog, "the closure table did not answer: %v", err)
	}
	return words.Closure(got), nil
}

// Agents lists the agents whose sidecars have a lease, as the fold has them. The page's Pick has the agent.
func (w *Workspace) Agents(ctx context.Context, page api.Page) (*api.AgentList, error) {
	ctx, cancel := context.WithTimeout(ctx, TableWait)
	defer cancel()
	live, err := w.log.Live(ctx, w.view.Workspace)
	if err != nil {
		return nil, api.Problemf(api.CodeLog, "the live agents cannot be asked for: %v", err)
	}
	var list []api.AgentItem
	for _, one := range live.Sidecars {
		if page.Wants("agent", one.Agent) {
			list = append(list, agentItem(&live, one))
		}
	}
	slices.SortStableFunc(list, func(x, y api.AgentItem) int { return strings.Compare(x.Agent, y.Agent) })
	out := &api.AgentList{Workspace: w.view.Workspace, Seq: uint64(live.Seq)}
	out.Items, out.Next, err = api.Cut(page, list, func(one api.AgentItem) string { return one.Agent })
	if err != nil {
		return nil, err
	}
	return out, nil
}

func agentItem(live *topology.Live, one topology.LiveSidecar) api.AgentItem {
	item := api.AgentItem{Agent: one.Agent, Incarnation: uint64(one.Incarnation), LeaseTicks: uint64(one.LeaseLeft),
		Lag: uint64(one.Lag)}
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
