package crash

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hence-dev/hence/gate/failpoint"
	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sequencer/testsize"
)

// crashesAtOnce bounds the runs that are under way at one time.
const crashesAtOnce = 4

// readHits counts a process's hits of each point.
func readHits(tb testing.TB, path string) map[failpoint.Point]int {
	tb.Helper()
	file, err := os.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer file.Close()
	all := map[failpoint.Point]int{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		name, _, _ := strings.Cut(lines.Text(), " ")
		all[failpoint.Point(name)]++
	}
	return all
}

// figures counts what became of a workspace's effects.
func (c *crashCase) figures() string {
	count := map[string]int{}
	for _, k := range c.calls {
		what := k.tx.Kind + " unnamed"
		if k.result != nil {
			what = k.tx.Kind + " " + k.result.String()
		}
		count[what]++
	}
	return fmt.Sprint(count)
}

// crashTally counts the kills that landed and the runs whose point was not reached.
type crashTally struct {
	mu           sync.Mutex
	hits         map[failpoint.Point]int // of the scripts without a kill
	landed, void map[failpoint.Point]int
	kills        int
	byAfter      map[string]int
}

func (c *crashTally) add(k crashKill, landed []failpoint.Point) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(landed) == 0 {
		c.void[k.at.point]++
		return
	}
	c.byAfter[k.after]++
	for _, p := range landed {
		c.landed[p]++
		c.kills++
	}
}

func (c *crashTally) enough(want int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kills >= want
}

// crashPlan lists every place that the scripts reach: round after round, in each round one hit of each point.
func crashPlan(tb testing.TB, lab *crashLab, tally *crashTally) []crashKill {
	tb.Helper()
	places := map[failpoint.Point][][]crashKill{} // of each script
	for id, script := range slices.Sorted(maps.Keys(crashScripts())) {
		before, all := lab.count(tb, id, script)
		for point, n := range all {
			tally.hits[point] += n - before[point]
			if script == "large" && !strings.HasPrefix(string(point), "journal.") {
				continue // the others reach them in less time
			}
			var here []crashKill
			for nth := before[point] + 1; nth <= n; nth++ {
				here = append(here, crashKill{script: script, at: crashAt{point, nth}})
			}
			if script == "large" && !strings.HasSuffix(string(point), "rewrite") {
				here = here[:min(2, len(here))]
			}
			places[point] = append(places[point], spread(here))
		}
	}
	var plan []crashKill
	for round := 0; ; round++ {
		size := len(plan)
		for _, point := range failpoint.Work() {
			if of := inTurns(places[point]); round < len(of) {
				plan = append(plan, of[round])
			}
		}
		if len(plan) == size {
			return plan
		}
	}
}

// inTurns takes one of each list, then the next of each.
func inTurns(lists [][]crashKill) []crashKill {
	var out []crashKill
	for i := 0; ; i++ {
		size := len(out)
		for _, list := range lists {
			if i < len(list) {
				out = append(out, list[i])
			}
		}
		if len(out) == size {
			return out
		}
	}
}

// spread reorders places so that every beginning of the list covers all of it about evenly.
func spread(list []crashKill) []crashKill {
	var out []crashKill
	taken := make([]bool, len(list))
	for step := max(1, len(list)); step > 0; step /= 2 {
		for i := step / 2; i < len(list); i += step {
			if !taken[i] {
				taken[i] = true
				out = append(out, list[i])
			}
		}
	}
	return out
}

// afterwards says who settles after the ith kill, and where that one dies in turn.
func afterwards(i int, k crashKill) crashKill {
	again := []failpoint.Point{failpoint.JournalAfterWrite, failpoint.SettleBefore, failpoint.ReleaseBeforeCall,
		failpoint.UndoAfterCall, failpoint.SettleAfter, failpoint.AppendAfter, failpoint.UndoBeforeCall,
		failpoint.ReleaseAfterCall, failpoint.ResidueAfter, failpoint.EventBefore, failpoint.GiveUpBefore}
	switch k.after = afterSuccessor; {
	case i%11 == 7:
		k.after = afterAdopted
		return k
	case i%5 == 3:
		k.after = afterStranger
	}
	if i%4 == 1 {
		k.again = &crashAt{again[i/4%len(again)], 1 + i/4/len(again)%3}
	}
	return k
}

// TestCrashWindows kills sidecars at every step of a tool call, of its settlement and of what is written down of both;
// another sidecar finishes. Nothing happens twice, nothing is lost, and what is called unresolved could not be known.
func TestCrashWindows(t *testing.T) {
	t.Parallel() // it waits for programs of its own
	want := harness.Number(t, "HENCE_IT_CRASHES", harness.Sample(40))
	binary := harness.Binary(t, "failpoints")
	d := harness.Deploy(t, harness.Start(t))
	lab := &crashLab{deployment: d, log: d.Dial(t), sink: openCrashSink(t), binary: binary,
		policy: filepath.Join(t.TempDir(), "policy.yaml")}
	if err := os.WriteFile(lab.policy, lab.sink.policy(), 0o600); err != nil {
		t.Fatal(err)
	}
	tally := &crashTally{hits: map[failpoint.Point]int{}, landed: map[failpoint.Point]int{},
		void: map[failpoint.Point]int{}, byAfter: map[string]int{}}
	plan := crashPlan(t, lab, tally)
	start := time.Now()
	lab.killAll(t, plan, want, tally)
	t.Logf("%d kills in %v of %d places that the scripts reach; settled by %v", tally.kills,
		time.Since(start).Round(time.Second), len(plan), tally.byAfter)
	for _, p := range failpoint.Work() {
		t.Logf("%-22s %4d hits without a kill, %3d kills landed, %2d void", p, tally.hits[p], tally.landed[p], tally.void[p])
		if tally.hits[p] == 0 {
			t.Errorf("no script reaches %s", p)
		}
		if tally.hits[p] > 0 && tally.landed[p] == 0 && want >= len(failpoint.Work()) && tally.void[p] == 0 {
			t.Errorf("nothing was killed at %s", p)
		}
	}
	if !tally.enough(want) && !t.Failed() {
		t.Errorf("%d kills landed, want %d", tally.kills, want)
	}
	testsize.Figure(t, start, "kills of a sidecar at a step of a tool call or its settlement, survived", tally.kills, 0,
		"make crash-windows")
}

// killAll works through the plan, again from its beginning with other survivors, until enough kills have landed.
func (l *crashLab) killAll(t *testing.T, plan []crashKill, want int, tally *crashTally) {
	next := make(chan int)
	var lanes sync.WaitGroup
	for range crashesAtOnce {
		lanes.Go(func() {
			for i := range next {
				kill := afterwards(i+i/len(plan), plan[i%len(plan)])
				t.Run(fmt.Sprintf("%d", i), func(t *testing.T) {
					tally.add(kill, l.run(t, 100+i, kill))
				})
			}
		})
	}
	for i := 0; i < 3*want && !tally.enough(want) && t.Context().Err() == nil; i++ {
		next <- i
	}
	close(next)
	lanes.Wait()
}
