package demo

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/hence-dev/hence/sidecar"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/processor"
)

// cluster is what the agents work on: processors, and a sidecar for each agent that asks for one.
type cluster interface {
	sidecar(ctx context.Context, agent string) (door, error)
	failed() <-chan error // receives one error when a part has ended for good
	close()
}

// door is where a sidecar serves.
type door struct{ url, token string }

// ground is what a cluster stands on.
type ground struct {
	brokers     []string
	nats        string
	replication int
	partitions  int32
	workspace   string
	dir         string // for journals and caches
	shop        *shop
	logger      *slog.Logger
}

func (g *ground) streams() streams.Config {
	return streams.Config{
		Brokers: g.brokers, NATS: g.nats, Replication: g.replication, Partitions: g.partitions,
		Instance: g.workspace, Logger: g.logger,
	}
}

// local runs everything in this process: the processors, and one sidecar that serves all agents.
type local struct {
	*ground
	log                          *streams.Client
	side                         *sidecar.Sidecar
	sidecars, processors         sync.WaitGroup
	stopSidecars, stopProcessors context.CancelFunc
	failure                      chan error
}

func startLocal(ctx context.Context, g *ground) (*local, error) {
	l := &local{ground: g, failure: make(chan error, 1)}
	var err error
	if l.log, err = streams.Dial(ctx, g.streams()); err != nil {
		return nil, fmt.Errorf("connect the sidecar: %w", err)
	}
	l.side, err = sidecar.New(sidecar.Config{Workspace: g.workspace, Listen: "127.0.0.1:0", Joins: true,
		DataDir: g.dir, Tools: g.shop.tools, Logger: g.logger}, l.log)
	if err != nil {
		l.log.Close()
		return nil, fmt.Errorf("start the sidecar: %w", err)
	}
	var serving, processing context.Context
	serving, l.stopSidecars = context.WithCancel(context.Background())
	processing, l.stopProcessors = context.WithCancel(context.Background())
	l.processors.Go(func() { l.ended(processing, "processors", processor.Run(processing, g.streams())) })
	l.sidecars.Go(func() { l.ended(serving, "the sidecar", l.side.Run(serving)) })
	return l, nil
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

func (l *local) failed() <-chan error { return l.failure }

func (l *local) sidecar(ctx context.Context, agent string) (door, error) {
	m, err := l.side.Join(sidecar.AgentConfig{Agent: agent})
	if err != nil {
		return door{}, fmt.Errorf("join as %s: %w", agent, err)
	}
	select {
	case <-m.Ready():
		return door{m.URL(), m.Token()}, nil
	case <-m.Done(): // its sidecar ends, and says why
		return door{}, fmt.Errorf("join as %s: the sidecar ended (%v)", agent, m.Err())
	case <-ctx.Done():
		return door{}, fmt.Errorf("wait for the sidecar of %s: %w", agent, context.Cause(ctx))
	}
}

func (l *local) close() {
	l.stopSidecars()
	l.sidecars.Wait()
	l.log.Close()
	l.stopProcessors()
	l.processors.Wait()
}

// processes runs processors and sidecars as children.
type processes struct {
	*ground
	supervisor *Supervisor
	together   func() (door, error) // starts the one sidecar of all agents, once; nil: each has its own
	tokens     map[string]string    // by agent, of that
}

func startProcesses(ctx context.Context, g *ground, cfg *Config) (*processes, error) {
	p := &processes{ground: g, supervisor: NewSupervisor(cfg.Program, g.dir, cfg.Announce)}
	_, err := p.supervisor.Start(ctx, p.spec("streams", "processors", nil,
		"--instance", g.workspace, "--replication", strconv.Itoa(g.replication)))
	if err != nil {
		p.close()
		return nil, fmt.Errorf("start the processors: %w", err)
	}
	if cfg.Together {
		p.together = sync.OnceValues(func() (door, error) { return p.startTogether(ctx, cfg) })
	}
	return p, nil
}

// startTogether starts the sidecar of all agents.
func (p *processes) startTogether(ctx context.Context, cfg *Config) (door, error) {
	names := []string{"loader", "auditor"}
	for i := range cfg.Agents {
		names = append(names, agentName(i))
	}
	var list strings.Builder
	p.tokens = map[string]string{}
	for _, name := range names {
		p.tokens[name] = rand.Text()
		fmt.Fprintf(&list, "- name: %s\n  token: %q\n", name, p.tokens[name])
	}
	file := filepath.Join(p.dir, "agents.yaml")
	if err := os.WriteFile(file, []byte(list.String()), 0o600); err != nil {
		return door{}, fmt.Errorf("write the agents' file: %w", err)
	}
	address, err := p.supervisor.Start(ctx, p.spec("sidecar", "all", nil, "--agents-file", file,
		"--workspace", p.workspace, "--data-dir", filepath.Join(p.dir, "all"), "--policy", p.shop.file))
	if err != nil {
		return door{}, fmt.Errorf("start the sidecar of all agents: %w", err)
	}
	return door{url: address}, nil
}

// spec builds a child's command line: the parts that all commands of the binary share, and its own.
func (p *processes) spec(command, name string, env []string, own ...string) Spec {
	return Spec{
		Role: command, Name: name, Env: append(plainEnv(), env...),
		Args: func(address string) []string {
			listen := "127.0.0.1:0"
			if address != "" {
				listen = strings.TrimPrefix(address, "http://")
			}
			args := []string{command, "--brokers", strings.Join(p.brokers, ","), "--nats", p.nats,
				"--partitions", strconv.Itoa(int(p.partitions)),
				"--listen", listen, "--with-parent", "--output", "json"}
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

func (p *processes) sidecar(ctx context.Context, agent string) (door, error) {
	if p.together != nil {
		at, err := p.together()
		return door{at.url, p.tokens[agent]}, err
	}
	token := rand.Text()
	address, err := p.supervisor.Start(ctx, p.spec("sidecar", agent, []string{"HENCE_TOKEN=" + token},
		"--agent", agent, "--workspace", p.workspace, "--data-dir", filepath.Join(p.dir, agent),
		"--policy", p.shop.file))
	if err != nil {
		return door{}, fmt.Errorf("start the sidecar of %s: %w", agent, err)
	}
	return door{address, token}, nil
}

func (p *processes) failed() <-chan error { return p.supervisor.Failed() }

func (p *processes) close() { p.supervisor.Close() }
