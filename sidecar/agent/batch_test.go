package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

// version is a read of a shard at a version.
func version(scope string, seq uint64) client.SeenAt {
	return client.SeenAt{Scope: scope, Version: &seq}
}

func asOf(scope string, seq uint64) client.SeenAt { return client.SeenAt{Scope: scope, AsOf: seq} }

// refusedAs is the problem that a call ended with.
func refusedAs(t *testing.T, err error, code string) *client.Problem {
	t.Helper()
	var p *client.Problem
	if !errors.As(err, &p) || p.Code != code {
		t.Fatalf("refused with %v, want %s", err, code)
	}
	return p
}

// Many scopes are read at one view: shards, absent ones, lists, and JSON as values. The next seal of the conversation
// carries them.
func TestReadAll(t *testing.T) {
	log := newLog()
	a, ctx := start(t, "a", log.Door()), background(t)
	must(a.client.Commit(ctx, client.Commit{Writes: []client.Write{
		{Scope: "shard:/cfg/json", Value: map[string]any{"a": []int{1, 2}}}, {Scope: "shard:/cfg/text",
			Content: []byte("x")},
		{Scope: "shard:/cfg/bytes", Content: []byte{0xff, 0}},
		{Scope: "shard:/cfg/broken", Content: []byte("{"), MediaType: "application/json"},
	}}))(t)
	got, view, err := a.client.ReadAll(ctx, "shard:/cfg/json", "shard:/cfg/text", "shard:/cfg/bytes",
		"shard:/cfg/none",
		"shard:/cfg/**", "shard:/cfg/broken")
	if err != nil {
		t.Fatal(err)
	}
	if string(got[0].Content) != `{"a":[1,2]}` || got[0].MediaType != "application/json" ||
		string(got[1].Content) != "x" ||
		string(got[2].Content) != "\xff\x00" || got[3].Exists || got[3].Version != 0 || len(got[4].Items) != 4 ||
		string(got[5].Content) != "{" {
		t.Errorf("read %+v", got)
	}
	for _, one := range got {
		if one.View != view {
			t.Errorf("%s is of view %d, and the answer of %d", one.Scope, one.View, view)
		}
	}
	must(start(t, "b", log.Door()).client.Put(ctx, "shard:/cfg/none", []byte("now"), client.WriteOptions{}))(t)
	if err := a.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	if d := must(a.client.Put(ctx, "shard:/y", nil, client.WriteOptions{}))(t); d.Code != "stale_read" {
		t.Errorf("what was read of many scopes binds nothing: %+v", d)
	}
}

// From 1 to 128 scopes are read at once.
func TestReadAllBounds(t *testing.T) {
	a, ctx := start(t, "a", newLog().Door()), background(t)
	var scopes []string
	for i := range 129 {
		scopes = append(scopes, fmt.Sprintf("shard:/s/%d", i))
	}
	if got, _, err := a.client.ReadAll(ctx, scopes[:128]...); err != nil || len(got) != 128 {
		t.Errorf("128 scopes: %d, %v", len(got), err)
	}
	_, _, err := a.client.ReadAll(ctx, scopes...)
	refusedAs(t, err, "bad_request")
	_, _, err = a.client.ReadAll(ctx)
	refusedAs(t, err, "bad_request")
	_, _, err = a.client.ReadAll(ctx, "thing:/x")
	refusedAs(t, err, "bad_scope")
	large := strings.Repeat("x", 200<<10)
	for i := range 41 {
		must(a.client.Put(ctx, scopes[i], []byte(large), client.WriteOptions{}))(t)
	}
	_, _, err = a.client.ReadAll(ctx, scopes[:42]...)
	refusedAs(t, err, "too_large")
}

