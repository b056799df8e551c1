package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/beside"
	"github.com/hence-dev/hence/cmd/hence/internal/exit"
	"github.com/hence-dev/hence/cmd/hence/internal/process"
	"github.com/hence-dev/hence/sidecar"
)

// runCmd is the configuration of "hence run".
type runCmd struct {
	Agent string `required:"" placeholder:"NAME" help:"Agent name; one live sidecar per name and workspace."`
	manners
	servers
	Embedded bool `dev:"off" help:"Run Kafka, NATS and the processors in this process; given addresses are not used."`
	logging
	tools
	mcpFace
	llmFace
	hooked
	ending
	watchful
	Listen  string   `default:"127.0.0.1:0" help:"Address of the sidecar, HOST:PORT; port 0 takes a free one."`
	DataDir string   `type:"path" placeholder:"DIR" help:"Folder of the journal; with --embedded, of all data."`
	Command []string `arg:"" passthrough:"" help:"Program and its arguments, best after --."`
}

// ending is how programs are ended.
type ending struct {
	Grace  time.Duration `default:"10s" help:"Time limit for a program to end before it is killed."`
	Settle time.Duration `default:"10s" help:"Time limit for settling a program's calls once it has ended."`
}

// Help is what "hence run --help" says beyond the flags.
func (c *runCmd) Help() string {
	return `The sidecar of the agent runs in this process, and the program runs as its child with HENCE_URL, HENCE_TOKEN,
HENCE_AGENT and HENCE_WORKSPACE set, with --mcp also HENCE_MCP_URL, and HENCE_MCP_CONFIG, which names the file of an
MCP client, and with --llm OPENAI_BASE_URL, ANTHROPIC_BASE_URL or
GOOGLE_GEMINI_BASE_URL. Its environment lacks the variables that the policy's secrets are read from, those that env
and headers of the MCP servers name, and the tokens and keys of operators and approvers; the rest of the environment,
its input and its output are unchanged. The program is started once the sidecar is ready. While brokers cannot be
reached, the command waits without a limit and prints what it waits for.

Without --embedded the cluster is that of --brokers and --nats; if neither is given, that of the running "hence dev",
and then its workspace and its policy are used as well.

SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 are passed on to the program and its child processes; Ctrl-C at
the terminal reaches it once. If it does not end within --grace after one of the first four, it is killed. After its
end, processes that it left running are ended, its open transactions are aborted, and decided ones are settled. If the
sidecar ends first, the program gets SIGTERM.

Exit code: the program's; 128+n if signal n ended it; 126 if it cannot be executed, 127 if it is not found; 1 if the
sidecar could not be started or ended first; 2 if a flag or its value is wrong.`
}

func (c *runCmd) handlesSignals() {}

// Run runs the sidecar and the program until the program has ended.
func (c *runCmd) Run(ctx context.Context, s Streams, dev *devContext) error {
	signals, stop := catch()
	defer stop()
	if err := c.usable(); err != nil {
		return err
	}
	if c.Command[0] == "--" {
		c.Command = c.Command[1:]
	}
	if len(c.Command) == 0 {
		return &exit.Error{Code: ExitUsage, Err: errors.New("no program is given: " +
			"hence run --agent NAME -- PROGRAM ARGUMENTS")}
	}
	if _, err := process.Find(c.Command[0], "", os.Environ()); err != nil { // better now than when the brokers are there
		return notRun(err)
	}
	if _, err := c.obtain(c.logger(s.Err)); err != nil {
		return err
	}
	logger, hush := beside.Hushing(c.logger(s.Err))
	models, err := c.providers()
	if err != nil {
		return err
	}
	servers, err := c.upstreams(logger)
	if err != nil {
		return err
	}
	defer closeUpstreams(servers)
	tools, err := c.tools.loadBeside(dev, sayAs(s.Err, "run"), logger, servers)
	if err != nil {
		return err
	}
	over := func(ctx context.Context, g beside.Ground) error {
		dir, err := g.Journal(c.Workspace, c.Agent)
		if err != nil {
			return err
		}
		operator, err := c.obtainOperator(logger, dir)
		if err != nil {
			return err
		}
		return c.beside(ctx, s, beside.Companion{
			Streams: g.Streams, Signals: signals, Settle: c.Settle, Say: sayAs(s.Err, "run"), Hush: hush,
			Without: withheld(servers, tools),
			Config: c.serving(servers, sidecar.Config{
				Agent: c.Agent, Workspace: c.Workspace, Listen: c.Listen, DataDir: dir, Token: c.Token,
				OperatorToken: operator, Order: c.order(), Observe: c.Mode == "observe", Tools: tools,
				Models: models, Hook: c.hook(), Logger: logger, Tracer: g.Tracer,
			}),
		})
	}
	if c.Embedded {
		return beside.Embed(ctx, c.DataDir, binaryVersion(), c.window(), logger, over)
	}
	return beside.OnCluster(ctx, c.config(logger), c.DataDir, binaryVersion(), over)
}

// beside runs the program beside its sidecar.
func (c *runCmd) beside(ctx context.Context, s Streams, with beside.Companion) error {
	return with.Around(ctx, func(ctx context.Context, side beside.Side) error {
		own, remove, err := c.environment(side.URL())
		if err != nil {
			return err
		}
		defer remove()
		own = append(own, modelEnvironment(side)...)
		status, err := process.Run(ctx, process.Spec{
			Command: c.Command, Env: with.Environment(os.Environ(), own, side), In: fileOf(s.In),
			Out: fileOf(s.Out), Err: fileOf(s.Err), Signals: with.Signals, Grace: c.Grace, Terminal: true,
		})
		if err != nil {
			return notRun(err)
		}
		if status.Killed {
			with.Say("%s was killed: it did not end within %s", c.Command[0], c.Grace)
		}
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		with.Farewell(side)
		if status.Code() == 0 {
			return nil
		}
		return &exit.Error{Code: status.Code()}
	})
}

// notRun is the end of a command whose program could not be started.
func notRun(err error) error {
	if code, ok := process.Code(err); ok {
		return &exit.Error{Code: code, Err: err}
	}
	return err
}

// catch takes the signals that are passed on to programs, but for those that this process was started to ignore.
func catch() (<-chan os.Signal, func()) {
	all := make(chan os.Signal, 16)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1,
		syscall.SIGUSR2} {
		if !signal.Ignored(s) {
			signal.Notify(all, s)
		}
	}
	return all, func() { signal.Stop(all) }
}

// fileOf is a stream as a file that a program can be given; nil when it is none.
func fileOf(stream any) *os.File {
	f, _ := stream.(*os.File)
	return f
}
