package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/topology"
)

const (
	devAgents    = 6 // of them each second one lives on, the others are started for each log
	devCommits   = 3 // of an agent that is started for each log
	devPad       = 150
	devLifeBound = 60 * time.Second
)

// devTools are tools whose calls say which log they follow from, and in whose time the process began that makes them.
const devTools = `version: 1
server: again
strict: true
defaults: {max_time_ms: 400, retry: {attempts: 3, backoff_ms: 10, backoff_most_ms: 40}}
hosts: ["SINK"]
tools:
  - tool: note
    class: irreversible
    args: [agent, id, life]
    scopes: ["note:/{agent}"]
    http: {method: POST, url: "http://SINK/LIFE/note", body: {agent: "{agent}", id: "{id}", life: "{life}"}}
  - tool: charge
    class: irreversible
    args: [agent, id, life]
    scopes: ["card:/{agent}"]
    key: "charge/{id}"
    http: {method: POST, url: "http://SINK/LIFE/charge", body: {agent: "{agent}", id: "{id}", life: "{life}"}}
`

// devWorld is what agents say and what arrives at the sink.
type devWorld struct {
	tb     testing.TB
	kept   bool // the log outlives "hence dev"
	server *httptest.Server

	mu      sync.Mutex
	life    int
	rounds  map[string]devRound // by id
	notes   map[string]int
	charges map[string]int
	commits map[string]int // of an agent in this life
	states  map[string]int // of rounds
	wrong   []string
	moved   chan struct{}
}

func openDevWorld(tb testing.TB, kept bool) *devWorld {
	w := &devWorld{tb: tb, kept: kept, rounds: map[string]devRound{}, notes: map[string]int{},
		charges: map[string]int{}, commits: map[string]int{}, states: map[string]int{}, moved: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /report", w.report)
	mux.HandleFunc("POST /{life}/{tool}", w.call)
	w.server = httptest.NewServer(mux)
	tb.Cleanup(w.server.Close)
	return w
}

func (w *devWorld) report(rw http.ResponseWriter, r *http.Request) {
	var said devRound
	if err := json.NewDecoder(r.Body).Decode(&said); err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rounds[said.ID] = said
	w.states[said.State]++
	if said.State == devAborted {
		w.states[said.Cause]++
	}
	if said.State == devLasting {
		w.wrong = append(w.wrong, fmt.Sprintf("life %d: a 410 that lasts: %+v", w.life, said))
	}
	if said.State == devCommitted && said.Life == strconv.Itoa(w.life) {
		w.commits[said.Agent]++
	}
	close(w.moved)
	w.moved = make(chan struct{})
}

func (w *devWorld) call(rw http.ResponseWriter, r *http.Request) {
	var said struct{ Agent, ID, Life string }
	if err := json.NewDecoder(r.Body).Decode(&said); err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	began, tool := r.PathValue("life"), r.PathValue("tool")
	if !w.kept && began != said.Life {
		w.wrong = append(w.wrong, fmt.Sprintf("a process of life %s has made a call of life %s: %s of %s", began, said.Life,
			tool, said.Agent))
	}
	if tool == "note" {
		w.notes[said.ID]++
	} else {
		w.charges[said.ID]++
	}
}

// policy writes the tools of a process that begins now.
func (w *devWorld) policy(life int) string {
	path := filepath.Join(w.tb.TempDir(), "policy.yaml")
	text := strings.NewReplacer("SINK", strings.TrimPrefix(w.server.URL, "http://"), "LIFE", strconv.Itoa(life)).
		Replace(devTools)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.tb.Fatal(err)
	}
	return path
}

// devAgain is "hence dev" on fixed ports, and its agents.
type devAgain struct {
	*devWorld
	binary      string
	data        string // of hence dev; empty: in memory
	cache       string // where "hence run" keeps its journals
	kafka, nats int
	dev         *harness.Process
	devURL      string
	devToken    string
}

