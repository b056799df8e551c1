package sbus_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/sidecar"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
)

// The fields whose values differ from run to run: id, times, and the order of names.
func TestBusShardFields(t *testing.T) {
	n := start(t, memlog.New("default"))
	of := func(method, path, body string) (out struct {
		ID        string
		CreatedAt string `json:"created_at"`
		UpdatedAt string `json:"updated_at"`
	}) {
		t.Helper()
		_, text := n.ask(t, method, path, body)
		if err := json.Unmarshal([]byte(text), &out); err != nil {
			t.Fatalf("%s %s: %v", path, text, err)
		}
		var all map[string]any // names come sorted, as encoding/json has those of maps
		_ = json.Unmarshal([]byte(text), &all)
		if sorted, _ := json.Marshal(all); string(sorted) != text {
			t.Errorf("%s %s: %s", method, path, text)
		}
		return out
	}
	const form = "2006-01-02T15:04:05.000000000Z"
	began := time.Now().Truncate(0)
	made := of("POST", "/shard", `{"key":"x","content":"one"}`)
	sum := sha256.Sum256([]byte("one"))
	at, err := time.Parse(form, made.CreatedAt)
	if made.ID != hex.EncodeToString(sum[:]) || made.UpdatedAt != made.CreatedAt || err != nil || at.Before(began) {
		t.Errorf("a new shard is %+v, %v", made, err)
	}
	n.want(t, "POST", "/commit", `{"key":"x","expected_version":0,"delta":"two","agent_id":""}`, 200,
		`{"new_version":1,"shard_id":"x"}`)
	next := of("GET", "/shard/x", "")
	if next.ID != made.ID || next.CreatedAt != made.CreatedAt || next.UpdatedAt <= made.UpdatedAt {
		t.Errorf("a commit makes %+v of %+v", next, made)
	}
	back := of("POST", "/rollback", `{"key":"x","target_version":0,"agent_id":""}`)
	if back.ID != made.ID || back.CreatedAt != made.CreatedAt || back.UpdatedAt <= next.UpdatedAt {
		t.Errorf("a rollback makes %+v of %+v", back, next)
	}
	put(t, client.New(n.URL(), n.Token()), "other", "one")
	other := of("GET", "/shard/other", "")
	epoch := time.Unix(0, 0).UTC().Format(form)
	if other.ID == made.ID || len(other.ID) != 64 || other.CreatedAt != epoch || other.UpdatedAt != epoch {
		t.Errorf("a shard of /v1 is %+v", other)
	}
}

