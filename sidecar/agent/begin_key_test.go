package agent

import (
	"net/http"
	"path"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
)

// A refused begin can be tried again under its key.
func TestRefusedBeginUnderItsKey(t *testing.T) {
	for _, mode := range []string{"ordered", "locked"} {
		t.Run(mode, func(t *testing.T) {
			log := newLog()
			ctx := background(t)
			other := full(ctx, t, log)
			a := start(t, "a", log.Door())
			begin := with(post(inDefault+"/tx", `{"mode":"`+mode+`"}`), "Idempotency-Key", "k")
			for range 2 {
				status, p, _ := a.send(t, begin)
				if status != http.StatusTooManyRequests || p.Code != api.CodeLimit || !p.SafeSameKey {
					t.Fatalf("without room: %d %+v", status, p)
				}
			}
			if err := other.Abort(ctx, "makes room"); err != nil {
				t.Fatal(err)
			}
			status, _, header := a.send(t, begin)
			if status != http.StatusCreated {
				t.Fatalf("with room: %d", status)
			}
			if d := must(a.client.Tx(path.Base(header.Get("Location"))).Seal(ctx))(t); d.State != api.StateCommitted {
				t.Errorf("sealed: %+v", d)
			}
		})
	}
}

// A begin that is not answered in time is waited for under its key, and by a further try of the same transaction.
func TestLateBegin(t *testing.T) {
	log := newLog()
	door := log.Door()
	a := start(t, "a", door, func(c *setup) { c.Limits.WaitMost = 50 * time.Millisecond })
	ctx := background(t)
	first := must(a.session.begins(ctx, sequencer.Begin{Mode: sequencer.Ordered}, nil))(t)
	if _, err := flow(a.session, func() (*api.Decision, error) {
		return a.session.abortTx(ctx, first, "is tried again")
	}); err != nil {
		t.Fatal(err)
	}
	for name, request := range map[string]rawCall{
		"begin": with(post(inDefault+"/tx", `{"mode":"ordered"}`), "Idempotency-Key", "k"),
		"retry": post("/v1/tx/"+string(first.id)+"/retry", ""),
	} {
		door.FailAppends(1 << 30)
		for range 2 {
			if status, p, _ := a.send(t, request); status != http.StatusServiceUnavailable {
				t.Fatalf("%s without the log: %d %+v", name, status, p)
			}
		}
		free := a.session.stand()
		if a.session.open != 1 {
			t.Errorf("%s: %d transactions are open", name, a.session.open)
		}
		free()
		door.FailAppends(0)
		status, _, header := a.send(t, request)
		for status == http.StatusServiceUnavailable && ctx.Err() == nil {
			status, _, header = a.send(t, request)
		}
		id := path.Base(header.Get("Location"))
		if got := ofTx(log, id); status >= 300 || len(got) != 1 || got[0].Mode != sequencer.Ordered {
			t.Errorf("%s with the log: %d, %s: %+v", name, status, id, got)
		}
		if _, err := a.session.Abort(ctx, string(id), ""); err != nil {
			t.Fatal(err)
		}
	}
}

// A begin that is not answered in time, and that no later request can find, is given up.
func TestLateBeginIsDropped(t *testing.T) {
	log, world := newLog(), newSink()
	door := log.Door()
	a := start(t, "a", door, withTools(world), func(c *setup) { c.Limits.WaitMost = 50 * time.Millisecond })
	ctx := background(t)
	for _, request := range []rawCall{
		post(inDefault+"/tx", `{"mode":"ordered"}`),
		post(inDefault+"/groups", `{"branches":2,"mode":"ordered"}`),
		with(post("/v1/effects", `{"tool":"set","args":{"at":"x"},"mode":"ordered"}`), "Idempotency-Key", "k"),
	} {
		door.FailAppends(1 << 30)
		if status, p, _ := a.send(t, request); status != http.StatusServiceUnavailable {
			t.Fatalf("%s without the log: %d %+v", request.path, status, p)
		}
		free := a.session.stand()
		left, id := a.session.open, api.TxName("a", a.session.incarnation, a.session.count)
		free()
		if left != 0 {
			t.Errorf("%s: %d transactions are open", request.path, left)
		}
		door.FailAppends(0)
		over := func() bool {
			got := ofTx(log, string(id))
			return len(got) > 0 && got[len(got)-1].Final
		}
		if err := log.Until(ctx, over); err != nil {
			t.Errorf("%s: %s is not over in the log: %v", request.path, id, err)
		}
	}
}
