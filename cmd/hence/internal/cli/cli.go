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
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
)

// The exit codes.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitCheck       = 3
	ExitInterrupted = 130
)

// errCheck is returned by a command that ran and whose check does not hold; it has printed what was found.
var errCheck = errors.New("the check does not hold")

// Streams are what a command reads and writes.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	Signals  bool // the process's signals are for the command: SIGINT and SIGTERM end it
}

// grammar is the command line. Every command is its own configuration.
type grammar struct {
	Dev         devCmd         `cmd:"" help:"Run everything in one process: Kafka, NATS, processors, one sidecar."`
	Run         runCmd         `cmd:"" help:"Run an agent's program beside its sidecar."`
	Up          upCmd          `cmd:"" help:"Run several agents' programs, each beside its sidecar."`
	Sidecar     sidecarCmd     `cmd:"" help:"Run the sidecar of one agent."`
	Streams     streamsCmd     `cmd:"" help:"Run the processors: sequencer, closure, frontier."`
	Topics      topicsCmd      `cmd:"" help:"Create, verify or print the topics."`
	Tail        tailCmd        `cmd:"" help:"Follow a workspace's decisions."`
	Console     consoleCmd     `cmd:"" help:"Serve the web page for people who watch."`
	Explain     explainCmd     `cmd:"" help:"Say why a transaction waits, was refused or was committed."`
	Retract     retractCmd     `cmd:"" help:"Undo a committed transaction and everything that follows from it."`
	Residue     residueCmd     `cmd:"" help:"See and mend what could not be made clean."`
	Rules       rulesCmd       `cmd:"" help:"Read and change a workspace's rules."`
	Demo        demoCmd        `cmd:"" help:"Watch agents settle real work in one order, and check it."`
	Policy      policyCmd      `cmd:"" help:"Check, test, explain and fuzz a policy file."`
	Sim         simCmd         `cmd:"" help:"Run the fold through simulated crashes and losses, and check it."`
	Healthcheck healthcheckCmd `cmd:"" help:"Ask a sidecar or a processor whether it is ready; exit 0 or 1."`
	Doctor      doctorCmd      `cmd:"" help:"Look at brokers, topics, clocks, gaps, files; say what mends what is wrong."`
	Pause       pauseCmd       `cmd:"" help:"Sleep until told to end; holds a container's network namespace."`
	Config      configCmd      `cmd:"" help:"Print settings, each with where it comes from."`
	Completion  completionCmd  `cmd:"" help:"Print the script that completes commands in a shell."`
	Complete    completeCmd    `cmd:"" name:"__complete" hidden:""`
	Version     versionCmd     `cmd:"" help:"Print the version."`
}

// output is the choice between text for people and JSON for programs.
type output struct {
	Output string `short:"o" enum:"text,json" default:"text" help:"How to print: text or json."`
}

func (o output) json() bool { return o.Output == "json" }

// print writes v as one line of JSON, or what text writes.
func (o output) print(w io.Writer, v any, text func(io.Writer) error) error {
	if !o.json() {
		return text(plainLines{w})
	}
	data, err := plainJSON(v)
	if err == nil {
		_, err = w.Write(data)
	}
	if err != nil {
		return fmt.Errorf("print as JSON: %w", err)
	}
	return nil
}

// logging is how much a command logs; logs go to the standard error.
type logging struct {
	LogLevel string `enum:"debug,info,warn,error" default:"warn" help:"Least severe log line to print: ${enum}."`
}

func (l logging) logger(w io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.LogLevel)); err != nil {
		panic("cli: log level " + l.LogLevel + " passed the flag's check: " + err.Error())
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
}

// quit is how kong's own exits (of --help) come out of the parser.
type quit int

// Main runs the command that args name and returns the exit code.
func Main(ctx context.Context, args []string, s Streams) (code int) {
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
	parser := newParser(&grammar{}, s)
	command, err := parser.Parse(args)
	if err != nil {
		return usage(s.Err, err)
	}
	if !strings.HasPrefix(command.Command(), "config print") { // which says it itself
		for _, warning := range strangeVariables(parser.Model, os.Environ(), true) {
			fmt.Fprintln(s.Err, "hence: warning:", warning)
		}
	}
	ctx, stop := s.untilSignal(ctx, command)
	defer stop()
	command.BindTo(ctx, (*context.Context)(nil))
	return exitCode(ctx, s.Err, command.Run())
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

func newParser(g *grammar, s Streams) *kong.Kong {
	parser, err := kong.New(g,
		kong.Name("hence"),
		kong.Description("Hence settles what agents read, write and do: together, in one order, once it still holds."),
		kong.Writers(s.Out, s.Err),
		kong.Exit(func(code int) { panic(quit(code)) }),
		kong.DefaultEnvars("HENCE"),
		kong.Bind(s),
	)
	if err != nil {
		panic("cli: the grammar is wrong: " + err.Error())
	}
	return parser
}

// signalled is a command that deals with signals itself.
type signalled interface{ handlesSignals() }

// untilSignal returns a context that also ends at a signal, unless the command wants to see them.
func (s Streams) untilSignal(ctx context.Context, command *kong.Context) (context.Context, context.CancelFunc) {
	node := command.Selected()
	if !s.Signals || node == nil {
		return ctx, func() {}
	}
	if _, own := node.Target.Addr().Interface().(signalled); own {
		return ctx, func() {}
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	return ctx, stop
}

// usage explains a command line that was not understood.
func usage(w io.Writer, err error) int {
	about := "hence"
	if p, ok := errors.AsType[*kong.ParseError](err); ok && p.Context != nil && p.Context.Selected() != nil {
		about = p.Context.Selected().FullPath()
	}
	fmt.Fprintf(w, "hence: %v\nRun \"%s --help\" for its flags.\n", err, about)
	return ExitUsage
}

func exitCode(ctx context.Context, w io.Writer, err error) int {
	if end, ok := errors.AsType[*exit](err); ok {
		if end.err != nil {
			fmt.Fprintf(plainLines{w}, "hence: %v\n", end.err)
		}
		return end.code
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
	fmt.Fprintf(plainLines{w}, "hence: %v\n", err)
	return ExitFailed
}

// isTerminal says whether somebody watches.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
