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

// shardAdapter says what a call reads or writes; the transaction makes the access. It is a gate.ShardTool.
type shardAdapter struct {
	spec    gate.ShardSpec
	scope   template.Template
	content *template.Tree
}

func newShard(d gate.Decl) (gate.Adapter, error) {
	spec, err := readSpec[gate.ShardSpec](d)
	if err != nil {
		return nil, err
	}
	switch {
	case spec.Op != gate.OpRead && spec.Op != gate.OpWrite:
		return nil, fmt.Errorf("op %q: write read or write", spec.Op)
	case spec.Op == gate.OpRead && (spec.Type != "" || len(spec.Content) > 0):
		return nil, errors.New("op read writes nothing: leave type and content out")
	case spec.Type == "":
		spec.Type = "application/json"
	}
	p := &parser{}
	a := &shardAdapter{spec: spec, scope: p.text("scope", spec.Scope), content: p.tree("content", spec.Content)}
	if p.err != nil {
		return nil, p.err
	}
	return a, nil
}

// Shard says what a call reads or writes.
func (a *shardAdapter) Shard(c gate.Call) (gate.ShardAccess, error) {
	v, err := values(c)
	if err != nil {
		return gate.ShardAccess{}, err
	}
	text, err := a.scope.Expand(v, escapeSegment)
	if err != nil {
		return gate.ShardAccess{}, unsent("scope", err)
	}
	scope, err := sequencer.ParseScope(text)
	if err != nil || !scope.IsShard() || scope.HasStar() {
		return gate.ShardAccess{}, notSent("%.80q names no shard: write shard:/path without wildcards", text)
	}
	if a.spec.Op == gate.OpRead {
		return gate.ShardAccess{Scope: scope}, nil
	}
	out := gate.ShardAccess{Scope: scope, Write: true, Content: []byte(c.Args), MediaType: a.spec.Type}
	if a.content != nil {
		if out.Content, err = a.content.JSON(v); err != nil {
			return gate.ShardAccess{}, unsent("content", err)
		}
	}
	if len(out.Content) == 0 {
		out.Content = []byte("{}")
	}
	return out, nil
}

// Check says whether the call names a shard.
func (a *shardAdapter) Check(c gate.Call) error {
	_, err := a.Shard(c)
	return err
}

// escapeSegment keeps a value inside its segment of a scope.
func escapeSegment(_ template.Placeholder, _, value string) (string, error) {
	if value == "" || value == "." || value == ".." {
		return "", errors.New("an empty value or dots name no shard")
	}
	return strings.NewReplacer("%", "%25", "/", "%2F", "*", "%2A").Replace(value), nil
}

// Call is not how shards are read and written: outside of its transaction the access would wait for the transaction
// that it belongs to.
func (a *shardAdapter) Call(context.Context, gate.Call) (gate.Answer, error) {
	return gate.Answer{}, notSent("a shard is read and written by the transaction itself: call the tool in one")
}

// LookUp has nothing to ask: the call is part of its transaction's decision.
func (a *shardAdapter) LookUp(context.Context, gate.Call) (gate.Answer, error) {
	return gate.Answer{}, gate.ErrNoLookup
}
