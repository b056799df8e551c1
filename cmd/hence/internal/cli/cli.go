// Package cli is the command line of the hence binary: one command, one configuration struct, read once from flags
// and from the environment (HENCE_ and the flag's name in capitals, a flag wins).
//
// Exit codes: 0 done; 1 the command failed, the error says what to do; 2 the command line was not understood; 3 the
// command ran and what it checked does not hold; 130 it was interrupted. "hence run" has that of the program.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/hence-dev/hence/cmd/hence/internal/bench"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/tables"
	"github.com/hence-dev/hence/cmd/hence/internal/exit"
	"github.com/hence-dev/hence/cmd/hence/internal/show"
	"github.com/hence-dev/hence/sidecar/api"
)

// grammar is the command line. Every command is its own configuration.
type grammar struct {
	Dev  devCmd  `cmd:"" group:"start" help:"Run Kafka, NATS, the processors and one sidecar in one process."`
	Run  runCmd  `cmd:"" dev:"told" group:"start" help:"Run an agent's program and its sidecar."`
	Up   upCmd   `cmd:"" group:"start" help:"Run the programs of several agents beside one sidecar."`
	Demo demoCmd `cmd:"" group:"start" help:"Run agents that settle orders, and check the result."`
	Env  envCmd  `cmd:"" group:"start" help:"Print the addresses of the running hence dev as shell variables."`

	Tail    tailCmd    `cmd:"" dev:"told" group:"see" help:"Follow the decisions of a workspace."`
	Tx      txCmd      `cmd:"" group:"see" help:"List, show and abort transactions."`
	Effects effectsCmd `cmd:"" group:"see" help:"List the tool calls of an agent."`
	Agents  agentsCmd  `cmd:"" group:"see" help:"List the agents whose sidecars hold a lease."`
	Shard   shardCmd   `cmd:"" group:"see" help:"List, read and write shards."`
	Tools   toolsCmd   `cmd:"" group:"see" help:"List the tools of an agent."`
	Explain explainCmd `cmd:"" group:"see" help:"Explain why a transaction waits, was refused or was committed."`
	Replay  replayCmd  `cmd:"" group:"see" help:"Decide a log again under other rules, and say what differs."`
	Check   checkCmd   `cmd:"" group:"see" help:"Find the anomalies of a trace, and name them."`
	Export  exportCmd  `cmd:"" dev:"told" group:"see" help:"Write the log of a workspace as a trace."`
	Audit   auditCmd   `cmd:"" group:"see" help:"Verify the decisions of a workspace, from the topics or a bundle."`
	Console consoleCmd `cmd:"" dev:"told" group:"see" help:"Serve the web console."`

	Retract retractCmd `cmd:"" dev:"told" group:"repair" help:"Undo a committed transaction and all that rests on it."`
	Residue residueCmd `cmd:"" group:"repair" help:"List, retry and accept effects that could not be made clean."`
	Rules   rulesCmd   `cmd:"" group:"repair" help:"Print and change the rules of a workspace."`
	Doctor  doctorCmd  `cmd:"" group:"repair" help:"Check brokers, topics, clocks, gaps and files, and advise."`

	Policy policyCmd `cmd:"" group:"policy" help:"Check, test, explain and fuzz a policy file."`
	MCP    mcpCmd    `cmd:"" name:"mcp" group:"policy" help:"List tools of MCP servers; bridge a client to a sidecar."`
	Client clientCmd `cmd:"" group:"policy" help:"Print how MCP clients are told of a sidecar."`

	Sidecar     sidecarCmd     `cmd:"" dev:"told" group:"operate" help:"Run the sidecar of one agent, or of several."`
	Streams     streamsCmd     `cmd:"" dev:"told" group:"operate" help:"Run the processors of the decision log."`
	Topics      topicsCmd      `cmd:"" group:"operate" help:"Create, verify and print the topics."`
	Topology    topologyCmd    `cmd:"" group:"operate" help:"Check who can honestly read whom in a topology."`
	Healthcheck healthcheckCmd `cmd:"" group:"operate" help:"Ask a sidecar or a processor whether it is ready."`
	Pause       pauseCmd       `cmd:"" group:"operate" help:"Sleep until a signal comes; holds a network namespace."`
	Config      configCmd      `cmd:"" group:"operate" help:"Print the settings of commands and their sources."`
	Keys        keysCmd        `cmd:"" group:"operate" help:"Make keys that sign requests; sign one by hand."`
	Sim         simCmd         `cmd:"" group:"operate" help:"Run seeded schedules of simulated crashes, and check them."`
	Torture     tortureCmd     `cmd:"" group:"operate" help:"Write the figures of long tests as a document."`
	Bench       benchCmd       `cmd:"" group:"operate" help:"Measure speed beside its floor and a database; compare."`
	Completion  completionCmd  `cmd:"" group:"operate" help:"Print the completion script of a shell."`
	Version     versionCmd     `cmd:"" group:"operate" help:"Print the version."`

	Complete completeCmd `cmd:"" name:"__complete" hidden:""`
}

