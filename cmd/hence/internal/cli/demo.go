package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/demo"
	"github.com/hence-dev/hence/cmd/hence/internal/show"
	"github.com/hence-dev/hence/sidecar/console"
	"github.com/hence-dev/hence/streams"
)

// demoCmd is the configuration of "hence demo".
type demoCmd struct {
	logging
	output
	Data  string `type:"path" placeholder:"DIR" help:"Data set file in the tau-retail layout; default: built-in data."`
	Split string `default:"test" help:"Task file of the data set: tasks-SPLIT.json."`

	Agents int           `default:"8" help:"Number of agents."`
	Tasks  int           `default:"0" help:"Tasks of each agent with the built-in data; 0 is the default, 10."`
	Think  time.Duration `default:"10ms" help:"Mean time between the reads and the writes of an agent."`
	Seed   uint64        `default:"1" help:"Seed of the built-in data and of the agents' choices."`

	Mode  string `enum:"enforce,observe" default:"enforce" help:"Whether a failed check is refused or only reported."`
	Order string `enum:"optimistic,ordered,locked" default:"optimistic" help:"Order mode of the transactions."`

	Faults float64 `default:"0" help:"Probability of each kind of fault at the mail server and the ledger, at most 0.5."`

	Brokers     []string `placeholder:"HOST:PORT" help:"Brokers of a running cluster; default: embedded servers."`
	NATS        string   `name:"nats" placeholder:"URL" help:"URL of the cluster's NATS server."`
	Replication int      `default:"1" help:"Replicas of each partition when topics are created."`
	Partitions  int32    `default:"8" help:"Partitions of each topic: a power of two, as the cluster has."`

	Watch bool `help:"Slow agents and the console until Ctrl-C; then the table and the check."`

	Processes bool `help:"Run processors and sidecars as child processes; killed ones are restarted."`

	Together bool `help:"With --processes: one sidecar process serves all agents."`

	Records string `type:"path" placeholder:"FILE" help:"JSON lines file for what each agent did and was told."`
}

// Help is what "hence demo --help" says beyond the flags.
func (c *demoCmd) Help() string {
	return `Agents do retail tasks, each task one transaction: they read, think, write, reserve goods, charge a card and
send a confirmation. Two of them always want the same order. Then the run is checked from the agents' own records,
from the decision log and from what the mail server and the ledger have: no update may be lost, no outcome that an
agent was told may be missing, and the committed tasks alone, in commit order, must leave the same store. No charge and
no mail may have left without a commit, or twice. Effects whose outcome cannot be known are listed as residue.

Every other agent makes the calls of a task as a model does that asks for several tools in one answer: it first sends a
plan that says which call counts before which (a planned turn), and then all calls at once, in any order. Some never
come. Some come after a later one has gone without them: these are refused (passed), and made again behind the others.
The check holds the mail server and the ledger to the order of each plan.

--faults p makes both sinks misbehave, each request with probability p in each way: refuse before they act (F1), lose
the answer after they acted (F2), fail a compensation (F3), deliver twice (F4), answer too late (F5).

--watch slows the run down for watching: agents take seconds before each step (--think 3s by default), and the command
prints the workspace and the link of a console. Ctrl-C ends the run: the agents finish their tasks, and the run is
checked. A second Ctrl-C ends it at once.

Exit code: 0 the check holds (or --mode observe), 1 the run could not be finished, 2 wrong flags, 3 the check
failed.`
}

// Run runs the demo and prints its table.
func (c *demoCmd) Run(ctx context.Context, s Streams) (err error) {
	cfg := demo.Config{
		Data: c.Data, Split: c.Split, Agents: c.Agents, Tasks: c.Tasks, Think: c.Think, Seed: c.Seed,
		Observe: c.Mode == "observe", Order: c.Order, Faults: c.Faults,
		Brokers: c.Brokers, NATS: c.NATS, Replication: c.Replication,
		Partitions: c.Partitions, Processes: c.Processes, Together: c.Together, Announce: s.Err, Progress: s.Err,
		Terminal: show.IsTerminal(s.Err), Logger: c.logger(s.Err),
	}
	if c.Processes {
		if cfg.Program, err = thisProgram(); err != nil {
			return err
		}
		cfg.Terminal = false // lines of JSON come in between
	}
	if err := cfg.Validate(); err != nil {
		return misused(fmt.Errorf("demo: %w", err))
	}
	if c.Records != "" {
		file, err := os.OpenFile(c.Records, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
		if err != nil {
			return fmt.Errorf("open the file for records: %w", err)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		cfg.Records = file
	}
	if c.Watch {
		ctx = watched(ctx, &cfg, s.Err)
	}
	report, err := demo.Run(ctx, cfg)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	if err := c.print(s.Out, report, func(w io.Writer) error { return report.WriteTable(w) }); err != nil {
		return err
	}
	if !report.Holds() {
		return errCheck
	}
	return nil
}

// The pace of a watched run where none is given.
const (
	plainThink   = 10 * time.Millisecond
	watchedThink = 3 * time.Second
)

// watched makes a run one that people look on. What would end another run, a signal, tells this one to stop and be
// checked; a second one ends the process at once.
func watched(ctx context.Context, cfg *demo.Config, w io.Writer) context.Context {
	cfg.Watch, cfg.Stop = true, ctx.Done()
	if cfg.Think == plainThink {
		cfg.Think = watchedThink
	}
	clear := ""
	if cfg.Terminal {
		clear = "\r\x1b[K"
	}
	cfg.Look = func(ctx context.Context, log *streams.Client, at demo.Sight) (end func() error, err error) {
		page, err := console.New(console.Config{Source: log, Workspace: at.Workspace, Token: rand.Text(),
			NoActions: "the console of a demo has no operator token",
			Version:   binaryVersion(), Logger: cfg.Logger})
		if err != nil {
			return nil, err
		}
		link, end, err := startConsole(ctx, page, "127.0.0.1:0", cfg.Logger)
		if err != nil {
			return nil, fmt.Errorf("start the console: %w", err)
		}
		fmt.Fprintf(w, "%sworkspace  %s\nconsole    %s\n           the link logs one browser in, within %.0f minutes\n"+
			"tail       hence tail --workspace %s --brokers %s --nats %s\nCtrl-C ends it and checks what was done.\n\n",
			clear, at.Workspace, link, console.LoginLasts.Minutes(), at.Workspace, strings.Join(at.Brokers, ","), at.NATS)
		return end, nil
	}
	return context.WithoutCancel(ctx)
}
