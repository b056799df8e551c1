package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/access"
	"github.com/hence-dev/hence/cmd/hence/internal/beside"
	"github.com/hence-dev/hence/cmd/hence/internal/otlp"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar"
	"github.com/hence-dev/hence/streams"
)

// besideAgent is who a sidecar stands beside and how it treats that agent's transactions.
type besideAgent struct {
	Agent string `default:"agent-1" help:"Agent name; one live sidecar per name and workspace."`
	manners
}

// manners is how a sidecar treats its agent's transactions and callers.
type manners struct {
	tokens
	operators
	Workspace string `default:"default" dev:"workspace" help:"Workspace of requests that name none."`
	Mode      string `enum:"enforce,observe" default:"enforce" help:"Whether a failed check is refused or only reported."`
	Order     string `enum:"optimistic,ordered,locked" default:"optimistic" help:"Default order mode of transactions."`

	PlanWait time.Duration `default:"2s" help:"How long a call waits for those that are planned before it."`
}

func (m manners) order() sequencer.Mode {
	for _, order := range []sequencer.Mode{sequencer.Optimistic, sequencer.Ordered, sequencer.Locked} {
		if order.String() == m.Order {
			return order
		}
	}
	panic("cli: order " + m.Order + " passed the flag's check")
}

// sidecarCmd is the configuration of "hence sidecar".
type sidecarCmd struct {
	besideAgent
	several
	servers
	logging
	output
	parent
	tools
	hooked
	sbusFace
	mcpFace
	llmFace
	https
	approving
	keyring
	Listen  string `default:"127.0.0.1:7420" help:"Address of the HTTP interface, HOST:PORT; port 0 takes a free one."`
	DataDir string `type:"path" placeholder:"DIR" help:"Folder of the journal; default: below the user's cache."`
}

// Help is what "hence sidecar --help" says beyond the flags.
func (c *sidecarCmd) Help() string {
	return `A sidecar serves one agent, or several in one process, over one view: --agent a,b,c. Each agent has a
session, a lease, a journal and a token of its own, and what is wrong with one does not concern the others. The tokens
are generated and printed, kept in FILE.a, FILE.b and FILE.c with --token-file FILE, or given in --agents-file, which
takes the place of --agent. It is a YAML list, to be read by its owner only (chmod 600):

    # team.yaml
    - name: a
      token: at least 16 characters; generated and printed if left out
      operator: token of an operator for this agent only; may be left out

--any-agent serves, on a loopback address, the agent that the header Hence-Agent names, from its first request on. All
callers show one token, and an agent that was idle for --idle-after leaves.`
}

