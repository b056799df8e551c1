package sbus_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/hence-dev/hence/sidecar"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
)

func additive(version int, text, name string, hinted bool) string {
	b, _ := json.Marshal(map[string]any{"key": "x", "expected_version": version, "delta": text, "agent_id": name,
		"additive_hint": hinted})
	return string(b)
}

// Where it is asked for, a commit that says that it only adds, and does, is merged with what came before it; any other
// one is refused as ever, and so is each once the hints of a shard have turned out wrong.
func TestBusMerge(t *testing.T) {
	plain := start(t, memlog.New("default"))
	n := start(t, memlog.New("default"), func(c *sidecar.Config) { c.SBus.Merge = true })
	for _, n := range []*node{plain, n} {
		n.want(t, "POST", "/shard", `{"key":"x","content":"0\n"}`, 201, shard("x", 0, "0\n", "", 0, 0, 0))
		n.want(t, "POST", "/commit", additive(0, "0\na\n", "A", true), 200, `{"new_version":1,"shard_id":"x"}`)
	}
	plain.want(t, "POST", "/commit", additive(0, "0\nb\n", "B", true), 409, refusal("VersionMismatch"))
	n.table(t, []row{
		{"POST", "/shard", `{"key":"y","content":""}`, 201, shard("y", 0, "", "", 0, 0, 0)},
		{"POST", "/commit", additive(0, "0\nb\n", "B", false), 409, refusal("VersionMismatch")},
		{"POST", "/commit", additive(0, "0\nb\n", "B", true), 200, `{"new_version":2,"shard_id":"x","merged":true}`},
		{"POST", "/commit", additive(9, "0\nb\n", "B", true), 409, refusal("VersionMismatch")},
		{"GET", "/shard/x", "", 200, shard("x", 2, "0\na\nb\n", "", 4, 2, 2)},
		// What it has read still counts.
		{"GET", "/shard/y?agent_id=C", "", 200, shard("y", 0, "", "", 0, 0, 0)},
		{"POST", "/commit", `{"key":"y","expected_version":0,"delta":"1","agent_id":"D"}`, 200,
			`{"new_version":1,"shard_id":"y"}`},
		{"POST", "/commit", additive(0, "0\nc\n", "C", true), 409, refusal("CrossShardStale")},
		// One that takes away is refused, and from then on the hints are not trusted.
		{"POST", "/commit", additive(1, "x", "E", true), 409, refusal("VersionMismatch")},
		{"POST", "/commit", additive(1, "0\na\ne\n", "E", true), 409, refusal("VersionMismatch")},
	})
	code, body := n.ask(t, "GET", "/stats", "")
	if code != 200 || !strings.Contains(body, `{"key":"x","class":"contended_noncommutative"`) {
		t.Errorf("GET /stats: %d %s", code, body)
	}
}

// Names that add to one shard at once, and say so, are never refused, and nothing of any is lost or there twice.
func TestBusMergeManyAdders(t *testing.T) {
	n := start(t, memlog.New("default"), func(c *sidecar.Config) { c.SBus.Merge, c.SBus.MaxDelta = true, -1 })
	n.want(t, "POST", "/shard", `{"key":"x","content":"# log\n"}`, 201, shard("x", 0, "# log\n", "", 0, 0, 0))
	const names = 4
	lines := size(15, 200)
	type content struct {
		Content string
		Version int
	}
	get := func() (is content) {
		_, body := n.ask(t, "GET", "/shard/x", "")
		_ = json.Unmarshal([]byte(body), &is)
		return is
	}
	var group sync.WaitGroup
	for i := range names {
		group.Go(func() {
			for k := range lines {
				is := get()
				text := is.Content + fmt.Sprintf("line %d of %d\n", k, i)
				if code, body := n.ask(t, "POST", "/commit", additive(is.Version, text, fmt.Sprint("n", i), true)); code != 200 {
					t.Errorf("line %d of %d: %d %s", k, i, code, body)
				}
			}
		})
	}
	group.Wait()
	is := get()
	if is.Version != names*lines {
		t.Errorf("%d commits, want %d", is.Version, names*lines)
	}
	for i := range names {
		at := -1
		for k := range lines {
			line := fmt.Sprintf("line %d of %d\n", k, i)
			now := strings.Index(is.Content, line)
			if strings.Count(is.Content, line) != 1 || now < at {
				t.Fatalf("%q is there %d times, or not in order", line, strings.Count(is.Content, line))
			}
			at = now
		}
	}
	if _, body := n.ask(t, "GET", "/stats", ""); !strings.Contains(body, `"class":"contended_commutative"`) {
		t.Errorf("GET /stats: %s", body)
	}
}
