package cli

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hence-dev/hence/streams/embedded"
)

// What a build without servers advises is there: its commands are commands, and have the flags that it names.
func TestSlimAdvice(t *testing.T) {
	model := newParser(&grammar{}, Streams{}).Model
	flags := map[string][]string{}
	for _, node := range model.Children {
		for _, f := range node.Flags {
			flags[node.Name] = append(flags[node.Name], "--"+f.Name)
		}
	}
	said := embedded.ErrNone.Error()
	for _, name := range []string{"run", "up", "demo"} {
		if !slices.Contains(flags[name], "--brokers") || !slices.Contains(flags[name], "--nats") {
			t.Errorf("hence %s takes no --brokers and --nats", name)
		}
	}
	for _, named := range regexp.MustCompile(`hence ([a-z]+)`).FindAllStringSubmatch(said, -1) {
		if flags[named[1]] == nil {
			t.Errorf("hence %s is no command", named[1])
		}
	}
	if slices.Contains(flags["dev"], "--brokers") || !strings.Contains(said, "hence dev has no cluster but its own") {
		t.Error("it advises flags that hence dev does not take, or none where it takes them")
	}
	if !slices.Contains(flags["run"], "--embedded") || !strings.Contains(said, "--embedded (hence run)") {
		t.Error("it does not say how hence run goes without servers")
	}
}
