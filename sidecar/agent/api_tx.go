package agent

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/agent/settle"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/loop"
	"github.com/hence-dev/hence/sidecar/once"
	"github.com/hence-dev/hence/sidecar/view"
	"github.com/hence-dev/hence/sidecar/words"
	"github.com/hence-dev/hence/topology"
)

// Begin opens a transaction. In the modes ordered and locked it returns once the log has begun it.
func (s *Agent) Begin(ctx context.Context, c once.Call, in *api.Begin) (*api.Decision, error) {
	return flow(s, func() (*api.Decision, error) {
		begin, err := s.beginOf(ctx, c, in)
		if err != nil {
			return nil, err
		}
		if err := s.inGroup(in.Group); err != nil {
			return nil, err
		}
		t, err := s.resume(ctx, c.Slot)
		if err == nil && t == nil {
			note := func(t *tx) { c.Slot.Set(t.id) }
			if c.Slot == nil {
				note = nil // the same request would open another one
			}
			t, err = s.start(ctx, *begin, note)
		}
		if t == nil {
			c.Slot.Set("") // nothing was begun: the name is the next one's
		}
		if err != nil {
			return nil, err
		}
		return s.asItStands(t), nil
	})
}

func (s *Agent) beginOf(ctx context.Context, c once.Call, in *api.Begin) (*sequencer.Begin, error) {
	mode, err := modeOf(in.Mode, s.mode)
	if err != nil {
		return nil, api.Problemf(api.CodeBadRequest, "%v", err)
	}
	levels, err := levelsOf(in.Levels)
	if err != nil {
		return nil, api.Problemf(api.CodeBadRequest, "%v", err)
	}
	if in.DeadlineMs < 0 || in.DeadlineMs > maxDeadlineMs {
		return nil, api.Problemf(api.CodeBadRequest, "deadline_ms is %d: give 0 to %d", in.DeadlineMs, maxDeadlineMs)
	}
	may, err := s.mayOf(ctx, mode, in)
	if err != nil {
		return nil, err
	}
	return &sequencer.Begin{Mode: mode, Observe: in.Observe || s.observes, Levels: levels, Group: in.Group,
		DeadlineTicks: ticksOf(in.DeadlineMs), May: may, Session: c.Session}, nil
}

// resume is the transaction that an earlier try of the same request has made, perhaps before a restart; the log has
// begun it where it must. nil: there is none, or it has left nothing and is begun again.
func (s *Agent) resume(ctx context.Context, slot *once.Slot) (*tx, error) {
	id := slot.Get()
	if id == "" {
		return nil, nil
	}
	if err := s.await(ctx); err != nil { // until then nothing is known of the former process's
		return nil, err
	}
	t, err := s.find(id)
	if err != nil {
		return nil, err
	}
	if s.beginsAnew(t, slot) {
		return nil, s.letGo(t, slot, nil)
	}
	if t, err = s.beginInLog(ctx, t); err != nil {
		return t, err
	}
	if t.gone() {
		return nil, s.lost(t)
	}
	return t, nil
}

// asItStands is how a transaction stands now.
func (s *Agent) asItStands(t *tx) *api.Decision {
	return s.decision(t)
}

// Status is a transaction's state; it waits, as long as ctx lasts, until there is something new to say.
func (s *Agent) Status(ctx context.Context, id string) (*api.Decision, error) {
	return flow(s, func() (*api.Decision, error) {
		t, err := s.find(sequencer.TxID(id))
		if err != nil {
			return nil, err
		}
		return s.status(ctx, t)
	})
}

// Read answers a read of an open transaction. Of what Hence does not keep it is only announced that the agent is about
// to read it by itself; then the first result is nil.
func (s *Agent) Read(ctx context.Context, id string, in *api.Read) (shard *api.Shard, announced *api.Announced,
	err error) {
	s.loop.Run(func() { shard, announced, err = s.readAny(ctx, id, in) })
	return shard, announced, err
}

func (s *Agent) readAny(ctx context.Context, id string, in *api.Read) (*api.Shard, *api.Announced, error) {
	t, err := s.find(sequencer.TxID(id))
	if err != nil {
		return nil, nil, err
	}
	if foreign, err := topology.ParseScope(in.Scope); err == nil && !foreign.IsShard() {
		out, err := s.readForeign(ctx, t, foreign, in)
		return nil, out, err
	}
	out, err := s.readShard(ctx, t, in)
	return out, nil, err
}

