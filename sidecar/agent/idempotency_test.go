package agent

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sidecar/api"
	face "github.com/hence-dev/hence/sidecar/http"
)

// One Idempotency-Key is one request: in flight it is refused, with another body too, afterwards the answer is stored.
func TestIdempotency(t *testing.T) {
	log := newLog()
	door := log.Door()
	a := start(t, "a", door)
	ctx := background(t)
	put := put(inDefault+"/shards/x", "Idempotency-Key", "k1")
	if err := a.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	door.Hold()
	first, at := make(chan int, 1), log.Seq()
	go func() {
		status, _, _ := a.send(t, put)
		first <- status
	}()
	if err := log.Until(ctx, func() bool { return log.Seq() > at }); err != nil {
		t.Fatal(err)
	}
	if status, p, _ := a.send(t, put); status != 409 || p.Code != api.CodeKeyInFlight || !p.Retryable || !p.SafeSameKey {
		t.Fatalf("while in flight: %d %+v", status, p)
	}
	door.Release()
	if status := <-first; status != 201 {
		t.Fatalf("the first one: %d", status)
	}
	status, _, header := a.send(t, put)
	if status != 201 || header.Get("Idempotency-Replayed") != "true" || header.Get("Etag") == "" {
		t.Fatalf("the same again: %d %v", status, header)
	}
	put.body = "2"
	if status, p, _ := a.send(t, put); status != 422 || p.Code != api.CodeKeyReused {
		t.Fatalf("another body: %d %+v", status, p)
	}
	if n := len(committed(log)); n != 1 {
		t.Fatalf("%d commits for one key", n)
	}
	begin := with(post(inDefault+"/tx", ""), "Idempotency-Key", "k2")
	_, _, one := a.send(t, begin)
	_, _, two := a.send(t, begin)
	if one.Get("Location") == "" || one.Get("Location") != two.Get("Location") {
		t.Fatalf("one key made %s and %s", one.Get("Location"), two.Get("Location"))
	}
}

// The table of keys is bounded: in number, in bytes, in age; a request under way is never dropped.
func TestIdempotencyBounds(t *testing.T) {
	log := newLog()
	a := start(t, "a", log.Door(), func(c *setup) { c.Limits.IdempotencyKeys = 4; c.Limits.IdempotencyBytes = 4096 })
	for i := range 20 {
		key := strings.Repeat("k", i+1)
		a.send(t, with(post(inDefault+"/tx", ""), "Idempotency-Key", key))
		if n := len(a.session.keys.Order); n > 4 || n != len(a.session.keys.ByKey) {
			t.Fatalf("%d keys are remembered, %d in the index", n, len(a.session.keys.ByKey))
		}
	}
}

// A handler that panics does not keep its key: the same request may come again.
func TestIdempotencyPanic(t *testing.T) {
	a := start(t, "a", newLog().Door())
	panics := true
	r := &face.Route{Method: http.MethodPost, Name: "post_tx", Handle: func(*face.Call) (*face.Reply, error) {
		if panics {
			panic("a fault")
		}
		return &face.Reply{Status: http.StatusOK}, nil
	}}
	try := func() (out *face.Reply, err error) {
		c := &face.Call{Agent: a.seat, Request: httptest.NewRequest(r.Method, "/", nil)}
		c.Request.Header.Set("Idempotency-Key", "k")
		defer func() {
			if caught := recover(); (caught != nil) != panics {
				t.Errorf("it panicked with %v", caught)
			}
		}()
		return a.face.Keyed(c, r)
	}
	_, _ = try()
	panics = false
	if out, err := try(); err != nil || out.Status != http.StatusOK {
		t.Errorf("again: %+v, %v", out, err)
	}
}
