package sbus_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hence-dev/hence/sidecar"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node is a sidecar with the face.
type node struct {
	*sidecar.Sidecar
	stop func() error
}

func start(t *testing.T, log *memlog.Log, more ...func(*sidecar.Config)) *node {
	t.Helper()
	c := sidecar.Config{Agent: "bus", SBus: sidecar.SBus{Listen: "127.0.0.1:0"}, DataDir: t.TempDir(),
		Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))}
	for _, f := range more {
		f(&c)
	}
	side, err := sidecar.New(c, log.Door())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- side.Run(ctx) }()
	n := &node{Sidecar: side}
	stopped := false
	n.stop = func() (err error) {
		if !stopped {
			stopped = true
			cancel()
			err = <-ended
		}
		return err
	}
	t.Cleanup(func() { _ = n.stop() })
	select {
	case <-side.Ready():
	case <-time.After(20 * time.Second):
		t.Fatal("the sidecar is not ready")
	}
	return n
}

// clients open a connection for each request, as those of S-Bus do.
var oneShot = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}

// ask sends one request: method, path, body. A body is JSON unless the path says ?type=.
func (n *node) ask(t testing.TB, method, path, body string) (status int, answer string) {
	t.Helper()
	path, media, _ := strings.Cut(path, " as ")
	req, err := http.NewRequest(method, n.BusURL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if media == "" && body != "" {
		media = "application/json"
	}
	if media != "" && media != "nothing" {
		req.Header.Set("Content-Type", media)
	}
	resp, err := oneShot.Do(req)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return resp.StatusCode, strings.TrimSpace(string(b))
}

// matches compares an answer with what is wanted, field by field; "*" stands for any value that is not empty.
func matches(want, got any, at string) error {
	if want == "*" && got != nil && got != "" {
		return nil
	}
	switch w := want.(type) {
	case map[string]any:
		g, _ := got.(map[string]any)
		for name := range g {
			if _, wanted := w[name]; !wanted {
				return fmt.Errorf("%s has %s", at, name)
			}
		}
		for name, value := range w {
			is, there := g[name]
			if !there {
				return fmt.Errorf("%s lacks %s", at, name)
			}
			if err := matches(value, is, at+"."+name); err != nil {
				return err
			}
		}
		return nil
	case []any:
		g, _ := got.([]any)
		if len(g) != len(w) {
			return fmt.Errorf("%s has %d elements, want %d", at, len(g), len(w))
		}
		for i := range w {
			if err := matches(w[i], g[i], fmt.Sprint(at, "[", i, "]")); err != nil {
				return err
			}
		}
		return nil
	}
	if want != got {
		return fmt.Errorf("%s is %v, want %v", at, got, want)
	}
	return nil
}

// want holds one request to its answer: JSON field by field, or a text; "~" stands for any text, and nothing for an
// empty body.
func (n *node) want(t *testing.T, method, path, body string, status int, answer string) {
	t.Helper()
	code, got := n.ask(t, method, path, body)
	if code != status {
		t.Errorf("%s %s %s: %d %s, want %d %s", method, path, body, code, got, status, answer)
		return
	}
	var w, g any
	switch {
	case answer == "~" && got != "" && json.Unmarshal([]byte(got), &g) != nil, answer == got:
	case !strings.HasPrefix(answer, "{") || json.Unmarshal([]byte(got), &g) != nil:
		t.Errorf("%s %s %s: %d %q, want %q", method, path, body, code, got, answer)
	default:
		if err := json.Unmarshal([]byte(answer), &w); err != nil {
			t.Fatalf("%s: %v", answer, err)
		}
		if err := matches(w, g, "the answer"); err != nil {
			t.Errorf("%s %s %s: %v: %s", method, path, body, err, got)
		}
	}
}

// shard is a shard on the wire.
func shard(key string, version int, content, goal string, attempts, conflicts, depth int) string {
	text := func(s string) string {
		b, _ := json.Marshal(s)
		return string(b)
	}
	return fmt.Sprintf(`{"attempt_count":%d,"conflict_count":%d,"content":%s,"created_at":"*","delta_log_depth":%d,`+
		`"goal_tag":%s,"id":"*","key":%s,"owner":null,"updated_at":"*","version":%d}`, attempts, conflicts, text(content),
		depth, text(goal), text(key), version)
}

func refusal(name string) string { return fmt.Sprintf(`{"error":%q,"detail":"*"}`, name) }

// row is a request with its answer.
type row struct {
	method, path, body string
	status             int
	answer             string
}

func (n *node) table(t *testing.T, rows []row) {
	t.Helper()
	for _, r := range rows {
		n.want(t, r.method, r.path, r.body, r.status, r.answer)
	}
}

// Shards: what each request of the wire table is answered, in one order.
func TestBusShards(t *testing.T) {
	n := start(t, memlog.New("default"))
	long := strings.Repeat("k", 1100)
	n.table(t, []row{
		{"GET", "/shards", "", 200, `{"count":0,"shards":[]}`},
		{"POST", "/shard", `{"key":"x","content":"one","goal_tag":"a goal"}`, 201, shard("x", 0, "one", "a goal", 0, 0, 0)},
		{"POST", "/shard", `{"key":"x","content":"other","goal_tag":"g"}`, 409, refusal("ShardAlreadyExists")},
		{"POST", "/shard", `{"key":"y","content":"","more":[1]}`, 201, shard("y", 0, "", "", 0, 0, 0)},
		{"POST", "/shard as application/vnd.x+json", `{"key":"a/b","content":"deep"}`, 201,
			shard("a/b", 0, "deep", "", 0, 0, 0)},
		{"POST", "/shard", `{"key":"","content":"no name"}`, 201, shard("", 0, "no name", "", 0, 0, 0)},
		{"POST", "/shard", `{"key":"..","content":"dots"}`, 201, shard("..", 0, "dots", "", 0, 0, 0)},
		{"POST", "/shard", `{"key":"e\u0301","content":"two marks"}`, 201, shard("e\u0301", 0, "two marks", "", 0, 0, 0)},
		{"POST", "/shard", `{"key":"\u00e9 *","content":"one mark","goal_tag":"Ü \n\"<&"}`, 201,
			shard("\u00e9 *", 0, "one mark", "Ü \n\"<&", 0, 0, 0)},
		{"GET", "/shard/x", "", 200, shard("x", 0, "one", "a goal", 0, 0, 0)},
		{"GET", "/shard/x?other=1", "", 200, shard("x", 0, "one", "a goal", 0, 0, 0)},
		{"GET", "/shard/a%2Fb", "", 200, shard("a/b", 0, "deep", "", 0, 0, 0)},
		{"GET", "/shard/%2E%2E", "", 200, shard("..", 0, "dots", "", 0, 0, 0)},
		{"GET", "/shard/e%CC%81", "", 200, shard("e\u0301", 0, "two marks", "", 0, 0, 0)},
		{"GET", "/shard/%C3%A9%20*", "", 200, shard("\u00e9 *", 0, "one mark", "Ü \n\"<&", 0, 0, 0)},
		{"GET", "/shard/none?agent_id=A", "", 404, refusal("ShardNotFound")},
		{"GET", "/shard/" + long, "", 404, refusal("ShardNotFound")},
		{"GET", "/shard/x?agent_id=A&agent_id=B", "", 400, "~"},
		{"GET", "/shard/", "", 404, ""}, {"GET", "/shard/a/b", "", 404, ""}, {"GET", "/nowhere", "", 404, ""},
		{"DELETE", "/shard/x", "", 405, ""}, {"GET", "/commit", "", 405, ""}, {"OPTIONS", "/shard", "", 405, ""},
		{"HEAD", "/shard/x", "", 200, ""},
		{"POST", "/shard as text/plain", `{"key":"z","content":""}`, 415, "~"},
		{"POST", "/shard as nothing", `{"key":"z","content":""}`, 415, "~"},
		{"POST", "/shard as application/json", "", 400, "~"},
		{"POST", "/shard", `{"key":"z","content"`, 400, "~"},
		{"POST", "/shard", `["z"]`, 422, "~"},
		{"POST", "/shard", `{"key":"z"}`, 422, "~"}, {"POST", "/shard", `{"content":"z"}`, 422, "~"},
		{"POST", "/shard", `{"key":null,"content":""}`, 422, "~"}, {"POST", "/shard", `{"key":"z","content":7}`, 422, "~"},
		{"POST", "/shard", `{"key":"z","content":"","goal_tag":null}`, 422, "~"},
		{"POST", "/shard", `{"key":"` + long + `","content":""}`, 422, "~"},
		{"POST", "/shard", `{"key":"z","content":"","goal_tag":"` + strings.Repeat("g", 4000) + `"}`, 422, "~"},
		{"POST", "/shard", `{"key":"z","content":"` + strings.Repeat("c", 2<<20) + `"}`, 413, "~"},
		{"POST", "/shard", `{"key":"z","content":"` + strings.Repeat("c", 1<<20) + `"}`, 413, refusal("DeltaTooLarge")},
	})
	code, body := n.ask(t, "GET", "/shards", "")
	var list struct {
		Count  int
		Shards []struct{ Key, ID, CreatedAt string }
	}
	if err := json.Unmarshal([]byte(body), &list); err != nil || code != 200 || list.Count != 7 || len(list.Shards) != 7 {
		t.Errorf("GET /shards: %d %v %s", code, err, body)
	}
}

// Commits: versions, the read set with the delivery log, and the order in which refusals win.
func TestBusCommits(t *testing.T) {
	n := start(t, memlog.New("default"))
	commit := func(key string, version any, more string) string {
		return fmt.Sprintf(`{"key":%q,"expected_version":%v,"delta":"d","agent_id":"A"%s}`, key, version, more)
	}
	done := func(key string, version int) string {
		return fmt.Sprintf(`{"new_version":%d,"shard_id":%q}`, version, key)
	}
	large := strings.Repeat("d", 2001)
	n.table(t, []row{
		{"POST", "/shard", `{"key":"x","content":"1","goal_tag":"g"}`, 201, shard("x", 0, "1", "g", 0, 0, 0)},
		{"POST", "/shard", `{"key":"y","content":"1"}`, 201, shard("y", 0, "1", "", 0, 0, 0)},
		{"POST", "/shard", `{"key":"z","content":"1"}`, 201, shard("z", 0, "1", "", 0, 0, 0)},
		// Both spellings, of fields and of the route.
		{"POST", "/commit", commit("x", 0, `,"rationale":"r","additive_hint":true,"unknown":{}`), 200, done("x", 1)},
		{"POST", "/commit/v2", `{"key":"x","expected_ver":1,"content":"d2","agent_id":""}`, 200, done("x", 2)},
		{"GET", "/shard/x", "", 200, shard("x", 2, "d2", "g", 2, 0, 2)},
		{"POST", "/commit", commit("x", 0, ""), 409, refusal("VersionMismatch")},
		{"POST", "/commit", commit("x", 9, ""), 409, refusal("VersionMismatch")},
		{"GET", "/shard/x", "", 200, shard("x", 2, "d2", "g", 4, 2, 2)},
		{"POST", "/commit", commit("none", 0, ""), 404, refusal("ShardNotFound")},
		{"POST", "/commit", commit("x", 2, `,"rationale":null,"read_set":null`), 200, done("x", 3)},
		// Fields.
		{"POST", "/commit", commit("x", 3, `,"expected_ver":3`), 422, "~"},
		{"POST", "/commit", commit("x", 3, `,"content":"d"`), 422, "~"},
		{"POST", "/commit", commit("x", -1, ""), 422, "~"}, {"POST", "/commit", commit("x", "1.0", ""), 422, "~"},
		{"POST", "/commit", commit("x", `"3"`, ""), 422, "~"}, {"POST", "/commit", commit("x", "null", ""), 422, "~"},
		{"POST", "/commit", `{"key":"x","expected_version":3,"delta":"d"}`, 422, "~"},
		{"POST", "/commit", `{"key":"x","expected_version":3,"agent_id":"A"}`, 422, "~"},
		{"POST", "/commit", `{"key":"x","delta":"d","agent_id":"A"}`, 422, "~"},
		{"POST", "/commit", commit("x", 3, `,"read_set":[{"key":"y","version":0}]`), 422, "~"},
		{"POST", "/commit", commit("x", 3, `,"read_set":{}`), 422, "~"},
		{"POST", "/commit", commit("x", 3, `,"rationale":7`), 422, "~"},
		{"POST", "/commit as text/plain", commit("x", 3, ""), 415, "~"}, {"POST", "/commit", `{`, 400, "~"},
		// Size wins over all that follows; it counts bytes.
		{"POST", "/commit", `{"key":"none","expected_version":0,"delta":"` + large + `","agent_id":"A"}`, 413,
			refusal("DeltaTooLarge")},
		{"POST", "/commit", `{"key":"x","expected_version":3,"delta":"` + strings.Repeat("é", 1001) + `","agent_id":"A"}`,
			413, refusal("DeltaTooLarge")},
		// What is named: a sibling that is not there wins over the target, one that moved wins over its version.
		{"POST", "/commit", commit("none", 0, `,"read_set":[{"key":"gone","version_at_read":0}]`), 404,
			`{"error":"ShardNotFound","detail":"there is no shard 'gone'"}`},
		{"POST", "/commit", commit("x", 0, `,"read_set":[{"key":"y","version_at_read":4}]`), 409,
			`{"error":"CrossShardStale","detail":"shard 'y' is at version 0, and version 4 was read"}`},
		{"POST", "/commit", commit("x", 3, `,"read_set":[{"key":"y","version_at_read":4},{"key":"y","version_at_read":0}]`),
			200, done("x", 4)},
		{"POST", "/commit", commit("x", 4, `,"read_set":[{"key":"x","version_at_read":9}]`), 200, done("x", 5)},
		// The delivery log: recorded with agent_id, not without; explicit wins; the own commit moves the own entry.
		{"GET", "/shard/y?agent_id=B", "", 200, shard("y", 0, "1", "", 0, 0, 0)},
		{"GET", "/shard/x?agent_id=B", "", 200, shard("x", 5, "d", "g", 7, 2, 5)},
		{"GET", "/shard/y?agent_id=C", "", 200, shard("y", 0, "1", "", 0, 0, 0)},
		{"GET", "/shard/z?agent_id=", "", 200, shard("z", 0, "1", "", 0, 0, 0)},
		{"POST", "/commit", `{"key":"y","expected_version":0,"delta":"d","agent_id":"B"}`, 200, done("y", 1)},
		{"GET", "/admin/delivery-log", "", 200, `{"agents":{"B":{"x":{"age_secs":"*","version":5},` +
			`"y":{"age_secs":"*","version":1}},"C":{"y":{"age_secs":"*","version":0}}},"total_agents":2,"total_deliveries":3}`},
		{"POST", "/commit", `{"key":"x","expected_version":5,"delta":"d","agent_id":"B"}`, 200, done("x", 6)},
		{"POST", "/commit", `{"key":"z","expected_version":0,"delta":"d","agent_id":"C"}`, 409,
			`{"error":"CrossShardStale","detail":"shard 'y' is at version 1, and version 0 was read"}`},
		{"POST", "/commit", `{"key":"z","expected_version":0,"delta":"d","agent_id":"C",` +
			`"read_set":[{"key":"y","version_at_read":1}]}`, 200, done("z", 1)},
		{"POST", "/session", `{"agent_id":"C"}`, 200, `{"agent_id":"C","status":"created"}`},
		{"POST", "/commit", `{"key":"z","expected_version":1,"delta":"d","agent_id":"C"}`, 200, done("z", 2)},
		// Stale reads that only observe pass, and are counted; versions do not.
		{"POST", "/admin/inject-stale", `{"agent_id":"D","key":"x","stale_version":1}`, 200, `{"injected":true}`},
		{"POST", "/commit", `{"key":"z","expected_version":2,"delta":"d","agent_id":"D"}`, 409, refusal("CrossShardStale")},
		{"POST", "/admin/config", `{"ori_enabled":false}`, 200, `{"ok":true,"ori_enabled":false}`},
		{"POST", "/commit", `{"key":"z","expected_version":9,"delta":"d","agent_id":"D"}`, 409, refusal("VersionMismatch")},
		{"POST", "/commit", `{"key":"z","expected_version":2,"delta":"d","agent_id":"D"}`, 200, done("z", 3)},
		{"GET", "/admin/config", "", 200,
			`{"ori_enabled":false,"view_checked_commits":6,"view_divergent_commits":2}`},
		{"POST", "/admin/config", `{"ori_enabled":true}`, 200, `{"ok":true,"ori_enabled":true}`},
		{"POST", "/commit", `{"key":"z","expected_version":3,"delta":"d","agent_id":"D"}`, 409, refusal("CrossShardStale")},
	})
}

// The other routes.
func TestBusRoutes(t *testing.T) {
	n := start(t, memlog.New("default"))
	stats := func(shards, commits, conflicts, stale, agents, deliveries int) string {
		scr := 0.0
		if commits+conflicts > 0 {
			scr = float64(conflicts) / float64(commits+conflicts)
		}
		return fmt.Sprintf(`{"counted_at":"bus","total_shards":%d,"total_commits":%d,"total_conflicts":%d,`+
			`"cross_shard_stale":%d,"view_checked_commits":0,"view_divergent_commits":0,`+
			`"view_divergence_rate":0,"ori_enabled":true,`+
			`"total_attempts":%d,"scr":%v,"wal_enabled":true,"delivery_log":{"agents":%d,"deliveries":%d},`+
			`"shard_classes":"*"}`, shards, commits,
			conflicts, stale, commits+conflicts, scr, agents, deliveries)
	}
	n.table(t, []row{
		{"GET", "/stats", "", 200, stats(0, 0, 0, 0, 0, 0)},
		{"POST", "/shard", `{"key":"x","content":"0"}`, 201, shard("x", 0, "0", "", 0, 0, 0)},
		{"POST", "/shard", `{"key":"y","content":"0"}`, 201, shard("y", 0, "0", "", 0, 0, 0)},
		{"POST", "/session", `{"agent_id":""}`, 200, `{"agent_id":"","status":"created"}`},
		{"POST", "/session", `{"agent_id":"A","session_ttl":60}`, 200, `{"agent_id":"A","status":"created"}`},
		{"POST", "/session", `{}`, 422, "~"}, {"POST", "/session", `{"agent_id":7}`, 422, "~"},
		// register
		{"POST", "/delivery_log/register", `{"agent_id":"A","session_id":"s","shards_used":["x","x","none","y"],` +
			`"source":"proxy","timestamp_ms":1}`, 200, `{"ok":true,"registered":2,"skipped_existing":1,"skipped_no_shard":1}`},
		{"POST", "/delivery_log/register", `{"agent_id":"A","shards_used":["x"]}`, 200,
			`{"ok":true,"registered":0,"skipped_existing":1,"skipped_no_shard":0}`},
		{"POST", "/delivery_log/register", `{"agent_id":"","shards_used":["x"]}`, 400, `{"error":"*"}`},
		{"POST", "/delivery_log/register", `{"agent_id":"A"}`, 422, "~"},
		{"POST", "/delivery_log/register", `{"agent_id":"A","shards_used":[1]}`, 422, "~"},
		// rollback
		{"POST", "/commit", `{"key":"x","expected_version":0,"delta":"1","agent_id":""}`, 200,
			`{"new_version":1,"shard_id":"x"}`},
		{"POST", "/commit", `{"key":"x","expected_version":0,"delta":"1","agent_id":""}`, 409, refusal("VersionMismatch")},
		{"POST", "/rollback", `{"key":"x","target_version":0,"agent_id":"A"}`, 200, shard("x", 2, "0", "", 2, 1, 2)},
		{"POST", "/rollback", `{"key":"x","target_version":1,"agent_id":"A"}`, 200, shard("x", 3, "1", "", 2, 1, 3)},
		{"POST", "/rollback", `{"key":"x","target_version":4,"agent_id":"A"}`, 500, refusal("InternalError")},
		{"POST", "/rollback", `{"key":"none","target_version":0,"agent_id":"A"}`, 404, refusal("ShardNotFound")},
		{"POST", "/rollback", `{"key":"x","target_version":0}`, 422, "~"},
		{"POST", "/rollback", `{"key":"x","agent_id":"A"}`, 422, "~"},
		{"POST", "/commit", `{"key":"y","expected_version":0,"delta":"1","agent_id":"A"}`, 409, refusal("CrossShardStale")},
		{"GET", "/stats", "", 200, stats(2, 1, 1, 1, 1, 2)},
		{"GET", "/metrics", "", 200, "# TYPE sbus_commits_total counter\nsbus_commits_total 1\n" +
			"# TYPE sbus_conflicts_total counter\nsbus_conflicts_total 1\n# TYPE sbus_cross_stale_total counter\n" +
			"sbus_cross_stale_total 1\n# TYPE sbus_shards_total gauge\nsbus_shards_total 2"},
		// admin
		{"GET", "/admin/health", "", 200,
			`{"status":"ok","total_shards":2,"total_commits":1,"total_conflicts":1,"delivery_agents":1}`},
		{"GET", "/admin/config", "", 200, `{"ori_enabled":true,"view_checked_commits":0,"view_divergent_commits":0}`},
		{"POST", "/admin/config as nothing", `{"ori_enabled":true}`, 415, "~"},
		{"POST", "/admin/config", `{}`, 422, "~"}, {"POST", "/admin/config", `{"ori_enabled":1}`, 422, "~"},
		{"POST", "/admin/shard", `{"key":"y","content":"0"}`, 200, `{"status":"already_exists"}`},
		{"POST", "/admin/shard", `{"key":"z","content":"0"}`, 201, shard("z", 0, "0", "", 0, 0, 0)},
		{"POST", "/admin/commit", `{"key":"z","expected_version":0,"delta":"1","agent_id":"B"}`, 200,
			`{"new_version":1,"shard_id":"z"}`},
		{"POST", "/admin/inject-stale", `{"agent_id":"B","key":"z"}`, 422, "~"},
		{"POST", "/admin/add-node", `{"node_id":2,"addr":"a","new_members":[1,2]}`, 400, `{"error":"*"}`},
		{"POST", "/admin/add-node", `{"node_id":2}`, 422, "~"},
		{"GET", "/admin/reset", "", 405, ""},
		// cluster
		{"GET", "/cluster/status", "", 200, `{"cluster":{"cluster_enabled":false,"this_node_id":"bus","this_url":"` +
			n.BusURL() + `","num_nodes":1,"peers":[{"node_id":"bus","url":"` + n.BusURL() +
			`","status":"ok","is_self":true}],` +
			`"replication":"*","isolation":"*"},"local_stats":` + stats(3, 2, 1, 1, 1, 2) + `}`},
		{"GET", "/raft/leader", "", 200, `{"current_leader":"bus","this_node_id":"bus","is_leader":true,` +
			`"current_term":1,"state":"Leader"}`},
		{"GET", "/raft/metrics", "", 404, ""}, {"GET", "/health", "", 404, ""},
	})
	for i := range 20 {
		n.want(t, "POST", "/commit", fmt.Sprintf(`{"key":"y","expected_version":%d,"delta":"1","agent_id":""}`, i), 200,
			fmt.Sprintf(`{"new_version":%d,"shard_id":"y"}`, i+1))
	}
	n.want(t, "POST", "/rollback", `{"key":"y","target_version":1,"agent_id":"A"}`, 410, refusal("VersionForgotten"))
}

// A session ends by its time: all that it was given, or a part; then it is refused until it is revived.
func TestBusSessionsExpire(t *testing.T) {
	n := start(t, memlog.New("default"))
	for _, key := range []string{"x", "y", "z"} {
		n.want(t, "POST", "/shard", fmt.Sprintf(`{"key":%q,"content":"0"}`, key), 201, shard(key, 0, "0", "", 0, 0, 0))
	}
	commit := func(name string, version int) string {
		return fmt.Sprintf(`{"key":"z","expected_version":%d,"delta":"d","agent_id":%q,`+
			`"read_set":[{"key":"x","version_at_read":0}]}`, version, name)
	}
	const ttl = 300 * time.Millisecond
	version := 0
	for _, revive := range []row{
		{"GET", "/shard/y?agent_id=A", "", 200, shard("y", 0, "0", "", 0, 0, 0)},
		{"POST", "/session", `{"agent_id":"A"}`, 200, `{"agent_id":"A","status":"created"}`},
		{"POST", "/delivery_log/register", `{"agent_id":"A","shards_used":["x"]}`, 200,
			`{"ok":true,"registered":1,"skipped_existing":0,"skipped_no_shard":0}`},
		{"POST", "/admin/commit", "", 200, ""},
	} {
		for _, partly := range []bool{false, true} {
			n.want(t, "POST", "/session", `{"agent_id":"A","session_ttl":0.3}`, 200,
				`{"agent_id":"A","status":"created"}`)
			n.want(t, "GET", "/shard/x?agent_id=A", "", 200, shard("x", 0, "0", "", 0, 0, 0))
			given := time.Now()
			for time.Since(given) < ttl {
				if _, body := n.ask(t, "GET", "/stats", ""); body == "" {
					t.Fatal("no statistics")
				}
			}
			if partly {
				n.want(t, "GET", "/shard/y?agent_id=A", "", 200, shard("y", 0, "0", "", 0, 0, 0))
			}
			n.want(t, "POST", "/commit", commit("A", version), 410, refusal("SessionExpired"))
			n.want(t, "POST", "/commit", commit("A", version), 410, refusal("SessionExpired"))
			last := "/commit"
			if revive.path == "/admin/commit" {
				last = revive.path
			} else {
				n.table(t, []row{revive})
			}
			version++
			n.want(t, "POST", last, commit("A", version-1), 200,
				fmt.Sprintf(`{"new_version":%d,"shard_id":"z"}`, version))
		}
	}
}

// Versions are the same at every node, after restarts and after writes of others.
func TestBusVersionsEverywhere(t *testing.T) {
	log := memlog.New("default")
	a := start(t, log)
	b := start(t, log, func(c *sidecar.Config) { c.Agent = "other" })
	a.want(t, "POST", "/shard", `{"key":"x","content":"0","goal_tag":"g"}`, 201, shard("x", 0, "0", "g", 0, 0, 0))
	for version, n := range []*node{b, a, b} {
		for {
			if _, body := n.ask(t, "GET", "/shard/x", ""); strings.Contains(body, fmt.Sprintf(`"version":%d`, version)) {
				break
			}
		}
		n.want(t, "POST", "/commit", fmt.Sprintf(`{"key":"x","expected_version":%d,"delta":"d","agent_id":"A"}`, version),
			200, fmt.Sprintf(`{"new_version":%d,"shard_id":"x"}`, version+1))
	}
	c := start(t, log, func(c *sidecar.Config) { c.Agent = "late" })
	_, want := b.ask(t, "GET", "/shard/x", "")
	var w, g map[string]any
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatal(err)
	}
	_, got := c.ask(t, "GET", "/shard/x", "")
	if err := json.Unmarshal([]byte(got), &g); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"version", "id", "goal_tag", "created_at", "updated_at", "content", "key"} {
		if w[name] != g[name] {
			t.Errorf("%s is %v, and at a node that began later %v", name, w[name], g[name])
		}
	}
}

// Off loopback a token is asked for, and what looks into delivery logs is not there.
func TestBusOffLoopback(t *testing.T) {
	n := start(t, memlog.New("default"), func(c *sidecar.Config) { c.SBus.Listen = "0.0.0.0:0" })
	n.want(t, "GET", "/stats", "", 401, refusal("Unauthorized"))
	for path, want := range map[string]int{"/stats": 200, "/admin/delivery-log": 403, "/nowhere": 404,
		"/admin/reset": 403} {
		method := "GET"
		if path == "/admin/reset" {
			method = "POST"
		}
		req, _ := http.NewRequest(method, n.BusURL()+path, nil)
		req.Header.Set("Authorization", "Bearer "+n.Token())
		resp, err := oneShot.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("GET %s: %d, want %d", path, resp.StatusCode, want)
		}
	}
}
