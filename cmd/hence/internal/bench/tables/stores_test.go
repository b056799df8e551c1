package tables

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
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

// pretended is a ground of a store in memory in place of Hence.
type pretended struct {
	rule  rule
	every int64 // each so manieth commit is refused, or taken and dropped; 0: none
	drops bool
}

// Workspace is part of Ground.
func (p pretended) Open(ctx context.Context, site Site) (Place, error) {
	return p.Workspace(ctx, site.Nodes, site.Agents, site.Policy)
}

func (p pretended) Workspace(ctx context.Context, nodes, _ int, _ string) (place Place, err error) {
	s := inMemory(p.rule)
	var commits atomic.Int64
	at, err := serve(ctx, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.every == 0 || r.URL.Path != "/commit" || commits.Add(1)%p.every != 0 {
			s.ServeHTTP(w, r)
			return
		}
		if p.drops {
			_, _ = io.WriteString(w, `{"new_version": 1}`)
			return
		}
		w.WriteHeader(http.StatusConflict)
	}))
	for range nodes {
		place.Buses = append(place.Buses, at)
	}
	return place, err
}

// byTheirWire are rows that need nothing of Hence but its S-Bus. Those of timings are not among them.
func byTheirWire() []string {
	return strings.Fields("S02 S03 S05 S06 S10 S15 S16 S17 S18 S19 S22 S24 S25 S26 S27 S28 S29 S30 S31 S33 S40 S44 " +
		"S49 S50 S51")
}

// TestBusRows holds that the rows of S-Bus are reproduced on a store that decides by the paper's rule, and that each
// verdict falls on one that does not.
func TestBusRows(t *testing.T) {
	for _, row := range Rows() {
		if !strings.Contains(" "+strings.Join(byTheirWire(), " ")+" ", " "+row.ID+" ") {
			continue
		}
		got, err := row.run(t.Context(), &Env{Seed: 1, Subject: Ours(), Ground: pretended{rule: wholeStep}})
		if err != nil || got.Verdict != Reproduced && got.Verdict != Beaten {
			t.Errorf("%s on a store of the paper's rule: %+v, %v", row.ID, got, err)
		}
		fallen := false
		for _, broken := range []pretended{{rule: lastWriter}, {rule: ownVersion}, {rule: wholeStep, every: 7},
			{rule: wholeStep, every: 7, drops: true}} {
			fallen = fallen || falls(t.Context(), row, &Env{Seed: 1, Subject: Ours(), Ground: broken})
		}
		if !fallen {
			t.Errorf("%s: %s: no broken store makes the verdict fall", row.ID, row.Claim)
		}
	}
}
