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
	leastCommits = 10 // between two faults: with fewer the next one shows nothing
)

// goals are what a run of slices is to come to.
type goals struct{ kills, faults, commits int }

// TestTorture is one slice: agents work, the nemesis strikes until the goals are reached or the time is over, and the
// checkers judge. A fault is void where it did not land, or where nothing was under way.
func TestTorture(t *testing.T) {
	if os.Getenv(harness.EnvServers) == "" || !harness.Real() && os.Getenv(envSeconds) == "" {
		t.Skipf("it kills real servers: set %s to a folder with scripts kafka and nats, and %s (make torture)",
			harness.EnvServers, envSeconds)
	}
	book := os.Getenv(testsize.EnvBook)
	goal := goals{kills: harness.Number(t, envKills, 5), faults: harness.Number(t, envFaults, 1),
		commits: harness.Number(t, envCommits, 4_000)}
	most := time.Duration(harness.Number(t, envSeconds, 300)) * time.Second
	former := readBook(t, book)
	seed := uint64(len(former) + 1)
	brokers := harness.Number(t, envBrokers, 1)
	l := openLab(t, brokers)
	s := &slice{Seed: seed, Brokers: brokers, Faults: map[string]*strikes{}, LeftOut: map[string]string{},
		Points: l.points}
	n := &nemesis{lab: l, slice: s, rng: rand.New(rand.NewPCG(seed, 7)), goal: goal, landed: map[string]int{}}
	for _, f := range former {
		n.committed += f.Committed
		for name, was := range f.Faults {
			n.landed[name] += was.Landed
		}
	}
	began := time.Now()
	end := l.run(t.Context())
	reached, err := n.plague(began.Add(most))
	end()
	s.Entry = testsize.NewEntry("torture", began)
	if err == nil {
		err = l.lastOnes(t.Context())
	}
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	s.verdict = l.judge()
	t.Logf("%d brokers, seed %d, %d s: %+v", brokers, seed, s.Seconds, s.verdict)
	if os.Getenv(envOnly) == "" && !t.Failed() {
		if err := l.newLog(); err != nil {
			t.Fatalf("after the log was made anew: %v", err)
		}
		v := l.judge()
		s.of("a log made anew").Landed++
		t.Logf("a log made anew: %+v", v)
	}
	testsize.Add(t, bookName, s)
	if book == "" && !reached {
		t.Errorf("not all kinds have landed as often as %+v wants in %v: %v", goal, most, n.landed)
	}
}

// nemesis breaks one thing after another.
type nemesis struct {
	*lab
	*slice
	rng       *rand.Rand
	goal      goals
	landed    map[string]int // in all slices
	committed int            // in former slices
}

// plague strikes until the goals are reached or the time is over.
func (n *nemesis) plague(until time.Time) (reached bool, err error) {
	if err := n.since(0, recoverBound); err != nil { // all agents work
		return false, err
	}
	for time.Now().Before(until) {
		k := n.next()
		if k == nil {
			break
		}
		if err := n.strikeOnce(k); err != nil {
			return false, err
		}
	}
	_, have := n.busy()
	left := n.goal.commits - n.committed
	if wait := time.Until(until); n.next() == nil && have < left && wait > 0 {
		_ = n.reach(left, wait) // what is missing then is said by the figures
		_, have = n.busy()
	}
	if have < left {
		n.Logf("%d of %d transactions are committed", n.committed+have, n.goal.commits)
	}
	return n.next() == nil, nil
}

// next is the kind of which the least has landed, seen from its goal; nil: all have what they are to have.
func (n *nemesis) next() *kind {
	var open []kind
	least := 1.0
	for _, k := range kinds() {
		goal := n.goal.faults
		if k.kills {
			goal = n.goal.kills
		}
		if only := os.Getenv(envOnly); only != "" && only != k.name || k.three && n.brokers < 3 {
			continue
		}
		if k.kills && !slices.Contains(n.Crashes, k.name) {
			n.Crashes = append(n.Crashes, k.name)
		}
		if k.cannot != nil {
			if why := k.cannot(n.lab); why != "" {
				n.LeftOut[k.name] = why
				continue
			}
		}
		if s := n.Faults[k.name]; s != nil && s.Void > maxVoids(goal) {
			continue // it does not land: the report says how often it was tried
		}
		if done := float64(n.landed[k.name]) / float64(goal); done < least {
			open, least = []kind{k}, done
		} else if done == least && done < 1 {
			open = append(open, k)
		}
	}
	if len(open) == 0 {
		return nil
	}
	k := open[n.rng.IntN(len(open))]
	return &k
}

// maxVoids is how many void tries a kind may have in one slice.
func maxVoids(goal int) int { return 10 + 3*goal }

// strikeOnce makes one fault and waits until every agent commits again.
func (n *nemesis) strikeOnce(k *kind) error {
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
	return nil
}
