package order

import (
	"fmt"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/check"
	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/it/traffic"
	"github.com/hence-dev/hence/topology"
)

// TestEvents holds that every read and write an agent made is in hence.events, once.
func TestEvents(t *testing.T) {
	d := harness.Deploy(t, harness.Start(t))
	rec := traffic.NewRecorder()
	sidecars := d.Sidecars(t, 8)
	run(t, sidecars, traffic.Plan{Transactions: 40, Scopes: 20, Reads: 3, Writes: 2, Think: time.Millisecond, Seed: 2,
		Modes: []string{"optimistic", "locked"}}, rec)
	loose := looseReads(t, sidecars)
	for _, s := range sidecars {
		s.Stop() // what still waits to be published is published
	}
	got, copies := eventsOf(t, d)
	want := acts(append(rec.Attempts(), loose...))
	for act, n := range want {
		if got[act] != n {
			t.Errorf("the agents' records have %d times, hence.events has %d times: %s", n, got[act], act)
		}
	}
	for act, n := range got {
		if want[act] == 0 {
			t.Errorf("hence.events has %d times what no agent recorded: %s", n, act)
		}
	}
	t.Logf("%s; %d different reads and writes, %d second copies on the wire", rec.Figures(), len(want), copies)
}

// looseReads lets every agent read a little outside any transaction.
func looseReads(t *testing.T, sidecars []*harness.Sidecar) (all []check.Attempt) {
	t.Helper()
	for i, s := range sidecars {
		a := check.Attempt{Agent: s.Agent}
		for n := range 4 {
			shard, err := s.Client.Get(t.Context(), traffic.ScopeName(i+n))
			if err != nil {
				t.Fatal(err)
			}
			a.Reads = append(a.Reads, check.Read{Scope: traffic.ScopeName(i + n), Version: shard.Version, View: shard.View,
				SHA256: traffic.Hash(shard.Content)})
		}
		all = append(all, a)
	}
	return all
}

// acts counts what agents recorded, each as one line.
func acts(attempts []check.Attempt) map[string]int {
	all := map[string]int{}
	for _, a := range attempts {
		for _, r := range a.Reads {
			hash := r.SHA256
			if r.Version == 0 {
				hash = ""
			}
			all[fmt.Sprintf("%s %s read %s version %d view %d %.12s", a.Agent, a.Tx, r.Scope, r.Version, r.View, hash)]++
		}
		for _, w := range a.Writes {
			all[fmt.Sprintf("%s %s write %s %.12s", a.Agent, a.Tx, w.Scope, w.SHA256)]++
		}
	}
	return all
}

// eventsOf counts the reads and writes in hence.events. A second copy has the index of the first and counts as a copy.
func eventsOf(t *testing.T, d *harness.Deployment) (all map[string]int, copies int) {
	t.Helper()
	all = map[string]int{}
	seen := map[string]bool{}
	for _, ev := range harness.ReadEvents(t, d.Brokers, d.Workspace) {
		id := fmt.Sprintf("%s/%d/%d", ev.Agent, ev.Incarnation, ev.Index)
		if seen[id] {
			copies++
			continue
		}
		seen[id] = true
		hash := fmt.Sprintf("%x", ev.SHA256)
		switch ev.Kind {
		case topology.EventRead:
			if ev.Version == 0 {
				hash = ""
			}
			all[fmt.Sprintf("%s %s read %s version %d view %d %.12s", ev.Agent, ev.Tx, ev.Scope, ev.Version, ev.View, hash)]++
		case topology.EventWrite:
			all[fmt.Sprintf("%s %s write %s %.12s", ev.Agent, ev.Tx, ev.Scope, hash)]++
		}
	}
	return all, copies
}