// Run serves until the context ends.
func (c *sidecarCmd) Run(ctx context.Context, s Streams, dev *devContext) error {
	collectAsUsual := collectSooner()
	ctx, cancel := c.bind(ctx, s.In)
	defer cancel()
	if err := cmp.Or(c.usable(), c.mergeable()); err != nil {
		return err
	}
	dir, err := c.journalDir()
	if err != nil {
		return err
	}
	logger := c.logger(s.Err)
	agents, err := c.agents(logger)
	if err != nil {
		return err
	}
	if err := cmp.Or(c.approving.load(), c.keyring.load()); err != nil {
		return err
	}
	alone := len(agents) == 0 && !c.AnyAgent
	generated, known := false, generate(agents)
	if len(agents) == 0 {
		if generated, err = c.obtain(logger); err != nil {
			return err
		}
	}
	operator, err := c.obtainOperator(logger, dir)
	if err != nil {
		return err
	}
	say := sayAs(s.Err, "sidecar")
	models, err := c.providers()
	if err != nil {
		return err
	}
	servers, err := c.upstreams(logger)
	if err != nil {
		return err
	}
	defer closeUpstreams(servers)
	tools, err := c.tools.loadBeside(dev, say, logger, servers)
	if err != nil {
		return err
	}
	encrypted, err := c.https.load()
	if err != nil {
		return err
	}
	telemetry, err := otlp.Start("hence-sidecar", binaryVersion(), logger)
	if err != nil {
		return err
	}
	defer telemetry.Stop(logger)
	cfg := c.config(logger)
	one, who := c.whose(alone)
	return overLogs(ctx, cfg, func(ctx context.Context) error {
		log, err := streams.Dial(ctx, cfg)
		if err != nil {
			return fmt.Errorf("connect to %v and %s: %w", c.Brokers, c.NATS, err)
		}
		defer log.Close()
		side, err := sidecar.New(c.serving(servers, c.sbusFace.into(sidecar.Config{
			Agent: one, Agents: agents, AnyAgent: c.AnyAgent, IdleAfter: c.IdleAfter, Workspace: c.Workspace,
			Listen: c.Listen, DataDir: dir, Token: c.Token, OperatorToken: operator, Approvers: c.people,
			Keys: c.listed, Authorities: c.Authority,
			Order: c.order(), Observe: c.Mode == "observe", Tools: tools, Models: models,
			Limits: sidecar.Limits{PlanWait: c.PlanWait}, Hook: c.hook(),
			Logger: logger, TLS: encrypted, Tracer: telemetry.Tracer("hence/sidecar"),
		})), log)
		if err != nil {
			return fmt.Errorf("start the sidecar of %s: %w", who, err)
		}
		c.Listen = side.Addr() // a free port is kept when it starts again
		c.keep(side, say)
		waiting, stop := context.WithCancel(ctx)
		var said sync.WaitGroup
		defer said.Wait()
		said.Go(func() { // it ends with the wait, or with the sidecar
			_ = beside.Awaited{Side: side, Agent: who, Look: log.Ready, Say: func(format string, args ...any) {
				say("at "+side.URL()+", "+format, args...)
			}}.Ready(waiting)
		})
		defer stop()
		return serve(ctx, side, func() error {
			collectAsUsual()
			debug.FreeOSMemory() // reading the snapshot took several times what is kept of it
			if generated && !c.json() {
				fmt.Fprintln(s.Out, "token:", c.Token)
			}
			if len(agents) > 0 {
				return c.sayReady(s.Out, side, known, say)
			}
			if c.AnyAgent && !c.json() {
				one = who
			}
			return printReady(s.Out, c.output, "sidecar", one, side.URL())
		}, func() error { return nil })
	})
}

// whose is the name of the one agent, empty of several, and whose sidecar it is in words.
func (c *sidecarCmd) whose(alone bool) (one, who string) {
	if alone {
		one = c.Agent
	}
	switch {
	case c.AnyAgent:
		who = "any agent"
	case c.AgentsFile != "":
		who = "the agents in " + c.AgentsFile
	default:
		who = c.Agent
	}
	return one, who
}

// serve runs a sidecar until the context ends. ready is called once it answers, and leave before it stops answering.
func serve(ctx context.Context, side *sidecar.Sidecar, ready, leave func() error) error {
	running, cancel := context.WithCancel(context.WithoutCancel(ctx)) // it ends after leave, not with the context
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- side.Run(running) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		cancel()
		return beside.QuietEnd(running, <-ended)
	case <-side.Ready():
	}
	err := ready()
	if err == nil {
		select {
		case end := <-ended: // by itself
			return errors.Join(end, leave())
		case <-ctx.Done():
		}
	}
	err = errors.Join(err, leave())
	cancel()
	return errors.Join(err, beside.QuietEnd(running, <-ended))
}

func (c *sidecarCmd) journalDir() (string, error) {
	if c.AgentsFile != "" || c.AnyAgent || strings.Contains(c.Agent, ",") { // of the operator's token, and of any agent
		return c.folderOf("")
	}
	return c.folderOf(c.Agent)
}

// several is how a sidecar is told of more agents than one.
type several struct {
	AgentsFile string        `type:"path" placeholder:"FILE" help:"Serve the agents of this list, instead of --agent."`
	AnyAgent   bool          `help:"Serve each agent that Hence-Agent names, once it asks; loopback only."`
	IdleAfter  time.Duration `default:"10m" help:"With --any-agent: an agent without requests for so long leaves."`
}

