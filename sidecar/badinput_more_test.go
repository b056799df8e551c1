package sidecar

import (
	"strings"
	"testing"

	"github.com/hence-dev/hence/sidecar/client"
)

// The routes of touches, settlements, groups, tools, rules and retractions answer bad input with a stable code, too.
func TestBadInputMore(t *testing.T) {
	log := newLog()
	a := start(t, "a", log.Door())
	ctx := background(t)
	tx := "/v1/tx/" + open(ctx, t, a, client.BeginOptions{}).ID()
	body := func(method, path, text string) rawCall { return rawCall{method: method, path: path, body: text} }
	long := strings.Repeat("x", 200)
	for _, r := range []struct {
		call   rawCall
		status int
		code   string
	}{
		{post(tx+"/touches", `{}`), 400, codeBadRequest},
		{post(tx+"/touches", `{"wants":[{"scope":"order:/1"}]}`), 400, codeBadRequest},
		{post(tx+"/touches", `{"wants":[{"scope":"order","access":"read"}]}`), 400, codeBadScope},
		{post(tx+"/touches", `{"wants":[{"scope":"order:/1","access":"read"}],"wait_ms":-1}`), 400, codeBadRequest},
		{post(tx+"/touches", `{"wants":[{"scope":"order:/1","access":"read"}],"wait_ms":99999}`), 400, codeBadRequest},
		{post(tx+"/touches", `{"wants":[{"scope":"order:/1","access":"read"}],"bound_ms":-1}`), 400, codeBadRequest},
		{post(tx+"/touches", `{"wants":[{"scope":"order:/1","access":"read"}],"why":1}`), 400, codeBadRequest},
		{post(tx+"/touches", `{"wants":[`+strings.Repeat(`{"scope":"order:/1","access":"read"},`, 300)+
			`{"scope":"order:/1","access":"read"}]}`), 429, codeLimit},
		{post("/v1/tx/a.1.99/touches", `{"wants":[{"scope":"order:/1","access":"read"}]}`), 404, codeUnknownTx},
		{post(tx+"/settlement", `{}`), 400, codeBadRequest},
		{post(tx+"/settlement", `{"effects":[{"scopes":["order:/1"],"result":"fine"}]}`), 400, codeBadRequest},
		{post(tx+"/settlement", `{"effects":[{"scopes":[],"result":"clean"}]}`), 400, codeBadRequest},
		{post(tx+"/settlement", `{"effects":[{"scopes":["order"],"result":"clean"}]}`), 400, codeBadScope},
		{post(tx+"/settlement", `{"none_else":true}`), 409, codeNotAborted},
		{post(tx+"/seal", `{"pins":[{"name":"","signature":"s"}]}`), 400, codeBadRequest},
		{post(tx+"/seal", `{"pins":[{"name":"n"}]}`), 400, codeBadRequest},
		{post(inDefault+"/groups", `{"branches":1}`), 400, codeBadRequest},
		{post(inDefault+"/groups", `{"branches":17}`), 400, codeBadRequest},
		{post(inDefault+"/groups", `{"branches":2,"group":"g"}`), 400, codeBadRequest},
		{post(inDefault+"/groups", `{"branches":2,"mode":"fast"}`), 400, codeBadRequest},
		{post("/v1/workspaces/other/groups", `{"branches":2}`), 404, codeUnknownWorkspace},
		{post(inDefault+"/groups/g/select", `{"tx":"a.1.1"}`), 400, codeBadRequest},
		{post(inDefault+"/groups/g/select", `{"tx":"nobody"}`), 404, codeUnknownTx},
		{post(inDefault+"/groups/g/select", `{"tx":"b.1.1"}`), 403, codeOtherAgent},
		{post(inDefault+"/tx", `{"group":"`+long+`"}`), 400, codeBadRequest},
		{body("PUT", "/v1/tools/x", `{"signature":1}`), 400, codeBadRequest},
		{body("DELETE", "/v1/tools/x?name=y", ``), 400, codeBadRequest},
		{body("PUT", "/v1/workspaces/other/rules", `{}`), 404, codeUnknownWorkspace},
		{with(body("PUT", inDefault+"/rules", `{"horizon":1}`), "If-Match", `"0"`), 400, codeBadRequest},
		{with(body("PUT", inDefault+"/rules", `{}`), "If-Match", `0`), 400, codeBadRequest},
		{post(tx+"/retract", `{"reason":"`+long+`"}`), 400, codeBadRequest},
		{post(tx+"/retract", `{"dry_run":"yes"}`), 400, codeBadRequest},
	} {
		status, p, _ := a.send(t, r.call)
		if status != r.status || p == nil || p.Code != r.code {
			t.Errorf("%s %s %.60s: %d %+v, want %d %s", r.call.method, r.call.path, r.call.body, status, p, r.status, r.code)
		}
	}
}
