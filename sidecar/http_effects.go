package sidecar

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/words"
	"github.com/hence-dev/hence/topology"
)

const maxToolBytes = 256

// callOf checks what a request says of a tool call.
func callOf(tool string, args json.RawMessage, key string) (toolCall, error) {
	args = bytes.TrimSpace(args)
	switch {
	case tool == "" || len(tool) > maxToolBytes:
		return toolCall{}, api.Problemf(api.CodeBadRequest, "tool is missing or has more than %d bytes", maxToolBytes)
	case len(args) == 0:
		return toolCall{}, api.Problemf(api.CodeBadRequest, "args is missing: send an object, {} when the tool takes nothing")
	case args[0] != '{':
		return toolCall{}, api.Problemf(api.CodeBadRequest, "args is not a JSON object: send the arguments by name")
	}
	if key != "" {
		if err := validKey(key); err != nil {
			return toolCall{}, err
		}
	}
	return toolCall{tool: topology.NormalName(tool), args: args, key: key}, nil
}

func (s *Sidecar) effectTx(c *call) (*reply, error) {
	var in api.Effect
	if err := c.decode(&in, false); err != nil {
		return nil, err
	}
	what, err := callOf(in.Tool, in.Args, in.Key)
	if err != nil {
		return nil, err
	}
	t, err := s.session.find(sequencer.TxID(c.params["tx"]))
	if err != nil {
		return nil, err
	}
	out, err := s.session.effect(c.ctx, t, what, c.slot)
	if err != nil {
		return nil, err
	}
	return jsonReply(http.StatusOK, out), nil
}

func (s *Sidecar) effectsTx(c *call) (*reply, error) {
	t, err := s.session.find(sequencer.TxID(c.params["tx"]))
	if err != nil {
		return nil, err
	}
	return jsonReply(http.StatusOK, s.session.effects(c.ctx, t)), nil
}

func (s *Sidecar) oneShot(c *call) (*reply, error) {
	var in api.OneShot
	if err := c.decode(&in, false); err != nil {
		return nil, err
	}
	what, err := callOf(in.Tool, in.Args, in.Key)
	if err != nil {
		return nil, err
	}
	mode, err := modeOf(in.Mode, s.config.Order)
	if err != nil {
		return nil, api.Problemf(api.CodeBadRequest, "%v", err)
	}
	ctx, cancel, err := s.waiting(c, s.config.Limits.WaitMost)
	if err != nil {
		return nil, err
	}
	defer cancel()
	t, err := s.resume(ctx, c)
	if err == nil && t == nil {
		t, err = s.session.start(ctx, sequencer.Begin{Mode: mode, Observe: s.config.Observe, Session: c.talk}, nil)
	}
	if err != nil {
		return nil, err
	}
	done, err := s.session.do(ctx, t, what, c.slot)
	if err != nil {
		return nil, err
	}
	switch done.Decision.State {
	case api.StateAborted:
		return nil, words.Refusal(&done.Decision)
	case api.StateCommitted:
		return jsonReply(http.StatusOK, done), nil
	}
	return jsonReply(http.StatusAccepted, done), nil
}

// do makes one call in a transaction of its own and seals it. Asked again with the same transaction it goes on.
func (s *session) do(ctx context.Context, t *tx, what toolCall, slot *txSlot) (*api.Done, error) {
	slot.set(t.id)
	if err := slot.save(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	open := t.phase == phaseOpen && !t.decided()
	s.mu.Unlock()
	first := slot.kept()
	if open && first == nil {
		var err error
		if first, err = s.effect(ctx, t, what, slot); err != nil {
			s.mu.Lock()
			calls := len(t.effects)
			s.mu.Unlock()
			if p := api.AsProblem(err); calls == 0 && !p.SafeSameKey {
				s.drop(t, "its only request was refused")
			}
			return nil, err
		}
		if first.Index == nil {
			slot.keep(first)
		}
	}
	if err := slot.save(); err != nil {
		return nil, err
	}
	d, err := s.seal(ctx, t)
	if err != nil {
		return nil, err
	}
	out := &api.Done{Tx: string(t.id), Decision: *d}
	if now := s.effects(ctx, t).Effects; len(now) > 0 {
		out.Effect = now[0]
	}
	if first != nil && first.Index == nil {
		out.Effect = *first
	}
	if out.Effect.Tool == "" {
		return nil, api.Problemf(api.CodeForgotten, "%s is %s, and what its call was answered is no longer remembered", t.id, d.State)
	}
	return out, nil
}
