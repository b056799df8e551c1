package adapters

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/policy/template"
	"github.com/hence-dev/hence/sequencer"
)

type shardAdapter struct {
	spec    gate.ShardSpec
	shards  gate.Shards
	scope   template.Template
	content *template.Tree
}

// shardSaved is what undoing a write or a removal needs.
type shardSaved struct {
	Scope   sequencer.Scope `json:"scope"`
	Type    string          `json:"type,omitempty"`
	Content []byte          `json:"content,omitempty"`
	Absent  bool            `json:"absent,omitempty"`
}

func newShard(d gate.Decl) (gate.Adapter, error) {
	a, err := shardOf(d)
	if err != nil {
		return nil, err
	}
	return a, nil
}

func shardOf(d gate.Decl) (*shardAdapter, error) {
	spec, err := readSpec[gate.ShardSpec](d)
	if err != nil {
		return nil, err
	}
	switch spec.Op {
	case gate.OpRead, gate.OpWrite, gate.OpDelete, gate.OpRestore:
	default:
		return nil, fmt.Errorf("op %q: write read, write, delete or restore", spec.Op)
	}
	if spec.Type == "" {
		spec.Type = "application/json"
	}
	p := &parser{}
	a := &shardAdapter{spec: spec, shards: d.Env.Shards, scope: p.text("scope", spec.Scope)}
	a.content = p.tree("content", spec.Content)
	return a, p.err
}

// Shard returns what a call of a declared shard tool writes, without writing it: for a bufferable tool whose write
// goes into the transaction's seal. Content is nil when the shard is removed.
func Shard(d gate.Decl, c gate.Call) (scope sequencer.Scope, content []byte, mediaType string, err error) {
	a, err := shardOf(d)
	if err != nil {
		return "", nil, "", fmt.Errorf("tool %q, adapter shard: %w", d.Tool, err)
	}
	if a.spec.Op != gate.OpWrite && a.spec.Op != gate.OpDelete {
		return "", nil, "", fmt.Errorf("tool %q: op %s writes nothing into a seal", d.Tool, a.spec.Op)
	}
	scope, content, err = a.expand(c)
	return scope, content, a.spec.Type, err
}

func (a *shardAdapter) expand(c gate.Call) (sequencer.Scope, []byte, error) {
	v, err := values(c)
	if err != nil {
		return "", nil, err
	}
	text, err := a.scope.Expand(v, escapeSegment)
	if err != nil {
		return "", nil, unsent("scope", err)
	}
	scope, err := sequencer.ParseScope(text)
	if err != nil || !scope.IsShard() || scope.HasStar() {
		return "", nil, notSent("%.80q names no shard: write shard:/path without wildcards", text)
	}
	if a.spec.Op != gate.OpWrite {
		return scope, nil, nil
	}
	content := []byte(c.Args)
	if a.content != nil {
		if content, err = a.content.JSON(v); err != nil {
			return "", nil, unsent("content", err)
		}
	}
	if content == nil {
		content = []byte("{}")
	}
	return scope, content, nil
}

// escapeSegment keeps a value inside its segment of a scope.
func escapeSegment(_, value string) (string, error) {
	if value == "" || value == "." || value == ".." {
		return "", errors.New("an empty value or dots name no shard")
	}
	return strings.NewReplacer("%", "%25", "/", "%2F", "*", "%2A").Replace(value), nil
}

// Call reads or writes the shard.
func (a *shardAdapter) Call(ctx context.Context, c gate.Call) (gate.Answer, error) {
	if a.shards == nil {
		return gate.Answer{}, notSent("this process keeps no shards")
	}
	if a.spec.Op == gate.OpRestore {
		return a.restore(ctx, c)
	}
	scope, content, err := a.expand(c)
	if err != nil {
		return gate.Answer{}, err
	}
	old, mediaType, found, err := a.shards.Shard(ctx, scope)
	if err != nil {
		return gate.Answer{}, fmt.Errorf("%w: reading %s: %w", gate.ErrNotSent, scope, err)
	}
	if a.spec.Op == gate.OpRead {
		if !found {
			return gate.Answer{Refused: true, Detail: string(scope) + " holds nothing"}, nil
		}
		return gate.Answer{Result: result(old)}, nil
	}
	if err := a.put(ctx, scope, content, a.spec.Type, c.Key); err != nil {
		return gate.Answer{}, err
	}
	saved := shardSaved{Scope: scope, Type: mediaType, Content: old, Absent: !found}
	return gate.Answer{Saved: toJSON(saved), Result: toJSON(map[string]any{"scope": scope, "bytes": len(content)})}, nil
}

func (a *shardAdapter) put(ctx context.Context, scope sequencer.Scope, content []byte, mediaType, key string) error {
	err := a.shards.PutShard(ctx, scope, content, mediaType, key)
	if err == nil || errors.Is(err, gate.ErrNotSent) {
		return err
	}
	return fmt.Errorf("%w: writing %s: %w", gate.ErrUnknown, scope, err)
}

func (a *shardAdapter) restore(ctx context.Context, c gate.Call) (gate.Answer, error) {
	var s shardSaved
	if err := decodeSaved(c.Saved, &s); err != nil {
		return gate.Answer{}, err
	}
	if !s.Scope.IsShard() {
		return gate.Answer{}, notSent("what was saved names no shard")
	}
	content := s.Content
	switch {
	case s.Absent:
		content = nil
	case content == nil:
		content = []byte{}
	}
	if err := a.put(ctx, s.Scope, content, s.Type, c.Key); err != nil {
		return gate.Answer{}, err
	}
	return gate.Answer{Detail: "restored " + string(s.Scope)}, nil
}

// LookUp has nothing to ask: a write with a key is simply repeated.
func (a *shardAdapter) LookUp(context.Context, gate.Call) (gate.Answer, error) {
	return gate.Answer{}, gate.ErrNoLookup
}