// Further rows of the wire: what is no list, no text or no name; types of answers; and reads of the list.
func TestBusEdges(t *testing.T) {
	n := start(t, memlog.New("default"))
	n.create(t, "x", "y")
	commit := func(key string, version int, name, more string) string {
		return fmt.Sprintf(`{"key":%q,"expected_version":%d,"delta":"d","agent_id":%q%s}`, key, version, name, more)
	}
	n.table(t, []row{
		{"POST", "/shard as application/json; charset=utf-8", `{"key":"z","content":"0"}`, 201,
			shard("z", 0, "0", "", 0, 0, 0)},
		{"POST", "/shard", `{"key":"n","content":null}`, 422, "~"}, {"POST", "/shard", `null`, 422, "~"},
		{"POST", "/commit", `{"key":"x","expected_version":0,"delta":null,"agent_id":"A"}`, 422, "~"},
		{"POST", "/commit", `{"key":"x","expected_version":0,"delta":"d","agent_id":null}`, 422, "~"},
		{"POST", "/commit", `{"key":"x","expected_version":18446744073709551615,"delta":"d","agent_id":""}`, 422, "~"},
		{"POST", "/commit", commit("x", 0, "A", `,"read_set":["y"]`), 422, "~"},
		{"POST", "/commit", commit("x", 0, "A", `,"read_set":[null]`), 422, "~"},
		{"POST", "/commit", commit("x", 0, "A", `,"read_set":[{"version_at_read":0}]`), 422, "~"},
		{"POST", "/commit", commit("x", 0, "A", `,"read_set":[{"key":"y","version_at_read":-1}]`), 422, "~"},
		{"POST", "/session", `{"agent_id":null}`, 422, "~"},
		{"POST", "/delivery_log/register", `{"agent_id":"A","shards_used":"x"}`, 422, "~"},
		{"POST", "/delivery_log/register", `{"agent_id":"A","shards_used":null}`, 422, "~"},
		{"POST", "/delivery_log/register", `{"agent_id":"A","shards_used":[null]}`, 422, "~"},
		{"POST", "/admin/config", `{"ori_enabled":null}`, 422, "~"},
		// A read of a missing shard, or one without an agent_id, is in no log.
		{"GET", "/shard/none?agent_id=A", "", 404, `{"error":"ShardNotFound","detail":"there is no shard 'none'"}`},
		{"GET", "/shard/x", "", 200, shard("x", 0, "0", "", 0, 0, 0)},
		{"GET", "/shards", "", 200, `{"count":3,"shards":["*","*","*"]}`},
		{"GET", "/admin/delivery-log", "", 200, `{"agents":{},"total_agents":0,"total_deliveries":0}`},
		// The list is read as one: a new shard makes it stale, and is named.
		{"GET", "/shards?agent_id=L", "", 200, `{"count":3,"shards":["*","*","*"]}`},
		{"POST", "/commit", commit("x", 0, "L", ""), 200, `{"new_version":1,"shard_id":"x"}`},
		{"POST", "/shard", `{"key":"new","content":"0"}`, 201, shard("new", 0, "0", "", 0, 0, 0)},
		{"POST", "/commit", commit("x", 1, "L", ""), 409,
			`{"error":"CrossShardStale","detail":"shard 'new' is at version 0, and was written after the list of shards ` +
				`was read"}`},
		// An admin's commit revives a session, and is held to all the rest.
		{"POST", "/admin/commit", commit("x", 0, "L", ""), 409, refusal("CrossShardStale")},
		{"POST", "/admin/commit", commit("x", 0, "B", ""), 409, refusal("VersionMismatch")},
		{"POST", "/admin/commit", commit("none", 0, "B", ""), 404, refusal("ShardNotFound")},
	})
	for path, media := range map[string]string{"/stats": "application/json", "/shard/x": "application/json",
		"/shard/none": "application/json", "/shard/x?agent_id=A&agent_id=B": "text/plain; charset=utf-8",
		"/metrics": "text/plain; version=0.0.4; charset=utf-8", "/nowhere": ""} {
		resp, err := oneShot.Get(n.BusURL() + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if got := resp.Header.Get("Content-Type"); got != media {
			t.Errorf("GET %s is %q, want %q", path, got, media)
		}
	}
}

// A name that cannot be read whole is refused: its read would be recorded for another one, or for none, and a commit
// that rests on it would pass. Written in escapes it is a name like others.
func TestBusNames(t *testing.T) {
	n := start(t, memlog.New("default"))
	n.create(t, "x", "y")
	const failed = "Failed to deserialize query string: "
	for _, path := range []string{"/shard/x", "/shards"} {
		for _, name := range []string{"a;b", "a%", "%FF", "a%ZZ"} {
			status, text := n.ask(t, "GET", path+"?agent_id="+name, "")
			if status != http.StatusBadRequest || !strings.HasPrefix(text, failed) {
				t.Errorf("GET %s for %s: %d %s", path, name, status, text)
			}
		}
	}
	n.table(t, []row{
		{"GET", "/admin/delivery-log", "", 200, `{"agents":{},"total_agents":0,"total_deliveries":0}`},
		{"GET", "/shard/x?agent_id=a%3Bb%25", "", 200, shard("x", 0, "0", "", 0, 0, 0)},
		{"POST", "/commit", `{"key":"x","expected_version":0,"delta":"1","agent_id":"other"}`, 200,
			`{"new_version":1,"shard_id":"x"}`},
		{"POST", "/commit", `{"key":"y","expected_version":0,"delta":"1","agent_id":"a;b%"}`, 409,
			refusal("CrossShardStale")},
	})
}

// A body that is no text, or is packed, changes nothing: two keys would be one shard.
func TestBusBodyIsWhole(t *testing.T) {
	n := start(t, memlog.New("default"))
	for _, body := range []string{"{\"key\":\"caf\xe9\",\"content\":\"1\"}", "{\"key\":\"u\",\"content\":\"caf\xe9\"}",
		`{"key":"l\ud800","content":"3"}`, `{"key":"u","content":"\udc00"}`} {
		n.want(t, "POST", "/shard", body, 400, "~")
	}
	req, err := http.NewRequest(http.MethodPost, n.BusURL()+"/shard", strings.NewReader(`{"key":"gz","content":""}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Content-Encoding", "gzip")
	resp, err := oneShot.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if _ = resp.Body.Close(); resp.StatusCode != http.StatusUnsupportedMediaType {
		t.Errorf("a packed body: %d", resp.StatusCode)
	}
	n.want(t, "GET", "/shards", "", 200, `{"count":0,"shards":[]}`)
	n.want(t, "POST", "/shard", `{"key":"\ud83d\ude00","content":"\\ud800"}`, 201,
		shard("\U0001F600", 0, `\ud800`, "", 0, 0, 0))
}

// Size wins over a session that has expired, which wins over everything else; and with ori_enabled off all but stale
// reads are refused as ever. A reset leaves that switch where it is.
func TestBusOrderOfRefusals(t *testing.T) {
	n := start(t, memlog.New("default"))
	n.create(t, "x", "y")
	commit := func(delta, more string) string {
		return fmt.Sprintf(`{"key":"x","expected_version":9,"delta":%q,"agent_id":"A"%s}`, delta, more)
	}
	const sibling = `,"read_set":[{"key":"none","version_at_read":0}]`
	const moved = `,"read_set":[{"key":"y","version_at_read":4}]`
	large := strings.Repeat("d", 2001)
	for _, ori := range []string{"true", "false"} {
		n.want(t, "POST", "/admin/config", `{"ori_enabled":`+ori+`}`, 200, `{"ok":true,"ori_enabled":`+ori+`}`)
		n.want(t, "POST", "/session", `{"agent_id":"A","session_ttl":0.05}`, 200, `{"agent_id":"A","status":"created"}`)
		n.read(t, "A", "y")
		for given := time.Now(); time.Since(given) < 50*time.Millisecond; {
			n.ask(t, "GET", "/stats", "")
		}
		n.table(t, []row{
			{"POST", "/commit", commit(large, sibling), 413, refusal("DeltaTooLarge")},
			{"POST", "/commit", commit("d", sibling), 410, refusal("SessionExpired")},
			{"POST", "/admin/commit", commit(large, sibling), 413, refusal("DeltaTooLarge")},
			{"POST", "/commit", commit("d", moved), 410, refusal("SessionExpired")},
			{"POST", "/session", `{"agent_id":"A"}`, 200, `{"agent_id":"A","status":"created"}`},
			{"POST", "/commit", commit("d", sibling), 404, `{"error":"ShardNotFound","detail":"there is no shard 'none'"}`},
		})
		status := "CrossShardStale"
		if ori == "false" {
			status = "VersionMismatch"
		}
		n.want(t, "POST", "/commit", commit("d", moved), 409, refusal(status))
	}
	n.want(t, "POST", "/admin/reset", "", 200, `{"cleared":2}`)
	n.want(t, "GET", "/admin/config", "", 200,
		`{"ori_enabled":false,"view_checked_commits":0,"view_divergent_commits":0}`)
}

// Off loopback each route that looks into delivery logs or writes past them is shut, and the others are there.
func TestBusGates(t *testing.T) {
	n := start(t, memlog.New("default"), func(c *sidecar.Config) { c.SBus.Listen = "0.0.0.0:0" })
	for route, want := range map[string]int{"GET /admin/config": 200, "GET /admin/health": 200,
		"GET /cluster/status": 200, "POST /admin/shard": 403, "POST /admin/commit": 403, "POST /admin/inject-stale": 403,
		"POST /admin/add-node": 403, "POST /admin/reset": 403, "GET /admin/delivery-log": 403, "POST /commit": 415} {
		method, path, _ := strings.Cut(route, " ")
		req, _ := http.NewRequest(method, n.BusURL()+path, nil)
		req.Header.Set("Authorization", "Bearer "+n.Token())
		resp, err := oneShot.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", route, resp.StatusCode, want)
		}
	}
}
