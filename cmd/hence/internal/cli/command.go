package cli

import (
	"errors"
	"fmt"
	"io"
	"log/slog"

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
