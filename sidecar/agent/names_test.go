package agent

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/feed"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
	"github.com/hence-dev/hence/topology"
)

// One name in its two spellings, as text and as a scope.
const (
	composed        = "caf\u00e9"
	decomposed      = "cafe\u0301"
	composedScope   = "shard:/caf%C3%A9"
	decomposedScope = "shard:/cafe%CC%81"
)

// olderShard commits a shard as a release did that took names as they came.
func olderShard(t *testing.T, log *memlog.Log, n int, scope sequencer.Scope, content string) {
	t.Helper()
	tx := sequencer.TxID("old.1." + string(rune('0'+n)))
	if n == 1 {
		must(log.Add(&sequencer.Intent{Kind: sequencer.IntentJoin, Agent: "old",
			Join: &sequencer.Join{ID: "old", Logic: 1}}))(t)
	}
	must(log.Add(&sequencer.Intent{Kind: sequencer.IntentSeal, Tx: tx, N: 1, Agent: "old", Incarnation: 1,
		Base: log.Seq(), Begin: &sequencer.Begin{}, Seal: &sequencer.Seal{Shards: []sequencer.ShardWrite{{Scope: scope,
			Type: "text/plain", Content: []byte(content)}}}}))(t)
	for _, o := range log.Outcomes() {
		if o.Tx == tx && o.Kind == sequencer.OutcomeCommitted {
			return
		}
	}
	t.Fatalf("%s is not committed: %+v", scope, log.Outcomes())
}

