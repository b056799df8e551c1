package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

func keepMedia(string) string { return "text/plain" }

func (r *rig) creates(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		one := must(r.session.WriteKeyed(background(t), "shard:/"+name, []byte("0"), keepMedia, true))(t)
		if one.Version != 0 {
			t.Fatalf("%s begins at version %d", name, one.Version)
		}
	}
}

func (r *rig) gives(t *testing.T, reader string, names ...string) {
	t.Helper()
	for _, name := range names {
		_, answered, err := r.session.Give(background(t), reader, "shard:/"+name)
		if err != nil {
			t.Fatal(err)
		}
		answered()
	}
}

// commits says how a commit ends: with its version, or why it is refused and for which shard.
func (r *rig) commits(t *testing.T, in api.KeyedCommit) string {
	t.Helper()
	in.Scope, in.MediaType, in.Content = "shard:/"+in.Scope, keepMedia, []byte("next")
	for i := range in.Reads {
		in.Reads[i].Scope = "shard:/" + in.Reads[i].Scope
	}
	done, err := r.session.CommitKeyed(background(t), &in)
	refusal, refused := errors.AsType[*api.KeyedRefusal](err)
	switch {
	case refused:
		return refusal.Why + " " + refusal.Scope[len("shard:/"):]
	case err != nil:
		return err.Error()
	}
	return fmt.Sprint(done.Version)
}

func (r *rig) want(t *testing.T, in api.KeyedCommit, want string) {
	t.Helper()
	if got := r.commits(t, in); got != want {
		t.Errorf("%s writes %s at %d: %s, want %s", in.Reader, in.Scope, in.Version, got, want)
	}
}