func (s *Agent) readShard(ctx context.Context, t *tx, in *api.Read) (*api.Shard, error) {
	scope, pattern, err := s.shardsNamed(ctx, in.Scope)
	if err != nil {
		return nil, err
	}
	if in.Limit < 0 || in.Limit > s.limits.ListItems {
		return nil, api.Problemf(api.CodeBadRequest, "limit is %d: give 0 to %d", in.Limit, s.limits.ListItems)
	}
	list := 0
	if pattern {
		if list = in.Limit; list == 0 {
			list = s.limits.ListItems
		}
	}
	as := sequencer.ReadAccess
	switch {
	case in.ForUpdate && pattern:
		return nil, api.Problemf(api.CodeBadRequest, "for_update is for one shard, and %s is a pattern: read each shard "+
			"that is to be written", in.Scope)
	case in.ForUpdate:
		as = sequencer.WriteAccess
	}
	got, err := s.read(ctx, t, scope, list, as)
	if err != nil {
		return nil, err
	}
	return s.shardOf(ctx, got)
}

// shardOf is an answered read as the agent is told.
func (s *Agent) shardOf(ctx context.Context, got *reading) (*api.Shard, error) {
	out := &api.Shard{Scope: string(got.scope), View: uint64(got.view), Overtaken: got.overtaken}
	if got.page != nil {
		out.Items, out.Truncated, out.Exists = items(got.page.Items), got.page.More, len(got.page.Items) > 0
		return out, nil
	}
	out.Exists, out.Pending = got.rev.Version > 0 || got.pending, got.pending
	out.Version, out.Writer, out.MediaType = uint64(got.rev.Version), string(got.rev.Writer), got.rev.Media
	if out.Exists {
		body, err := s.content(ctx, got.rev)
		if err != nil {
			return nil, err
		}
		setContent(out, body)
	}
	return out, nil
}

// Write adds a shard write to an open transaction; the last write of a shard counts.
func (s *Agent) Write(ctx context.Context, id string, in *api.Write) (*api.Written, error) {
	return flow(s, func() (*api.Written, error) {
		t, err := s.find(sequencer.TxID(id))
		if err != nil {
			return nil, err
		}
		w, err := s.writingOf(ctx, in)
		if err != nil {
			return nil, err
		}
		return s.write(ctx, t, w)
	})
}

// writingOf is a write as a request asks for it.
func (s *Agent) writingOf(ctx context.Context, in *api.Write) (w writing, err error) {
	if w.scope, err = s.shardNamed(ctx, in.Scope); err != nil {
		return w, err
	}
	if w.content, err = contentOf(in); err != nil {
		return w, err
	}
	if w.op, err = opOf(in.Op); err != nil {
		return w, err
	}
	if w.media = in.MediaType; w.media == "" && in.Value != nil {
		w.media = mediaJSON
	} else if w.media == "" {
		w.media = api.DefaultMedia
	}
	if in.IfVersion != nil {
		w.expect = []sequencer.Seq{sequencer.Seq(*in.IfVersion)}
	}
	return w, nil
}

// Seal freezes a transaction's footprint and waits for its decision as long as ctx lasts; then the state is still
// sealed. Sealing again gives the same answer.
func (s *Agent) Seal(ctx context.Context, id string, in *api.Seal) (*api.Decision, error) {
	return flow(s, func() (*api.Decision, error) {
		t, err := s.find(sequencer.TxID(id))
		if err != nil {
			return nil, err
		}
		if err := s.beforeSeal(t, in); err != nil {
			return nil, err
		}
		return s.seal(ctx, t)
	})
}

// Abort ends a transaction at the agent's wish. One that has committed before is refused: the log decides.
func (s *Agent) Abort(ctx context.Context, id, reason string) (*api.Decision, error) {
	return flow(s, func() (*api.Decision, error) {
		if len(reason) > maxNameBytes {
			return nil, api.Problemf(api.CodeBadRequest, "reason has more than %d bytes", maxNameBytes)
		}
		t, err := s.find(sequencer.TxID(id))
		if err != nil {
			return nil, err
		}
		d, err := s.abortTx(ctx, t, reason)
		if err != nil {
			return nil, err
		}
		if d.State == api.StateCommitted {
			p := api.Problemf(api.CodeAlreadyCommitted, "%s is committed at seq %d: it cannot be aborted any more", t.id, d.Seq)
			p.Decision = d
			return nil, p
		}
		return d, nil
	})
}

// Retry opens the successor of a transaction that was refused, or lost with its session. fresh: it was not there
// before; asked twice it is the same one.
func (s *Agent) Retry(ctx context.Context, id string) (d *api.Decision, fresh bool, err error) {
	s.loop.Run(func() {
		var t, next *tx
		if t, err = s.find(sequencer.TxID(id)); err != nil {
			return
		}
		if next, fresh, err = s.again(ctx, t, nil); err == nil {
			d = s.asItStands(next)
		}
	})
	return d, fresh, err
}

