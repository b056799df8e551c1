package cli

import (
	_ "embed" // the shells' scripts
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

// completionCmd is the configuration of "hence completion".
type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"Shell of the script: bash, zsh or fish."`
}

// Help is what "hence completion --help" says beyond the flags.
func (c *completionCmd) Help() string {
	return `For this shell:
    source <(hence completion bash)        in bash
    source <(hence completion zsh)         in zsh, after compinit
    hence completion fish | source         in fish
For later shells, add that line to ~/.bashrc, ~/.zshrc or ~/.config/fish/config.fish. The script asks hence itself,
so it knows the commands and flags of the binary that is installed.`
}

//go:embed completion.bash
var bashScript string

//go:embed completion.zsh
var zshScript string

//go:embed completion.fish
var fishScript string

// Run prints the script.
func (c *completionCmd) Run(s Streams) error {
	_, err := io.WriteString(s.Out, map[string]string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}[c.Shell])
	return err
}

// completeCmd is asked by the scripts.
type completeCmd struct {
	Words []string `arg:"" optional:"" passthrough:""`
}

// Run prints what the last word can become, one to a line: the word, a tab, and what it is. Nothing is printed where
// a file's name or a value of the user's belongs; shells complete files then.
func (c *completeCmd) Run(s Streams) error {
	words := c.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	if len(words) == 0 {
		words = []string{""}
	}
	for _, one := range complete(newParser(&grammar{}, s).Model.Node, words) {
		if _, err := fmt.Fprintf(s.Out, "%s\t%s\n", one.word, one.help); err != nil {
			return err
		}
	}
	return nil
}

// candidate is what a word can become.
type candidate struct{ word, help string }

// complete returns what the last of some words can become.
func complete(node *kong.Node, words []string) []candidate {
	last := words[len(words)-1]
	var open *kong.Flag // a flag whose value is next
	args := 0           // positional arguments of the command so far
	for _, word := range words[:len(words)-1] {
		switch {
		case open != nil:
			open = nil
		case word == "--":
			return nil // what follows is a program's
		case strings.HasPrefix(word, "-"):
			name, _, valued := strings.Cut(word, "=")
			if f := flagOf(node, name); f != nil && !valued && !f.IsBool() && !f.IsCounter() {
				open = f
			}
		default:
			child := childOf(node, word)
			if child == nil && len(node.Positional) == 0 {
				return nil // it is no command: nothing is known of the rest
			}
			if child != nil {
				node = child
			} else if args++; len(node.Positional) > 0 && node.Positional[0].Passthrough {
				return nil
			}
		}
	}
	name, value, valued := strings.Cut(last, "=")
	switch {
	case open != nil:
		return choices(open.Value, last, "")
	case valued && strings.HasPrefix(last, "-"):
		if f := flagOf(node, name); f != nil {
			return choices(f.Value, value, name+"=")
		}
		return nil
	case strings.HasPrefix(last, "-"):
		return flagsOf(node, last)
	case args < len(node.Positional):
		return choices(node.Positional[args], last, "")
	}
	var out []candidate
	for _, child := range node.Children {
		if !child.Hidden && strings.HasPrefix(child.Name, last) {
			out = append(out, candidate{child.Name, child.Help})
		}
	}
	return out
}

func childOf(node *kong.Node, name string) *kong.Node {
	for _, child := range node.Children {
		if child.Name == name {
			return child
		}
	}
	return nil
}

// choices are the values of a flag or an argument that begin so, if there is a list of them.
func choices(v *kong.Value, begin, before string) (out []candidate) {
	if v.Enum == "" {
		return nil
	}
	for _, value := range v.EnumSlice() {
		if value != "" && strings.HasPrefix(value, begin) {
			out = append(out, candidate{before + value, ""})
		}
	}
	return out
}

func flagsOf(node *kong.Node, begin string) (out []candidate) {
	for _, group := range node.AllFlags(true) {
		for _, f := range group {
			names := []string{"--" + f.Name}
			if f.Tag.Negatable != "" {
				names = append(names, "--no-"+f.Name)
			}
			for _, name := range names {
				if strings.HasPrefix(name, begin) {
					out = append(out, candidate{name, f.Help})
				}
			}
		}
	}
	return out
}