// A commit reads, writes, calls and seals in one request. What the agent has read must still stand; if it does not,
// the answer is there at once, says what moved, and nothing is begun.
func TestCommit(t *testing.T) {
	for _, mode := range []string{"optimistic", "ordered", "locked"} {
		t.Run(mode, func(t *testing.T) {
			log, world := newLog(), newSink()
			a, ctx := start(t, "a", log.Door(), quick(world)), background(t)
			commit := func(seq uint64, content string) (client.Committed, error) {
				return a.client.Commit(ctx, client.Commit{Mode: mode, Level: "L4",
					Reads:   []client.SeenAt{version("shard:/x", seq)},
					Writes:  []client.Write{{Scope: "shard:/x", Content: []byte(content)}},
					Effects: []client.Call{{Tool: "look", Args: at{At: "x"}}, {Tool: "mail", Args: at{At: content}}}})
			}
			one := must(commit(0, "1"))(t)
			if one.Decision.State != api.StateCommitted || one.Decision.Mode != mode || len(one.Effects) != 2 ||
				string(one.Effects[0].Result) != `"look x"` || one.Effects[1].Tool != "mail" {
				t.Fatalf("committed %+v", one)
			}
			a.final(ctx, t, one.Tx)
			before := len(log.Intents())
			_, err := commit(0, "2")
			p := refusedAs(t, err, "stale_read")
			if p.MovedSeq != one.Decision.Seq || p.MovedBy != one.Tx || p.Scope != "shard:/x" || p.By != "sidecar" ||
				!slices.Equal(p.ReRead, []string{"shard:/x"}) || !p.Retryable || p.SafeSameKey {
				t.Errorf("stale: %+v", p)
			}
			if sent := begun(log.Intents()[before:]); sent != 0 {
				t.Errorf("%d transactions of a commit that was stale at once are in the log", sent)
			}
			if two := must(commit(one.Decision.Seq, "2"))(t); two.Decision.State != api.StateCommitted {
				t.Errorf("committed %+v", two)
			} else {
				a.final(ctx, t, two.Tx)
			}
			world.set(func() {
				world.done = slices.DeleteFunc(world.done, func(s string) bool {
					return s == "look "+
						"x"
				})
			})
			world.expect(t, "mail 1", "mail 2")
		})
	}
}

// begun counts the intents that belong to a transaction.
func begun(list []*sequencer.Intent) (n int) {
	for _, in := range list {
		if in.Tx != "" {
			n++
		}
	}
	return n
}

// A view that is behind what the agent has seen is waited for; a seq beyond the end of the log is refused.
func TestCommitBehind(t *testing.T) {
	log := newLog()
	behind := log.Door()
	a, b, ctx := start(t, "a", behind), start(t, "b", log.Door()), background(t)
	behind.Hold()
	wrote := must(b.client.Put(ctx, "shard:/x", []byte("1"), client.WriteOptions{}))(t)
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	in := client.Commit{Reads: []client.SeenAt{version("shard:/x", wrote.Seq)},
		Writes: []client.Write{{Scope: "shard:/x", Content: []byte("2")}}}
	if _, err := a.client.Commit(short, in); err == nil {
		t.Fatal("a view that is behind has taken a commit")
	}
	done := make(chan client.Committed, 1)
	go func() {
		out, err := a.client.Commit(ctx, in)
		if err != nil {
			t.Error(err)
		}
		done <- out
	}()
	behind.Release()
	if out := <-done; out.Decision.State != api.StateCommitted {
		t.Errorf("committed %+v", out)
	}
	in.Reads[0] = version("shard:/x", uint64(log.Seq())+1000)
	_, err := a.client.Commit(ctx, in)
	refusedAs(t, err, "seq_from_future")
}