// Explain says in words how a transaction stands, any agent's that the view or the closure table knows.
func (s *Agent) Explain(ctx context.Context, tx string) (*api.Explain, error) {
	return flow(s, func() (*api.Explain, error) {
		id := sequencer.TxID(tx)
		t, err := s.find(id)
		if err == nil {
			return s.withUndo(ctx, s.explain(ctx, t)), nil
		}
		seen, ok := s.view.Transaction(id)
		if !ok || seen.Before() {
			return s.explainRow(ctx, id, err)
		}
		d := seen.Describe()
		d.Workspace = s.workspace
		calls := s.callsOf(ctx, id, settle.Standing{State: d.State, Over: seen.Final || seen.Retraction.Final,
			Clean: seen.Clean, Back: seen.Retraction.Undone, Idle: "its own sidecar releases it"})
		out := &api.Explain{Paragraph: words.Sentence(d) + calls, Decision: *d}
		return s.withUndo(ctx, out), nil
	})
}

// withUndo adds how long a committed transaction can still be taken back, or that it cannot. Without an answer of the
// fold nothing is said of it.
func (s *Agent) withUndo(ctx context.Context, out *api.Explain) *api.Explain {
	d := &out.Decision
	if d.State != api.StateCommitted || d.Retraction != "" || d.Undone {
		return out
	}
	ctx, cancel := s.clock.Within(ctx, view.TableWait)
	defer cancel()
	cone, err := loop.Do(s.loop, func() (*topology.Cone, error) {
		return s.events.Cone(ctx, s.workspace, sequencer.TxID(d.Tx))
	})
	if err != nil {
		return out
	}
	if out.Undo = words.Undo(cone); out.Undo != nil {
		out.Paragraph += " " + out.Undo.Sentence
	} else if cone.Code == sequencer.CodeTooOld {
		out.Paragraph += " " + words.NoUndo
	}
	return out
}

// explainRow explains what the view does not remember from the closure table; unknown is why nothing is known here.
func (s *Agent) explainRow(ctx context.Context, id sequencer.TxID, unknown error) (*api.Explain, error) {
	if p := api.AsProblem(unknown); p.Code == api.CodeOtherAgent {
		unknown = api.Problemf(api.CodeUnknownTx, "%s is another agent's, and neither the view nor the closure table knows "+
			"it; hence tail --tx %s looks through all decisions", id, id)
	} else if p.Code == api.CodeUnknownTx || p.Code == api.CodeNotReady {
		return nil, unknown
	}
	short, cancel := s.clock.Within(ctx, view.TableWait)
	defer cancel()
	got, err := loop.Do(s.loop, func() (*topology.Closure, error) { return s.events.Closure(short, s.workspace, id, 1) })
	if err != nil || got == nil {
		return nil, unknown
	}
	for i := range got.Rows {
		if got.Rows[i].Tx == id {
			out := words.ExplainRow(s.workspace, &got.Rows[i])
			out.Paragraph += s.callsOf(ctx, id, settle.Standing{State: out.Decision.State, Over: out.Decision.Final,
				Idle: "its own sidecar releases it"})
			return s.withUndo(ctx, out), nil
		}
	}
	return nil, unknown
}

// EndSession drops the loose reads of a conversation that the agent says is over; it returns how many they were.
func (s *Agent) EndSession(ctx context.Context, name string) (int, error) {
	return flow(s, func() (int, error) {
		return s.endTalk(ctx, name)
	})
}

// Retract asks the log to undo a committed transaction, anybody's, and all that follows from it; a dry run only says
// what that is.
func (s *Agent) Retract(ctx context.Context, tx string, in *api.Retract) (*api.Retraction, error) {
	return flow(s, func() (*api.Retraction, error) {
		id := sequencer.TxID(tx)
		if _, _, _, ok := api.OwnerOf(id); !ok {
			return nil, api.Problemf(api.CodeUnknownTx, "%.100q is not the id of a transaction", tx)
		}
		if len(in.Reason) > maxNameBytes {
			return nil, api.Problemf(api.CodeBadRequest, "reason has more than %d bytes", maxNameBytes)
		}
		out, err := s.settle.Retract(ctx, id, in.DryRun)
		if err != nil {
			return nil, err
		}
		if !in.DryRun {
			s.log.Info("a retraction was asked for", "tx", tx, "reason", in.Reason, "state", out.State)
		}
		return out, nil
	})
}

