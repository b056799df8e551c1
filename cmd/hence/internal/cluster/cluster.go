// Package cluster starts the parts of Hence that agents work on, over servers that are there: the processors, and
// sidecars, in this process or as child processes of this binary that are started again when they die.
package cluster

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sidecar"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/processor"
)

// Config says what the parts stand on and where they run.
type Config struct {
	Streams streams.Config // the servers; its Instance names the processors among those of their groups
	Dir     string         // for journals, and for what children write
	Tools   gate.Tools     // the policy of sidecars in this process; nil: none
	Policy  string         // the file of the same policy, for children; "": none
	Tracer  trace.Tracer   // of what runs in this process; nil: none

	PlanWait time.Duration // of sidecars: how long a planned call waits for those before it; 0: their own default

	Program  string    // the binary that children run; "": everything runs in this process
	Env      []string  // what children see beside the environment of this process
	Announce io.Writer // one line of JSON for each child that serves
}

// Cluster is a running set of processors and sidecars. The caller must Close it.
type Cluster interface {
	// Sidecar starts a sidecar of a workspace that serves these agents, and returns where, agent by agent, once it
	// does. In this process the agents join the one that the workspace has.
	Sidecar(ctx context.Context, workspace string, agents ...string) ([]Door, error)
	// Failed receives one error when a part has ended for good.
	Failed() <-chan error
	// Running lists the children that serve; none where everything runs in this process.
	Running() []Ready
	// Close ends the sidecars, then the processors.
	Close()
}

// Door is where an agent's sidecar serves it.
type Door struct{ URL, Token string }

// Start starts the processors.
func Start(ctx context.Context, cfg Config) (Cluster, error) {
	if cfg.Program == "" {
		return startLocal(ctx, cfg)
	}
	return startProcesses(ctx, cfg)
}

// local runs everything in this process: the processors, and for each workspace one sidecar that serves all agents.
type local struct {
	Config
	log                          *streams.Client
	serving                      context.Context
	sidecars, processors         sync.WaitGroup
	stopSidecars, stopProcessors context.CancelFunc
	failure                      chan error

	mu    sync.Mutex // agents come at once
	sides map[string]*sidecar.Sidecar
}

func startLocal(ctx context.Context, cfg Config) (Cluster, error) {
	l := &local{Config: cfg, failure: make(chan error, 1), sides: map[string]*sidecar.Sidecar{}}
	l.Streams.Tracer = cfg.Tracer
	var err error
	if l.log, err = streams.Dial(ctx, l.Streams); err != nil {
		return nil, fmt.Errorf("connect the sidecar: %w", err)
	}
	var processing context.Context
	l.serving, l.stopSidecars = context.WithCancel(context.Background())
	processing, l.stopProcessors = context.WithCancel(context.Background())
	l.processors.Go(func() { l.ended(processing, "processors", processor.Run(processing, l.Streams)) })
	return l, nil
}

// side is the sidecar of a workspace, which is started for its first agent.
func (l *local) side(workspace string) (*sidecar.Sidecar, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if side := l.sides[workspace]; side != nil {
		return side, nil
	}
	side, err := sidecar.New(sidecar.Config{Workspace: workspace, Listen: "127.0.0.1:0", Joins: true,
		DataDir: filepath.Join(l.Dir, workspace), Tools: l.Tools, Logger: l.Streams.Logger, Tracer: l.Tracer,
		Limits: sidecar.Limits{PlanWait: l.PlanWait}}, l.log)
	if err != nil {
		return nil, fmt.Errorf("start the sidecar: %w", err)
	}
	l.sides[workspace] = side
	l.sidecars.Go(func() { l.ended(l.serving, "the sidecar", side.Run(l.serving)) })
	return side, nil
}

func (l *local) ended(ctx context.Context, what string, err error) {
	if ctx.Err() != nil {
		return
	}
	select {
	case l.failure <- fmt.Errorf("%s ended: %w", what, err):
	default: // one is enough to end the run
	}
}

// Failed is part of Cluster.
func (l *local) Failed() <-chan error { return l.failure }

// Running is part of Cluster.
func (l *local) Running() []Ready { return nil }

