package adapters

import (
	"errors"
	"testing"

	"github.com/hence-dev/hence/gate"
)

// TestShard: a call says which shard it reads, or what it writes there, and is never made by the adapter.
func TestShard(t *testing.T) {
	for _, c := range []struct {
		spec                       gate.ShardSpec
		args, scope, content, kind string
	}{
		{gate.ShardSpec{Op: gate.OpWrite, Scope: "shard:/orders/{id}", Content: []byte(`{"n":"{n}"}`)},
			`{"id":"a/b","n":1}`, "shard:/orders/a%2Fb", `{"n":1}`, "application/json"},
		{gate.ShardSpec{Op: gate.OpWrite, Scope: "shard:/a/{id}"}, `{"id":"7"}`, "shard:/a/7", `{"id":"7"}`,
			"application/json"},
		{gate.ShardSpec{Op: gate.OpWrite, Scope: "shard:/a", Type: "text/plain"}, "", "shard:/a", "{}", "text/plain"},
		{gate.ShardSpec{Op: gate.OpRead, Scope: "shard:/a/{id|lower}"}, `{"id":"X*"}`, "shard:/a/x%2A", "", ""},
	} {
		tool, ok := build(t, gate.KindShard, gate.Env{}, c.spec).(gate.ShardTool)
		if !ok {
			t.Fatal("the adapter is no shard tool")
		}
		got, err := tool.Shard(call("", c.args))
		if err != nil || string(got.Scope) != c.scope || string(got.Content) != c.content || got.MediaType != c.kind ||
			got.Write != (c.spec.Op == gate.OpWrite) {
			t.Errorf("%+v of %s: %+v, %v", c.spec, c.args, got, err)
		}
	}
	write := build(t, gate.KindShard, gate.Env{}, gate.ShardSpec{Op: gate.OpWrite, Scope: "shard:/orders/{id}"})
	for _, args := range []string{`{"id":".."}`, `{"id":""}`, `{"id":"."}`, `{}`, `[]`} {
		if got, err := write.(gate.ShardTool).Shard(call("", args)); !errors.Is(err, gate.ErrNotSent) {
			t.Errorf("%s: %+v, %v; want ErrNotSent", args, got, err)
		}
	}
	if _, err := write.LookUp(t.Context(), call("k", `{"id":"x"}`)); !errors.Is(err, gate.ErrNoLookup) {
		t.Errorf("a look-up: %v", err)
	}
}
