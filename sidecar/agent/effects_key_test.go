package agent

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

const postPolicy = `version: 1
server: board
files: {root: ROOT}
tools:
  - {tool: post, class: irreversible, args: [id, text], scopes: ["file:/board"], key: "post/{id}",
     file: {op: append, path: board, content: "{text}"}}
  - {tool: pin, class: irreversible, args: [id, text], scopes: ["file:/pins"], key: "post/{id}",
     file: {op: append, path: pins, content: "{text}"}}
`

// Two calls of a transaction under one key are one call if they say the same. If they do not, the sink would leave the
// second out: it is refused. Another tool's keys, and another transaction's, are other keys.
func TestOneKeyTwice(t *testing.T) {
	a := start(t, "a", newLog().Door(), withPolicy(t, strings.ReplaceAll(postPolicy, "ROOT", t.TempDir())))
	ctx := background(t)
	tx := open(ctx, t, a, client.BeginOptions{})
	call := func(body string) (int, *api.Problem) {
		status, p, _ := a.send(t, post("/v1/tx/"+tx.ID()+"/effects", body))
		return status, p
	}
	for _, args := range []string{`{"id":1,"text":"x"}`, `{"text":"x", "id":1}`} {
		got := must(tx.Effect(ctx, "post", json.RawMessage(args), client.EffectOptions{}))(t)
		if got.State != api.EffectHeld || got.Index == nil || *got.Index != 0 {
			t.Errorf("%s: %+v, want the receipt of call 0", args, got)
		}
	}
	status, p := call(`{"tool":"post","args":{"id":1,"text":"y"}}`)
	if status != 422 || p.Code != api.CodeKeyReused ||
		!strings.Contains(p.Detail, `call 0 of `+tx.ID()+` has the key "post/1"`) {
		t.Errorf("one key, other arguments: %d %+v", status, p)
	}
	for _, other := range []string{`{"tool":"pin","args":{"id":1,"text":"y"}}`,
		`{"tool":"post","args":{"id":2,"text":"y"}}`} {
		if status, p := call(other); status != 200 {
			t.Errorf("%s: %d %+v", other, status, p)
		}
	}
	if list := must(tx.Effects(ctx))(t).Effects; len(list) != 3 {
		t.Errorf("the calls: %+v", list)
	}
	tx = open(ctx, t, a, client.BeginOptions{})
	if status, p := call(`{"tool":"post","args":{"id":1,"text":"y"}}`); status != 200 {
		t.Errorf("in another transaction: %d %+v", status, p)
	}
}
