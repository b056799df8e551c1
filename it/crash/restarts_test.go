package crash

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hence-dev/hence/gate/failpoint"
	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sequencer/testsize"
)

// envRestarts chooses the runs: a number of pairs, "all" of them, or one run as a failure names it.
const envRestarts = "HENCE_RESTARTS"

const (
	restartsHere   = 8  // pairs, where nothing is chosen
	restartTries   = 3  // of one pair, each with another journal, log and place of the first kill
	restartsAtOnce = 12 // most of the time they wait for a lease
)

// restartPair is the point of the first kill and that of the second.
type restartPair [2]failpoint.Point

// restartTally counts pairs.
type restartTally struct {
	mu       sync.Mutex
	reached  map[restartPair]bool // both kills landed
	tried    map[restartPair]bool
	none     int // pairs whose first point no first start and no script reaches
	runs     int
	kills    int
	variants map[string]int // with both kills
}

func (c *restartTally) add(k restartKill, first, second bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs++
	c.tried[restartPair{k.at.point, k.again.point}] = true
	if first {
		c.kills++
	}
	if second {
		c.kills++
		c.reached[restartPair{k.at.point, k.again.point}] = true
		words := strings.Fields(k.String())
		c.variants[strings.Join(words[4:], " ")]++
	}
}

func (c *restartTally) skip() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.none++
}

// places are those at which the first process can be killed, of each point.
func (l *restartLab) places(tb testing.TB, scripts []string) map[failpoint.Point][]restartKill {
	tb.Helper()
	all := map[failpoint.Point][]restartKill{}
	var mu sync.Mutex
	var counting sync.WaitGroup
	for id, script := range scripts {
		counting.Go(func() {
			r := l.on(tb, l.old, fmt.Sprintf("count%d", id), id)
			before, hits := r.hitsOf(tb, script)
			mu.Lock()
			defer mu.Unlock()
			for point, n := range hits {
				from := before[point] + 1
				if slices.Contains(failpoint.Start(), point) {
					from, n = 1, min(n, 1)
				}
				var here []crashKill
				for nth := from; nth <= n; nth++ {
					here = append(here, crashKill{at: crashAt{point, nth}})
				}
				for _, k := range spread(here)[:min(len(here), 40)] {
					all[point] = append(all[point], restartKill{script: script, at: k.at})
				}
			}
		})
	}
	counting.Wait()
	return all
}

// hitsOf plays a script without a kill and counts the hits until the sidecar serves, and in all.
func (r *crashRun) hitsOf(tb testing.TB, script string) (before, all map[failpoint.Point]int) {
	r.hits = filepath.Join(tb.TempDir(), "hits")
	r.follow(tb.Context())
	p, agent := r.start(tb.TempDir(), nil)
	before = readHits(tb, r.hits)
	err := agent.play(tb.Context(), restartScripts()[script])
	if err == nil {
		err = r.decisions.final(tb.Context(), p.Ended(), agent.left...)
	}
	if err != nil {
		tb.Errorf("the script %s without a kill: %v; told: %q\n%s", script, err, agent.last, p.Words())
	}
	if err := p.Kill(); err != nil {
		tb.Error(err)
	}
	return before, readHits(tb, r.hits)
}

// restartPairs lists every pair: of a start all points can be the second, but those of a call that an agent makes.
func restartPairs() (pairs []restartPair) {
	for _, first := range failpoint.All() {
		for _, second := range failpoint.All() {
			if !strings.HasPrefix(string(second), "call.") {
				pairs = append(pairs, restartPair{first, second})
			}
		}
	}
	return pairs
}

// try is one try of a pair: each has another journal, log and place than the one before.
func (p restartPair) try(i, try int, places map[failpoint.Point][]restartKill) (restartKill, bool) {
	from := places[p[0]]
	large := func(k restartKill) bool { return k.script == "large" }
	if few := slices.DeleteFunc(slices.Clone(from), large); len(few) > 0 {
		from = few // the others take less time
	}
	if len(from) == 0 {
		return restartKill{}, false
	}
	k := from[(i+7*try)%len(from)]
	at := i + 3*try
	fates := harness.JournalFates()
	switch p[1] {
	case failpoint.NotSentBefore, failpoint.NotSentAfter: // a stranger does not try
		at, fates = 0, []string{harness.JournalSame}
	case failpoint.AsideBefore, failpoint.AsideAfter:
		fates = []string{harness.JournalFlipped, harness.JournalOther}
	case failpoint.StartHeard, failpoint.JournalBeforeRewrite, failpoint.JournalAfterRewrite: // else it is a long one's
		fates = []string{harness.JournalFlipped, harness.JournalOther, harness.JournalGone}
	}
	k.journal, k.fresh = fates[at%len(fates)], at/len(fates)%2 == 1
	k.again = crashAt{p[1], 1}
	switch p[1] { // a start comes there several times
	case failpoint.JournalBeforeWrite, failpoint.JournalAfterWrite, failpoint.AppendBefore, failpoint.AppendAfter,
		failpoint.EventBefore, failpoint.EventAfter:
		k.again.nth += at / 10 % 6
	}
	return k, true
}

