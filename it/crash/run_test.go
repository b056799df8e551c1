package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/failpoint"
	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar"
	"github.com/hence-dev/hence/streams"
)

// Bounds of one run.
const (
	crashServing = 30 * time.Second // until a sidecar serves
	crashBound   = 90 * time.Second
	crashLease   = 20 // ticks
)

// Who settles after a kill.
const (
	afterSuccessor = "successor" // the agent's next sidecar, with lock and journal
	afterStranger  = "stranger"  // the agent's next sidecar, whose folder is empty
	afterAdopted   = "adopted"   // another agent's
)

// crashAt is one place to be killed at: the nth hit of a point since the process began.
type crashAt struct {
	point failpoint.Point
	nth   int
}

func (c crashAt) String() string { return fmt.Sprintf("%s:%d", c.point, c.nth) }

// crashKill is one run: a script, where the sidecar dies, who settles, and where that one dies in turn.
type crashKill struct {
	script string
	at     crashAt
	after  string
	again  *crashAt // not for an adopter, which is in this process
}

// crashLab is what all runs share.
type crashLab struct {
	deployment *harness.Deployment
	log        *streams.Client
	sink       *crashSink
	binary     string
	policy     string
}

// crashRun is one run.
type crashRun struct {
	*crashLab
	tb        testing.TB
	kill      crashKill
	workspace string
	agent     string
	hits      string // file that the first process writes its hits to; empty: none
	decisions *crashLog
	journals  []map[spot]*gate.Progress
	landed    []failpoint.Point
	words     []string // last words of processes
	told      []string // what agents were told last
}

const crashToken = "a-token-of-the-crash-test"

// crashLog follows a workspace's decisions.
type crashLog struct {
	mu       sync.Mutex
	outcomes []*sequencer.Outcome
	open     map[sequencer.TxID]bool // transactions that are not final
	ended    map[sequencer.TxID]bool
	moved    chan struct{}
}

func (l *crashLog) take(o *sequencer.Outcome, _ streams.Way) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.outcomes = append(l.outcomes, o)
	switch {
	case o.Tx == "" || o.Kind == sequencer.OutcomeRefused:
	case o.Kind == sequencer.OutcomeRetracting || o.Kind == sequencer.OutcomeTurn:
		l.open[o.Tx] = true
		delete(l.ended, o.Tx)
	case o.Final:
		l.ended[o.Tx] = true
		delete(l.open, o.Tx)
	case !l.ended[o.Tx]:
		l.open[o.Tx] = true
	}
	close(l.moved)
	l.moved = make(chan struct{})
	return nil
}

// final waits until every transaction but those that are left open is final, or over is closed.
func (l *crashLog) final(ctx context.Context, over <-chan struct{}, left ...sequencer.TxID) error {
	for {
		l.mu.Lock()
		open, moved := len(l.open), l.moved
		for _, tx := range left {
			if l.open[tx] {
				open--
			}
		}
		text := fmt.Sprint(l.open)
		l.mu.Unlock()
		if open == 0 {
			return nil
		}
		select {
		case <-moved:
		case <-over:
			return errGone
		case <-ctx.Done():
			return fmt.Errorf("%d transactions are never final: %s", open, text)
		}
	}
}

func (l *crashLog) all() []*sequencer.Outcome {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]*sequencer.Outcome(nil), l.outcomes...)
}

// follow sets the workspace's rules and follows its decisions until the test ends.
func (r *crashRun) follow(ctx context.Context) {
	rules := sequencer.DefaultRules()
	rules.Version, rules.Logic, rules.LeaseTicks = 1, sequencer.Logic, crashLease
	in := &sequencer.Intent{Kind: sequencer.IntentRules, Rules: &rules}
	if _, err := r.log.Append(ctx, r.workspace, in); err != nil {
		r.tb.Fatal(err)
	}
	r.decisions = &crashLog{open: map[sequencer.TxID]bool{}, ended: map[sequencer.TxID]bool{},
		moved: make(chan struct{})}
	following, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := r.log.Follow(following, r.workspace, 0, r.decisions.take); following.Err() == nil {
			r.tb.Errorf("following the decisions: %v", err)
		}
	}()
	r.tb.Cleanup(func() {
		cancel()
		<-done
	})
}