// quit is how kong's own exits (of --help) come out of the parser.
type quit int

// Main runs the command that args name and returns the exit code.
func Main(ctx context.Context, args []string, s Streams) (code int) {
	s.Err = show.OneAtATime(s.Err) // loggers, progress and what a command says meet there
	defer func() {
		if r := recover(); r != nil {
			q, ok := r.(quit)
			if !ok {
				panic(r)
			}
			code = int(q)
		}
	}()
	dropEmptyVariables()
	dev := newDevContext()
	parser := newParser(&grammar{}, s, kong.Resolvers(dev))
	command, err := parse(parser, args)
	if err == nil {
		err = checkValues(command)
	}
	if err != nil {
		return usage(s.Err, err, command.Selected())
	}
	if !strings.HasPrefix(command.Command(), "config print") { // which says it itself
		for _, warning := range strangeVariables(parser.Model, os.Environ(), true) {
			fmt.Fprintln(s.Err, "hence: warning:", warning)
		}
		notes := dev.notes()
		if node := command.Selected(); node != nil && node.Tag.Get(tagDev) == "told" {
			notes = append(notes, dev.borrowed()...)
		}
		for _, note := range notes {
			fmt.Fprintln(s.Err, "hence: note:", note)
		}
	}
	ctx, stop := s.untilSignal(ctx, command)
	defer stop()
	run := runOf(targetOf(command.Selected()), command, s, dev)
	return exitCode(ctx, s.Err, dev.advised(command, run(ctx)))
}

// dropEmptyVariables takes a variable that is set to nothing, as compose files pass optional ones on, for one that is
// not set.
func dropEmptyVariables() {
	for _, e := range os.Environ() {
		if name, value, _ := strings.Cut(e, "="); value == "" && strings.HasPrefix(name, "HENCE_") {
			_ = os.Unsetenv(name)
		}
	}
}

func newParser(g *grammar, s Streams, more ...kong.Option) *kong.Kong {
	parser, err := kong.New(g, append(more,
		kong.Name("hence"),
		kong.Description("Hence settles what agents read, write and do: together, in one order, once it still holds."),
		kong.Writers(s.Out, s.Err),
		kong.Exit(func(code int) { panic(quit(code)) }),
		kong.DefaultEnvars("HENCE"),
		kong.Vars{"effect_states": strings.Join(api.EffectStates(), ","),
			"bench_subjects": strings.Join(bench.Subjects(), ","),
			"bench_curves":   strings.Join(bench.Curves(), ","),
			"bench_papers":   strings.Join(tables.Papers(), ",")},
		groups(),
	)...)
	if err != nil {
		panic("cli: the grammar is wrong: " + err.Error())
	}
	return parser
}

// untilSignal returns a context that also ends at a signal, unless the command wants to see them.
func (s Streams) untilSignal(ctx context.Context, command *kong.Context) (context.Context, context.CancelFunc) {
	node := command.Selected()
	if !s.Signals || node == nil {
		return ctx, func() {}
	}
	if _, own := targetOf(node).(signalled); own {
		return ctx, func() {}
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	return ctx, stop
}

// usage explains a command line that was not understood; of is its command, where that is known.
func usage(w io.Writer, err error, of *kong.Node) int {
	about := "hence"
	if of != nil {
		about = of.FullPath()
	}
	fmt.Fprintf(w, "hence: %v\nRun \"%s --help\" for its flags.\n", err, about)
	return ExitUsage
}

func exitCode(ctx context.Context, w io.Writer, err error) int {
	if end, ok := errors.AsType[*exit.Error](err); ok {
		if end.Err != nil {
			fmt.Fprintf(show.Lines(w), "hence: %v\n", end.Err)
		}
		return end.Code
	}
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, errCheck):
		return ExitCheck
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		fmt.Fprintln(w, "hence: interrupted")
		return ExitInterrupted
	}
	fmt.Fprintf(show.Lines(w), "hence: %v\n", err)
	return ExitFailed
}
