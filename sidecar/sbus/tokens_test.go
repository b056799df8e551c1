package sbus_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hence-dev/hence/sidecar/internal/memlog"
)

// owned is a shard on the wire that has an owner.
func owned(text, by string) string {
	return strings.Replace(text, `"owner":null`, fmt.Sprintf(`"owner":%q`, by), 1)
}

// A token lets its owner alone commit, at every node, until it is given back or lapses by the log's time.
func TestBusTokens(t *testing.T) {
	log := memlog.New("default")
	a, b := two(t, log)
	take := func(key, name string, secs float64) string {
		return fmt.Sprintf(`{"key":%q,"agent_id":%q,"ttl_secs":%v}`, key, name, secs)
	}
	commit := func(key, name string, version int) string {
		return fmt.Sprintf(`{"key":%q,"agent_id":%q,"expected_version":%d,"delta":"d"}`, key, name, version)
	}
	given := func(key, name string) string { return fmt.Sprintf(`{"expires_at":"*","key":%q,"owner":%q}`, key, name) }
	done := func(key string, version int) string {
		return fmt.Sprintf(`{"new_version":%d,"shard_id":%q}`, version, key)
	}
	long := strings.Repeat("k", 1010)
	a.create(t, "x", "y", "a/b", long)
	a.table(t, []row{
		{"POST", "/token", `{"key":"x","agent_id":"A"}`, 200, given("x", "A")},
		{"POST", "/token", take("x", "A", 60), 200, given("x", "A")},
		{"POST", "/token", take("x", "B", 60), 409, refusal("TokenConflict")},
		{"POST", "/token", take("a/b", "B", 60), 200, given("a/b", "B")},
		{"POST", "/token", take(long, "B", 60), 200, given(long, "B")},
		{"POST", "/commit", commit(long, "A", 0), 409, refusal("TokenConflict")},
		{"GET", "/shard/x", "", 200, owned(shard("x", 0, "0", "", 0, 0, 0), "A")},
		{"GET", "/shards?agent_id=L", "", 200, `{"count":4,"shards":["*","*","*","*"]}`},
		// Before the version, behind the reads.
		{"POST", "/commit", commit("x", "B", 7), 409, `{"error":"TokenConflict","detail":"*"}`},
		{"POST", "/commit", commit("x", "", 0), 409, refusal("TokenConflict")},
		{"POST", "/commit", `{"key":"x","agent_id":"B","expected_version":0,"delta":"d","read_set":[{"key":"y",` +
			`"version_at_read":3}]}`, 409, refusal("CrossShardStale")},
		{"POST", "/commit", commit("x", "A", 7), 409, refusal("VersionMismatch")},
		{"POST", "/commit", commit("x", "A", 0), 200, done("x", 1)},
		{"POST", "/commit", commit("y", "B", 0), 200, done("y", 1)},
		{"GET", "/shard/x", "", 200, owned(shard("x", 1, "d", "", 4, 3, 1), "A")},
		{"DELETE", "/token", `{"key":"x","agent_id":"B"}`, 409, refusal("TokenConflict")},
		{"DELETE", "/token", `{"key":"y","agent_id":"B"}`, 200, `{"key":"y","owner":null}`},
		{"POST", "/token", take("none", "A", 60), 404, refusal("ShardNotFound")},
		{"DELETE", "/token", `{"key":"none","agent_id":"A"}`, 404, refusal("ShardNotFound")},
		{"POST", "/token", `{"key":"x"}`, 422, "~"}, {"POST", "/token", `{"agent_id":"A"}`, 422, "~"},
		{"POST", "/token", take("x", "", 60), 422, "~"}, {"POST", "/token", take("x", "A", 0), 422, "~"},
		{"POST", "/token", take("x", "A", 1e6), 422, "~"},
		{"POST", "/token", `{"key":"x","agent_id":"A","ttl_secs":"1"}`, 422, "~"},
		{"POST", "/token as text/plain", take("x", "A", 60), 415, "~"}, {"GET", "/token", "", 405, ""},
	})
	b.soon(t, "/shard/x", 200, `"owner":"A"`)
	b.soon(t, "/shard/y", 200, `"version":1`)
	b.table(t, []row{
		{"POST", "/commit", commit("x", "B", 1), 409, refusal("TokenConflict")},
		{"POST", "/commit", commit("x", "A", 1), 200, done("x", 2)},
		{"POST", "/token", take("y", "B", 0.1), 200, given("y", "B")},
		{"DELETE", "/token", `{"key":"x","agent_id":"A"}`, 200, `{"key":"x","owner":null}`},
		{"POST", "/commit", commit("x", "B", 2), 200, done("x", 3)},
	})
	// By the clock it is over, and the log's time stands still: it is held. Then it lapses, at both.
	for until := time.Now().Add(100 * time.Millisecond); time.Now().Before(until); {
		b.want(t, "POST", "/commit", commit("y", "C", 1), 409, refusal("TokenConflict"))
	}
	a.want(t, "POST", "/token", take("y", "C", 60), 409, refusal("TokenConflict"))
	if err := log.Tick(2); err != nil {
		t.Fatal(err)
	}
	b.want(t, "POST", "/commit", commit("y", "C", 1), 200, done("y", 2))
	a.want(t, "POST", "/token", take("y", "C", 60), 200, given("y", "C"))
	a.want(t, "POST", "/admin/reset", "", 200, `{"cleared":4}`)
	a.create(t, "y")
	a.want(t, "GET", "/shard/y", "", 200, shard("y", 0, "0", "", 0, 0, 0))
}

// Of names that take, use and give back one token at two nodes at once, none commits while another has it.
func TestBusTokensExclude(t *testing.T) {
	log := memlog.New("default")
	a, b := two(t, log)
	nodes := []*node{a, b}
	a.create(t, "x")
	b.soon(t, "/shard/x", 200, "")
	var group sync.WaitGroup
	var mu sync.Mutex
	had := map[string]int{}
	for i := range 6 {
		group.Go(func() {
			n, name := nodes[i%2], fmt.Sprint("name-", i)
			body := fmt.Sprintf(`{"key":"x","agent_id":%q,"ttl_secs":600}`, name)
			for range size(20, 500) {
				if code, _ := n.ask(t, "POST", "/token", body); code != 200 {
					continue
				}
				version := n.versions(t)["x"]
				code, answer := n.commits(t, name, "x", int(version))
				if code != 200 {
					t.Errorf("%s has the token, and is answered %d %s", name, code, answer)
				}
				mu.Lock()
				had[name]++
				mu.Unlock()
				if code, answer := n.ask(t, "DELETE", "/token", body); code != 200 {
					t.Errorf("%s gives back: %d %s", name, code, answer)
				}
			}
		})
		group.Go(func() { // without it
			for range size(20, 500) {
				n := nodes[i%2]
				n.commits(t, "thief", "x", int(n.versions(t)["x"]))
			}
		})
	}
	group.Wait()
	if len(had) < 2 {
		t.Errorf("only %v ever had the token", had)
	}
	owner := ""
	for _, o := range log.Outcomes() {
		for _, w := range o.Shards {
			switch text := string(w.Content); {
			case strings.HasPrefix(string(w.Scope), "shard:/%00token/"):
				_, rest, _ := strings.Cut(text, `"owner":"`)
				owner, _, _ = strings.Cut(rest, `"`)
			case owner != "" && text != "by "+owner:
				t.Errorf("decision %d writes %q while %s has the token", o.Seq, text, owner)
			}
		}
	}
}
