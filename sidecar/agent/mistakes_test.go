package agent

import (
	"strings"
	"testing"

	"github.com/hence-dev/hence/sidecar/client"
)

// What people mistype is answered with what to send instead.
func TestMistakesSayWhatToDo(t *testing.T) {
	a := start(t, "a", newLog().Door())
	tx := "/v1/tx/" + open(background(t), t, a, client.BeginOptions{}).ID()
	form := post(tx+"/writes", "scope=x")
	form.header = map[string]string{"Content-Type": "application/x-www-form-urlencoded"}
	for want, c := range map[string]rawCall{
		"send application/json (curl: --json":             form,
		`no field "contents": write content`:              post(tx+"/writes", `{"scope":"shard:/x","contents":"1"}`),
		`no field "scopes": write scope`:                  post(tx+"/reads", `{"scopes":["shard:/y"]}`),
		`no field "x": this body has none`:                post(tx+"/retry", `{"x":1}`),
		"if_version is a JSON string: it must be a whole": post(tx+"/writes", `{"scope":"shard:/x","if_version":"3"}`),
		"wants is a JSON string: it must be an object":    post(tx+"/touches", `{"wants":["order:/1"]}`),
		"content is a JSON number: it must be a text":     post(tx+"/writes", `{"scope":"shard:/x","content":1}`),
		"there is no Authorization header":                with(get(inDefault+"/shards"), "Authorization", ""),
		"the token is not this sidecar's":                 with(get(inDefault+"/shards"), "Authorization", "Bearer x"),
		"is not of the form Bearer TOKEN":                 with(get(inDefault+"/shards"), "Authorization", "x"),
		"write " + inDefault + "/tx, with":                post(inDefault+"/tx/", `{}`),
		"write /v1/workspaces/x/shards":                   get("/workspaces/x/shards"),
		"the address names no shard":                      get(inDefault + "/shards/"),
		"a shard is not deleted: PUT an empty content":    {method: "DELETE", path: inDefault + "/shards/x"},
		"POST is not for this route: use GET":             post(inDefault+"/shards", `{}`),
		`If-Match is 3: send ETags`:                       with(put(inDefault+"/shards/x"), "If-Match", "3"),
		"has more than the":                               post(tx+"/writes", strings.Repeat(" ", 12<<20)),
	} {
		if status, p, _ := a.send(t, c); status < 400 || !strings.Contains(p.Detail, want) {
			t.Errorf("%s %s: %d %+v, want %q", c.method, c.path, status, p, want)
		}
	}
}