// TestRestarts kills a sidecar at one point of its work and the next start at another, and lets a third go on: with
// the journal of the first, a damaged one, another agent's or none, on the same log or on a new one, on which
// transactions have the same names. Nothing happens twice, nothing is lost without being on the list, nothing of
// another log or agent is called, nothing panics, and the agent is told when its journal is lost.
func TestRestarts(t *testing.T) {
	lab := openRestartLab(t)
	tally := &restartTally{reached: map[restartPair]bool{}, tried: map[restartPair]bool{}, variants: map[string]int{}}
	text := os.Getenv(envRestarts)
	if strings.Contains(text, " ") {
		kill, err := parseRestart(text)
		if err != nil {
			t.Fatalf("%s=%q: %v", envRestarts, text, err)
		}
		first, second := lab.run(t, kill)
		t.Logf("%s: first kill landed: %v, second: %v", kill, first, second)
		return
	}
	scripts, want, tries := []string{"laden"}, harness.Sample(restartsHere), restartTries
	pairs := restartPairs()
	if text == "all" {
		scripts, want = slices.Sorted(maps.Keys(restartScripts())), len(pairs)
		scripts = slices.DeleteFunc(scripts, func(name string) bool { return name == namesake })
	} else if text != "" {
		want = harness.Number(t, envRestarts, harness.Sample(restartsHere))
	} else {
		tries = 1
	}
	rng := rand.New(rand.NewPCG(12, uint64(want)))
	rng.Shuffle(len(pairs), func(i, j int) { pairs[i], pairs[j] = pairs[j], pairs[i] })
	start := time.Now()
	lab.killPairs(t, pairs[:min(want, len(pairs))], lab.places(t, scripts), tries, tally)
	tally.report(t, time.Since(start))
	testsize.Figure(t, start, "pairs of kills that both landed, of a sidecar's work and of the start after it, survived",
		len(tally.reached), 0, "make restarts")
}

func openRestartLab(t *testing.T) *restartLab {
	binary := harness.Binary(t, "failpoints")
	sink := openCrashSink(t)
	path := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(path, sink.policy(), 0o600); err != nil {
		t.Fatal(err)
	}
	open := func(servers *harness.Servers) *crashLab {
		d := harness.Deploy(t, servers)
		return &crashLab{deployment: d, log: d.Dial(t), sink: sink, binary: binary, policy: path}
	}
	second := harness.Start
	if harness.Real() {
		second = harness.StartOwn
	}
	return &restartLab{old: open(harness.Start(t)), fresh: open(second(t))}
}

// killPairs works through pairs, each until both kills have landed once, or so often as it may be tried.
func (l *restartLab) killPairs(t *testing.T, pairs []restartPair, places map[failpoint.Point][]restartKill, tries int,
	tally *restartTally) {
	next := make(chan int)
	var lanes sync.WaitGroup
	for range restartsAtOnce {
		lanes.Go(func() {
			for i := range next {
				for try, second := 0, false; try < tries && !second; try++ {
					kill, possible := pairs[i].try(i, try, places)
					if !possible {
						tally.skip()
						break
					}
					kill.id = restartTries*i + try + 100
					t.Run(strconv.Itoa(kill.id), func(t *testing.T) {
						var first bool
						first, second = l.run(t, kill)
						tally.add(kill, first, second)
					})
				}
			}
		})
	}
	for i := range pairs {
		if t.Context().Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	lanes.Wait()
}

// report says what was reached, and what was not.
func (c *restartTally) report(t *testing.T, took time.Duration) {
	never := map[failpoint.Point]int{}
	for pair := range c.tried {
		if !c.reached[pair] {
			never[pair[1]]++
		}
	}
	t.Logf("%d runs with %d kills in %v: of %d pairs that were tried both kills landed in %d; with journal and log: %v; "+
		"the first point of %d more is reached by a later start only", c.runs, c.kills, took.Round(time.Second),
		len(c.tried), len(c.reached), c.variants, c.none)
	for _, p := range failpoint.All() {
		landed := 0
		for pair := range c.reached {
			if pair[1] == p {
				landed++
			}
		}
		t.Logf("%-22s the second of %3d pairs, and not reached in %3d that were tried", p, landed, never[p])
	}
	if len(c.reached) == 0 {
		t.Error("no pair was reached")
	}
}