// A pattern, and what Hence does not keep, is read as of a seq; one shard at a version.
func TestCommitAsOf(t *testing.T) {
	log, world := newLog(), newSink()
	a, ctx := start(t, "a", log.Door(), quick(world)), background(t)
	open(ctx, t, a, client.BeginOptions{}) // the floor stays below what is read: nothing here is too old
	first := must(a.client.Do(ctx, "mail", at{At: "x"}, client.EffectOptions{}))(t)
	a.final(ctx, t, first.Tx)
	put := must(a.client.Put(ctx, "shard:/l/1", []byte("1"), client.WriteOptions{}))(t)
	commit := func(reads ...client.SeenAt) (client.Committed, error) {
		return a.client.Commit(ctx, client.Commit{Reads: reads, Writes: []client.Write{{Scope: "shard:/y"}}})
	}
	for _, bad := range []client.SeenAt{{Scope: "thing:/x"}, version("thing:/x", 1), {Scope: "shard:/l/1"},
		asOf("shard:/l/1", 1),
		{Scope: "shard:/l/**"}, version("shard:/l/**", 1)} {
		_, err := commit(bad)
		if p := refusedAs(t, err, "bad_request"); !strings.Contains(p.Detail, "needs") {
			t.Errorf("%+v: %s", bad, p.Detail)
		}
	}
	_, err := commit(asOf("nothing:/x", put.Seq))
	refusedAs(t, err, "unknown_type")
	if out := must(commit(asOf("thing:/x", put.Seq), asOf("shard:/l/**",
		put.Seq)))(t); out.Decision.State != "committed" {
		t.Errorf("committed %+v", out)
	}
	second := must(a.client.Do(ctx, "mail", at{At: "x"}, client.EffectOptions{}))(t)
	a.final(ctx, t, second.Tx)
	if out := must(commit(asOf("thing:/x", put.Seq)))(t); out.Decision.Code != "stale_read" {
		t.Errorf("what moved after as_of is not stale: %+v", out)
	}
	twice := must(commit(asOf("thing:/x", second.Decision.Seq+1), asOf("thing:/x", put.Seq)))(t)
	if twice.Decision.Code != "stale_read" {
		t.Errorf("of two reads of a scope the older one does not count: %+v", twice)
	}
	must(a.client.Put(ctx, "shard:/l/2", []byte("2"), client.WriteOptions{}))(t)
	_, err = commit(asOf("shard:/l/**", put.Seq))
	refusedAs(t, err, "stale_read")
}

// What is refused of a commit's parts refuses all of it: nothing is written, nothing happens in the world, or it is
// undone.
func TestCommitRefused(t *testing.T) {
	log, world := newLog(), newSink()
	a, ctx := start(t, "a", log.Door(), quick(world)), background(t)
	world.set(func() { world.deny["charge"] = true })
	must(a.client.Put(ctx, "shard:/x", []byte("1"), client.WriteOptions{}))(t)
	write := client.Write{Scope: "shard:/y", Content: []byte("1")}
	absent := uint64(0)
	for code, in := range map[string]client.Commit{
		"tool_unusable": {Writes: []client.Write{write}, Effects: []client.Call{{Tool: "mail", Args: at{At: "a"}},
			{Tool: "mail"}}},
		"tool_failed": {Writes: []client.Write{write}, Effects: []client.Call{{Tool: "set", Args: at{At: "b"}},
			{Tool: "charge", Args: at{At: "b"}}}},
		"version_mismatch": {Writes: []client.Write{{Scope: "shard:/x", IfVersion: &absent}, write}},
		"bad_request":      {Writes: []client.Write{{Scope: "shard:/y", Value: 1, MediaType: "text/plain"}}},
		"bad_scope":        {Writes: []client.Write{{Scope: "thing:/y"}}},
	} {
		_, err := a.client.Commit(ctx, in)
		refusedAs(t, err, code)
	}
	gone := func() bool {
		list := world.world()
		return slices.Contains(list, "back b")
	}
	if err := log.Until(ctx, gone); err != nil {
		t.Errorf("the world saw %q: %v", world.world(), err)
	}
	world.expect(t, "set b", "back b")
	if got := must(a.client.Look(ctx, "shard:/y"))(t); got.Exists {
		t.Error("a refused commit has written")
	}
	for _, bad := range []string{`{"writes":[{"scope":"shard:/y","value":{}}`, `{"writes":[{"scope":"shard:/y",` +
		`"value":tru}]}`,
		`{"writes":[{"scope":"shard:/y","value":1,"content":"1"}]}`, `{"writes":[{"scope":"shard:/y"}]}`,
		`{"reads":{}}`,
		`{"mode":"fast"}`, `{"level":"L9"}`} {
		if status, p, _ := a.send(t, post(inDefault+"/commit", bad)); status != http.StatusBadRequest {
			t.Errorf("%s: %d %+v", bad, status, p)
		}
	}
}

