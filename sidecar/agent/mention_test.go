package agent

import (
	"sync/atomic"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/journal"
)

// What a model's answer uses is a read as old as its request, also after a crash; what was only mentioned is none.
func TestMentions(t *testing.T) {
	log := newLog()
	a, b := start(t, "a", log.Door()), start(t, "b", log.Door())
	ctx := background(t)
	move := func(scopes ...string) {
		t.Helper()
		for _, scope := range scopes {
			must(b.client.Put(ctx, scope, []byte("1"), client.WriteOptions{}))(t)
		}
		if err := a.view.Reach(ctx, log.Seq()); err != nil {
			t.Fatal(err)
		}
	}
	put := func(session, want string) {
		t.Helper()
		d := must(a.client.Session(session).Put(ctx, "shard:/y/"+session, []byte("y"), client.WriteOptions{}))(t)
		if d.Code != want {
			t.Fatalf("the commit of %q has the code %q, wanted %q", session, d.Code, want)
		}
	}
	mention := func(session string, scopes ...string) *api.Mention {
		t.Helper()
		return must(a.session.Mention(ctx, api.Told{Session: session}, scopes))(t)
	}
	rely := func(session string, m *api.Mention, want api.Relied, scopes ...string) {
		t.Helper()
		if got := must(a.session.Rely(ctx, api.Told{Session: session}, m.ID, scopes, true))(t); *got != want {
			t.Fatalf("%q relies on %+v, wanted %+v", session, *got, want)
		}
		if err := a.session.EndMention(m.ID); err != nil {
			t.Fatal(err)
		}
	}
	move("shard:/x", "shard:/z")

	must(a.client.Session("own").Get(ctx, "shard:/x"))(t)
	m := mention("own", "shard:/x", "shard:/z", "shard:/none", "shard:/a//b")
	if m.Fresh != 1 || m.Known != 1 || m.Missing != 2 {
		t.Fatalf("%+v", m)
	}
	rely("own", m, api.Relied{Step: 1, Mentioned: 1}, "shard:/x", "shard:/z")
	only := mention("only", "shard:/x")
	later := mention("later", "shard:/x")
	answer := mention("answer")
	move("shard:/x")
	rely("only", only, api.Relied{})
	rely("later", later, api.Relied{Mentioned: 1, Missing: 1}, "shard:/x", "shard:/none")
	rely("answer", answer, api.Relied{Answered: 1}, "shard:/x")
	a.session.loop.Run(func() { // as the shard was when the request left: an audit compares the two
		if r := a.session.loose["later"][0]; uint64(r.View) != later.View || r.Version == 0 || r.Version > r.View {
			t.Errorf("the read of the answer is %+v, and its request left at view %d", r, later.View)
		}
	})
	put("own", "stale_read")
	put("only", "")
	put("later", "stale_read")
	put("answer", "stale_read")
	put("later", "") // the reads of the refused one went with it

	used, asked := mention("used", "shard:/z"), mention("asked", "shard:/z")
	must(a.session.Rely(ctx, api.Told{Session: "used"}, used.ID, []string{"shard:/z"}, true))(t)
	a = a.crash(t, log.Door(), nil)
	move("shard:/z")
	put("used", "stale_read")
	put("asked", "")
	if _, err := a.session.Rely(ctx, api.Told{}, asked.ID, nil, true); err == nil {
		t.Fatal("a request of the process before is under way")
	}
}

// A request to a model that is under way holds the watermark: its answer may make a read of that view.
func TestMentionHoldsWatermark(t *testing.T) {
	log := newLog()
	a, b := start(t, "a", log.Door()), start(t, "b", log.Door())
	ctx := background(t)
	oldest := func() (at sequencer.Seq) {
		a.session.loop.Run(func() { at = a.session.oldest(a.view.At()) })
		return at
	}
	move := func() {
		t.Helper()
		must(b.client.Put(ctx, "shard:/x", []byte("1"), client.WriteOptions{}))(t)
		if err := a.view.Reach(ctx, log.Seq()); err != nil {
			t.Fatal(err)
		}
	}
	move()
	m := must(a.session.Mention(ctx, api.Told{}, []string{"shard:/x"}))(t)
	none := must(a.session.Mention(ctx, api.Told{}, nil))(t)
	if err := a.session.EndMention(none.ID); err != nil {
		t.Fatal(err)
	}
	move()
	if got := oldest(); uint64(got) != m.View {
		t.Fatalf("the watermark may pass to %d while a request of view %d is under way", got, m.View)
	}
	if err := a.session.EndMention(m.ID); err != nil {
		t.Fatal(err)
	}
	if got := oldest(); got != a.view.At() {
		t.Fatalf("the watermark stays at %d once it is over", got)
	}

	must(a.session.Mention(ctx, api.Told{}, []string{"shard:/x"}))(t)
	a = a.crash(t, log.Door(), nil)
	move()
	if got := oldest(); got != a.view.At() {
		t.Fatalf("the watermark stays at %d for a request whose process has ended", got)
	}
	m = must(a.session.Mention(ctx, api.Told{}, nil))(t) // an answer may use what its request did not name
	move()
	if got := oldest(); uint64(got) != m.View {
		t.Fatalf("the watermark may pass to %d while a request of view %d that names nothing is under way", got, m.View)
	}
}

// A mention that cannot be recorded leaves nothing behind that holds the watermark.
func TestMentionUnrecorded(t *testing.T) {
	log := newLog()
	var count atomic.Int64
	a := start(t, "a", log.Door(), func(c *setup) {
		c.Machine.Open = func(path string) (journal.Disk, error) {
			file, err := journal.OpenOS(path)
			return &failsAt{Disk: file, count: &count, from: 10_001, to: 10_002}, err
		}
	})
	b := start(t, "b", log.Door())
	ctx := background(t)
	for _, scope := range []string{"shard:/x", "shard:/z"} {
		must(b.client.Put(ctx, scope, []byte("1"), client.WriteOptions{}))(t)
	}
	if err := a.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	var err error
	a.session.loop.Run(func() { count.Store(9_999) }) // the second of the next two writes fails
	if _, err = a.session.Mention(ctx, api.Told{}, []string{"shard:/x", "shard:/z"}); err == nil {
		t.Fatal("a mention that was not written down is taken for recorded")
	}
	a.session.loop.Run(func() {
		if len(a.session.asked)+len(a.session.loose) > 0 {
			t.Errorf("%v and %v are left", a.session.asked, a.session.loose)
		}
	})
}
