package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/sidecar/once"
	"github.com/hence-dev/hence/topology"
)

// Bounds of tool calls.
const (
	maxArgs   = 256 << 10 // of one call, bytes
	maxTxArgs = 4 << 20   // of all calls of a transaction that have not run, bytes
)

// engine makes tool calls and settles them; *gate.Engine is one.
type engine interface {
	// Run makes an eager call and marks its steps.
	Run(ctx context.Context, e gate.Effect) (gate.Answer, error)
	// Read makes a call that changes nothing.
	Read(ctx context.Context, e gate.Effect) (gate.Answer, error)
	// Finish finds out what became of an eager call whose outcome is unknown.
	Finish(ctx context.Context, p gate.Progress, claim gate.Claim) (gate.Progress, error)
	// Release makes the calls that a commit has let go.
	Release(ctx context.Context, effects []gate.Progress, claim gate.Claim) (gate.Settlement, error)
	// Undo compensates the calls of an aborted or retracted transaction.
	Undo(ctx context.Context, effects []gate.Progress, claim gate.Claim) (gate.Settlement, error)
	// Calls is how many calls are being made now.
	Calls() int
}

// agentTools is a policy that knows what agents may not call: names that nothing serves, tools that only undo others.
type agentTools interface {
	MayCall(tool string) error
}

// argumentTools is a policy that knows which arguments its tools do something with.
type argumentTools interface {
	CheckArguments(tool string, args json.RawMessage) error
}

// toolCall is a tool call as a request asks for it.
type toolCall struct {
	tool string
	args json.RawMessage
	key  string
}

// issued is a tool call of a transaction that is in the delivery log; it is guarded by Agent.mu.
type issued struct {
	effect gate.Effect
	acked  chan struct{} // closed once the events topic has it
}

