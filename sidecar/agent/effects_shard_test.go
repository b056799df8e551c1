package agent

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/hence-dev/hence/gate/adapters"
	"github.com/hence-dev/hence/gate/policy"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/once"
	"github.com/hence-dev/hence/topology"
)

const notesPolicy = `version: 1
server: shop
tools:
  - {tool: note, class: bufferable, args: [id, text], scopes: ["shard:/notes/{id}"], may: ["shard:/notes/**"],
     shard: {op: write, scope: "shard:/notes/{id}", content: {text: "{text}"}}}
  - {tool: notes, class: read, args: [id], scopes: ["shard:/notes/{id}"],
     shard: {op: read, scope: "shard:/notes/{id}"}}
  - {tool: stray, class: read, args: [id], scopes: ["shard:/other/{id}"],
     shard: {op: read, scope: "shard:/notes/{id}"}}
`

// withPolicy gives a sidecar a policy file.
func withPolicy(t *testing.T, text string) func(*setup) {
	t.Helper()
	p, err := policy.Load([]byte(text), policy.Options{Build: adapters.Build})
	if err != nil {
		t.Fatal(err)
	}
	return func(c *setup) { c.Tools = p }
}

type noteArgs struct {
	ID   string `json:"id"`
	Text string `json:"text,omitempty"`
}

// A shard tool reads and writes in its own transaction: it waits for no hold of it, and the commit applies it.
func TestShardTools(t *testing.T) {
	for _, mode := range []string{"optimistic", "ordered", "locked"} {
		t.Run(mode, func(t *testing.T) {
			log := newLog()
			a := start(t, "a", log.Door(), withPolicy(t, notesPolicy))
			ctx := background(t)
			tx := open(ctx, t, a, client.BeginOptions{Mode: mode})
			none := must(tx.Effect(ctx, "notes", noteArgs{ID: "1"}, client.EffectOptions{}))(t)
			if none.State != api.EffectDone || none.Result != nil || !strings.Contains(none.Detail, "holds nothing") {
				t.Errorf("a shard that is not there: %+v", none)
			}
			for _, text := range []string{"a", "b"} {
				got := must(tx.Effect(ctx, "note", noteArgs{"1", text}, client.EffectOptions{}))(t)
				if got.State != api.EffectStaged || got.Index != nil || got.Note == "" || got.Scopes[0] != "shard:/notes/1" {
					t.Errorf("a write: %+v", got)
				}
			}
			large := strings.Repeat("x", 10_000) // travels by reference
			must(tx.Effect(ctx, "note", noteArgs{"2", large}, client.EffectOptions{}))(t)
			own := must(tx.Effect(ctx, "notes", noteArgs{ID: "1"}, client.EffectOptions{}))(t)
			if string(own.Result) != `{"text":"b"}` {
				t.Errorf("its own write: %+v", own)
			}
			if n := len(must(tx.Effects(ctx))(t).Effects); n != 0 {
				t.Errorf("%d calls are listed", n)
			}
			if d := must(tx.Seal(ctx))(t); d.State != api.StateCommitted || !d.Final {
				t.Fatalf("decided: %+v", d)
			}
			if got := must(a.client.Get(ctx, "shard:/notes/1"))(t); string(got.Content) != `{"text":"b"}` ||
				got.MediaType != "application/json" {
				t.Errorf("after the commit: %+v", got)
			}
			done := must(a.client.Do(ctx, "notes", noteArgs{ID: "2"}, client.EffectOptions{Mode: mode}))(t)
			if done.Decision.State != api.StateCommitted || len(done.Effect.Result) != len(large)+11 {
				t.Errorf("read alone: %+v", done.Decision)
			}
			for _, ev := range log.Events() {
				if ev.Kind == topology.EventEffect {
					t.Errorf("a call is in the log: %+v", ev.Effect)
				}
			}
		})
	}
}

// What a shard tool read goes stale like any read, and a one-shot write is a transaction of its own.
func TestShardToolStale(t *testing.T) {
	log := newLog()
	a, b := start(t, "a", log.Door(), withPolicy(t, notesPolicy)), start(t, "b", log.Door(), withPolicy(t, notesPolicy))
	ctx := background(t)
	tx := open(ctx, t, a, client.BeginOptions{})
	must(tx.Effect(ctx, "notes", noteArgs{ID: "1"}, client.EffectOptions{}))(t)
	done := must(b.client.Do(ctx, "note", noteArgs{"1", "new"}, client.EffectOptions{}))(t)
	if done.Decision.State != api.StateCommitted || done.Effect.State != api.EffectStaged {
		t.Fatalf("written alone: %+v", done)
	}
	must(tx.Effect(ctx, "note", noteArgs{"2", "x"}, client.EffectOptions{}))(t)
	if d := must(tx.Seal(ctx))(t); d.Code != "stale_read" {
		t.Errorf("decided: %+v", d)
	}
	if got := must(a.client.Get(ctx, "shard:/notes/2"))(t); got.Exists {
		t.Errorf("an aborted write is there: %+v", got)
	}
}

// A shard tool that the policy declares wrongly, or whose arguments name no shard, is refused and changes nothing.
func TestShardToolRefused(t *testing.T) {
	log := newLog()
	a := start(t, "a", log.Door(), withPolicy(t, notesPolicy))
	ctx := background(t)
	tx := open(ctx, t, a, client.BeginOptions{})
	for _, c := range []struct {
		tool string
		args noteArgs
		o    client.EffectOptions
	}{
		{"stray", noteArgs{ID: "1"}, client.EffectOptions{}},
		{"note", noteArgs{ID: "..", Text: "x"}, client.EffectOptions{}},
		{"note", noteArgs{ID: "1"}, client.EffectOptions{}}, {"note", noteArgs{"1", "x"}, client.EffectOptions{Key: "k"}},
	} {
		if _, err := tx.Effect(ctx, c.tool, c.args, c.o); problemCode(err) != api.CodeTool {
			t.Errorf("%s %+v: %v", c.tool, c.args, err)
		}
	}
	if d := must(tx.Seal(ctx))(t); d.State != api.StateCommitted {
		t.Errorf("decided: %+v", d)
	}
}

// A call without a place among the calls keeps its receipt for the same request sent again.
func TestShardToolAgain(t *testing.T) {
	log := newLog()
	a := start(t, "a", log.Door(), withPolicy(t, notesPolicy))
	ctx := background(t)
	must(a.client.Put(ctx, "shard:/notes/1", []byte(`"there"`), client.WriteOptions{}))(t)
	what := must(callOf("notes", []byte(`{"id":"1"}`), ""))(t)
	tx := must(a.session.begins(ctx, sequencer.Begin{}, nil))(t)
	slot := &once.Slot{}
	for i := range 2 {
		done := must(flow(a.session, func() (*api.Done, error) { return a.session.do(ctx, tx, what, slot) }))(t)
		if done.Decision.State != api.StateCommitted || string(done.Effect.Result) != `"there"` {
			t.Errorf("try %d: %+v", i, done)
		}
	}
}

func TestShardResult(t *testing.T) {
	for body, want := range map[string]string{
		`{"a":1}`: `{"a":1}`, "17": "17", "plain": `"plain"`, "null": `"null"`, "": `""`,
		"\xff": `{"content_base64":"` + base64.StdEncoding.EncodeToString([]byte("\xff")) + `"}`,
	} {
		if got, err := shardResult([]byte(body)); err != nil || string(got) != want {
			t.Errorf("%q: %s, %v", body, got, err)
		}
	}
}
