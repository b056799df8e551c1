package cli

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// wordsOf splits an example as a shell does; quotes are single ones.
func wordsOf(line string) (words []string) {
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			words = append(words, part)
			continue
		}
		words = append(words, strings.Fields(part)...)
	}
	return words
}

// Every command has an example in its help, each example is a line that its command understands, and none is of a
// command that is not there.
func TestExamples(t *testing.T) {
	parser := newParser(&grammar{}, Streams{})
	shown := map[string]int{}
	for _, one := range examples() {
		shown[one.path]++
		line, err := parse(parser, wordsOf(one.line)[1:])
		if err == nil {
			err = checkValues(line)
		}
		if err != nil {
			t.Errorf("%s: %v", one.line, err)
		} else if got := commandPath(line.Selected()) + " "; one.path != "" && !strings.HasPrefix(got, one.path+" ") {
			t.Errorf("%s: it stands in the help of %s", one.line, one.path)
		}
	}
	var walk func(*kong.Node)
	walk = func(node *kong.Node) {
		path := commandPath(node)
		if shown[path] == 0 && !node.Hidden {
			t.Errorf("hence %s has no example", path)
		}
		delete(shown, path)
		for _, child := range node.Children {
			walk(child)
		}
	}
	walk(parser.Model.Node)
	if len(shown) > 0 {
		t.Errorf("examples of no command: %v", shown)
	}
	_, out, _ := hence(t, "tx", "--help")
	if !strings.Contains(out, "Examples:\n  hence tx ls") {
		t.Errorf("the help has no examples:\n%s", out)
	}
	if _, out, _ := hence(t, "--help"); strings.Index(out, "Start:") > strings.Index(out, "Operate:") ||
		!strings.Contains(out, "Watch:") {
		t.Errorf("the commands are in no groups:\n%s", out)
	}
}
