package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/hence-dev/hence/cmd/hence/internal/devfile"
	"github.com/hence-dev/hence/cmd/hence/internal/show"
)

// envCmd is the configuration of "hence env".
type envCmd struct {
	output
	Shell string `enum:"sh,fish" default:"sh" env:"-" help:"Shell syntax: sh (for bash, zsh, dash) or fish."`
}

// Help is what "hence env --help" says beyond the flags.
func (c *envCmd) Help() string {
	return `It prints the addresses and the token of the running "hence dev" as shell variables:

    eval "$(hence env)"                      in bash and zsh
    hence env --shell fish | source          in fish

The commands of hence find it without these variables; curl, viewers and an agent's program need them. If several run,
the one that was started last is used.

Exit code: 0; 1 if none runs.`
}

// variable is one setting of the environment.
type variable struct{ name, value string }

// environmentOf is what programs read to find a "hence dev".
func environmentOf(f *devfile.File) []variable {
	list := []variable{{"HENCE_URL", f.URL}, {"HENCE_TOKEN", f.Token}, {"HENCE_BROKERS", strings.Join(f.Brokers, ",")},
		{"HENCE_NATS", f.NATS}}
	if f.OperatorToken != "" {
		list = append(list, variable{"HENCE_OPERATOR_TOKEN", f.OperatorToken})
	}
	if f.Workspace != "default" {
		list = append(list, variable{"HENCE_WORKSPACE", f.Workspace})
	}
	return list
}

// Run prints.
func (c *envCmd) Run(s Streams, d *devContext) error {
	f := d.find()
	if f == nil {
		says := append([]string{`no hence dev runs: start one with "hence dev"`}, d.notes()...)
		return errors.New(strings.Join(says, "\n  "))
	}
	list := environmentOf(f)
	values := map[string]string{}
	for _, v := range list {
		values[v.name] = v.value
	}
	return c.print(s.Out, values, func(w io.Writer) error {
		for _, v := range list {
			line := "export " + v.name + "=" + show.ShellWord(v.value)
			if c.Shell == "fish" {
				line = "set -gx " + v.name + " " + fishWord(v.value)
			}
			if _, err := fmt.Fprintln(w, line); err != nil {
				return err
			}
		}
		return nil
	})
}

// fishWord quotes a text so that fish takes it as one word.
func fishWord(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(text) + "'"
}