// A value is stored as the JSON that it is, without space between its parts; null is a value.
func TestValue(t *testing.T) {
	a, ctx := start(t, "a", newLog().Door()), background(t)
	tx := open(ctx, t, a, client.BeginOptions{})
	for scope, value := range map[string]string{"one": `{ "b" : 1.50, "a": [ ] }`, "two": `null`,
		"three": ` "text" `} {
		body := fmt.Sprintf(`{"scope":"shard:/%s","value":%s}`, scope, value)
		if status, p, _ := a.send(t, post("/v1/tx/"+tx.ID()+"/writes", body)); status != http.StatusOK {
			t.Fatalf("%s: %d %+v", body, status, p)
		}
	}
	must(tx.Seal(ctx))(t)
	for scope, want := range map[string]string{"one": `{"b":1.50,"a":[]}`, "two": `null`, "three": `"text"`} {
		rev, _ := a.view.Read(sequencer.Scope("shard:/" + scope))
		all, _, err := a.client.ReadAll(ctx, "shard:/"+scope)
		if string(rev.Content) != want || rev.Media != "application/json" || err != nil ||
			string(all[0].Content) != want {
			t.Errorf("%s is %s %q, %+v, %v", scope, rev.Media, rev.Content, all, err)
		}
	}
}

// A conversation that is owed a 410 is told by its commit, once.
func TestCommitTells410(t *testing.T) {
	log := newLog()
	a, ctx := start(t, "a", log.Door()), background(t)
	must(a.client.Get(ctx, "shard:/x"))(t)
	b := a.crash(t, log.Door(), func([]byte) []byte { return nil })
	commit := func() error {
		_, err := b.client.Commit(ctx, client.Commit{Writes: []client.Write{{Scope: "shard:/y"}}})
		return err
	}
	lost(t, commit())
	if err := commit(); err != nil {
		t.Error(err)
	}
}

// In a workspace that observes, a commit whose reads are stale goes to the log, which says what it would have been.
func TestCommitObserves(t *testing.T) {
	log := newLog()
	a, ctx := start(t, "a", log.Door()), background(t)
	observe := true
	must(a.client.SetRules(ctx, 0, client.RulesChange{Observe: &observe}))(t)
	for i, stale := range []uint64{0, 0, 1} {
		first := must(a.client.Look(ctx, "shard:/x"))(t)
		out := must(a.client.Commit(ctx, client.Commit{Reads: []client.SeenAt{version("shard:/x", min(first.Version,
			stale))},
			Writes: []client.Write{{Scope: "shard:/x", Content: fmt.Append(nil, i)}}}))(t)
		if out.Decision.State != api.StateCommitted || (out.Decision.Would == "stale_read") != (i > 0) {
			t.Errorf("commit %d: %+v", i, out.Decision)
		}
	}
}

// The same request with the same key is done once, and its answer comes again; one that was refused for now may be
// made again.
func TestCommitKey(t *testing.T) {
	log, world := newLog(), newSink()
	a, ctx := start(t, "a", log.Door(), quick(world)), background(t)
	request := with(post(inDefault+"/commit", `{"reads":[{"scope":"shard:/x","version":0}],`+
		`"writes":[{"scope":"shard:/x","value":1}],"effects":[{"tool":"mail","args":{"at":"x"}}]}`),
		"Idempotency-Key", "k")
	for i, replayed := range []string{"", "true"} {
		status, p, header := a.send(t, request)
		if status != http.StatusOK || header.Get("Idempotency-Replayed") != replayed {
			t.Fatalf("try %d: %d %+v %v", i, status, p, header)
		}
	}
	if n := len(committed(log)); n != 1 {
		t.Errorf("%d commits", n)
	}
	a.final(ctx, t, string(committed(log)[0].Tx))
	world.expect(t, "mail x")
}

