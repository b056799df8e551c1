package agent

import (
	"testing"

	"github.com/hence-dev/hence/sidecar/api"
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
