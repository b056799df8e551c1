package agent

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

// resets takes all shards away.
func (r *rig) resets(t *testing.T) {
	t.Helper()
	if _, err := r.session.Reset(background(t)); err != nil {
		t.Fatal(err)
	}
}

// A commit that a reset overtakes adds nothing to its reader's log any more, neither before it is sealed nor when it
// is decided: that log has ended, and an entry would begin another one, which its reader was not told of.
func TestResetEndsLogsOfCommitsUnderWay(t *testing.T) {
	for name, late := range map[string]func(s *Agent, k *keyed) error{
		"decided": func(s *Agent, k *keyed) error { return s.moveOwn(k, k.was.Version+1) },
		"sealed": func(s *Agent, k *keyed) error {
			_, _, err := s.tryKeyed(background(t), k)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, "bus", newLog().Door())
			r.creates(t, "x")
			r.gives(t, "a", "x")
			s := r.session
			k := &keyed{in: &api.KeyedCommit{Reader: "a", Scope: "shard:/x", MediaType: keepMedia}, scope: "shard:/x",
				begin: sequencer.Begin{Mode: sequencer.Optimistic, Session: talkOf("a")}}
			own, _ := s.delivery.Given("a", "shard:/x")
			k.own, k.resets = &own, s.Resets()
			r.resets(t)
			r.creates(t, "x", "y")
			k.was, _ = r.view.Read("shard:/x")
			s.loop.Run(func() {
				if err := late(s, k); err != nil {
					t.Error(err)
				}
			})
			r.want(t, api.KeyedCommit{Reader: "a", Scope: "y"}, "expired y")
		})
	}
}

// A reset that is not decided in time is refused, to be asked again, and takes nothing away later.
func TestResetThatWaitsIsGivenUp(t *testing.T) {
	log := newLog()
	r, other := start(t, "bus", log.Door()), start(t, "b", log.Door())
	r.creates(t, "x")
	ctx := background(t)
	held := open(ctx, t, other, client.BeginOptions{})
	must(held.Touch(ctx, writes("shard:/held/of/b"), client.TouchOptions{}))(t)
	soon, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, err := r.session.Reset(soon)
	if p := api.AsProblem(err); err == nil || p.Status != http.StatusServiceUnavailable || p.Code != api.CodeNotReady {
		t.Fatalf("the reset: %v, want 503", err)
	}
	r.want(t, api.KeyedCommit{Reader: "a", Scope: "x"}, "1")
	must(held.Seal(ctx))(t)
	r.want(t, api.KeyedCommit{Reader: "a", Scope: "x", Version: 1}, "2")
	r.resets(t)
	r.want(t, api.KeyedCommit{Reader: "a", Scope: "x"}, "missing x")
}

// overwrites writes a shard through /v1.
func (r *rig) overwrites(t *testing.T, scope, text string) (tx string) {
	t.Helper()
	ctx := background(t)
	one := open(ctx, t, r, client.BeginOptions{})
	if err := one.Write(ctx, scope, []byte(text), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if d := must(one.Seal(ctx))(t); d.State != api.StateCommitted {
		t.Fatalf("%q is decided as %+v", text, d)
	}
	r.final(ctx, t, one.ID())
	return one.ID()
}

// Retractions of writes on both sides of a reset bring back nothing of before it, and versions count on from it.
func TestResetBetweenWritesAndRetractions(t *testing.T) {
	r := start(t, "bus", newLog().Door())
	ctx := background(t)
	stands := func(when, want string, version uint64) {
		t.Helper()
		one, answered, err := r.session.Give(ctx, "", "shard:/x")
		if err != nil {
			t.Fatal(err)
		}
		answered()
		if string(one.Body) != want || one.Seq != 0 && one.Version != version || (one.Seq == 0) != (want == "") {
			t.Errorf("%s: %q at version %d, want %q at %d", when, one.Body, one.Version, want, version)
		}
	}
	retract := func(tx string) {
		t.Helper()
		must(r.client.Retract(ctx, tx, "wrong", false))(t)
		r.final(ctx, t, tx)
	}
	r.creates(t, "x")
	before := r.overwrites(t, "shard:/x", "before")
	stands("before the reset", "before", 1)
	r.resets(t)
	stands("behind it", "", 0)
	first := r.overwrites(t, "shard:/x", "first")
	stands("a write", "first", 0)
	second := r.overwrites(t, "shard:/x", "second")
	stands("a second one", "second", 1)
	retract(before)
	stands("what was before it is retracted", "second", 1)
	retract(second)
	stands("the second one is retracted", "first", 2)
	retract(first)
	stands("the first one is retracted", "", 0)
	r.creates(t, "x")
}