// Sidecar is part of Cluster.
func (l *local) Sidecar(ctx context.Context, workspace string, agents ...string) ([]Door, error) {
	side, err := l.side(workspace)
	if err != nil {
		return nil, err
	}
	var doors []Door
	for _, agent := range agents {
		m, err := side.Join(sidecar.AgentConfig{Agent: agent})
		if err != nil {
			return nil, fmt.Errorf("join as %s: %w", agent, err)
		}
		select {
		case <-m.Ready():
			doors = append(doors, Door{m.URL(), m.Token()})
		case <-m.Done(): // its sidecar ends, and says why
			return nil, fmt.Errorf("join as %s: the sidecar ended (%v)", agent, m.Err())
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the sidecar of %s: %w", agent, context.Cause(ctx))
		}
	}
	return doors, nil
}

// Close is part of Cluster.
func (l *local) Close() {
	l.stopSidecars()
	l.sidecars.Wait()
	l.log.Close()
	l.stopProcessors()
	l.processors.Wait()
}

// processes runs processors and sidecars as children.
type processes struct {
	Config
	supervisor *Supervisor
}

func startProcesses(ctx context.Context, cfg Config) (Cluster, error) {
	p := &processes{cfg, NewSupervisor(cfg.Program, cfg.Dir, cfg.Announce)}
	_, err := p.supervisor.Start(ctx, p.spec("streams", "processors", "",
		"--instance", cfg.Streams.Instance, "--replication", strconv.Itoa(max(1, cfg.Streams.Replication))))
	if err != nil {
		p.Close()
		return nil, fmt.Errorf("start the processors: %w", err)
	}
	return p, nil
}

// Sidecars are sidecars as children, over processors that run elsewhere.
func Sidecars(cfg Config) Cluster {
	return &processes{cfg, NewSupervisor(cfg.Program, cfg.Dir, cfg.Announce)}
}

// Sidecar is part of Cluster.
func (p *processes) Sidecar(ctx context.Context, workspace string, agents ...string) ([]Door, error) {
	name := workspace + "-" + agents[0]
	own := []string{"--workspace", workspace, "--data-dir", filepath.Join(p.Dir, name)}
	if p.Policy != "" {
		own = append(own, "--policy", p.Policy)
	}
	if p.PlanWait > 0 {
		own = append(own, "--plan-wait", p.PlanWait.String())
	}
	doors, token := make([]Door, len(agents)), ""
	for i := range agents {
		doors[i].Token = rand.Text()
	}
	if len(agents) == 1 {
		own, token = append(own, "--agent", agents[0]), doors[0].Token
	} else {
		file := filepath.Join(p.Dir, name+".yaml")
		var list strings.Builder
		for i, agent := range agents {
			fmt.Fprintf(&list, "- name: %s\n  token: %q\n", agent, doors[i].Token)
		}
		if err := os.WriteFile(file, []byte(list.String()), 0o600); err != nil {
			return nil, fmt.Errorf("write the agents' file: %w", err)
		}
		own = append(own, "--agents-file", file)
	}
	address, err := p.supervisor.Start(ctx, p.spec("sidecar", name, token, own...))
	if err != nil {
		return nil, fmt.Errorf("start the sidecar of %s: %w", strings.Join(agents, ", "), err)
	}
	for i := range doors {
		doors[i].URL = address
	}
	return doors, nil
}

// spec builds a child's command line: the parts that all commands of the binary share, and its own. A token is no
// argument, which every user of the machine could read.
func (p *processes) spec(command, name, token string, own ...string) Spec {
	env := append(plainEnv(), p.Env...)
	if token != "" {
		env = append(env, "HENCE_TOKEN="+token)
	}
	return Spec{
		Role: command, Name: name, Env: env,
		Args: func(address string) []string {
			listen := "127.0.0.1:0"
			if address != "" {
				listen = strings.TrimPrefix(address, "http://")
			}
			args := []string{command, "--brokers", strings.Join(p.Streams.Brokers, ","), "--nats", p.Streams.NATS,
				"--listen", listen, "--with-parent", "--output", "json"}
			if n := p.Streams.Partitions; n != 0 { // else the default of the command, which is the same
				args = append(args, "--partitions", strconv.Itoa(int(n)))
			}
			return append(args, own...)
		},
	}
}

// plainEnv is the environment without the settings of this command, which are not the child's.
func plainEnv() []string {
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "HENCE_") {
			env = append(env, e)
		}
	}
	return env
}

// Failed is part of Cluster.
func (p *processes) Failed() <-chan error { return p.supervisor.Failed() }

// Running is part of Cluster.
func (p *processes) Running() []Ready { return p.supervisor.Running() }

// Close is part of Cluster.
func (p *processes) Close() { p.supervisor.Close() }
