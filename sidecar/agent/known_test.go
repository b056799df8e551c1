package agent

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/gate/policy"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

// A scope that is a bare path is refused with what was probably meant, on each route that takes scopes in its body.
func TestBarePaths(t *testing.T) {
	a := start(t, "a", newLog().Door())
	tx := "/v1/tx/" + open(background(t), t, a, client.BeginOptions{}).ID()
	for scope, want := range map[string]string{
		"shard/x":   "write shard:/x",
		"/shard/x":  "write shard:/x",
		"orders/1":  "write shard:/orders/1 for the shard, or orders:/1 if orders is a type",
		"shard:x/y": "write shard:/x/y",
		"note":      "write shard:/note for the shard, or note:/ if note is a type",
		"":          "the scope is missing",
		"sh ard/x":  "write shard:/sh%20ard/x",
	} {
		for _, body := range []rawCall{
			post(tx+"/reads", `{"scope":"`+scope+`"}`),
			post(tx+"/writes", `{"scope":"`+scope+`","content":""}`),
			post(tx+"/touches", `{"wants":[{"scope":"`+scope+`","access":"read"}]}`),
			post(inDefault+"/tx", `{"mode":"ordered","may":[{"scope":"`+scope+`","access":"write"}]}`),
			post(tx+"/settlement", `{"effects":[{"scopes":["`+scope+`"],"result":"clean"}]}`),
		} {
			status, p, _ := a.send(t, body)
			if status != 400 || p.Code != api.CodeBadScope || !strings.Contains(p.Detail, want) {
				t.Errorf("%s %s: %d %s %s, want %q", body.path, body.body, status, p.Code, p.Detail, want)
			}
		}
	}
	for _, path := range []string{"/shards?prefix=orders", "/shards?prefix=shard:/orders", "/shards?after=orders"} {
		if status, p, _ := a.send(t, get(inDefault+path)); status != 200 {
			t.Errorf("%s is about shards alone, and a path means one: %d %+v", path, status, p)
		}
	}
}

