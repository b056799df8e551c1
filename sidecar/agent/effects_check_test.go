package agent

import (
	"errors"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sidecar/client"
)

// TestReceiptNeedsACallThatCanBeMade holds that no receipt is given for a name that nothing serves, for a tool that
// nothing can call, and for arguments that do not fit where they are to stand: what is held would only be found out
// after the commit.
func TestReceiptNeedsACallThatCanBeMade(t *testing.T) {
	a := start(t, "a", newLog().Door(), withPolicy(t, `version: 1
server: shop
hosts: ["127.0.0.1:1"]
tools:
  - {tool: payment.charge, class: irreversible, args: [id], scopes: ["order:/{id}"], http: {method: POST,
     url: "http://127.0.0.1:1/orders/{id}/charge"}}
  - {tool: archive, class: irreversible, args: [id], scopes: ["order:/{id}"], exec: {argv: [tar, "{id}"]}}
  - {tool: fetch, class: irreversible, args: [id], scopes: ["page:/{id}"], key: "{id}", exec: {argv: [fetch, now],
     lookup: {argv: [fetched, "{$key}"]}}}
  - {tool: elsewhere, class: irreversible, args: [id], scopes: ["order:/{id}"]}
  - {tool: "note.*", class: irreversible, args: [id], scopes: ["order:/{id}"], exec: {argv: [note, "--", "{id}"]}}
`))
	ctx := background(t)
	tx := open(ctx, t, a, client.BeginOptions{})
	for _, c := range []struct{ tool, id, want string }{
		{"payment.chrage", "1", `no declaration serves this name: write payment.charge, or declare it`},
		{"something.else", "1", "no declaration serves this name: declare it"},
		{"elsewhere", "1", "declares no adapter"},
		{"payment.charge", "../../admin/refund?x=", "leads elsewhere"},
		{"fetch", "-rf", "begins with '-'"},
		{"archive", "--checkpoint-action=exec=id", "begins with '-'"},
	} {
		_, err := tx.Effect(ctx, c.tool, map[string]string{"id": c.id}, client.EffectOptions{})
		var p *client.Problem
		if !errors.As(err, &p) || p.Code != "tool_unusable" || !strings.Contains(p.Detail, c.want) {
			t.Errorf("%s of %q: %v, want it to say %q", c.tool, c.id, err, c.want)
		}
	}
	for _, tool := range []string{"payment.charge", "note.write"} {
		r, err := tx.Effect(ctx, tool, map[string]string{"id": "1"}, client.EffectOptions{})
		if err != nil || r.State != "held" {
			t.Errorf("%s: %+v, %v; want it held", tool, r, err)
		}
	}
}
