package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"unicode/utf8"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/agent/settle"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/sidecar/loop"
	"github.com/hence-dev/hence/sidecar/once"
	"github.com/hence-dev/hence/sidecar/words"
	"github.com/hence-dev/hence/topology"
)

// Bounds of tool calls.
const (
	maxArgs   = 256 << 10 // of one call, bytes
	maxTxArgs = 4 << 20   // of all calls of a transaction that have not run, bytes
)

// agentTools is a policy that knows what agents may not call: names that nothing serves, tools that only undo others.
type agentTools interface {
	MayCall(tool string) error
}

// argumentTools is a policy that knows which arguments its tools do something with.
type argumentTools interface {
	CheckArguments(tool string, args json.RawMessage) error
}

// toolOf looks a call up in the policy.
func (s *Agent) toolOf(ctx context.Context, c toolCall) (gate.Tool, error) {
	if len(c.args) > maxArgs {
		return gate.Tool{}, api.Problemf(api.CodeTooLarge, "the arguments have %d bytes; a call has at most %d", len(c.args),
			maxArgs)
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
		return tool, api.Problemf(api.CodeTool, "%s has no scopes with these arguments: declare in the policy what it moves",
			c.tool)
	}
	tool.Scopes, tool.May = s.view.WidenScopes(tool.Scopes), s.view.WidenScopes(tool.May)
	if tool.Class.Eager() && c.key != "" {
		return tool, api.Problemf(api.CodeTool, "%s runs before the commit: its key is made of transaction and index; "+
			"leave key out",
			c.tool)
	}
	if c.key != "" && !tool.Keyed && tool.Key == "" {
		return tool, api.Problemf(api.CodeTool, "%s takes no idempotency key: leave key out, or declare the key in the "+
			"policy",
			c.tool)
	}
	if !s.view.Settings().Known {
		s.learnRules(ctx)
	}
	most := s.longestCall()
	if most == 0 && !s.view.Settings().Known {
		return tool, api.Problemf(api.CodeNotReady, "the rules of the workspace are not known yet: how long a call "+
			"may take depends on them")
	}
	if logic := s.view.Settings().Rules.Logic; tool.Approve && logic < asksApproval {
		// An older logic reads over what the seal asks, and the call would leave without anybody's yes.
		return tool, api.Problemf(api.CodeTool, "%s needs approval, and the workspace has logic %d, which knows none: "+
			"raise it (hence rules set --logic %d)", c.tool, logic, asksApproval)
	}
	if tool.MaxTime <= 0 {
		tool.MaxTime = most
	}
	if tool.MaxTime > most && tool.Class != sequencer.ClassRead { // what only reads needs no lease
		return tool, api.Problemf(api.CodeTool, "%s may take %v, and a lease of this workspace leaves %v: "+
			"shorten its max_time, or raise the rule lease_ticks", c.tool, tool.MaxTime, most)
	}
	return tool, nil
}

// effectOf gives a call its place in the transaction.
func (s *Agent) effectOf(ctx context.Context, t *tx, tool gate.Tool, c toolCall) (gate.Effect, error) {
	if n := t.size() + 1 + len(tool.Scopes); n > s.view.FootprintLimit() {
		return gate.Effect{}, api.Problemf(api.CodeLimit, "the transaction would name %d scopes; at most %d go into one", n,
			s.view.FootprintLimit())
	}
	total := len(c.args)
	for _, i := range t.effects {
		total += len(i.effect.Args)
	}
	if total > maxTxArgs {
		return gate.Effect{}, api.Problemf(api.CodeLimit, "the transaction's calls would have arguments of %d bytes; at "+
			"most %d",
			total, maxTxArgs)
	}
	t.callAtMs = max(t.callAtMs+1, s.clock.Now().UnixMilli())
	e := gate.Effect{Tx: t.id, Incarnation: t.incarnation, Index: uint32(t.next()), Tool: tool,
		Args: c.args, Traceparent: traceOf(ctx), At: settle.TimeOf(t.callAtMs)}
	if at := t.indexOf(c.call); at >= 0 {
		e.Index = uint32(at)
	}
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
	var first *issued
	for _, i := range t.effects {
		if i.effect.Tool.Name == e.Tool.Name && i.effect.Key == e.Key {
			first = i
		}
	}
	switch {
	case first == nil:
		return nil, nil
	case !sameJSON(first.effect.Args, e.Args):
		return nil, api.Problemf(api.CodeKeyReused, "call %d of %s has the key %.80q too, and other arguments: the "+
			"sink would take this one for a repetition and leave it out. Give it a key of its own (the policy's key "+
			"template, or key in the request)", first.effect.Index, t.id, e.Key)
	}
	return s.receiptNow(t, gate.Progress{Effect: first.effect}), nil
}

