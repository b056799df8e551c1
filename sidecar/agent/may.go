package agent

import (
	"context"
	"encoding/json"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/view"
)

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
