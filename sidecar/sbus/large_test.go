package sbus_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
	"github.com/hence-dev/hence/topology"
)

// largeText is a content of more than so many bytes, with characters that lie across the bounds of its parts and with
// bytes that are no text; and what JSON makes of it.
func largeText(size int) (content, shown string) {
	const some = "a\u20ac\"\n<\x80x"                              // nine bytes
	content = "12345678" + strings.Repeat(some, size/len(some)+1) // a part ends within a character
	return content, strings.ReplaceAll(content, "\x80", "\ufffd")
}

// largeAllowed is a client of /v1 that writes contents as large as they ever may be.
func (n *node) largeAllowed(t *testing.T) *client.Client {
	t.Helper()
	c, most := client.New(n.URL(), n.Token()), uint32(sequencer.MaxContent)
	if _, err := c.SetRules(t.Context(), 0, client.RulesChange{MaxContent: &most}); err != nil {
		t.Fatal(err)
	}
	return c
}

// put writes a shard through /v1.
func put(t *testing.T, c *client.Client, name, content string) {
	t.Helper()
	if _, err := c.Put(t.Context(), "shard:/"+name, []byte(content), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// A shard that /v1 or this face has given a large content is one like any other: shown, listed, written again, rolled
// back to; only that nothing is merged with it.
func TestBusLarge(t *testing.T) {
	log := memlog.New("default")
	n := start(t, log, func(c *sidecar.Config) { c.SBus.Merge, c.SBus.MaxDelta = true, -1 })
	c := n.largeAllowed(t)
	content, shown := largeText(sequencer.ChunkBytes)
	put(t, c, "x", content)
	own, _ := json.Marshal(shown[:sequencer.ChunkBytes+1])
	n.table(t, []row{
		{"POST", "/shard", `{"key":"y","content":"small"}`, 201, shard("y", 0, "small", "", 0, 0, 0)},
		{"POST", "/shard", fmt.Sprintf(`{"key":"own","content":%s}`, own), 201,
			shard("own", 0, shown[:sequencer.ChunkBytes+1], "", 0, 0, 0)},
		{"GET", "/shard/own", "", 200, shard("own", 0, shown[:sequencer.ChunkBytes+1], "", 0, 0, 0)},
		{"GET", "/shard/x?agent_id=A", "", 200, shard("x", 0, shown, "", 0, 0, 0)},
		{"POST", "/commit", `{"key":"y","expected_version":0,"delta":"1","agent_id":"A"}`, 200,
			`{"new_version":1,"shard_id":"y"}`},
		{"POST", "/commit", `{"key":"x","expected_version":0,"delta":"","agent_id":"A"}`, 200,
			`{"new_version":1,"shard_id":"x"}`},
		{"POST", "/commit", additive(0, "d", "B", true), 409, refusal("VersionMismatch")},
		{"POST", "/rollback", `{"key":"x","target_version":0,"agent_id":"A"}`, 200, shard("x", 2, shown, "", 2, 1, 2)},
		{"POST", "/commit", additive(1, "d", "B", true), 409, refusal("VersionMismatch")},
		{"POST", "/commit", fmt.Sprintf(`{"key":"y","expected_version":1,"delta":%s,"agent_id":""}`, own), 200,
			`{"new_version":2,"shard_id":"y"}`}, // no bound but the workspace's
	})
	if got, err := c.Get(t.Context(), "shard:/x"); err != nil || string(got.Content) != content {
		t.Errorf("what is rolled back to has %d bytes, %v", len(got.Content), err)
	}
	var list struct {
		Count  int
		Shards []struct{ Key, Content string }
	}
	code, body := n.ask(t, "GET", "/shards", "")
	if err := json.Unmarshal([]byte(body), &list); err != nil || code != 200 || list.Count != 3 {
		t.Fatalf("GET /shards: %d %v, %d bytes", code, err, len(body))
	}
	for _, one := range list.Shards {
		if one.Key == "x" && one.Content != shown {
			t.Errorf("x is listed with %d bytes", len(one.Content))
		}
	}
	var again strings.Builder // as the same is written at once
	enc := json.NewEncoder(&again)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(content)
	if !strings.Contains(body, strings.TrimSpace(again.String())) {
		t.Error("x is written in another way than a small content")
	}
}

// A content that is lost is given to no reader, alone or in a list, and what a name was not given does not stand in
// its way: neither a chain, nor one that a single event has.
func TestBusContentIsLost(t *testing.T) {
	for _, size := range []int{sequencer.ChunkBytes, sequencer.ChunkBytes / 2} {
		log := memlog.New("default")
		n := start(t, log)
		c := n.largeAllowed(t)
		n.create(t, "y")
		content, _ := largeText(size)
		put(t, c, "x", content)
		log.Spoil(log.Outcomes()[len(log.Outcomes())-1].Shards[0].Ref.Offset, func(ev *topology.Event) {
			ev.Content = ev.Content[1:]
		})
		n.table(t, []row{
			{"GET", "/shard/x?agent_id=A", "", 503, refusal("Unavailable")},
			{"GET", "/shards?agent_id=A", "", 503, refusal("Unavailable")},
		})
		put(t, c, "x", "again")
		n.table(t, []row{
			{"GET", "/shard/x?agent_id=A", "", 200, shard("x", 1, "again", "", 0, 0, 1)},
			{"GET", "/shards?agent_id=A", "", 200, `{"count":2,"shards":["*","*"]}`},
			{"POST", "/commit", `{"key":"y","expected_version":0,"delta":"1","agent_id":"A"}`, 200,
				`{"new_version":1,"shard_id":"y"}`},
		})
	}
}