// effect makes one tool call of an open transaction, or holds it until the commit.
func (s *Agent) effect(ctx context.Context, t *tx, c toolCall, slot *once.Slot) (*api.Receipt, error) {
	if s.engine == nil {
		return nil, api.Problemf(api.CodeNoPolicy, "this sidecar was started without a policy file: it calls no tools")
	}
	tool, err := s.toolOf(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := t.enter(ctx); err != nil {
		return nil, err
	}
	free := t.leave
	defer func() { free() }()
	if i, _ := slot.Called().(*issued); i != nil && s.stands(t, i) { // the same request has made it: it has ended by now
		return s.ranTool(ctx, t, i, errBrokenOff)
	}
	if err := s.prepare(ctx, t); err != nil {
		return nil, err
	}
	if shard, ok := s.shardTool(c.tool); ok {
		return s.shardCall(ctx, t, tool, shard, c)
	}
	e, err := s.effectOf(ctx, t, tool, c)
	if err != nil {
		return nil, err
	}
	if first, err := s.sameKey(t, e); first != nil || err != nil {
		return first, err
	}
	switch tool.Class {
	case sequencer.ClassRead:
		return s.readTool(ctx, t, e)
	case sequencer.ClassBufferable, sequencer.ClassIrreversible:
		return s.hold(ctx, t, e, slot)
	}
	// The call goes on when the request ends; the transaction is its own until then.
	free = func() {}
	return s.runTool(ctx, t, e, slot, t.leave)
}

// toolOf looks a call up in the policy.
func (s *Agent) toolOf(ctx context.Context, c toolCall) (gate.Tool, error) {
	if len(c.args) > maxArgs {
		return gate.Tool{}, api.Problemf(api.CodeTooLarge, "the arguments have %d bytes; a call has at most %d", len(c.args), maxArgs)
	}
	if p, ok := s.tools.(agentTools); ok {
		if err := p.MayCall(c.tool); err != nil {
			return gate.Tool{}, api.Problemf(api.CodeTool, "%v", err)
		}
	}
	// An argument that nothing uses is mostly another one, misspelt: the call would be made without what it says.
	if p, ok := s.tools.(argumentTools); ok {
		if err := p.CheckArguments(c.tool, c.args); err != nil {
			return gate.Tool{}, api.Problemf(api.CodeTool, "%v", err)
		}
	}
	tool, err := s.tools.Find(c.tool, c.args)
	if err != nil {
		return tool, api.Problemf(api.CodeTool, "%v", err)
	}
	// A receipt says that the call is made: it is given only where something can make it.
	adapter, err := s.tools.Adapter(c.tool)
	if err != nil {
		return tool, api.Problemf(api.CodeTool, "%v: declare one, or make the call without Hence", err)
	}
	if a, ok := adapter.(gate.Checker); ok {
		key := cmp.Or(tool.Key, c.key, "key") // one that is made here fits everywhere, others need not
		if err := a.Check(gate.Call{Tool: c.tool, Tx: "tx", Key: key, Args: c.args}); err != nil {
			return tool, api.Problemf(api.CodeTool, "%v", err)
		}
	}
	if tool.Class != sequencer.ClassRead && len(tool.Scopes) == 0 {
		return tool, api.Problemf(api.CodeTool, "%s has no scopes with these arguments: declare in the policy what it moves", c.tool)
	}
	tool.Scopes, tool.May = s.view.WidenScopes(tool.Scopes), s.view.WidenScopes(tool.May)
	if tool.Class.Eager() && c.key != "" {
		return tool, api.Problemf(api.CodeTool, "%s runs before the commit: its key is made of transaction and index; leave key out",
			c.tool)
	}
	if c.key != "" && !tool.Keyed && tool.Key == "" {
		return tool, api.Problemf(api.CodeTool, "%s takes no idempotency key: leave key out, or declare the key in the policy",
			c.tool)
	}
	if !s.view.Settings().Known {
		s.learnRules(ctx)
	}
	most := s.longestCall()
	if most == 0 && !s.view.Settings().Known {
		return tool, api.Problemf(api.CodeNotReady, "the rules of the workspace are not known yet: how long a call may take "+
			"depends on them")
	}
	if tool.MaxTime <= 0 {
		tool.MaxTime = most
	}
	if tool.MaxTime > most {
		return tool, api.Problemf(api.CodeTool, "%s may take %v, and a lease of this workspace leaves %v: "+
			"shorten its max_time, or raise the rule lease_ticks", c.tool, tool.MaxTime, most)
	}
	return tool, nil
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

// effectOf gives a call its place in the transaction.
func (s *Agent) effectOf(ctx context.Context, t *tx, tool gate.Tool, c toolCall) (gate.Effect, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := t.size() + 1 + len(tool.Scopes); n > s.footprintLimit() {
		return gate.Effect{}, api.Problemf(api.CodeLimit, "the transaction would name %d scopes; at most %d go into one", n,
			s.footprintLimit())
	}
	total := len(c.args)
	for _, i := range t.effects {
		total += len(i.effect.Args)
	}
	if total > maxTxArgs {
		return gate.Effect{}, api.Problemf(api.CodeLimit, "the transaction's calls would have arguments of %d bytes; at most %d",
			total, maxTxArgs)
	}
	e := gate.Effect{Tx: t.id, Incarnation: t.incarnation, Index: uint32(len(t.effects)), Tool: tool,
		Args: c.args, Traceparent: traceOf(ctx), At: wallTime(s.clock.Now().UnixMilli())}
	e.Key = gate.Key(tool, s.origin, t.id, e.Index, c.key)
	if e.Key == "" && tool.Keyed && tool.Class.Gated() {
		e.Key = gate.OwnKey(s.origin, t.id, e.Index) // at least a release that is repeated counts once
	}
	return e, nil
}

// sameKey is the receipt of the call of the transaction that has the same tool and key; nil: there is none. The sink
// would take the second for a repetition, so it is one call, and one with other arguments is refused.
func (s *Agent) sameKey(t *tx, e gate.Effect) (*api.Receipt, error) {
	if e.Key == "" {
		return nil, nil
	}
	s.mu.Lock()
	var first *issued
	for _, i := range t.effects {
		if i.effect.Tool.Name == e.Tool.Name && i.effect.Key == e.Key {
			first = i
		}
	}
	s.mu.Unlock()
	switch {
	case first == nil:
		return nil, nil
	case !sameJSON(first.effect.Args, e.Args):
		return nil, api.Problemf(api.CodeKeyReused, "call %d of %s has the key %.80q too, and other arguments: the sink would take "+
			"this one for a repetition and leave it out. Give it a key of its own (the policy's key template, or key in the "+
			"request)", first.effect.Index, t.id, e.Key)
	}
	return s.receiptNow(t, gate.Progress{Effect: first.effect}), nil
}

// sameJSON reports whether two objects say the same.
func sameJSON(a, b json.RawMessage) bool {
	read := func(text json.RawMessage) (v any) {
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		_ = d.Decode(&v)
		return v
	}
	return reflect.DeepEqual(read(a), read(b))
}

// wallTime is a time as events have it; zero: the event has none.
func wallTime(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// readTool makes a call that changes nothing. What it read is as old as the view was when the call left.
func (s *Agent) readTool(ctx context.Context, t *tx, e gate.Effect) (*api.Receipt, error) {
	if t.begin.Mode == sequencer.Locked {
		if err := s.touchAll(ctx, t, e.Tool.Scopes, sequencer.ReadAccess); err != nil {
			return nil, err
		}
	}
	view := s.view.At()
	bound, cancel := context.WithTimeout(ctx, e.Tool.MaxTime)
	defer cancel()
	answer, err := s.engine.Read(bound, e)
	if err != nil {
		return nil, api.Problemf(api.CodeToolUnreachable, "%s did not answer: %v", e.Tool.Name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(t); err != nil {
		return nil, err
	}
	for _, scope := range e.Tool.Scopes {
		entry, err := s.deliver(ctx, t.id, &reading{scope: scope, view: view})
		if err != nil {
			return nil, err
		}
		t.reads = journal.AddRead(t.reads, entry)
	}
	if e.Tool.Pin != nil {
		t.pin(*e.Tool.Pin)
	}
	s.metrics.Effect(e.Tool.Class, "done")
	out := receipt(gate.Progress{Effect: e, Started: true, Answer: &answer}, standing{state: api.StateOpen})
	out.Index, out.View, out.Overtaken = nil, uint64(view), t.overtaken
	return out, nil
}

// hold keeps a call until the commit and answers with a receipt at once.
func (s *Agent) hold(ctx context.Context, t *tx, e gate.Effect, slot *once.Slot) (*api.Receipt, error) {
	i, err := s.issue(ctx, t, e)
	if err != nil {
		return nil, err
	}
	slot.Calls(i)
	s.metrics.Effect(e.Tool.Class, "held")
	return s.receiptNow(t, gate.Progress{Effect: e}), nil
}

// issue puts a call into the delivery log and into the transaction. It is published on its way.
func (s *Agent) issue(ctx context.Context, t *tx, e gate.Effect) (*issued, error) {
	text, err := s.argsOf(ctx, t, e)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(t); err != nil {
		return nil, err
	}
	if err := s.delivery.Issue(&gate.Progress{Effect: e}); err != nil {
		return nil, err
	}
	i := &issued{effect: e, acked: make(chan struct{})}
	err = s.delivery.Event(&topology.Event{
		Kind: topology.EventEffect, Workspace: s.workspace, Tx: t.id, Agent: s.agent, Incarnation: t.incarnation,
		AtMs: s.clock.Now().UnixMilli(), Traceparent: e.Traceparent, Effect: text,
	}, func(sequencer.Place) { close(i.acked) })
	if err != nil {
		return nil, err
	}
	t.effects = append(t.effects, i)
	if e.Tool.Pin != nil {
		t.pin(*e.Tool.Pin)
	}
	return i, nil
}

// argsOf is the call as the events topic has it; large arguments go there first.
func (s *Agent) argsOf(ctx context.Context, t *tx, e gate.Effect) (*topology.EffectText, error) {
	text := &topology.EffectText{
		Index: e.Index, Class: e.Tool.Class, Tool: e.Tool.Name, Pin: e.Tool.Pin, Key: e.Key, Scopes: e.Tool.Scopes,
		May: e.Tool.May, Cost: e.Tool.Cost, MaxTimeMs: e.Tool.MaxTime.Milliseconds(), Args: e.Args,
	}
	if len(e.Args) <= journal.InlineArgs {
		return text, nil
	}
	ref, err := s.keepBody(ctx, t, "", "application/json", e.Args)
	text.Args, text.ArgsRef = nil, ref
	return text, err
}

// progress is what is known of one call.
func (s *Agent) progress(id sequencer.TxID, index uint32) (gate.Progress, bool) {
	return s.delivery.Call(id, index)
}

// pin adds a tool that the transaction's plan relies on.
func (t *tx) pin(p sequencer.Pin) {
	if !slices.Contains(t.pinned, p) {
		t.pinned = append(t.pinned, p)
	}
}

// size is how many scopes the transaction names.
func (t *tx) size() int {
	n := len(t.reads) + len(t.writes) + len(t.pinned) + len(t.own) + min(1, len(t.own))
	for _, i := range t.effects {
		n += 1 + len(i.effect.Tool.Scopes)
	}
	return n
}
