package sbus_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
)

// two are two nodes over one log.
func two(t *testing.T, log *memlog.Log) (a, b *node) {
	return start(t, log), start(t, log, func(c *sidecar.Config) { c.Agent = "other" })
}

// soon asks again until the answer is there.
func (n *node) soon(t *testing.T, path string, status int, part string) {
	t.Helper()
	until := time.Now().Add(20 * time.Second)
	for {
		code, body := n.ask(t, "GET", path, "")
		if code == status && strings.Contains(body, part) {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("GET %s stays %d %s, want %d %s", path, code, body, status, part)
		}
	}
}

// A reset takes all shards away at once, here when it is answered and soon at the other nodes; versions, counters and
// delivery logs begin again everywhere, and what /v1 shows goes on.
func TestBusReset(t *testing.T) {
	log := memlog.New("default")
	a, b := two(t, log)
	a.table(t, []row{
		{"POST", "/admin/reset", "", 200, `{"cleared":0}`},
		{"POST", "/shard", `{"key":"x","content":"0"}`, 201, shard("x", 0, "0", "", 0, 0, 0)},
		{"POST", "/shard", `{"key":"y","content":"0"}`, 201, shard("y", 0, "0", "", 0, 0, 0)},
		{"POST", "/shard", `{"key":"a/b","content":"0"}`, 201, shard("a/b", 0, "0", "", 0, 0, 0)},
		{"POST", "/commit", `{"key":"x","expected_version":0,"delta":"1","agent_id":"A"}`, 200,
			`{"new_version":1,"shard_id":"x"}`},
		{"GET", "/shard/x?agent_id=A", "", 200, shard("x", 1, "1", "", 1, 0, 1)},
		{"POST", "/commit", `{"key":"x","expected_version":0,"delta":"1","agent_id":"A"}`, 409, refusal("VersionMismatch")},
		{"POST", "/session", `{"agent_id":"opened"}`, 200, `{"agent_id":"opened","status":"created"}`},
	})
	b.soon(t, "/shard/y?agent_id=A", 200, `"version":0`)
	before := log.Seq()
	a.table(t, []row{
		{"POST", "/admin/reset as text/plain", "whatever", 200, `{"cleared":3}`},
		{"GET", "/shard/x", "", 404, refusal("ShardNotFound")},
		{"GET", "/shards", "", 200, `{"count":0,"shards":[]}`},
		{"GET", "/stats", "", 200, `{"counted_at":"bus","total_shards":0,"total_commits":0,"total_conflicts":0,` +
			`"cross_shard_stale":0,"view_checked_commits":0,"view_divergent_commits":0,` +
			`"view_divergence_rate":0,"ori_enabled":true,` +
			`"total_attempts":0,"scr":0,"wal_enabled":true,"delivery_log":{"agents":1,"deliveries":0},"shard_classes":{` +
			`"dedicated":0,"contended_commutative":0,"contended_noncommutative":0,"most_contended":[]}}`},
		{"GET", "/admin/delivery-log", "", 200, `{"agents":{"opened":{}},"total_agents":1,"total_deliveries":0}`},
		{"POST", "/commit", `{"key":"x","expected_version":1,"delta":"1","agent_id":""}`, 404, refusal("ShardNotFound")},
		{"POST", "/rollback", `{"key":"x","target_version":0,"agent_id":"A"}`, 404, refusal("ShardNotFound")},
		{"POST", "/shard", `{"key":"x","content":"new"}`, 201, shard("x", 0, "new", "", 0, 0, 0)},
		// What A had read is gone, and A is told before it commits on nothing; reading again revives it.
		{"POST", "/commit", `{"key":"x","expected_version":0,"delta":"2","agent_id":"A"}`, 410, refusal("SessionExpired")},
		{"GET", "/shard/x?agent_id=A", "", 200, shard("x", 0, "new", "", 0, 0, 0)},
		{"POST", "/commit", `{"key":"x","expected_version":0,"delta":"2","agent_id":"A"}`, 200,
			`{"new_version":1,"shard_id":"x"}`},
		{"POST", "/commit", `{"key":"x","expected_version":1,"delta":"3","agent_id":"opened"}`, 200,
			`{"new_version":2,"shard_id":"x"}`},
		{"POST", "/rollback", `{"key":"x","target_version":7,"agent_id":"A"}`, 500, refusal("InternalError")},
	})
	if o := log.Outcomes()[before]; len(o.Shards) != 1 || !o.Shards[0].Absent || o.Shards[0].Scope != "shard:/" {
		t.Errorf("the reset is decided as %+v", o)
	}
	b.soon(t, "/shard/x", 200, `"version":2`)
	b.table(t, []row{
		{"GET", "/shard/y", "", 404, refusal("ShardNotFound")},
		{"GET", "/shard/x", "", 200, shard("x", 2, "3", "", 0, 0, 2)},
		{"POST", "/commit", `{"key":"x","expected_version":2,"delta":"4","agent_id":"A"}`, 410, refusal("SessionExpired")},
		{"POST", "/session", `{"agent_id":"A"}`, 200, `{"agent_id":"A","status":"created"}`},
		{"POST", "/commit", `{"key":"x","expected_version":2,"delta":"4","agent_id":"A"}`, 200,
			`{"new_version":3,"shard_id":"x"}`},
	})
}

