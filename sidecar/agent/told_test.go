package agent

import (
	"testing"
	"time"

	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

// What a model tells a reader its commits rest on, as of the view that the request left at; what only the request
// names, and what is only looked at, they do not.
func TestReaderIsTold(t *testing.T) {
	log := newLog()
	a := start(t, "a", log.Door())
	ctx := background(t)
	put := func(scope string) {
		t.Helper()
		must(a.client.Put(ctx, scope, []byte("1"), client.WriteOptions{}))(t)
	}
	for _, scope := range []string{"shard:/x", "shard:/z", "shard:/n"} {
		put(scope)
	}
	version := uint64(0)
	commit := func(reader string) string {
		t.Helper()
		_, err := a.session.CommitKeyed(ctx, &api.KeyedCommit{Reader: reader, Scope: "shard:/n", Version: version,
			Content: []byte("2"), MediaType: func(string) string { return "text/plain" }})
		if r, refused := err.(*api.KeyedRefusal); refused {
			if r.Was > 100 {
				t.Errorf("%s is told that it named version %d", reader, r.Was)
			}
			return r.Why
		}
		if version++; err != nil {
			t.Fatal(err)
		}
		return ""
	}
	for _, c := range []struct {
		reader string
		uses   []string
		bind   bool
		moves  string
		early  bool // it moves before the answer
		want   string
	}{
		{"used", []string{"shard:/x"}, true, "shard:/x", true, api.KeyedStale},
		{"later", []string{"shard:/x"}, true, "shard:/x", false, api.KeyedStale},
		{"other", []string{"shard:/x"}, true, "shard:/z", true, ""},
		{"named", nil, true, "shard:/x", true, ""},
		{"looks", []string{"shard:/x"}, false, "shard:/x", true, ""},
		{"made", []string{"shard:/made"}, true, "shard:/made", true, api.KeyedStale},
	} {
		if err := a.session.OpenReader(ctx, c.reader, 0); err != nil {
			t.Fatal(err)
		}
		who := api.Told{Reader: c.reader}
		m := must(a.session.Mention(ctx, who, []string{"shard:/x"}))(t)
		if c.early {
			put(c.moves)
		}
		must(a.session.Rely(ctx, who, m.ID, c.uses, c.bind))(t)
		if err := a.session.EndMention(m.ID); err != nil {
			t.Fatal(err)
		}
		if !c.early {
			put(c.moves)
		}
		if got := commit(c.reader); got != c.want {
			t.Errorf("%s: the commit is refused with %q, wanted %q", c.reader, got, c.want)
		}
	}
	for _, log := range a.session.ReaderLogs(10) {
		for _, given := range log.Given {
			if given.Version > 100 {
				t.Errorf("%s was given version %d of %s", log.Reader, given.Version, given.Scope)
			}
		}
	}
}

// What an answer uses is told apart by when its conversation read it.
func TestReliedSteps(t *testing.T) {
	log := newLog()
	a := start(t, "a", log.Door())
	ctx := background(t)
	for _, scope := range []string{"shard:/x", "shard:/y", "shard:/z", "shard:/w"} {
		must(a.client.Put(ctx, scope, []byte("1"), client.WriteOptions{}))(t)
	}
	session := a.client.Session("s")
	who := api.Told{Session: "s"}
	step := func(mentions []string, want api.Relied) {
		t.Helper()
		m := must(a.session.Mention(ctx, who, mentions))(t)
		all := []string{"shard:/x", "shard:/y", "shard:/z", "shard:/w", "shard:/none"}
		if got := must(a.session.Rely(ctx, who, m.ID, all, false))(t); *got != want {
			t.Errorf("%+v, wanted %+v", *got, want)
		}
		if err := a.session.EndMention(m.ID); err != nil {
			t.Fatal(err)
		}
	}
	must(session.Get(ctx, "shard:/x"))(t)
	step([]string{"shard:/y"}, api.Relied{Step: 1, Mentioned: 1, Answered: 2, Missing: 1})
	must(session.Get(ctx, "shard:/z"))(t)
	step(nil, api.Relied{Step: 1, Earlier: 1, Answered: 2, Missing: 1})
	must(session.Get(ctx, "shard:/x"))(t)
	step(nil, api.Relied{Step: 1, Earlier: 1, Answered: 2, Missing: 1})
	other := api.Told{Session: "t"}
	for _, want := range []api.Relied{{Answered: 1}, {Earlier: 1}} { // what a model has told it has not read itself
		m := must(a.session.Mention(ctx, other, nil))(t)
		if got := must(a.session.Rely(ctx, other, m.ID, []string{"shard:/x"}, true))(t); *got != want {
			t.Errorf("%+v, wanted %+v", *got, want)
		}
	}
	reader := api.Told{Reader: "r"}
	if _, _, err := a.session.Give(ctx, "r", "shard:/x"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []api.Relied{{Step: 1}, {Earlier: 1}} {
		m := must(a.session.Mention(ctx, reader, nil))(t)
		if got := must(a.session.Rely(ctx, reader, m.ID, []string{"shard:/x"}, false))(t); *got != want {
			t.Errorf("%+v, wanted %+v", *got, want)
		}
	}
}

// What models took counts for the next decision, whatever it is, and the oldest read of a seal is measured.
func TestTokensAndAges(t *testing.T) {
	log := newLog()
	a, b := start(t, "a", log.Door()), start(t, "b", log.Door())
	ctx := background(t)
	spent := func(state string) (n float64) {
		for _, f := range must(a.counted.Registry.Gather())(t) {
			for _, m := range f.GetMetric() {
				if f.GetName() == "hence_sidecar_model_tokens_decided_total" && m.GetLabel()[0].GetValue() == state {
					n = m.GetCounter().GetValue()
				}
			}
		}
		return n
	}
	must(b.client.Put(ctx, "shard:/x", []byte("1"), client.WriteOptions{}))(t)
	if err := a.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	session := a.client.Session("s")
	must(session.Get(ctx, "shard:/x"))(t)
	a.session.Spend(api.Told{Session: "s"}, 7)
	a.session.Spend(api.Told{Session: "other"}, 100)
	must(b.client.Put(ctx, "shard:/x", []byte("2"), client.WriteOptions{}))(t)
	if err := a.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	if d := must(session.Put(ctx, "shard:/y", nil, client.WriteOptions{}))(t); d.Code != "stale_read" {
		t.Fatalf("%+v", d)
	}
	a.session.Spend(api.Told{Session: "s"}, 5)
	if d := must(session.Put(ctx, "shard:/y", nil, client.WriteOptions{}))(t); d.Code != "" {
		t.Fatalf("%+v", d)
	}
	if spent(api.StateAborted) != 7 || spent(api.StateCommitted) != 5 {
		t.Errorf("%v tokens of aborted work and %v of committed", spent(api.StateAborted), spent(api.StateCommitted))
	}
	a.session.Spend(api.Told{Reader: "r"}, 11)
	for _, version := range []uint64{9, 0} {
		_, err := a.session.CommitKeyed(ctx, &api.KeyedCommit{Reader: "r", Scope: "shard:/y", Version: version,
			MediaType: func(string) string { return "text/plain" }})
		if (err != nil) != (version == 9) {
			t.Errorf("version %d: %v", version, err)
		}
		a.session.Spend(api.Told{Reader: "r"}, 13)
	}
	if spent(api.StateAborted) != 7+11 || spent(api.StateCommitted) != 5+13 {
		t.Errorf("with a reader's: %v and %v", spent(api.StateAborted), spent(api.StateCommitted))
	}
}

// The age of what a commit rests on is that of its oldest read, also of a reader's.
func TestReadAge(t *testing.T) {
	clock := &fakeClock{now: time.Unix(1e9, 0), beat: make(chan time.Time)}
	a := startWith(t, "a", newLog().Door(), func(c *setup) { c.Machine.Clock = clock })
	ctx := background(t)
	for _, scope := range []string{"shard:/x", "shard:/y", "shard:/n"} {
		must(a.client.Put(ctx, scope, []byte("1"), client.WriteOptions{}))(t)
	}
	session := a.client.Session("s")
	must(session.Get(ctx, "shard:/x"))(t)
	clock.advance(3 * time.Second)
	must(session.Get(ctx, "shard:/y"))(t)
	if _, _, err := a.session.Give(ctx, "r", "shard:/x"); err != nil {
		t.Fatal(err)
	}
	clock.advance(2 * time.Second)
	must(session.Put(ctx, "shard:/z", nil, client.WriteOptions{}))(t)
	if n, sum := a.aged(t); n != 1 || sum != 5 {
		t.Errorf("%d ages of %v s in all, wanted one of 5 s", n, sum)
	}
	_, err := a.session.CommitKeyed(ctx, &api.KeyedCommit{Reader: "r", Scope: "shard:/n",
		MediaType: func(string) string { return "text/plain" }})
	if n, sum := a.aged(t); err != nil || n != 2 || sum != 7 {
		t.Errorf("%d ages of %v s in all, wanted another one of 2 s (%v)", n, sum, err)
	}
}

// aged is how many ages of reads were measured, and their sum in seconds.
func (r *rig) aged(t *testing.T) (n uint64, sum float64) {
	t.Helper()
	for _, f := range must(r.counted.Registry.Gather())(t) {
		if f.GetName() == "hence_sidecar_read_age_seconds" {
			n, sum = f.GetMetric()[0].GetHistogram().GetSampleCount(), f.GetMetric()[0].GetHistogram().GetSampleSum()
		}
	}
	return n, sum
}