// A read of a type that nothing uses has to say that it is meant. Shards, the policy's types and those of what was
// done in the workspace are in use; what others do, and what was done before a start, counts.
func TestUnknownTypes(t *testing.T) {
	log := newLog()
	p, err := policy.Load([]byte(`{version: 1, server: s, tools: [{tool: get, class: read, args: [id],
		scopes: ["ticket:/{id}"]}]}`), policy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a, b := start(t, "a", log.Door(), func(c *setup) { c.Tools = p }), start(t, "b", log.Door())
	ctx := background(t)
	read := func(of *rig, scope, more string) (int, string) {
		status, p, _ := of.send(t, post("/v1/tx/"+open(ctx, t, of, client.BeginOptions{}).ID()+"/reads",
			`{"scope":"`+scope+`"`+more+`}`))
		if p == nil {
			return status, ""
		}
		return status, p.Detail
	}
	if status, detail := read(a, "tickets:/1", ""); status != 422 || !strings.Contains(detail,
		"in use are: shard, ticket. Perhaps ticket:/1 is meant. If") || !strings.Contains(detail, `"announce": true`) {
		t.Errorf("a misspelt type: %d %s", status, detail)
	}
	for _, more := range []string{`,"announce":true`, ""} {
		if status, detail := read(a, "ticket:/1", more); status != 200 {
			t.Errorf("a type of the policy %s: %d %s", more, status, detail)
		}
	}
	for range 2 { // that one read announced it does not make it known: nothing writes it
		if status, detail := read(b, "ticket:/1", `,"announce":true`); status != 200 {
			t.Errorf("announced: %d %s", status, detail)
		}
		if status, _ := read(b, "ticket:/1", ""); status != 422 {
			t.Errorf("b has no policy, and reads: %d", status)
		}
	}
	tx := open(ctx, t, a, client.BeginOptions{})
	touch(ctx, t, tx, writes("order:/1"))
	if err := b.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	if status, detail := read(b, "order:/2", ""); status != 200 {
		t.Errorf("what another agent acts on: %d %s", status, detail)
	}
	if err := tx.Abort(ctx, ""); err != nil {
		t.Fatal(err)
	}
	c := start(t, "c", log.Door())
	if status, detail := read(c, "order:/3", ""); status != 200 {
		t.Errorf("what was done before the start: %d %s", status, detail)
	}
}

// The Go client says that a type is meant only where it is told to: else a misspelt one is found, and an older
// sidecar, which does not know the field, takes the read.
func TestClientAnnounces(t *testing.T) {
	a := start(t, "a", newLog().Door())
	ctx := background(t)
	tx := open(ctx, t, a, client.BeginOptions{})
	if _, err := tx.Announce(ctx, "oder:/1"); problemCode(err) != api.CodeUnknownType {
		t.Errorf("a misspelt type: %v", err)
	}
	must(tx.AnnounceUnknown(ctx, "oder:/1"))(t)
}

// A version that the view has not reached is a mismatch only where it is known not to be there: an ETag of another
// sidecar is as good as this one's.
func TestIfMatchAheadOfTheView(t *testing.T) {
	log := newLog()
	door := log.Door()
	a := start(t, "a", door, func(c *setup) { c.Limits.FutureWait = 50 * time.Millisecond })
	b := start(t, "b", log.Door())
	ctx := background(t)
	first := must(b.client.Put(ctx, "shard:/x", []byte("1"), client.WriteOptions{}))(t)
	if err := a.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	door.Hold()
	newer := must(b.client.Put(ctx, "shard:/x", []byte("2"), client.WriteOptions{}))(t)
	for _, match := range []string{`"%[2]d"`, `"%[1]d", "%[2]d"`} {
		request := with(put(inDefault+"/shards/x"), "If-Match", fmt.Sprintf(match, first.Seq, newer.Seq))
		status, p, _ := a.send(t, request)
		if status != 400 || p.Code != api.CodeSeqFromFuture || !p.Retryable {
			t.Errorf("If-Match: %s, and the view is behind it: %d %+v", match, status, p)
		}
	}
	door.Release()
	if err := a.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	must(a.client.Put(ctx, "shard:/x", []byte("3"), client.WriteOptions{IfVersion: &newer.Seq}))(t)
}

// If-Match wants one of the versions that it lists, as they were given; * wants that there is one, whichever it is at
// the commit. If-None-Match: * wants that there is none. All else is 412 (RFC 9110, 13.1).
func TestIfMatch(t *testing.T) {
	a := start(t, "a", newLog().Door())
	d, err := a.client.Put(background(t), "shard:/x", []byte("1"), client.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	at := d.Seq
	for _, c := range []struct {
		match  string
		status int
	}{{`W/"N"`, 412}, {`"0N"`, 412}, {`"1N"`, 412}, {`"N"`, 200}, {`"1", "N"`, 200}, {`"999","N"`, 200},
		{`W/"1","N"`, 200}, {`"1","2"`, 412}, {`*`, 200}} {
		match := strings.ReplaceAll(c.match, "N", strconv.FormatUint(at, 10))
		status, p, header := a.send(t, with(put(inDefault+"/shards/x"), "If-Match", match))
		if status != c.status || status == 412 && (p.Code != string(sequencer.CodeVersionMismatch) || !p.Retryable ||
			len(p.ReRead) != 1) {
			t.Errorf("If-Match: %s: %d %+v, want %d", match, status, p, c.status)
		}
		if status == 200 {
			at, _ = strconv.ParseUint(header.Get("Hence-Version"), 10, 64)
		}
	}
	if status, p, _ := a.send(t, with(put(inDefault+"/shards/x"), "If-None-Match", "*")); status != 412 ||
		!strings.Contains(p.Detail, "is expected not to exist") {
		t.Errorf("created twice: %d %+v", status, p)
	}
}
