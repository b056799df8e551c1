package outages

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/topology"
)

// Bounds of a kill.
const (
	comeBack = 90 * time.Second // from a kill until the part serves again
	goOn     = 90 * time.Second // from a kill until further tasks are committed
)

// The parts that are killed.
const (
	processors = "processors"
	oneSidecar = "sidecar"
	theNATS    = "NATS"
	broker     = "broker"
)

// child is one line of the demo's standard error.
type child struct {
	Role    string `json:"role"`
	Agent   string `json:"agent"`
	PID     int    `json:"pid"`
	Address string `json:"address"`
	Starts  int    `json:"starts"`
}

// children are the demo's child processes as it announces them.
type children struct {
	mu    sync.Mutex
	all   map[string]child // by role and agent: the newest
	moved chan struct{}
}

func newChildren() *children { return &children{all: map[string]child{}, moved: make(chan struct{})} }

func (c *children) line(text string) {
	var one child
	if json.Unmarshal([]byte(text), &one) != nil || one.PID == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all[one.Role+"/"+one.Agent] = one
	close(c.moved)
	c.moved = make(chan struct{})
}

// await waits for a child of a role that was started at least so often, and returns it. An empty agent is any but the
// loader and the auditor.
func (c *children) await(t *testing.T, role, agent string, starts int) child {
	t.Helper()
	deadline := time.After(comeBack)
	for {
		c.mu.Lock()
		moved := c.moved
		for _, one := range c.all {
			if one.Role == role && (one.Agent == agent || agent == "" && one.Agent == "agent-1") && one.Starts >= starts {
				c.mu.Unlock()
				return one
			}
		}
		c.mu.Unlock()
		select {
		case <-moved:
		case <-deadline:
			t.Fatalf("no %s %s serves for the %d. time within %v", role, agent, starts, comeBack)
		}
	}
}

// landing is one kill.
type landing struct {
	part string
	at   time.Time
	back time.Duration // until the part served again
	on   time.Duration // until further tasks were committed
}

// TestKill kills the processors, a sidecar, NATS and the broker in the middle of a demo of child processes, again and
// again. The demo ends, its check holds, and nothing that an agent was told of is missing.
func TestKill(t *testing.T) {
	t.Parallel() // it waits for programs of its own
	rounds := harness.Number(t, "HENCE_IT_KILLS", 1)
	servers := harness.StartOwn(t)
	landed, void := map[string]int{}, map[string]int{}
	enough := func() bool {
		return min(landed[processors], landed[oneSidecar], landed[theNATS], landed[broker]) >= rounds
	}
	for round := 1; !enough() && round <= 2*rounds; round++ { // a void kill is made up for
		kills, open := killRound(t, servers, round)
		for i, k := range kills {
			if open[i] == 0 {
				void[k.part]++
				continue
			}
			landed[k.part]++
			t.Logf("round %d: killed %s with %d transactions open; it served again after %v, tasks went on after %v", round,
				k.part, open[i], k.back.Round(time.Millisecond), k.on.Round(time.Millisecond))
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("kills that landed: %v, void: %v", landed, void)
	if !enough() {
		t.Errorf("want %d of each with a transaction open", rounds)
	}
}

// killRound runs one demo and kills each part once. It returns how many transactions were open at each kill.
func killRound(t *testing.T, servers *harness.Servers, round int) (kills []landing, open []int) {
	t.Helper()
	before := harness.Ends(t, servers.Brokers, topology.TopicDecisions)
	kids, records := newChildren(), filepath.Join(t.TempDir(), "records")
	tasks := harness.Number(t, "HENCE_IT_KILL_TASKS", 60)
	demo := harness.StartDemo(t, harness.Binary(t), servers, kids.line, "--processes", "--agents", "8", "--tasks",
		strconv.Itoa(tasks), "--think", "60ms", "--seed", strconv.Itoa(round), "--records", records)
	progress := watchCommits(t, servers, before)
	done := 20 // commits; the loading of the data is among them
	for _, part := range []struct {
		name string
		kill func() time.Duration // returns once the part serves again
	}{
		{processors, func() time.Duration { return killChild(t, kids, "streams", "") }},
		{oneSidecar, func() time.Duration { return killChild(t, kids, "sidecar", "agent-1") }},
		{theNATS, func() time.Duration { return harness.Timed(func() { servers.KillNATS(t); servers.UpNATS(t) }) }},
		{broker, func() time.Duration { return harness.Timed(func() { servers.KillKafka(t); servers.UpKafka(t) }) }},
	} {
		if !progress.reach(t, done, goOn, demo) {
			t.Logf("the demo ended before the %s was killed", part.name)
			continue
		}
		k := landing{part: part.name, at: time.Now()}
		k.back = part.kill()
		done = progress.count() + 30
		if progress.reach(t, done, goOn, demo) {
			k.on = time.Since(k.at)
		}
		kills = append(kills, k)
		done += 10
	}
	report, code := demo.Report(t, harness.DemoBound)
	t.Log(report)
	if err := report.Holds(); err != nil || code != 0 {
		t.Errorf("round %d: exit code %d: %v\n%s", round, code, err, demo.Words())
	}
	if report.Committed != report.Transactions {
		t.Errorf("round %d: %d of %d tasks are committed", round, report.Committed, report.Transactions)
	}
	attempts := harness.AttemptsOf(t, harness.ReadAttempts(t, records))
	harness.Holds(t, attempts, harness.DecisionsOf(t, servers, report.Workspace, attempts))
	return kills, openAt(t, servers, report.Workspace, kills)
}

// killChild kills a child of the demo without a farewell and waits until it was started again.
func killChild(t *testing.T, kids *children, role, agent string) time.Duration {
	t.Helper()
	var one child
	if agent == "" {
		kids.mu.Lock()
		for _, c := range kids.all {
			if c.Role == role {
				one = c
			}
		}
		kids.mu.Unlock()
	} else {
		one = kids.await(t, role, agent, 1)
	}
	if one.PID <= 1 {
		t.Fatalf("the demo announced no %s", role)
	}
	process, err := os.FindProcess(one.PID)
	if err == nil {
		err = process.Signal(syscall.SIGKILL)
	}
	if err != nil {
		t.Fatalf("kill %s %d: %v", role, one.PID, err)
	}
	start := time.Now()
	kids.await(t, role, one.Agent, one.Starts+1)
	return time.Since(start)
}

// commits counts the committed decisions of demo workspaces from a place on, with a client that knows nothing of ours.
type commits struct {
	mu    sync.Mutex
	n     int
	moved chan struct{}
}

func watchCommits(t *testing.T, servers *harness.Servers, from map[int32]int64) *commits {
	t.Helper()
	c := &commits{moved: make(chan struct{})}
	offsets := map[int32]kgo.Offset{}
	for partition, offset := range from {
		offsets[partition] = kgo.NewOffset().At(offset)
	}
	cl := harness.RawClient(t, servers.Brokers,
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topology.TopicDecisions: offsets}))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			fetches := cl.PollFetches(t.Context())
			if fetches.IsClientClosed() || t.Context().Err() != nil {
				return
			}
			fetches.EachRecord(c.record)
		}
	}()
	t.Cleanup(func() {
		cl.Close()
		<-done
	})
	return c
}

