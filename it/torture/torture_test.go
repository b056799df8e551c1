package torture

import (
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sequencer/testsize"
)

func TestMain(m *testing.M) { harness.Main(m) }

// The environment of a slice, beside the book's folder: former slices in it count towards the goals. The defaults are
// the cut of continuous integration.
const (
	envKills   = "HENCE_TORTURE_KILLS"   // of each part
	envFaults  = "HENCE_TORTURE_FAULTS"  // of each other kind
	envCommits = "HENCE_TORTURE_COMMITS" // that agents are told of
	envSeconds = "HENCE_TORTURE_SECONDS" // the most that one slice takes
	envBrokers = "HENCE_TORTURE_BROKERS" // one or three
	envOnly    = "HENCE_TORTURE_ONLY"    // the one kind of fault that strikes
)

const (
	recoverBound = 90 * time.Second
	slowRecovery = 5 * time.Second // what took longer says what the parts logged meanwhile
	leastCommits = 10              // between two faults: with fewer the next one shows nothing
)

// goals are what a run of slices is to come to: so many kills of each part, so many faults of each of the first kinds,
// and of the others a fifth.
type goals struct{ kills, faults, commits int }

const firstKinds = 20

// TestTorture is one slice: agents work, the nemesis strikes until the goals are reached or the time is over, and the
// checkers judge. A fault is void where it did not land, or where nothing was under way.
func TestTorture(t *testing.T) {
	if os.Getenv(harness.EnvServers) == "" || !harness.Real() && os.Getenv(envSeconds) == "" {
		t.Skipf("it kills real servers: set %s to a folder with scripts kafka and nats, and %s (make torture)",
			harness.EnvServers, envSeconds)
	}
	book := os.Getenv(testsize.EnvBook)
	goal := goals{kills: harness.Number(t, envKills, 5), faults: harness.Number(t, envFaults, 1),
		commits: harness.Number(t, envCommits, 10_000)}
	most := time.Duration(harness.Number(t, envSeconds, 300)) * time.Second
	former := readBook(t, book)
	seed := uint64(len(former) + 1)
	brokers := harness.Number(t, envBrokers, 1)
	l := openLab(t, brokers)
	s := &slice{Seed: seed, Brokers: brokers, Faults: map[string]*strikes{}, LeftOut: map[string]string{},
		Points: l.points}
	n := &nemesis{lab: l, slice: s, rng: rand.New(rand.NewPCG(seed, 7)), landed: map[string]int{}}
	n.aimAt(goal)
	for _, f := range former {
		n.committed += f.Committed
		for name, was := range f.Faults {
			n.landed[name] += was.Landed
		}
	}
	began := time.Now()
	end := l.run(t.Context())
	err := n.plague(goal.commits, began.Add(most))
	end()
	s.Entry = testsize.NewEntry("torture", began)
	if err == nil {
		err = l.lastOnes(t.Context())
	}
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	for _, tool := range tools {
		if l.called[tool] == 0 {
			t.Errorf("%s was never called: nothing is known of it", tool)
		}
	}
	s.verdict = l.judge()
	t.Logf("%d brokers, seed %d, %d s: %+v", brokers, seed, s.Seconds, s.verdict)
	if os.Getenv(envOnly) == "" && !t.Failed() {
		if err := l.newLog(); err != nil {
			t.Fatalf("after the log was made anew: %v", err)
		}
		v := l.judge()
		s.of("a log made anew").Landed++
		s.Lost, s.Violations = s.Lost+v.Lost, s.Violations+v.Violations
		t.Logf("a log made anew: %+v", v)
	}
	testsize.Add(t, bookName, s)
	if missing := n.missing(); book == "" && len(missing) > 0 {
		t.Errorf("in %v these have not landed as often as %+v wants: %v", most, goal, missing)
	}
}

// nemesis breaks one thing after another.
type nemesis struct {
	*lab
	*slice
	rng       *rand.Rand
	able      []aim          // at what it strikes in this slice
	landed    map[string]int // in all slices
	committed int            // in former slices
}

// aim is a kind of fault, and how often it is to land in all slices.
type aim struct {
	kind
	goal int
}

// aimAt chooses the kinds that can be made to land in this lab; of the others the slice says why they cannot.
func (n *nemesis) aimAt(goal goals) {
	only := os.Getenv(envOnly)
	for _, k := range kinds() {
		if only != "" && only != k.name || k.three && n.brokers < 3 {
			continue
		}
		if k.cannot != nil {
			if why := k.cannot(n.lab); why != "" {
				n.LeftOut[k.name] = why
				continue
			}
		}
		times := goal.faults
		switch {
		case k.kills:
			times = goal.kills
			n.Crashes = append(n.Crashes, k.name)
		case len(n.able) >= firstKinds:
			times = (goal.faults + 4) / 5
		}
		n.able = append(n.able, aim{k, times})
	}
}

// missing are the kinds that have not landed as often as they are to.
func (n *nemesis) missing() (names []string) {
	for _, k := range n.able {
		if n.landed[k.name] < k.goal {
			names = append(names, k.name)
		}
	}
	return names
}

// plague strikes until every kind has landed as often as it is to, or the time is over, and lets agents work for the
// rest until enough is committed.
func (n *nemesis) plague(commits int, until time.Time) error {
	if err := n.since(0, recoverBound); err != nil { // all agents work
		return err
	}
	for k := n.next(); k != nil && time.Now().Before(until); k = n.next() {
		if err := n.strikeOnce(k); err != nil {
			return err
		}
	}
	left := commits - n.committed
	if err := n.reach(left, max(0, time.Until(until))); err != nil {
		n.Logf("with former slices %v", err) // the figures say what is missing
	}
	return nil
}

// next is the kind of which the least has landed, seen from its goal; nil: all have what they are to have, or were
// void too often.
func (n *nemesis) next() *aim {
	var open []*aim
	least := 1.0
	for i := range n.able {
		k := &n.able[i]
		if s := n.Faults[k.name]; s != nil && s.Void > maxVoids(k.goal) {
			continue
		}
		switch done := float64(n.landed[k.name]) / float64(k.goal); {
		case done < least:
			open, least = []*aim{k}, done
		case done == least && done < 1:
			open = append(open, k)
		}
	}
	if len(open) == 0 {
		return nil
	}
	return one(n.rng, open)
}

// maxVoids is how many void tries a kind may have in one slice.
func maxVoids(goal int) int { return 10 + 3*goal }

// strikeOnce makes one fault and waits until every agent commits again.
func (n *nemesis) strikeOnce(k *aim) error {
	open, before := n.busy()
	landed, healed, err := k.strike(n.lab, n.rng)
	if err != nil {
		return err
	}
	at := healed.Sub(n.began).Nanoseconds()
	if err := n.since(at, recoverBound); err != nil {
		return err
	}
	took := time.Since(healed)
	if err := n.reach(before+leastCommits, recoverBound); err != nil {
		return err
	}
	s := n.of(k.name)
	if !landed || open == 0 {
		s.Void++
		n.Logf("%s: void (landed: %v, %d under way)", k.name, landed, open)
		return nil
	}
	s.Landed++
	n.landed[k.name]++
	s.RecoveryMs = append(s.RecoveryMs, took.Milliseconds())
	_, after := n.busy()
	n.Logf("%s with %d under way: every agent commits again after %v (%d commits so far)", k.name, open,
		took.Round(time.Millisecond), after)
	if took > slowRecovery {
		for _, p := range slices.Concat(n.cars, n.procs) {
			n.Logf("%s:\n%s", p.name, p.running().Words())
		}
	}
	return nil
}
