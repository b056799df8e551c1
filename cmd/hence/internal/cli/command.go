package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/cluster"
	"github.com/hence-dev/hence/cmd/hence/internal/exit"
	"github.com/hence-dev/hence/cmd/hence/internal/show"
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
var errCheck = errors.New("the check failed")

// misused is a value of a flag, or of several together, that the command cannot use: found before anything is started.
func misused(err error) error { return &exit.Error{Code: ExitUsage, Err: err} }

// Streams are what a command reads and writes.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	Signals  bool // the process's signals are for the command: SIGINT and SIGTERM end it
}

// output is the choice between text for people and JSON for programs.
type output struct {
	Output string `short:"o" enum:"text,json" default:"text" help:"Output format: text or json."`
}

func (o output) json() bool { return o.Output == "json" }

// print writes v as one line of JSON, or what text writes.
func (o output) print(w io.Writer, v any, text func(io.Writer) error) error {
	if !o.json() {
		return text(show.Lines(w))
	}
	return show.WriteJSON(w, v)
}

// logging is how much a command logs; logs go to the standard error.
type logging struct {
	LogLevel string `enum:"debug,info,warn,error" default:"warn" help:"Least severe log level to print: ${enum}."`
}

func (l logging) logger(w io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.LogLevel)); err != nil {
		panic("cli: log level " + l.LogLevel + " passed the flag's check: " + err.Error())
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
}

// signalled is a command that deals with signals itself.
type signalled interface{ handlesSignals() }

// sayAs writes lines in the name of a command.
func sayAs(w io.Writer, command string) func(string, ...any) {
	return func(format string, args ...any) {
		fmt.Fprintf(show.Lines(w), "hence "+command+": "+format+"\n", args...)
	}
}

// orphanBound is how long a process may take to end once its parent is gone.
const orphanBound = 10 * time.Second

// parent ties a process to the one that started it.
type parent struct {
	WithParent bool `hidden:"" help:"End when the standard input ends."`
}

// bind returns a context that also ends when the parent does.
func (p parent) bind(ctx context.Context, in io.Reader) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if p.WithParent {
		// This goroutine ends with the process: a read of the standard input cannot be called off. Nothing would
		// kill a child that does not end when its parent is gone, so it does that itself.
		go func() {
			_, _ = io.Copy(io.Discard, in)
			cancel()
			time.Sleep(orphanBound)
			os.Exit(ExitFailed)
		}()
	}
	return ctx, cancel
}

// printReady prints one line: what serves where.
func printReady(w io.Writer, o output, role, agent, address string) error {
	ready := cluster.Ready{Role: role, Agent: agent, PID: os.Getpid(), Address: address}
	if !o.json() {
		_, err := fmt.Fprintf(w, "%s %s is ready at %s\n", role, agent, address)
		return err
	}
	return json.NewEncoder(w).Encode(ready)
}

// collectAt is how much garbage, in percent of what lives, comes together in the processors, and in a sidecar that
// reads its snapshot. Go's own default is 100, so half of what they hold would be garbage.
const collectAt = 50

// collectSooner is called at the start of a process that lives long, and what it returns where garbage is to be
// collected as Go does by default: in a sidecar at work that takes a fifth off the cost of a commit. GOGC, where it is
// set, counts.
func collectSooner() (asUsual func()) {
	if _, set := os.LookupEnv("GOGC"); set {
		return func() {}
	}
	former := debug.SetGCPercent(collectAt)
	return func() { debug.SetGCPercent(former) }
}

// thisProgram is the path under which child processes of this one are started.
func thisProgram() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program for child processes: %w", err)
	}
	return path, nil
}