// A GET waits for the version after the one that it names, or answers 304 after its time. One that is woken is a read.
func TestAwaitVersion(t *testing.T) {
	log := newLog()
	a, b, ctx := start(t, "a", log.Door()), start(t, "b", log.Door()), background(t)
	wait := func(known uint64, d time.Duration) client.Shard {
		return must(a.client.Await(ctx, "shard:/x", known, d))(t)
	}
	if got := wait(0, time.Millisecond); got.Exists {
		t.Errorf("absent: %+v", got)
	}
	put := must(b.client.Put(ctx, "shard:/x", []byte("1"), client.WriteOptions{}))(t)
	if got := wait(0, testWait); string(got.Content) != "1" {
		t.Errorf("created: %+v", got)
	}
	if got := wait(put.Seq, time.Millisecond); got.Version != put.Seq || len(got.Content) > 0 {
		t.Errorf("unchanged: %+v", got)
	}
	woken := make(chan client.Shard, 1)
	go func() { woken <- wait(put.Seq, testWait) }()
	must(b.client.Put(ctx, "shard:/other", nil, client.WriteOptions{}))(t)
	must(b.client.Put(ctx, "shard:/x", []byte("2"), client.WriteOptions{}))(t)
	if got := <-woken; string(got.Content) != "2" {
		t.Errorf("woken by %+v", got)
	}
	must(b.client.Put(ctx, "shard:/x", []byte("3"), client.WriteOptions{}))(t)
	if err := a.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	if d := must(a.client.Put(ctx, "shard:/y", nil, client.WriteOptions{}))(t); d.Code != "stale_read" {
		t.Errorf("a woken reader's read binds nothing: %+v", d)
	}
	for _, bad := range []rawCall{get(inDefault + "/shards/x?wait_ms=1"),
		with(get(inDefault+"/shards/x?wait_ms=1&version=1"), "If-None-Match", `"1"`),
		with(get(inDefault+"/shards/x?wait_ms=-1"), "If-None-Match", `"1"`)} {
		if status, _, _ := a.send(t, bad); status != http.StatusBadRequest {
			t.Errorf("%s: %d", bad.path, status)
		}
	}
}

// At most a thousand requests wait for versions. They hold no place for requests, and the sidecar's stop ends them.
func TestAwaitVersionBounds(t *testing.T) {
	log := newLog()
	a := start(t, "a", log.Door(), func(c *setup) { c.Limits.Requests = 4 })
	ask := func() string {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, inDefault+"/shards/x?wait_ms=30000", nil)
		r.Header.Set("Authorization", "Bearer "+a.Token())
		r.Header.Set("If-None-Match", `"0"`)
		out := httptest.NewRecorder()
		a.face.ServeHTTP(out, r)
		var p api.Problem
		if err := json.Unmarshal(out.Body.Bytes(), &p); err != nil {
			t.Errorf("%d %s", out.Code, out.Body)
		}
		return p.Code
	}
	answers := make(chan string, 1100)
	for range 1100 {
		go func() {
			code := api.CodeBusy
			for code == api.CodeBusy { // the others are on their way to wait
				code = ask()
			}
			answers <- code
		}()
	}
	for range 100 {
		if code := <-answers; code != api.CodeLimit {
			t.Errorf("one too many is answered %s", code)
		}
	}
	must(a.client.Put(background(t), "shard:/y", nil, client.WriteOptions{}))(t)
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if code := <-answers; code != api.CodeNotFound && code != api.CodeStopping {
			t.Fatalf("the stop ends a wait with %s", code)
		}
	}
}

// A request of one transaction whose seal the log refuses, while another transaction of the agent is in the way,
// leaves nothing open, with a key as without one: the answer is final, so no request comes back for its transaction.
func TestSealRefusedLeavesNothing(t *testing.T) {
	for _, request := range []rawCall{
		post(inDefault+"/commit", `{"mode":"ordered","writes":[{"scope":"shard:/x","content":"1"}]}`),
		with(post(inDefault+"/commit", `{"mode":"ordered","writes":[{"scope":"shard:/x","content":"1"}]}`),
			"Idempotency-Key", "k"),
		put(inDefault + "/shards/x"),
		with(put(inDefault+"/shards/x"), "Idempotency-Key", "k"),
		post("/v1/effects", `{"tool":"set","args":{"at":"x"}}`),
		with(post("/v1/effects", `{"tool":"set","args":{"at":"x"}}`), "Idempotency-Key", "k"),
	} {
		log := newLog()
		a, ctx := start(t, "a", log.Door(), quick(newSink())), background(t)
		first := must(a.client.Begin(ctx, client.BeginOptions{Mode: "locked"}))(t)
		must(first.Read(ctx, "shard:/x"))(t)
		a.send(t, post("/v1/tx/"+first.ID()+"/reads", `{"scope":"thing:/x","announce":true}`))
		if status, p, _ := a.send(t, request); status != http.StatusConflict || p.Code != "own_transaction" {
			t.Fatalf("%+v: %d %+v", request, status, p)
		}
		must(first.Seal(ctx))(t)
		var open api.TxList
		none := func() bool { // what has called is aborted once its calls have ended
			open = must(a.client.Transactions(ctx, client.Page{Pick: map[string]string{"state": api.StateOpen}}))(t)
			return len(open.Items) == 0
		}
		if err := log.Until(ctx, none); err != nil {
			t.Errorf("%+v: open is %+v: %v", request, open.Items, err)
		}
	}
}

