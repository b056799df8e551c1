package agent

import (
	"context"
	"encoding/json"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/agent/settle"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/once"
)

// settling puts together what settles the agent's decided transactions, and gives it of the agent what it needs.
func (s *Agent) settling() {
	c := settle.Config{
		Reader: settle.Reader{Loop: s.loop, Events: s.events, Workspace: s.workspace},
		Agent:  s.agent, View: s.view, Journal: s.delivery, Logger: s.log, Metrics: s.metrics,
		Limits:  settle.Limits{SettlementWait: s.limits.SettlementWait, AdoptAfter: s.limits.AdoptAfter},
		Session: sessionOf{s}, Own: ownOf{s}, Lease: leaseOf{s},
		Tools: s.tools, Bare: s.newEngine(settle.NoTools{}), Marks: s.marks,
		Origin: s.where, Outlives: s.work,
	}
	if s.tools != nil {
		c.Capped, c.Engine = capped{s.tools, s}, s.engine
	}
	s.formers = settle.NewFormers(c)
	c.Formers = s.formers
	s.settle = settle.New(c)
}

// sessionOf is the agent's session as settlements use it.
type sessionOf struct{ s *Agent }

// Incarnation is that of the current or the last session.
func (o sessionOf) Incarnation() sequencer.Seq { return o.s.incarnation }

// Live reports whether its lease has not ended as far as the view shows.
func (o sessionOf) Live() bool { return o.s.live }

// Await waits until there is a live session.
func (o sessionOf) Await(ctx context.Context) error { return o.s.await(ctx) }

// Append adds an intent to the log once.
func (o sessionOf) Append(ctx context.Context, in *sequencer.Intent) (int64, error) {
	return o.s.append(ctx, in)
}

// Ask appends an intent until the view shows its decision, or done holds.
func (o sessionOf) Ask(ctx context.Context, in *sequencer.Intent, done func() bool) (*sequencer.Outcome, error) {
	return o.s.ask(ctx, in, done)
}

// Reach waits until the view has applied a seq.
func (o sessionOf) Reach(ctx context.Context, seq sequencer.Seq) error { return o.s.reach(ctx, seq) }

// Hurry has settlements looked at before the next beat.
func (o sessionOf) Hurry() { o.s.hurry() }

// leaseOf is the agent's lease as settlements use it.
type leaseOf struct{ s *Agent }

// Longest is what one call may take at most.
func (o leaseOf) Longest() time.Duration { return o.s.longestCall() }

// Stretch renews the lease unless it lasts longer than a call may take.
func (o leaseOf) Stretch(ctx context.Context, takes time.Duration) error {
	return o.s.stretchLease(ctx, takes)
}

// Under is a context in which calls start under the lease of an incarnation only.
func (o leaseOf) Under(ctx context.Context, inc sequencer.Seq) context.Context {
	return o.s.under(ctx, inc)
}

// LearnRules asks for the rules when the view began after their last change.
func (o leaseOf) LearnRules(ctx context.Context) { o.s.learnRules(ctx) }

// ownOf are the agent's own transactions as settlements use them.
type ownOf struct{ s *Agent }

// Rest returns once no request works in a transaction any more.
func (o ownOf) Rest(ctx context.Context, id sequencer.TxID) error {
	t := o.s.txs[id]
	if t == nil {
		return nil
	}
	if err := o.s.enter(ctx, t); err != nil {
		return err
	}
	o.s.leave(t)
	return nil
}

// Traced is a context in the trace that a transaction belongs to.
func (o ownOf) Traced(ctx context.Context, id sequencer.TxID) context.Context {
	return under(ctx, o.s.traceOf(id))
}

// Base is the seq that a transaction began at.
func (o ownOf) Base(id sequencer.TxID) (at sequencer.Seq, known bool) {
	if t := o.s.txs[id]; t != nil {
		return t.base, true
	}
	return 0, false
}

// Waiting gives those that wait for others.
func (o ownOf) Waiting(each func(sequencer.TxID, *sequencer.Outcome)) {
	for id, t := range o.s.active {
		if t.waiting != nil {
			each(id, t.waiting)
		}
	}
}

// Hold begins a transaction of the sidecar itself.
func (o ownOf) Hold(ctx context.Context) (settle.Held, error) {
	t, err := o.s.startOwn(ctx)
	if err != nil {
		return nil, err
	}
	return holding{o.s, t}, nil
}

// holding is a transaction of the sidecar itself.
type holding struct {
	s *Agent
	t *tx
}

// ID is its name.
func (h holding) ID() sequencer.TxID { return h.t.id }

// Within works in the transaction once it was granted scopes for writing.
func (h holding) Within(ctx, grant context.Context, scopes []sequencer.Scope, work func() error) error {
	if err := h.s.enter(ctx, h.t); err != nil {
		return err
	}
	defer h.s.leave(h.t)
	if err := h.s.touchAll(grant, h.t, scopes, sequencer.WriteAccess); err != nil {
		return err
	}
	return work()
}

// HandOver tells the log and the journal that the scopes are acted on.
func (h holding) HandOver(ctx context.Context, scopes []sequencer.Scope) error {
	var wants []sequencer.Want
	for _, scope := range scopes {
		wants = append(wants, sequencer.Want{Scope: scope, Access: sequencer.WriteAccess})
	}
	_, err := h.s.handOver(ctx, h.t, wants)
	return err
}

// Usable says why what it holds may be another's by now.
func (h holding) Usable() error { return h.s.usable(h.t) }

// Abort ends it.
func (h holding) Abort(ctx context.Context, why string) error {
	_, err := h.s.abortTx(ctx, h.t, why)
	return err
}

// Residue lists effects that could not be made clean, of the whole workspace, newest first. The page's Pick has tool,
// result and state; it has no After.
func (s *Agent) Residue(ctx context.Context, page api.Page) (*api.ResidueList, error) {
	return flow(s, func() (*api.ResidueList, error) { return s.settle.Residue(ctx, page) })
}

// Resolve deals with a residue: by making the call, or the compensation, that could not be made before, or, when in
// has a note, by taking it as it is.
func (s *Agent) Resolve(ctx context.Context, c once.Call, tx, index string, in *api.Resolve) (*api.Residue, error) {
	return flow(s, func() (*api.Residue, error) { return s.settle.Resolve(ctx, c.Slot, tx, index, in) })
}

func (s *Agent) newEngine(t gate.Tools) *gate.Engine {
	return gate.New(gate.Options{Tools: capped{t, s}, Marks: s.marks, Lease: &s.lease, Clock: s.clock, Log: s.log,
		Origin: s.originOutside})
}

// capped is the policy as the gate sees it: a call that may outlast every lease, such as a compensation, gets as long
// as one leaves. Else it would never be made, and its settlement would not end.
type capped struct {
	gate.Tools
	session *Agent
}

// Find is part of the policy's interface.
func (c capped) Find(tool string, args json.RawMessage) (gate.Tool, error) {
	found, err := c.Tools.Find(tool, args)
	if most := c.session.longestCall(); most > 0 && (found.MaxTime > most || found.MaxTime <= 0) {
		found.MaxTime = most
	}
	return found, err
}

// Adapter is part of the policy's interface.
func (c capped) Adapter(tool string) (gate.Adapter, error) {
	a, err := c.Tools.Adapter(tool)
	if err != nil || c.session.tracing.tracer == nil {
		return a, err
	}
	return tracedAdapter{a, c.session.tracing}, nil
}
