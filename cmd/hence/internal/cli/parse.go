package cli

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
)

// prepared is a command that reads or refuses something of its flags before it runs. What a command embeds is one too:
// a command that embeds several, or one that embeds another, says itself which of them come first.
type prepared interface{ prepare() error }

// parse is the command that some arguments name, with its flags set. Besides an error the line is what was understood
// so far.
//
// Kong's own Parse and Run look up hooks and Run by name, in each type. The linker cannot see which names these are,
// so it would keep all exported methods of all types: 5 MB of the binary. What they do is therefore done here with
// interfaces; .ci/release.go refuses a binary that looks up methods by name.
func parse(parser *kong.Kong, args []string) (*kong.Context, error) {
	line, err := kong.Trace(parser, args)
	if err == nil {
		err = line.Error
	}
	if err != nil {
		if i := negative(args, err); i >= 0 { // taken for a short flag: as a value the flag's own rule says what to give
			joined := slices.Concat(args[:i], []string{args[i] + "=" + args[i+1]}, args[i+2:])
			return parse(parser, joined)
		}
		return line, err
	}
	for _, at := range line.Path {
		if at.Flag != nil && at.Flag == parser.Model.HelpFlag { // wins over what is missing or wrong
			if err := printHelp(line); err != nil {
				return line, err
			}
			parser.Exit(ExitOK)
		}
	}
	if err := line.Reset(); err != nil {
		return line, err
	}
	if err := line.Resolve(); err != nil {
		return line, err
	}
	if _, err := line.Apply(); err != nil {
		return line, err
	}
	if err := complained(line); err != nil {
		return line, err
	}
	if command, ok := targetOf(line.Selected()).(prepared); ok {
		return line, command.prepare()
	}
	return line, nil
}

// complained says what the grammar has against a line whose flags are set: a choice that there is not, or something
// that is missing.
func complained(line *kong.Context) error {
	for _, at := range line.Path {
		node := at.Node()
		if node == nil {
			continue
		}
		for _, value := range node.Values() {
			if value.Enum != "" && value.Set {
				if err := chosen(value); err != nil {
					return err
				}
			}
		}
	}
	node := line.Selected()
	if node == nil {
		node = line.Model.Node
	}
	for _, group := range node.AllFlags(false) {
		for _, flag := range group {
			if flag.Required && !flag.Set {
				return fmt.Errorf("missing flag: %s", flag.Summary())
			}
		}
	}
	var missing []string
	for _, value := range node.Positional {
		if value.Required && !value.Set {
			missing = append(missing, value.Summary())
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("expected %q", strings.Join(missing, " "))
	}
	for _, child := range node.Children {
		if !child.Hidden {
			missing = append(missing, child.Name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("expected one of %s", quoted(missing))
	}
	return nil
}

// negative is where a flag stands whose value, a number below zero, was taken for a flag; -1: no such thing was said.
func negative(args []string, said error) int {
	for i := 1; i < len(args); i++ {
		flag, value := args[i-1], args[i]
		if _, err := strconv.ParseFloat(value, 64); err == nil && strings.HasPrefix(value, "-") &&
			strings.HasPrefix(said.Error(), flag+": expected ") && strings.Contains(said.Error(), strconv.Quote(value)) {
			return i - 1
		}
	}
	return -1
}

func quoted(words []string) string { return `"` + strings.Join(words, `", "`) + `"` }

// chosen refuses a value that is none of its choices.
func chosen(value *kong.Value) error {
	given, choices := value.Target, value.EnumSlice()
	values := []reflect.Value{given}
	if given.Kind() == reflect.Slice {
		values = values[:0]
		for i := range given.Len() {
			values = append(values, given.Index(i))
		}
	}
	for _, one := range values {
		if text := fmt.Sprint(one); !slices.Contains(choices, text) {
			return fmt.Errorf("%s must be one of %s but got %q", value.ShortSummary(), quoted(choices), text)
		}
	}
	return nil
}

// targetOf is the struct of a command, by its address.
func targetOf(node *kong.Node) any { return node.Target.Addr().Interface() }

// runOf is what runs a command; nil: its Run has a form that is not listed.
func runOf(command any, line *kong.Context, s Streams, dev *devContext) func(context.Context) error {
	switch command := command.(type) {
	case interface{ Run(Streams) error }:
		return func(context.Context) error { return command.Run(s) }
	case interface{ Run(context.Context) error }:
		return command.Run
	case interface {
		Run(context.Context, Streams) error
	}:
		return func(ctx context.Context) error { return command.Run(ctx, s) }
	case interface {
		Run(Streams, *devContext) error
	}:
		return func(context.Context) error { return command.Run(s, dev) }
	case interface {
		Run(context.Context, Streams, *devContext) error
	}:
		return func(ctx context.Context) error { return command.Run(ctx, s, dev) }
	case interface {
		Run(context.Context, Streams, *devContext, *kong.Context) error
	}:
		return func(ctx context.Context) error { return command.Run(ctx, s, dev, line) }
	}
	return nil
}
