package demo

import (
	"context"
	secret "crypto/rand"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/cluster"
	"github.com/hence-dev/hence/cmd/hence/internal/retail"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/embedded"
)

// run is one run of the demo.
type run struct {
	cfg *Config
	*plan
	servers   streams.Config
	workspace string
	cluster   cluster.Cluster
	together  func() (map[string]cluster.Door, error) // starts the one sidecar of all agents, once; nil: each has its own
	shop      *shop
	streams   *streams.Client // follows the log, measures appends
	log       *decisionLog
	records   records
	progress  progress
	appends   []time.Duration
}

// Run starts everything, lets the agents settle their tasks, draws the verdict and ends everything again. An error
// means that the run could not be finished; a run whose check does not hold is finished, see [Report.Holds].
func Run(ctx context.Context, cfg Config) (*Report, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	plan, err := cfg.makePlan()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "hence-demo-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for journals: %w", err)
	}
	r := &run{cfg: &cfg, plan: plan, log: newDecisionLog()}
	r.workspace = fmt.Sprintf("demo-%d-%s", cfg.Seed, strings.ToLower(secret.Text()[:10]))
	report, err := r.everything(ctx, dir)
	if err != nil && cfg.Processes && ctx.Err() == nil {
		return nil, fmt.Errorf("%w (what the child processes wrote is in %s)", err, dir)
	}
	return report, errors.Join(err, os.RemoveAll(dir))
}

// everything runs the demo over a folder.
func (r *run) everything(ctx context.Context, dir string) (*Report, error) {
	r.progress.stage("starting")
	stopProgress := r.progress.show(r.cfg.Progress, r.cfg.Terminal)
	defer stopProgress()
	var err error
	if r.shop, err = openShop(dir, r.cfg); err != nil {
		return nil, err
	}
	defer r.shop.close()
	r.servers = streams.Config{Brokers: r.cfg.Brokers, NATS: r.cfg.NATS, Replication: r.cfg.Replication,
		Partitions: r.cfg.Partitions, Instance: r.workspace, Logger: r.cfg.Logger}
	if len(r.cfg.Brokers) == 0 {
		servers, err := embedded.Start(ctx, embedded.Options{})
		if err != nil {
			return nil, fmt.Errorf("start the embedded servers: %w", err)
		}
		defer servers.Close()
		r.servers.Brokers, r.servers.NATS, r.servers.Dial = servers.Brokers, servers.NATS, servers.Dial
	}
	if err := ensureTopics(ctx, r.servers); err != nil {
		return nil, err
	}
	own, err := streams.Dial(ctx, r.servers)
	if err != nil {
		return nil, fmt.Errorf("connect to the log: %w", err)
	}
	defer own.Close()
	r.streams = own
	if r.cluster, err = cluster.Start(ctx, r.parts(dir)); err != nil {
		return nil, err
	}
	defer r.cluster.Close()
	if r.cfg.Together {
		r.together = sync.OnceValues(func() (map[string]cluster.Door, error) { return r.startTogether(ctx) })
	}
	if r.cfg.Look != nil {
		end, err := r.cfg.Look(ctx, own, Sight{Workspace: r.workspace, Brokers: r.servers.Brokers, NATS: r.servers.NATS})
		if err != nil {
			return nil, err
		}
		defer func() { _ = end() }() // the run is over, whatever a page still asks for
	}
	return r.guarded(ctx)
}

// stopped: a watched run is told to end.
func (r *run) stopped() bool {
	select {
	case <-r.cfg.Stop:
		return true
	default:
		return false
	}
}

// ensureTopics creates the topics that are missing and says what is wrong with those that were there.
func ensureTopics(ctx context.Context, cfg streams.Config) error {
	if err := streams.EnsureTopics(ctx, cfg); err != nil {
		return fmt.Errorf("create the topics: %w", err)
	}
	problems, err := streams.VerifyTopics(ctx, cfg)
	if err != nil {
		return fmt.Errorf("verify the topics: %w", err)
	}
	if len(problems) == 0 {
		return nil
	}
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i] = p.String()
	}
	return fmt.Errorf("the topics on %v do not match the required configuration:\n%s", cfg.Brokers,
		strings.Join(lines, "\n"))
}

