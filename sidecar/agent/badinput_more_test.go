package agent

import (
	"strings"
	"testing"

	"github.com/hence-dev/hence/sidecar/api"
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
		{post(tx+"/touches", `{}`), 400, api.CodeBadRequest},
		{post(tx+"/touches", `{"wants":[{"scope":"order:/1"}]}`), 400, api.CodeBadRequest},
		{post(tx+"/touches", `{"wants":[{"scope":"order","access":"read"}]}`), 400, api.CodeBadScope},
		{post(tx+"/touches", `{"wants":[{"scope":"order:/1","access":"read"}],"wait_ms":-1}`), 400, api.CodeBadRequest},
		{post(tx+"/touches", `{"wants":[{"scope":"order:/1","access":"read"}],"wait_ms":99999}`), 400, api.CodeBadRequest},
		{post(tx+"/touches", `{"wants":[{"scope":"order:/1","access":"read"}],"bound_ms":-1}`), 400, api.CodeBadRequest},
		{post(tx+"/touches", `{"wants":[{"scope":"order:/1","access":"read"}],"why":1}`), 400, api.CodeBadRequest},
		{post(tx+"/touches", `{"wants":[`+strings.Repeat(`{"scope":"order:/1","access":"read"},`, 300)+
			`{"scope":"order:/1","access":"read"}]}`), 429, api.CodeLimit},
		{post("/v1/tx/a.1.99/touches", `{"wants":[{"scope":"order:/1","access":"read"}]}`), 404, api.CodeUnknownTx},
		{post(tx+"/settlement", `{}`), 400, api.CodeBadRequest},
		{post(tx+"/settlement", `{"effects":[{"scopes":["order:/1"],"result":"fine"}]}`), 400, api.CodeBadRequest},
		{post(tx+"/settlement", `{"effects":[{"scopes":[],"result":"clean"}]}`), 400, api.CodeBadRequest},
		{post(tx+"/settlement", `{"effects":[{"scopes":["order"],"result":"clean"}]}`), 400, api.CodeBadScope},
		{post(tx+"/settlement", `{"none_else":true}`), 409, api.CodeNotAborted},
		{post(tx+"/seal", `{"pins":[{"name":"","signature":"s"}]}`), 400, api.CodeBadRequest},
		{post(tx+"/seal", `{"pins":[{"name":"n"}]}`), 400, api.CodeBadRequest},
		{post(inDefault+"/groups", `{"branches":1}`), 400, api.CodeBadRequest},
		{post(inDefault+"/groups", `{"branches":17}`), 400, api.CodeBadRequest},
		{post(inDefault+"/groups", `{"branches":2,"group":"g"}`), 400, api.CodeBadRequest},
		{post(inDefault+"/groups", `{"branches":2,"mode":"fast"}`), 400, api.CodeBadRequest},
		{post("/v1/workspaces/other/groups", `{"branches":2}`), 404, api.CodeUnknownWorkspace},
		{post(inDefault+"/groups/g/select", `{"tx":"a.1.1"}`), 400, api.CodeBadRequest},
		{post(inDefault+"/groups/g/select", `{"tx":"nobody"}`), 404, api.CodeUnknownTx},
		{post(inDefault+"/groups/g/select", `{"tx":"b.1.1"}`), 403, api.CodeOtherAgent},
		{post(inDefault+"/tx", `{"group":"`+long+`"}`), 400, api.CodeBadRequest},
		{body("PUT", "/v1/tools/x", `{"signature":1}`), 400, api.CodeBadRequest},
		{body("DELETE", "/v1/tools/x?name=y", ``), 400, api.CodeBadRequest},
		{body("PUT", "/v1/workspaces/other/rules", `{}`), 404, api.CodeUnknownWorkspace},
		{with(body("PUT", inDefault+"/rules", `{"horizon":1}`), "If-Match", `"0"`), 400, api.CodeBadRequest},
		{with(body("PUT", inDefault+"/rules", `{}`), "If-Match", `0`), 400, api.CodeBadRequest},
		{post(tx+"/retract", `{"reason":"`+long+`"}`), 400, api.CodeBadRequest},
		{post(tx+"/retract", `{"dry_run":"yes"}`), 400, api.CodeBadRequest},
	} {
		status, p, _ := a.send(t, r.call)
		if status != r.status || p == nil || p.Code != r.code {
			t.Errorf("%s %s %.60s: %d %+v, want %d %s", r.call.method, r.call.path, r.call.body, status, p, r.status, r.code)
		}
	}
}
