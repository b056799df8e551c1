package order

import (
	"fmt"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/check"
	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/it/traffic"
)

// lateMost is how many sidecars join one after the other until one begins with a snapshot that shows something: rows
// rest for about a second.
const lateMost = 20

// TestOneOrder lets several sidecars watch one workspace, two of them or more joining late, and holds that they report
// the same chain hash at every seq that they share.
func TestOneOrder(t *testing.T) {
	d := harness.Deploy(t, harness.Start(t))
	all := []*harness.Sidecar{d.Sidecar(t, "early-1"), d.Sidecar(t, "early-2")}
	rec := traffic.NewRecorder()
	plan := traffic.Plan{Transactions: 60, Scopes: 12, Reads: 3, Writes: 2, Think: time.Millisecond, Seed: 1,
		Modes: []string{"optimistic", "ordered", "locked"}}
	run(t, all, plan, rec)
	late := 0
	for late < 2 || late < lateMost && firstLink(t, all[len(all)-1]) <= firstLink(t, all[0]) {
		late++
		all = append(all, d.Sidecar(t, fmt.Sprintf("late-%d", late)))
		run(t, all, plan, rec)
	}
	observers := map[string]map[uint64]string{}
	for _, s := range all {
		observers[s.Agent] = chainOf(t, s)
	}
	outcomes := harness.DecisionsOf(t, d.Servers, d.Workspace, rec.Attempts())
	observers["log"] = map[uint64]string{}
	for _, c := range harness.Checked(outcomes) {
		observers["log"][c.Seq] = c.Chain
	}
	shared, found := check.SameChain(observers)
	for _, v := range found {
		t.Error(v)
	}
	early, last := len(observers["early-1"]), len(observers[all[len(all)-1].Agent])
	if last < 100 || early <= last {
		t.Errorf("the chains are too short to say anything: early %d links, late %d", early, last)
	}
	harness.Holds(t, rec.Attempts(), outcomes)
	t.Logf("%s; %d decisions, %d seqs shared, %d joined late; links: early %d, late %d", rec.Figures(), len(outcomes),
		shared, late, early, last)
}

func run(t *testing.T, sidecars []*harness.Sidecar, plan traffic.Plan, rec *traffic.Recorder) {
	t.Helper()
	if err := traffic.Run(t.Context(), sidecars, plan, rec); err != nil {
		t.Fatal(err)
	}
}

// firstLink is the first seq whose chain hash a sidecar knows.
func firstLink(t *testing.T, s *harness.Sidecar) uint64 {
	t.Helper()
	page, err := s.Client.Chain(t.Context(), 0, 1)
	if err != nil {
		t.Fatalf("chain of %s: %v", s.Agent, err)
	}
	return page.First
}

// chainOf reads all chain hashes that a sidecar remembers.
func chainOf(t *testing.T, s *harness.Sidecar) map[uint64]string {
	t.Helper()
	all := map[uint64]string{}
	from := firstLink(t, s)
	for {
		page, err := s.Client.Chain(t.Context(), from, 0)
		if err != nil {
			t.Fatalf("chain of %s from %d: %v", s.Agent, from, err)
		}
		for _, link := range page.Links {
			all[link.Seq] = link.Chain
			from = link.Seq + 1
		}
		if len(page.Links) == 0 || from > page.Seq {
			return all
		}
	}
}