// parts is what the agents work on: in this process, or as child processes.
func (r *run) parts(dir string) cluster.Config {
	c := cluster.Config{Streams: r.servers, Dir: dir, Tools: r.shop.tools, Policy: r.shop.file, Announce: r.cfg.Announce}
	if !r.cfg.Watch { // people see who waits for whom
		c.PlanWait = planWait
	}
	if r.cfg.Processes {
		c.Program = r.cfg.Program
	}
	return c
}

// startTogether starts one sidecar process for all agents of the run.
func (r *run) startTogether(ctx context.Context) (map[string]cluster.Door, error) {
	names := []string{"loader", "auditor"}
	for i := range r.cfg.Agents {
		names = append(names, agentName(i))
	}
	doors, err := r.cluster.Sidecar(ctx, r.workspace, names...)
	if err != nil {
		return nil, err
	}
	all := map[string]cluster.Door{}
	for i, name := range names {
		all[name] = doors[i]
	}
	return all, nil
}

// door is where an agent's sidecar serves it, which is started for it unless one serves all.
func (r *run) door(ctx context.Context, agent string) (cluster.Door, error) {
	if r.together != nil {
		all, err := r.together()
		return all[agent], err
	}
	doors, err := r.cluster.Sidecar(ctx, r.workspace, agent)
	if err != nil {
		return cluster.Door{}, err
	}
	return doors[0], nil
}

// guarded runs the agents and the check while the log is followed, and ends early when the cluster fails.
func (r *run) guarded(ctx context.Context) (*Report, error) {
	ctx, fail := context.WithCancelCause(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer fail(nil)
	beside.Go(func() { r.log.follow(ctx, r.streams, r.workspace) })
	beside.Go(func() {
		select {
		case err := <-r.cluster.Failed():
			fail(err)
		case <-ctx.Done():
		}
	})
	report, err := r.agents(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return nil, cause
	}
	return report, err
}

// agents loads the data, lets the agents work and draws the verdict.
func (r *run) agents(ctx context.Context) (*Report, error) {
	r.progress.stage("loading the data")
	loader, err := r.connect(ctx, "loader")
	if err != nil {
		return nil, err
	}
	loaded, err := r.load(ctx, loader)
	if err != nil {
		return nil, err
	}
	r.progress.stage("starting the sidecars")
	agents, err := r.gather(ctx, loaded)
	if err != nil {
		return nil, err
	}
	r.progress.stage("working")
	if !r.cfg.Watch {
		r.progress.tasks.Store(int64(len(r.tasks)))
	}
	start := time.Now()
	if err := r.work(ctx, agents); err != nil {
		return nil, err
	}
	duration := time.Since(start)
	r.progress.stage("checking")
	verdict, err := r.check(ctx)
	if err != nil {
		return nil, err
	}
	if r.cfg.Records != nil {
		if err := writeRecords(r.cfg.Records, r.records.all()); err != nil {
			return nil, err
		}
	}
	return r.report(verdict, duration), nil
}

// connect starts a sidecar and returns a client of it.
func (r *run) connect(ctx context.Context, agent string) (*client.Client, error) {
	door, err := r.door(ctx, agent)
	if err != nil {
		return nil, err
	}
	return client.New(door.URL, door.Token, client.WithWorkspace(r.workspace)), nil
}

// gather starts the agents' sidecars and waits until each of them sees the loaded data.
func (r *run) gather(ctx context.Context, loaded uint64) ([]*agent, error) {
	agents := make([]*agent, r.cfg.Agents)
	together := &meeting{}
	err := each(ctx, len(agents), 8, func(ctx context.Context, i int) error {
		a := &agent{name: agentName(i), run: r, plans: i%2 == 1, rng: rand.New(rand.NewPCG(r.cfg.Seed, uint64(i)))}
		if r.contended && i < 2 {
			a.meeting = together
		}
		var err error
		if a.store, err = r.connect(ctx, a.name); err != nil {
			return err
		}
		agents[i] = a
		return awaitView(ctx, a.store, loaded)
	})
	return agents, err
}

func agentName(i int) string { return fmt.Sprintf("agent-%d", i+1) }

// work lets all agents work at once, and measures appends beside them.
func (r *run) work(ctx context.Context, agents []*agent) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var beside sync.WaitGroup
	measured, stop := context.WithCancel(ctx)
	beside.Go(func() { r.appends = measureAppends(measured, r.streams, r.workspace+"-probe") })
	err := each(ctx, len(agents), len(agents), func(ctx context.Context, i int) error {
		return agents[i].work(ctx, r.deal[i])
	})
	stop()
	beside.Wait()
	return err
}

