package agent

import (
	"strings"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

// What one conversation has read outside transactions goes to its own next seal only, whatever makes that seal, also
// after a crash.
func TestConversations(t *testing.T) {
	log := newLog()
	a, b := start(t, "a", log.Door()), start(t, "b", log.Door())
	ctx := background(t)
	overtake := func(scope string) {
		t.Helper()
		must(b.client.Put(ctx, scope, []byte("1"), client.WriteOptions{}))(t)
		if err := a.view.Reach(ctx, log.Seq()); err != nil {
			t.Fatal(err)
		}
	}
	put := func(c *client.Client, session, want string) {
		t.Helper()
		d := must(c.Put(ctx, "shard:/y/"+session, []byte("y"), client.WriteOptions{}))(t)
		if d.Code != want || d.Session != session {
			t.Fatalf("put in %q: %+v, wanted %q", session, d, want)
		}
	}
	p, q := a.client.Session("p"), a.client.Session("q")
	must(p.Get(ctx, "shard:/x"))(t)
	must(q.Get(ctx, "shard:/z"))(t)
	overtake("shard:/x")
	put(q, "q", "")
	put(a.client, "", "")
	put(p, "p", "stale_read")
	put(p, "p", "")

	must(p.Get(ctx, "shard:/x"))(t)
	tx := must(q.Begin(ctx, client.BeginOptions{}))(t)
	overtake("shard:/x")
	if d := must(tx.Seal(ctx))(t); d.State != api.StateCommitted || d.Session != "q" {
		t.Fatalf("a transaction of the other conversation: %+v", d)
	}
	must(q.Get(ctx, "shard:/z"))(t)
	must(a.client.Get(ctx, "shard:/d"))(t)
	if n := must(q.EndSession(ctx))(t); n != 1 {
		t.Fatalf("%d reads are dropped, wanted 1", n)
	}

	a = a.crash(t, log.Door(), nil)
	p, q = a.client.Session("p"), a.client.Session("q")
	overtake("shard:/z")
	overtake("shard:/d")
	put(q, "q", "") // it has ended
	put(p, "p", "stale_read")
	put(a.client, "", "stale_read")
}

// Two conversations wait for each other's open transactions as strangers do, and the one that is waited for goes on.
// Within one of them that wait is refused.
func TestConversationsWait(t *testing.T) {
	log := newLog()
	a := start(t, "a", log.Door())
	ctx := background(t)
	p, q := a.client.Session("p"), a.client.Session("q")
	begin := func(c *client.Client) *client.Tx { return must(c.Begin(ctx, client.BeginOptions{}))(t) }
	waits := func(n int) {
		t.Helper()
		err := log.Until(ctx, func() bool {
			found := 0
			for _, o := range log.Outcomes() {
				if o.Kind == sequencer.OutcomeWaiting {
					found++
				}
			}
			return found == n
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	holder := begin(p)
	touch(ctx, t, holder, writes("order:/1", "shard:/s"))
	if _, err := begin(p).Touch(ctx, writes("order:/1"), client.TouchOptions{}); problemCode(err) != "own_transaction" {
		t.Fatalf("a touch that waits for itself: %v", err)
	}
	if d := must(p.Put(ctx, "shard:/s", []byte("p"), client.WriteOptions{}))(t); d.Code != "own_transaction" {
		t.Fatalf("a seal that waits for itself: %+v", d)
	}

	other := begin(q)
	touched, written := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := other.Touch(ctx, writes("order:/1"), client.TouchOptions{})
		touched <- err
	}()
	waits(1)
	go func() {
		_, err := a.client.Put(ctx, "shard:/s", []byte("q"), client.WriteOptions{})
		written <- err
	}()
	waits(2)
	must(holder.Read(ctx, "shard:/t"))(t) // the sidecar serves the holder while the two wait
	if d := must(holder.Seal(ctx))(t); d.State != api.StateCommitted {
		t.Fatalf("seal: %+v", d)
	}
	for _, waited := range []chan error{touched, written} {
		if err := <-waited; err != nil {
			t.Fatalf("after the holder's end: %v", err)
		}
	}
	if d := must(other.Seal(ctx))(t); d.State != api.StateCommitted {
		t.Fatalf("seal: %+v", d)
	}
}

// A retry stays in the conversation of its transaction.
func TestConversationOfARetry(t *testing.T) {
	log := newLog()
	a, b := start(t, "a", log.Door()), start(t, "b", log.Door())
	ctx := background(t)
	tx := must(a.client.Session("p").Begin(ctx, client.BeginOptions{}))(t)
	must(tx.Read(ctx, "shard:/x"))(t)
	must(b.client.Put(ctx, "shard:/x", []byte("1"), client.WriteOptions{}))(t)
	if err := a.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	if d := must(tx.Seal(ctx))(t); d.Code != "stale_read" {
		t.Fatalf("seal: %+v", d)
	}
	next := must(a.client.Tx(tx.ID()).Retry(ctx))(t)
	if s := next.Opened().Session; s != "p" {
		t.Fatalf("the next attempt is of conversation %q", s)
	}
}

// A header that names no conversation is refused; keys of two conversations are two keys.
func TestConversationHeader(t *testing.T) {
	log := newLog()
	a := start(t, "a", log.Door())
	begin := func(name string, header ...string) (int, *api.Problem, string) {
		status, p, h := a.send(t, with(post(inDefault+"/tx", ""), append(header, "Hence-Session", name)...))
		return status, p, h.Get("Location")
	}
	for _, name := range []string{strings.Repeat("s", 65), "a\tb", "ü"} {
		if status, p, _ := begin(name); status != 400 || p.Code != api.CodeBadRequest {
			t.Errorf("%q: %d %+v", name, status, p)
		}
	}
	if status, p, _ := begin(strings.Repeat("s", 64)); status != 201 {
		t.Fatalf("64 bytes: %d %+v", status, p)
	}
	_, _, one := begin("p", "Idempotency-Key", "k")
	_, _, other := begin("q", "Idempotency-Key", "k")
	_, _, again := begin("p", "Idempotency-Key", "k")
	if one == other || one != again {
		t.Fatalf("the key made %s in p, %s in q, and again in p %s", one, other, again)
	}
}

// Beyond the bound a new conversation is told so: no other one's reads are forgotten for it.
func TestConversationLimit(t *testing.T) {
	log := newLog()
	a := start(t, "a", log.Door(), func(c *setup) { c.Limits.Conversations = 2 })
	ctx := background(t)
	read := func(session string) error {
		_, err := a.client.Session(session).Get(ctx, "shard:/x")
		return err
	}
	for range 2 {
		for _, session := range []string{"p", "q"} {
			if err := read(session); err != nil {
				t.Fatal(err)
			}
		}
	}
	if p := problemIn(t, read("r")); p.Code != api.CodeLimit || !strings.Contains(p.Detail, "/session") {
		t.Fatalf("a third one: %+v", p)
	}
	must(a.client.Session("q").EndSession(ctx))(t)
	if err := read("r"); err != nil {
		t.Fatal(err)
	}
}

// After the loss of a journal every conversation is told to read again, once each: what one of them is told the others
// do not know. So is one whose name was never there; one that has ended is not. A second loss repeats it all.
func TestEachConversationIsTold(t *testing.T) {
	ctx, log := background(t), newLog()
	b, a := start(t, "b", log.Door()), start(t, "a", log.Door())
	names := []string{"one", "two", "ended", ""}
	put := func(r *rig, name string) error {
		d, err := r.client.Session(name).Put(ctx, "shard:/y/"+name, []byte("rests on x"), client.WriteOptions{})
		if err == nil && d.State != api.StateCommitted {
			t.Fatalf("put in %q: %+v", name, d)
		}
		return err
	}
	goesOn := func(r *rig, names ...string) {
		t.Helper()
		for _, name := range names {
			if err := put(r, name); err != nil {
				t.Fatalf("%q has been told: %v", name, err)
			}
		}
	}
	missing := func([]byte) []byte { return nil }
	for _, name := range names {
		must(a.client.Session(name).Get(ctx, "shard:/x"))(t)
	}
	must(b.client.Put(ctx, "shard:/x", []byte("1"), client.WriteOptions{}))(t)
	a = a.crash(t, log.Door(), missing)
	lost(t, put(a, "one"))
	goesOn(a, "one")
	must(a.client.Session("ended").EndSession(ctx))(t)
	goesOn(a, "ended")
	lost(t, put(a, "two"))
	a = a.crash(t, log.Door(), nil) // before two comes again
	goesOn(a, "one", "ended")
	for _, name := range []string{"two", "", "new"} {
		lost(t, put(a, name))
		goesOn(a, name)
	}
	a = a.crash(t, log.Door(), nil)
	goesOn(a, "one", "two", "ended", "", "new")
	a = a.crash(t, log.Door(), missing)
	for _, name := range names {
		lost(t, put(a, name))
	}
	goesOn(a, names...)
}
