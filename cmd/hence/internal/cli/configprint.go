package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/hence-dev/hence/cmd/hence/internal/exit"
	"github.com/hence-dev/hence/cmd/hence/internal/show"
	"github.com/hence-dev/hence/gate/spelling"
)

// configCmd groups what can be done with settings.
type configCmd struct {
	Print configPrintCmd `cmd:"" help:"Print the settings of a command and the source of each."`
}

// configPrintCmd is the configuration of "hence config print".
type configPrintCmd struct {
	output
	Command []string `arg:"" optional:"" passthrough:"" help:"Command with its flags; without it, all commands."`
}

// Help is what "hence config print --help" says beyond the flags.
func (c *configPrintCmd) Help() string {
	return `A setting comes from a flag, else from the environment (HENCE_ and the flag's name in capitals), else from the
context file of the running "hence dev", else it is the default. If a given address differs from that of hence dev,
nothing is taken from its file; if a token is given without an address, neither address, token nor workspace of its
sidecar are. Secrets are shown as ********. Variables that begin with HENCE_ and that no command reads are listed, with
the name that is probably meant.

Exit code: 0, 2 if the command is unknown, 3 if a setting from the environment cannot be read.`
}

// The origins of a setting.
const (
	fromFlag        = "flag"
	fromEnvironment = "environment"
	fromContext     = "context file"
	fromDefault     = "default"
)

// Setting is one setting of a command, in "hence config print -o json".
type Setting struct {
	Name    string `json:"name"`  // of the flag
	Value   string `json:"value"` // as it would be written; secrets are masked
	Origin  string `json:"origin"`
	Env     string `json:"env,omitempty"`     // the variable that sets it
	Problem string `json:"problem,omitempty"` // why the command would not take it
}

// CommandSettings are those of one command.
type CommandSettings struct {
	Command  string    `json:"command"`
	Settings []Setting `json:"settings"`
}

// Settings is the line of "hence config print -o json".
type Settings struct {
	Commands []CommandSettings `json:"commands"`
	Warnings []string          `json:"warnings"`          // about variables that no command reads, and context files
	Context  string            `json:"context,omitempty"` // the file of the "hence dev" that runs
}

// Run prints.
func (c *configPrintCmd) Run(s Streams, dev *devContext) error {
	parser := newParser(&grammar{}, s)
	line, err := kong.Trace(parser, c.Command)
	if err == nil {
		err = line.Error
	}
	if err != nil {
		return &exit.Error{Code: ExitUsage, Err: fmt.Errorf("%w: see hence --help for the commands", err)}
	}
	node := line.Selected()
	if node == nil {
		node = parser.Model.Node
	}
	out := Settings{Commands: []CommandSettings{}, Warnings: strangeVariables(parser.Model, os.Environ(), false)}
	bad := false
	for _, leaf := range leaves(node) {
		of := CommandSettings{strings.TrimPrefix(leaf.Path(), parser.Model.Name+" "), []Setting{}}
		for _, group := range leaf.AllFlags(true) {
			for _, flag := range group {
				if flag.Name != "help" {
					of.Settings = append(of.Settings, settingOf(dev, line, leaf, flag))
					bad = bad || of.Settings[len(of.Settings)-1].Problem != ""
				}
			}
		}
		out.Commands = append(out.Commands, of)
	}
	if dev.file != nil {
		out.Context = dev.file.Path
	}
	out.Warnings = append(out.Warnings, dev.notes()...)
	if err := c.print(s.Out, out, out.write); err != nil {
		return err
	}
	if bad {
		return errCheck
	}
	return nil
}

// leaves are the commands below a node that can be run, itself included.
func leaves(node *kong.Node) []*kong.Node {
	if node.Leaf() && node.Type == kong.CommandNode {
		return []*kong.Node{node}
	}
	return node.Leaves(true)
}

func (s Settings) write(w io.Writer) error {
	for _, c := range s.Commands {
		t := show.Table{Head: []string{"hence " + c.Command, "", ""}}
		for _, one := range c.Settings {
			origin := one.Origin
			if origin == fromEnvironment {
				origin = one.Env
			}
			if one.Problem != "" {
				origin += ": " + one.Problem
			}
			t.Add("  --"+one.Name, one.Value, origin)
		}
		if err := t.Write(w); err != nil {
			return err
		}
	}
	if s.Context != "" {
		fmt.Fprintf(w, "context file: %s\n", s.Context)
	}
	for _, warning := range s.Warnings {
		if _, err := fmt.Fprintln(w, "warning:", warning); err != nil {
			return err
		}
	}
	return nil
}

// settingOf says what a flag of a command is, seen from a command line.
func settingOf(dev *devContext, line *kong.Context, node *kong.Node, flag *kong.Flag) Setting {
	s := Setting{Name: flag.Name, Value: flag.Default, Origin: fromDefault}
	if flag.IsBool() && s.Value == "" {
		s.Value = "false"
	}
	if len(flag.Envs) > 0 {
		s.Env = flag.Envs[0]
	}
	if value, ok := dev.of(line, node, flag); ok {
		s.Value, s.Origin = value, fromContext
	}
	if env, value := fromEnv(flag); env != "" {
		s.Value, s.Origin, s.Env, s.Problem = value, fromEnvironment, env, problemOf(flag, value)
	}
	for _, p := range line.Path {
		if p.Flag == flag {
			s.Value, s.Origin, s.Problem = written(line.FlagValue(flag)), fromFlag, ""
		}
	}
	s.Value = masked(flag.Name, s.Value)
	return s
}

// problemOf says why a flag would not take a text.
func problemOf(flag *kong.Flag, text string) string {
	value, err := parsed(flag, text)
	if err != nil {
		return masked(flag.Name, err.Error())
	}
	if flag.Enum != "" && !flag.EnumMap()[written(value.Interface())] {
		return "it must be one of " + strings.Join(flag.EnumSlice(), ", ")
	}
	return ""
}

// strangeVariables are those that begin with HENCE_ and that no command reads; only those that are probably misspelt,
// if that is asked for.
func strangeVariables(model *kong.Application, env []string, misspelt bool) []string {
	known, out := knownVariables(model.Node), []string{}
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		short, ours := strings.CutPrefix(name, "HENCE_")
		if !ours || slices.Contains(known, short) || ofTests(short) {
			continue
		}
		if near := spelling.Nearest(short, known); near != "" {
			out = append(out, fmt.Sprintf("%s is read by no command: did you mean HENCE_%s?", name, near))
		} else if !misspelt {
			out = append(out, name+" is read by no command")
		}
	}
	slices.Sort(out)
	return out
}

// knownVariables are the names, without HENCE_, that some command reads.
func knownVariables(node *kong.Node) (names []string) {
	for _, flag := range node.Flags {
		for _, env := range flag.Envs {
			names = append(names, strings.TrimPrefix(env, "HENCE_"))
		}
	}
	for _, child := range node.Children {
		names = append(names, knownVariables(child)...)
	}
	return names
}

// ofTests says whether a variable is for the project's own tests or its compose files.
func ofTests(short string) bool {
	return slices.ContainsFunc([]string{"TEST_", "IT_", "REQUIRE_", "EXPLORE_", "FAILPOINT"}, func(p string) bool {
		return strings.HasPrefix(short, p)
	}) || strings.HasSuffix(short, "IMAGE")
}