func (c *commits) record(r *kgo.Record) {
	if harness.Header(r, "ce_type") != topology.DecisionTypePrefix+"committed.v1" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	close(c.moved)
	c.moved = make(chan struct{})
}

func (c *commits) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// reach waits for a number of commits; false: the demo ended before.
func (c *commits) reach(t *testing.T, n int, bound time.Duration, demo *harness.RunningDemo) bool {
	t.Helper()
	deadline := time.After(bound)
	for {
		c.mu.Lock()
		have, moved := c.n, c.moved
		c.mu.Unlock()
		if have >= n {
			return true
		}
		select {
		case <-moved:
		case <-demo.Ended():
			return false
		case <-deadline:
			t.Fatalf("%d commits after %v, want %d: nothing goes on; the demo's last words:\n%s", have, bound, n, demo.Words())
		}
	}
}

// openAt counts the transactions that were open at each kill: the first event of one is before it, its decision after.
func openAt(t *testing.T, servers *harness.Servers, workspace string, kills []landing) []int {
	t.Helper()
	type life struct{ from, to time.Time }
	lives := map[string]*life{}
	for _, ev := range harness.ReadEvents(t, servers.Brokers, workspace) {
		at := time.UnixMilli(ev.AtMs)
		if l := lives[string(ev.Tx)]; l == nil {
			lives[string(ev.Tx)] = &life{from: at}
		} else if at.Before(l.from) {
			l.from = at
		}
	}
	for _, r := range harness.ReadTopic(t, servers.Brokers, topology.TopicDecisions, workspace) {
		o, err := topology.ReadCloudEvent(r.Value)
		if err != nil {
			t.Fatal(err)
		}
		if l := lives[string(o.Outcome.Tx)]; l != nil && l.to.IsZero() { // a later copy has a later time
			l.to = r.Timestamp
		}
	}
	open := make([]int, len(kills))
	for i, k := range kills {
		for tx, l := range lives {
			if tx != "" && l.from.Before(k.at) && (l.to.IsZero() || l.to.After(k.at)) {
				open[i]++
			}
		}
	}
	return open
}

// String names a kill for messages.
func (k landing) String() string { return fmt.Sprintf("%s at %s", k.part, k.at.Format(time.TimeOnly)) }