// agents are those that are named together; nil: there is one, or any.
func (c *sidecarCmd) agents(logger *slog.Logger) (all []sidecar.AgentConfig, err error) {
	names := strings.Split(c.Agent, ",")
	named := c.Agent != "agent-1" // the default of --agent
	switch {
	case c.AgentsFile != "" && c.AnyAgent:
		return nil, misused(errors.New("--agents-file and --any-agent are both given: give one of them"))
	case named && (c.AgentsFile != "" || c.AnyAgent): // those of --agent would not be served
		return nil, misused(fmt.Errorf("--agent %s is given beside --agents-file or --any-agent: give one of them", c.Agent))
	case c.AnyAgent:
		return nil, nil
	case c.AgentsFile != "":
		if all, err = readAgents(c.AgentsFile); err != nil {
			return nil, err
		}
	case len(names) == 1:
		return nil, nil
	default:
		for _, name := range names {
			all = append(all, sidecar.AgentConfig{Agent: strings.TrimSpace(name)})
		}
	}
	if c.Token != "" {
		return nil, misused(errors.New("--token (or HENCE_TOKEN) is one token, and each of several agents has its own: " +
			"give --agents-file, or --token-file, to which each agent's name is added"))
	}
	for _, one := range all { // before a file is called after any of them
		if err := sidecar.ValidAgent(one.Agent); err != nil {
			return nil, misused(err)
		}
	}
	for i := range all {
		one := &all[i]
		if one.Token == "" && c.TokenFile != "" {
			if one.Token, err = access.KeepToken(logger, c.TokenFile+"."+one.Agent); err != nil {
				return nil, err
			}
		}
		if one.DataDir, err = c.folderOf(one.Agent); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// generate gives a token to each agent that has none. known are those that had one.
func generate(agents []sidecar.AgentConfig) (known map[string]bool) {
	known = map[string]bool{}
	for i := range agents {
		known[agents[i].Agent] = agents[i].Token != ""
		if agents[i].Token == "" { // kept, when the sidecar restarts
			agents[i].Token = rand.Text()
		}
	}
	return known
}

// folderOf is the folder of an agent's journal: the same that a sidecar of this agent alone would use.
func (c *sidecarCmd) folderOf(agent string) (string, error) {
	if c.DataDir != "" {
		return c.DataDir, nil
	}
	return beside.CachedJournal(c.Workspace, agent)
}

// readAgents reads a list of agents: each has a name, and may have a token, and that of an operator of its own.
func readAgents(path string) (all []sidecar.AgentConfig, err error) {
	err = readNames(path, "an agent", "write a list, for each agent a line \"- name: NAME\", and below it, if it has "+
		"them, token and operator", []string{"name", "token", "operator"}, func(v []string) string {
		one := sidecar.AgentConfig{Agent: v[0], Token: v[1], OperatorToken: v[2]}
		if slices.ContainsFunc(all, func(a sidecar.AgentConfig) bool { return a.Agent == one.Agent }) {
			return "agent " + one.Agent + " is there twice"
		}
		all = append(all, one)
		return ""
	})
	return all, err
}

// sayReady prints who is served where, with the tokens that were generated. An agent whose journal cannot be opened,
// or that the log refuses, does not keep the others from starting: it is said to be tried again.
func (c *sidecarCmd) sayReady(w io.Writer, side *sidecar.Sidecar, known map[string]bool,
	say func(string, ...any)) error {
	for _, m := range side.Members() {
		if !known[m.Agent()] && !c.json() {
			if _, err := fmt.Fprintf(w, "token of %s: %s\n", m.Agent(), m.Token()); err != nil {
				return err
			}
		}
		select {
		case <-m.Ready():
			if err := printReady(w, c.output, "sidecar", m.Agent(), side.URL()); err != nil {
				return err
			}
		default:
			say("%s is not ready and is tried again; hence doctor --sidecar %s says why", m.Agent(), side.URL())
		}
	}
	return nil
}