// A commit rests on what it names and on what its reader was given; a reader knows its own writes, and no other
// reader's. A restart changes nothing of that.
func TestKeyedReadSets(t *testing.T) {
	log := newLog()
	dir := t.TempDir()
	r := start(t, "bus", log.Door(), func(c *setup) { c.DataDir = dir })
	r.creates(t, "x", "y", "z")
	r.gives(t, "a", "x", "y")
	r.gives(t, "b", "x", "y")
	r.want(t, api.KeyedCommit{Reader: "a", Scope: "x"}, "1")
	if now, _ := r.session.delivery.Given("a", "shard:/x"); now.Writes != 2 || now.By != "" {
		t.Errorf("its own write is not in its log: %+v", now)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	r = start(t, "bus", log.Door(), func(c *setup) { c.DataDir = dir })
	r.want(t, api.KeyedCommit{Reader: "a", Scope: "y"}, "1") // its own write of x does not stand in its way
	r.want(t, api.KeyedCommit{Reader: "b", Scope: "z"}, "stale x")
	r.want(t, api.KeyedCommit{Reader: "b", Scope: "x"}, "stale y") // x itself is compared as what is written
	r.want(t, api.KeyedCommit{Reader: "b", Scope: "z", Reads: []api.KeyedRead{{Scope: "x", Version: 1}}}, "stale y")
	last := []api.KeyedRead{{Scope: "x"}, {Scope: "x", Version: 1}, {Scope: "y", Version: 1}, {Scope: "z", Version: 9}}
	r.want(t, api.KeyedCommit{Reader: "b", Scope: "z", Reads: last}, "1")
	r.want(t, api.KeyedCommit{Reader: "c", Scope: "z", Version: 1, Reads: []api.KeyedRead{{Scope: "x", Version: 2}}},
		"stale x") // a version ahead of the shard's is no better
	r.want(t, api.KeyedCommit{Reader: "c", Scope: "none", Version: 1, Reads: []api.KeyedRead{{Scope: "gone"}}},
		"missing gone")
	r.want(t, api.KeyedCommit{Reader: "c", Scope: "none", Version: 1}, "missing none")
	r.want(t, api.KeyedCommit{Reader: "c", Scope: "z"}, "moved z")
	r.want(t, api.KeyedCommit{Reader: "b", Scope: "z", Version: 1, Observe: true}, "2") // told, not refused
	r.want(t, api.KeyedCommit{Reader: "b", Scope: "z", Version: 1, Observe: true}, "moved z")
}

// A reader that was given the list of all shards rests on there being no others; its own writes do not count.
func TestKeyedLists(t *testing.T) {
	r := start(t, "bus", newLog().Door())
	r.creates(t, "x", "y")
	list, answered, err := r.session.GiveAll(background(t), "a", "shard:/*")
	if err != nil || len(list) != 2 {
		t.Fatalf("%d shards: %v", len(list), err)
	}
	answered()
	r.want(t, api.KeyedCommit{Reader: "a", Scope: "x"}, "1")
	r.want(t, api.KeyedCommit{Reader: "a", Scope: "x", Version: 1}, "2")
	r.creates(t, "phantom")
	r.want(t, api.KeyedCommit{Reader: "a", Scope: "x", Version: 2}, "stale phantom")
}

// Of two answers under way to one reader the older version counts; of two that follow each other the newer one.
func TestGivenOverlap(t *testing.T) {
	r := start(t, "bus", newLog().Door())
	for overlap, want := range map[bool]string{true: "stale x-true", false: "1"} {
		x, y := fmt.Sprint("x-", overlap), fmt.Sprint("y-", overlap)
		r.creates(t, x, y)
		give := func() (answered func()) {
			t.Helper()
			_, answered, err := r.session.Give(background(t), "a-"+y, "shard:/"+x)
			if err != nil {
				t.Fatal(err)
			}
			return answered
		}
		first := give()
		r.want(t, api.KeyedCommit{Scope: x}, "1")
		if !overlap {
			first()
		}
		second := give()
		if overlap {
			first()
		}
		second()
		r.want(t, api.KeyedCommit{Reader: "a-" + y, Scope: y}, want)
		if len(r.session.giving) != 0 {
			t.Errorf("%d answers are still under way", len(r.session.giving))
		}
	}
}

// A log of which something has expired refuses, once nothing has; what a reader is given then begins another one.
func TestReadersExpire(t *testing.T) {
	r := start(t, "bus", newLog().Door(), func(c *setup) { c.Limits.ReaderTTL = time.Hour })
	r.creates(t, "x", "y", "z")
	age := func(reader string, scope sequencer.Scope) {
		t.Helper()
		had, ok := r.session.delivery.Given(reader, scope)
		if had.AtMs -= time.Hour.Milliseconds(); !ok || r.session.delivery.Add(reader, had.AtMs, had) != nil {
			t.Fatalf("%s was not given %s", reader, scope)
		}
	}
	r.gives(t, "all", "x")
	age("all", "shard:/x")
	r.gives(t, "some", "x", "y")
	age("some", "shard:/x")
	for _, reader := range []string{"all", "some"} {
		explicit := []api.KeyedRead{{Scope: "x"}}
		r.want(t, api.KeyedCommit{Reader: reader, Scope: "z", Reads: explicit}, "expired z")
		r.want(t, api.KeyedCommit{Reader: reader, Scope: "z"}, "expired z")
	}
	r.gives(t, "some", "x")
	r.want(t, api.KeyedCommit{Reader: "some", Scope: "z"}, "1")
	r.want(t, api.KeyedCommit{Reader: "all", Scope: "z", Version: 1, Revive: true}, "2")
	// One's own time.
	if err := r.session.OpenReader(background(t), "short", time.Millisecond); err != nil {
		t.Fatal(err)
	}
	r.gives(t, "short", "x")
	for one, _ := r.session.delivery.Given("short", "shard:/x"); r.session.nowMs() <= one.AtMs; {
	}
	r.want(t, api.KeyedCommit{Reader: "short", Scope: "z", Version: 2}, "expired z")
}

// A reader that has read more shards than a footprint names commits all the same, again and again.
func TestKeyedManyReads(t *testing.T) {
	r := start(t, "bus", newLog().Door())
	var names []string
	for i := range 300 {
		names = append(names, fmt.Sprint("s", i))
	}
	r.creates(t, names...)
	r.gives(t, "a", names...)
	r.want(t, api.KeyedCommit{Reader: "a", Scope: "s0"}, "1")
	r.want(t, api.KeyedCommit{Reader: "a", Scope: "s1"}, "1")
	r.want(t, api.KeyedCommit{Reader: "b", Scope: "s299"}, "1")
	r.want(t, api.KeyedCommit{Reader: "a", Scope: "s2"}, "stale s299")
}

// Of pairs that were both given x and y and write one each exactly one commits.
func TestKeyedPairs(t *testing.T) {
	r := start(t, "bus", newLog().Door())
	for i := range 200 {
		x, y := fmt.Sprint("x", i), fmt.Sprint("y", i)
		r.creates(t, x, y)
		r.gives(t, "a", x, y)
		r.gives(t, "b", x, y)
		var got [2]string
		var group sync.WaitGroup
		for n, name := range []string{x, y} {
			group.Go(func() { got[n] = r.commits(t, api.KeyedCommit{Reader: string("ab"[n]), Scope: name}) })
		}
		group.Wait()
		if (got[0] == "1") == (got[1] == "1") {
			t.Fatalf("pair %d: %v", i, got)
		}
		for _, reader := range []string{"a", "b"} {
			if err := r.session.OpenReader(background(t), reader, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A write whose reader's process died before it could note it is its own all the same.
func TestKeyedOwnWriteIsKnownAfterACrash(t *testing.T) {
	r := start(t, "bus", newLog().Door())
	r.creates(t, "x", "y")
	r.gives(t, "a", "x", "y")
	before, _ := r.session.delivery.Given("a", "shard:/x")
	r.want(t, api.KeyedCommit{Reader: "a", Scope: "x"}, "1")
	rev, _ := r.view.Read("shard:/x")
	lost := before
	lost.By = rev.Writer // what the journal has before the seal
	if err := r.session.delivery.Add("a", r.session.nowMs(), lost); err != nil {
		t.Fatal(err)
	}
	r.want(t, api.KeyedCommit{Reader: "a", Scope: "y"}, "1")
	if err := r.session.delivery.Add("a", r.session.nowMs(), before); err != nil {
		t.Fatal(err)
	}
	r.want(t, api.KeyedCommit{Reader: "a", Scope: "y", Version: 1}, "stale x")
}

// Only versions of one life of a shard are its versions; what is not remembered, and what never was, is said apart.
func TestFormerKeyed(t *testing.T) {
	r := start(t, "bus", newLog().Door())
	r.creates(t, "x")
	for version := range uint64(20) {
		r.want(t, api.KeyedCommit{Scope: "x", Version: version}, fmt.Sprint(version+1))
	}
	for version, want := range map[uint64]string{20: "", 19: "", 2: api.KeyedDropped, 21: api.KeyedUnknown} {
		one, err := r.session.FormerKeyed(background(t), "shard:/x", version)
		why := ""
		if refusal, refused := errors.AsType[*api.KeyedRefusal](err); refused {
			why = refusal.Why
		}
		if why != want || err == nil && (one.Version != version || string(one.Body) != "next") {
			t.Errorf("version %d: %+v, %v", version, one, err)
		}
	}
}

// What waits for a hold of others longer than its client is given up: it is not written once the hold ends.
func TestKeyedGivenUp(t *testing.T) {
	log := newLog()
	a, b := start(t, "bus", log.Door()), start(t, "b", log.Door())
	ctx := background(t)
	a.creates(t, "x")
	holder := open(ctx, t, b, client.BeginOptions{})
	must(holder.Touch(ctx, []client.Want{{Scope: "shard:/x", Access: "write"}}, client.TouchOptions{}))(t)
	for name, f := range map[string]func(context.Context) error{
		"commit": func(ctx context.Context) error {
			in := &api.KeyedCommit{Scope: "shard:/x", Content: []byte("1"), MediaType: keepMedia}
			_, err := a.session.CommitKeyed(ctx, in)
			return err
		},
		"rollback": func(ctx context.Context) error {
			_, err := a.session.WriteKeyed(ctx, "shard:/x", []byte("1"), keepMedia, false)
			return err
		},
		"reset": func(ctx context.Context) error {
			_, err := a.session.Reset(ctx)
			return err
		},
	} {
		before := int(log.Seq())
		of := func(kind sequencer.OutcomeKind) bool {
			return slices.ContainsFunc(log.Outcomes()[before:], func(o *sequencer.Outcome) bool { return o.Kind == kind })
		}
		asking, leave := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- f(asking) }()
		if err := log.Until(ctx, func() bool { return of(sequencer.OutcomeWaiting) }); err != nil {
			t.Fatalf("the %s does not wait: %v", name, err)
		}
		leave()
		if p := api.AsProblem(<-ended); p.Status != 503 || !strings.Contains(p.Detail, "given up") {
			t.Errorf("the %s ends as %+v", name, p)
		}
		if err := log.Until(ctx, func() bool { return of(sequencer.OutcomeAborted) }); err != nil {
			t.Fatalf("the %s is not given up: %v", name, err)
		}
	}
}
