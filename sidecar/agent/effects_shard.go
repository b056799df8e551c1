package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/topology"
)

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
		return nil, api.Problemf(api.CodeTool, "%s is %s: declare a tool that reads a shard read, one that writes it bufferable",
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
	s.mu.Lock()
	defer s.mu.Unlock()
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
	s.mu.Lock()
	defer s.mu.Unlock()
	if pin == nil || slices.Contains(t.pinned, *pin) || t.size()+2 <= s.footprintLimit() {
		return nil
	}
	return api.Problemf(api.CodeLimit, "the transaction names %d scopes and tools already; at most %d go into one", t.size(),
		s.footprintLimit())
}

func (s *Agent) shardRead(ctx context.Context, t *tx, scope sequencer.Scope, out *api.Receipt) error {
	got, err := s.readIn(ctx, t, scope, 0)
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