// ended takes the record of an attempt.
func (r *run) ended(at *Attempt) {
	r.records.add(at)
	r.progress.ended(at)
}

// each calls do for 0 to n-1, so many at once, and returns the first error; the others are then cancelled.
func each(ctx context.Context, n, atOnce int, do func(context.Context, int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var workers sync.WaitGroup
	next := make(chan int)
	for range min(n, atOnce) {
		workers.Go(func() {
			for i := range next {
				if err := do(ctx, i); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	for i := 0; i < n && ctx.Err() == nil; i++ {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	workers.Wait()
	return context.Cause(ctx)
}

// verdict is what the check found.
type verdict struct {
	lost    []LostUpdate
	missing []Missing
	differs []string // shards in which the replay and the final state differ
	hash    string
	effects *effectsFound
}

const checkBound = 2 * time.Minute

// check reads the log back and the final state through a sidecar of its own, and compares both with the agents'
// records.
func (r *run) check(ctx context.Context) (*verdict, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, checkBound, errNoEnd)
	defer cancel()
	attempts := r.records.all()
	var last uint64
	for _, a := range attempts {
		last = max(last, a.Seq)
	}
	back, err := r.readBack(ctx, last)
	if err != nil {
		return nil, err
	}
	auditor, err := r.connect(ctx, "auditor")
	if err != nil {
		return nil, err
	}
	if err := awaitView(ctx, auditor, last); err != nil {
		return nil, err
	}
	final, err := readAll(ctx, auditor, scopesOf(r.initial, attempts))
	if err != nil {
		return nil, err
	}
	v := &verdict{lost: lostUpdates(attempts), missing: missing(attempts, back), hash: final.Hash()}
	v.differs, err = replay(r.domain, r.initial, final, committedTasks(attempts, r.tasks))
	if err == nil {
		v.effects, err = r.checkEffects(ctx, auditor)
	}
	return v, err
}

// readBack reads the workspace's decisions from the first one again.
func (r *run) readBack(ctx context.Context, last uint64) (map[string]logged, error) {
	cfg := r.servers
	cfg.NATS = "" // the log itself, not what was delivered
	log, err := streams.Dial(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to read the log back: %w", err)
	}
	defer log.Close()
	ctx, cancel := context.WithCancel(ctx)
	back := newDecisionLog()
	var reader sync.WaitGroup
	reader.Go(func() { back.follow(ctx, log, r.workspace) })
	err = back.upTo(ctx, last)
	cancel()
	reader.Wait()
	return back.snapshot(), err
}

// scopesOf lists all shards of the initial state and all that were written.
func scopesOf(initial retail.Memory, attempts []*Attempt) []string {
	seen := map[string]bool{}
	for scope := range initial {
		seen[scope] = true
	}
	for _, a := range attempts {
		for _, w := range a.Writes {
			seen[w.Scope] = true
		}
	}
	scopes := make([]string, 0, len(seen))
	for scope := range seen {
		scopes = append(scopes, scope)
	}
	return scopes
}
