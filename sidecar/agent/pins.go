package agent

import (
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sidecar/api"
)

// undoTakes is how long the compensation of a former owner's call may take: as long as any call may when the former
// declaration is not known here. It is zero where none is declared.
func (s *Agent) undoTakes(p *gate.Progress) time.Duration {
	switch {
	case s.tools == nil:
		return 0
	case gate.Unchanged(s.tools, &p.Effect) != nil:
		return s.longestCall()
	case !p.Tool.Undo:
		return 0
	}
	answer := gate.Answer{}
	if p.Answer != nil {
		answer = *p.Answer
	}
	c, err := s.tools.Undo(p.Effect, answer)
	if err != nil {
		return 0
	}
	undo, err := s.tools.Find(c.Tool, c.Args)
	if err != nil {
		return 0
	}
	return undo.MaxTime
}

// asSealed refuses a call whose tool is declared differently now. Where that is allowed, the call moves what today's
// declaration says, besides what it said then.
func (s *Agent) asSealed(p *gate.Progress, allowed bool) error {
	changed := gate.Unchanged(s.tools, &p.Effect)
	if changed == nil {
		return nil
	}
	if !allowed {
		return api.Problemf(api.CodeChangedTool, "%v: it was not called. Make the call by hand and accept the residue, or send "+
			"changed_tool to have it made as it is declared now", changed)
	}
	now, err := s.tools.Find(p.Tool.Name, p.Args)
	if err != nil {
		return api.Problemf(api.CodeTool, "%v", err)
	}
	for _, scope := range now.Scopes {
		p.Tool.Scopes = api.AddScope(p.Tool.Scopes, scope)
	}
	return nil
}