func (a *devAgain) up(t *testing.T, life int) {
	args := []string{"dev", "--agent", "dev", "--kafka-port", strconv.Itoa(a.kafka), "--nats-port", strconv.Itoa(a.nats),
		"--port", "0", "--console-port", "0", "--output", "json"}
	if a.data != "" {
		args = append(args, "--data-dir", a.data)
	}
	p, line := harness.SpawnServing(t, devLifeBound, a.binary, args...)
	var ready struct{ URL, Token string }
	if err := json.Unmarshal(line, &ready); err != nil {
		t.Fatal(err)
	}
	a.dev, a.devURL, a.devToken = p, ready.URL, ready.Token
	cl := client.New(a.devURL, a.devToken)
	defer cl.Close()
	puts := []string{"shard:/life"}
	if life%2 == 0 { // longer than what was read before: such a read is not refused for its view alone
		puts = append(slices.Repeat([]string{"shard:/pad"}, devPad), puts...)
	}
	for _, shard := range puts {
		d, err := cl.Put(t.Context(), shard, []byte(strconv.Itoa(life)), client.WriteOptions{})
		if err != nil || d.State != devCommitted {
			t.Fatalf("life %d: writing %s: %+v, %v", life, shard, d, err)
		}
	}
}

// agent starts "hence run" for one agent.
func (a *devAgain) agent(t *testing.T, name string, life, rounds int) *harness.Process {
	cmd := exec.Command(a.binary, "run", "--agent", name, "--brokers", fmt.Sprintf("127.0.0.1:%d", a.kafka), "--nats",
		fmt.Sprintf("nats://127.0.0.1:%d", a.nats), "--policy", a.policy(life), "--settle", "2s", "--", os.Args[0])
	cmd.Env = []string{"XDG_CACHE_HOME=" + a.cache, envDevReport + "=" + a.server.URL + "/report",
		envDevAgent + "=" + strconv.Itoa(rounds), "NO_PROXY=127.0.0.1"}
	return harness.SpawnCommand(t, nil, cmd)
}

// live keeps one agent running until the context ends: "hence run" ends when the log is another, and is started again.
func (a *devAgain) live(ctx context.Context, t *testing.T, name string) {
	for ctx.Err() == nil {
		a.mu.Lock()
		life := a.life
		a.mu.Unlock()
		p := a.agent(t, name, life, 0)
		select {
		case <-p.Ended():
		case <-ctx.Done():
			_ = p.Terminate() // it may have ended
			<-p.Ended()
		}
		a.panics(p)
	}
}

func (a *devAgain) panics(p *harness.Process) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, line := range p.Panics() {
		a.wrong = append(a.wrong, fmt.Sprintf("life %d: a process has panicked: %s", a.life, line))
	}
}

// everyone waits until each agent has committed in this life.
func (a *devAgain) everyone(ctx context.Context) error {
	for {
		a.mu.Lock()
		missing, moved := []string(nil), a.moved
		for i := range devAgents {
			if name := devName(i); a.commits[name] < 2 {
				missing = append(missing, fmt.Sprintf("%s (%d commits)", name, a.commits[name]))
			}
		}
		a.mu.Unlock()
		if len(missing) == 0 {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("these agents do not get on: %v", missing)
		}
	}
}

func devName(i int) string { return fmt.Sprintf("w%d", i+1) }

// round is one life of "hence dev".
func (a *devAgain) round(t *testing.T, life int) {
	a.up(t, life)
	var oneshots []*harness.Process
	for i := 1; i < devAgents; i += 2 {
		oneshots = append(oneshots, a.agent(t, devName(i), life, devCommits))
	}
	ctx, cancel := context.WithTimeout(t.Context(), devLifeBound)
	defer cancel()
	if err := a.everyone(ctx); err != nil {
		a.fail(fmt.Sprintf("life %d: %v", life, err))
	}
	for _, p := range oneshots {
		_, code, err := p.Wait(devLifeBound)
		if err != nil || code != 0 {
			a.fail(fmt.Sprintf("life %d: hence run ended with %d, %v: %s", life, code, err, p.Words()))
		}
		a.panics(p)
	}
	if !a.kept {
		a.readsOf(t, life)
	}
	a.next(life + 1) // those that are started from now on belong to the next one
	if err := a.dev.Terminate(); err != nil {
		t.Error(err)
	}
	if _, code, err := a.dev.Wait(devLifeBound); err != nil || code != 0 {
		a.fail(fmt.Sprintf("life %d: hence dev ended with %d, %v: %s", life, code, err, a.dev.Words()))
	}
	a.panics(a.dev)
}