// TestNamesMeet holds that the spellings of a new name are one shard at every route that takes a scope.
func TestNamesMeet(t *testing.T) {
	log := newLog()
	a, b := start(t, "a", log.Door()), start(t, "b", log.Door())
	ctx := background(t)
	must(a.client.Put(ctx, "shard:/"+decomposed, []byte("1"), client.WriteOptions{}))(t)
	if err := b.view.Reach(ctx, log.Seq()); err != nil { // that was a's view
		t.Fatal(err)
	}
	for _, text := range []string{composed, decomposed, "shard:/" + composed, decomposedScope, composedScope} {
		if got := must(b.client.Get(ctx, text))(t); string(got.Content) != "1" {
			t.Errorf("%q: %+v", text, got)
		}
	}
	if list := must(b.client.List(ctx, decomposed, "", 10))(t); len(list.Items) != 1 ||
		list.Items[0].Scope != composedScope {
		t.Errorf("listed: %+v", list)
	}
	reader := open(ctx, t, b, client.BeginOptions{})
	must(reader.Read(ctx, "shard:/"+composed))(t)
	must(reader.Read(ctx, "shard:/"+decomposed+"/**"))(t)
	must(a.client.Put(ctx, decomposedScope, []byte("2"), client.WriteOptions{}))(t)
	if err := reader.Write(ctx, "shard:/"+decomposed, []byte("3"), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if d := must(reader.Seal(ctx))(t); d.Code != string(sequencer.CodeStaleRead) {
		t.Errorf("read by one spelling, overwritten by the other: %+v", d)
	}
	for _, o := range log.Outcomes() {
		for _, w := range o.Shards {
			if w.Scope != composedScope {
				t.Errorf("a new name is stored as %s", w.Scope)
			}
		}
	}
}

// TestTouchesMeet holds the same of touches, claims, announced reads and what an agent says of its acts.
func TestTouchesMeet(t *testing.T) {
	log := newLog()
	a, b := start(t, "a", log.Door()), start(t, "b", log.Door())
	ctx := background(t)
	older := open(ctx, t, a, client.BeginOptions{Mode: "ordered", May: writes("order:/" + decomposed)})
	younger := open(ctx, t, b, client.BeginOptions{Mode: "ordered"})
	short := 30 * time.Millisecond
	got := must(younger.Touch(ctx, writes("order:/"+composed), client.TouchOptions{Wait: &short}))(t)
	if got.State != api.TouchWaiting || got.BlockedBy[0].Tx != older.ID() {
		t.Errorf("claimed by one spelling, touched by the other: %+v", got)
	}
	if got := touch(ctx, t, older, writes("order:/"+composed)); got.State != api.TouchGranted {
		t.Errorf("its own claim: %+v", got)
	}
	if err := older.Abort(ctx, ""); err != nil {
		t.Fatal(err)
	}
	told := []client.SettledEffect{{Scopes: []string{"order:/" + decomposed}, Result: "clean"}}
	if d := must(older.Settle(ctx, told, true))(t); !d.Final {
		t.Errorf("told by the other spelling: %+v", d)
	}
	got = touch(ctx, t, younger, writes("order:/"+decomposed))
	if got.State != api.TouchGranted || got.Wants[0].Scope != "order:/caf%C3%A9" {
		t.Errorf("after it: %+v", got)
	}
	reader := open(ctx, t, a, client.BeginOptions{})
	must(reader.Announce(ctx, "order:/"+decomposed))(t)
	if d := must(younger.Seal(ctx))(t); d.State != api.StateCommitted {
		t.Fatalf("the younger one: %+v", d)
	}
	if d := must(reader.Seal(ctx))(t); d.Code != string(sequencer.CodeStaleRead) {
		t.Errorf("announced by one spelling, written by the other: %+v", d)
	}
}

// TestToolNamesMeet holds the same of tools, their servers, and arguments that become scopes.
func TestToolNamesMeet(t *testing.T) {
	log := newLog()
	a, b := start(t, "a", log.Door(), withPolicy(t, notesPolicy)), start(t, "b", log.Door(), withPolicy(t, notesPolicy))
	ctx := background(t)
	must(a.client.Do(ctx, "note", noteArgs{decomposed, "x"}, client.EffectOptions{}))(t)
	done := must(b.client.Do(ctx, "notes", noteArgs{ID: composed}, client.EffectOptions{Mode: "locked"}))(t)
	if string(done.Effect.Result) != `{"text":"x"}` || done.Effect.Scopes[0] != "shard:/notes/caf%C3%A9" {
		t.Errorf("an argument in its other spelling: %+v", done.Effect)
	}
	must(a.client.PutTool(ctx, "s"+decomposed, "t"+decomposed, "sig"))(t)
	tx := open(ctx, t, a, client.BeginOptions{})
	if d := must(tx.SealPinned(ctx, []client.Pin{{Server: "s" + composed, Name: "t" + composed,
		Signature: "sig"}}))(t); d.State != api.StateCommitted {
		t.Errorf("a pin in its other spelling: %+v", d)
	}
	if _, err := a.client.DeleteTool(ctx, "s"+composed, "t"+composed); err != nil {
		t.Errorf("withdrawn by its other spelling: %v", err)
	}
}

// TestNamesFeed holds that a filter in either spelling picks what has the one spelling, and what is stored under the
// bytes of the filter.
func TestNamesFeed(t *testing.T) {
	for _, text := range []string{composedScope, decomposedScope} {
		f := must(feed.NewFilter("", "", text, "", ""))(t)
		if !f.Match(&sequencer.Outcome{Scope: composedScope}) {
			t.Errorf("%s picks no new name", text)
		}
		if got := f.Match(&sequencer.Outcome{Scope: decomposedScope}); got != (text == decomposedScope) {
			t.Errorf("%s picks the stored name: %v", text, got)
		}
	}
}

// TestStoredName holds that a name that an older release stored is read and written under its own bytes, and is no
// other spelling's, until it is written empty.
func TestStoredName(t *testing.T) {
	log := newLog()
	olderShard(t, log, 1, decomposedScope, "old")
	a, b := start(t, "a", log.Door()), start(t, "b", log.Door(), withPolicy(t, notesPolicy))
	ctx := background(t)
	read := func(r *rig, text string) string {
		t.Helper()
		got := must(r.client.Get(ctx, text))(t)
		return string(got.Content)
	}
	if old, other := read(a, decomposed), read(a, composed); old != "old" || other != "" {
		t.Fatalf("under its bytes %q, under the other spelling %q", old, other)
	}
	rows := must(b.client.Frontier(ctx, decomposedScope, 10))(t).Rows
	if len(rows) != 1 || rows[0].Scope != decomposedScope {
		t.Errorf("the frontier: %+v", rows)
	}
	tx := open(ctx, t, b, client.BeginOptions{Mode: "locked"})
	if got := must(tx.Read(ctx, "shard:/"+decomposed))(t); string(got.Content) != "old" {
		t.Errorf("in a transaction: %+v", got)
	}
	must(a.client.Put(ctx, composed, []byte("new"), client.WriteOptions{}))(t)
	if err := tx.Write(ctx, "shard:/"+decomposed, []byte("changed"), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if d := must(tx.Seal(ctx))(t); d.State != api.StateCommitted {
		t.Fatalf("written under its bytes: %+v", d)
	}
	if err := a.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	if old, other := read(a, decomposed), read(a, composed); old != "changed" || other != "new" {
		t.Errorf("under its bytes %q, under the other spelling %q", old, other)
	}
	must(a.client.Put(ctx, decomposed, nil, client.WriteOptions{}))(t) // given up
	if err := b.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*rig{a, b} {
		if got := read(r, decomposed); got != "new" {
			t.Errorf("once it is empty its bytes mean the one spelling, and that holds %q", got)
		}
	}
}

// TestStoredNamesInPatterns holds that lists, touches and claims mean stored names, too, whichever way they are spelt.
func TestStoredNamesInPatterns(t *testing.T) {
	for _, text := range []string{composed, decomposed} {
		log := newLog()
		olderShard(t, log, 1, decomposedScope+"/a", "1")
		olderShard(t, log, 2, decomposedScope+"/b", "2")
		a, b := start(t, "a", log.Door()), start(t, "b", log.Door())
		ctx := background(t)
		must(a.client.Put(ctx, decomposed+"/c", []byte("3"), client.WriteOptions{}))(t)
		want := []string{composedScope + "/c", decomposedScope + "/a", decomposedScope + "/b"}
		if got := listAll(ctx, t, a, text); !slices.Equal(got, want) {
			t.Errorf("%q lists %v", text, got)
		}
		if err := b.view.Reach(ctx, log.Seq()); err != nil { // of another sidecar, which may be behind
			t.Fatal(err)
		}
		lister := open(ctx, t, b, client.BeginOptions{})
		if got := must(lister.Read(ctx, "shard:/"+text+"/**"))(t); len(got.Items) != 3 {
			t.Errorf("%q lists in a transaction: %+v", text, got.Items)
		}
		must(a.client.Put(ctx, decomposed+"/a", []byte("4"), client.WriteOptions{}))(t)
		if d := must(lister.Seal(ctx))(t); d.Code != string(sequencer.CodeStaleRead) {
			t.Errorf("%q: a stored name of its list was written: %+v", text, d)
		}
		claim := open(ctx, t, a, client.BeginOptions{Mode: "ordered", May: writes("shard:/" + text)})
		if err := claim.Write(ctx, "shard:/"+decomposed+"/a", []byte("5"), client.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		if d := must(claim.Seal(ctx))(t); d.State != api.StateCommitted {
			t.Errorf("%q: a stored name lies within its claim: %+v", text, d)
		}
		holder := open(ctx, t, a, client.BeginOptions{Mode: "ordered"})
		if got := touch(ctx, t, holder, writes("shard:/"+text)); len(got.Wants) != 2 {
			t.Errorf("%q: touched %+v", text, got.Wants)
		}
	}
}

// TestStoredNamesOfTools holds the same of the scopes that a policy gives to a call.
func TestStoredNamesOfTools(t *testing.T) {
	log := newLog()
	olderShard(t, log, 1, decomposedScope, "1")
	a := start(t, "a", log.Door(), withPolicy(t, `version: 1
server: s
tools:
  - {tool: act, class: irreversible, args: [id], scopes: ["shard:/{id}/x"], may: ["shard:/{id}"],
     exec: {argv: [act]}}
`))
	for _, id := range []string{composed, decomposed} {
		tool := must(flow(a.session, func() (gate.Tool, error) {
			return a.session.toolOf(background(t), toolCall{tool: "act", args: []byte(`{"id":"` + id + `"}`)})
		}))(t)
		if !slices.Equal(tool.Scopes, []sequencer.Scope{composedScope + "/x", decomposedScope + "/x"}) ||
			!slices.Equal(tool.May, []sequencer.Scope{composedScope, decomposedScope}) {
			t.Errorf("%q: %v within %v", id, tool.Scopes, tool.May)
		}
	}
}

// TestSettledAsHandedOver holds that scopes that an older release handed over are settled under their bytes.
func TestSettledAsHandedOver(t *testing.T) {
	told := &sequencer.Settle{Effects: []sequencer.Settled{{
		Scopes: []sequencer.Scope{"order:/e%CC%81/1", "order:/o%CC%88"}}}}
	if err := asHandedOver(told, []sequencer.Scope{"order:/e%CC%81", "order:/%C3%B6"}); err != nil {
		t.Fatal(err)
	}
	if got := told.Effects[0].Scopes; got[0] != "order:/e%CC%81/1" || got[1] != "order:/%C3%B6" {
		t.Errorf("settled: %v", got)
	}
}

// listAll lists a prefix in pages of one.
func listAll(ctx context.Context, t *testing.T, r *rig, prefix string) (out []string) {
	t.Helper()
	for after := ""; ; {
		page := must(r.client.List(ctx, prefix, after, 1))(t)
		for _, item := range page.Items {
			out = append(out, item.Scope)
		}
		if after = page.Next; after == "" {
			return out
		}
	}
}

// TestNamesOfAgents holds that the names of agents and workspaces have one spelling because they have ASCII only.
func TestNamesOfAgents(t *testing.T) {
	for _, name := range []string{composed, decomposed} {
		if err := ValidAgent(name); err == nil {
			t.Errorf("agent %q is taken", name)
		}
		if err := topology.ValidWorkspace(name); err == nil {
			t.Errorf("workspace %q is taken", name)
		}
	}
}
