package adapters

import (
	"context"
	"errors"
	"testing"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
)

// shelf keeps shards in memory; a key writes once.
type shelf struct {
	content map[sequencer.Scope][]byte
	types   map[sequencer.Scope]string
	keys    map[string]bool
	fails   error
}

func (s *shelf) Shard(_ context.Context, scope sequencer.Scope) ([]byte, string, bool, error) {
	content, ok := s.content[scope]
	return content, s.types[scope], ok, nil
}

func (s *shelf) PutShard(_ context.Context, scope sequencer.Scope, content []byte, mediaType, key string) error {
	if s.fails != nil {
		return s.fails
	}
	if key != "" && s.keys[key] {
		return nil
	}
	s.keys[key] = true
	if content == nil {
		delete(s.content, scope)
		return nil
	}
	s.content[scope], s.types[scope] = content, mediaType
	return nil
}

func TestShard(t *testing.T) {
	s := &shelf{content: map[sequencer.Scope][]byte{}, types: map[sequencer.Scope]string{}, keys: map[string]bool{}}
	env := gate.Env{Shards: s}
	write := gate.ShardSpec{Op: gate.OpWrite, Scope: "shard:/orders/{id}", Content: []byte(`{"n":"{n}"}`)}
	const scope = sequencer.Scope("shard:/orders/a%2Fb")
	first := must(t, build(t, gate.KindShard, env, write), call("1", `{"id":"a/b","n":1}`))
	second := must(t, build(t, gate.KindShard, env, write), call("2", `{"id":"a/b","n":2}`))
	if string(s.content[scope]) != `{"n":2}` || s.types[scope] != "application/json" {
		t.Fatalf("the shards are %q", s.content)
	}
	back := build(t, gate.KindShard, env, gate.ShardSpec{Op: gate.OpRestore})
	for i, saved := range []gate.Answer{second, first} {
		undo := call("undo", `{}`)
		undo.Key, undo.Saved = string(rune('a'+i)), saved.Saved
		must(t, back, undo)
		if i == 0 && string(s.content[scope]) != `{"n":1}` {
			t.Errorf("after one restore the shards are %q", s.content)
		}
	}
	if len(s.content) != 0 {
		t.Errorf("after both restores the shards are %q", s.content)
	}
	s.fails = errors.New("no answer")
	_, err := build(t, gate.KindShard, env, write).Call(t.Context(), call("3", `{"id":"x","n":1}`))
	if !errors.Is(err, gate.ErrUnknown) {
		t.Errorf("a write without answer: %v", err)
	}
	for _, id := range []string{"..", "", "."} {
		args := string(toJSON(map[string]any{"id": id, "n": 1}))
		_, err := build(t, gate.KindShard, env, write).Call(t.Context(), call("4", args))
		if !errors.Is(err, gate.ErrNotSent) {
			t.Errorf("the name %q: %v", id, err)
		}
	}
}

func TestShardForSeal(t *testing.T) {
	spec := gate.ShardSpec{Op: gate.OpWrite, Scope: "shard:/a/{id}"}
	d := gate.Decl{Tool: "t", Kind: gate.KindShard, Spec: toJSON(spec)}
	scope, content, mediaType, err := Shard(d, call("", `{"id":"7"}`))
	if err != nil || scope != "shard:/a/7" || string(content) != `{"id":"7"}` || mediaType != "application/json" {
		t.Errorf("%s %s %s, %v", scope, content, mediaType, err)
	}
	d.Spec = toJSON(gate.ShardSpec{Op: gate.OpRead, Scope: "shard:/a"})
	if _, _, _, err := Shard(d, call("", `{}`)); err == nil {
		t.Error("a read is taken for a write")
	}
}