// A commit of more reads than a footprint has is refused before the view is asked for any of them: the agent's loop
// would be held meanwhile, and with it the view of all agents.
func TestCommitOfTooManyReads(t *testing.T) {
	a, ctx := start(t, "a", newLog().Door()), background(t)
	one := must(a.client.Put(ctx, "shard:/x", nil, client.WriteOptions{}))(t)
	must(a.client.Put(ctx, "shard:/y", nil, client.WriteOptions{}))(t)
	var in client.Commit
	for range 10_000 {
		in.Reads = append(in.Reads, asOf("shard:/**", one.Seq))
	}
	_, err := a.client.Commit(ctx, in)
	refusedAs(t, err, "limit")
}

// The condition of a write holds also where a later one of the same commit replaces its content.
func TestCommitWritesTwice(t *testing.T) {
	log := newLog()
	behind := log.Door()
	a, b, ctx := start(t, "a", behind), start(t, "b", log.Door()), background(t)
	first := must(b.client.Put(ctx, "shard:/x", []byte("1"), client.WriteOptions{}))(t)
	if err := a.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	behind.Hold()
	must(b.client.Put(ctx, "shard:/x", []byte("2"), client.WriteOptions{}))(t)
	code, seen := make(chan string, 1), log.Seq()
	go func() {
		out, err := a.client.Commit(ctx, client.Commit{Writes: []client.Write{
			{Scope: "shard:/x", Content: []byte("3"), IfVersion: &first.Seq}, {Scope: "shard:/x", Content: []byte("4")}}})
		var p *client.Problem
		if errors.As(err, &p) { // a beat of the session came before the seal, and the view showed the write in time
			out.Decision.Code = p.Code
		}
		code <- out.Decision.Code
	}()
	if err := log.Until(ctx, func() bool { return log.Seq() > seen }); err != nil {
		t.Fatal(err)
	}
	behind.Release()
	if got := <-code; got != "version_mismatch" {
		t.Errorf("the condition is gone: %q", got)
	}
}

// So it does where each write of a transaction is a request of its own.
func TestTransactionWritesTwice(t *testing.T) {
	log := newLog()
	a, b, ctx := start(t, "a", log.Door()), start(t, "b", log.Door()), background(t)
	first := must(b.client.Put(ctx, "shard:/x", []byte("1"), client.WriteOptions{}))(t)
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	err := errors.Join(tx.Write(ctx, "shard:/x", []byte("3"), client.WriteOptions{IfVersion: &first.Seq}),
		tx.Write(ctx, "shard:/x", []byte("4"), client.WriteOptions{}))
	if err != nil {
		t.Fatal(err)
	}
	must(b.client.Put(ctx, "shard:/x", []byte("2"), client.WriteOptions{}))(t)
	d, err := tx.Seal(ctx)
	if code := cmp.Or(d.Code, problemCode(err)); code != "version_mismatch" {
		t.Errorf("the condition is gone: %+v, %v", d, err)
	}
}

// A call in one request without a key, whose answer was not waited for, leaves nothing open: no request names it.
func TestCallInOneRequestIsBrokenOff(t *testing.T) {
	log, world := newLog(), newSink()
	a, b, ctx := start(t, "a", log.Door(), quick(world)), start(t, "b", log.Door(), quick(world)), background(t)
	holds := must(b.client.Begin(ctx, client.BeginOptions{}))(t)
	must(holds.Effect(ctx, "set", at{At: "x"}, client.EffectOptions{}))(t)
	if status, p, _ := a.send(t, post("/v1/effects?wait_ms=100", `{"tool":"set","args":{"at":"x"}}`)); status < 400 {
		t.Fatalf("it did not wait for the other one: %d %+v", status, p)
	}
	must(holds.Seal(ctx))(t)
	var open api.TxList
	none := func() bool {
		open = must(a.client.Transactions(ctx, client.Page{Pick: map[string]string{"state": api.StateOpen}}))(t)
		return len(open.Items) == 0
	}
	if err := log.Until(ctx, none); err != nil {
		t.Errorf("open is %+v: %v", open.Items, err)
	}
	world.expect(t, "set x")
}