// sameJSON reports whether two objects say the same.
func sameJSON(a, b json.RawMessage) bool {
	return reflect.DeepEqual(exact(a), exact(b))
}

// exact is what JSON says, with its numbers as they are written.
func exact(text json.RawMessage) (v any) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	_ = d.Decode(&v)
	return v
}

// readTool makes a call that changes nothing. What it read is as old as the view was when the call left.
func (s *Agent) readTool(ctx context.Context, t *tx, e gate.Effect) (*api.Receipt, error) {
	if t.begin.Mode == sequencer.Locked {
		if err := s.touchAll(ctx, t, e.Tool.Scopes, sequencer.ReadAccess); err != nil {
			return nil, err
		}
	}
	view := s.view.At()
	bound, cancel := s.clock.Within(ctx, e.Tool.MaxTime)
	defer cancel()
	answer, err := loop.Do(s.loop, func() (gate.Answer, error) { return s.engine.Read(bound, e) }) // its sink answers
	if err != nil {
		return nil, api.Problemf(api.CodeToolUnreachable, "%s did not answer: %v", e.Tool.Name, err)
	}
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
	out := settle.Receipt(gate.Progress{Effect: e, Started: true, Answer: &answer}, settle.Standing{State: api.StateOpen})
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
	if err := s.usable(t); err != nil {
		return nil, err
	}
	if err := s.delivery.Issue(&gate.Progress{Effect: e}); err != nil {
		return nil, err
	}
	i := &issued{effect: e}
	// Journal and log have one time of it: a start compares them.
	err = s.delivery.Event(&topology.Event{
		Kind: topology.EventEffect, Workspace: s.workspace, Tx: t.id, Agent: s.agent, Incarnation: t.incarnation,
		AtMs: e.At.UnixMilli(), Traceparent: e.Traceparent, Effect: text,
	}, func(sequencer.Place) { // outside of the loop
		s.loop.Run(func() {
			i.acked = true
			s.loop.Moved(&t.changed)
		})
	})
	if err != nil {
		return nil, err
	}
	t.put(i)
	s.loop.Moved(&t.changed)
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

// runTool makes an eager call: what it moves is granted to the transaction, and the call is in the log. done gives the
// transaction back.
func (s *Agent) runTool(ctx context.Context, t *tx, e gate.Effect, slot *once.Slot,
	done func()) (*api.Receipt, error) {
	err := s.finishBefore(ctx, t, e)
	var i *issued
	if err == nil {
		i, err = s.issue(ctx, t, e)
	}
	if err == nil {
		slot.Calls(i)
		err = s.mayRun(ctx, t, i)
		if err != nil {
			s.withdraw(t, i)
		}
	}
	if err != nil {
		done()
		return nil, err
	}
	var answer gate.Answer
	var failed error
	ran, hears := false, gate.ProgressOf(ctx)
	started := s.loop.Go(func(ctx context.Context) {
		defer done()
		leased := s.under(gate.WithProgress(ctx, hears), t.incarnation)
		s.loop.Do(func() { answer, failed = s.engine.Run(leased, i.effect) }) // its sink answers
		s.afterRun(t, i, failed)
		ran = true
		s.loop.Moved(&t.changed)
	})
	if !started {
		s.withdraw(t, i)
		done()
		return nil, api.Problemf(api.CodeBusy, "the sidecar is stopping, or has too many calls under way")
	}
	if err := s.through(ctx, t, func() bool { return ran }); err != nil { // the call goes on without its request
		return nil, err
	}
	out, err := s.ranTool(ctx, t, i, failed)
	if err == nil && failed == nil {
		out.Result = answer.Result // whole, also when it is too large to be kept
	}
	return out, err
}

// finishBefore finds out what became of earlier calls that move the same as one that is to be made: one of unknown
// outcome may still have to be repeated, which would then undo what this one has done.
func (s *Agent) finishBefore(ctx context.Context, t *tx, e gate.Effect) error {
	for _, i := range slices.Clone(t.effects) {
		if !i.effect.Tool.Class.Eager() || !api.Meet(i.effect.Tool.Scopes, e.Tool.Scopes) {
			continue
		}
		if err := s.finish(ctx, t, i); err != nil {
			p := api.AsProblem(err)
			p.Detail = fmt.Sprintf("%s was not called. An earlier call moves the same: %s", e.Tool.Name, p.Detail)
			return p
		}
	}
	return nil
}

// mayRun returns once an eager call may leave: its scopes are the transaction's own in the view, the events topic has
// it, and the lease lasts longer than it may take.
func (s *Agent) mayRun(ctx context.Context, t *tx, i *issued) error {
	scopes := i.effect.Tool.May
	if len(scopes) == 0 {
		scopes = i.effect.Tool.Scopes
	}
	if err := s.touchAll(ctx, t, scopes, sequencer.WriteAccess); err != nil {
		return err
	}
	if err := s.awaitAck(ctx, t, i); err != nil {
		return err
	}
	return s.stretchLease(ctx, i.effect.Tool.MaxTime)
}

func (s *Agent) awaitAck(ctx context.Context, t *tx, i *issued) error {
	// The events topic has it first, and its plan: a stranger that finds no first call looks for that.
	err := s.through(ctx, t, func() bool { return i.acked && t.plans == 0 })
	if err == nil {
		return nil
	}
	return api.Problemf(api.CodeLog, "call %d of %s is not in the events topic yet: %v", i.effect.Index, i.effect.Tx,
		err)
}

// touchAll asks for scopes that the transaction does not hold yet, all at once.
func (s *Agent) touchAll(ctx context.Context, t *tx, scopes []sequencer.Scope, access sequencer.Access) error {
	var wants []sequencer.Want
	for _, scope := range scopes {
		if w := (sequencer.Want{Scope: scope, Access: access}); !t.holds(w) {
			wants = append(wants, w)
		}
	}
	if len(wants) == 0 {
		return nil
	}
	return s.touch(ctx, t, wants)
}

// withdraw takes a call back that never ran: the next one has its index.
func (s *Agent) withdraw(t *tx, i *issued) {
	if !t.remove(i) {
		return
	}
	s.loop.Moved(&t.changed)
	err := s.marks.Mark(gate.Mark{Tx: t.id, Index: i.effect.Index, Step: gate.StepDropped, Detail: "it never ran"})
	if err != nil {
		s.log.Error("a call that never ran is still in the journal", "tx", string(t.id), "cause", err)
	}
}

// afterRun draws what follows from a call's end for its transaction.
func (s *Agent) afterRun(t *tx, i *issued, err error) {
	p, known := s.delivery.Call(t.id, i.effect.Index)
	switch {
	case err == nil || !known:
		if p.Answer != nil && p.Answer.Refused {
			s.metrics.Effect(i.effect.Tool.Class, "failed")
			return
		}
		s.metrics.Effect(i.effect.Tool.Class, "done")
	case p.GivenUp:
		s.metrics.Effect(i.effect.Tool.Class, "unknown")
		s.toolFailed(t, i.effect)
	case !p.Started:
		s.withdraw(t, i)
	}
}

// stillOpen answers a call with its receipt, or with how its transaction has ended meanwhile.
func (s *Agent) stillOpen(t *tx, p gate.Progress) (*api.Receipt, error) {
	var err error
	if t.gone() || t.decided() && s.decision(t).State == api.StateAborted {
		err = s.usable(t)
	}
	if err == nil {
		return s.receiptNow(t, p), nil
	}
	over := api.AsProblem(err)
	over.Detail += fmt.Sprintf(" Call %d, %s, was made before that: it is undone.", p.Index, p.Tool.Name)
	return nil, over
}

// toolFailed ends a transaction with a call of unknown outcome: it can never be sealed.
func (s *Agent) toolFailed(t *tx, e gate.Effect) {
	if t.decided() || t.phase != phaseOpen {
		return
	}
	detail := fmt.Sprintf("the outcome of %s, call %d, is not known", e.Tool.Name, e.Index)
	o := &sequencer.Outcome{Kind: sequencer.OutcomeAborted, Tx: t.id, Code: sequencer.CodeToolFailed,
		Detail: detail, Mode: t.begin.Mode}
	s.giveUp(t, o)
	s.abortInLog(t, o, "")
}

// errBrokenOff is what a request learns of a call that its first try has made.
var errBrokenOff = errors.New("the request that made the call ended before it")

// stands reports whether a call is one of its transaction's: it was not withdrawn.
func (s *Agent) stands(t *tx, i *issued) bool {
	return slices.Contains(t.effects, i)
}

// ranTool is the answer to a call that was made.
func (s *Agent) ranTool(ctx context.Context, t *tx, i *issued, err error) (*api.Receipt, error) {
	p, known := s.delivery.Call(t.id, i.effect.Index)
	switch {
	case err == nil, p.Answer != nil, known && p.Tool.Class.Gated():
		return s.stillOpen(t, p)
	case known && p.GivenUp:
		_ = s.untilTx(ctx, t, func() bool {
			return t.outcome != nil
		})
		return nil, words.Refusal(s.decision(t))
	case known && p.Started:
		return nil, api.Problemf(api.CodeUndecided, "the outcome of %s is not known yet: ask for it, do not call again (%v)",
			i.effect.Tool.Name, err)
	case errors.Is(err, context.Canceled):
		return nil, api.ErrStopped
	}
	return nil, api.Problemf(api.CodeToolUnreachable, "%s was not called: %v", i.effect.Tool.Name, err)
}

// flush returns once every call of a transaction is in the events topic and no eager one is unknown. A transaction
// whose call was given up is aborted instead.
func (s *Agent) flush(ctx context.Context, t *tx) error {
	list := append([]*issued(nil), t.effects...)
	for _, i := range list {
		if err := s.awaitAck(ctx, t, i); err != nil {
			return err
		}
		if !i.effect.Tool.Class.Eager() {
			continue
		}
		if err := s.finish(ctx, t, i); err != nil {
			return err
		}
	}
	return nil
}

// finish finds out what became of an eager call.
func (s *Agent) finish(ctx context.Context, t *tx, i *issued) error {
	p, known := s.delivery.Call(t.id, i.effect.Index)
	if known && p.Started && p.Answer == nil && !p.GivenUp {
		if err := s.stretchLease(ctx, i.effect.Tool.MaxTime); err != nil {
			return err
		}
		leased := s.under(ctx, t.incarnation)
		done, err := loop.Do(s.loop, func() (gate.Progress, error) { return s.engine.Finish(leased, p, gate.ClaimOwn) })
		if p, _ = s.delivery.Call(t.id, i.effect.Index); err != nil && !p.GivenUp {
			return api.Problemf(api.CodeUndecided, "the outcome of %s, call %d, is not known yet: send this again (%v)",
				i.effect.Tool.Name, i.effect.Index, err)
		}
		p.GivenUp = p.GivenUp || done.GivenUp
	}
	if p.GivenUp {
		s.toolFailed(t, i.effect)
	}
	return nil
}

// shardTool is the tool's adapter when its calls are reads and writes of the transaction itself.
func (s *Agent) shardTool(name string) (gate.ShardTool, bool) {
	a, err := s.tools.Adapter(name)
	if err != nil {
		return nil, false
	}
	tool, ok := a.(gate.ShardTool)
	return tool, ok
}

// shardCall reads or writes a shard in a transaction that the caller has entered. It has no place among the calls: the
// footprint has it as a read or a write, and the commit applies it.
func (s *Agent) shardCall(ctx context.Context, t *tx, tool gate.Tool, shard gate.ShardTool,
	c toolCall) (*api.Receipt, error) {
	what, err := shard.Shard(gate.Call{Tool: c.tool, Tx: t.id, Args: c.args, Traceparent: traceOf(ctx)})
	if err != nil {
		return nil, api.Problemf(api.CodeTool, "%s: %v", c.tool, err)
	}
	normal, err := topology.NormalScope(what.Scope)
	if err != nil {
		return nil, api.Problemf(api.CodeTool, "%s: %v", c.tool, err)
	}
	if what.Scope, err = s.named(ctx, what.Scope); err != nil {
		return nil, err
	}
	within := func(scope sequencer.Scope) bool { return scope.Covers(normal) } // policies have the one spelling
	switch {
	case what.Write != (tool.Class == sequencer.ClassBufferable) || !what.Write && tool.Class != sequencer.ClassRead:
		return nil, api.Problemf(api.CodeTool, "%s is %s: declare a tool that reads a shard read, one that writes it "+
			"bufferable",
			c.tool, tool.Class)
	case !slices.ContainsFunc(tool.Scopes, within):
		return nil, api.Problemf(api.CodeTool, "%s names %s, which lies in none of its scopes: add it to them in the policy",
			c.tool, what.Scope)
	}
	if err := s.roomForPin(t, tool.Pin); err != nil {
		return nil, err
	}
	out := &api.Receipt{Tx: string(t.id), Tool: c.tool, Class: tool.Class.String(), Scopes: []string{string(what.Scope)}}
	if what.Write {
		err = s.shardWrite(ctx, t, what, out)
	} else {
		err = s.shardRead(ctx, t, what.Scope, out)
	}
	if err != nil {
		return nil, err
	}
	if err := s.usable(t); err != nil {
		return nil, err
	}
	if tool.Pin != nil {
		t.pin(*tool.Pin)
	}
	s.metrics.Effect(tool.Class, out.State)
	return out, nil
}

// roomForPin: a call that is a read or a write names its tool besides.
func (s *Agent) roomForPin(t *tx, pin *sequencer.Pin) error {
	if pin == nil || slices.Contains(t.pinned, *pin) || t.size()+2 <= s.view.FootprintLimit() {
		return nil
	}
	return api.Problemf(api.CodeLimit, "the transaction names %d scopes and tools already; at most %d go into one",
		t.size(),
		s.view.FootprintLimit())
}

func (s *Agent) shardRead(ctx context.Context, t *tx, scope sequencer.Scope, out *api.Receipt) error {
	got, err := s.readIn(ctx, t, scope, 0, sequencer.ReadAccess)
	if err != nil {
		return err
	}
	out.State, out.View, out.Overtaken = api.EffectDone, uint64(got.view), got.overtaken
	if got.rev.Version == 0 && !got.pending {
		out.Detail = fmt.Sprintf("%s holds nothing", scope)
		return nil
	}
	body, err := s.content(ctx, got.rev)
	if err != nil {
		return err
	}
	out.Result, err = shardResult(body)
	return err
}

// shardResult is a content as a tool answers it: JSON as it is, text as a string, anything else in base64.
func shardResult(body []byte) (json.RawMessage, error) {
	var v any = map[string][]byte{"content_base64": body}
	switch {
	case utf8.Valid(body) && json.Valid(body) && !bytes.Equal(bytes.TrimSpace(body), []byte("null")):
		return body, nil
	case utf8.Valid(body):
		v = string(body)
	}
	out, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("write a shard's content as an answer: %w", err)
	}
	return out, nil
}

func (s *Agent) shardWrite(ctx context.Context, t *tx, what gate.ShardAccess, out *api.Receipt) error {
	done, err := s.writeIn(ctx, t, writing{scope: what.Scope, media: what.MediaType, content: what.Content})
	if err != nil {
		return err
	}
	out.State, out.Overtaken = api.EffectStaged, done.Overtaken
	out.Note = fmt.Sprintf("%s is accepted and takes effect when the transaction commits; do not call it again", out.Tool)
	return nil
}
