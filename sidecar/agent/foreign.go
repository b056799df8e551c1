package agent

import (
	"context"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/topology"
)

// defaultServer is the tool server of tools and pins that name none.
const defaultServer = "tools"

// announceRead puts a read that the agent is about to make by itself into the footprint, as of now: what moves
// between this answer and the agent's read makes it stale, whether or not the agent saw it. In locked mode the
// scope is granted in the view first.
func (s *Agent) announceRead(ctx context.Context, t *tx, scope sequencer.Scope) (*api.Announced, error) {
	if err := t.enter(ctx); err != nil {
		return nil, err
	}
	defer t.leave()
	if err := s.prepare(ctx, t, scope); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(t); err != nil {
		return nil, err
	}
	if t.size() >= s.footprintLimit() {
		return nil, api.Problemf(api.CodeLimit, "the transaction names %d scopes already; read a pattern instead", s.footprintLimit())
	}
	got := &reading{scope: scope, view: s.view.At()}
	entry, err := s.deliver(ctx, t.id, got)
	if err != nil {
		return nil, err
	}
	t.reads = journal.AddRead(t.reads, entry)
	return &api.Announced{Tx: string(t.id), Scope: string(scope), View: uint64(got.view), Announced: true,
		Overtaken: t.overtaken}, nil
}

// readForeign announces the read of what Hence does not keep.
func (s *Agent) readForeign(ctx context.Context, t *tx, scope sequencer.Scope,
	in *api.Read) (*api.Announced, error) {
	if in.Limit != 0 {
		return nil, api.Problemf(api.CodeBadRequest, "limit is for patterns of shards; %s is read by the agent itself", scope)
	}
	if err := s.await(ctx); err != nil { // only a view that is ready knows what is in use
		return nil, err
	}
	if err := s.knownType(scope, in); err != nil {
		return nil, err
	}
	return s.announceRead(ctx, t, scope)
}

// beforeSeal takes what the body of a seal says over into the transaction.
func (s *Agent) beforeSeal(t *tx, in *api.Seal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.phase != phaseOpen || t.decided() {
		return nil // sealing again gives the same answer
	}
	if in.TouchesKnown != nil && !*in.TouchesKnown && len(t.own) > 0 {
		return api.Problemf(api.CodeCallsUnknown, "what was done under a touch of %s is not known: find out and seal again, or "+
			"abort and say in its settlement that it is unresolved", t.id)
	}
	if n := t.size() + len(in.Pins); n > s.footprintLimit() {
		return api.Problemf(api.CodeLimit, "the transaction would name %d scopes and pins; at most %d go into one", n,
			s.footprintLimit())
	}
	for _, p := range in.Pins {
		pin := sequencer.Pin{Server: topology.NormalName(p.Server), Name: topology.NormalName(p.Name),
			Signature: p.Signature}
		if pin.Server == "" {
			pin.Server = defaultServer
		}
		if err := validTool(pin.Server, pin.Name, pin.Signature); err != nil {
			return err
		}
		t.pin(pin)
	}
	return nil
}

const maxSignatureBytes = 1024

// validTool says what is wrong with the name of a tool.
func validTool(server, name, signature string) error {
	switch {
	case name == "" || len(name) > maxToolBytes:
		return api.Problemf(api.CodeBadRequest, "the tool's name is missing or has more than %d bytes", maxToolBytes)
	case len(server) > maxToolBytes:
		return api.Problemf(api.CodeBadRequest, "the tool server's name has more than %d bytes", maxToolBytes)
	case signature == "" || len(signature) > maxSignatureBytes:
		return api.Problemf(api.CodeBadRequest, "the signature of %s is missing or has more than %d bytes: send a hash of the "+
			"tool's declaration", name, maxSignatureBytes)
	}
	return nil
}
