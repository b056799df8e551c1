package settle

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/topology"
)

// TimeOf is a time as events have it, in milliseconds; zero: the event has none.
func TimeOf(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// Engine settles calls; *gate.Engine is one.
type Engine interface {
	// Release makes the calls that a commit has let go.
	Release(ctx context.Context, effects []gate.Progress, claim gate.Claim) (gate.Settlement, error)
	// Undo compensates the calls of an aborted or retracted transaction.
	Undo(ctx context.Context, effects []gate.Progress, claim gate.Claim) (gate.Settlement, error)
}

// policy is what tool calls go by.
type policy struct {
	tools  gate.Tools    // nil: none
	capped gate.Tools    // the same, where no call outlasts every lease
	engine Engine        // nil: no policy
	bare   Engine        // without a policy: settles what others have left
	origin func() string // what the keys of this session's calls name
}

// NoTools is the policy of a sidecar without one, for what others have left: it knows no tool, so whatever may have
// happened is said to be unresolved, and nothing is called.
type NoTools struct{}

// Find is part of the policy's interface.
func (NoTools) Find(string, json.RawMessage) (gate.Tool, error) { return gate.Tool{}, gate.ErrNoPolicy }

// Undo is part of the policy's interface.
func (NoTools) Undo(gate.Effect, gate.Answer) (gate.Call, error) {
	return gate.Call{}, gate.ErrNoPolicy
}

// Adapter is part of the policy's interface.
func (NoTools) Adapter(string) (gate.Adapter, error) { return nil, gate.ErrNoPolicy }

// effectFrom is a call as its event has it. How it is tried and undone is what this sidecar's own policy says.
func (p *policy) effectFrom(ev *topology.Event) gate.Effect {
	x := ev.Effect
	tool := gate.Tool{Name: x.Tool, Retry: gate.Retry{Attempts: 1}}
	if p.tools != nil {
		if found, err := p.tools.Find(x.Tool, x.Args); err == nil {
			tool = found
		}
	}
	tool.Name, tool.Class, tool.Cost, tool.Scopes, tool.May, tool.Pin = x.Tool, x.Class, x.Cost, x.Scopes, x.May, x.Pin
	tool.Keyed = x.Key != ""
	tool.MaxTime = time.Duration(x.MaxTimeMs) * time.Millisecond
	return gate.Effect{Tx: ev.Tx, Incarnation: ev.Incarnation, Index: x.Index, Tool: tool, Key: x.Key, Args: x.Args,
		Traceparent: ev.Traceparent, At: TimeOf(ev.AtMs)}
}

// undoTakes is how long the compensation of a former owner's call may take: as long as any call may when the former
// declaration is not known here. It is zero where none is declared.
func (p *policy) undoTakes(call *gate.Progress, longest time.Duration) time.Duration {
	switch {
	case p.tools == nil:
		return 0
	case gate.Unchanged(p.tools, &call.Effect) != nil:
		return longest
	case !call.Tool.Undo:
		return 0
	}
	answer := gate.Answer{}
	if call.Answer != nil {
		answer = *call.Answer
	}
	c, err := p.tools.Undo(call.Effect, answer)
	if err != nil {
		return 0
	}
	undo, err := p.tools.Find(c.Tool, c.Args)
	if err != nil {
		return 0
	}
	return undo.MaxTime
}

// asSealed refuses a call whose tool is declared differently now. Where that is allowed, the call moves what today's
// declaration says, besides what it said then.
func (p *policy) asSealed(call *gate.Progress, allowed bool) error {
	changed := gate.Unchanged(p.tools, &call.Effect)
	if changed == nil {
		return nil
	}
	if !allowed {
		return api.Problemf(api.CodeChangedTool, "%v: it was not called. Make the call by hand and accept the "+
			"residue, or send changed_tool to have it made as it is declared now", changed)
	}
	now, err := p.tools.Find(call.Tool.Name, call.Args)
	if err != nil {
		return api.Problemf(api.CodeTool, "%v", err)
	}
	for _, scope := range now.Scopes {
		call.Tool.Scopes = api.AddScope(call.Tool.Scopes, scope)
	}
	return nil
}

// knows: calls that a policy does not know as they were declared are left to other sidecars.
func (p *policy) knows(effects []gate.Progress) bool {
	for _, one := range effects {
		if p.tools == nil {
			return false
		}
		found, err := p.tools.Find(one.Tool.Name, one.Args)
		if err != nil || found.Class != one.Tool.Class || gate.Unchanged(p.tools, &one.Effect) != nil {
			return false
		}
		if _, err := p.tools.Adapter(one.Tool.Name); err != nil {
			return false
		}
	}
	return true
}

// cannot refuses to settle calls that only a policy knows how to settle.
func (p *policy) cannot(effects []gate.Progress, did bool) error {
	if did && p.engine == nil {
		return fmt.Errorf("%d calls wait for a policy file: start the sidecar with one", len(effects))
	}
	return nil
}