// readsOf looks for reads of a former log in what this one has committed.
func (a *devAgain) readsOf(t *testing.T, life int) {
	const workspace = "default"
	brokers, committed := []string{fmt.Sprintf("127.0.0.1:%d", a.kafka)}, map[sequencer.TxID]bool{}
	outcomes, unreadable := harness.Recorded(t, &harness.Servers{Brokers: brokers}, workspace)
	if unreadable > 0 {
		t.Fatalf("%d decisions cannot be read", unreadable)
	}
	for _, o := range outcomes {
		if o.Kind == sequencer.OutcomeCommitted {
			committed[o.Tx] = true
		}
	}
	seen := 0
	for _, r := range harness.ReadTopic(t, brokers, topology.TopicIntents, workspace) {
		in, err := topology.DecodeIntent(r.Value)
		if err != nil {
			t.Fatal(err)
		}
		if in.Seal == nil || !committed[in.Tx] {
			continue
		}
		for _, read := range in.Seal.Reads {
			of, named := strings.CutPrefix(string(read.Scope), readIn)
			if named && of != strconv.Itoa(life) {
				a.fail(fmt.Sprintf("life %d: %s has committed on a read of life %s", life, in.Tx, of))
			} else if named {
				seen++
			}
		}
	}
	if seen == 0 {
		a.fail(fmt.Sprintf("life %d: no loose read was committed", life))
	}
}

func (a *devAgain) fail(text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wrong = append(a.wrong, text)
}

func (a *devAgain) next(life int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.life, a.commits = life, map[string]int{}
}

// judge says what does not hold of all rounds and calls.
func (a *devAgain) judge() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	wrong := a.wrong
	add := func(is bool, format string, args ...any) {
		if is {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	written := map[string]devRound{} // two that wrote one number have both committed on one read
	for id, r := range a.rounds {
		add(r.State == devAborted && a.notes[id]+a.charges[id] > 0, "an aborted round has calls: %+v", r)
		add(!a.kept && r.Cause == string(sequencer.CodeIncompleteFootprint), "a read of a former log is refused: %+v", r)
		if r.State != devCommitted {
			continue
		}
		where := fmt.Sprint(r.N, r.Loose)
		if !a.kept {
			where += " " + r.Life
		}
		other, twice := written[where]
		add(twice, "two rounds have committed on one read: %+v, %+v", r, other)
		written[where] = r
	}
	for id, n := range a.notes {
		add(n > 1, "a note was made %d times: %+v", n, a.rounds[id])
	}
	add(a.notes["never"]+a.charges["never"] > 0, "calls were made of transactions that were never sealed")
	return wrong
}

// TestDevAgain stops and starts "hence dev" under six agents of "hence run", of which three live on. In memory each
// start is a new log, with a data folder it is the same. No agent is told for ever that its session is lost, nothing
// commits on a read of a former log, and no call of a former log is made.
func TestDevAgain(t *testing.T) {
	for name, kept := range map[string]bool{"in memory": false, "kept": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lives := harness.Number(t, "HENCE_IT_DEV_AGAIN", 2)
			a := &devAgain{devWorld: openDevWorld(t, kept), binary: harness.Binary(t), cache: t.TempDir()}
			ports, err := harness.FreePorts(2)
			if err != nil {
				t.Fatal(err)
			}
			a.kafka, a.nats = ports[0], ports[1]
			if kept {
				a.data = t.TempDir()
			}
			a.next(1)
			ctx, cancel := context.WithCancel(t.Context())
			var living sync.WaitGroup
			for i := 0; i < devAgents; i += 2 {
				living.Go(func() { a.live(ctx, t, devName(i)) })
			}
			for life := 1; life <= lives && !t.Failed(); life++ {
				a.round(t, life)
			}
			cancel()
			living.Wait()
			for _, text := range a.judge() {
				t.Error(text)
			}
			t.Logf("%d starts of hence dev; rounds: %v; %d notes, %d charges", lives, a.states, len(a.notes), len(a.charges))
		})
	}
}