// start starts the agent's sidecar; one that died before it served is no error.
func (r *crashRun) start(dir string, kill *crashAt) (*harness.Process, *crashAgent) {
	cmd := exec.Command(r.binary, "sidecar", "--agent", r.agent, "--workspace", r.workspace, "--listen", "127.0.0.1:0",
		"--brokers", strings.Join(r.deployment.Brokers, ","), "--nats", r.deployment.NATS, "--data-dir", dir,
		"--policy", r.policy, "--token", crashToken, "--output", "json",
		"--plan-wait", "300ms")
	if kill != nil {
		cmd.Env = append(cmd.Env, "HENCE_FAILPOINT="+kill.String())
	}
	if r.hits != "" {
		cmd.Env = append(cmd.Env, "HENCE_FAILPOINT_LOG="+r.hits)
	}
	p, line, err := harness.Launch(r.tb, crashServing, cmd)
	if errors.Is(err, harness.ErrEnded) && kill != nil {
		return p, nil
	}
	var ready struct {
		Address string `json:"address"`
	}
	if err == nil {
		err = json.Unmarshal(line, &ready)
	}
	if err != nil {
		r.tb.Fatal(err)
	}
	return p, &crashAgent{name: r.agent, ended: p.Ended(), cl: clientOf(r.tb, ready.Address, crashToken, r.workspace)}
}

// died notes a kill that has landed, and what the journal holds then.
func (r *crashRun) died(p *harness.Process, dir string, at crashAt) {
	if _, code, err := p.Wait(time.Second); err != nil || code != -1 {
		r.tb.Fatalf("the sidecar was to be killed at %s and ended with %d, %v\n%s", at, code, err, p.Words())
	}
	r.landed = append(r.landed, at.point)
	r.words = append(r.words, p.Words())
	journal, err := readJournal(dir)
	if err != nil {
		r.tb.Fatal(err)
	}
	r.journals = append(r.journals, journal)
}

// play runs the script against a sidecar that dies. It reports false when the point was not reached.
func (r *crashRun) play(ctx context.Context, dir string) bool {
	var kill *crashAt
	if r.kill.at.nth > 0 {
		kill = &r.kill.at
	}
	p, agent := r.start(dir, kill)
	if agent != nil {
		err := agent.play(ctx, crashScripts()[r.kill.script])
		if err == nil {
			err = r.decisions.final(ctx, p.Ended())
		}
		r.told = append(r.told, agent.last...)
		if err != nil && !errors.Is(err, errGone) {
			r.tb.Fatalf("the script: %v; told: %q\n%s", err, agent.last, p.Words())
		}
		if err == nil {
			if err := p.Kill(); err != nil {
				r.tb.Fatal(err)
			}
			return false
		}
	}
	r.died(p, dir, r.kill.at)
	return true
}

// settle lets another sidecar finish what a dead one left, and ends once every transaction is final and what was moved
// can be moved again.
func (r *crashRun) settle(ctx context.Context, dir string) {
	var agent *crashAgent
	var end func()
	switch r.kill.after {
	case afterAdopted:
		other := r.deployment.In(r.workspace).SidecarWith(r.tb, sidecar.Config{Agent: r.agent + "-other",
			Tools: r.sink.tools(r.tb), Limits: sidecar.Limits{AdoptAfter: 200 * time.Millisecond}})
		agent = &crashAgent{name: r.agent, cl: other.Client}
		end = other.Stop
	case afterStranger:
		dir = r.tb.TempDir()
		r.dieAgain(ctx, dir)
	case afterSuccessor:
		r.dieAgain(ctx, dir)
	}
	if agent == nil {
		p, a := r.start(dir, nil)
		agent, end = a, func() {
			r.words = append(r.words, p.Words())
			if err := p.Kill(); err != nil {
				r.tb.Error(err)
			}
		}
	}
	err := agent.probe(ctx, crashScopes(r.agent))
	if err == nil {
		err = r.decisions.final(ctx, agent.ended)
	}
	end()
	r.told = append(r.told, agent.last...)
	if err != nil {
		r.tb.Errorf("%v; told: %q\n%s", err, r.told, strings.Join(r.words, "\n---\n"))
	}
}