// A node that did not run while others reset is not held to what it had shown before, nor stuck with it.
func TestBusResetWhileAway(t *testing.T) {
	log := memlog.New("default")
	dir := t.TempDir()
	at := func(c *sidecar.Config) { c.Agent, c.DataDir = "away", dir }
	a, b := start(t, log), start(t, log, at)
	b.create(t, "x", "y")
	b.read(t, "gone", "x")
	b.read(t, "again", "y")
	b.read(t, "calm")
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	a.want(t, "POST", "/admin/reset", "", 200, `{"cleared":2}`)
	a.create(t, "y", "z")
	b = start(t, log, at)
	b.table(t, []row{
		{"POST", "/commit", `{"key":"z","expected_version":0,"delta":"d","agent_id":"gone"}`, 410,
			refusal("SessionExpired")},
		{"GET", "/shard/z?agent_id=gone", "", 200, shard("z", 0, "0", "", 0, 0, 0)},
		{"POST", "/commit", `{"key":"z","expected_version":0,"delta":"d","agent_id":"gone"}`, 200,
			`{"new_version":1,"shard_id":"z"}`},
		{"POST", "/commit", `{"key":"z","expected_version":1,"delta":"d","agent_id":"again"}`, 409,
			refusal("CrossShardStale")},
		{"GET", "/shard/y?agent_id=again", "", 200, shard("y", 0, "0", "", 0, 0, 0)},
		{"POST", "/commit", `{"key":"z","expected_version":1,"delta":"d","agent_id":"again"}`, 200,
			`{"new_version":2,"shard_id":"z"}`},
	})
}

// versions are those of all shards that a node lists.
func (n *node) versions(t *testing.T) map[string]uint64 {
	t.Helper()
	var list struct {
		Shards []struct {
			Key     string
			Version uint64
		}
	}
	if _, body := n.ask(t, "GET", "/shards", ""); json.Unmarshal([]byte(body), &list) != nil {
		t.Fatal(body)
	}
	out := map[string]uint64{}
	for _, one := range list.Shards {
		out[one.Key] = one.Version
	}
	return out
}

// Beside commits at two nodes that read, write and recreate shards, resets cut each history in one place: a commit
// that was accepted behind a reset rests on nothing before it, and all nodes, one that begins later too, count the
// same versions, which are the writes behind the last reset.
func TestBusResetBesideCommits(t *testing.T) {
	log := memlog.New("default")
	a, b := two(t, log)
	nodes := []*node{a, b}
	rounds := size(30, 1000)
	var group sync.WaitGroup
	for i, n := range nodes {
		for j := range 3 {
			group.Go(func() {
				name := fmt.Sprint("agent-", i, j)
				for k := range rounds {
					key, beside := fmt.Sprint("k", (k+j)%3), fmt.Sprint("k", (k+j+1)%3)
					n.ask(t, "POST", "/shard", fmt.Sprintf(`{"key":%q,"content":"0"}`, key))
					n.ask(t, "GET", "/shard/"+beside+"?agent_id="+name, "")
					_, body := n.ask(t, "GET", "/shard/"+key+"?agent_id="+name, "")
					var is struct{ Version int }
					_ = json.Unmarshal([]byte(body), &is)
					code, body := n.commits(t, name, key, is.Version)
					switch code {
					case 200, 404, 409, 410:
					default:
						t.Errorf("%s: %d %s", name, code, body)
					}
				}
			})
		}
	}
	group.Go(func() {
		for k := range rounds {
			if code, body := nodes[k%2].ask(t, "POST", "/admin/reset", ""); code != 200 {
				t.Errorf("reset %d: %d %s", k, code, body)
			}
		}
	})
	group.Wait()
	a.create(t, "end")
	writes, last := map[string]uint64{}, sequencer.Seq(0)
	for _, o := range log.Outcomes() {
		if o.Kind != sequencer.OutcomeCommitted {
			continue
		}
		for _, w := range o.Shards {
			key := strings.TrimPrefix(string(w.Scope), "shard:/")
			if w.Absent {
				clear(writes)
				last = o.Seq
				continue
			}
			if e := w.Expect; e != nil && e.Version != 0 && e.Version < last {
				t.Errorf("decision %d writes %s over version %d, which the reset at %d took away", o.Seq, key, e.Version, last)
			}
			writes[key]++
		}
	}
	nodes = append(nodes, start(t, log, func(c *sidecar.Config) { c.Agent = "late" }))
	for i, n := range nodes {
		n.soon(t, "/shard/end", 200, "")
		for key, version := range n.versions(t) {
			if version+1 != writes[key] {
				t.Errorf("node %d shows %s at version %d after %d writes", i, key, version, writes[key])
			}
		}
		if got := len(n.versions(t)); got != len(writes) {
			t.Errorf("node %d shows %d shards, want %d", i, got, len(writes))
		}
	}
}
