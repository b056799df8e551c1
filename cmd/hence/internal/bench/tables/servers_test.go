package tables

import (
	"strings"
	"testing"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/redis/testredis"
	"github.com/hence-dev/hence/gate/adapters/testpostgres"
)

// TestServers holds that stores on servers decide as the paper's rule has it, one by one and in a row that is run on
// all of them, and that they make the row's verdict fall if their commits compare nothing.
func TestServers(t *testing.T) {
	e := &Env{Seed: 1, Servers: Servers{Postgres: testpostgres.Serve(t), Redis: testredis.Serve(t)},
		Ground: pretended{rule: wholeStep}}
	var err error
	if e.Servers.SBus, err = baseline(t.Context(), oneByOne); err != nil {
		t.Fatal(err)
	}
	for _, r := range e.Servers.rules() {
		b, says, end, err := e.store(t.Context(), r)
		if err != nil || (says == "") != (r == published) {
			t.Fatalf("%v: %q, %v", r, says, err)
		}
		for _, declared := range []bool{false, true} {
			if got, err := trials(t.Context(), b, b, 2, declared); err != nil || got.refused != got.n || got.accepted != got.n {
				t.Errorf("%v, declared %v: %+v, %v", r, declared, got, err)
			}
		}
		if ok, err := b.commit(t.Context(), "true-a0", "reader", "text", 2, readSet{"none", 0}); err == nil || ok {
			t.Errorf("%v: a read of what is not there is accepted", r)
		}
		end()
	}
	got, err := backends(t.Context(), e)
	if err != nil || got.Verdict != Reproduced || !strings.Contains(got.Note, "fsync=") ||
		!strings.Contains(got.Baseline, "PostgreSQL: ") || !strings.Contains(got.Baseline, "Redis: ") {
		t.Errorf("%+v, %v", got, err)
	}
	e.Servers = Servers{}
	if e.Servers.SBus, err = baseline(t.Context(), ownVersion); err != nil {
		t.Fatal(err)
	}
	if got, err := backends(t.Context(), e); err != nil || got.Verdict != Missed {
		t.Errorf("with a server that compares nothing: %+v, %v", got, err)
	}
}

// TestNeeds holds that a row says all that it waits for.
func TestNeeds(t *testing.T) {
	for _, c := range []struct {
		has  []string
		want string
	}{
		{nil, "only what is computed was run, and give a database with --postgres, and give a Redis server with --redis"},
		{[]string{Hence, Redis}, "give a database with --postgres"},
		{[]string{Hence, Postgres, Redis}, ""},
	} {
		if got := strings.Join(missing("hence postgres redis", c.has), ", and "); got != c.want {
			t.Errorf("with %v: %q, want %q", c.has, got, c.want)
		}
	}
}