// dieAgain lets the settling sidecar die, too, at its own point; another one goes on with its journal.
func (r *crashRun) dieAgain(ctx context.Context, dir string) {
	if r.kill.again == nil {
		return
	}
	p, agent := r.start(dir, r.kill.again)
	if agent != nil {
		err := r.decisions.final(ctx, p.Ended())
		if err == nil {
			err = p.Kill() // it had nothing to do there
			if err == nil {
				return
			}
		}
		if !errors.Is(err, errGone) {
			r.tb.Fatalf("the successor: %v\n%s", err, p.Words())
		}
	}
	r.died(p, dir, *r.kill.again)
}

// run kills once, or twice, and checks what is left. It returns the points at which a kill has landed.
func (l *crashLab) run(tb testing.TB, id int, kill crashKill) []failpoint.Point {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), crashBound)
	defer cancel()
	r := &crashRun{crashLab: l, tb: tb, kill: kill, agent: fmt.Sprintf("a%d", id),
		workspace: fmt.Sprintf("%s-%d", l.deployment.Workspace, id)}
	r.follow(ctx)
	dir := tb.TempDir()
	if !r.play(ctx, dir) {
		return nil
	}
	r.settle(ctx, dir)
	c := gather(tb, l.deployment.Servers, r.workspace, r.decisions.all(), l.sink.of(r.agent))
	c.journals, c.stranger = r.journals, kill.after != afterSuccessor
	if wrong := c.violations(); len(wrong) > 0 {
		tb.Errorf("%s\n%s\ntold: %q\n%s", kill, strings.Join(wrong, "\n"), r.told, strings.Join(r.words, "\n---\n"))
	}
	return r.landed
}

// String names a run.
func (k crashKill) String() string {
	text := fmt.Sprintf("%s, killed at %s, then a %s", k.script, k.at, k.after)
	if k.again != nil {
		text += fmt.Sprintf(" killed at %s", k.again)
	}
	return text
}

// count runs a script without a kill and returns how often each point is hit until the sidecar serves, and in all.
func (l *crashLab) count(tb testing.TB, id int, script string) (before, all map[failpoint.Point]int) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), crashBound)
	defer cancel()
	r := &crashRun{crashLab: l, tb: tb, kill: crashKill{script: script}, agent: fmt.Sprintf("a%d", id),
		workspace: fmt.Sprintf("%s-%d", l.deployment.Workspace, id), hits: filepath.Join(tb.TempDir(), "hits")}
	r.follow(ctx)
	dir := tb.TempDir()
	p, agent := r.start(dir, nil)
	before = readHits(tb, r.hits)
	err := agent.play(ctx, crashScripts()[script])
	if err == nil {
		err = r.decisions.final(ctx, p.Ended())
	}
	if err != nil {
		tb.Fatalf("the script %s without a kill: %v; told: %q\n%s", script, err, agent.last, p.Words())
	}
	if err := p.Kill(); err != nil {
		tb.Fatal(err)
	}
	c := gather(tb, l.deployment.Servers, r.workspace, r.decisions.all(), l.sink.of(r.agent))
	if wrong := c.violations(); len(wrong) > 0 {
		tb.Errorf("the script %s without a kill: %s\ntold: %q", script, strings.Join(wrong, "\n"), agent.last)
	}
	tb.Logf("the script %s: %s", script, c.figures())
	return before, readHits(tb, r.hits)
}