// BeginGroup opens the branches of a new group: transactions of which one will be chosen.
func (s *Agent) BeginGroup(ctx context.Context, c once.Call, in *api.BeginGroup) (*api.Group, error) {
	return flow(s, func() (*api.Group, error) {
		if most := s.limits.Branches; in.Branches < 2 || in.Branches > most {
			return nil, api.Problemf(api.CodeBadRequest, "branches is %d: give 2 to %d", in.Branches, most)
		}
		if in.Group != "" {
			return nil, api.Problemf(api.CodeBadRequest, "group is given: this request makes one; to add a branch to "+
				"a group that there is, name it in the begin of a transaction")
		}
		begin, err := s.beginOf(ctx, c, &in.Begin)
		if err != nil {
			return nil, err
		}
		group := s.agent + "." + randomID()
		list, err := s.speculate(ctx, group, *begin, in.Branches)
		if err != nil {
			return nil, err
		}
		return s.groupOf(group, list), nil
	})
}

// Select makes one branch of a group the winner. The first choice stands; every other branch is over with it.
func (s *Agent) Select(ctx context.Context, group string, in *api.Select) (*api.Group, error) {
	return flow(s, func() (*api.Group, error) {
		t, err := s.find(sequencer.TxID(in.Tx))
		if err != nil {
			return nil, err
		}
		if t.begin.Group != group {
			return nil, api.Problemf(api.CodeBadRequest, "%s is not a branch of group %.100q", t.id, group)
		}
		if err := s.choose(ctx, group, t); err != nil {
			return nil, err
		}
		return s.groupOf(group, s.branches(group)), nil
	})
}

// explain says in words how a transaction stands.
func (s *Agent) explain(ctx context.Context, t *tx) *api.Explain {
	calls := words.Calls(s.effects(ctx, t).Effects)
	var d *api.Decision
	if t.gone() {
		p := api.AsProblem(s.lost(t))
		d = s.describe(t, &sequencer.Outcome{Detail: p.Detail})
		d.State, d.Code, d.Retryable, d.ReRead = api.StateAborted, api.CodeSessionLost, true, p.ReRead
	} else {
		d = s.decision(t)
	}
	out := &api.Explain{Decision: *d, Paragraph: words.Sentence(d) + calls}
	for r := range t.everyRead {
		out.Reads = append(out.Reads, fmt.Sprintf("%s at version %d, view %d", r.Scope, r.Version, r.View))
	}
	for _, w := range t.writes {
		out.Writes = append(out.Writes, string(w.Scope))
	}
	return out
}

// claiming is a policy that says what a transaction that will call a tool claims at its begin.
type claiming interface {
	May(tool string, args json.RawMessage) ([]sequencer.Want, error)
}

// mayOf is what a begin claims: the scopes that it lists and those of the tools that it will call. Only an ordered
// transaction has its age from the begin on, so only there a claim binds those that come after it.
func (s *Agent) mayOf(ctx context.Context, mode sequencer.Mode, in *api.Begin) ([]sequencer.Want, error) {
	if len(in.May) == 0 && len(in.Tools) == 0 {
		return nil, nil
	}
	if mode != sequencer.Ordered {
		return nil, api.Problemf(api.CodeBadRequest, "may and tools are for mode ordered only, and the mode is %s: "+
			"begin in mode ordered, or leave them out", mode)
	}
	var out []sequencer.Want
	if len(in.May) > 0 {
		listed, err := wantsOf(in.May)
		if err != nil {
			return nil, err
		}
		out = view.AddWants(out, listed)
	}
	most := s.view.FootprintLimit()
	for _, call := range in.Tools {
		claims, err := s.claimsOf(call)
		if err != nil {
			return nil, err
		}
		if out = view.AddWants(out, claims); len(out) > most {
			break
		}
	}
	if err := s.await(ctx); err != nil { // only a view that is ready knows what is stored
		return nil, err
	}
	if out = s.view.Widen(out); len(out) > most {
		return nil, api.Problemf(api.CodeLimit, "may and tools claim more than %d scopes: claim wider ones", most)
	}
	return out, nil
}

// claimsOf is what the policy says that a call may touch.
func (s *Agent) claimsOf(planned api.PlannedCall) ([]sequencer.Want, error) {
	if len(planned.Args) == 0 {
		planned.Args = json.RawMessage("{}")
	}
	what, err := callOf(planned.Tool, planned.Args, "")
	if err != nil {
		return nil, err
	}
	if s.tools == nil {
		return nil, api.Problemf(api.CodeNoPolicy, "tools are named, and this sidecar was started without a policy "+
			"file: list the scopes under may")
	}
	p, ok := s.tools.(claiming)
	if !ok {
		return nil, api.Problemf(api.CodeTool, "this sidecar's policy does not say what a call may touch: list the scopes "+
			"under may")
	}
	claims, err := p.May(what.tool, what.args)
	if err != nil {
		return nil, api.Problemf(api.CodeTool, "%v", err)
	}
	return claims, nil
}
