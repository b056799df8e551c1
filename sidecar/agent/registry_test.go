package agent

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
)

// A tool registration that the log has not answered in time is not taken back: the answer says that it is undecided,
// and once the log is there again it and the sidecar agree.
func TestToolUndecided(t *testing.T) {
	for name, fault := range map[string]struct{ on, off func(*memlog.Door) }{
		"the answer is late": {(*memlog.Door).Hold, (*memlog.Door).Release},
		"it is not appended": {
			func(d *memlog.Door) { d.FailAppends(1 << 30) }, func(d *memlog.Door) { d.FailAppends(0) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := newLog()
			door := log.Door()
			a := start(t, "a", door)
			ctx := background(t)
			must(a.client.PutTool(ctx, "", "search", "s1"))(t)
			fault.on(door)
			short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
			defer cancel()
			_, err := flow(a.session, func() (*api.Tool, error) {
				return a.session.setTool(short, defaultServer, "search", "s2")
			})
			if p := api.AsProblem(err); p.Code != api.CodeUndecided || !strings.Contains(p.Detail, "not answered yet") {
				t.Errorf("while the log is silent: %v", err)
			}
			fault.off(door)
			// It is the next one's turn when the log has answered; the whole catalogue goes with it.
			if err := inside(a.session, func() error { return a.session.enterRegistry(ctx) }); err != nil {
				t.Fatal(err)
			}
			a.session.leaveRegistry()
			if got := must(a.client.PutTool(ctx, "", "add", "a1"))(t); got.Tools != 2 {
				t.Errorf("the next one: %+v", got)
			}
			for signature, want := range map[string]string{"s1": api.StateAborted, "s2": api.StateCommitted} {
				tx := open(ctx, t, a, client.BeginOptions{})
				if d := must(tx.SealPinned(ctx, []client.Pin{{Name: "search", Signature: signature}}))(t); d.State != want {
					t.Errorf("pinned as %s: %+v", signature, d)
				}
			}
		})
	}
}

// A tool that comes when a session has just ended does not wait for the next one, which waits for its turn.
func TestToolBetweenSessions(t *testing.T) {
	door := newLog().Door()
	a := start(t, "a", door)
	ctx := background(t)
	door.FailAppends(1 << 30)
	free := a.session.stand()
	a.session.live = false
	free()
	short, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := inside(a.session, func() error { return a.session.enterRegistry(short) }); err != nil {
		t.Fatal(err)
	}
	_, err := flow(a.session, func() (*api.Tool, error) {
		return a.session.announceTool(short, defaultServer, "search", "s1")
	})
	a.session.leaveRegistry()
	if problemCode(err) != api.CodeNotReady || len(a.session.registry.servers) > 0 {
		t.Errorf("registered: %v, %v", err, a.session.registry.servers)
	}
}

// Who withdraws a tool and is not told in time learns how to find out: once it is withdrawn there is none any more.
func TestToolWithdrawnUndecided(t *testing.T) {
	door := newLog().Door()
	a := start(t, "a", door)
	ctx := background(t)
	must(a.client.PutTool(ctx, "", "search", "s1"))(t)
	door.Hold()
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	_, err := flow(a.session, func() (*api.Tool, error) {
		return a.session.setTool(short, defaultServer, "search", "")
	})
	if p := api.AsProblem(err); p.Code != api.CodeUndecided || !strings.Contains(p.Detail, api.CodeNotFound) {
		t.Errorf("while the log is silent: %v", err)
	}
	door.Release()
	if _, err := flow(a.session, func() (*api.Tool, error) {
		return a.session.setTool(ctx, defaultServer, "search", "")
	}); problemCode(err) != api.CodeNotFound {
		t.Errorf("asked again: %v", err)
	}
}
